"""What is lost blindly: against all sequences of arms, and against what tables are worth."""

import itertools

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import DecisionTable, FloatArray, Instance
from studies.crowd.blind import Costs, least_blind_loss, visits_by_number
from tests.support.players import PLUGINS


def table_of(seed: int, lam: float, n_arms: int = 3, continuation: float = 0.9) -> DecisionTable:
    rng = np.random.default_rng(seed)
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    instance = Instance(rng.random(n_arms), rng.random(n_arms), lam)
    return planner.plan_stationary(instance, continuation)


def costs_of_sequence(costs: Costs, arms: tuple[int, ...]) -> FloatArray:
    at, q, lost = costs.instance, costs.instance.q0, []
    for arm in arms:
        lost.append(float(costs.of(np.array([q]), np.array([arm]))[0]))
        q += at.lam * (float(at.b[arm]) - q)
    return np.array(lost)


@pytest.mark.parametrize("lam", [0.05, 0.5, 1.0])
def test_least_blind_loss_is_that_of_all_tried(lam: float) -> None:
    """Three arms, four visits: all 81 sequences, in all 6 orders of the arms."""
    costs, visits = Costs(table_of(1, lam)), np.array([7.0, 5.0, 2.0, 1.0])
    orders = list(itertools.permutations(range(3)))
    least = min(
        np.mean(
            [visits @ costs_of_sequence(costs, tuple(own[arm] for arm in arms)) for own in orders]
        )
        for arms in itertools.product(range(3), repeat=4)
    )
    assert least_blind_loss(costs, visits) == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_costs_add_up_to_what_is_lost(seed: int) -> None:
    """Some arms, then the table: what they cost is what they earn less than the table."""
    table = table_of(seed, 0.3)
    costs, at = Costs(table), table.instance
    arms = np.random.default_rng(seed).integers(3, size=12)
    g = table.continuation ** np.arange(12)
    left = costs.values_at(np.array([at.state_after(arms.tolist())]))
    earned = float(g @ at.expected_rewards(arms)) + table.continuation**12 * float(left[0])
    lost = g @ costs_of_sequence(costs, tuple(arms.tolist()))
    assert lost == pytest.approx(table.value - earned, abs=1e-3)


def test_best_arms_cost_nothing() -> None:
    table = table_of(2, 0.3)
    costs, states = Costs(table), np.linspace(0.05, 0.95, 50)
    assert costs.of(states, table.arms_at(states)).max() < 1e-3
    assert costs.of(states, np.argmin(table.instance.r).repeat(50)).max() > 1e-2


def test_one_arm_costs_nothing() -> None:
    costs = Costs(table_of(3, 0.3, n_arms=1))
    assert least_blind_loss(costs, np.array([5.0, 3.0])) == pytest.approx(0.0, abs=1e-6)


def test_visits_are_counted_by_number() -> None:
    found = visits_by_number(np.array([0, 1, 0, 2, 0, 1]), longest=4)
    assert found.tolist() == [3.0, 2.0, 1.0, 0.0]
