"""The errata page's numbers about the model and planning: recurrence, brute force or arithmetic.

``printed`` is always what the paper says; what is right is asserted beside it.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.random import default_rng

from bdes_framework import FloatArray, Instance, settling_pulls, state_after_repeating


def random_instances(n: int, seed: int, largest_r: float = 1.0) -> Iterator[tuple[Instance, int]]:
    """Small enough for brute force: two or three arms, three to six rounds."""
    rng = default_rng(seed)
    for _ in range(n):
        k, horizon = int(rng.integers(2, 4)), int(rng.integers(3, 7))
        yield Instance(largest_r * rng.random(k), rng.random(k), float(rng.random())), horizon


def optimum(instance: Instance, horizon: int) -> float:
    schedules = itertools.product(range(instance.n_arms), repeat=horizon)
    return max(instance.value(schedule) for schedule in schedules)


# -- 2: the closed form of the state --------------------------------------------------------


def closed_form(instance: Instance, history: list[int]) -> float:
    """The state after ``history``, by the lemma's sum with arms counted from the first pull."""
    t, lam = len(history), instance.lam
    weighted = sum((1 - lam) ** (t - 1 - s) * instance.b[history[s]] for s in range(t))
    return float((1 - lam) ** t + lam * weighted)


def test_closed_form_is_the_state_after_t_pulls() -> None:
    instance = Instance([0.9, 0.5, 0.2], [0.1, 0.6, 1.0], 0.3)
    history = [0, 2, 1, 1, 0]
    states = instance.states(history)
    for t in range(len(history)):
        assert closed_form(instance, history[:t]) == pytest.approx(states[t])
    # The proof about estimates pays round t at the next round's state:
    printed = sum(
        instance.r[arm] * closed_form(instance, history[: t + 1]) for t, arm in enumerate(history)
    )
    assert printed != pytest.approx(instance.value(history), rel=0.1)


def test_repeating_an_arm_decays_by_the_nth_power() -> None:
    states = Instance([1.0], [0.15], 0.5).states([0] * 6)
    for n in range(6):
        assert state_after_repeating(1.0, 0.15, 0.5, n) == pytest.approx(states[n])
    printed_after_one_pull = 0.15 + 0.5**2 * (1 - 0.15)
    assert states[1] == pytest.approx(0.575)
    assert printed_after_one_pull == pytest.approx(0.3625)


def test_replenishing_ends_below_one_minus_eps() -> None:
    lam, eps = 0.5, 0.1
    pulls = settling_pulls(lam, eps)
    state = state_after_repeating(0.0, 1 - eps, lam, pulls)
    assert state < 1 - eps
    assert state >= (1 - eps) * (1 - lam * eps)


# -- 3: the FPTAS ---------------------------------------------------------------------------


def fptas(instance: Instance, horizon: int, eps: float, *, may_skip: bool) -> tuple[int, ...]:
    """The algorithm as printed; ``may_skip`` is its line F_t <- F_{t-1}."""
    front: list[tuple[int, float, tuple[int, ...]]] = [(0, instance.q0, ())]
    for _ in range(horizon):
        grown = list(front) if may_skip else []
        for units, q, arms in front:
            for i in range(instance.n_arms):
                paid = math.floor(instance.r[i] * q / eps)
                grown.append((units + paid, q + instance.lam * (instance.b[i] - q), (*arms, i)))
        grown.sort(key=lambda pair: (-pair[0], -pair[1], -len(pair[2])))
        front, highest = [], -1.0
        for pair in grown:
            if pair[1] > highest:
                front.append(pair)
                highest = pair[1]
    return front[0][2]


def test_printed_fptas_schedules_are_too_short() -> None:
    assert fptas(Instance([0.09], [0.5], 0.5), 5, 0.1, may_skip=True) == ()
    cases = list(random_instances(60, seed=1, largest_r=0.3))
    short = [len(fptas(case, horizon, 0.1, may_skip=True)) < horizon for case, horizon in cases]
    assert sum(short) == 16
    assert all(len(fptas(case, t, 0.1, may_skip=False)) == t for case, t in cases)


def test_fptas_may_earn_nothing_despite_the_lemma() -> None:
    instance, horizon, eps = Instance([0.09, 0.0], [0.9, 1.0], 0.5), 6, 0.1
    arms = fptas(instance, horizon, eps, may_skip=False)
    assert arms == (1,) * horizon
    assert instance.value(arms) == 0
    assert (1 - eps) * optimum(instance, horizon) > 0.45


@pytest.mark.parametrize("largest_r", [1.0, 0.3])
def test_fptas_loses_at_most_eps_per_round(largest_r: float) -> None:
    for instance, horizon in random_instances(60, seed=2, largest_r=largest_r):
        arms = fptas(instance, horizon, 0.1, may_skip=False)
        assert instance.value(arms) >= optimum(instance, horizon) - 0.1 * horizon - 1e-12


# -- 4: planning with estimates -------------------------------------------------------------


def test_estimates_can_cost_four_delta_per_round() -> None:
    delta, lam, horizon = 0.01, 0.5, 1000
    true = Instance([1.0, 0.9801], [1.0, 0.9801], lam)
    estimated = Instance([0.99, 0.9901], [0.99, 0.9901], lam)
    assert np.abs(true.r - estimated.r).max() <= delta + 1e-12
    # The worse arm is better in both respects under the estimates, so every planner plays it.
    assert estimated.r[1] > estimated.r[0]
    assert estimated.b[1] > estimated.b[0]
    loss = true.value([0] * horizon) - true.value([1] * horizon)
    assert true.value([0] * horizon) == horizon
    assert 3.9 < loss / (delta * horizon) < 4


def test_estimates_change_values_by_two_delta() -> None:
    rng = default_rng(3)
    for instance, horizon in random_instances(60, seed=3):
        delta = 0.05
        nudges = rng.uniform(-delta, delta, (2, instance.n_arms))
        moved = Instance(
            np.clip(instance.r + nudges[0], 0, 1),
            np.clip(instance.b + nudges[1], 0, 1),
            instance.lam,
        )
        for arms in itertools.product(range(instance.n_arms), repeat=horizon):
            assert abs(instance.value(arms) - moved.value(arms)) <= 2 * delta * horizon


# -- 11: external against DES regret --------------------------------------------------------


def per_round(instance: Instance, cycle: list[int], horizon: int = 10_000) -> float:
    return instance.value((cycle * horizon)[:horizon]) / horizon


@pytest.mark.parametrize("eps", [0.01, 0.1])
def test_the_propositions_rewards_per_round(eps: float) -> None:
    instance = Instance([1 / 2, 3 / 4 - eps / 2], [1, 1 / 2 + 2 * eps], 1.0)
    first, second = per_round(instance, [0]), per_round(instance, [1])
    both = per_round(instance, [0, 1])
    assert first == pytest.approx(1 / 2, abs=1e-3)
    assert second == pytest.approx(3 / 8 + 5 * eps / 4 - eps**2, abs=1e-3)
    assert both == pytest.approx(1 / 2 + eps / 4, abs=1e-3)
    assert both > first > second
    # A learner without external regret on its own states ends on the larger r, the second arm.
    assert both - second == pytest.approx(1 / 8 - eps + eps**2, abs=1e-3)


def test_two_arms_earn_only_together() -> None:
    instance = Instance([1.0, 0.0], [0.0, 1.0], 1.0)
    assert per_round(instance, [0]) == pytest.approx(0, abs=1e-3)
    assert per_round(instance, [1]) == 0
    assert per_round(instance, [0, 1]) == pytest.approx(0.5, abs=1e-3)


# -- 13: at lam = 1 -------------------------------------------------------------------------


def best_cycle(pays: FloatArray, lengths: range) -> float:
    """The best mean reward of a cycle of these lengths; ``pays[i, j]`` is for j after i."""
    arms = range(len(pays))
    return max(
        float(sum(pays[c[k - 1], c[k]] for k in range(length))) / length
        for length in lengths
        for c in itertools.permutations(arms, length)
        if c[0] == min(c)
    )


def test_no_longer_cycle_beats_the_best_pair() -> None:
    rng = default_rng(8)
    for _ in range(300):
        k = int(rng.integers(3, 6))
        pays = np.outer(rng.random(k), rng.random(k))
        assert best_cycle(pays, range(3, k + 1)) <= best_cycle(pays, range(1, 3)) + 1e-12


def test_best_finite_schedule_may_be_no_cycle() -> None:
    instance = Instance([0.8, 1.0], [1.0, 0.0], 1.0)
    schedules = itertools.product(range(2), repeat=4)
    assert max(schedules, key=instance.value) == (0, 0, 0, 1)


# -- smaller misprints ----------------------------------------------------------------------


def test_states_of_an_alternation_at_odd_times() -> None:
    b_i, b_j, lam, q, t = 0.2, 0.9, 0.3, 1.0, 5
    state = Instance([1, 1], [b_i, b_j], lam, q).state_after([0, 1, 0, 1, 0])
    old = (1 - lam) ** t * q
    right = old + (1 - lam) * (1 - (1 - lam) ** (t - 1)) / (2 - lam) * b_j
    right += (1 - (1 - lam) ** (t + 1)) / (2 - lam) * b_i
    printed = old + (1 - (1 - lam) ** (t - 2)) / (2 - lam) * ((1 - lam) * b_j + b_i)
    assert state == pytest.approx(right)
    assert abs(state - printed) > 0.05


def test_the_sticky_example_turns_at_x_above_zero() -> None:
    for x in (-0.1, 0.1):
        both = (1 + x) / math.sqrt(2)
        instance = Instance([1.0, 0.0, both], [0.0, 1.0, both], 1.0)
        assert (per_round(instance, [2]) > per_round(instance, [0, 1])) == (x > 0)
