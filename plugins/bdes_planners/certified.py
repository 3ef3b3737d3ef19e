"""Plans with a proven gap at any horizon: convex envelopes, chords, and a cycle in the middle.

The proofs are on the planners page of the documentation, and in short where each step is
taken.
"""

import math

import numpy as np
from attrs import define, field, frozen

from bdes_framework import (
    BuildContext,
    DiagnosticValue,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    Plan,
    Schedule,
    Segment,
)
from bdes_planners.bounds import best_pair, constant_plan, is_constant
from bdes_planners.reduction import Reduced, checked_horizon, reduce
from bdes_planners.sweep import Chords, Status, Sweep

_WINDOW = 256
"""Longest period tried for the span."""
_MEMORIES = 3.0
"""The first look for a cycle comes after this many times 1/lam rounds."""
_GROWTH = 1.6
_SHORT = 4096
"""Up to this horizon a plain sweep costs next to nothing."""
_SLOW = 32.0
"""Below lam·horizon = 32 a sweep of all rounds around one path beats waiting for a cycle."""
_COARSE = 2048
_WIDTH = 1 / 64
_REFINEMENTS = 12
_NO_LIMIT = 2**62


@frozen
class CertifiedConfig:
    """A plan within a proven relative gap of the optimum, at any horizon.

    Parameters
    ----------
    gap : float above 0
        How far below the proven upper bound the plan's value may be, relative to that bound.
    work : int or nothing
        Stop after about this many line operations (some 50 to 200 million a second) and
        return the best plan and bound so far; the plan says if the gap was not reached.
    """

    gap: float = 1e-4
    work: int | None = None

    def __attrs_post_init__(self) -> None:
        if not 0 < self.gap < math.inf:
            raise InvalidValueError(f"gap must be a finite number above 0, got {self.gap!r}")
        if self.work is not None and self.work < 1:
            raise InvalidValueError(f"work must be at least 1, got {self.work!r}")


@define(eq=False)
class _Search:
    """One planning problem under way: the best schedule and the best bound so far."""

    instance: Instance
    problem: Reduced
    horizon: int
    gap: float
    work_left: int
    schedule: Schedule
    value: float
    upper: float = math.inf
    period: int = 0
    method: str = "pair"
    work: int = 0
    rounds: int = 0
    peak: int = 0
    tolerance: float = 0.0
    path: FloatArray = field(factory=lambda: np.zeros(1))

    @property
    def done(self) -> bool:
        return self.upper < math.inf and self.upper - self.value <= self.gap * self.upper

    @property
    def out_of_work(self) -> bool:
        return self.work >= self.work_left

    def offer(self, schedule: Schedule, upper: float, method: str, period: int = 0) -> None:
        """Keep the schedule if it is better, and the bound if it is tighter."""
        self.upper = min(self.upper, upper * self.problem.unit)
        real = self.problem.original(schedule)
        value = self.instance.value(real)
        if value >= self.value:
            self.schedule, self.value, self.period, self.method = real, value, period, method

    def sweep(self, chords: Chords, horizon: int = 0) -> Sweep:
        """Return a fresh sweep that may use what is left of the work."""
        return Sweep(self.problem, chords, horizon, most_work=self.work_left - self.work)

    def note(self, sweep: Sweep) -> None:
        """Add up what a sweep took."""
        self.work += int(sweep.counters.work[0])
        self.rounds, self.peak = sweep.n, max(self.peak, int(sweep.counters.peak[0]))
        self.tolerance = sweep.chords.tolerance

    def plan(self) -> Plan:
        diagnostics: dict[str, DiagnosticValue] = {
            "method": self.method,
            "gap_asked": self.gap,
            "gap_reached": self.done,
            "hull_arms": self.problem.n_arms,
            "rounds_swept": self.rounds,
            "most_lines": self.peak,
            "chord_tolerance": self.tolerance * self.problem.unit,
            "period": self.period,
            "work": self.work,
        }
        return Plan(self.schedule, self.value, max(self.upper, self.value), diagnostics)


class Certified:
    """Plans with a proven upper bound, to a relative gap that is asked for."""

    def __init__(self, gap: float = 1e-4, work: int | None = None) -> None:
        self._gap = gap
        self._work = _NO_LIMIT if work is None else work

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return a schedule of ``horizon`` pulls, its value and a proven upper bound."""
        horizon = checked_horizon(horizon)
        problem = reduce(instance)
        if is_constant(problem):
            return constant_plan(instance, problem, horizon, "constant")
        pair, least = best_pair(problem, horizon)
        tolerance = 0.5 * self._gap * least / horizon
        problem = problem.thinned(0.02 * tolerance)
        schedule = Schedule.cycle(pair, horizon)
        search = _Search(instance, problem, horizon, self._gap, self._work, schedule, 0.0)
        search.schedule = reduce(instance).original(schedule)
        search.value = instance.value(search.schedule)
        if horizon > _SHORT and problem.lam * horizon <= _SLOW:
            _follow_path(search, 2 * tolerance)
        else:
            _find_cycle(search, tolerance)
        return search.plan()


def _find_cycle(search: _Search, tolerance: float) -> None:
    """Sweep until a period's rise is nearly the same at all states, or all rounds are swept."""
    target = max(32, math.ceil(_MEMORIES / search.problem.lam))
    sweep = search.sweep(_everywhere(tolerance), search.horizon if target >= search.horizon else 0)
    while True:
        until = min(target, search.horizon)
        window = 0 if until == search.horizon else min(_WINDOW, until - sweep.n)
        status = sweep.advance(until, window)
        if status is Status.OUT_OF_WORK:
            sweep.most_work = _NO_LIMIT
            sweep.advance(min(sweep.n + 64, search.horizon), 64)
        if sweep.n == search.horizon:
            break
        converged = _offer_cycle(search, sweep, sure=status is Status.OUT_OF_WORK)
        if search.done or status is Status.OUT_OF_WORK:
            search.note(sweep)
            return
        if converged:
            sweep.chords = _everywhere(sweep.chords.tolerance / 2)
        target = math.ceil(_GROWTH * sweep.n)
    _offer_sweep(search, sweep)
    _refine(search, sweep.chords.tolerance)


def _refine(search: _Search, tolerance: float) -> None:
    """Sweep all rounds again, more finely each time, until the gap is reached or hopeless."""
    for _ in range(_REFINEMENTS):
        if search.done or search.out_of_work:
            return
        tolerance /= 4
        stride = -(-search.horizon // search.path.size)
        chords = Chords(tolerance, search.path, stride, _WIDTH if stride == 1 else math.inf)
        sweep = search.sweep(chords, search.horizon)
        if sweep.advance(search.horizon) is Status.OUT_OF_WORK:
            search.note(sweep)
            return
        _offer_sweep(search, sweep)


def _everywhere(tolerance: float) -> Chords:
    return Chords(tolerance, np.zeros(1), 1, math.inf)


def _offer_sweep(search: _Search, sweep: Sweep) -> None:
    """Offer the schedule and the bound of a sweep over all rounds."""
    arms, _ = sweep.roll(search.problem.q0, search.horizon, search.horizon)
    search.note(sweep)
    search.offer(Schedule.of(arms), sweep.upper(), "sweep")


def _offer_cycle(search: _Search, sweep: Sweep, sure: bool) -> bool:
    """Offer a plan around a repeated cycle if its gap looks small enough, or if ``sure``.

    The backward step B is monotone and commutes with adding constants. So if
    ``U_n <= U_{n-p} + rise`` everywhere, k further periods add at most ``k * rise``:
    that is the proven bound for every longer horizon.
    """
    up, down = sweep.rises()
    periods = np.arange(1, up.size)
    up, down = up[1:], down[1:]
    steady = float(np.max(down / periods))
    repeats = (search.horizon - sweep.n + periods) // periods
    excess = repeats * (up - periods * steady)
    best = int(np.argmin(excess))
    p, k = int(periods[best]), int(repeats[best])
    rest = (search.horizon - sweep.n + p) % p
    upper = (sweep.upper_before(p - rest) + k * float(up[best])) * (1 + 1e-15)
    if not sure and excess[best] > search.gap * upper:
        return False
    schedule, period = _around_cycle(search.problem, sweep, search.horizon, p)
    search.offer(schedule, upper, "cycle", period)
    return True


def _around_cycle(problem: Reduced, sweep: Sweep, horizon: int, p: int) -> tuple[Schedule, int]:
    """Return head, repeated cycle and tail: the sweep's policy, followed from the first state.

    The policy of the last p rounds swept stands in for all earlier ones. Followed forwards
    it soon repeats itself; from there the repeats are kept as one segment, until the rounds
    left are those that were swept.
    """
    block = p * -(-64 // p)
    longest = math.ceil(10 / problem.lam) + 8 * block
    parts: list[IntArray] = []
    q, to_go = problem.q0, horizon
    while to_go > sweep.n + 2 * block and len(parts) * block < longest:
        arms, q = sweep.roll(q, to_go, block, p)
        to_go -= block
        parts.append(arms)
        if len(parts) > 1 and np.array_equal(parts[-1], parts[-2]):
            break
    segments = [Segment(np.concatenate(parts))] if parts else []
    period = 0
    repeats = (to_go - sweep.n) // block if parts else 0
    if repeats > 1:
        cycle = _shortest_period(parts[-1])
        period = cycle.size
        middle = Segment(cycle, repeats * (block // period))
        q = problem.instance.starting_at(q).state_after(Schedule((middle,)))
        to_go -= middle.n_pulls
        segments.append(middle)
    tail, _ = sweep.roll(q, to_go, to_go, p)
    segments.append(Segment(tail))
    return Schedule(segments), period


def _shortest_period(arms: IntArray) -> IntArray:
    for size in range(1, arms.size // 2 + 1):
        if arms.size % size == 0 and np.array_equal(arms[size:], arms[:-size]):
            return arms[:size]
    return arms


def _follow_path(search: _Search, tolerance: float) -> None:
    """Sweep all rounds, precise around the path that a coarser problem suggests.

    The bound is valid wherever the path lies; a bad one only makes it worse.
    """
    search.path = _coarse_path(search.problem, search.horizon, tolerance)
    stride = -(-search.horizon // search.path.size)
    sweep = search.sweep(Chords(tolerance, search.path, stride, _WIDTH), search.horizon)
    if sweep.advance(search.horizon) is Status.OUT_OF_WORK:
        sweep.most_work = _NO_LIMIT
        sweep.advance(min(sweep.n + 64, search.horizon), 64)
        if sweep.n < search.horizon:
            _offer_cycle(search, sweep, sure=True)
            search.note(sweep)
            return
    _offer_sweep(search, sweep)
    _refine(search, tolerance)


def _coarse_path(problem: Reduced, horizon: int, tolerance: float) -> FloatArray:
    """Return the states of a good schedule, last round first, on a coarse scale of time."""
    rate = -math.expm1(horizon / _COARSE * math.log1p(-problem.lam))
    coarse = Reduced(
        problem.index,
        problem.r,
        problem.b,
        rate,
        problem.q0,
        problem.low,
        problem.high,
        problem.unit,
    )
    sweep = Sweep(coarse, _everywhere(4 * tolerance), _COARSE)
    sweep.advance(_COARSE)
    arms, _ = sweep.roll(problem.q0, _COARSE, _COARSE)
    return coarse.instance.states(arms)[::-1].copy()


def build(config: CertifiedConfig, context: BuildContext) -> Certified:
    """Build the planner."""
    return Certified(config.gap, config.work)
