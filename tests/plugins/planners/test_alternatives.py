"""``greedy``, ``best-fixed``, ``best-cycle`` against enumeration, and the cheap bounds."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from bdes_framework import FloatArray, Instance, InvalidValueError, Schedule
from bdes_framework.testing import best_value
from bdes_planners.best_cycle import BestCycle
from bdes_planners.bounds import best_pair, potential_bound
from bdes_planners.certified import Certified
from bdes_planners.exact import Exact
from bdes_planners.reduced_problem import reduce
from bdes_planners.single_arm import BestFixed, Greedy
from tests.support.planner_oracles import (
    clickbait_arms,
    random_arms,
    random_instances,
    special_instances,
)

Maker = Callable[[int, int], tuple[FloatArray, FloatArray]]


def some_instances() -> list[Instance]:
    return [*random_instances(3, 80), *special_instances()]


def test_greedy_takes_largest_r_then_b_then_first() -> None:
    instance = Instance([0.5, 0.9, 0.9, 0.9], [1.0, 0.1, 0.3, 0.3], 0.5)
    assert set(Greedy().plan(instance, 20).arms.tolist()) == {2}


@pytest.mark.parametrize("horizon", [1, 3, 50])
def test_best_fixed_is_the_best_single_arm(horizon: int) -> None:
    for instance in some_instances():
        values = [instance.value([arm] * horizon) for arm in range(instance.n_arms)]
        plan = BestFixed().plan(instance, horizon)
        assert plan.value == pytest.approx(max(values), rel=1e-12)
        assert len(set(plan.arms.tolist())) == 1


@pytest.mark.parametrize("horizon", [1, 2, 11, 300])
def test_best_cycle_is_the_best_of_all(horizon: int) -> None:
    for instance in random_instances(5, 30):
        cycles = itertools.chain.from_iterable(
            itertools.product(range(instance.n_arms), repeat=length)
            for length in range(1, min(3, horizon) + 1)
        )
        best = max(instance.value(Schedule.cycle(cycle, horizon)) for cycle in cycles)
        value = BestCycle(length=3).plan(instance, horizon).value
        assert value == pytest.approx(best, rel=1e-11, abs=1e-300)


def test_best_cycle_may_need_arms_inside_the_hull() -> None:
    """Free schedules never need the middle arm; a cycle of one arm needs nothing else."""
    instance = Instance([1.0, 0.49, 0.0], [0.0, 0.49, 1.0], 0.5)
    assert set(BestCycle(length=1).plan(instance, 1000).arms.tolist()) == {1}
    assert 1 not in Exact().plan(instance, 100).arms.tolist()


def test_best_cycle_rejects_too_many_cycles() -> None:
    instance = Instance(np.linspace(0, 1, 30), 1 - np.linspace(0, 1, 30) ** 2, 0.5)
    with pytest.raises(InvalidValueError, match=r"smaller 'length'.*'certified'"):
        BestCycle(length=8).plan(instance, 100)


def test_bounds_hold_for_brute_force() -> None:
    for instance in some_instances():
        for horizon in (1, 2, 4):
            best = best_value(instance, horizon)
            assert best <= potential_bound(instance, horizon) * (1 + 1e-12)
        problem = reduce(instance)
        pair, least = best_pair(problem, 4)
        assert least * problem.unit <= best * (1 + 1e-12)
        assert (least > 0) == (best > 0)
        value = instance.value(problem.original(Schedule.cycle(pair, 4)))
        assert value == pytest.approx(least * problem.unit, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("lam", [0.9, 0.1, 0.01, 1e-4])
@pytest.mark.parametrize("maker", [random_arms, clickbait_arms])
def test_potential_bound_is_useful_at_length(lam: float, maker: Maker) -> None:
    instance = Instance(*maker(4, 20), lam)
    best = Certified().plan(instance, 5000).value
    assert best <= potential_bound(instance, 5000) <= 2.5 * best
