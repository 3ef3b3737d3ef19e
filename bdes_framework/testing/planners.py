"""What every planner promises, as named checks."""

import math
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import Kind, Plan, Planner, Reference
from bdes_framework.model.instance import Instance
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.testing.checks import Check, Promises, Subject, run_all
from bdes_framework.testing.demands import (
    BrokenPromiseError,
    RefusedError,
    demand,
    demand_flat,
    demand_no_global_luck,
    demand_same,
    set_global_luck,
)
from bdes_framework.testing.reference import best_value, example_instance, plain_value

ROUNDING = 1e-9
"""How far sums of floats may be off, relative to their size."""


@frozen
class Scenario:
    """An instance to plan for, and how many rounds."""

    instance: Instance
    horizon: int
    seed: int = 1
    may_be_refused: bool = False
    """Whether a planner is free to raise InvalidValueError for this."""

    def __str__(self) -> str:
        instance = self.instance
        return (
            f"K={instance.n_arms}, T={self.horizon}, lam={instance.lam}, q0={instance.q0:g},"
            f" seed={self.seed}"
        )


def _example(n_arms: int, horizon: int, lam: float, seed: int, scale: float = 1.0) -> Scenario:
    return Scenario(example_instance(n_arms, lam, seed).scaled(scale), horizon, seed)


def _refusable(scenario: Scenario) -> Scenario:
    return Scenario(scenario.instance, scenario.horizon, scenario.seed, may_be_refused=True)


SMALL = tuple(
    _example(n_arms, horizon, lam, seed)
    for seed, (n_arms, horizon, lam) in enumerate(
        [(3, 6, 0.3), (2, 10, 0.7), (4, 5, 0.05), (3, 7, 0.5), (2, 12, 0.2), (5, 4, 0.95)]
    )
)
"""Few enough sequences to try them all."""

MIDDLE = (_example(5, 40, 0.3, 11), _example(3, 60, 0.8, 12), _example(4, 50, 0.1, 13))

ORDINARY = tuple(map(_refusable, SMALL + MIDDLE))

PROMISES: Promises[Scenario] = Promises(Kind.PLANNER)


def planner_checks(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> tuple[Check, ...]:
    """Return the checks of a planner, to be called one by one.

    Parameters
    ----------
    ref : name, table or config object
        Which planner.
    plugins : Plugins, optional
        Where it is registered; everything installed by default, loaded when a check runs.
    expected_failures : mapping of check name to reason, optional
        Checks this planner is known to fail, such as
        ``{"plans_ordinary_instances": "only plans at lam = 1"}``.
    **parameters
        The planner's parameters, if ``ref`` is a name or a table.
    """
    return PROMISES.checks(ref, parameters, plugins, expected_failures)


def check_planner(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> None:
    """Run every check of a planner; takes what :func:`planner_checks` takes.

    Raises
    ------
    ConformanceError
        If any check fails; tells all that did, and expected failures that passed.
    """
    run_all(PROMISES.checks(ref, parameters, plugins, expected_failures))


# -- planning -------------------------------------------------------------------------------


def _build(subject: Subject, scenario: Scenario, global_seed: int = 0) -> Planner:
    set_global_luck(global_seed)
    return subject.plugins.planner(subject.ref, seed=scenario.seed, **subject.parameters)


def _plan(planner: Planner, scenario: Scenario) -> Plan:
    try:
        plan: object = planner.plan(_copy(scenario.instance), scenario.horizon)
    except InvalidValueError as error:
        if scenario.may_be_refused:
            raise RefusedError(str(error)) from error
        raise
    if not isinstance(plan, Plan):
        raise BrokenPromiseError("a Plan from plan()", quoted(plan))
    return plan


def _planned(subject: Subject, scenario: Scenario) -> Plan:
    return _plan(_build(subject, scenario), scenario)


def _copy(instance: Instance) -> Instance:
    return Instance(instance.r, instance.b, instance.lam, instance.q0)


def _demand_numbers(plan: Plan) -> None:
    expected = "value: a finite float; upper_bound: a float, perhaps inf, but not NaN"
    for name, number in (("value", plan.value), ("upper_bound", plan.upper_bound)):
        demand(isinstance(number, float), expected, f"{name} is {quoted(number)}")
        demand(not math.isnan(number), expected, f"{name} is NaN")
    demand(math.isfinite(plan.value), expected, f"value is {plan.value}")


def _demand_pulls(plan: Plan, scenario: Scenario) -> None:
    demand(
        plan.schedule.n_pulls == scenario.horizon,
        f"a schedule of exactly {scenario.horizon} pulls",
        f"{plan.schedule.n_pulls} pulls",
    )


def _demand_arms(plan: Plan, scenario: Scenario) -> None:
    highest, n_arms = int(plan.arms.max()), scenario.instance.n_arms
    demand(highest < n_arms, f"arms from 0 to {n_arms - 1}", f"arm {highest}")


def _demand_value(plan: Plan, scenario: Scenario) -> None:
    if int(plan.arms.max()) >= scenario.instance.n_arms:
        return  # worth nothing that could be told; arms_exist tells of it
    worth = scenario.instance.value(plan.schedule)
    by_hand = plain_value(scenario.instance, plan.arms)
    expected = f"the value of the schedule itself, {worth}, to {ROUNDING:g} of it"
    demand(_close(plan.value, worth) and _close(plan.value, by_hand), expected, f"{plan.value}")


def _demand_bounds(plan: Plan, scenario: Scenario) -> None:
    best = best_value(scenario.instance, scenario.horizon)
    demand(
        _at_most(plan.value, best),
        f"a value of at most {best}, the best of all sequences",
        f"{plan.value}",
    )
    demand(
        _at_most(best, plan.upper_bound),
        f"an upper bound of at least {best}, the best of all sequences",
        f"{plan.upper_bound}",
    )


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=1e-300)


def _at_most(low: float, high: float) -> bool:
    return low <= high or _close(low, high)


# -- the promises ---------------------------------------------------------------------------


@PROMISES.over(*SMALL, *MIDDLE)
def plans_ordinary_instances(subject: Subject, scenario: Scenario) -> None:
    """It plans instances with lam between 0 and 1."""
    _planned(subject, scenario)


@PROMISES.over(*ORDINARY)
def numbers_are_floats(subject: Subject, scenario: Scenario) -> None:
    """The value is a finite float; the upper bound is a float, inf if nothing is proven."""
    _demand_numbers(_planned(subject, scenario))


@PROMISES.over(*ORDINARY)
def schedules_have_exactly_horizon_pulls(subject: Subject, scenario: Scenario) -> None:
    """A schedule has as many pulls as rounds were asked for."""
    _demand_pulls(_planned(subject, scenario), scenario)


@PROMISES.over(*ORDINARY)
def arms_exist(subject: Subject, scenario: Scenario) -> None:
    """Every arm lies between 0 and K - 1."""
    _demand_arms(_planned(subject, scenario), scenario)


@PROMISES.over(*ORDINARY)
def value_is_that_of_the_schedule(subject: Subject, scenario: Scenario) -> None:
    """The value is what the schedule earns on this instance."""
    _demand_value(_planned(subject, scenario), scenario)


@PROMISES.over(*ORDINARY)
def value_is_at_most_the_upper_bound(subject: Subject, scenario: Scenario) -> None:
    """The value does not exceed the upper bound."""
    plan = _planned(subject, scenario)
    expected = f"an upper bound of at least the value, {plan.value}"
    demand(_at_most(plan.value, plan.upper_bound), expected, f"{plan.upper_bound}")


@PROMISES.over(*map(_refusable, SMALL))
def optimum_lies_between_value_and_upper_bound(subject: Subject, scenario: Scenario) -> None:
    """The best of all sequences earns at least the value and at most the upper bound."""
    _demand_bounds(_planned(subject, scenario), scenario)


@PROMISES.over(*ORDINARY)
def same_instance_gives_the_same_plan(subject: Subject, scenario: Scenario) -> None:
    """Asking a second planner, or the same one again, brings the same plan."""
    planner = _build(subject, scenario)
    first = _plan(planner, scenario)
    between = _refusable(_example(2, 5, 0.6, seed=21))
    with suppress(RefusedError):
        _plan(planner, between)
    others = ((_planned(subject, scenario), "another"), (_plan(planner, scenario), "the same"))
    for again, which in others:
        expected = f"the same plan from {which} planner"
        demand_same(first.arms, again.arms, expected, "arm")
        came = f"value and bound {_numbers(first)} and then {_numbers(again)}"
        demand(bool((_numbers(first) == _numbers(again)).all()), expected, came)


@PROMISES.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: Scenario) -> None:
    """All luck comes from the context; np.random and random are neither read nor moved."""

    def plan(global_seed: int) -> tuple[IntArray, FloatArray]:
        planned = _plan(_build(subject, scenario, global_seed), scenario)
        return planned.arms, _numbers(planned)

    demand_no_global_luck(plan, "arm or number")


@PROMISES.over(*ORDINARY)
def instances_are_not_changed(subject: Subject, scenario: Scenario) -> None:
    """Planning leaves the instance as it is."""
    given = _copy(scenario.instance)
    with suppress(InvalidValueError):
        _build(subject, scenario).plan(given, scenario.horizon)
    expected = f"the instance as it was, {quoted(scenario.instance)}"
    demand(given == scenario.instance, expected, quoted(given))
    writeable = given.r.flags.writeable or given.b.flags.writeable
    demand(not writeable, "r and b read-only, as they were", "made writeable")


@PROMISES.over(*ORDINARY)
def diagnostics_are_flat(subject: Subject, scenario: Scenario) -> None:
    """A plan's diagnostics are names with scalars, strings or small arrays."""
    demand_flat(_planned(subject, scenario).diagnostics)


def _numbers(plan: Plan) -> FloatArray:
    return np.array([plan.value, plan.upper_bound])


# -- instances at the edge ------------------------------------------------------------------


def _keeps_every_promise(subject: Subject, scenario: Scenario) -> None:
    plan = _planned(subject, scenario)
    _demand_numbers(plan)
    _demand_pulls(plan, scenario)
    _demand_arms(plan, scenario)
    _demand_value(plan, scenario)
    _demand_bounds(plan, scenario)


@PROMISES.over(_example(3, 1, 0.3, 1), _example(4, 1, 1.0, 2), _example(4, 1, 0.0, 3))
def plans_a_single_round(subject: Subject, scenario: Scenario) -> None:
    """It plans one round."""
    _keeps_every_promise(subject, scenario)


@PROMISES.over(_example(1, 1, 0.3, 1), _example(1, 30, 0.3, 2), _example(1, 30, 1.0, 3))
def plans_a_single_arm(subject: Subject, scenario: Scenario) -> None:
    """It plans an instance with one arm."""
    _keeps_every_promise(subject, scenario)


@PROMISES.over(_example(3, 6, 0.0, 1), _example(2, 10, 0.0, 2))
def plans_at_lam_0(subject: Subject, scenario: Scenario) -> None:
    """It plans an instance whose state never moves."""
    _keeps_every_promise(subject, scenario)


@PROMISES.over(_example(3, 6, 1.0, 1), _example(2, 11, 1.0, 2), _example(4, 5, 1.0, 3))
def plans_at_lam_1(subject: Subject, scenario: Scenario) -> None:
    """It plans an instance whose state forgets all but the last arm."""
    _keeps_every_promise(subject, scenario)


@PROMISES.over(
    _example(3, 6, 0.3, 1, scale=0.2),
    _example(3, 6, 0.3, 1, scale=40.0),
    Scenario(Instance([0.5, 0.9], [0.4, 0.1], 0.4, q0=0.2), 9),
    Scenario(Instance([0.5, 0.9], [0.4, 0.1], 0.4, q0=0.0), 9),
)
def plans_scaled_instances(subject: Subject, scenario: Scenario) -> None:
    """It plans instances with r, b or q0 above 1, or with another first state than 1."""
    _keeps_every_promise(subject, scenario)


@PROMISES.over(
    Scenario(Instance([0.0, 0.0], [1.0, 0.5], 0.3), 6),
    Scenario(Instance([0.5, 0.9], [0.0, 0.0], 0.3, q0=0.0), 6),
    Scenario(Instance([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], 0.3), 5),
)
def plans_worthless_and_equal_arms(subject: Subject, scenario: Scenario) -> None:
    """It plans when nothing pays and when all arms are the same."""
    _keeps_every_promise(subject, scenario)
