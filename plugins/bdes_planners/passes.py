"""The compiled side of the backward sweep: many steps in one call, over plain arrays.

After n steps there is an envelope U_n with ``V_n <= U_n + allowance`` on every state that
can be reached, where V_n is the best reward of the rounds of n steps.
"""

from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled, state_decay
from bdes_planners.envelope import (
    Heads,
    Lines,
    Moves,
    backward,
    copy_lines,
    greatest_rise,
    simplify,
)
from bdes_planners.reduction import UNIT_ROUNDOFF

# Comparing, crossing or evaluating two lines on floats errs by less than this times the
# largest number in them; each line of an envelope may inherit the error of its neighbour.
ERROR = 8 * UNIT_ROUNDOFF
FEWEST_LINES = 16


class Policy(NamedTuple):
    """Which move to make at state q with n steps to go: regions of the state, n by n."""

    start: FloatArray
    move: IntArray
    end: IntArray
    """``end[n]``: where the regions for n rounds to go end; those for n - 1 end before them."""


class History(NamedTuple):
    """Envelopes of the last rounds swept."""

    lines: Lines
    end: IntArray
    """``end[k]``: where the k-th envelope ends."""
    allowance: FloatArray
    """``allowance[k]``: what rounding and dropped arms may have cost up to there."""


class Counters(NamedTuple):
    """The sweep's numbers, in arrays of one so that compiled code can move them."""

    n: IntArray
    size: IntArray
    cap: IntArray
    simplified: IntArray
    """The round after which lines were last replaced by chords."""
    regions: IntArray
    kept: IntArray
    """How many envelopes the history holds."""
    work: IntArray
    """Lines handled so far: the deterministic measure of effort."""
    peak: IntArray
    allowance: FloatArray


class Chords(NamedTuple):
    """How much chords may add per round, and where: see ``envelope.simplify``."""

    tolerance: float
    """Per round, at the centre; 0 for no chords at all."""
    centre: FloatArray
    """``centre[k]``: the state around which precision matters, k strides before the end."""
    stride: int
    width: float


NO_CHORDS = Chords(0.0, np.zeros(1), 1, np.inf)


@compiled
def magnitude(lines: Lines, size: int, high: float) -> float:
    """Return a number no smaller than any slope·q or base in the envelope."""
    last = size - 1
    return float(lines.slope[last] * high + max(abs(lines.base[0]), abs(lines.base[last])))


@compiled
def _note_policy(lines: Lines, size: int, policy: Policy, counters: Counters) -> None:
    """Write down which move the new envelope starts with, neighbouring equals as one region."""
    at = counters.regions[0]
    for line in range(size):
        if line == 0 or lines.move[line] != lines.move[line - 1]:
            policy.start[at] = lines.start[line]
            policy.move[at] = lines.move[line]
            at += 1
    counters.regions[0] = at
    policy.end[counters.n[0]] = at


@compiled
def _note_history(lines: Lines, size: int, history: History, counters: Counters) -> None:
    kept = counters.kept[0]
    offset = history.end[kept - 1] if kept else 0
    for line in range(size):
        history.lines.slope[offset + line] = lines.slope[line]
        history.lines.base[offset + line] = lines.base[line]
        history.lines.start[offset + line] = lines.start[line]
    history.end[kept] = offset + size
    history.allowance[kept] = counters.allowance[0]
    counters.kept[0] = kept + 1


@compiled
def _lighten(
    fresh: Lines, size: int, high: float, chords: Chords, value: Lines, counters: Counters
) -> int:
    """Replace lines by chords, with what the rounds since the last time may add."""
    n = counters.n[0]
    centre = chords.centre[min((n - 1) // chords.stride, chords.centre.size - 1)]
    tolerance = chords.tolerance * (n - counters.simplified[0])
    left = simplify(fresh, size, high, tolerance, centre, chords.width, value)
    counters.simplified[0] = n
    cap = counters.cap[0]
    if left > cap // 2:
        counters.cap[0] = 2 * left
    elif left < cap // 4:
        counters.cap[0] = max(cap // 2, FEWEST_LINES)
    counters.allowance[0] += ERROR * (size + 4) * magnitude(fresh, size, high)
    return left


@compiled
def _lacks_room(
    n_moves: int, value: Lines, policy: Policy, history: History, noted: bool, counters: Counters
) -> int:
    """Return which buffer the next round could overflow, if any."""
    most = n_moves * counters.size[0]
    if most > value.slope.size:
        return 2
    if counters.regions[0] + most > policy.start.size:
        return 1
    kept = counters.kept[0]
    used = history.end[kept - 1] if kept else 0
    if noted and used + most > history.lines.slope.size:
        return 3
    return 0


class Domain(NamedTuple):
    """Which states can be reached: all of [low, high], and less when the end is known."""

    low: float
    high: float
    first: float
    """The first state."""
    horizon: int
    """How many steps there are in all; 0 when the sweep may go on for ever."""
    lam: float
    rounds: int
    """Per step."""


@compiled
def reached(domain: Domain, to_go: int) -> tuple[float, float]:
    """Return an interval that holds every state with ``to_go`` steps left, and a hair more."""
    if domain.horizon == 0:
        return domain.low, domain.high
    kept, lost = state_decay(domain.lam, (domain.horizon - to_go) * domain.rounds)
    old = kept * domain.first
    return (old + lost * domain.low) * (1.0 - 1e-12), (old + lost * domain.high) * (1.0 + 1e-12)


@compiled
def advance(
    moves: Moves,
    domain: Domain,
    loss: float,
    chords: Chords,
    value: Lines,
    fresh: Lines,
    heads: Heads,
    policy: Policy,
    history: History,
    note_from: int,
    counters: Counters,
    until: int,
    most_work: int,
) -> int:
    """Sweep back to ``until`` steps to go; keep the envelopes from ``note_from`` on.

    Returns 0 when done, 1, 2 or 3 when policy, lines or history lack room, 4 out of work.

    ``loss`` is what a step may lose because ``moves`` leaves out some that could be made.
    """
    while counters.n[0] < until:
        noted = counters.n[0] + 1 >= note_from
        lacking = _lacks_room(moves.pay.size, value, policy, history, noted, counters)
        if lacking:
            return lacking
        if counters.work[0] > most_work:
            return 4
        size = counters.size[0]
        low, high = reached(domain, counters.n[0])
        margin = 8 * ERROR * magnitude(value, size, high)
        low, high = reached(domain, counters.n[0] + 1)
        found, work = backward(value, size, moves, low, high, margin, heads, fresh)
        counters.n[0] += 1
        counters.work[0] += work
        counters.allowance[0] += loss + ERROR * (work + 4) * magnitude(fresh, found, high)
        _note_policy(fresh, found, policy, counters)
        if chords.tolerance > 0.0 and found > counters.cap[0]:
            found = _lighten(fresh, found, high, chords, value, counters)
        else:
            copy_lines(fresh, found, value)
        counters.size[0] = found
        counters.peak[0] = max(counters.peak[0], found)
        if counters.n[0] >= note_from:
            _note_history(value, found, history, counters)
    return 0


@compiled
def rises(history: History, kept: int, high: float, up: FloatArray, down: FloatArray) -> None:
    """Write the greatest and least rise from p rounds before the last envelope to it.

    ``up[p]`` bounds the true greatest rise from above, rounding and dropped arms included.
    """
    last = kept - 1
    first = history.end[last - 1] if last else 0
    end = history.end[last]
    lines = history.lines
    largest = lines.slope[end - 1] * high + max(abs(lines.base[first]), abs(lines.base[end - 1]))
    for p in range(1, kept):
        other = last - p
        other_first = history.end[other - 1] if other else 0
        other_end = history.end[other]
        rounding = ERROR * (end - first + other_end - other_first + 4) * largest
        up[p] = greatest_rise(lines, first, end, lines, other_first, other_end, high)
        up[p] += rounding + history.allowance[last] - history.allowance[other]
        down[p] = -greatest_rise(lines, other_first, other_end, lines, first, end, high)


@compiled
def roll(
    policy: Policy, moves: Moves, q: float, to_go: int, top: int, period: int, made: IntArray
) -> float:
    """Follow the policy for ``len(made)`` steps, write the moves, return the last state.

    Above ``top`` steps to go, where nothing was swept, the last ``period`` steps' policy
    repeats.
    """
    for t in range(made.size):
        n = to_go - t
        if n > top:
            n = top - period + 1 + (n - top - 1) % period
        first, last = policy.end[n - 1], policy.end[n] - 1
        while first < last and policy.start[first + 1] <= q:
            first += 1
        made[t] = policy.move[first]
        q = moves.keep * q + moves.shift[made[t]]
    return q


@compiled
def steady_gains(moves: Moves, made: IntArray, gains: FloatArray) -> None:
    """Write what repeating the last 1, 2, ... moves for ever earns per step: ``gains[k - 1]``.

    What some moves do is one affine map of the state and one affine pay; the steady state is
    the map's fixed point. Where a float cannot tell the map from one that moves nothing, it
    has no fixed point to speak of, and 0 is written.
    """
    decay, shift, slope, base = 1.0, 0.0, 0.0, 0.0
    for length in range(1, made.size + 1):
        move = made[made.size - length]
        base = base + slope * moves.shift[move] + moves.bonus[move]
        slope = slope * moves.keep + moves.pay[move]
        shift = shift + decay * moves.shift[move]
        decay = decay * moves.keep
        forgotten = 1.0 - decay
        gains[length - 1] = 0.0
        if forgotten > 0.0:
            gains[length - 1] = (slope * (shift / forgotten) + base) / length
