"""attrs validators that ``attrs.validators`` has not: numbers that are neither bool nor NaN."""

from typing import Any

from bdes_framework.errors import InvalidValueError


def is_number(_: object, attribute: Any, value: object) -> None:
    """Validate that a config's value is an int or a float; a bool and NaN are neither.

    Examples
    --------
    >>> from attrs import field, frozen, validators
    >>> @frozen
    ... class Config:
    ...     width: float = field(default=1.0, validator=[is_number, validators.gt(0)])
    >>> Config(width=True)
    Traceback (most recent call last):
    bdes_framework.errors.InvalidValueError: 'width' must be a number: True
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise InvalidValueError(f"'{attribute.name}' must be a number: {value!r}")


def is_integer(_: object, attribute: Any, value: object) -> None:
    """Validate that a config's value is an int, and no bool."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValueError(f"'{attribute.name}' must be an integer: {value!r}")
