"""Upper envelopes of lines: convex functions of the state, and one backward step on them.

V_n(q), the best reward of n rounds from state q, is convex, increasing and piecewise
linear: line (m, c) followed backwards through arm i becomes
``((1-lam)*m + r[i], c + lam*b[i]*m)``, and likewise through several arms in a row.
Everything here runs interpreted as well, with the same results.
"""

from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled
from bdes_planners.menu import Menu, best_listed, fill_tile, loss_of_repeating


class Lines(NamedTuple):
    """Room for the lines of an envelope on [low, high], in order of slope; a size goes with it."""

    slope: FloatArray
    base: FloatArray
    start: FloatArray
    """From here to the next line's start, this line is the highest."""
    move: IntArray
    """The move the line starts with."""


def room_for(n_lines: int) -> Lines:
    """Return room for ``n_lines`` lines."""
    slope, base, start = np.zeros((3, n_lines))
    return Lines(slope, base, start, np.zeros(n_lines, dtype=np.int64))


@compiled
def push(
    lines: Lines, size: int, low: float, high: float, slope: float, base: float, move: int
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
    lines.move[size] = move
    return size + 1


@compiled
def _sort_by_slope(lines: Lines, size: int) -> None:
    """Sort candidates, which are nearly in order where the state is slow."""
    for gap in (701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, size):
            slope = lines.slope[i]
            if slope >= lines.slope[i - gap]:
                continue
            base, move = lines.base[i], lines.move[i]
            j = i
            while j >= gap and lines.slope[j - gap] > slope:
                lines.slope[j] = lines.slope[j - gap]
                lines.base[j] = lines.base[j - gap]
                lines.move[j] = lines.move[j - gap]
                j -= gap
            lines.slope[j], lines.base[j], lines.move[j] = slope, base, move


@compiled
def backward(  # noqa: C901 - calls in it that take a menu or moves cost more than the work they do
    value: Lines, size: int, menu: Menu, low: float, high: float, hull: Lines, out: Lines
) -> tuple[int, int]:
    """Write the envelope one step earlier into ``out``; return its size and the lines handled.

    Where the best play leads from q to where line k is the highest, the other lines are below
    what it is worth, so its moves are the best for line k alone: a matter of q and the slope.
    So each line is followed back through the moves that are the best for it at some state from
    which it can be reached. Returns a size of -1 if ``out`` lacks room.
    """
    moves, repeats, n_states = menu.moves, menu.repeats, menu.n_states
    pay, bonus, shift, keep = moves.pay, moves.bonus, moves.shift, moves.keep
    first, listed_in, n_listed = menu.first, menu.listed, menu.size
    shortest, longest = shift.min(), shift.max()
    wide, tall = (menu.high - menu.low) / n_states, menu.steepest / menu.n_slopes
    hair = 1e-15 * (high + longest)
    room = out.slope.size - pay.size
    count = 0
    for line in range(size):
        slope = value.slope[line]
        begin = value.start[line] - hair if line > 0 else -np.inf
        end = value.start[line + 1] + hair if line + 1 < size else np.inf
        left, right = low, high
        if keep > 0.0:
            left = max(low, (begin - longest) / keep)
            right = min(high, (end - shortest) / keep)
        if left > right:
            continue
        row, tile = 0, 0
        if tall > 0.0:
            row = n_states * min(max(int(slope / tall), 0), menu.n_slopes - 1)
        if wide > 0.0:
            tile = min(max(int((left - menu.low) / wide), 0), n_states - 1)
        while True:
            stop = right
            if tile + 1 < n_states:
                stop = min(menu.low + wide * (tile + 1), right)
            at = row + tile
            if first[at] < 0:
                fill_tile(menu, at)
            if count > room:
                return -1, count
            listed = listed_in[first[at] : first[at] + n_listed[at]]
            found = 1
            hull.move[0], hull.start[0] = listed[0], left
            if listed.size > 1:
                hull.move[0] = best_listed(moves, listed, left, slope)
                if hull.move[0] != best_listed(moves, listed, stop, slope):
                    found = 0
                    for move in listed:
                        worth = bonus[move] + shift[move] * slope
                        found = push(hull, found, left, stop, pay[move], worth, move)
            for k in range(found):
                move, here = hull.move[k], hull.start[k]
                there = hull.start[k + 1] if k + 1 < found else stop
                if repeats == 1 and (
                    keep * here + shift[move] > end or keep * there + shift[move] < begin
                ):
                    continue  # it leads to where other lines are higher
                base = value.base[line] + bonus[move] + shift[move] * slope
                if repeats > 1 and listed.size > 1:
                    base += loss_of_repeating(menu, at, listed, move, slope, here, there)
                steeper = keep * slope + pay[move]
                if count > 0 and out.move[count - 1] == move and out.slope[count - 1] == steeper:
                    out.base[count - 1] = max(out.base[count - 1], base)
                else:
                    out.slope[count], out.base[count], out.move[count] = steeper, base, move
                    count += 1
            if stop >= right:
                break
            left = stop
            tile += 1
    _sort_by_slope(out, count)
    top = 0
    for k in range(count):
        top = push(out, top, low, high, out.slope[k], out.base[k], out.move[k])
    return top, count


@compiled
def copy_lines(source: Lines, size: int, target: Lines) -> None:
    """Copy ``size`` lines."""
    for i in range(size):  # copying slices takes seconds to compile
        target.slope[i] = source.slope[i]
        target.base[i] = source.base[i]
        target.start[i] = source.start[i]
        target.move[i] = source.move[i]


@compiled
def _longest_chord(
    lines: Lines, size: int, high: float, first: int, tolerance: float, centre: float, width: float
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
        # A chord is no flatter than its first line and no steeper than its last; saying so
        # keeps slopes in order even where rounding blurs a short chord.
        rise = (at_right - at_left) / (right - left)
        rise = min(max(rise, lines.slope[first]), lines.slope[stop - 1])
        while below < stop - 1 and lines.slope[below + 1] <= rise:
            below += 1
        knot = lines.start[below + 1] if below + 1 < size else high
        error = at_left + rise * (knot - left) - (lines.slope[below] * knot + lines.base[below])
        away = max(left - centre, centre - right, 0.0) / width
        if error > tolerance * (1.0 + away * away):
            break
        end, slope = stop, rise
        base = max(at_left - rise * left, at_right - rise * right)
    return end, slope, base


@compiled
def simplify(
    lines: Lines, size: int, high: float, tolerance: float, centre: float, width: float, out: Lines
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
        out.move[top] = lines.move[first]
        top += 1
        first = end
    return top


@compiled
def envelope_value(lines: Lines, size: int, q: float) -> float:
    """Return the envelope's value at ``q``."""
    best = lines.slope[0] * q + lines.base[0]
    for line in range(1, size):
        best = max(best, lines.slope[line] * q + lines.base[line])
    return float(best)


@compiled
def greatest_rise(
    lines: Lines, first: int, end: int, lower_first: int, lower_end: int, high: float
) -> float:
    """Return how far an envelope rises above a lower one at most: both are parts of ``lines``.

    Between two starts of the lower one the difference is convex, so the starts and ``high``
    are the only places to look.
    """
    best = -np.inf
    line = first
    for piece in range(lower_first, lower_end + 1):
        own = min(piece, lower_end - 1)
        q = lines.start[piece] if piece < lower_end else high
        while line + 1 < end and lines.start[line + 1] <= q:
            line += 1
        rise = lines.slope[line] * q + lines.base[line] - lines.slope[own] * q - lines.base[own]
        best = max(best, rise)
    return float(best)
