"""``exact`` against brute force and a table, and what an optimum must satisfy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework import Instance, InvalidValueError, load_plugins
from bdes_planners.exact import Exact
from bdes_planners.single_arm import BestFixed
from tests.support.planner_oracles import (
    brute_force,
    clickbait_arms,
    random_instances,
    special_instances,
    table_for_rate_one,
)

CLOSE = 1e-12


def close(value: float, expected: float, relative: float = CLOSE) -> bool:
    return math.isclose(value, expected, rel_tol=relative, abs_tol=1e-300)


@pytest.mark.parametrize("seed", range(4))
def test_exact_equals_brute_force_on_random_instances(seed: int) -> None:
    horizons = np.random.default_rng(seed).integers(1, 7, size=75).tolist()
    for instance, horizon in zip(random_instances(seed, 75), horizons, strict=True):
        plan = Exact().plan(instance, horizon)
        assert close(plan.value, brute_force(instance, horizon)), (instance, horizon)
        assert plan.schedule.n_pulls == horizon
        assert plan.value <= plan.upper_bound
        assert close(plan.upper_bound, plan.value, 1e-10)


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_exact_equals_brute_force_on_ties_zeros_ones_and_equal_arms(horizon: int) -> None:
    for instance in special_instances():
        plan = Exact().plan(instance, horizon)
        assert close(plan.value, brute_force(instance, horizon)), instance
        assert close(plan.upper_bound, plan.value, 1e-10), instance


def test_exact_equals_brute_force_with_four_arms_over_eight_rounds() -> None:
    for instance in (i for i in random_instances(77, 60) if i.n_arms == 4):
        assert close(Exact().plan(instance, 8).value, brute_force(instance, 8)), instance
        break
    else:
        pytest.fail("no instance of four arms was drawn")


@pytest.mark.parametrize("seed", range(20))
def test_exact_equals_a_table_when_the_state_is_the_last_arm(seed: int) -> None:
    r, b = clickbait_arms(seed, 12)
    instance = Instance(r, b, 1.0, q0=0.4)
    assert close(Exact().plan(instance, 300).value, table_for_rate_one(instance, 300))


def test_a_state_that_never_moves_makes_the_largest_pay_optimal() -> None:
    instance = Instance([0.2, 0.7, 0.5], [1.0, 0.0, 0.9], 0.0, q0=0.5)
    plan = Exact().plan(instance, 1000)
    assert set(plan.arms.tolist()) == {1}
    assert close(plan.value, 1000 * 0.7 * 0.5, 1e-9)


@pytest.mark.parametrize("lam", [1e-4, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("c", [1e-6, 0.3, 7.0, 1e8])
def test_the_value_is_invariant_under_the_equivalence_scaling(lam: float, c: float) -> None:
    instance = Instance(*clickbait_arms(5, 10), lam, q0=0.8)
    value = Exact().plan(instance, 60).value
    assert close(Exact().plan(instance.scaled(c), 60).value, value, 1e-11)


def test_outgrowing_the_memory_is_an_error_that_names_certified() -> None:
    instance = Instance(*clickbait_arms(1, 50), 0.01)
    with pytest.raises(InvalidValueError, match=r"more 'memory'.*'certified'"):
        Exact(memory=0.25).plan(instance, 5000)
    with pytest.raises(InvalidValueError, match="certified"):
        Exact().plan(instance, 10**9)


@pytest.mark.parametrize("horizon", [0, -3, 2.5, True])
def test_a_horizon_must_be_a_positive_integer(horizon: int) -> None:
    with pytest.raises(InvalidValueError, match="horizon must be an integer of at least 1"):
        Exact().plan(Instance([1.0], [1.0], 0.5), horizon)


def test_exact_is_registered_with_its_memory_parameter() -> None:
    planner = load_plugins().planner("exact", memory=0.25)
    with pytest.raises(InvalidValueError, match=r"0\.25 megabytes"):
        planner.plan(Instance(*clickbait_arms(1, 50), 0.01), 5000)


# -- what an optimum must satisfy -----------------------------------------------------------

unit = st.floats(0, 1, allow_subnormal=False)
rates = st.one_of(unit, st.sampled_from([0.0, 1.0, 0.5, 1e-6]))
arms = st.lists(st.tuples(unit, unit), min_size=1, max_size=6)


def instance_of(points: list[tuple[float, float]], lam: float, q0: float) -> Instance:
    return Instance([r for r, _ in points], [b for _, b in points], lam, q0)


@given(points=arms, lam=rates, q0=unit, horizon=st.integers(1, 25))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_value_lies_between_best_fixed_and_the_upper_bound(
    points: list[tuple[float, float]], lam: float, q0: float, horizon: int
) -> None:
    instance = instance_of(points, lam, q0)
    plan, fixed = Exact().plan(instance, horizon), BestFixed().plan(instance, horizon)
    assert fixed.value <= plan.value * (1 + CLOSE)
    assert plan.value <= plan.upper_bound <= plan.value * (1 + 1e-9)
    assert plan.value <= fixed.upper_bound * (1 + CLOSE)


@given(points=arms, extra=st.tuples(unit, unit), lam=rates, q0=unit, horizon=st.integers(1, 20))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_adding_an_arm_never_lowers_the_value(
    points: list[tuple[float, float]],
    extra: tuple[float, float],
    lam: float,
    q0: float,
    horizon: int,
) -> None:
    few = Exact().plan(instance_of(points, lam, q0), horizon).value
    more = Exact().plan(instance_of([*points, extra], lam, q0), horizon).value
    assert more >= few * (1 - CLOSE)


@given(
    points=st.lists(st.tuples(unit, unit), min_size=2, max_size=5),
    weight=unit,
    shrink=unit,
    lam=rates,
    q0=unit,
    horizon=st.integers(1, 20),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_an_arm_inside_the_hull_changes_nothing(
    points: list[tuple[float, float]],
    weight: float,
    shrink: float,
    lam: float,
    q0: float,
    horizon: int,
) -> None:
    (r0, b0), (r1, b1) = points[:2]
    inside = (shrink * (weight * r0 + (1 - weight) * r1), weight * b0 + (1 - weight) * b1)
    without = Exact().plan(instance_of(points, lam, q0), horizon).value
    with_it = Exact().plan(instance_of([*points, inside], lam, q0), horizon).value
    assert close(with_it, without)
