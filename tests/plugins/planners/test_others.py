"""``fptas`` within its guarantee, and the simple alternatives against plain enumeration."""

import itertools
import math
from typing import Literal

import numpy as np
import pytest

from bdes_framework import Instance, InvalidValueError, Schedule, load_plugins
from bdes_planners.best_cycle import BestCycle
from bdes_planners.bounds import best_pair, potential_bound
from bdes_planners.exact import Exact
from bdes_planners.fptas import Fptas
from bdes_planners.reduced_problem import reduce
from bdes_planners.single_arm import BestFixed, Greedy
from tests.support.planner_oracles import (
    brute_force,
    clickbait_arms,
    random_arms,
    random_instances,
    special_instances,
)

PLANNERS = ("best-cycle", "best-fixed", "certified", "exact", "fptas", "greedy")


def some_instances() -> list[Instance]:
    return [*random_instances(3, 80), *special_instances()]


@pytest.mark.parametrize("epsilon", [0.3, 0.05, 0.001])
def test_fptas_keeps_the_additive_guarantee(epsilon: float) -> None:
    for instance in some_instances():
        plan, best = Fptas(epsilon).plan(instance, 4), brute_force(instance, 4)
        assert plan.schedule.n_pulls == 4
        assert best - epsilon * 4 * (1 + 1e-9) <= plan.value <= best * (1 + 1e-12), instance
        assert best <= plan.upper_bound * (1 + 1e-12)
        assert plan.upper_bound <= plan.value + epsilon * 4 * (1 + 1e-9) + 1e-300 or (
            plan.upper_bound <= plan.value * (1 + 1e-9)
        )


@pytest.mark.parametrize("epsilon", [0.3, 0.05])
def test_fptas_keeps_the_multiplicative_guarantee(epsilon: float) -> None:
    for instance in some_instances():
        plan, best = Fptas(epsilon, "multiplicative").plan(instance, 4), brute_force(instance, 4)
        assert plan.value >= (1 - epsilon) * best * (1 - 1e-12), instance
        assert best <= plan.upper_bound * (1 + 1e-12)


def test_the_additive_guarantee_alone_may_lose_nearly_everything_where_pay_is_small() -> None:
    """Why ``guarantee = "multiplicative"`` exists: every reward here rounds down to nothing."""
    instance = Instance([0.09, 0.01], [0.0, 1.0], 0.9)
    best = Exact().plan(instance, 40).value
    additive = Fptas(0.1).plan(instance, 40).value
    relative = Fptas(0.1, "multiplicative").plan(instance, 40).value
    assert additive < 0.5 * best
    assert relative >= 0.9 * best


def test_fptas_plans_exactly_the_horizon_where_the_printed_algorithm_skips_rounds() -> None:
    """Pulling costs state here, so a schedule that may stop early would."""
    instance = Instance([0.05, 0.02], [0.0, 0.1], 0.9)
    for horizon in (1, 7, 30):
        assert Fptas(0.02).plan(instance, horizon).schedule.n_pulls == horizon


@pytest.mark.parametrize("seed", range(5))
def test_fptas_agrees_with_exact_on_longer_horizons(seed: int) -> None:
    instance = Instance(*clickbait_arms(seed, 20), 0.2)
    best = Exact().plan(instance, 150).value
    plan = Fptas(1e-3).plan(instance, 150)
    assert best - 150 * 1e-3 <= plan.value <= best * (1 + 1e-12)
    assert best <= plan.upper_bound <= best + 150 * 1e-3


@pytest.mark.parametrize("guarantee", ["additive", "multiplicative"])
def test_fptas_plans_one_round_from_any_first_state(
    guarantee: Literal["additive", "multiplicative"],
) -> None:
    for q0 in (0.0, 1e-10, 0.7):
        plan = Fptas(0.1, guarantee).plan(Instance([0.3, 0.9], [1.0, 0.1], 0.5, q0), 1)
        assert plan.arms.tolist() == [1]
        assert plan.value == pytest.approx(0.9 * q0, rel=1e-12)
        assert 0.9 * q0 <= plan.upper_bound <= 0.9 * q0 * (1 + 1e-9)


@pytest.mark.parametrize("lam", [0.5, 1e-9, 1e-200])
def test_fptas_keeps_the_multiplicative_guarantee_from_a_first_state_of_nothing(
    lam: float,
) -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], lam, 0.0)
    for horizon in (2, 3, 6):
        plan = Fptas(0.1, "multiplicative").plan(instance, horizon)
        best = brute_force(instance, horizon)
        assert 0 < 0.9 * best <= plan.value <= best * (1 + 1e-12)
        assert best <= plan.upper_bound * (1 + 1e-12)


def test_fptas_counts_no_total_for_the_state_after_the_last_pull() -> None:
    """Two rounds pay at most r·(q0 + lam) each; counting the state after them asks for more."""
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.25, 0.0)
    levels = 2 * 0.9 * 0.25 / 1e-5
    assert Fptas(1e-5, memory=1.2 * 16 * levels / 2**20).plan(instance, 2).value > 0


@pytest.mark.parametrize("name", ["certified", "exact", "fptas"])
def test_rewards_too_small_for_a_float_do_not_stop_a_planner(name: str) -> None:
    instance = Instance([1e-200, 5e-201], [1e-200, 2e-200], 0.5, 1e-200)
    plan = load_plugins().planner(name).plan(instance, 5)
    assert plan.schedule.n_pulls == 5
    assert plan.value == 0


def test_fptas_refuses_sizes_it_cannot_do() -> None:
    instance = Instance(*clickbait_arms(0, 5), 0.1)
    with pytest.raises(InvalidValueError, match=r"larger 'epsilon'.*'certified'"):
        Fptas(1e-6).plan(instance, 10**6)
    with pytest.raises(InvalidValueError, match="more than 1 megabytes"):
        Fptas(1e-3, memory=1).plan(instance, 1000)


def test_greedy_takes_the_largest_pay_then_the_largest_end_state_then_the_first() -> None:
    instance = Instance([0.5, 0.9, 0.9, 0.9], [1.0, 0.1, 0.3, 0.3], 0.5)
    assert set(Greedy().plan(instance, 20).arms.tolist()) == {2}


@pytest.mark.parametrize("horizon", [1, 3, 50])
def test_best_fixed_is_the_best_of_all_constant_schedules(horizon: int) -> None:
    for instance in some_instances():
        values = [instance.value([arm] * horizon) for arm in range(instance.n_arms)]
        plan = BestFixed().plan(instance, horizon)
        assert math.isclose(plan.value, max(values), rel_tol=1e-12)
        assert len(set(plan.arms.tolist())) == 1


@pytest.mark.parametrize("horizon", [1, 2, 11, 300])
def test_best_cycle_is_the_best_of_all_cycles(horizon: int) -> None:
    for instance in random_instances(5, 30):
        cycles = itertools.chain.from_iterable(
            itertools.product(range(instance.n_arms), repeat=length)
            for length in range(1, min(3, horizon) + 1)
        )
        values = [instance.value(Schedule.cycle(cycle, horizon)) for cycle in cycles]
        plan = BestCycle(length=3).plan(instance, horizon)
        assert math.isclose(plan.value, max(values), rel_tol=1e-11, abs_tol=1e-300)
        assert plan.schedule.n_pulls == horizon


def test_best_cycle_of_full_length_is_the_optimum() -> None:
    for instance in random_instances(9, 20):
        assert math.isclose(
            BestCycle(length=5).plan(instance, 5).value,
            brute_force(instance, 5),
            rel_tol=1e-12,
            abs_tol=1e-300,
        )


def test_an_arm_inside_the_hull_can_make_the_best_short_cycle() -> None:
    """Free schedules never need the middle arm; a cycle of one arm needs nothing else."""
    instance = Instance([1.0, 0.49, 0.0], [0.0, 0.49, 1.0], 0.5)
    assert set(BestCycle(length=1).plan(instance, 1000).arms.tolist()) == {1}
    assert 1 not in Exact().plan(instance, 100).arms.tolist()


def test_best_cycle_refuses_more_cycles_than_it_may_try() -> None:
    instance = Instance(np.linspace(0, 1, 30), 1 - np.linspace(0, 1, 30) ** 2, 0.5)
    with pytest.raises(InvalidValueError, match=r"smaller 'length'.*'certified'"):
        BestCycle(length=8).plan(instance, 100)


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_the_potential_bound_holds_for_brute_force(horizon: int) -> None:
    for instance in some_instances():
        assert brute_force(instance, horizon) <= potential_bound(instance, horizon) * (1 + 1e-12)


@pytest.mark.parametrize("lam", [0.9, 0.1, 0.01, 1e-4])
def test_the_potential_bound_says_something_on_long_horizons(lam: float) -> None:
    for maker in (random_arms, clickbait_arms):
        instance = Instance(*maker(4, 20), lam)
        best = load_plugins().planner("certified").plan(instance, 5000)
        bound = potential_bound(instance, 5000)
        assert best.value <= bound <= 2.5 * best.value


def test_the_best_pair_is_worth_something_whenever_anything_is() -> None:
    for instance in some_instances():
        problem = reduce(instance)
        best = brute_force(instance, 4)
        pair, least = best_pair(problem, 4)
        assert least * problem.unit <= best * (1 + 1e-12)
        assert (least > 0) == (best > 0)
        schedule = problem.original(Schedule.cycle(pair, 4))
        assert math.isclose(
            instance.value(schedule), least * problem.unit, rel_tol=1e-9, abs_tol=1e-300
        )


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_returns_a_real_schedule_and_a_bound_that_holds(name: str) -> None:
    planner = load_plugins().planner(name)
    for instance in random_instances(21, 25):
        for horizon in (1, 2, 6):
            plan = planner.plan(instance, horizon)
            best = brute_force(instance, horizon)
            assert plan.schedule.n_pulls == horizon
            assert plan.arms.min() >= 0
            assert plan.arms.max() < instance.n_arms
            assert math.isclose(instance.value(plan.arms), plan.value, rel_tol=1e-9)
            assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)


@pytest.mark.parametrize("name", PLANNERS)
def test_no_planner_takes_a_horizon_of_nothing(name: str) -> None:
    with pytest.raises(InvalidValueError, match="horizon"):
        load_plugins().planner(name).plan(Instance([1.0], [1.0], 0.5), 0)


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("fptas", {"epsilon": 0.0}, "'epsilon' must be > 0"),
        ("fptas", {"memory": 0.0}, "'memory' must be > 0"),
        ("exact", {"memory": -1.0}, "'memory' must be > 0"),
        ("best-cycle", {"length": 0}, "'length' must be >= 1"),
        ("fptas", {"guarantee": "both"}, "guarantee"),
    ],
)
def test_parameters_are_checked(name: str, table: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_plugins().planner({"use": name, **table})
