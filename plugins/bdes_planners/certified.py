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
    state_decay,
)
from bdes_planners.backward_induction import BackwardInduction, Chords, Status, steady_gains
from bdes_planners.blocks import Step, block_step, single_step
from bdes_planners.bounds import best_pair, constant_plan, is_constant, potential_bound
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
_BRIEF = 4.0
_COARSE = 2048
_WIDTH = 1 / 64
_REFINEMENTS = 12
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
        value = self.instance.value(real)
        if value >= self.value:
            self.schedule, self.value, self.period, self.method = real, value, period, method

    def note(self, sweep: BackwardInduction) -> None:
        """Add up what a sweep took."""
        self.work += int(sweep.counters.work[0])
        self.rounds = sweep.rest + (sweep.n - sweep.rest) * sweep.block.rounds
        self.peak = max(self.peak, int(sweep.counters.peak[0]))
        self.tolerance = sweep.chords.tolerance / sweep.block.rounds

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
    block: Step
    tolerance: float
    """Per round."""
    path: FloatArray
    width: float
    states: tuple[float, float]
    """Where blocks lose no more than they say; less than all states if the end is known."""

    @property
    def rest(self) -> int:
        return self.search.horizon % self.block.rounds

    @property
    def total(self) -> int:
        """How many steps make up the horizon."""
        return self.rest + self.search.horizon // self.block.rounds

    def lost_in_blocks(self) -> float:
        """Return the share of the bound lost by limiting blocks to their moves."""
        lost = self.block.loss / self.block.rounds * self.search.horizon
        return lost * self.search.problem.unit / self.search.upper

    def chords(self) -> Chords:
        stride = -(-self.total // self.path.size)
        return Chords(self.tolerance * self.block.rounds, self.path, stride, self.width)

    def sweep(self, bounded: bool) -> BackwardInduction:
        """Return a fresh sweep that may use what is left of the work."""
        return BackwardInduction(
            self.search.problem,
            self.single,
            self.block,
            self.rest,
            self.chords(),
            self.total if bounded else 0,
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
        tolerance = 0.5 * self.gap * least / horizon
        problem = problem.thinned(0.02 * tolerance)
        max_work = _NO_LIMIT if self.work is None else self.work
        search = _Search(instance, problem, horizon, self.gap, max_work, schedule, value)
        _run(search, tolerance)
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


def _run(search: _Search, tolerance: float) -> None:
    problem, horizon = search.problem, search.horizon
    single = single_step(problem, horizon)
    slow = horizon > _SHORT and problem.lam * horizon <= _SLOW
    states = problem.reachable(horizon) if slow else (problem.low, problem.high)
    block = block_step(problem, horizon, tolerance, states) if horizon > _SHORT else single
    steps = _Steps(search, single, block, tolerance, np.zeros(1), math.inf, states)
    if slow:
        # The fewer memories the horizon has, the less of what chords add is ever met.
        brief = problem.lam * horizon <= _BRIEF
        steps.tolerance = (3 if brief and block.rounds == 1 else 1.5) * tolerance
        steps.width = (_WIDTH / 2 if brief else _WIDTH) * (states[1] - states[0])
        steps.path = _offer_coarse(search, tolerance, states[1])
        if not search.done:
            _sweep_all(steps)
    else:
        _find_cycle(steps)
    _refine(steps)


def _find_cycle(steps: _Steps) -> None:
    """Sweep until a period's rise is nearly the same at all states, or all rounds are swept."""
    search, total = steps.search, steps.total
    memory = math.ceil(min(_MEMORIES / (search.problem.lam * steps.block.rounds), total))
    target = steps.rest + max(32, memory)
    sweep = steps.sweep(bounded=target >= total)
    while True:
        until = min(target, total)
        window = 0 if until == total else min(_WINDOW, until - max(sweep.n, steps.rest))
        status = sweep.advance(until, window)
        if status is Status.OUT_OF_WORK:
            _bound_out_of_work(steps, sweep)
            return
        if sweep.n == total:
            _offer_sweep(steps, sweep)
            return
        converged = _offer_cycle(steps, sweep, sure=False)
        if search.done:
            search.note(sweep)
            return
        if converged:
            steps.tolerance /= 2
            sweep.chords = steps.chords()
        target = math.ceil(_GROWTH * sweep.n)


def _sweep_all(steps: _Steps) -> None:
    """Sweep all rounds, precise around the path; the bound is valid wherever that lies."""
    sweep = steps.sweep(bounded=True)
    if sweep.advance(steps.total) is Status.OUT_OF_WORK:
        steps.search.note(sweep)
    else:
        _offer_sweep(steps, sweep)


def _bound_out_of_work(steps: _Steps, sweep: BackwardInduction) -> None:
    """Out of work: do the few steps more that a bound needs, and offer it."""
    sweep.max_work = _NO_LIMIT
    start = max(sweep.n, steps.rest)
    sweep.advance(min(start + _LAST_WINDOW, steps.total), _LAST_WINDOW)
    if sweep.n == steps.total:
        _offer_sweep(steps, sweep)
    else:
        _offer_cycle(steps, sweep, sure=True)
        steps.search.note(sweep)


def _refine(steps: _Steps) -> None:
    """Sweep all rounds again, more finely each time, until the gap is reached or hopeless.

    It is hopeless once a sweep does not halve what is missing: rounding is then most of it.
    """
    search, missing = steps.search, math.inf
    for _ in range(_REFINEMENTS):
        if search.done or search.out_of_work or search.missing > missing / 2:
            return
        missing = search.missing
        steps.tolerance /= 3
        if steps.lost_in_blocks() > search.gap / 2:
            steps.block = block_step(search.problem, search.horizon, steps.tolerance, steps.states)
        _sweep_all(steps)


def _offer_sweep(steps: _Steps, sweep: BackwardInduction) -> None:
    """Offer the schedule and the bound of a sweep over all rounds."""
    problem = steps.search.problem
    steps.search.note(sweep)
    schedule = Schedule(sweep.finish(problem.q0, steps.total))
    steps.search.offer(schedule, sweep.upper(), "sweep")
    if steps.path.size > 1:  # a finer sweep had better look where this one went
        steps.path = sweep.path(problem.q0)


def _offer_cycle(steps: _Steps, sweep: BackwardInduction, sure: bool) -> bool:
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
    promising = np.argsort(excess, kind="stable")[:_TRIES].tolist()
    for best in promising:
        p = int(periods[best])
        upper = sweep.upper_before(p - (left + p) % p) + int(repeats[best]) * float(up[best])
        upper *= 1 + 1e-15
        if not sure and excess[best] > search.gap * upper:
            return bool(best != promising[0])
        search.offer(*_around_cycle(steps, sweep, p, upper))
        if search.done:
            break
    return True


def _around_cycle(
    steps: _Steps, sweep: BackwardInduction, p: int, upper: float
) -> tuple[Schedule, float, str, int]:
    """Return head, repeated cycle and tail: the sweep's policy, followed from the first state.

    Once the state has settled, the stretch of the last moves that earns most when repeated for
    ever is the cycle; it is repeated until the steps left are those that were swept.
    """
    search, problem, block = steps.search, steps.search.problem, steps.block
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
    if repeats < 2:
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


def _offer_coarse(search: _Search, tolerance: float, highest: float) -> FloatArray:
    """Offer a good schedule on a coarse scale of time; return its states, last round first.

    Its bounds are plain: no round pays more than the largest r at the highest state that
    can be reached, and the simple planners' bound. They hold when work runs out.
    """
    problem, horizon = search.problem, search.horizon
    coarse = evolve(problem, lam=state_decay(problem.lam, horizon / _COARSE)[1])
    step = single_step(coarse, _COARSE)
    chords = Chords(4 * tolerance, np.zeros(1), 1, math.inf)
    sweep = BackwardInduction(coarse, step, step, 0, chords, _COARSE)
    sweep.advance(_COARSE)
    arms, _ = sweep.follow(problem.q0, _COARSE, _COARSE)
    starts = [step * horizon // _COARSE for step in range(_COARSE + 1)]
    pulls = zip(arms.tolist(), starts, starts[1:], strict=False)
    schedule = Schedule([Segment([arm], end - start) for arm, start, end in pulls])
    most = float(problem.r.max()) * highest * horizon * (1 + 1e-15)
    plain = potential_bound(search.instance, horizon) / problem.unit
    search.offer(schedule, min(most, plain), "coarse")
    return coarse.instance.states(arms)[::-1].copy()
