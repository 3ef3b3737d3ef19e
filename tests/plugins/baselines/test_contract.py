"""Every reference policy: arms in range, limits, diagnostics, rejected values."""

import math

import numpy as np
import pytest

from bdes_baselines.exp3 import Exp3Config
from bdes_framework import ConfigError, HasDiagnostics, InvalidValueError
from tests.support.reward_tables import NAMES, arms_played, build, tables


def test_the_plugin_registers_the_reference_policies() -> None:
    assert sorted(NAMES) == [
        "aae",
        "discounted-ucb",
        "exp3",
        "fixed-schedule",
        "sliding-window-ucb",
        "thompson",
        "ucb1",
        "uniform",
        "wide-ucb",
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_arms", "horizon"), [(1, 1), (1, 50), (6, 1), (6, 4), (3, 200)])
def test_arms_stay_in_range_at_any_size(name: str, n_arms: int, horizon: int) -> None:
    for table in tables(n_arms, horizon).values():
        arms = arms_played(build(name, n_arms, horizon), table)
        assert len(arms) == horizon
        assert set(arms) <= set(range(n_arms))


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"fixed-schedule", "uniform"}))
def test_diagnostics_are_copies_of_small_arrays(name: str) -> None:
    policy = build(name, 3, 100)
    assert isinstance(policy, HasDiagnostics)
    arms_played(policy, tables(3, 100)["clicks"])
    shown = policy.diagnostics()
    arrays = {key: value for key, value in shown.items() if isinstance(value, np.ndarray)}
    kept = {key: value.copy() for key, value in arrays.items()}
    assert arrays
    for value in arrays.values():
        assert value.size <= 3
        assert np.isfinite(value).all()
        value.fill(-7)
    again = policy.diagnostics()
    for key, value in kept.items():
        np.testing.assert_array_equal(again[key], value)


@pytest.mark.parametrize("name", ["exp3", "thompson"])
@pytest.mark.parametrize("bad", [-0.1, 1.1])
def test_rewards_outside_0_1_raise(name: str, bad: float) -> None:
    policy = build(name, 3, 100)
    policy.ask(1)
    with pytest.raises(InvalidValueError, match=f"rewards must .* got {bad!r}"):
        policy.tell(np.array([bad]))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("ucb1", {"exploration": 0.0}, "'exploration' must be > 0"),
        ("ucb1", {"exploration": math.inf}, "'exploration' must be < inf"),
        ("aae", {"delta": 0.0}, "'delta' must be >= 1e-300"),
        ("aae", {"delta": 1.5}, "'delta' must be <= 1"),
        ("exp3", {"gamma": 0.0}, "'gamma' must be >= 1e-09"),
        ("exp3", {"gamma": 1.01}, "'gamma' must be <= 1"),
        ("thompson", {"alpha": 0.0}, "'alpha' must be >= 1e-09"),
        ("thompson", {"beta": math.inf}, "'beta' must be <= 1"),
        ("discounted-ucb", {"gamma": 1.5}, "'gamma' must be <= 1"),
        ("discounted-ucb", {"B": -1.0}, "'B' must be > 0"),
        ("discounted-ucb", {"changes": 0}, "'changes' must be >= 1"),
        ("sliding-window-ucb", {"xi": 0.0}, "'xi' must be > 0"),
        ("sliding-window-ucb", {"tau": 0}, "'tau' must be >= 1"),
        ("fixed-schedule", {"cycle": []}, "cycle needs at least one arm"),
        ("fixed-schedule", {"cycle": [0, -1]}, "arms are integers counted from 0, got -1"),
    ],
)
def test_parameters_out_of_range_raise_by_name(
    name: str, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, 3, 100, **parameters)


def test_config_with_a_bool_for_a_number_raises() -> None:
    with pytest.raises(InvalidValueError, match="'gamma' must be a number: True"):
        Exp3Config(gamma=True)
