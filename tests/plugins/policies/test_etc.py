"""Explore-then-commit on exact means: lengths, arms, estimates and plan as the paper has them.

Everything is computed here from the paper's text, one pull at a time.
"""

import math
from typing import Any

import numpy as np
import pytest

from bdes_framework import Diagnostics, Instance, Reference
from tests.support.explore_lengths import cost, cut, settling, theorem
from tests.support.noiseless import Played, array, click_bait, number, planned, play_named
from tests.support.work import n_lines

PLANNER = "best-cycle"
TUNINGS = ("paper", "balanced")

Pulls = list[tuple[int, int]]
"""Arms, and the slot each reward is summed in: i for r_i, K + i for r_i·b_i, -1 for none."""


def repeated(arm: int, n: int, slot: int = -1) -> Pulls:
    return [(arm, slot)] * n


def settled(i: int, n_arms: int, m: int, n: int) -> Pulls:
    """N pulls of an arm, then M samples of its end state."""
    return repeated(i, n) + repeated(i, m, n_arms + i)


def lengths(shown: Diagnostics) -> tuple[int, int, int]:
    m, n, r = (int(number(shown, name)) for name in ("samples", "settle", "restore"))
    return m, n, r


def assert_explored(
    played: Played, pulls: Pulls, instance: Instance, *, known_arm: int | None
) -> None:
    """Check arms, estimates, state and plan, given all pulls of the exploration."""
    shown, explored = played.diagnostics, len(pulls)
    arms, slots = np.array(pulls).T
    assert shown["exploration"] == explored
    np.testing.assert_array_equal(played.arms[:explored], arms)
    rewards = instance.expected_rewards(arms)[slots >= 0]
    sampled = slots[slots >= 0]
    r_hat, v_hat = np.split(np.bincount(sampled, rewards) / np.bincount(sampled), 2)
    b_hat, q0 = v_hat / r_hat, instance.q0 * (v_hat / r_hat).max()
    if known_arm is not None:
        b_hat, q0 = np.minimum(b_hat, 1), instance.q0
        b_hat[known_arm] = 1
    for name, expected in (("r_hat", r_hat), ("v_hat", v_hat), ("b_hat", b_hat)):
        np.testing.assert_allclose(array(shown, name), expected, rtol=1e-12)
    state = Instance(r_hat, b_hat, instance.lam, q0).state_after(arms)
    assert number(shown, "state") == pytest.approx(state, rel=1e-12)
    rest = planned(shown, instance.lam, played.arms.size - explored, PLANNER)
    np.testing.assert_array_equal(played.arms[explored:], rest)


# -- with a known replenishing arm ----------------------------------------------------------


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam"), [(2, 50_000, 0.3), (3, 100_000, 0.1), (2, 60_000, 0.4)]
)
def test_paper_tuning_is_as_printed(n_arms: int, horizon: int, lam: float) -> None:
    instance, arm = click_bait(n_arms, lam), n_arms - 1
    eps, m, n = theorem(n_arms, horizon, lam)
    pulls: Pulls = []
    for i in range(n_arms):
        pulls += [*repeated(arm, n), (i, i)] * m
    for i in range(n_arms):
        pulls += settled(i, n_arms, m, n)
    pulls += repeated(arm, n)
    assert len(pulls) <= horizon // 2  # nothing to cut
    played = play_named("etc", instance, horizon, arm, tuning="paper", planner=PLANNER)
    shown = played.diagnostics
    assert number(shown, "epsilon") == pytest.approx(eps)
    assert (*lengths(shown), shown["clipped"]) == (m, n, n, False)
    assert_explored(played, pulls, instance, known_arm=arm)
    assert shown["plan"]


@pytest.mark.parametrize("n_arms", [2, 5])
@pytest.mark.parametrize("lam", [1.0, 0.99, 0.5, 0.01, 1e-3, 1e-8, 1e-20, 0.0])
@pytest.mark.parametrize("horizon", [25, 400, 10_000])
def test_lengths_that_do_not_fit_are_cut(n_arms: int, lam: float, horizon: int) -> None:
    instance = click_bait(n_arms, lam)
    shown = play_named(
        "etc", instance, horizon, n_arms - 1, tuning="paper", planner=PLANNER
    ).diagnostics
    m, n = math.ceil(math.log(horizon)), 0.0
    if lam == 1:
        m, n = horizon, 1.0
    elif 0 < lam < 1e-4:
        n = float(horizon)  # epsilon is cut to 1
    elif lam > 0:
        eps = min(theorem(n_arms, horizon, lam)[0], 1.0)
        m, n = math.ceil(math.log(horizon) / eps**2), float(settling(lam, eps))
    expected = cut(n_arms, horizon, m, n)
    assert (shown["samples"], shown["settle"]) == expected
    assert shown["clipped"] is (expected != (m, n))
    assert shown["exploration"] == cost(n_arms, *expected)
    assert number(shown, "exploration") <= horizon // 2


@pytest.mark.parametrize("tuning", TUNINGS)
def test_epsilon_and_samples_override_the_tuning(tuning: str) -> None:
    instance = click_bait(3, 0.4)
    for samples in (40, 4_000):
        given: dict[str, Any] = {"tuning": tuning, "epsilon": 0.05, "samples": samples}
        shown = play_named("etc", instance, 10_000, 2, **given).diagnostics
        assert (shown["samples_asked"], shown["clipped"]) == (samples, samples == 4_000)
        if samples == 40:
            assert lengths(shown) == (40, settling(0.4, 0.05), settling(0.4, 0.05))


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
def test_balanced_lengths_are_nearly_the_best(n_arms: int, lam: float, horizon: int) -> None:
    shown = play_named(
        "etc", click_bait(n_arms, lam), horizon, n_arms - 1, planner=PLANNER
    ).diagnostics
    best = math.inf
    for n in range(0, 80, 1 if horizon < 1000 else 3):
        for r in range(25):
            most = (horizon // 2 - n * (n_arms + 1)) // (n_arms * (r + 2))
            for m in range(1, most + 1, max(1, most // 12)):
                best = min(best, loss(n_arms, horizon, lam, m, n, r))
    assert loss(n_arms, horizon, lam, *lengths(shown)) <= 1.02 * best


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "q0"),
    [(3, 20_000, 0.2, 1.0), (2, 5_000, 0.9, 0.3), (5, 50_000, 0.01, 1.0), (3, 9_000, 1.0, 0.0)],
)
def test_balanced_restores_settles_and_plans(
    n_arms: int, horizon: int, lam: float, q0: float
) -> None:
    instance, arm = click_bait(n_arms, lam, q0), n_arms - 1
    played = play_named("etc", instance, horizon, arm, planner=PLANNER)
    m, n, r = lengths(played.diagnostics)
    pulls = repeated(arm, n) if q0 != 1 else []
    for i in range(n_arms):
        pulls += [*repeated(arm, r), (i, i)] * m
    for i in range(n_arms):
        pulls += settled(i, n_arms, m, n)
    assert_explored(played, pulls, instance, known_arm=arm)


@pytest.mark.parametrize("planner", ["exact", {"use": "certified", "gap": 1e-6}, "best-fixed"])
def test_any_planner_can_be_named(planner: Reference) -> None:
    played = play_named("etc", click_bait(2, 0.5), 2_000, 1, planner=planner)
    explored = int(number(played.diagnostics, "exploration"))
    expected = planned(played.diagnostics, 0.5, 2_000 - explored, planner)
    np.testing.assert_array_equal(played.arms[explored:], expected)


def test_arms_that_never_pay_are_left_out() -> None:
    played = play_named("etc", Instance([1.0, 0.0, 0.0], [0.0, 1.0, 0.9], 1.0), 3_000, 1)
    shown = played.diagnostics
    assert array(shown, "never_paid").tolist() == [1, 2]
    np.testing.assert_allclose(array(shown, "r_hat"), [1, 0, 0])
    np.testing.assert_allclose(array(shown, "b_hat"), [0, 1, 0], atol=1e-2)
    explored = int(number(shown, "exploration"))
    assert set(played.arms[explored:].tolist()) == {0, 1}
    assert played.means[explored:].mean() == pytest.approx(0.5, abs=0.01)  # what alternating pays


def test_end_states_above_one_are_cut_to_one() -> None:
    instance = Instance([0.5, 0.5], [1.0, 0.9], 0.5, q0=0.2)  # r is sampled below state 1
    shown = play_named("etc", instance, 400, 1, epsilon=1.0, samples=5).diagnostics
    assert array(shown, "v_hat")[0] > array(shown, "r_hat")[0]
    assert array(shown, "b_hat").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["etc", "etc-unknown-arm"])
@pytest.mark.parametrize("tuning", TUNINGS)
def test_without_pay_or_room_arms_take_turns(name: str, tuning: str) -> None:
    nothing = Instance([0.0, 0.0, 0.0], [0.5, 1.0, 0.1], 0.3)
    played = play_named(name, nothing, 500, 1, tuning=tuning)
    explored = int(number(played.diagnostics, "exploration"))
    assert played.arms[explored:].tolist() == [k % 3 for k in range(500 - explored)]
    assert "none has paid" in str(played.diagnostics["plan"])
    short = play_named(name, nothing, 11, 1, tuning=tuning)
    assert short.arms.tolist() == [k % 3 for k in range(11)]
    assert "no room" in str(short.diagnostics["plan"])
    assert short.diagnostics["samples"] == 0


@pytest.mark.parametrize(("n_arms", "horizon"), [(50, 1000), (10, 60), (5, 15)])
def test_balanced_tuning_shows_that_it_was_cut(n_arms: int, horizon: int) -> None:
    shown = play_named("etc", Instance([0.5] * n_arms, [1.0] * n_arms, 0.3), horizon, 0).diagnostics
    assert shown["clipped"] is True
    assert number(shown, "samples") < number(shown, "samples_asked")


@pytest.mark.parametrize("said", [2, 0, 1])
def test_wrong_replenishing_arm_shows(said: int) -> None:
    instance = click_bait(3, 0.3)
    shown = play_named("etc", instance, 200_000, said, epsilon=1e-6, samples=500).diagnostics
    # Everything is measured relative to the arm that is taken to restore the state.
    assert shown["best_restoring"] == 2
    assert number(shown, "restoring_ratio") == pytest.approx(1 / instance.b[said], rel=1e-3)
    doubt = number(shown, "restoring_doubt")
    assert doubt > 5 if said != 2 else abs(doubt) < 0.01


# -- without a known replenishing arm -------------------------------------------------------


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "eps", "m"),
    [(2, 9_000, 0.3, 0.05, 150), (3, 40_000, 0.1, 0.1, 120), (5, 200_000, 1.0, 0.1, 2_500)],
)
def test_unknown_arm_paper_tuning_is_as_printed(
    n_arms: int, horizon: int, lam: float, eps: float, m: int
) -> None:
    instance, arms = click_bait(n_arms, lam), range(n_arms)
    given: dict[str, Any] = {"tuning": "paper", "epsilon": eps, "samples": m, "planner": PLANNER}
    played = play_named("etc-unknown-arm", instance, horizon, **given)
    shown, n = played.diagnostics, settling(lam, eps)
    assert (*lengths(shown), shown["clipped"]) == (m, n, n, False)

    # For each arm i: M blocks of N pulls of some z, then i; N pulls and M samples of each arm;
    # and "play i_R": the arm with the largest estimate.
    z = played.arms[: n_arms * m * (n + 1)].reshape(n_arms, m, n + 1)[:, :, 0]
    pulls = [pull for i in arms for k in z[i].tolist() for pull in [*repeated(k, n), (i, i)]]
    for i in arms:
        pulls += settled(i, n_arms, m, n)
    assert_explored(played, pulls + repeated(n_arms - 1, n), instance, known_arm=None)
    assert shown["restored_with"] == n_arms - 1

    counts = np.bincount(z.ravel(), minlength=n_arms)
    spread = math.sqrt(n_arms * m * (1 / n_arms) * (1 - 1 / n_arms))
    assert np.abs(counts - m).max() < 4 * spread
    assert array(shown, "benchmark_samples").tolist() == counts.tolist()
    bias = array(shown, "r_hat") - instance.r * instance.b[z].mean(axis=1)
    assert np.abs(bias).max() <= eps


def test_benchmark_arms_depend_on_the_seed() -> None:
    instance = click_bait(3, 0.5)
    one, other = (
        play_named("etc-unknown-arm", instance, 4_000, seed=seed, tuning="paper") for seed in (1, 2)
    )
    assert (one.arms != other.arms).any()


@pytest.mark.parametrize(("n_arms", "lam"), [(2, 0.3), (3, 0.1), (5, 0.9)])
def test_unknown_arm_asks_for_k_squared_samples(n_arms: int, lam: float) -> None:
    horizon = 20_000
    shown = play_named(
        "etc-unknown-arm", click_bait(n_arms, lam), horizon, tuning="paper"
    ).diagnostics
    eps, _, n = theorem(n_arms, horizon, lam)
    asked = math.ceil(n_arms**2 * math.log(horizon) / eps**2)
    assert (shown["samples_asked"], shown["clipped"]) == (asked, True)
    expected = cut(n_arms, horizon, asked, n)
    assert (shown["samples"], shown["settle"]) == expected
    assert shown["exploration"] == cost(n_arms, *expected)


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam"), [(3, 30_000, 0.2), (2, 5_000, 1.0), (5, 90_000, 0.05)]
)
def test_balanced_takes_benchmarks_in_turn(n_arms: int, horizon: int, lam: float) -> None:
    instance = click_bait(n_arms, lam)
    played = play_named("etc-unknown-arm", instance, horizon, planner=PLANNER)
    m, n, r = lengths(played.diagnostics)
    each = [m // n_arms + (1 if z < m % n_arms else 0) for z in range(n_arms)]
    pulls: Pulls = []
    for z in range(n_arms):
        pulls += settled(z, n_arms, m, n)
        for i in range(n_arms):
            pulls += [*repeated(z, r), (i, i)] * each[z]
    assert_explored(played, pulls, instance, known_arm=None)
    counts = array(played.diagnostics, "benchmark_samples")
    assert counts.tolist() == [n_arms * count for count in each]


@pytest.mark.parametrize("tuning", TUNINGS)
def test_estimates_are_the_instance_rescaled(tuning: str) -> None:
    instance = Instance([0.9, 0.5, 0.3], [0.1, 0.3, 0.6], 0.4)
    given: dict[str, Any] = {"tuning": tuning, "epsilon": 1e-6, "samples": 3_000}
    shown = play_named("etc-unknown-arm", instance, 400_000, **given).diagnostics
    mean_b = instance.b.mean()
    # Random benchmark arms scatter the scale by about 1/sqrt(3000); taken in turn, not at all.
    near = 0.05 if tuning == "paper" else 1e-3
    np.testing.assert_allclose(array(shown, "r_hat"), mean_b * instance.r, rtol=near)
    np.testing.assert_allclose(array(shown, "b_hat"), instance.b / mean_b, rtol=near)
    assert array(shown, "b_hat").max() > 1


@pytest.mark.parametrize("tuning", TUNINGS)
def test_end_state_without_pay_is_read_from_others(tuning: str) -> None:
    played = play_named(
        "etc-unknown-arm", Instance([1.0, 0.0], [0.0, 1.0], 1.0), 20_000, tuning=tuning
    )
    shown = played.diagnostics
    assert array(shown, "never_paid").tolist() == [1]
    assert array(shown, "b_hat")[1] == pytest.approx(2.0, rel=0.1)  # 1 over a mean of 1/2
    explored = int(number(shown, "exploration"))
    assert played.means[explored:].mean() == pytest.approx(0.5, abs=0.01)


def test_end_states_are_at_most_k_times_their_mean() -> None:
    # Two samples use two of three benchmark arms, both of which lead to 0.1; the third to 1.
    instance = Instance([0.9, 0.9, 0.9], [0.1, 0.1, 1.0], 1.0)
    shown = play_named("etc-unknown-arm", instance, 200, samples=2).diagnostics
    assert array(shown, "benchmark_samples").tolist() == [3, 3, 0]
    np.testing.assert_allclose(array(shown, "v_hat") / array(shown, "r_hat"), [1, 1, 10])
    np.testing.assert_allclose(array(shown, "b_hat"), [1, 1, 3])


def test_many_arms_are_explored_in_compiled_code() -> None:
    def explore(n_arms: int) -> None:
        r, b = np.random.default_rng(0).random((2, n_arms))
        play_named("etc-unknown-arm", Instance(r, b, 0.5), 50_000, planner="best-fixed")

    explore(2)  # compiles
    n_arms = 1000
    # Some lines for each benchmark arm; none for each of the pairs that it makes with an arm.
    assert n_lines(lambda: explore(n_arms)) < n_arms**2
