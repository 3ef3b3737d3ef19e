"""Counting work where a measure of time would depend on the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def n_lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python some work runs; those of compiled code do not count."""
    n = 0

    def count(_: FrameType, event: str, __: Any) -> Any:
        nonlocal n
        n += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return n
