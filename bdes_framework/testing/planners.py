"""Checks of planners."""

import math
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from unittest import SkipTest

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import AnytimePlanner, Kind, Plan, Planner, StationaryPlanner
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.instance import Instance
from bdes_framework.testing import expect
from bdes_framework.testing.checks import KEPT, ConformanceSuite, Subject
from bdes_framework.testing.expect import (
    PromiseBrokenError,
    ScenarioRejectedError,
    seed_global_random_state,
)
from bdes_framework.testing.reference import best_value, example_instance, plain_value

ROUNDING = 1e-9
"""How far sums of floats may be off, relative to their size."""


@frozen(eq=False)
class PlannerScenario:
    """An instance to plan for, and how many rounds."""

    instance: Instance
    horizon: int
    seed: int = 1
    may_be_rejected: bool = False
    """Whether a planner is free to raise InvalidValueError for this."""

    def __str__(self) -> str:
        instance = self.instance
        return (
            f"K={instance.n_arms}, T={self.horizon}, lam={instance.lam}, q0={instance.q0:g},"
            f" seed={self.seed}"
        )


def _example(
    n_arms: int, horizon: int, lam: float, seed: int, scale: float = 1.0
) -> PlannerScenario:
    return PlannerScenario(example_instance(n_arms, lam, seed).scaled(scale), horizon, seed)


def _rejectable(scenario: PlannerScenario) -> PlannerScenario:
    return evolve(scenario, may_be_rejected=True)


SMALL = tuple(
    _example(n_arms, horizon, lam, seed)
    for seed, (n_arms, horizon, lam) in enumerate(
        [(3, 6, 0.3), (2, 10, 0.7), (4, 5, 0.05), (3, 7, 0.5), (2, 12, 0.2), (5, 4, 0.95)]
    )
)
"""Few enough sequences to try them all."""

MIDDLE = (_example(5, 40, 0.3, 11), _example(3, 60, 0.8, 12), _example(4, 50, 0.1, 13))

ORDINARY = tuple(map(_rejectable, SMALL + MIDDLE))

SUITE: ConformanceSuite[PlannerScenario] = ConformanceSuite(Kind.PLANNER)

planner_checks = SUITE.checks
"""Return the checks of a planner, to be called one by one."""

check_planner = SUITE.check
"""Run every check of a planner; raise one error with all failures."""


# -- planning -------------------------------------------------------------------------------


def _build(subject: Subject, scenario: PlannerScenario, global_seed: int = 0) -> Planner:
    seed_global_random_state(global_seed)
    return subject.plugins.planner(subject.ref, seed=scenario.seed, **subject.parameters)


def _plan(planner: Planner, scenario: PlannerScenario) -> Plan:
    try:
        plan: object = planner.plan(_copy(scenario.instance), scenario.horizon)
    except InvalidValueError as error:
        if scenario.may_be_rejected:
            raise ScenarioRejectedError(str(error)) from error
        raise
    if not isinstance(plan, Plan):
        raise PromiseBrokenError("a Plan from plan()", quoted(plan))
    return plan


def _plan_anew(subject: Subject, scenario: PlannerScenario) -> Plan:
    return _plan(_build(subject, scenario), scenario)


@lru_cache(KEPT)
def _planned(subject: Subject, scenario: PlannerScenario) -> Plan:
    return _plan_anew(subject, scenario)


def _copy(instance: Instance) -> Instance:
    return Instance(instance.r, instance.b, instance.lam, instance.q0)


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=1e-300)


def _at_most(low: float, high: float) -> bool:
    return low <= high or _close(low, high)


# -- the promises ---------------------------------------------------------------------------


@SUITE.over(*SMALL, *MIDDLE)
def plans_ordinary_instances(subject: Subject, scenario: PlannerScenario) -> None:
    """It plans instances with lam between 0 and 1."""
    _planned(subject, scenario)


def _plans(subject: Subject, scenario: PlannerScenario) -> list[tuple[Plan, PlannerScenario]]:
    return [(_planned(subject, scenario), scenario)]


@SUITE.over_each(_plans, *ORDINARY)
def numbers_are_floats(plan: Plan, scenario: PlannerScenario) -> None:
    """The value is a finite float; the upper bound is a float, inf if nothing is proven."""
    expected = "value: a finite float; upper_bound: a float, perhaps inf, but not NaN"
    for name, number in (("value", plan.value), ("upper_bound", plan.upper_bound)):
        expect.that(isinstance(number, float), expected, f"{name} is {quoted(number)}")
        expect.that(not math.isnan(number), expected, f"{name} is NaN")
    expect.that(math.isfinite(plan.value), expected, f"value is {plan.value}")


@SUITE.over_each(_plans, *ORDINARY)
def schedules_have_exactly_horizon_pulls(plan: Plan, scenario: PlannerScenario) -> None:
    """A schedule has as many pulls as rounds were asked for."""
    n, horizon = plan.schedule.n_pulls, scenario.horizon
    expect.that(n == horizon, f"a schedule of exactly {horizon} pulls", f"{n} pulls")


@SUITE.over_each(_plans, *ORDINARY)
def arms_exist(plan: Plan, scenario: PlannerScenario) -> None:
    """Every arm lies between 0 and K - 1."""
    highest, n_arms = int(plan.arms.max()), scenario.instance.n_arms
    expect.that(highest < n_arms, f"arms from 0 to {n_arms - 1}", f"arm {highest}")


@SUITE.over_each(_plans, *ORDINARY)
def value_is_that_of_the_schedule(plan: Plan, scenario: PlannerScenario) -> None:
    """The value is what the schedule earns on this instance."""
    if int(plan.arms.max()) >= scenario.instance.n_arms:
        return  # such a schedule has no value; arms_exist fails
    value = scenario.instance.value(plan.schedule)
    by_hand = plain_value(scenario.instance, plan.arms)
    expected = f"the value of the schedule itself, {value}, to {ROUNDING:g} of it"
    same = _close(plan.value, value) and _close(plan.value, by_hand)
    expect.that(same, expected, f"{plan.value}")


@SUITE.over_each(_plans, *ORDINARY)
def value_is_at_most_the_upper_bound(plan: Plan, scenario: PlannerScenario) -> None:
    """The value does not exceed the upper bound."""
    expected = f"an upper bound of at least the value, {plan.value}"
    expect.that(_at_most(plan.value, plan.upper_bound), expected, f"{plan.upper_bound}")


@SUITE.over_each(_plans, *ORDINARY[: len(SMALL)])
def optimum_lies_between_value_and_upper_bound(plan: Plan, scenario: PlannerScenario) -> None:
    """The best of all sequences earns at least the value and at most the upper bound."""
    best = best_value(scenario.instance, scenario.horizon)
    of_all = f"{best}, the best of all sequences"
    expect.that(_at_most(plan.value, best), f"a value of at most {of_all}", f"{plan.value}")
    expected = f"an upper bound of at least {of_all}"
    expect.that(_at_most(best, plan.upper_bound), expected, f"{plan.upper_bound}")


@SUITE.over(*ORDINARY)
def same_instance_gives_the_same_plan(subject: Subject, scenario: PlannerScenario) -> None:
    """Asking a second planner, or the same one again, brings the same plan."""
    planner = _build(subject, scenario)
    first = _plan(planner, scenario)
    between = _rejectable(_example(2, 5, 0.6, seed=21))
    with suppress(ScenarioRejectedError):
        _plan(planner, between)
    others = ((_plan_anew(subject, scenario), "another"), (_plan(planner, scenario), "the same"))
    for again, which in others:
        expected = f"the same plan from {which} planner"
        expect.same(first.arms, again.arms, expected, "arm")
        came = f"value and bound {_numbers(first)} and then {_numbers(again)}"
        expect.that(bool((_numbers(first) == _numbers(again)).all()), expected, came)


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: PlannerScenario) -> None:
    """All randomness comes from the context; np.random and random are neither read nor moved."""

    def plan(global_seed: int) -> tuple[IntArray, FloatArray]:
        planned = _plan(_build(subject, scenario, global_seed), scenario)
        return planned.arms, _numbers(planned)

    expect.global_random_state_unused(plan, "arm or number")


@SUITE.over(*ORDINARY)
def instances_are_not_changed(subject: Subject, scenario: PlannerScenario) -> None:
    """Planning leaves the instance as it is."""
    given = _copy(scenario.instance)
    with suppress(InvalidValueError):
        _build(subject, scenario).plan(given, scenario.horizon)
    expected = f"the instance as it was, {quoted(scenario.instance)}"
    expect.that(given == scenario.instance, expected, quoted(given))
    writeable = given.r.flags.writeable or given.b.flags.writeable
    expect.that(not writeable, "r and b read-only, as they were", "made writeable")


@SUITE.over_each(_plans, *ORDINARY)
def diagnostics_are_flat(plan: Plan, scenario: PlannerScenario) -> None:
    """A plan's diagnostics are names with scalars, strings or small arrays."""
    expect.flat(plan.diagnostics)


@SUITE.over(*SMALL)
def improving_plans_hold(subject: Subject, scenario: PlannerScenario) -> None:
    """Every plan of an AnytimePlanner keeps what is promised of plans; there is at least one."""
    planner = _build(subject, scenario)
    if not isinstance(planner, AnytimePlanner):
        raise SkipTest("it cannot stop early")
    plans = list(islice(planner.improving_plans(_copy(scenario.instance), scenario.horizon), 5))
    expect.that(bool(plans), "at least one plan", "none")
    for plan in plans:
        _verify_plan(plan, scenario)


# -- decision tables ------------------------------------------------------------------------

_CONTINUATIONS = (0.0, 0.5, 0.9)
_GRID = 400


@lru_cache(KEPT)
def _tables(subject: Subject, scenario: PlannerScenario) -> list[DecisionTable]:
    """Return a decision table for each continuation; skip where the planner makes none."""
    planner = _build(subject, scenario)
    if not isinstance(planner, StationaryPlanner):
        raise SkipTest("it makes no decision tables")
    return [_table(planner, scenario.instance, g) for g in _CONTINUATIONS]


def _table(planner: StationaryPlanner, instance: Instance, continuation: float) -> DecisionTable:
    table: object = planner.plan_stationary(_copy(instance), continuation)
    if not isinstance(table, DecisionTable):
        raise PromiseBrokenError("a DecisionTable from plan_stationary()", quoted(table))
    return table


@SUITE.over(*SMALL)
def tables_are_for_what_was_asked(subject: Subject, scenario: PlannerScenario) -> None:
    """A decision table is for the instance and the continuation that were asked for."""
    for g, table in zip(_CONTINUATIONS, _tables(subject, scenario), strict=True):
        came = f"{table.instance} and {table.continuation}"
        same = table.instance == scenario.instance and table.continuation == g
        expect.that(same, f"a table for {scenario.instance} and continuation {g}", came)


@SUITE.over(*SMALL)
def tables_earn_what_they_say(subject: Subject, scenario: PlannerScenario) -> None:
    """Showing the table's arms, visit by visit, brings its value, and at most its bound."""
    for g, table in zip(_CONTINUATIONS, _tables(subject, scenario), strict=True):
        q, weight, earned = scenario.instance.q0, 1.0, 0.0
        for _ in range(400):
            arm = int(table.arms_at([q])[0])
            earned += weight * float(scenario.instance.r[arm]) * q
            q += scenario.instance.lam * (float(scenario.instance.b[arm]) - q)
            weight *= g
        expected = f"value {earned} at continuation {g}, and no lower bound"
        fits = _close(table.value, earned) and _at_most(earned, table.upper_bound)
        expect.that(fits, expected, f"value {table.value}, bound {table.upper_bound}")


@SUITE.over(*SMALL)
def bounds_of_tables_hold(subject: Subject, scenario: PlannerScenario) -> None:
    """Nothing that can be earned from any state exceeds a table's upper bound there."""
    for g, table in zip(_CONTINUATIONS, _tables(subject, scenario), strict=True):
        states = np.linspace(0.0, table.highest_state, _GRID)
        reachable, bounds = _earnable(scenario.instance, g, states), table.upper_bounds_at(states)
        worst = int(np.argmax(reachable - bounds))
        expected = f"a bound of at least {reachable[worst]} at state {states[worst]}"
        fits = _at_most(float(reachable[worst]), float(bounds[worst]))
        expect.that(fits, f"{expected}, continuation {g}", f"{bounds[worst]}")


def _earnable(instance: Instance, g: float, states: FloatArray) -> FloatArray:
    """Return what can surely be earned from each state: states are rounded down to the grid."""
    moved = states[:, None] + instance.lam * (instance.b - states[:, None])
    below = np.searchsorted(states, moved * (1 - 1e-12), side="right") - 1
    value = np.zeros(states.size)
    for _ in range(200):
        value = (states[:, None] * instance.r + g * value[np.maximum(below, 0)]).max(axis=1)
    return value


@SUITE.over(*SMALL)
def tables_without_return_are_greedy(subject: Subject, scenario: PlannerScenario) -> None:
    """For users who never come back, every state above 0 gets an arm that pays most now."""
    table, r = _tables(subject, scenario)[0], scenario.instance.r
    shown = table.arms_at(np.linspace(0.0, table.highest_state, _GRID)[1:])
    worst = int(shown[np.argmin(r[shown])])
    expect.that(bool(r[worst] == r.max()), f"an arm with r = {r.max()}", f"arm {worst}")


@SUITE.over(*SMALL)
def same_instance_gives_the_same_table(subject: Subject, scenario: PlannerScenario) -> None:
    """Asking again, of this planner or of another, brings the same table."""
    first = _tables(subject, scenario)[-1]
    planner = _build(subject, scenario, global_seed=1)
    if not isinstance(planner, StationaryPlanner):
        raise PromiseBrokenError("the same protocols every time", "no plan_stationary()")
    again = _table(planner, scenario.instance, _CONTINUATIONS[-1])
    expect.same(first.starts, again.starts, "the same table", "start")
    expect.same(first.arms, again.arms, "the same table", "arm")
    expect.same(first.bound_values, again.bound_values, "the same table", "bound")


def _numbers(plan: Plan) -> FloatArray:
    return np.array([plan.value, plan.upper_bound])


# -- instances at the edge ------------------------------------------------------------------


def plans(subject: Subject, scenario: PlannerScenario) -> None:
    """The plan keeps every promise of a plan."""
    _verify_plan(_planned(subject, scenario), scenario)


def _verify_plan(plan: Plan, scenario: PlannerScenario) -> None:
    for verify in (
        numbers_are_floats,
        schedules_have_exactly_horizon_pulls,
        arms_exist,
        value_is_that_of_the_schedule,
        optimum_lies_between_value_and_upper_bound,
    ):
        verify(plan, scenario)


SUITE.table(
    plans,
    plans_a_single_round=[_example(3, 1, 0.3, 1), _example(4, 1, 1.0, 2), _example(4, 1, 0.0, 3)],
    plans_a_single_arm=[_example(1, 1, 0.3, 1), _example(1, 30, 0.3, 2), _example(1, 30, 1.0, 3)],
    plans_at_lam_0=[_example(3, 6, 0.0, 1), _example(2, 10, 0.0, 2)],
    plans_at_lam_1=[_example(3, 6, 1.0, 1), _example(2, 11, 1.0, 2), _example(4, 5, 1.0, 3)],
    plans_scaled_instances=[
        _example(3, 6, 0.3, 1, scale=0.2),
        _example(3, 6, 0.3, 1, scale=40.0),
        PlannerScenario(Instance([0.5, 0.9], [0.4, 0.1], 0.4, q0=0.2), 9),
        PlannerScenario(Instance([0.5, 0.9], [0.4, 0.1], 0.4, q0=0.0), 9),
    ],
    plans_worthless_and_equal_arms=[
        PlannerScenario(Instance([0.0, 0.0], [1.0, 0.5], 0.3), 6),
        PlannerScenario(Instance([0.5, 0.9], [0.0, 0.0], 0.3, q0=0.0), 6),
        PlannerScenario(Instance([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 0.3), 5),
    ],
)
