"""The planner ``certified``: a proven gap at any horizon, by envelopes, chords and a cycle.

The proofs are on the planners page of the documentation, and in short at each step.
"""

import math
from collections.abc import Iterator

import numpy as np
from attrs import define, evolve, field, frozen
from attrs.validators import ge, gt, lt, optional

import bdes_framework as bdes
from bdes_framework import (
    DecisionTable,
    FloatArray,
    Instance,
    Plan,
    Schedule,
    Segment,
    as_integer,
)
from bdes_planners.backward_induction import BackwardInduction, Chords, Stage, Status, steady_gains
from bdes_planners.blocks import MOST_FLAT, Step, block_step, single_step
from bdes_planners.bounds import best_pair, constant_plan, is_constant
from bdes_planners.reduced_problem import Reduced, reduce
from bdes_planners.stationary import search_table

_WINDOW = 256
"""Longest period tried for the span."""
_MEMORIES = 3.0
"""The first look for a cycle comes after this many times 1/lam rounds."""
_GROWTH = 1.6
_SHORT = 4096
"""Up to this horizon a plain sweep costs next to nothing."""
_SLOW = 16.0
"""Below lam·horizon = 16 a sweep of all rounds around one path beats waiting for a cycle."""
_CHORDS = 0.5
"""What chords may add, as a share of the gap: half is for the schedule, which misses as much."""
_THINNED = 0.1
"""What arms that lie hardly above the hull of the others may cost, as a share of the gap."""
_AIMS = (1e-3, 1e-4, 1e-5)
"""The gaps aimed at first, for a path around which the next sweep is fine."""
_STRIDE = 1.5
"""Repeating a move on a smooth hull loses about the square of how far the state goes."""
_KINK = 8.0
"""Where two arms far apart take turns, repeating loses about as far as the state goes, times how
far they are apart in r and b."""
_LEAST_STEPS = 256
_FEW = 4
"""Fewer repeats save less than it takes to count what they lose."""
_WIDTH = 1 / 64
_LEVELS = 12
_TRIES = 4
"""How many promising periods a plan is made for before sweeping on."""
_LAST_WINDOW = 64
_SETTLING = 10.0
"""How many times 1/lam the policy is followed before a cycle is looked for."""
_CYCLE_SHARE = 0.02
"""The share of the gap that a shorter cycle may cost."""
_NO_LIMIT = 2**62
_FIRST_WORK = 1 << 22


@define(eq=False)
class _Search:
    """One planning problem under way: the best schedule and the best bound so far."""

    instance: Instance
    problem: Reduced
    horizon: int
    gap: float
    max_work: int
    schedule: Schedule
    value: float
    least: float
    """The optimum is at least this much, in units of the problem."""
    upper: float = math.inf
    period: int = 0
    method: str = "pair"
    work: int = 0
    rounds: int = 0
    peak: int = 0
    tolerance: float = 0.0

    @property
    def done(self) -> bool:
        return self.upper < math.inf and self.upper - self.value <= self.gap * self.upper

    @property
    def missing(self) -> float:
        return self.upper - self.value

    @property
    def out_of_work(self) -> bool:
        return self.work >= self.max_work

    def offer(self, schedule: Schedule, upper: float, method: str, period: int = 0) -> None:
        """Keep the schedule if it is better, and the bound if it is tighter."""
        self.upper = min(self.upper, upper * self.problem.unit)
        real = self.problem.original(schedule)
        assert real.n_pulls == self.horizon
        value = self.instance.value(real)
        if value >= self.value:
            self.schedule, self.value, self.period, self.method = real, value, period, method

    def note(self, sweep: BackwardInduction) -> None:
        """Add up what a sweep took."""
        self.work += int(sweep.counters.work[0])
        self.rounds = sweep.rounds_of(sweep.n)
        self.peak = max(self.peak, int(sweep.counters.peak[0]))
        self.tolerance = sweep.chords.tolerance

    def plan(self) -> Plan:
        diagnostics: dict[str, bdes.DiagnosticValue] = {
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


@define(eq=False)
class _Steps:
    """How a horizon is cut into steps, and what chords may add around which path."""

    search: _Search
    single: Step
    states: tuple[float, float]
    """All that can be met; blocks of pulls lose no more than they say where states are these."""
    base: Step = field(init=False)
    """One pull or a block of pulls; a step repeats one of its moves."""
    repeats: int = 1
    tolerance: float = 0.0
    """Per round."""
    path: FloatArray = field(factory=lambda: np.zeros(1))
    """The states of a plan, the last round's first, once there is one: chords are fine there."""

    def aim(self, gap: float) -> None:
        """Choose steps and chords that should do for this gap."""
        search, problem = self.search, self.search.problem
        horizon, lam = search.horizon, problem.lam
        self.base, self.repeats = self.single, 1
        self.tolerance = _CHORDS * gap * search.least / horizon
        if horizon > _SHORT:
            self.base = block_step(problem, horizon, self.tolerance, self.states)
            kink = float(np.max(np.diff(-problem.r) * np.diff(problem.b)))
            stride = _STRIDE * math.sqrt(gap)
            if kink > 0:  # differences of subnormal numbers have no product
                stride = min(stride, _KINK * self.tolerance / kink)
            repeats = int(min(stride / lam, horizon / _LEAST_STEPS) / self.base.rounds)
            self.repeats = 1 if repeats < _FEW else repeats

    def stages(self) -> tuple[Stage, ...]:
        """Return steps that make up the horizon, the odd ones at its end."""
        blocks, odd = divmod(self.search.horizon, self.base.rounds)
        left = blocks % self.repeats
        stages = []
        if odd:
            stages.append(Stage(evolve(self.single, repeats=odd), 1))
        if left:
            stages.append(Stage(evolve(self.base, repeats=left), 1))
        return (*stages, Stage(evolve(self.base, repeats=self.repeats)))

    @property
    def total(self) -> int:
        """How many steps make up the horizon."""
        blocks, odd = divmod(self.search.horizon, self.base.rounds)
        steps, left = divmod(blocks, self.repeats)
        return steps + (odd > 0) + (left > 0)

    @property
    def rounds(self) -> int:
        return self.base.rounds * self.repeats

    def refine(self) -> None:
        """Make steps shorter and chords finer, and blocks that lose less."""
        search = self.search
        self.repeats = self.repeats // 2 if self.repeats >= 2 * _FEW else 1
        self.tolerance /= 1.5
        lost = self.base.base_loss / self.base.rounds * search.horizon * search.problem.unit
        if self.repeats == 1 and self.base.rounds > 1 and lost > search.gap / 2 * search.upper:
            self.tolerance /= 2
            self.base = block_step(search.problem, search.horizon, self.tolerance, self.states)

    def chords(self) -> Chords:
        stride = -(-self.search.horizon // self.path.size)
        width = math.inf if self.path.size == 1 else _WIDTH * (self.states[1] - self.states[0])
        return Chords(self.tolerance, self.path, stride, width)

    def sweep(self, bounded: bool) -> BackwardInduction:
        """Return a fresh sweep that may use what is left of the work."""
        return BackwardInduction(
            self.search.problem,
            self.stages(),
            self.chords(),
            self.search.horizon if bounded else 0,
            max_work=self.search.max_work - self.search.work,
        )


@frozen
class Certified:
    """A plan within a proven relative gap of the optimum, at any horizon.

    Rewards below about 1e-300 are outside what floats and hence the proof can tell from 0.

    Parameters
    ----------
    gap : float
        How far below the proven upper bound the plan's value may be, relative to that bound.
        Above 0 and finite.
    work : int | None
        Stop after about this many line operations (some 50 to 200 million per second) and
        return the best plan and bound so far; the plan says if the gap was not reached.
    """

    gap: float = field(default=1e-4, validator=[gt(0), lt(math.inf)])
    work: int | None = field(default=None, validator=optional(ge(1)))

    def plan(self, instance: Instance, horizon: int) -> Plan:
        """Return a schedule of ``horizon`` pulls, its value and a proven upper bound."""
        horizon = as_integer(horizon, "horizon", 1)
        problem = reduce(instance)
        if is_constant(problem):
            plan = constant_plan(instance, problem, horizon, "constant")
            reached = {"gap_asked": self.gap, "gap_reached": plan.gap <= self.gap}
            return evolve(plan, diagnostics={**plan.diagnostics, **reached})
        pair, least = best_pair(problem, horizon)
        schedule = problem.original(Schedule.cycle(pair, horizon))
        value = instance.value(schedule)
        problem = problem.thinned(_THINNED * self.gap * least / horizon)
        max_work = _NO_LIMIT if self.work is None else self.work
        _run(
            search := _Search(
                instance, problem, horizon, self.gap, max_work, schedule, value, least
            )
        )
        return search.plan()

    def improving_plans(self, instance: Instance, horizon: int) -> Iterator[Plan]:
        """Yield plans with ever more work, until one reaches the gap or all work is used."""
        max_work = _NO_LIMIT if self.work is None else self.work
        work = min(_FIRST_WORK, max_work)
        while True:
            plan = Certified(self.gap, work).plan(instance, horizon)
            yield plan
            if plan.diagnostics["gap_reached"] or work == max_work:
                return
            work = min(2 * work, max_work)

    def plan_stationary(self, instance: Instance, continuation: float) -> DecisionTable:
        """Return the arm for every state, when a user comes back with this probability.

        The gap holds at the first state and at 17 others; a table that could not reach it, as
        near 1 where rounding is most of it, says so by its own. ``work`` does not limit it.
        """
        return search_table(instance, continuation, self.gap).table


def _run(search: _Search) -> None:
    """Sweep with ever shorter steps and finer chords, until the gap is reached or hopeless.

    It is hopeless once the shortest steps do not halve what is missing: rounding is then most.
    """
    problem, horizon = search.problem, search.horizon
    everything = horizon <= _SHORT or problem.lam * horizon <= _SLOW
    states = problem.reachable(horizon) if everything else (problem.low, problem.high)
    steps = _Steps(search, single_step(problem, horizon, states), states)
    if everything and (horizon > _SHORT or search.max_work < _NO_LIMIT):
        aims = [aim for aim in _AIMS if aim > 2 * search.gap]
        for aim in aims:
            steps.aim(aim)
            _sweep_all(steps, unlimited=aim == aims[0])
            if search.done or search.out_of_work:
                return
    steps.aim(search.gap)
    for _ in range(_LEVELS):
        missing = search.missing
        if everything:
            _sweep_all(steps)
        else:
            _find_cycle(steps)
        hopeless = steps.rounds == 1 and search.missing > missing / 2
        if search.done or search.out_of_work or hopeless:
            return
        steps.refine()


def _find_cycle(steps: _Steps) -> None:
    """Sweep until a period's rise is nearly the same at all states, or all rounds are swept.

    Where a look finds that more than half of what the look before missed is still missing, chords
    are too coarse, or steps of several rounds are: these are for the caller to shorten.
    """
    search, total = steps.search, steps.total
    memory = math.ceil(min(_MEMORIES / (search.problem.lam * steps.rounds), total))
    target = 2 + max(32, memory)
    sweep = steps.sweep(bounded=target >= total)
    excess = math.inf
    while True:
        until = min(target, total)
        window = 0 if until == total else min(_WINDOW, until - max(sweep.n, sweep.before_last))
        status = sweep.advance(until, window)
        if status is Status.OUT_OF_WORK:
            _bound_out_of_work(steps, sweep)
            return
        if sweep.n == total:
            _offer_sweep(steps, sweep)
            return
        before, excess = excess, _offer_cycle(steps, sweep, sure=False)
        stalled = excess > before / 2
        if search.done or (stalled and steps.rounds > 1):
            if not search.done:
                _offer_cycle(steps, sweep, sure=True)
            search.note(sweep)
            return
        if stalled:
            steps.tolerance /= 2
            sweep.chords = steps.chords()
        target = math.ceil(_GROWTH * sweep.n)


def _sweep_all(steps: _Steps, unlimited: bool = False) -> None:
    """Sweep all rounds, precise around the path; the bound is valid wherever that lies."""
    sweep = steps.sweep(bounded=True)
    if unlimited or math.isinf(steps.search.upper):  # there is always a bound
        sweep.max_work = _NO_LIMIT
    if sweep.advance(steps.total) is Status.OUT_OF_WORK:
        steps.search.note(sweep)
    else:
        _offer_sweep(steps, sweep)


def _bound_out_of_work(steps: _Steps, sweep: BackwardInduction) -> None:
    """Out of work: do the few steps more that a bound needs, and offer it."""
    sweep.max_work = _NO_LIMIT
    start = max(sweep.n, sweep.before_last)
    sweep.advance(min(start + _LAST_WINDOW, steps.total), _LAST_WINDOW)
    if sweep.n == steps.total:
        _offer_sweep(steps, sweep)
    else:
        _offer_cycle(steps, sweep, sure=True)
        steps.search.note(sweep)


def _offer_sweep(steps: _Steps, sweep: BackwardInduction) -> None:
    """Offer the schedule and the bound of a sweep over all rounds."""
    problem = steps.search.problem
    steps.search.note(sweep)
    schedule = Schedule(sweep.finish(problem.q0, steps.total))
    steps.search.offer(schedule, sweep.upper(), "sweep")
    steps.path = sweep.path(problem.q0)


def _offer_cycle(steps: _Steps, sweep: BackwardInduction, sure: bool) -> float:
    """Offer a plan around a repeated cycle if its gap looks small enough, or if ``sure``.

    The backward step B is monotone and commutes with adding constants. So if
    ``U_n <= U_{n-p} + rise`` everywhere, k further periods add at most ``k * rise``:
    that is the proven bound for every longer horizon.
    """
    search, left = steps.search, steps.total - sweep.n
    up, down = (rise[1:] for rise in sweep.rises())
    periods = np.arange(1, up.size + 1)
    steady = float(np.max(down / periods))
    repeats = (left + periods) // periods
    excess = repeats * (up - periods * steady)
    for best in np.argsort(excess, kind="stable")[: 1 if sure else _TRIES].tolist():
        p = int(periods[best])
        upper = sweep.upper_before(p - (left + p) % p) + int(repeats[best]) * float(up[best])
        upper *= 1 + 1e-15
        if not sure and excess[best] > search.gap * upper:
            break
        search.offer(*_around_cycle(steps, sweep, p, upper))
        if search.done:
            break
    return float(excess.min())


def _around_cycle(
    steps: _Steps, sweep: BackwardInduction, p: int, upper: float
) -> tuple[Schedule, float, str, int]:
    """Return head, repeated cycle and tail: the sweep's policy, followed from the first state.

    Once the state has settled, the stretch of the last moves that earns most when repeated for
    ever is the cycle; it is repeated until the steps left are those that were swept.
    """
    search, problem, block = steps.search, steps.search.problem, sweep.last
    left = steps.total - sweep.n
    settling = math.ceil(min(_SETTLING / (problem.lam * block.rounds), left)) + 4 * p
    settling = min(settling, left)
    made, q = sweep.follow(problem.q0, steps.total, settling, p)
    gains = np.empty(settling)
    steady_gains(block.moves, made, gains)
    # The shortest of those that are nearly the best.
    length = 1 + int(np.argmax(gains >= np.max(gains) * (1 - _CYCLE_SHARE * search.gap)))
    to_go = steps.total - settling
    repeats = (to_go - sweep.n) // length
    head = block.segments(made)
    if repeats < 2 or length * block.rounds > MOST_FLAT:
        return Schedule(head + sweep.finish(q, to_go, p)), upper, "cycle", 0
    cycle = np.concatenate([segment.arms for segment in block.segments(made[-length:])])
    middle = Segment(cycle, repeats)
    q = problem.instance.starting_at(q).state_after(Schedule((middle,)))
    tail = sweep.finish(q, to_go - repeats * length, p)
    return Schedule(_merge_repeats(head, middle, tail)), upper, "cycle", cycle.size


def _merge_repeats(head: list[Segment], middle: Segment, tail: list[Segment]) -> list[Segment]:
    """Let the repeated segment take in the repeats at the head's end and the tail's start."""
    cycle, repeats = middle.arms, middle.repeats
    before, after = head[-1].arms, tail[0].arms
    if head[-1].repeats == 1:
        while before.size >= cycle.size and np.array_equal(before[-cycle.size :], cycle):
            before, repeats = before[: -cycle.size], repeats + 1
        head = head[:-1] + ([Segment(before)] if before.size else [])
    if tail[0].repeats == 1:
        while after.size >= cycle.size and np.array_equal(after[: cycle.size], cycle):
            after, repeats = after[cycle.size :], repeats + 1
        tail = ([Segment(after)] if after.size else []) + tail[1:]
    return [*head, Segment(cycle, repeats), *tail]
