"""The backward sweep: envelopes step by step, the policy they imply, and what rounding may cost.

After n steps the sweep holds an envelope U_n with ``V_n <= U_n + allowance`` on every
state that can be reached, where V_n is the best reward of the rounds of n steps. Without
chords and blocks U_n is V_n up to rounding.
"""

from enum import IntEnum

import numpy as np
from attrs import define, field

from bdes_framework import FloatArray, IntArray, Segment
from bdes_planners.blocks import Step
from bdes_planners.envelope import Heads, Lines, heads_for, room_for, value_at
from bdes_planners.passes import (
    ERROR,
    FEWEST_LINES,
    NO_CHORDS,
    Chords,
    Counters,
    Domain,
    History,
    Policy,
    advance,
    magnitude,
    reached,
    rises,
    roll,
)
from bdes_planners.reduction import Reduced


class Status(IntEnum):
    """Why a stretch of the sweep stopped."""

    DONE = 0
    POLICY_FULL = 1
    LINES_FULL = 2
    HISTORY_FULL = 3
    OUT_OF_WORK = 4


def _bound(lines: Lines, size: int, problem: Reduced, allowance: float) -> float:
    rounding = ERROR * magnitude(lines, size, problem.q0)
    return (value_at(lines, size, problem.q0) + allowance + rounding) * (1 + ERROR)


def _grown_floats(array: FloatArray, size: int) -> FloatArray:
    grown = np.zeros(size)
    grown[: array.size] = array
    return grown


def _grown_ints(array: IntArray, size: int) -> IntArray:
    grown = np.zeros(size, dtype=np.int64)
    grown[: array.size] = array
    return grown


def _grown(lines: Lines, size: int) -> Lines:
    return Lines(
        _grown_floats(lines.slope, size),
        _grown_floats(lines.base, size),
        _grown_floats(lines.start, size),
        _grown_ints(lines.move, size),
    )


def _one(value: int) -> IntArray:
    return np.array([value], dtype=np.int64)


def _new_counters() -> Counters:
    zero = [_one(0) for _ in range(4)]
    return Counters(
        n=zero[0],
        size=_one(1),
        cap=_one(4 * FEWEST_LINES),
        simplified=zero[1],
        regions=_one(0),
        kept=_one(0),
        work=zero[2],
        peak=zero[3],
        allowance=np.zeros(1),
    )


@define(eq=False)
class Sweep:
    """A backward sweep over one reduced problem, resumable, with its buffers.

    Starts with U_0 = 0. :meth:`advance` does the steps; read the rest in between. A step is
    one round, or one block of rounds; the first ``rest`` steps are single rounds in any
    case, so that any number of rounds can be made up. With a ``horizon`` the sweep looks
    only at states that can be reached with the rounds left, and its envelopes say nothing
    of longer horizons.

    Parameters
    ----------
    problem : Reduced
        The problem.
    single : Step
        The step of one pull.
    block : Step
        The step that is used after ``rest`` single ones.
    rest : int
        How many single steps come first.
    chords : Chords
        What chords may add, per step.
    horizon : int
        How many steps there are in all, or 0.
    most_work : int
        Stop after handling this many lines.
    most_bytes : float
        Stop rather than take more memory than this.
    """

    problem: Reduced
    single: Step
    block: Step
    rest: int = 0
    chords: Chords = NO_CHORDS
    horizon: int = 0
    most_work: int = 2**62
    most_bytes: float = float("inf")
    counters: Counters = field(init=False, factory=_new_counters)
    policy: Policy = field(init=False)
    history: History = field(init=False)
    _value: Lines = field(init=False)
    _fresh: Lines = field(init=False)
    _heads: Heads = field(init=False)

    def __attrs_post_init__(self) -> None:
        n_moves = max(len(self.single.runs), len(self.block.runs))
        size = max(256, 8 * n_moves)
        self._value, self._fresh = room_for(size), room_for(size)
        self._heads = heads_for(n_moves)
        self._value.start[0] = reached(self._domain(self.rest > 0), 0)[0]
        self.policy = Policy(np.zeros(1024), np.zeros(1024, np.int64), np.zeros(65, np.int64))
        self.history = History(room_for(1024), np.zeros(0, np.int64), np.zeros(0))

    @property
    def n(self) -> int:
        """How many steps have been swept."""
        return int(self.counters.n[0])

    @property
    def n_bytes(self) -> int:
        """How much memory the buffers take."""
        groups = (self._value, self._fresh, self.policy, self.history.lines)
        return sum(array.nbytes for group in groups for array in group)

    def _bytes_of(self, status: Status) -> int:
        """How much memory doubling the buffer that is full would add."""
        if status is Status.LINES_FULL:
            return 2 * sum(array.nbytes for array in self._value)
        group = self.policy if status is Status.POLICY_FULL else self.history.lines
        return sum(array.nbytes for array in group)

    def advance(self, until: int, window: int = 0) -> Status:
        """Sweep to ``until`` steps; keep the last ``window`` + 1 envelopes; say why it stopped."""
        note_from = max(until - window, self.n + 1, self.rest) if window else until + 1
        self.counters.kept[0] = 0
        if window:
            self.history = History(
                self.history.lines, np.zeros(window + 1, np.int64), np.zeros(window + 1)
            )
        if self.policy.end.size <= until:
            self.policy = self.policy._replace(
                end=_grown_ints(self.policy.end, max(until + 1, 2 * self.policy.end.size))
            )
        while True:
            single = self.n < self.rest
            goal = min(until, self.rest) if single else until
            status = Status(self._advance(single, goal, note_from))
            if status is Status.DONE and goal < until:
                continue
            if status in (Status.DONE, Status.OUT_OF_WORK):
                return status
            if self.n_bytes + self._bytes_of(status) > self.most_bytes:
                return status
            self._make_room(status)

    def _domain(self, single: bool) -> Domain:
        problem = self.problem
        if not self.horizon:
            return Domain(problem.low, problem.high, problem.q0, 0, problem.lam, 1)
        low, high = float(problem.b.min()), float(problem.b.max())
        length = self.block.rounds
        if single:
            rounds = self.rest + (self.horizon - self.rest) * length
            return Domain(low, high, problem.q0, rounds, problem.lam, 1)
        return Domain(low, high, problem.q0, self.horizon, problem.lam, length)

    def _advance(self, single: bool, until: int, note_from: int) -> int:
        step, chords = (self.single if single else self.block), self.chords
        if single:
            chords = chords._replace(tolerance=chords.tolerance / self.block.rounds)
        return advance(
            step.moves,
            self._domain(single),
            step.loss,
            chords,
            self._value,
            self._fresh,
            self._heads,
            self.policy,
            self.history,
            note_from,
            self.counters,
            until,
            self.most_work,
        )

    def _make_room(self, status: Status) -> None:
        if status is Status.LINES_FULL:
            size = 2 * self._value.slope.size
            self._value = _grown(self._value, size)
            self._fresh = room_for(size)
        elif status is Status.POLICY_FULL:
            size = 2 * self.policy.start.size
            self.policy = self.policy._replace(
                start=_grown_floats(self.policy.start, size),
                move=_grown_ints(self.policy.move, size),
            )
        else:
            lines = _grown(self.history.lines, 2 * self.history.lines.slope.size)
            self.history = self.history._replace(lines=lines)

    def upper(self) -> float:
        """Return a proven bound on the best reward of the rounds swept, from the first state."""
        size = int(self.counters.size[0])
        return _bound(self._value, size, self.problem, float(self.counters.allowance[0]))

    def upper_before(self, steps: int) -> float:
        """Return the same bound for fewer steps, from an envelope the history still holds."""
        k = int(self.counters.kept[0]) - 1 - steps
        first, end = int(self.history.end[k - 1]) if k else 0, int(self.history.end[k])
        kept = self.history.lines
        lines = Lines(
            kept.slope[first:end], kept.base[first:end], kept.start[first:end], kept.move[first:end]
        )
        return _bound(lines, end - first, self.problem, float(self.history.allowance[k]))

    def rises(self) -> tuple[FloatArray, FloatArray]:
        """Return bounds on ``U_n(q) - U_{n-p}(q)`` over q, for p = 0, 1, ...: above and below."""
        kept = int(self.counters.kept[0])
        up, down = np.full(kept, np.inf), np.full(kept, -np.inf)
        rises(self.history, kept, self.problem.high, up, down)
        return up, down

    def roll(self, q: float, to_go: int, steps: int, period: int = 1) -> tuple[IntArray, float]:
        """Return the moves of the next ``steps`` block steps from ``q``, and the state after."""
        made = np.empty(steps, dtype=np.int64)
        return made, roll(self.policy, self.block.moves, q, to_go, self.n, period, made)

    def finish(self, q: float, to_go: int, period: int = 1) -> list[Segment]:
        """Return all pulls from ``to_go`` steps to the end, from state ``q``."""
        blocks, q = self.roll(q, to_go, to_go - self.rest, period)
        made = np.empty(self.rest, dtype=np.int64)
        roll(self.policy, self.single.moves, q, self.rest, self.n, period, made)
        return self.block.segments(blocks) + self.single.segments(made)

    def path(self, q: float) -> FloatArray:
        """Return the states the policy goes through from ``q``, before each step, last first."""
        made, _ = self.roll(q, self.n, self.n - self.rest)
        keep, states = self.block.moves.keep, np.empty(self.n)
        for t, shift in enumerate(self.block.moves.shift[made].tolist()):
            states[t] = q
            q = keep * q + shift
        states[self.n - self.rest :] = q
        return states[::-1].copy()
