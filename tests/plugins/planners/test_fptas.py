"""``fptas``: both guarantees, sizes it cannot do, and agreement with ``exact``."""

from typing import Literal

import pytest

from bdes_framework import Instance, InvalidValueError
from bdes_framework.testing import best_value
from bdes_planners.exact import Exact
from bdes_planners.fptas import Fptas
from tests.support.planner_oracles import clickbait_arms, random_instances, special_instances


@pytest.mark.parametrize("epsilon", [0.3, 0.05, 0.001])
def test_fptas_keeps_its_guarantees(epsilon: float) -> None:
    for instance in [*random_instances(3, 80), *special_instances()]:
        plan, best = Fptas(epsilon).plan(instance, 4), best_value(instance, 4)
        loss = epsilon * 4 * (1 + 1e-9)
        assert best - loss <= plan.value <= best * (1 + 1e-12), instance
        assert best <= plan.upper_bound * (1 + 1e-12)
        assert plan.upper_bound <= max(plan.value + loss + 1e-300, plan.value * (1 + 1e-9))
        if epsilon > 0.01:
            relative = Fptas(epsilon, "multiplicative").plan(instance, 4)
            assert relative.value >= (1 - epsilon) * best * (1 - 1e-12), instance
            assert best <= relative.upper_bound * (1 + 1e-12)


def test_additive_loses_much_where_pay_is_small() -> None:
    """Why ``guarantee = "multiplicative"`` exists: every reward here rounds down to nothing."""
    instance = Instance([0.09, 0.01], [0.0, 1.0], 0.9)
    best = Exact().plan(instance, 40).value
    assert Fptas(0.1).plan(instance, 40).value < 0.5 * best
    assert Fptas(0.1, "multiplicative").plan(instance, 40).value >= 0.9 * best


def test_fptas_skips_no_rounds_as_printed() -> None:
    """Pulling costs state here, so a schedule that may stop early would."""
    instance = Instance([0.05, 0.02], [0.0, 0.1], 0.9)
    for horizon in (1, 7, 30):
        assert Fptas(0.02).plan(instance, horizon).schedule.n_pulls == horizon


@pytest.mark.parametrize("seed", range(5))
def test_fptas_agrees_with_exact_on_150_rounds(seed: int) -> None:
    instance = Instance(*clickbait_arms(seed, 20), 0.2)
    best, plan = Exact().plan(instance, 150).value, Fptas(1e-3).plan(instance, 150)
    assert best - 150 * 1e-3 <= plan.value <= best * (1 + 1e-12)
    assert best <= plan.upper_bound <= best + 150 * 1e-3


@pytest.mark.parametrize("guarantee", ["additive", "multiplicative"])
@pytest.mark.parametrize("q0", [0.0, 1e-10, 0.7])
def test_fptas_plans_one_round(guarantee: Literal["additive", "multiplicative"], q0: float) -> None:
    plan = Fptas(0.1, guarantee).plan(Instance([0.3, 0.9], [1.0, 0.1], 0.5, q0), 1)
    assert plan.arms.tolist() == [1]
    assert plan.value == pytest.approx(0.9 * q0, rel=1e-12)
    assert 0.9 * q0 <= plan.upper_bound <= 0.9 * q0 * (1 + 1e-9)


@pytest.mark.parametrize("lam", [0.5, 1e-9, 1e-200])
@pytest.mark.parametrize("horizon", [2, 3, 6])
def test_fptas_plans_from_state_zero(lam: float, horizon: int) -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], lam, 0.0)
    plan = Fptas(0.1, "multiplicative").plan(instance, horizon)
    best = best_value(instance, horizon)
    assert 0 < 0.9 * best <= plan.value <= best * (1 + 1e-12)
    assert best <= plan.upper_bound * (1 + 1e-12)


def test_fptas_needs_no_room_for_the_last_state() -> None:
    """Two rounds pay at most r·(q0 + lam) each; counting the state after them asks for more."""
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.25, 0.0)
    levels = 2 * 0.9 * 0.25 / 1e-5
    assert Fptas(1e-5, memory=1.2 * 16 * levels / 2**20).plan(instance, 2).value > 0


@pytest.mark.parametrize(
    ("planner", "horizon", "message"),
    [
        (Fptas(1e-6), 10**6, r"larger 'epsilon'.*'certified'"),
        (Fptas(1e-3, memory=1), 1000, "more than 1 megabytes"),
    ],
)
def test_fptas_rejects_sizes_it_cannot_do(planner: Fptas, horizon: int, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        planner.plan(Instance(*clickbait_arms(0, 5), 0.1), horizon)
