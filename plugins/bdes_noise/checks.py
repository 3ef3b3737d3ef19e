"""Validators for noise parameters: a clear refusal that names the parameter."""

import math
from typing import Any

from bdes_framework import InvalidValueError


def not_negative(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a finite number of at least 0."""
    if not (_is_number(value) and 0 <= value < math.inf):
        raise InvalidValueError(
            f"{attribute.name} must be a finite number of at least 0, got {value!r}"
        )


def positive(instance: object, attribute: Any, value: float) -> None:
    """Refuse anything but a finite number above 0."""
    if not (_is_number(value) and 0 < value < math.inf):
        raise InvalidValueError(f"{attribute.name} must be a finite number above 0, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
