"""Backward induction over envelopes of lines: the value function, the moves it implies, its error.

After n steps there is an envelope U_n with ``V_n <= U_n + allowance`` on every state that can be
reached, where V_n is the best reward of the rounds of n steps. Without chords and blocks U_n is
V_n up to rounding. The compiled functions do many steps in one call, over plain arrays.
"""

from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, Segment, compiled, state_decay
from bdes_planners.blocks import Step
from bdes_planners.envelope import (
    Lines,
    backward,
    copy_lines,
    envelope_value,
    greatest_rise,
    room_for,
    simplify,
)
from bdes_planners.menu import Menu, Moves
from bdes_planners.reduced_problem import UNIT_ROUNDOFF, Reduced

Number = TypeVar("Number", np.float64, np.int64)

# Comparing, crossing or evaluating two lines on floats errs by less than this times the
# largest number in them; each line of an envelope may inherit the error of its neighbour.
ROUNDING = 8 * UNIT_ROUNDOFF
MIN_LINES = 16


class MoveRegions(NamedTuple):
    """Which move to make at state q with n steps to go: regions of the state, n by n."""

    start: FloatArray
    move: IntArray
    end: IntArray
    """``end[n]``: where the regions for n rounds to go end; those for n - 1 end before them."""


class EnvelopeHistory(NamedTuple):
    """Envelopes of the last steps."""

    lines: Lines
    end: IntArray
    """``end[k]``: where the k-th envelope ends."""
    allowance: FloatArray
    """``allowance[k]``: what rounding and dropped arms may have cost up to there."""


class Counters(NamedTuple):
    """The numbers of an induction, in arrays of one so that compiled code can change them."""

    n: IntArray
    size: IntArray
    cap: IntArray
    simplified: IntArray
    """How many rounds were swept when lines were last replaced by chords."""
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
    """In rounds."""
    width: float


class Buffers(NamedTuple):
    """The arrays that backward induction works on."""

    value: Lines
    """The envelope of the steps so far."""
    fresh: Lines
    """Room for the next one."""
    hull: Lines
    """Room for one line per move."""
    policy: MoveRegions
    history: EnvelopeHistory
    counters: Counters


NO_CHORDS = Chords(0.0, np.zeros(1), 1, np.inf)


@compiled
def _magnitude(lines: Lines, size: int, high: float) -> float:
    """Return a number no smaller than any slope·q or base in the envelope."""
    last = size - 1
    return float(lines.slope[last] * high + max(abs(lines.base[0]), abs(lines.base[last])))


@compiled
def _store_regions(lines: Lines, size: int, policy: MoveRegions, counters: Counters) -> None:
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
def _store_envelope(lines: Lines, size: int, history: EnvelopeHistory, counters: Counters) -> None:
    kept = counters.kept[0]
    offset = history.end[kept - 1] if kept else 0
    end = offset + size
    for i in range(size):
        history.lines.slope[offset + i] = lines.slope[i]
        history.lines.base[offset + i] = lines.base[i]
        history.lines.start[offset + i] = lines.start[i]
    history.end[kept] = end
    history.allowance[kept] = counters.allowance[0]
    counters.kept[0] = kept + 1


@compiled
def _replace_by_chords(
    fresh: Lines,
    size: int,
    high: float,
    chords: Chords,
    rounds: int,
    value: Lines,
    counters: Counters,
) -> int:
    """Replace lines by chords, with what the rounds since the last time may add."""
    centre = chords.centre[min(rounds // chords.stride, chords.centre.size - 1)]
    tolerance = chords.tolerance * (rounds - counters.simplified[0])
    left = simplify(fresh, size, high, tolerance, centre, chords.width, value)
    counters.simplified[0] = rounds
    cap = counters.cap[0]
    if left > cap // 2:
        counters.cap[0] = 2 * left
    elif left < cap // 4:
        counters.cap[0] = max(cap // 2, MIN_LINES)
    counters.allowance[0] += ROUNDING * (size + 4) * _magnitude(fresh, size, high)
    return left


class ReachableStates(NamedTuple):
    """Which states can be reached: all of [low, high], and less when the end is known."""

    low: float
    high: float
    first: float
    """The first state."""
    horizon: int
    """How many rounds there are in all; 0 when the sweep may go on for ever."""
    lam: float


@compiled
def _reached(domain: ReachableStates, to_go: int) -> tuple[float, float]:
    """Return an interval that holds every state with ``to_go`` rounds left, and a hair more."""
    if domain.horizon == 0:
        return domain.low, domain.high
    kept, lost = state_decay(domain.lam, domain.horizon - to_go)
    old = kept * domain.first
    return (old + lost * domain.low) * (1.0 - 1e-12), (old + lost * domain.high) * (1.0 + 1e-12)


class Stretch(NamedTuple):
    """Equal steps: what can be done in each, and where they begin."""

    menu: Menu
    loss: float
    """What a step may lose because its moves leave out some that could be made."""
    rounds: int
    """Per step."""
    begin: int
    """So many rounds were swept before the step after ``begin_n``."""
    begin_n: int


@compiled
def _advance(
    stretch: Stretch,
    domain: ReachableStates,
    chords: Chords,
    buffers: Buffers,
    keep_from: int,
    until: int,
    max_work: int,
) -> int:
    """Sweep to ``until`` steps to go, keep envelopes from ``keep_from`` on; return a ``Status``."""
    value, fresh, hull, policy, history, counters = buffers
    while counters.n[0] < until:
        if counters.work[0] > max_work:
            return 4
        n = counters.n[0] + 1
        rounds = stretch.begin + (n - stretch.begin_n) * stretch.rounds
        low, high = _reached(domain, rounds)
        found, work = backward(value, counters.size[0], stretch.menu, low, high, hull, fresh)
        if found < 0:
            return 2
        if counters.regions[0] + found > policy.start.size:
            return 1
        kept = counters.kept[0]
        used = history.end[kept - 1] if kept else 0
        if n >= keep_from and used + found > history.lines.slope.size:
            return 3
        counters.n[0] = n
        counters.work[0] += work
        magnitude = _magnitude(fresh, found, high)
        counters.allowance[0] += stretch.loss + ROUNDING * (work + 4) * magnitude
        _store_regions(fresh, found, policy, counters)
        if chords.tolerance > 0.0 and found > counters.cap[0]:
            found = _replace_by_chords(fresh, found, high, chords, rounds, value, counters)
        else:
            copy_lines(fresh, found, value)
        counters.size[0] = found
        counters.peak[0] = max(counters.peak[0], found)
        if n >= keep_from:
            _store_envelope(value, found, history, counters)
    return 0


@compiled
def _rises(
    history: EnvelopeHistory, kept: int, high: float, up: FloatArray, down: FloatArray
) -> None:
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
        rounding = ROUNDING * (end - first + other_end - other_first + 4) * largest
        up[p] = greatest_rise(lines, first, end, other_first, other_end, high)
        up[p] += rounding + history.allowance[last] - history.allowance[other]
        down[p] = -greatest_rise(lines, other_first, other_end, first, end, high)


@compiled
def _follow(
    policy: MoveRegions, moves: Moves, q: float, to_go: int, top: int, period: int, made: IntArray
) -> float:
    """Follow the policy for ``len(made)`` steps, write the moves, return the last state.

    Above ``top`` steps to go, where nothing was swept, the last ``period`` steps' policy repeats.
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


class Status(IntEnum):
    """Why a stretch of the sweep stopped."""

    DONE = 0
    POLICY_FULL = 1
    LINES_FULL = 2
    HISTORY_FULL = 3
    OUT_OF_WORK = 4


def _bound(lines: Lines, size: int, problem: Reduced, allowance: float) -> float:
    rounding = ROUNDING * _magnitude(lines, size, problem.q0)
    return (envelope_value(lines, size, problem.q0) + allowance + rounding) * (1 + ROUNDING)


def _grown(array: NDArray[Number], size: int) -> NDArray[Number]:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: array.size] = array
    return grown


def _grown_lines(lines: Lines, size: int) -> Lines:
    return Lines._make(_grown(array, size) for array in lines)


def _new_counters() -> Counters:
    start = {"size": 1, "cap": 4 * MIN_LINES, "allowance": 0.0}
    return Counters._make(np.array([start.get(name, 0)]) for name in Counters._fields)


@frozen(eq=False)
class Stage:
    """Some equal steps of a sweep."""

    step: Step
    count: int | None = None
    """None for as many as there may be."""


@define(eq=False)
class BackwardInduction:
    """A backward sweep over one reduced problem, resumable, with its buffers.

    Starts with U_0 = 0. :meth:`advance` does the steps; read the rest in between. The steps are
    those of the stages, from the last round backwards, so that any number of rounds can be
    made up. With a ``horizon`` the sweep looks only at states that can be reached with the
    rounds left, and its envelopes say nothing of longer horizons.
    """

    problem: Reduced
    stages: tuple[Stage, ...]
    chords: Chords = NO_CHORDS
    """What chords may add, per round."""
    horizon: int = 0
    """How many rounds there are in all, or 0."""
    max_work: int = 2**62
    """In lines handled."""
    max_bytes: float = float("inf")
    _buffers: Buffers = field(init=False)

    def __attrs_post_init__(self) -> None:
        n_moves = max(len(stage.step.runs) for stage in self.stages)
        size = max(256, 8 * n_moves)
        self._buffers = Buffers(
            room_for(size),
            room_for(size),
            room_for(n_moves),
            MoveRegions(np.zeros(1024), np.zeros(1024, np.int64), np.zeros(65, np.int64)),
            EnvelopeHistory(room_for(1024), np.zeros(0, np.int64), np.zeros(0)),
            _new_counters(),
        )
        self._buffers.value.start[0] = _reached(self._domain, 0)[0]

    @property
    def counters(self) -> Counters:
        """How far it is, and what it took."""
        return self._buffers.counters

    @property
    def n(self) -> int:
        """How many steps have been swept."""
        return int(self.counters.n[0])

    @property
    def last(self) -> Step:
        """The step of the last stage, which goes on for ever."""
        return self.stages[-1].step

    @property
    def before_last(self) -> int:
        """How many steps come before the last stage."""
        return sum(stage.count or 0 for stage in self.stages[:-1])

    def rounds_of(self, steps: int) -> int:
        """Return how many rounds the first ``steps`` steps are."""
        rounds = 0
        for stage in self.stages:
            count = steps if stage.count is None else min(steps, stage.count)
            rounds, steps = rounds + count * stage.step.rounds, steps - count
        return rounds

    def _bytes_after_doubling(self, status: Status) -> int:
        """Return how much memory the buffers take once the one that is full is doubled."""
        value, fresh, _, policy, history, _ = self._buffers
        groups: list[Lines | MoveRegions] = [value, fresh, policy, history.lines]
        if status is Status.LINES_FULL:
            groups += [value, fresh]
        else:
            groups.append(policy if status is Status.POLICY_FULL else history.lines)
        return sum(array.nbytes for group in groups for array in group)

    def advance(self, until: int, window: int = 0) -> Status:
        """Sweep to ``until`` steps; keep the last ``window`` + 1 envelopes; say why it stopped."""
        keep_from = max(until - window, self.n + 1, self.before_last) if window else until + 1
        self.counters.kept[0] = 0
        history, policy = self._buffers.history, self._buffers.policy
        if window:
            room = np.zeros(window + 1, np.int64), np.zeros(window + 1)
            history = EnvelopeHistory(history.lines, *room)
        if policy.end.size <= until:
            policy = policy._replace(end=_grown(policy.end, max(until + 1, 2 * policy.end.size)))
        self._buffers = self._buffers._replace(history=history, policy=policy)
        begin = 0
        for stage in self.stages:
            goal = until if stage.count is None else min(until, begin + stage.count)
            while self.n < goal:
                rounds = self.rounds_of(begin)
                stretch = Stretch(
                    stage.step.menu, stage.step.loss, stage.step.rounds, rounds, begin
                )
                status = Status(
                    _advance(
                        stretch,
                        self._domain,
                        self.chords,
                        self._buffers,
                        keep_from,
                        goal,
                        self.max_work,
                    )
                )
                if status is Status.OUT_OF_WORK:
                    return status
                if status is not Status.DONE:
                    if self._bytes_after_doubling(status) > self.max_bytes:
                        return status
                    self._make_room(status)
            begin = goal
        return Status.DONE

    @property
    def _domain(self) -> ReachableStates:
        problem = self.problem
        low, high = problem.low, problem.high
        if self.horizon:
            low, high = float(problem.b.min()), float(problem.b.max())
        return ReachableStates(low, high, problem.q0, self.horizon, problem.lam)

    def _make_room(self, status: Status) -> None:
        value, fresh, _, policy, history, _ = self._buffers
        if status is Status.LINES_FULL:
            size = 2 * value.slope.size
            value, fresh = _grown_lines(value, size), room_for(size)
        elif status is Status.POLICY_FULL:
            size = 2 * policy.start.size
            policy = policy._replace(
                start=_grown(policy.start, size), move=_grown(policy.move, size)
            )
        else:
            lines = _grown_lines(history.lines, 2 * history.lines.slope.size)
            history = history._replace(lines=lines)
        self._buffers = self._buffers._replace(
            value=value, fresh=fresh, policy=policy, history=history
        )

    def upper(self) -> float:
        """Return a proven bound on the best reward of the rounds swept, from the first state."""
        size = int(self.counters.size[0])
        return _bound(self._buffers.value, size, self.problem, float(self.counters.allowance[0]))

    def upper_before(self, steps: int) -> float:
        """Return the same bound for fewer steps, from an envelope the history still holds."""
        k = int(self.counters.kept[0]) - 1 - steps
        history = self._buffers.history
        first, end = int(history.end[k - 1]) if k else 0, int(history.end[k])
        lines = Lines._make(array[first:end] for array in history.lines)
        return _bound(lines, end - first, self.problem, float(history.allowance[k]))

    def rises(self) -> tuple[FloatArray, FloatArray]:
        """Return bounds on ``U_n(q) - U_{n-p}(q)`` over q, for p = 0, 1, ...: above and below."""
        kept = int(self.counters.kept[0])
        up, down = np.full(kept, np.inf), np.full(kept, -np.inf)
        _rises(self._buffers.history, kept, self.problem.high, up, down)
        return up, down

    def follow(self, q: float, to_go: int, steps: int, period: int = 1) -> tuple[IntArray, float]:
        """Return the moves of the next ``steps`` steps of the last stage, and the state after."""
        made = np.empty(steps, dtype=np.int64)
        policy, moves = self._buffers.policy, self.last.moves
        return made, _follow(policy, moves, q, to_go, self.n, period, made)

    def finish(self, q: float, to_go: int, period: int = 1) -> list[Segment]:
        """Return all pulls from ``to_go`` steps to the end, from state ``q``."""
        begins = np.cumsum([0, *(stage.count or 0 for stage in self.stages[:-1])]).tolist()
        pulls: list[Segment] = []
        for stage, begin in zip(reversed(self.stages), reversed(begins), strict=True):
            made = np.empty(to_go - begin, dtype=np.int64)
            q = _follow(self._buffers.policy, stage.step.moves, q, to_go, self.n, period, made)
            pulls += stage.step.segments(made)
            to_go = begin
        return pulls

    def path(self, q: float) -> FloatArray:
        """Return the states the policy goes through from ``q``, before each step, last first."""
        steps = self.n - self.before_last
        made, _ = self.follow(q, self.n, steps)
        keep, states = self.last.moves.keep, np.empty(steps + 1)
        for t, shift in enumerate(self.last.moves.shift[made].tolist()):
            states[t] = q
            q = keep * q + shift
        states[steps] = q
        return states[::-1].copy()
