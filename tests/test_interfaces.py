"""Benchmarks and gaps of plans."""

import math

import numpy as np
import pytest

from bdes_framework import Benchmark, Instance, Plan, Schedule, Segment


def test_a_benchmark_follows_its_plan() -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.3)
    schedule = Schedule([Segment([1]), Segment([0, 1, 1], 40), Segment([0, 0])])
    plan = Plan(schedule, instance.value(schedule), 1e9)
    checkpoints = np.array([1, 2, 7, 100, 123])
    benchmark = Benchmark.from_plan(plan, instance, checkpoints)
    exact = np.cumsum(instance.expected_rewards(schedule.arms))[checkpoints - 1]
    np.testing.assert_allclose(benchmark.values, exact, rtol=1e-12)
    assert benchmark.value == plan.value
    assert benchmark.upper_bound == 1e9


def test_a_gap_is_relative_to_the_upper_bound() -> None:
    assert Plan(Schedule.of([0]), 9.0, 10.0).gap == pytest.approx(0.1)
    assert Plan(Schedule.of([0]), 0.0, 0.0).gap == 0.0
    assert Plan(Schedule.of([0]), 9.0, math.inf).gap == 1.0
