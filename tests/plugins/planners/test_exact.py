"""``exact`` where the optimum is known, and what any optimum must satisfy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework import Instance, InvalidValueError, load_plugins
from bdes_planners.exact import Exact
from bdes_planners.single_arm import BestFixed
from tests.support.planner_oracles import clickbait_arms, table_for_rate_one


@pytest.mark.parametrize("seed", range(20))
def test_exact_equals_a_table_at_rate_one(seed: int) -> None:
    instance = Instance(*clickbait_arms(seed, 12), 1.0, q0=0.4)
    best = table_for_rate_one(instance, 300)
    assert Exact().plan(instance, 300).value == pytest.approx(best, rel=1e-12)


def test_the_largest_pay_is_best_at_rate_zero() -> None:
    plan = Exact().plan(Instance([0.2, 0.7, 0.5], [1.0, 0.0, 0.9], 0.0, q0=0.5), 1000)
    assert set(plan.arms.tolist()) == {1}
    assert plan.value == pytest.approx(1000 * 0.7 * 0.5, rel=1e-9)


@pytest.mark.parametrize("lam", [1e-4, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("c", [1e-6, 0.3, 7.0, 1e8])
def test_scaling_does_not_change_the_value(lam: float, c: float) -> None:
    instance = Instance(*clickbait_arms(5, 10), lam, q0=0.8)
    value = Exact().plan(instance, 60).value
    assert Exact().plan(instance.scaled(c), 60).value == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize(("memory", "horizon"), [(0.25, 5000), (512.0, 10**9)])
def test_outgrowing_the_memory_raises(memory: float, horizon: int) -> None:
    planner = load_plugins().planner("exact", memory=memory)
    text = rf"{memory:g} megabytes.*more 'memory'.*'certified'"
    with pytest.raises(InvalidValueError, match=text):
        planner.plan(Instance(*clickbait_arms(1, 50), 0.01), horizon)


unit = st.floats(0, 1, allow_subnormal=False)
rates = st.one_of(unit, st.sampled_from([0.0, 1.0, 0.5, 1e-6]))
point = st.tuples(unit, unit)


@given(st.lists(point, min_size=2, max_size=6), point, point, rates, unit, st.integers(1, 25))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_only_arms_outside_the_hull_change_it(
    points: list[tuple[float, float]],
    extra: tuple[float, float],
    shares: tuple[float, float],
    lam: float,
    q0: float,
    horizon: int,
) -> None:
    def instance(*more: tuple[float, float]) -> Instance:
        r, b = zip(*points, *more, strict=True)
        return Instance(r, b, lam, q0)

    plan, fixed = Exact().plan(instance(), horizon), BestFixed().plan(instance(), horizon)
    assert fixed.value <= plan.value * (1 + 1e-12)
    assert plan.value <= plan.upper_bound <= plan.value * (1 + 1e-9)
    assert plan.value <= fixed.upper_bound * (1 + 1e-12)
    assert Exact().plan(instance(extra), horizon).value >= plan.value * (1 - 1e-12)
    (r0, b0), (r1, b1) = points[:2]
    weight, shrink = shares
    inside = (shrink * (weight * r0 + (1 - weight) * r1), weight * b0 + (1 - weight) * b1)
    with_inside = Exact().plan(instance(inside), horizon).value
    assert with_inside == pytest.approx(plan.value, rel=1e-12, abs=1e-300)
