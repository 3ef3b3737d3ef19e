"""All planners: against brute force on short horizons, and what they say of bad input."""

from functools import cache

import numpy as np
import pytest

from bdes_framework import Instance, InvalidValueError, load_plugins
from bdes_framework.testing import best_value
from tests.support.planner_oracles import random_instances, special_instances

PLUGINS = load_plugins()
PLANNERS = ("best-cycle", "best-fixed", "certified", "exact", "fptas", "greedy")


@cache
def solved(cases: str) -> list[tuple[Instance, int, float]]:
    """Return instances, horizons and the best value by brute force."""
    if cases == "special":
        pairs = [(instance, horizon) for instance in special_instances() for horizon in (1, 2, 5)]
    elif cases == "four arms":
        pairs = [next((i, 8) for i in random_instances(77, 60) if i.n_arms == 4)]
    else:
        horizons = np.random.default_rng(int(cases)).integers(1, 7, size=75).tolist()
        pairs = list(zip(random_instances(int(cases), 75), horizons, strict=True))
    return [(instance, horizon, best_value(instance, horizon)) for instance, horizon in pairs]


@pytest.mark.parametrize("cases", ["0", "1", "2", "3", "special", "four arms"])
@pytest.mark.parametrize("name", PLANNERS)
def test_plans_hold_against_brute_force(name: str, cases: str) -> None:
    planner = PLUGINS.planner(name)
    for instance, horizon, best in solved(cases):
        plan = planner.plan(instance, horizon)
        where = (instance, horizon, plan)
        assert plan.schedule.n_pulls == horizon == plan.schedule.counts(instance.n_arms).sum()
        assert instance.value(plan.arms) == pytest.approx(plan.value, rel=1e-9), where
        assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12), where
        assert plan.value <= plan.upper_bound, where
        if name == "exact" or (name == "best-cycle" and horizon <= 4):
            assert plan.value == pytest.approx(best, rel=1e-12, abs=1e-300), where
        if name == "exact":
            assert plan.upper_bound == pytest.approx(plan.value, rel=1e-10, abs=1e-300), where
        if name == "certified":
            assert plan.gap <= 1e-4, where
        if name == "fptas":
            assert plan.value >= best - 0.01 * horizon * (1 + 1e-9), where


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("horizon", [0, -3, 2.5, True])
def test_a_horizon_is_a_positive_integer(name: str, horizon: int) -> None:
    with pytest.raises(InvalidValueError, match="horizon must be an integer of at least 1"):
        PLUGINS.planner(name).plan(Instance([1.0], [1.0], 0.5), horizon)


@pytest.mark.parametrize("name", ["certified", "exact", "fptas"])
def test_rewards_too_small_for_a_float_are_planned(name: str) -> None:
    instance = Instance([1e-200, 5e-201], [1e-200, 2e-200], 0.5, 1e-200)
    plan = PLUGINS.planner(name).plan(instance, 5)
    assert plan.schedule.n_pulls == 5
    assert plan.value == 0


@pytest.mark.parametrize(
    ("name", "parameter", "value", "message"),
    [
        ("fptas", "epsilon", 0.0, "'epsilon' must be > 0"),
        ("fptas", "memory", 0.0, "'memory' must be > 0"),
        ("fptas", "guarantee", "both", "guarantee"),
        ("exact", "memory", -1.0, "'memory' must be > 0"),
        ("best-cycle", "length", 0, "'length' must be >= 1"),
        ("certified", "gap", 0.0, "'gap' must be > 0"),
        ("certified", "gap", np.inf, "'gap' must be < inf"),
        ("certified", "work", 0, "'work' must be >= 1"),
    ],
)
def test_parameters_are_checked(name: str, parameter: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PLUGINS.planner({"use": name, parameter: value})
