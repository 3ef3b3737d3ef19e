"""Decision tables: the best arm at every state, when a user may leave after every visit.

V is convex, so straight lines between its values at some states, the knots, lie above it. Let U
be linear between knots and solve ``U = T U`` at the knots, where T is one visit more. T U is
convex, so U is at least T U everywhere, and hence at least V: a proven bound, which policy
iteration finds exactly because only the knots count. Knots are then added where U falls most
when some visits are looked ahead, until the table that U implies earns nearly as much as U says.
The proofs are on the planners page of the documentation.
"""

import math
from typing import NamedTuple

import numpy as np
from attrs import define, field

from bdes_framework import (
    DecisionTable,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    compiled,
)
from bdes_planners.envelope import Lines, backward, room_for, simplify
from bdes_planners.menu import Domain, Moves, menu_for
from bdes_planners.reduced_problem import Reduced, reduce

_FIRST_KNOTS = 65
_LOOK_AHEAD = 32
"""Visits that are looked ahead to find knots, at most."""
_ROUNDS = 40
_POLICIES = 200
_MOST_WORK = 10**10
"""In multiplications: some seconds."""
_LINE = 32
"""Multiplications that handling one line takes as long as."""
_SHARE = 0.5
"""Of what may be missing: where a chord costs more, it is cut."""
_FINE = 0.02
"""Of the same: what chords may add while looking ahead, and when knots are dropped."""
_COARSEST = 1e-3
"""Chords that cost less than this share of the dearest wait until that one is cut."""
_NEAR = 1e-14
"""Knots nearer to each other than this share of all states are one."""
_STRICTLY = 1e-13
"""A better arm is better by this share, or rounding could change arms for ever."""
_CHECKED_STATES = 17
_ROUNDING = 2 * _STRICTLY
"""Per visit, relative to the most that can be earned: what rounding and near ties may cost."""


class _Visit(NamedTuple):
    """One visit, for compiled code: the arms, and the probability that another one follows."""

    pay: FloatArray
    shift: FloatArray
    keep: float
    continuation: float


@compiled
def _improve(visit: _Visit, knots: FloatArray, value: FloatArray, arms: IntArray) -> bool:
    """Choose the best arm at each knot; return whether any is clearly better than before."""
    n = knots.size
    best = value * (1.0 + _STRICTLY)
    changed = False
    for arm in range(visit.pay.size):
        line = 0
        for k in range(n):
            moved = visit.keep * knots[k] + visit.shift[arm]
            while line < n - 2 and knots[line + 1] <= moved:
                line += 1
            share = (moved - knots[line]) / (knots[line + 1] - knots[line])
            later = value[line] + share * (value[line + 1] - value[line])
            total = visit.pay[arm] * knots[k] + visit.continuation * later
            if total > best[k]:
                best[k] = total
                changed = changed or arms[k] != arm
                arms[k] = arm
    return changed


@compiled
def _place_moves(
    visit: _Visit, knots: FloatArray, arms: IntArray, line: IntArray, share: FloatArray
) -> tuple[int, int]:
    """Find between which knots each arm leads; return how far down and up at most."""
    down, up = 0, 1
    for k in range(knots.size):
        moved = visit.keep * knots[k] + visit.shift[arms[k]]
        at = np.searchsorted(knots, moved, side="right") - 1
        at = min(max(at, 0), knots.size - 2)
        line[k] = at
        share[k] = min(max((moved - knots[at]) / (knots[at + 1] - knots[at]), 0.0), 1.0)
        down, up = max(down, k - at), max(up, at + 1 - k)
    return down, up


@compiled
def _evaluate(
    visit: _Visit,
    knots: FloatArray,
    arms: IntArray,
    line: IntArray,
    share: FloatArray,
    band: FloatArray,
    down: int,
    value: FloatArray,
) -> int:
    """Write what the arms earn from each knot, where a state between knots is one or the other.

    One linear equation per knot, solved by elimination within the band. No pivoting is needed:
    the other entries of a row add up to less than the one on the diagonal. Returns the
    multiplications it took.
    """
    n, work = knots.size, 0
    width = np.maximum(line + 1 - np.arange(n), 0)  # how far each row reaches above the diagonal
    for k in range(n):
        band[k, :] = 0.0
        band[k, down] = 1.0
        band[k, line[k] - k + down] -= visit.continuation * (1.0 - share[k])
        band[k, line[k] + 1 - k + down] -= visit.continuation * share[k]
        value[k] = visit.pay[arms[k]] * knots[k]
    for k in range(n):
        for below in range(k + 1, min(k + down, n - 1) + 1):
            at = k - below + down
            if band[below, at] != 0.0:
                factor = band[below, at] / band[k, down]
                for step in range(1, width[k] + 1):
                    band[below, at + step] -= factor * band[k, down + step]
                value[below] -= factor * value[k]
                width[below] = max(width[below], k + width[k] - below)
                work += width[k]
    for k in range(n - 1, -1, -1):
        rest = value[k]
        for step in range(1, width[k] + 1):
            rest -= band[k, down + step] * value[k + step]
        value[k] = rest / band[k, down]
    return work


@define(eq=False)
class StationarySearch:
    """One decision table under way: the knots, the bound U at them, and the best table so far."""

    instance: Instance
    problem: Reduced
    continuation: float
    gap: float
    max_bytes: float
    knots: FloatArray = field(init=False)
    value: FloatArray = field(init=False)
    table: DecisionTable = field(init=False)
    reached: float = math.inf
    """The largest gap of the table at the states that are checked."""
    work: int = 0
    """Multiplications so far: the deterministic measure of effort."""

    def __attrs_post_init__(self) -> None:
        even = np.linspace(0.0, self._top, _FIRST_KNOTS)
        self.knots = np.union1d(even, [min(self.problem.q0, self._top)])
        self.value = np.zeros(self.knots.size)

    @property
    def _top(self) -> float:
        return self.problem.high or 1.0

    @property
    def _visit(self) -> _Visit:
        problem = self.problem
        shift = problem.lam * problem.b
        return _Visit(problem.r, shift, 1.0 - problem.lam, self.continuation)

    def run(self) -> None:
        """Refine until the gap is reached, memory or work is used up, or nothing gets better."""
        for _ in range(_ROUNDS):
            if not self._solve():
                return
            lines = self._lines()
            ahead, size = self._look_ahead(lines, self.knots.size - 1)
            self._offer(ahead, size)
            if self.reached <= self.gap or not self._refine(lines, ahead, size):
                return

    def _solve(self) -> bool:
        """Find U at the knots by policy iteration; return False if that takes too much."""
        visit, n = self._visit, self.knots.size
        arms, line, share = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n)
        value = self.value
        _improve(visit, self.knots, value, arms)
        for _ in range(_POLICIES):
            down, up = _place_moves(visit, self.knots, arms, line, share)
            if 8 * n * (down + up + 1) > self.max_bytes or self.work > _MOST_WORK:
                return False
            band = np.empty((n, down + up + 1))
            value = np.empty(n)
            self.work += 4 * band.size  # to clear it, and to look for what is not 0
            self.work += _evaluate(visit, self.knots, arms, line, share, band, down, value)
            if not _improve(visit, self.knots, value, arms):
                break
        self.value = value
        return True

    def _lines(self) -> Lines:
        """Return U as lines, slopes in order even where rounding blurs a short one."""
        slope = np.maximum.accumulate(np.diff(self.value) / np.diff(self.knots))
        start = self.knots[:-1].copy()
        base = self.value[:-1] - slope * start
        return Lines(slope, base, start, np.zeros(start.size, dtype=np.int64))

    def _look_ahead(self, lines: Lines, size: int) -> tuple[Lines, int]:
        """Return T of an envelope: the best of one visit more, and its number of lines."""
        g, visit = self.continuation, self._visit
        n_arms = visit.pay.size
        moves = Moves(visit.pay, np.zeros(n_arms), visit.shift, visit.keep)
        later = lines._replace(slope=g * lines.slope, base=g * lines.base)
        menu = menu_for(moves, 1, Domain(0.0, self._top, float(later.slope[size - 1])))
        out, hull = room_for((size + 64) * n_arms), room_for(n_arms)
        found, handled = backward(later, size, menu, 0.0, self._top, hull, out)
        self.work += _LINE * handled
        return Lines._make(array[:found] for array in out), found

    def _offer(self, ahead: Lines, size: int) -> None:
        """Keep the table that looks one visit ahead, if it is better than the one before."""
        begins = np.append(True, ahead.move[1:] != ahead.move[:-1])
        unit_of_q = max(self.instance.q0, float(self.instance.b.max())) / self._top or 1.0
        states = self.knots * unit_of_q
        table = DecisionTable(
            self.instance,
            self.continuation,
            ahead.start[begins] * unit_of_q,
            self.problem.index[ahead.move[begins]],
            states,
            self.value * self.problem.unit,
        )
        even = np.linspace(0.0, table.highest_state, _CHECKED_STATES)
        checked = np.append(even, self.instance.q0)
        bounds = table.upper_bounds_at(checked)
        rounding = _ROUNDING * table.visits * np.max(bounds)
        missing = bounds - table.values_at(checked) - rounding
        worst = float(np.max(missing / np.where(bounds > 0, bounds, 1.0)))
        if worst < self.reached:
            self.table, self.reached = table, worst

    def _refine(self, lines: Lines, ahead: Lines, size: int) -> bool:
        """Put knots where U falls most when visits are looked ahead; return whether any is new."""
        allowed = _SHARE * self.gap * (1.0 - self.continuation) * self.value
        fine = _FINE * float(np.min(allowed))
        memory = 3.0 / (1.0 - self.continuation * (1.0 - self.problem.lam))
        for _ in range(math.ceil(min(_LOOK_AHEAD, memory)) - 1):
            fewer = room_for(size)
            size = simplify(ahead, size, self._top, fine, 0.0, math.inf, fewer)
            ahead, size = self._look_ahead(Lines._make(array[:size] for array in fewer), size)
        kinks = ahead.start
        fall = np.interp(kinks, self.knots, self.value) - ahead.slope * kinks - ahead.base
        limit = np.maximum(np.interp(kinks, self.knots, allowed), _COARSEST * float(np.max(fall)))
        kinks = kinks[fall > limit]
        cut = np.unique(np.searchsorted(self.knots, kinks, side="right") - 1)
        cut = cut[cut < self.knots.size - 1]
        # Kinks move from round to round; halving makes sure that chords become short.
        halves = 0.5 * (self.knots[cut] + self.knots[cut + 1])
        kept = room_for(lines.start.size)
        size = simplify(lines, lines.start.size, self._top, fine, 0.0, math.inf, kept)
        ends = np.array([0.0, min(self.problem.q0, self._top), self._top])
        knots = np.unique(np.concatenate([kept.start[:size], kinks, halves, ends]))
        apart = np.append(True, np.diff(knots) > _NEAR * self._top)
        apart[-1] = True
        knots = knots[apart]
        if np.array_equal(knots, self.knots):
            return False
        self.value, self.knots = np.interp(knots, self.knots, self.value), knots
        return True


def search_table(
    instance: Instance, continuation: float, gap: float, max_bytes: float = 2.0**29
) -> StationarySearch:
    """Look for a table within ``gap`` of its bound at the first state and some others."""
    if not 0 <= continuation < 1:
        raise InvalidValueError(
            f"continuation must be in [0, 1), got {continuation}: the probability that a user"
            " comes back after a visit"
        )
    search = StationarySearch(instance, reduce(instance), float(continuation), gap, max_bytes)
    search.run()
    return search
