"""DES regret against the best sequence, external regret against the best fixed arm."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import define, evolve

import bdes_framework as bdes
from bdes_framework import Benchmark, Instance, benchmark_of, des_regret, simulate
from tests.support.players import ARMS, FaultyEnvironment, Scripted, environment, script

INSTANCE = Instance(**ARMS)  # type: ignore[arg-type]


class BruteForce:
    """A planner that tries all K^T schedules."""

    def plan(self, instance: Instance, horizon: int) -> bdes.Plan:
        schedules = itertools.product(range(instance.n_arms), repeat=horizon)
        best = max(schedules, key=lambda arms: instance.value(list(arms)))
        value = instance.value(list(best))
        return bdes.Plan(bdes.Schedule.of(list(best)), value, value)


def test_des_regret_compares_with_the_best_plan() -> None:
    arms = script(8)
    trace = simulate(environment(), Scripted(arms, [3]), 8)
    benchmark = benchmark_of(environment(), trace.checkpoints, BruteForce())
    assert benchmark is not None
    regret = des_regret(trace, benchmark)
    best = max(INSTANCE.value(list(s)) for s in itertools.product(range(3), repeat=8))
    assert regret[-1] == pytest.approx(best - INSTANCE.value(arms))
    assert regret[-1] > 0
    followed = simulate(environment(), Scripted(BruteForce().plan(INSTANCE, 8).arms, [8]), 8)
    np.testing.assert_allclose(des_regret(followed, benchmark), 0, atol=1e-12)
    with pytest.raises(bdes.InvalidValueError, match="different checkpoints"):
        des_regret(trace, Benchmark(np.array([9]), np.array([1.0]), 1.0))
    assert benchmark_of(environment(), trace.checkpoints, None) is None


def test_external_regret_compares_with_one_arm() -> None:
    arms = script(300)
    trace = simulate(environment(), Scripted(arms, [300]), 300)
    expected = (INSTANCE.r.max() * INSTANCE.states(arms)).sum() - INSTANCE.value(arms)
    assert bdes.external_regret(trace, INSTANCE)[-1] == pytest.approx(expected)


class WithBenchmark(FaultyEnvironment):
    """No B-DES instance, and a benchmark of its own."""

    def benchmark(self, checkpoints: bdes.IntArray) -> Benchmark:
        values = 0.5 * checkpoints.astype(np.float64)
        return Benchmark(checkpoints, values, float(values[-1]))


def test_regret_without_an_instance() -> None:
    trace = simulate(FaultyEnvironment(since=9), Scripted(script(9), [4]), 9)
    assert trace.cumulative_states is None
    assert trace.states is None
    assert benchmark_of(FaultyEnvironment(), trace.checkpoints, BruteForce()) is None
    with pytest.raises(bdes.InvalidValueError, match="brought no states"):
        bdes.external_regret(trace, Instance([0.5], [0.5], 0.5))
    own = benchmark_of(WithBenchmark(), trace.checkpoints, None)
    assert own is not None
    np.testing.assert_allclose(des_regret(trace, own), 0)


EARNED = INSTANCE.value([0] * 9)


@define
class Promises:
    """A planner that returns this, whatever it is asked for."""

    promised: Any

    def plan(self, instance: Instance, horizon: int) -> Any:
        return self.promised


def promising(arms: tuple[int, ...] = (0,) * 9, **changes: Any) -> Promises:
    """Return a planner that plays arm 0 for 9 rounds, with changes to its plan."""
    return Promises(evolve(bdes.Plan(bdes.Schedule.of(arms), EARNED, 100.0), **changes))


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (Promises(None), "expected a Plan with a Schedule, got None"),
        (promising(schedule=None), "expected a Plan with a Schedule, got Plan"),
        (promising((0,) * 10), "the plan for 9 rounds has a schedule of 10 pulls"),
        (promising((0,) * 8), "the plan for 9 rounds has a schedule of 8 pulls"),
        (promising((3,) * 9), "plays arm 3; arms go from 0 to 2"),
        (promising(value=EARNED * (1 + 1e-5)), "says its value is .*, but its schedule earns"),
        (promising(value=EARNED * (1 - 1e-5)), "says its value is .*, but its schedule earns"),
        (promising(value=math.nan), "says its value is nan"),
        (promising(value="much"), "must be numbers, got 'much'"),
        (promising(value=None), "must be numbers, got None"),
        (promising(upper_bound=1.0), r"upper bound 1\.0 is below its value"),
        (promising(upper_bound=math.nan), "upper bound nan is below"),
    ],
)
def test_wrong_plans_raise(planner: Promises, message: str) -> None:
    where = r"planner tests\.simulation\.test_regret\.Promises: "
    with pytest.raises(bdes.ContractError, match=where + ".*" + message):
        benchmark_of(environment(), np.array([3, 9]), planner)


@pytest.mark.parametrize(
    "planner", [promising(value=EARNED * (1 + 1e-8)), promising(upper_bound=math.inf)]
)
def test_plans_may_be_off_by_rounding(planner: Promises) -> None:
    benchmark = benchmark_of(environment(), np.array([3, 9]), planner)
    assert benchmark is not None
    assert benchmark.value == planner.plan(INSTANCE, 9).value


@define
class Own:
    """An environment that returns this as its own benchmark."""

    found: Any
    n_arms: int = 3

    def pull(self, arms: bdes.IntArray) -> bdes.Outcome:
        raise AssertionError("a benchmark needs no pull")

    def benchmark(self, checkpoints: bdes.IntArray) -> Any:
        return self.found


def own(values: Any = (1.0, 4.0), bound: Any = 5.0, checkpoints: Any = (3, 9)) -> Own:
    return Own(Benchmark(np.array(checkpoints), np.array(values), bound))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (Own(None), "must return a Benchmark, got None"),
        (own([4.0], checkpoints=[9]), "the 2 checkpoints asked for, up to round 9"),
        (own([1.0, 2.0], checkpoints=[3, 8]), "the 2 checkpoints asked for"),
        (own([1, 4]), "values must be an array of float64"),
        (own(["a", "b"]), "values must be an array of float64"),
        (own([1.0, math.nan]), "value after round 9 is not finite: nan"),
        (own([math.inf, 4.0]), "value after round 3 is not finite: inf"),
        (own([1.0, 0.9]), "rises by -0.09.* over the 6 rounds up to 9"),
        (own([-1.0, 0.9]), "rises by -1.0 over the 3 rounds up to 3"),
        (own([1.0, 500.0], 500.0), "rises by 499.0 over the 6 rounds up to 9"),
        (own(bound=3.9), "upper bound 3.9 is below its value 4.0"),
        (own(bound=math.nan), "upper bound must be a number of at least its value, got nan"),
        (own(bound=None), "upper bound must be a number of at least its value, got None"),
        (own(bound=10**400), "upper bound must be a number of at least its value, got 1000"),
    ],
)
def test_wrong_own_benchmarks_raise(found: Own, message: str) -> None:
    where = r"environment tests\.simulation\.test_regret\.Own: benchmark"
    with pytest.raises(bdes.ContractError, match=where + ".*" + message):
        benchmark_of(found, np.array([3, 9]), None)


@pytest.mark.parametrize("bound", [4, np.float32(4.0), math.inf, 4.0 - 1e-12])
def test_own_benchmarks_that_are_right(bound: Any) -> None:
    found = benchmark_of(own(bound=bound), np.array([3, 9]), None)
    assert found is not None
    assert type(found.upper_bound) is float
