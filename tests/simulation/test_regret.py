"""Regret: against the best sequence, and against the best arm on the states one induced."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import define, evolve

from bdes_framework import (
    Benchmark,
    ContractError,
    Instance,
    IntArray,
    InvalidValueError,
    Outcome,
    Plan,
    Schedule,
    benchmark_of,
    des_regret,
    external_regret,
    simulate,
)
from tests.support.players import (
    ARMS,
    FaultyEnvironment,
    Scripted,
    environment,
    script,
)


class BruteForce:
    """The best of all K^T schedules: a planner nobody needs to trust."""

    def plan(self, instance: Instance, horizon: int) -> Plan:
        schedules = itertools.product(range(instance.n_arms), repeat=horizon)
        best = max(schedules, key=lambda arms: instance.value(list(arms)))
        value = instance.value(list(best))
        return Plan(Schedule.of(list(best)), value, value)


def test_des_regret_is_what_the_best_sequence_would_have_earned_more() -> None:
    instance = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3)
    arms = script(8)
    trace = simulate(environment(), Scripted(arms, [3]), 8)
    benchmark = benchmark_of(environment(), trace.checkpoints, BruteForce())
    assert benchmark is not None
    regret = des_regret(trace, benchmark)
    best = max(instance.value(list(s)) for s in itertools.product(range(3), repeat=8))
    assert regret[-1] == pytest.approx(best - instance.value(arms))
    assert regret[-1] > 0
    following_it = Scripted(BruteForce().plan(instance, 8).arms, [8])
    np.testing.assert_allclose(
        des_regret(simulate(environment(), following_it, 8), benchmark), 0, atol=1e-12
    )


def test_external_regret_compares_with_one_arm_on_the_induced_states() -> None:
    instance = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3)
    arms = script(300)
    trace = simulate(environment(), Scripted(arms, [300]), 300)
    states = instance.states(arms)
    by_arm = [(r * states).sum() for r in instance.r]
    expected = max(by_arm) - instance.value(arms)
    assert external_regret(trace, instance)[-1] == pytest.approx(expected)


@define
class OtherWorld(FaultyEnvironment):
    """No B-DES instance: every arm pays one half."""

    def pull(self, arms: IntArray) -> Outcome:
        return Outcome(np.full(arms.size, 0.5), np.full(arms.size, 0.5))


class OtherWorldWithBenchmark(OtherWorld):
    def benchmark(self, checkpoints: IntArray) -> Benchmark:
        values = 0.5 * checkpoints.astype(np.float64)
        return Benchmark(checkpoints, values, float(values[-1]))


def test_without_an_instance_regret_is_absent_or_the_environment_s_own() -> None:
    trace = simulate(OtherWorld(), Scripted(script(9), [4]), 9)
    assert trace.cumulative_states is None
    assert trace.states is None
    assert benchmark_of(OtherWorld(), trace.checkpoints, BruteForce()) is None
    with pytest.raises(InvalidValueError, match="brought no states"):
        external_regret(trace, Instance([0.5], [0.5], 0.5))
    own = benchmark_of(OtherWorldWithBenchmark(), trace.checkpoints, None)
    assert own is not None
    np.testing.assert_allclose(des_regret(trace, own), 0)


def test_regret_at_other_checkpoints_is_refused() -> None:
    trace = simulate(environment(), Scripted(script(9), [4]), 9)
    other = Benchmark(np.array([9]), np.array([1.0]), 1.0)
    with pytest.raises(InvalidValueError, match="different checkpoints"):
        des_regret(trace, other)


@define
class Promises:
    """A planner that always plays arm 0, and says of it what it likes."""

    pulls: int = 0
    arm: int = 0
    value: Any = 0.0
    bound: Any = 100.0
    nothing: bool = False

    def plan(self, instance: Instance, horizon: int) -> Any:
        arms = [self.arm] * (horizon + self.pulls)
        earned = instance.value([0] * horizon)
        plan = Plan(Schedule.of(arms), earned, self.bound)
        if not isinstance(self.value, float):
            plan = evolve(plan, value=self.value)
        elif self.value:
            plan = evolve(plan, value=earned * self.value)
        return None if self.nothing else plan


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (Promises(nothing=True), "expected a Plan with a Schedule, got None"),
        (Promises(pulls=1), "the plan for 9 rounds has a schedule of 10 pulls"),
        (Promises(pulls=-1), "the plan for 9 rounds has a schedule of 8 pulls"),
        (Promises(arm=3), "plays arm 3; arms go from 0 to 2"),
        (Promises(value=1 + 1e-5), "says its value is .*, but its schedule earns"),
        (Promises(value=1 - 1e-5), "says its value is .*, but its schedule earns"),
        (Promises(value=math.nan), "says its value is nan"),
        (Promises(value="much"), "must be numbers, got 'much'"),
        (Promises(value=None), "must be numbers, got None"),
        (Promises(bound=1.0), r"upper bound 1\.0 is below its value"),
        (Promises(bound=math.nan), "upper bound nan is below"),
    ],
)
def test_a_plan_that_is_not_what_it_says_is_refused(planner: Promises, message: str) -> None:
    where = r"planner tests\.simulation\.test_regret\.Promises: "
    with pytest.raises(ContractError, match=where + ".*" + message):
        benchmark_of(environment(), np.array([3, 9]), planner)


@pytest.mark.parametrize("planner", [Promises(value=1 + 1e-8), Promises(bound=math.inf)])
def test_a_plan_may_be_off_by_rounding_and_prove_nothing(planner: Promises) -> None:
    benchmark = benchmark_of(environment(), np.array([3, 9]), planner)
    assert benchmark is not None
    assert benchmark.value == planner.plan(Instance(**ARMS), 9).value  # type: ignore[arg-type]


def test_without_a_planner_there_is_no_benchmark() -> None:
    assert benchmark_of(environment(), np.array([9]), None) is None
