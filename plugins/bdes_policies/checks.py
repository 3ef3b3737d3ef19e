"""Validators for parameters: a clear refusal that names what is wrong."""

import math
from collections.abc import Callable
from typing import Any

from bdes_framework import FloatArray, InvalidValueError, Problem, finite_rewards

Validator = Callable[[object, Any, Any], None]


def positive(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a finite number above 0."""
    if not (_is_number(value) and 0 < value < math.inf):
        raise InvalidValueError(f"{attribute.name} must be a finite number above 0, got {value!r}")


def up_to_one(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a number above 0 and at most 1."""
    if not (_is_number(value) and 0 < value <= 1):
        raise InvalidValueError(
            f"{attribute.name} must be a number above 0 and at most 1, got {value!r}"
        )


def between_0_and_1(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a number between 0 and 1, neither of them."""
    if not (_is_number(value) and 0 < value < 1):
        raise InvalidValueError(
            f"{attribute.name} must be a number between 0 and 1, neither of them, got {value!r}"
        )


def a_spread_of_logits(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a number from 0.001 to 1000: beyond, squares of it lose all digits."""
    if not (_is_number(value) and 1e-3 <= value <= 1e3):
        raise InvalidValueError(
            f"{attribute.name} must be a number from 0.001 to 1000, got {value!r}"
        )


def not_negative(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a number of at least 0."""
    if not (_is_number(value) and value >= 0):
        raise InvalidValueError(f"{attribute.name} must be a number of at least 0, got {value!r}")


def at_least_one(instance: object, attribute: Any, value: int) -> None:
    """Refuse anything but an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValueError(f"{attribute.name} must be an integer of at least 1, got {value!r}")


def known_rate(problem: Problem, policy: str, instead: str) -> float:
    """Return lam, or refuse a problem that does not say it."""
    if problem.lam is None:
        raise InvalidValueError(f"{policy} needs to know lam; without it, use {instead}")
    return float(problem.lam)


def reward_in_unit_interval(rewards: FloatArray) -> float:
    """Return the one reward told, for policies whose arithmetic breaks outside [0, 1]."""
    (reward,) = finite_rewards(rewards, 1).tolist()
    if not 0.0 <= reward <= 1.0:
        raise InvalidValueError(f"rewards must lie in [0, 1], got {reward!r}")
    return float(reward)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
