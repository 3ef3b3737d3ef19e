"""The benchmark for many users: brute force, the one-audience optimum, and what it refuses."""

import itertools
from itertools import product
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import ContractError, Instance, crowd_benchmark_of, simulate_crowd
from bdes_framework.planning.plan_report import stationary_planner
from bdes_framework.simulation.crowd_benchmark import _bounds_for
from bdes_framework.testing import ReferenceCrowd
from tests.support.players import PLUGINS

ARMS: dict[str, Any] = {"r": [0.9, 0.3, 0.6], "b": [0.1, 1.0, 0.5], "lam": 0.3}
CERTIFIED = stationary_planner(PLUGINS, "certified")


def crowd(seed: int = 1, **parameters: Any) -> bdes.CrowdEnvironment:
    return PLUGINS.crowd_environment("crowd", seed=seed, **(ARMS | parameters))


def benchmark(visits: int, seed: int = 1, **parameters: Any) -> bdes.CrowdBenchmark:
    found = crowd_benchmark_of(crowd(seed, **parameters), visits, CERTIFIED)
    assert found is not None
    return found


class Table:
    """Follows a decision table, each user's state kept by a plain loop."""

    def __init__(self, table: bdes.DecisionTable) -> None:
        self._table = table
        self._states: dict[int, float] = {}

    def ask(self, users: bdes.IntArray) -> bdes.IntArray:
        at, arms = self._table.instance, []
        for user in users.tolist():
            q = self._states.get(user, at.q0)
            (arm,) = self._table.arms_at([q]).tolist()
            self._states[user] = q + at.lam * (float(at.b[arm]) - q)
            arms.append(arm)
        return np.array(arms)

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        pass


@pytest.mark.parametrize(
    "users",
    [
        {"users": 30, "visits_per_user": 20, "lifetimes": "geometric"},
        {"users": 30, "visits_per_user": 6, "lifetimes": "heavy-tailed", "arrivals": "round-robin"},
        {"users": 20, "visits_per_user": 9, "arrivals": "cohorts", "cohort": 7, "q0": 0.4},
        {"users": 10},
    ],
)
@pytest.mark.parametrize("visits", [137, 10_000])
def test_values_are_what_following_the_table_earns(users: dict[str, Any], visits: int) -> None:
    if users == {"users": 10}:
        visits = 137  # nobody leaves
    found = benchmark(visits, **users)
    marks = bdes.log_checkpoints(visits)
    trace = simulate_crowd(crowd(**users), Table(found.table), visits, checkpoints=marks)
    assert found.visits == trace.visits
    n = trace.checkpoints.size
    np.testing.assert_allclose(found.values[:n], trace.cumulative_means, rtol=1e-12)
    np.testing.assert_allclose(found.values[n:], trace.total_mean, rtol=1e-12)
    assert found.user_checkpoints[-1] == trace.n_users
    over_users = trace.cumulative_user_means[found.user_checkpoints - 1]
    np.testing.assert_allclose(found.user_values, over_users, rtol=1e-12)
    assert found.table.continuation == pytest.approx(1 - trace.n_users / trace.visits)
    assert found.value <= found.upper_bound


def test_nobody_earns_more_than_the_clairvoyant() -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.4, q0=0.7)
    users = np.array([0, 1, 0, 2, 0, 2, 0])
    found = crowd_benchmark_of(ReferenceCrowd(instance, users, 1), users.size, CERTIFIED)
    assert found is not None
    best = sum(
        max(instance.value(np.array(arms)) for arms in itertools.product([0, 1], repeat=n))
        for n in np.bincount(users).tolist()
    )
    assert best <= found.upper_bound <= best * (1 + 1e-5)


@pytest.mark.parametrize("lam", [0.0, 0.001, 0.05, 0.5, 1.0])
def test_clairvoyants_bound_is_the_optimum_of_one_audience(lam: float) -> None:
    rng = np.random.default_rng(3)
    numbers = np.array([1, 2, 9, 100, 1500])
    for _ in range(5):
        instance = Instance(rng.random(4), rng.random(4), lam, q0=float(rng.random()))
        bounds = _bounds_for(instance, numbers)
        for n, bound in zip(numbers.tolist(), bounds.tolist(), strict=True):
            plan = CERTIFIED.plan(instance, n)
            assert plan.value <= bound <= plan.upper_bound * (1 + 1e-4)


def test_clairvoyants_bound_of_few_visits() -> None:
    """The same for so few that it can be interpreted, line by line."""
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.2)
    for n, bound in zip((1, 3), _bounds_for(instance, np.array([1, 3])).tolist(), strict=True):
        best = max(instance.value(arms) for arms in product((0, 1), repeat=n))
        assert best <= bound <= best * (1 + 1e-4)


def test_bounds_go_on_where_they_are_no_more_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, numbers = Instance([0.9, 0.3], [0.1, 1.0], 0.2), np.array([10, 40, 3000])
    whole = _bounds_for(instance, numbers)
    monkeypatch.setattr("bdes_framework.simulation.crowd_benchmark._MOST_STEPS", 40)
    cut = _bounds_for(instance, numbers)
    np.testing.assert_array_equal(cut[:2], whole[:2])
    assert whole[2] <= cut[2] <= 1.1 * whole[2]
    assert _bounds_for(Instance([0.0], [0.0], 0.5, q0=0.0), numbers).tolist() == [0, 0, 0]


def test_users_who_differ_have_no_benchmark() -> None:
    assert crowd_benchmark_of(crowd(users=5, spread=0.2), 100, CERTIFIED) is None


@pytest.mark.parametrize("wrong", ["nothing", "another continuation"])
def test_planner_that_plans_something_else_is_named(wrong: str) -> None:
    class Wrong:
        def plan(self, instance: Instance, horizon: int) -> bdes.Plan:
            return CERTIFIED.plan(instance, horizon)

        def plan_stationary(self, instance: Instance, continuation: float) -> Any:
            return None if wrong == "nothing" else CERTIFIED.plan_stationary(instance, 0.5)

    with pytest.raises(ContractError, match=r"(?i)Wrong: .*decision ?table"):
        crowd_benchmark_of(crowd(users=5), 100, Wrong())


def test_benchmark_is_shown_in_a_few_lines() -> None:
    shown = repr(benchmark(1000, users=50, visits_per_user=10, lifetimes="geometric"))
    assert "users=50" in shown
    assert "table_gap=" in shown
