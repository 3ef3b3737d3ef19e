"""Upper envelopes of lines: convex functions of the state, and one backward step on them.

V_n(q), the best reward of n rounds from state q, is convex, increasing and piecewise
linear: line (m, c) followed backwards through arm i becomes
``((1-lam)*m + r[i], c + lam*b[i]*m)``, and likewise through several arms in a row.
Everything here runs interpreted as well, with the same results.
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


class Moves(NamedTuple):
    """What can be done in one step: pull an arm, or some arms in a row.

    Move i pays ``pay[i]*q + bonus[i]`` and takes the state to ``keep*q + shift[i]``.
    """

    pay: FloatArray
    bonus: FloatArray
    shift: FloatArray
    keep: float


class Heads(NamedTuple):
    """Room for what a backward step notes of each move: arrays of one entry per move."""

    next: IntArray
    """The next line of V to follow back through the move."""
    last: IntArray
    """The last one that can matter; below ``next`` when none is left."""
    slope: FloatArray
    """The next line, followed back."""
    base: FloatArray
    left: FloatArray
    """V at the left end of the cell looked at, after the move; ``right`` likewise."""
    right: FloatArray
    left_line: IntArray
    """Which line of V is highest there; ``right_line`` likewise."""
    right_line: IntArray
    heap: IntArray
    """The moves that have lines to follow, as a heap: the flattest next line first."""


def heads_for(n_moves: int) -> Heads:
    """Return room for ``n_moves`` moves."""
    f, i = np.zeros((4, n_moves)), np.zeros((5, n_moves), dtype=np.int64)
    return Heads(i[0], i[1], f[0], f[1], f[2], f[3], i[2], i[3], i[4])


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
def _evaluate_moves(
    value: Lines, size: int, moves: Moves, q: float, at: FloatArray, line: IntArray
) -> None:
    """Evaluate V where each move takes the state ``q`` to."""
    for move in range(moves.pay.size):
        moved = moves.keep * q + moves.shift[move]
        line[move] = line_at(value, 0, size - 1, moved)
        at[move] = value.slope[line[move]] * moved + value.base[line[move]]


@compiled
def _best_at(moves: Moves, q: float, at: FloatArray) -> int:
    best, highest = 0, -np.inf
    for move in range(moves.pay.size):
        total = moves.pay[move] * q + moves.bonus[move] + at[move]
        if total > highest:
            best, highest = move, total
    return best


@compiled
def _max_lead(
    moves: Moves, heads: Heads, left: float, right: float, move: int, rival: int
) -> float:
    """Bound how much better ``move`` can be than ``rival`` between two states.

    Its lead is the sum of a linear function of q, a constant, and V(moved) - V(moved'). The
    two moved states stay equally far apart and V is convex, so the last is monotone as well:
    increasing if ``move`` leads higher. So each part is largest at one of the ends.
    """
    steeper = moves.pay[move] - moves.pay[rival]
    lead = steeper * (right if steeper > 0 else left) + moves.bonus[move] - moves.bonus[rival]
    if moves.shift[move] >= moves.shift[rival]:
        return float(lead + heads.right[move] - heads.right[rival])
    return float(lead + heads.left[move] - heads.left[rival])


@compiled
def _choose_lines(
    value: Lines, size: int, moves: Moves, low: float, high: float, margin: float, heads: Heads
) -> None:
    """Find, for each move, which lines of V may matter when followed back through it.

    The states are looked at in cells; a move that is surely beaten in a cell needs none of
    the lines it would use there.
    """
    n_moves = moves.pay.size
    for move in range(n_moves):
        heads.next[move], heads.last[move] = size, -1
    cells = min(_CELLS, size)
    left = low
    _evaluate_moves(value, size, moves, left, heads.left, heads.left_line)
    best_left = _best_at(moves, left, heads.left)
    for cell in range(1, cells + 1):
        right = min(max(value.start[cell * size // cells], low), high) if cell < cells else high
        _evaluate_moves(value, size, moves, right, heads.right, heads.right_line)
        best_right = _best_at(moves, right, heads.right)
        for move in range(n_moves):
            beaten = (
                _max_lead(moves, heads, left, right, move, best_left) < -margin
                or _max_lead(moves, heads, left, right, move, best_right) < -margin
            )
            if move in (best_left, best_right) or not beaten:
                heads.next[move] = min(heads.next[move], heads.left_line[move])
                heads.last[move] = max(heads.last[move], heads.right_line[move])
        for move in range(n_moves):
            heads.left[move] = heads.right[move]
            heads.left_line[move] = heads.right_line[move]
        left, best_left = right, best_right


@compiled
def _follow(value: Lines, moves: Moves, heads: Heads, move: int) -> None:
    """Follow the next line of V back through a move; leave an endless slope when none is left."""
    line = heads.next[move]
    if line > heads.last[move]:
        heads.slope[move] = np.inf
    else:
        heads.slope[move] = moves.keep * value.slope[line] + moves.pay[move]
        heads.base[move] = (
            value.base[line] + moves.bonus[move] + moves.shift[move] * value.slope[line]
        )


@compiled
def _sift_down(heads: Heads, awake: int, place: int) -> None:
    """Let the move at ``place`` of the heap sink below those whose next line is flatter."""
    move = heads.heap[place]
    slope = heads.slope[move]
    while 2 * place + 1 < awake:
        child = 2 * place + 1
        other = min(child + 1, awake - 1)
        if heads.slope[heads.heap[other]] < heads.slope[heads.heap[child]]:
            child = other
        if heads.slope[heads.heap[child]] >= slope:
            break
        heads.heap[place] = heads.heap[child]
        place = child
    heads.heap[place] = move


@compiled
def _build_heap(value: Lines, moves: Moves, heads: Heads) -> int:
    """Follow each move's first line; heap the moves that have one; return how many."""
    awake = 0
    for move in range(moves.pay.size):
        if heads.next[move] <= heads.last[move]:
            _follow(value, moves, heads, move)
            heads.heap[awake] = move
            awake += 1
    for place in range(awake // 2 - 1, -1, -1):
        _sift_down(heads, awake, place)
    return awake


@compiled
def backward(
    value: Lines,
    size: int,
    moves: Moves,
    low: float,
    high: float,
    margin: float,
    heads: Heads,
    out: Lines,
) -> tuple[int, int]:
    """Write the envelope one move earlier into ``out``; return its size and the lines handled.

    ``margin`` is an amount that rounding cannot reach. Needs room for as many lines as
    ``size`` times the number of moves.
    """
    if size >= _WORTH_CHOOSING:
        _choose_lines(value, size, moves, low, high, margin, heads)
    else:
        for move in range(moves.pay.size):
            heads.next[move], heads.last[move] = 0, size - 1
    awake = _build_heap(value, moves, heads)
    top, work = 0, 0
    while True:
        move = heads.heap[0]
        if heads.slope[move] == np.inf:
            return top, work
        top = push(out, top, low, high, heads.slope[move], heads.base[move], move)
        work += 1
        heads.next[move] += 1
        _follow(value, moves, heads, move)
        _sift_down(heads, awake, 0)


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
