"""Checked conversion of numbers that users and plugins pass in."""

import numpy as np

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError


def is_number(value: object) -> bool:
    """Return whether a value is a Python or numpy integer or float; a bool is not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_integer(value: object, name: str, at_least: int) -> int:
    """Return a Python or numpy integer of at least ``at_least`` as an int, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise InvalidValueError(
            f"{name} must be an integer of at least {at_least}, got {quoted(value)}"
        )
    return int(value)
