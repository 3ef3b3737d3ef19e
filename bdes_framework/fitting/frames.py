"""Rows of a log from a frame of pandas or polars, without importing either."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bdes_framework._internal.arrays import IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.rows import Chunk, Columns, column_places, user_name

_CHUNK = 1 << 13
_MISSING_TYPES = ("NAType", "NaTType")
"""The classes of pandas' own values for what is missing."""


def frame_chunks(frame: Any, columns: Columns) -> Iterator[Chunk]:
    """Yield the rows of a frame, those of each user together, in the frame's order."""
    if not hasattr(frame, "columns"):
        raise InvalidValueError(f"expected a frame of pandas or polars, got {quoted(frame)}")
    headings = list(frame.columns)
    places = column_places([str(heading) for heading in headings], columns, "frame")
    values = [_python_values(frame[headings[place]]) for place in places]
    rows = np.arange(len(values[0]))
    if columns.user is not None:
        rows = _by_user(values[2])
    for begin in range(0, rows.size, _CHUNK):
        lines = rows[begin : begin + _CHUNK].tolist()
        yield Chunk(lines, [[column[row] for row in lines] for column in values])


def _python_values(series: Any) -> list[Any]:
    """Return a column as Python values, None where one is missing."""
    if str(series.dtype).startswith("Datetime"):  # of polars: as integers, which keep every digit
        series = series.to_physical()
    return [None if _is_missing(value) else value for value in series.to_list()]


def _is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in _MISSING_TYPES


def _by_user(users: Sequence[Any]) -> IntArray:
    """Return the order of rows that brings users together, in the order they first appear."""
    numbers: dict[bytes, int] = {}
    known: dict[object, int] = {}
    found = np.empty(len(users), dtype=np.int64)
    for row, user in enumerate(users):
        try:
            number = known.get(user)
        except TypeError:
            what = f"a user is text or a number, got {quoted(user)}"
            raise InvalidValueError(f"frame, row {row}: {what}") from None
        if number is None:
            number = known[user] = numbers.setdefault(user_name(user), len(numbers))
        found[row] = number
    return np.argsort(found, kind="stable")
