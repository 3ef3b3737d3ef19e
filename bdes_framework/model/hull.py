"""Which arms a schedule can need: undominated arms, and the convex hull of the points (r, b).

Sorting and maxima are written out: those of numpy take seconds to compile the first time.
"""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled

_UNIT_ROUNDOFF = 2.0**-53
_SPLITTER = 2.0**27 + 1.0


@compiled
def pareto_arms(r: FloatArray, b: FloatArray) -> IntArray:
    """Return the arms that no other arm equals or beats in both r and b: r falling, b rising.

    Of equal arms the first stays.
    """
    kept = np.empty(r.size, dtype=np.int64)
    n = 0
    for arm in _falling_order(r):
        if n > 0 and b[arm] <= b[kept[n - 1]]:
            continue
        if n > 0 and r[arm] == r[kept[n - 1]]:
            n -= 1
        kept[n] = arm
        n += 1
    return kept[:n].copy()


@compiled
def hull_of_arms(r: FloatArray, b: FloatArray) -> IntArray:
    """Return the corners of the upper-right convex hull of the points (r, b): r falling, b rising.

    The best value of n rounds is convex and increasing in the state, so no optimal schedule needs
    another arm. No rounding decides which arms stay, unless r or b span 150 orders of magnitude.
    """
    kept = pareto_arms(r, b)
    r, b = r / _power_of_two_below(_largest(r)), b / _power_of_two_below(_largest(b))
    n = 0
    for arm in kept:
        while n > 1 and not _is_corner(r, b, kept[n - 2], kept[n - 1], arm):
            n -= 1
        kept[n] = arm
        n += 1
    return kept[:n].copy()


@compiled
def _falling_order(values: FloatArray) -> IntArray:
    """Return the places of values from the largest down, equal ones as they come (merge sort)."""
    n = values.size
    order, merged = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for place in range(start, end):
                if left < middle and (right == end or values[order[left]] >= values[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order


@compiled
def _largest(values: FloatArray) -> float:
    """Return the largest of some values, of which there must be one."""
    largest = float(values[0])
    for i in range(values.size):
        largest = max(largest, values[i])
    return largest


@compiled
def _power_of_two_below(value: float) -> float:
    """Return the largest power of two up to ``value``; dividing by it rounds nothing."""
    if value == 0.0:
        return 1.0
    return float(2.0 ** min(max(np.floor(np.log2(value)), -1000.0), 1000.0))


@compiled
def _is_corner(r: FloatArray, b: FloatArray, before: int, middle: int, after: int) -> bool:
    """Return whether ``middle`` lies strictly above the chord from ``before`` to ``after``."""
    left = (r[before] - r[after]) * (b[middle] - b[before])
    right = (b[after] - b[before]) * (r[before] - r[middle])
    if abs(left - right) > 16 * _UNIT_ROUNDOFF * (abs(left) + abs(right)):
        return bool(left > right)
    # The same difference, multiplied out and added up without rounding (Shewchuk, 1997).
    parts = np.zeros(13)
    n = 0
    for i, j, sign in (
        (before, middle, 1.0),
        (after, middle, -1.0),
        (after, before, 1.0),
        (before, after, -1.0),
        (middle, after, 1.0),
        (middle, before, -1.0),
    ):
        product, error = _exact_product(sign * r[i], b[j])
        n = _add_exactly(parts, n, error)
        n = _add_exactly(parts, n, product)
    return bool(n > 0 and parts[n - 1] > 0.0)


@compiled
def _exact_product(x: float, y: float) -> tuple[float, float]:
    """Return the rounded product and what rounding left out (Dekker's product)."""
    product = x * y
    x_high = _SPLITTER * x - (_SPLITTER * x - x)
    y_high = _SPLITTER * y - (_SPLITTER * y - y)
    x_low, y_low = x - x_high, y - y_high
    error = x_low * y_low - (product - x_high * y_high - x_low * y_high - x_high * y_low)
    return product, error


@compiled
def _add_exactly(parts: FloatArray, n: int, x: float) -> int:
    """Add a number to a sum kept as ``n`` parts that do not overlap; return the new ``n``."""
    kept = 0
    for i in range(n):
        total = x + parts[i]
        virtual = total - x
        error = (x - (total - virtual)) + (parts[i] - virtual)
        if error != 0.0:
            parts[kept] = error
            kept += 1
        x = total
    if x != 0.0:
        parts[kept] = x
        kept += 1
    return kept
