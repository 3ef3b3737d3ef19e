"""Decision tables of planners: against policy iteration on a grid, brute force and long plans."""

import itertools
from functools import cache

import numpy as np
import pytest

from bdes_framework import (
    DecisionTable,
    FloatArray,
    Instance,
    InvalidValueError,
    StationaryPlanner,
    load_plugins,
)
from bdes_framework._internal.threads import one_thread
from tests.support.planner_oracles import special_instances

PLUGINS = load_plugins()
RATES = (0.02, 0.1, 0.3, 0.7, 1.0)


def planned(name: str, instance: Instance, continuation: float, **settings: float) -> DecisionTable:
    planner = PLUGINS.planner({"use": name, **settings})
    assert isinstance(planner, StationaryPlanner)
    return planner.plan_stationary(instance, continuation)


def drawn(seed: int, most_arms: int = 4) -> tuple[Instance, float]:
    """Return a small instance, with a first state of any height, and a continuation."""
    rng = np.random.default_rng(seed)
    n_arms = int(rng.integers(1, most_arms + 1))
    r, b = rng.random((2, n_arms))
    instance = Instance(r, b, RATES[seed % len(RATES)], float(rng.choice([0.0, 0.4, 1.0, 1.7])))
    return instance, float(rng.choice([0.2, 0.6, 0.9]))


@cache
@one_thread()
def on_a_grid(seed: int, points: int = 101) -> tuple[FloatArray, FloatArray]:
    """Return states and the values of policy iteration on them, chords in between."""
    instance, g = drawn(seed)
    top = max(instance.q0, float(instance.b.max()))
    states = np.linspace(0.0, top, points)
    moved = states[:, None] + instance.lam * (instance.b - states[:, None])
    place = moved / top * (points - 1)
    below = np.clip(place.astype(np.int64), 0, points - 2)
    share = place - below
    rows, pay = np.arange(points), states[:, None] * instance.r
    arms, value = np.full(points, -1), np.zeros(points)
    while True:
        totals = pay + g * ((1 - share) * value[below] + share * value[below + 1])
        better = totals.max(axis=1) > totals[rows, arms] * (1 + 1e-12)
        if not better.any() and (arms >= 0).all():
            return states, value
        arms = np.where(better | (arms < 0), totals.argmax(axis=1), arms)
        matrix = np.eye(points)
        matrix[rows, below[rows, arms]] -= g * (1 - share[rows, arms])
        matrix[rows, below[rows, arms] + 1] -= g * share[rows, arms]
        value = np.linalg.solve(matrix, pay[rows, arms])


@pytest.mark.parametrize("name", ["certified", "exact"])
def test_values_are_those_of_policy_iteration_on_a_grid(name: str) -> None:
    for seed in range(200):
        instance, g = drawn(seed)
        table = planned(name, instance, g)
        states, grid = on_a_grid(seed)
        values, bounds = table.values_at(states), table.upper_bounds_at(states)
        gap = 1e-8 if name == "exact" else 1e-4
        top = grid.max()
        # Chords of the grid lie above V, which lies between the value and the bound.
        assert (values <= grid + 1e-12 * top).all(), (seed, table)
        assert (values >= grid - 2e-3 * top).all(), (seed, table)
        assert (bounds >= values).all(), (seed, table)
        assert table.upper_bound <= np.interp(instance.q0, states, grid) * (1 + 2 * gap) + gap * top
        assert table.gap <= gap, (seed, table)


def test_no_sequence_of_visits_beats_the_bound_nor_the_table_a_sequence() -> None:
    n_visits, g = 7, 0.3
    for seed in range(40):
        instance, _ = drawn(seed, most_arms=3)
        sequences = np.array(list(itertools.product(range(instance.n_arms), repeat=n_visits)))
        q, earned = np.full(len(sequences), instance.q0), np.zeros(len(sequences))
        for visit in range(n_visits):
            arms = sequences[:, visit]
            earned += g**visit * instance.r[arms] * q
            q += instance.lam * (instance.b[arms] - q)
        table = planned("exact", instance, g)
        most_later = g**n_visits / (1 - g) * instance.r.max() * table.highest_state
        assert earned.max() <= table.upper_bound
        assert table.value <= earned.max() + most_later * (1 + 1e-9)
        assert table.value >= earned.max() * (1 - 1e-7)


@pytest.mark.parametrize("lam", [0.05, 0.3, 0.9])
def test_users_who_hardly_leave_are_a_long_horizon(lam: float) -> None:
    rng = np.random.default_rng(5)
    instance = Instance(rng.random(6), rng.random(6), lam)
    table = planned("certified", instance, 1 - 1e-6)
    plan = PLUGINS.planner("certified").plan(instance, 10**7)
    per_visit = plan.value / 10**7
    assert table.value / table.visits == pytest.approx(per_visit, rel=2e-4)
    assert table.upper_bound / table.visits >= per_visit * (1 - 1e-4)


@pytest.mark.parametrize("name", ["certified", "exact"])
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_users_who_never_return_get_what_pays_most(name: str, lam: float) -> None:
    instance = Instance([0.2, 0.9, 0.5], [1.0, 0.1, 0.7], lam)
    table = planned(name, instance, 0.0)
    assert table.arms_at([0.1, 0.5, 1.0]).tolist() == [1, 1, 1]
    assert table.values_at([0.5])[0] == pytest.approx(0.45)


def test_a_state_that_never_moves_and_one_that_forgets() -> None:
    still = planned("exact", Instance([0.2, 0.9], [1.0, 0.1], 0.0), 0.9)
    assert still.value == pytest.approx(9.0)
    assert still.upper_bound == pytest.approx(9.0)
    # At lam = 1 the arm shown last is the state. Playing the two in turn earns 0.9 every other
    # visit, and nothing in between.
    forgetful = planned("exact", Instance([0.9, 0.0], [0.0, 1.0], 1.0), 0.5)
    assert forgetful.value == pytest.approx(0.9 / (1 - 0.25), rel=1e-8)


def test_a_single_arm_is_a_geometric_series() -> None:
    r, b, lam, q0, g = 0.6, 0.3, 0.2, 0.8, 0.9
    table = planned("certified", Instance([r], [b], lam, q0), g)
    by_hand = r * (b / (1 - g) + (q0 - b) / (1 - g * (1 - lam)))
    assert table.value == pytest.approx(by_hand, rel=1e-12)
    assert table.upper_bound == pytest.approx(by_hand, rel=1e-9)


def test_special_instances_have_tables() -> None:
    for instance in special_instances():
        for g in (0.0, 0.7, 0.99):
            table = planned("certified", instance, g)
            assert table.value <= table.upper_bound
            # From a state of 0 that hardly moves next to nothing is earned, and rounding counts.
            missing = table.upper_bound - table.value
            assert missing <= max(1e-4 * table.upper_bound, 1e-8), (instance, g, table)


def test_many_arms_and_many_visits_reach_the_gap() -> None:
    rng = np.random.default_rng(3)
    angle = rng.uniform(0, np.pi / 2, 50)  # all on the hull
    for lam in (0.01, 0.1, 0.5):
        table = planned("certified", Instance(np.cos(angle), np.sin(angle), lam), 0.9999)
        assert table.gap <= 1e-4


def test_a_finer_gap_is_reached() -> None:
    instance, g = Instance([0.9, 0.5, 0.1], [0.1, 0.6, 1.0], 0.1), 0.98
    coarse, fine = (planned("certified", instance, g, gap=gap) for gap in (1e-2, 1e-7))
    assert fine.gap <= 1e-7 < coarse.gap <= 1e-2
    assert coarse.value <= fine.upper_bound


def test_scaling_an_instance_changes_only_the_scale_of_the_table() -> None:
    instance = Instance([0.9, 0.5, 0.1], [0.1, 0.6, 1.0], 0.1)
    plain, scaled = planned("exact", instance, 0.95), planned("exact", instance.scaled(8.0), 0.95)
    assert scaled.value == plain.value
    assert (scaled.starts * 8.0 == plain.starts).all()


@pytest.mark.parametrize("continuation", [1.0, -0.1, float("nan")])
@pytest.mark.parametrize("name", ["certified", "exact"])
def test_a_continuation_is_below_1(name: str, continuation: float) -> None:
    with pytest.raises(InvalidValueError, match=r"continuation must be in \[0, 1\)"):
        planned(name, Instance([1.0], [1.0], 0.5), continuation)


def test_exact_says_when_memory_runs_out() -> None:
    with pytest.raises(InvalidValueError, match="use the 'certified' planner"):
        planned("exact", Instance([0.9, 0.3], [0.1, 1.0], 0.02), 0.98, memory=0.2)
