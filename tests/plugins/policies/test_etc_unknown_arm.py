"""Explore-then-commit without a known replenishing arm, on exact means, as the paper has it."""

import math
import time

import numpy as np
import pytest

from bdes_framework import Instance, Problem
from tests.support.explore_lengths import cost, cut, settling, theorem
from tests.support.noiseless import array, build, click_bait, number, planned, play, problem_of

PLANNER = "best-cycle"


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "eps", "m"),
    [(2, 9_000, 0.3, 0.05, 150), (3, 40_000, 0.1, 0.1, 120), (5, 200_000, 1.0, 0.1, 2_500)],
)
def test_with_the_papers_tuning_everything_is_as_printed(
    n_arms: int, horizon: int, lam: float, eps: float, m: int
) -> None:
    instance = click_bait(n_arms, lam)
    problem = problem_of(instance, horizon)
    policy = build(
        "etc-unknown-arm", problem, tuning="paper", epsilon=eps, samples=m, planner=PLANNER
    )
    played = play(policy, instance, horizon)
    shown, n = played.diagnostics, settling(lam, eps)
    assert (shown["samples"], shown["settle"], shown["clipped"]) == (m, n, False)

    # For each arm i: M blocks of N pulls of some z, then i.
    for_r = n_arms * m * (n + 1)
    blocks = played.arms[:for_r].reshape(n_arms, m, n + 1)
    z = blocks[:, :, 0]
    assert (blocks[:, :, :n] == z[:, :, None]).all()
    assert (blocks[:, :, n] == np.arange(n_arms)[:, None]).all()
    counts = np.bincount(z.ravel(), minlength=n_arms)
    spread = math.sqrt(n_arms * m * (1 / n_arms) * (1 - 1 / n_arms))
    assert np.abs(counts - m).max() < 4 * spread
    assert array(shown, "benchmark_samples").tolist() == counts.tolist()
    r_hat = played.means[:for_r].reshape(n_arms, m, n + 1)[:, :, n].mean(axis=1)
    np.testing.assert_allclose(array(shown, "r_hat"), r_hat, rtol=1e-12)
    assert np.abs(r_hat - instance.r * instance.b[z].mean(axis=1)).max() <= eps

    # For each arm i: N pulls, then M samples.
    settled = slice(for_r, for_r + n_arms * (n + m))
    assert (played.arms[settled].reshape(n_arms, -1) == np.arange(n_arms)[:, None]).all()
    v_hat = played.means[settled].reshape(n_arms, n + m)[:, n:].mean(axis=1)
    b_hat = v_hat / r_hat
    np.testing.assert_allclose(array(shown, "v_hat"), v_hat, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "b_hat"), b_hat, rtol=1e-12)

    # "Play i_R": the arm with the largest estimate. Then the plan, from where that leads.
    explored = settled.stop + n
    assert (played.arms[settled.stop : explored] == n_arms - 1).all()
    assert (shown["restored_with"], shown["exploration"]) == (n_arms - 1, explored)
    scaled = Instance(r_hat, b_hat, lam, q0=b_hat.max())
    state = scaled.state_after(played.arms[:explored])
    assert number(shown, "state") == pytest.approx(state, rel=1e-12)
    expected = planned(shown, lam, horizon - explored, PLANNER)
    np.testing.assert_array_equal(played.arms[explored:], expected)


def test_benchmark_arms_are_drawn_anew_for_other_seeds_and_the_same_for_the_same() -> None:
    instance = click_bait(3, 0.5)
    arms = []
    for seed in (1, 1, 2):
        policy = build("etc-unknown-arm", problem_of(instance, 4_000), seed, tuning="paper")
        arms.append(play(policy, instance, 4_000).arms)
    np.testing.assert_array_equal(arms[0], arms[1])
    assert (arms[0] != arms[2]).any()


@pytest.mark.parametrize(("n_arms", "lam"), [(2, 0.3), (3, 0.1), (5, 0.9)])
def test_the_theorem_asks_for_k_squared_times_the_samples(n_arms: int, lam: float) -> None:
    horizon = 20_000
    instance = click_bait(n_arms, lam)
    policy = build("etc-unknown-arm", problem_of(instance, horizon), tuning="paper")
    shown = play(policy, instance, horizon).diagnostics
    eps, _, n = theorem(n_arms, horizon, lam)
    asked = math.ceil(n_arms**2 * math.log(horizon) / eps**2)
    assert shown["samples_asked"] == asked
    assert shown["clipped"] is True
    expected = cut(n_arms, horizon, asked, n)
    assert (shown["samples"], shown["settle"]) == expected
    assert shown["exploration"] == cost(n_arms, *expected)


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam"), [(3, 30_000, 0.2), (2, 5_000, 1.0), (5, 90_000, 0.05)]
)
def test_balanced_takes_benchmarks_in_turn_and_equally_often(
    n_arms: int, horizon: int, lam: float
) -> None:
    instance = click_bait(n_arms, lam)
    played = play(
        build("etc-unknown-arm", problem_of(instance, horizon), planner=PLANNER),
        instance,
        horizon,
    )
    shown = played.diagnostics
    m, n, r = (int(number(shown, name)) for name in ("samples", "settle", "restore"))
    arms: list[int] = []
    slots: list[tuple[str, int]] = []
    counts = []
    for z in range(n_arms):
        each = m // n_arms + (1 if z < m % n_arms else 0)
        counts.append(each * n_arms)
        arms += [z] * (n + m)
        slots += [("", 0)] * n + [("v", z)] * m
        for i in range(n_arms):
            arms += ([z] * r + [i]) * each
            slots += ([("", 0)] * r + [("r", i)]) * each
    explored = len(arms)
    assert shown["exploration"] == explored
    assert played.arms[:explored].tolist() == arms
    assert array(shown, "benchmark_samples").tolist() == counts

    def mean(what: str, i: int) -> float:
        chosen = [x for x, s in zip(played.means, slots, strict=False) if s == (what, i)]
        return float(np.mean(chosen))

    r_hat = np.array([mean("r", i) for i in range(n_arms)])
    b_hat = np.array([mean("v", i) for i in range(n_arms)]) / r_hat
    np.testing.assert_allclose(array(shown, "r_hat"), r_hat, rtol=1e-12)
    np.testing.assert_allclose(array(shown, "b_hat"), b_hat, rtol=1e-12)
    state = Instance(r_hat, b_hat, lam, b_hat.max()).state_after(arms)
    assert number(shown, "state") == pytest.approx(state, rel=1e-12)
    expected = planned(shown, lam, horizon - explored, PLANNER)
    np.testing.assert_array_equal(played.arms[explored:], expected)


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
def test_estimates_are_the_instance_on_another_scale(tuning: str) -> None:
    instance = Instance([0.9, 0.5, 0.3], [0.1, 0.3, 0.6], 0.4)
    policy = build(
        "etc-unknown-arm",
        problem_of(instance, 400_000),
        tuning=tuning,
        epsilon=1e-6,
        samples=3_000,
    )
    shown = play(policy, instance, 400_000).diagnostics
    mean_b = instance.b.mean()
    # Random benchmark arms scatter the scale by about 1/sqrt(3000); taken in turn, not at all.
    near = 0.05 if tuning == "paper" else 1e-3
    np.testing.assert_allclose(array(shown, "r_hat"), mean_b * instance.r, rtol=near)
    np.testing.assert_allclose(array(shown, "b_hat"), instance.b / mean_b, rtol=near)
    assert array(shown, "b_hat").max() > 1


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
def test_the_end_state_of_an_arm_that_never_pays_is_read_from_the_others(tuning: str) -> None:
    instance = Instance([1.0, 0.0], [0.0, 1.0], 1.0)
    policy = build("etc-unknown-arm", problem_of(instance, 20_000), tuning=tuning)
    played = play(policy, instance, 20_000)
    shown = played.diagnostics
    assert array(shown, "never_paid").tolist() == [1]
    assert array(shown, "b_hat")[1] == pytest.approx(2.0, rel=0.1)  # 1 over a mean of 1/2
    explored = int(number(shown, "exploration"))
    assert played.means[explored:].mean() == pytest.approx(0.5, abs=0.01)


def test_an_end_state_is_at_most_k_times_the_mean_of_all() -> None:
    # Two samples use two of three benchmark arms, both of which lead to 0.1; the third to 1.
    instance = Instance([0.9, 0.9, 0.9], [0.1, 0.1, 1.0], 1.0)
    policy = build("etc-unknown-arm", problem_of(instance, 200), samples=2)
    shown = play(policy, instance, 200).diagnostics
    assert array(shown, "benchmark_samples").tolist() == [3, 3, 0]
    np.testing.assert_allclose(array(shown, "v_hat") / array(shown, "r_hat"), [1, 1, 10])
    np.testing.assert_allclose(array(shown, "b_hat"), [1, 1, 3])


def test_a_thousand_arms_are_explored_in_little_time() -> None:
    n_arms, horizon = 1000, 50_000
    arms = np.random.default_rng(0).random((2, n_arms))
    instance = Instance(arms[0], arms[1], 0.5)
    build("etc-unknown-arm", Problem(2, 100, 0.5)).ask(1)  # compiles
    begin = time.process_time()
    policy = build("etc-unknown-arm", problem_of(instance, horizon), planner="best-fixed")
    play(policy, instance, horizon)
    assert time.process_time() - begin < 2
