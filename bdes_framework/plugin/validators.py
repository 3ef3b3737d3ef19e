"""Validators of config fields that attrs lacks: numbers that are neither bool nor NaN."""

from typing import Any

from bdes_framework._internal.numbers import is_number
from bdes_framework.errors import InvalidValueError


def validate_number(_: object, attribute: Any, value: object) -> None:
    """Validate that a config's value is an int or a float; a bool and NaN are neither.

    Examples
    --------
    >>> from attrs import field, frozen, validators
    >>> @frozen
    ... class Config:
    ...     width: float = field(default=1.0, validator=[validate_number, validators.gt(0)])
    >>> Config(width=True)
    Traceback (most recent call last):
    bdes_framework.errors.InvalidValueError: 'width' must be a number: True
    """
    if not is_number(value) or value != value:
        raise InvalidValueError(f"'{attribute.name}' must be a number: {value!r}")


def validate_integer(_: object, attribute: Any, value: object) -> None:
    """Validate that a config's value is an int; a bool is not."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValueError(f"'{attribute.name}' must be an integer: {value!r}")
