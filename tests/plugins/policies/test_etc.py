"""Explore-then-commit on exact means: lengths, arms, estimates and plan as the paper has them.

Everything is computed here from the paper's text, one pull at a time.
"""

import math

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import FloatArray, Instance, Reference
from tests.support.explore_lengths import cost, cut, settling, theorem
from tests.support.noiseless import (
    array,
    build,
    click_bait,
    number,
    planned,
    play,
    problem_of,
)

PLANNER = "best-cycle"


def algorithm_2(n_arms: int, arm: int, m: int, n: int) -> tuple[list[int], list[tuple[str, int]]]:
    """The printed loops: arms pulled, and what each pull is a sample of."""
    arms: list[int] = []
    labels: list[tuple[str, int]] = []
    for i in range(n_arms):
        for _ in range(m):
            arms += [arm] * n + [i]
            labels += [("", 0)] * n + [("r", i)]
    for i in range(n_arms):
        arms += [i] * n + [i] * m
        labels += [("", 0)] * n + [("v", i)] * m
    arms += [arm] * n
    labels += [("", 0)] * n
    return arms, labels


def sample_means(
    instance: Instance, arms: list[int], labels: list[tuple[str, int]], what: str
) -> FloatArray:
    rewards = instance.expected_rewards(arms)
    return np.array(
        [
            np.mean([x for x, label in zip(rewards, labels, strict=True) if label == (what, i)])
            for i in range(instance.n_arms)
        ]
    )


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam"), [(2, 50_000, 0.3), (3, 100_000, 0.1), (2, 60_000, 0.4)]
)
def test_with_the_papers_tuning_everything_is_as_printed(
    n_arms: int, horizon: int, lam: float
) -> None:
    instance, arm = click_bait(n_arms, lam), n_arms - 1
    eps, m, n = theorem(n_arms, horizon, lam)
    arms, labels = algorithm_2(n_arms, arm, m, n)
    assert len(arms) <= horizon // 2  # nothing to cut
    policy = build("etc", problem_of(instance, horizon, arm=arm), tuning="paper", planner=PLANNER)
    played = play(policy, instance, horizon)
    shown = played.diagnostics
    assert number(shown, "epsilon") == pytest.approx(eps)
    assert (shown["samples"], shown["settle"], shown["restore"]) == (m, n, n)
    assert shown["clipped"] is False
    assert shown["exploration"] == len(arms)
    assert played.arms[: len(arms)].tolist() == arms
    r_hat = sample_means(instance, arms, labels, "r")
    v_hat = sample_means(instance, arms, labels, "v")
    b_hat = np.minimum(v_hat / r_hat, 1)
    b_hat[arm] = 1
    np.testing.assert_allclose(array(shown, "r_hat"), r_hat, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "v_hat"), v_hat, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "b_hat"), b_hat, rtol=1e-12)
    state = Instance(r_hat, b_hat, lam).state_after(arms)
    assert number(shown, "state") == pytest.approx(state, rel=1e-12)
    left = horizon - len(arms)
    np.testing.assert_array_equal(played.arms[len(arms) :], planned(shown, lam, left, PLANNER))
    assert shown["plan"]


@pytest.mark.parametrize("n_arms", [2, 5])
@pytest.mark.parametrize("lam", [1.0, 0.99, 0.5, 0.01, 1e-3, 1e-8, 1e-20, 0.0])
@pytest.mark.parametrize("horizon", [25, 400, 10_000])
def test_what_does_not_fit_is_cut_and_said(n_arms: int, lam: float, horizon: int) -> None:
    instance = click_bait(n_arms, lam)
    problem = problem_of(instance, horizon, arm=n_arms - 1)
    shown = play(build("etc", problem, tuning="paper", planner=PLANNER), instance, horizon)
    if lam == 0:
        m, n = math.ceil(math.log(horizon)), 0.0
    elif lam == 1:
        m, n = horizon, 1.0
    elif lam < 1e-4:
        m, n = math.ceil(math.log(horizon)), float(horizon)  # epsilon is cut to 1
    else:
        eps, m, _ = theorem(n_arms, horizon, lam)
        eps = min(eps, 1.0)
        m, n = math.ceil(math.log(horizon) / eps**2), float(settling(lam, eps))
    expected = cut(n_arms, horizon, m, n)
    found = shown.diagnostics
    assert (found["samples"], found["settle"]) == expected
    assert found["clipped"] is (expected != (m, n))
    assert found["exploration"] == cost(n_arms, *expected)
    assert number(found, "exploration") <= horizon // 2


def test_overrides_replace_what_the_tuning_says() -> None:
    instance = click_bait(3, 0.4)
    problem = problem_of(instance, 10_000, arm=2)
    for tuning in ("paper", "balanced"):
        policy = build("etc", problem, tuning=tuning, epsilon=0.05, samples=40)
        shown = play(policy, instance, 10_000).diagnostics
        assert (shown["samples"], shown["clipped"]) == (40, False)
        assert shown["settle"] == shown["restore"] == settling(0.4, 0.05)
        policy = build("etc", problem, tuning=tuning, epsilon=0.05, samples=4_000)
        shown = play(policy, instance, 10_000).diagnostics
        assert shown["samples_asked"] == 4_000
        assert shown["clipped"] is True


def loss(n_arms: int, horizon: int, lam: float, m: int, n: int, r: int) -> float:
    """What "balanced" minimises: exploring pulls, and errors in sum for every round."""
    pulls = n_arms * m * (r + 1) + n_arms * (n + m) + n
    off = 0.0
    for _ in range(n_arms * m - 1):  # one pull to end state 0, r pulls back towards 1
        off = (1 - lam) ** r * (off + lam * (1 - off))
    relevance = 1 - (1 - lam) ** horizon
    errors = off + 1 / math.sqrt(m) + relevance * ((1 - lam) ** n + 1 / math.sqrt(m))
    return pulls + horizon * errors


@pytest.mark.parametrize("n_arms", [2, 3])
@pytest.mark.parametrize("lam", [1.0, 0.7, 0.2, 0.03])
@pytest.mark.parametrize("horizon", [300, 2_000])
def test_balanced_lengths_are_nearly_the_best_of_all(n_arms: int, lam: float, horizon: int) -> None:
    instance = click_bait(n_arms, lam)
    policy = build(
        "etc", problem_of(instance, horizon, arm=n_arms - 1), tuning="balanced", planner=PLANNER
    )
    shown = play(policy, instance, horizon).diagnostics
    chosen = [int(number(shown, name)) for name in ("samples", "settle", "restore")]
    best = math.inf
    for n in range(0, 80, 1 if horizon < 1000 else 3):
        for r in range(25):
            most = (horizon // 2 - n * (n_arms + 1)) // (n_arms * (r + 2))
            for m in range(1, most + 1, max(1, most // 12)):
                best = min(best, loss(n_arms, horizon, lam, m, n, r))
    assert loss(n_arms, horizon, lam, *chosen) <= 1.02 * best


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "q0"),
    [(3, 20_000, 0.2, 1.0), (2, 5_000, 0.9, 0.3), (5, 50_000, 0.01, 1.0), (3, 9_000, 1.0, 0.0)],
)
def test_balanced_explores_restores_settles_and_plans_from_where_it_is(
    n_arms: int, horizon: int, lam: float, q0: float
) -> None:
    instance, arm = click_bait(n_arms, lam, q0), n_arms - 1
    policy = build("etc", problem_of(instance, horizon, arm=arm), planner=PLANNER)
    played = play(policy, instance, horizon)
    shown = played.diagnostics
    m, n, r = (int(number(shown, name)) for name in ("samples", "settle", "restore"))
    arms = [arm] * n if q0 != 1 else []
    labels = [("", 0)] * len(arms)
    for i in range(n_arms):
        arms += ([arm] * r + [i]) * m
        labels += ([("", 0)] * r + [("r", i)]) * m
    for i in range(n_arms):
        arms += [i] * (n + m)
        labels += [("", 0)] * n + [("v", i)] * m
    assert played.arms[: len(arms)].tolist() == arms
    r_hat = sample_means(instance, arms, labels, "r")
    b_hat = np.minimum(sample_means(instance, arms, labels, "v") / r_hat, 1)
    b_hat[arm] = 1
    np.testing.assert_allclose(array(shown, "r_hat"), r_hat, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "b_hat"), b_hat, rtol=1e-12)
    state = Instance(r_hat, b_hat, lam, q0).state_after(arms)
    assert number(shown, "state") == pytest.approx(state, rel=1e-12)
    left = horizon - len(arms)
    np.testing.assert_array_equal(played.arms[len(arms) :], planned(shown, lam, left, PLANNER))


def test_any_planner_can_be_named_with_parameters_of_its_own() -> None:
    instance = click_bait(2, 0.5)
    planners: list[Reference] = ["exact", {"use": "certified", "gap": 1e-6}, "best-fixed"]
    for planner in planners:
        policy = build("etc", problem_of(instance, 2_000, arm=1), planner=planner)
        played = play(policy, instance, 2_000)
        explored = int(number(played.diagnostics, "exploration"))
        expected = planned(played.diagnostics, 0.5, 2_000 - explored, planner)
        np.testing.assert_array_equal(played.arms[explored:], expected)


def test_an_arm_that_never_pays_is_left_out_and_a_replenishing_one_is_trusted() -> None:
    instance = Instance([1.0, 0.0, 0.0], [0.0, 1.0, 0.9], 1.0)
    played = play(build("etc", problem_of(instance, 3_000, arm=1)), instance, 3_000)
    shown = played.diagnostics
    assert array(shown, "never_paid").tolist() == [1, 2]
    np.testing.assert_allclose(array(shown, "r_hat"), [1, 0, 0])
    np.testing.assert_allclose(array(shown, "b_hat"), [0, 1, 0], atol=1e-2)
    explored = int(number(shown, "exploration"))
    committed = played.arms[explored:]
    assert set(committed.tolist()) == {0, 1}
    assert played.means[explored:].mean() == pytest.approx(0.5, abs=0.01)  # what alternating pays


def test_end_states_above_one_are_cut_to_one() -> None:
    instance = Instance([0.5, 0.5], [1.0, 0.9], 0.5, q0=0.2)  # r is sampled below state 1
    problem = problem_of(instance, 400, arm=1)
    shown = play(build("etc", problem, epsilon=1.0, samples=5), instance, 400).diagnostics
    assert array(shown, "v_hat")[0] > array(shown, "r_hat")[0]
    assert array(shown, "b_hat").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["etc", "etc-unknown-arm"])
@pytest.mark.parametrize("tuning", ["paper", "balanced"])
def test_when_nothing_pays_or_nothing_fits_all_arms_are_played_in_turn(
    name: str, tuning: str
) -> None:
    nothing = Instance([0.0, 0.0, 0.0], [0.5, 1.0, 0.1], 0.3)
    played = play(build(name, problem_of(nothing, 500, arm=1), tuning=tuning), nothing, 500)
    explored = int(number(played.diagnostics, "exploration"))
    assert played.arms[explored:].tolist() == [k % 3 for k in range(500 - explored)]
    assert "none has paid" in str(played.diagnostics["plan"])
    short = play(build(name, problem_of(nothing, 11, arm=1), tuning=tuning), nothing, 11)
    assert short.arms.tolist() == [k % 3 for k in range(11)]
    assert "no room" in str(short.diagnostics["plan"])
    assert short.diagnostics["samples"] == 0


@pytest.mark.parametrize(("n_arms", "horizon"), [(50, 1000), (10, 60), (5, 15)])
def test_what_the_horizon_cut_is_said_with_balanced_tuning_too(n_arms: int, horizon: int) -> None:
    plugins = bdes.load_plugins()
    problem = bdes.Problem(n_arms, horizon, 0.3, 0)
    world = plugins.environment("bernoulli", seed=1, r=[0.5] * n_arms, b=[1.0] * n_arms, lam=0.3)
    trace = bdes.simulate(world, plugins.policy("etc", problem, seed=1), horizon)
    assert trace.diagnostics["clipped"] is True
    assert float(str(trace.diagnostics["samples"])) < float(str(trace.diagnostics["samples_asked"]))


@pytest.mark.parametrize("said", [2, 0, 1])
def test_a_wrong_replenishing_arm_shows_in_the_diagnostics(said: int) -> None:
    instance = click_bait(3, 0.3)
    policy = build("etc", problem_of(instance, 200_000, arm=said), epsilon=1e-6, samples=500)
    shown = play(policy, instance, 200_000).diagnostics
    # Everything is measured relative to the arm that is taken to restore the state.
    assert shown["best_restoring"] == 2
    assert number(shown, "restoring_ratio") == pytest.approx(1 / instance.b[said], rel=1e-3)
    doubt = number(shown, "restoring_doubt")
    assert doubt > 5 if said != 2 else abs(doubt) < 0.01
