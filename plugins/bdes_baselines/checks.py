"""Validators for parameters and rewards: a clear refusal that names what is wrong."""

import math
from collections.abc import Callable
from typing import Any

from bdes_framework import FloatArray, InvalidValueError, finite_rewards

Validator = Callable[[object, Any, Any], None]


def positive(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a finite number above 0."""
    if not (is_number(value) and 0 < value < math.inf):
        raise InvalidValueError(f"{attribute.name} must be a finite number above 0, got {value!r}")


def between(low: float, high: float) -> Validator:
    """Return a validator that refuses anything but a number from ``low`` to ``high``."""

    def check(instance: object, attribute: Any, value: float) -> None:
        if not (is_number(value) and low <= value <= high):
            raise InvalidValueError(
                f"{attribute.name} must be a number from {low:g} to {high:g}, got {value!r}"
            )

    return check


def at_least_one(instance: object, attribute: Any, value: int) -> None:
    """Refuse anything but an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValueError(f"{attribute.name} must be an integer of at least 1, got {value!r}")


def is_number(value: object) -> bool:
    """Say whether ``value`` is an integer or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def reward_in_unit_interval(rewards: FloatArray) -> float:
    """Return the one reward told, for policies whose arithmetic breaks outside [0, 1]."""
    (reward,) = finite_rewards(rewards, 1).tolist()
    if not 0.0 <= reward <= 1.0:
        raise InvalidValueError(f"rewards must lie in [0, 1], got {reward!r}")
    return float(reward)
