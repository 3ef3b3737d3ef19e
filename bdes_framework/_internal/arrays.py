"""Array types of the whole framework, and checked conversion to arrays of arms."""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError

FloatArray: TypeAlias = NDArray[np.float64]
"""Rewards, means, states, parameters: 64-bit floats."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Answers, yes or no, one per item."""

IntArray: TypeAlias = NDArray[np.int64]
"""Arms and rounds, counted from 0: 64-bit integers."""

ArrayT = TypeVar("ArrayT", bound=NDArray[Any])


def read_only(array: ArrayT) -> ArrayT:
    """Return a view of the same numbers that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def holds_booleans(values: object) -> bool:
    """Return whether a sequence or array holds a bool, which numpy would convert to 0 or 1."""
    if isinstance(values, np.ndarray):
        return bool(values.dtype == np.bool_)
    if not isinstance(values, Sequence):
        return False
    kinds = set(map(type, values))
    nested = kinds & {list, tuple, np.ndarray}
    return bool(kinds & {bool, np.bool_}) or (bool(nested) and any(map(holds_booleans, values)))


def as_arms(values: Sequence[int] | IntArray) -> IntArray:
    """Return arms, counted from 0, as a read-only one-dimensional array, or raise."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise InvalidValueError(
            f"arms must be a non-empty one-dimensional sequence, got shape {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.integer) or holds_booleans(values):
        raise InvalidValueError(f"arms must be 64-bit integers, got {quoted(values)}")
    if array.min() < 0:
        raise InvalidValueError(f"arms are counted from 0, got {int(array.min())}")
    if array.max() > np.iinfo(np.int64).max:
        raise InvalidValueError(f"arms must be 64-bit integers, got {int(array.max())}")
    arms = array.astype(np.int64)
    arms.flags.writeable = False
    return arms
