"""Compiled steps on convex functions of the state, each kept as its upper envelope of lines.

V_n(q), the best reward of n rounds from state q, is convex, increasing and piecewise
linear: line (m, c) followed backwards through arm i becomes
``((1-lam)*m + r[i], c + lam*b[i]*m)``. Everything here runs interpreted as well, with the
same results.
"""

from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled

_CELLS = 16
_WORTH_CHOOSING = 32


class Lines(NamedTuple):
    """Room for the lines of an envelope on [low, high], in order of slope; a size goes with it."""

    slope: FloatArray
    base: FloatArray
    start: FloatArray
    """From here to the next line's start, this line is the highest."""
    arm: IntArray
    """The arm whose pull the line starts with."""


def room_for(n_lines: int) -> Lines:
    """Return room for ``n_lines`` lines."""
    return Lines(
        np.zeros(n_lines), np.zeros(n_lines), np.zeros(n_lines), np.zeros(n_lines, dtype=np.int64)
    )


@compiled
def push(
    lines: Lines, size: int, low: float, high: float, slope: float, base: float, arm: int
) -> int:
    """Add a line of no smaller slope to an envelope; drop what it covers; return the new size."""
    start = low
    while size > 0:
        last = size - 1
        at = lines.start[last]
        steeper = slope - lines.slope[last]
        if slope * at + base < lines.slope[last] * at + lines.base[last]:
            if steeper <= 0.0:
                return size
            start = (lines.base[last] - base) / steeper
            if start >= high:
                return size
            if start > at:
                break
        size = last  # covered: lower from its start on
        start = low
    lines.slope[size] = slope
    lines.base[size] = base
    lines.start[size] = start
    lines.arm[size] = arm
    return size + 1


class Heads(NamedTuple):
    """Room for what a backward step notes of each arm: arrays of shape (k,)."""

    next: IntArray
    """The next line of V to follow back through the arm."""
    last: IntArray
    """The last one that can matter; below ``next`` when none is left."""
    slope: FloatArray
    """The next line, followed back."""
    base: FloatArray
    left: FloatArray
    """V at the left end of the cell looked at, moved by the arm; ``right`` likewise."""
    right: FloatArray
    left_line: IntArray
    """Which line of V is highest there; ``right_line`` likewise."""
    right_line: IntArray


def heads_for(n_arms: int) -> Heads:
    """Return room for ``n_arms`` arms."""
    floats = [np.zeros(n_arms) for _ in range(4)]
    ints = [np.zeros(n_arms, dtype=np.int64) for _ in range(4)]
    return Heads(ints[0], ints[1], floats[0], floats[1], floats[2], floats[3], ints[2], ints[3])


@compiled
def line_at(lines: Lines, first: int, last: int, q: float) -> int:
    """Return which of the lines ``first`` to ``last`` is the highest at ``q``."""
    while first < last:
        middle = (first + last + 1) // 2
        if lines.start[middle] <= q:
            first = middle
        else:
            last = middle - 1
    return first


@compiled
def _look(
    value: Lines, size: int, b: FloatArray, lam: float, q: float, at: FloatArray, line: IntArray
) -> None:
    """Evaluate V where each arm moves the state ``q`` to."""
    for arm in range(b.size):
        moved = q + lam * (b[arm] - q)
        line[arm] = line_at(value, 0, size - 1, moved)
        at[arm] = value.slope[line[arm]] * moved + value.base[line[arm]]


@compiled
def _best_at(r: FloatArray, q: float, at: FloatArray) -> int:
    best = 0
    for arm in range(1, r.size):
        if r[arm] * q + at[arm] > r[best] * q + at[best]:
            best = arm
    return best


@compiled
def _most_ahead(
    heads: Heads, r: FloatArray, left: float, right: float, arm: int, rival: int
) -> float:
    """Bound how much better ``arm`` can be than ``rival`` between two states.

    Say r of arm is larger, b smaller. Its lead, ``(r - r')*q - [V(moved') - V(moved)]``, is
    a difference of two increasing functions of q: V is convex and the two moved states stay
    equally far apart. So the ends bound it.
    """
    if arm < rival:
        lead = (r[arm] - r[rival]) * right - (heads.left[rival] - heads.left[arm])
    else:
        lead = (heads.right[arm] - heads.right[rival]) - (r[rival] - r[arm]) * left
    return float(lead)


@compiled
def _choose_lines(
    value: Lines,
    size: int,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    low: float,
    high: float,
    margin: float,
    heads: Heads,
) -> None:
    """Find, for each arm, which lines of V may matter when followed back through it.

    The states are looked at in cells; an arm that is surely beaten in a cell needs none of
    the lines it would use there.
    """
    for arm in range(r.size):
        heads.next[arm], heads.last[arm] = size, -1
    cells = min(_CELLS, size)
    left = low
    _look(value, size, b, lam, left, heads.left, heads.left_line)
    best_left = _best_at(r, left, heads.left)
    for cell in range(1, cells + 1):
        right = min(max(value.start[cell * size // cells], low), high) if cell < cells else high
        _look(value, size, b, lam, right, heads.right, heads.right_line)
        best_right = _best_at(r, right, heads.right)
        for arm in range(r.size):
            beaten = (
                _most_ahead(heads, r, left, right, arm, best_left) < -margin
                or _most_ahead(heads, r, left, right, arm, best_right) < -margin
            )
            if not beaten:
                heads.next[arm] = min(heads.next[arm], heads.left_line[arm])
                heads.last[arm] = max(heads.last[arm], heads.right_line[arm])
        for arm in range(r.size):
            heads.left[arm] = heads.right[arm]
            heads.left_line[arm] = heads.right_line[arm]
        left, best_left = right, best_right


@compiled
def _follow(value: Lines, heads: Heads, arm: int, pay: float, keep: float, drift: float) -> None:
    """Follow the next line of V back through an arm; leave an endless slope when none is left."""
    line = heads.next[arm]
    if line > heads.last[arm]:
        heads.slope[arm] = np.inf
    else:
        heads.slope[arm] = keep * value.slope[line] + pay
        heads.base[arm] = value.base[line] + drift * value.slope[line]


@compiled
def backward(
    value: Lines,
    size: int,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    low: float,
    high: float,
    margin: float,
    heads: Heads,
    out: Lines,
) -> tuple[int, int]:
    """Write the envelope one round earlier into ``out``; return its size and the lines handled.

    ``r`` falls and ``b`` rises along the arms. ``margin`` is an amount that rounding cannot
    reach. Needs room for ``size * len(r)`` lines.
    """
    keep = 1.0 - lam
    if size >= _WORTH_CHOOSING:
        _choose_lines(value, size, r, b, lam, low, high, margin, heads)
    else:
        for arm in range(r.size):
            heads.next[arm], heads.last[arm] = 0, size - 1
    for arm in range(r.size):
        _follow(value, heads, arm, r[arm], keep, lam * b[arm])
    top, work = 0, 0
    while True:
        arm = 0
        for other in range(1, r.size):
            if heads.slope[other] < heads.slope[arm]:
                arm = other
        if heads.slope[arm] == np.inf:
            return top, work
        top = push(out, top, low, high, heads.slope[arm], heads.base[arm], arm)
        work += 1
        heads.next[arm] += 1
        _follow(value, heads, arm, r[arm], keep, lam * b[arm])


@compiled
def copy_lines(source: Lines, size: int, target: Lines) -> None:
    """Copy ``size`` lines."""
    for line in range(size):
        target.slope[line] = source.slope[line]
        target.base[line] = source.base[line]
        target.start[line] = source.start[line]
        target.arm[line] = source.arm[line]


@compiled
def _longest_chord(
    lines: Lines,
    size: int,
    high: float,
    first: int,
    tolerance: float,
    centre: float,
    width: float,
) -> tuple[int, float, float]:
    """Return where the longest good chord from a line's start ends, its slope and its base.

    A chord is good if it is nowhere above the envelope by more than the tolerance, which
    grows with the square of the chord's distance from ``centre`` in units of ``width``.
    """
    left = lines.start[first]
    at_left = lines.slope[first] * left + lines.base[first]
    end, slope, base = first + 1, lines.slope[first], lines.base[first]
    below = first
    for stop in range(first + 2, size + 1):
        right = lines.start[stop] if stop < size else high
        at_right = lines.slope[stop - 1] * right + lines.base[stop - 1]
        rise = (at_right - at_left) / (right - left)
        while below < stop - 1 and lines.slope[below + 1] <= rise:
            below += 1
        knot = lines.start[below + 1] if below + 1 < size else high
        error = at_left + rise * (knot - left) - (lines.slope[below] * knot + lines.base[below])
        away = max(left - centre, centre - right, 0.0) / width
        if error > tolerance * (1.0 + away * away):
            break
        end, slope, base = stop, rise, at_left - rise * left
    return end, slope, base


@compiled
def simplify(
    lines: Lines,
    size: int,
    high: float,
    tolerance: float,
    centre: float,
    width: float,
    out: Lines,
) -> int:
    """Write an envelope of few lines that is nowhere below ``lines``; return its size.

    Neighbouring lines are replaced by the chord between the ends of their pieces: the
    envelope is convex, so the chord lies above it in between, and below it elsewhere.
    """
    top, first = 0, 0
    while first < size:
        end, slope, base = _longest_chord(lines, size, high, first, tolerance, centre, width)
        out.slope[top] = slope
        out.base[top] = base
        out.start[top] = lines.start[first]
        out.arm[top] = lines.arm[first]
        top += 1
        first = end
    return top


@compiled
def value_at(lines: Lines, size: int, q: float) -> float:
    """Return the envelope's value at ``q``."""
    best = lines.slope[0] * q + lines.base[0]
    for line in range(1, size):
        best = max(best, lines.slope[line] * q + lines.base[line])
    return float(best)


@compiled
def greatest_rise(
    upper: Lines,
    upper_first: int,
    upper_end: int,
    lower: Lines,
    lower_first: int,
    lower_end: int,
    high: float,
) -> float:
    """Return the greatest value of ``upper - lower`` over [low, high].

    Between two starts of ``lower`` the difference is convex, so the starts and ``high``
    are the only places to look.
    """
    best = -np.inf
    line = upper_first
    for piece in range(lower_first, lower_end + 1):
        own = min(piece, lower_end - 1)
        q = lower.start[piece] if piece < lower_end else high
        while line + 1 < upper_end and upper.start[line + 1] <= q:
            line += 1
        rise = upper.slope[line] * q + upper.base[line] - lower.slope[own] * q - lower.base[own]
        best = max(best, rise)
    return float(best)
