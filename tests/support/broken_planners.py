"""A local plugin of planners: good ones, and for every check of the kit one that breaks it.

Faults that would spoil every plan are kept to long horizons, which only the general checks
ask for.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve

from bdes_framework import (
    DecisionTable,
    Instance,
    InvalidValueError,
    Plan,
    Registrar,
    Schedule,
    hookimpl,
)
from tests.support.kit_subjects import Subjects, global_seed

BDES_API_VERSION = 1

subject = Subjects()


@subject("good")
class Good:
    """Always the arm that pays most at once; no state can exceed the largest there is."""

    def pulls(self, horizon: int) -> int:
        return horizon

    def arms(self, instance: Instance, horizon: int) -> list[int]:
        return [int(np.argmax(instance.r))] * self.pulls(horizon)

    def highest_state(self, instance: Instance) -> float:
        return max(instance.q0, float(instance.b.max()))

    def plan(self, instance: Instance, horizon: int) -> Any:
        schedule = Schedule.of(self.arms(instance, horizon))
        bound = self.pulls(horizon) * float(instance.r.max()) * self.highest_state(instance)
        return Plan(schedule, instance.value(schedule), bound, {"method": "greedy", "steps": 1})


@subject("same-instance-gives-the-same-plan")
class Moody(Good):
    calls = 0

    def arms(self, instance: Instance, horizon: int) -> list[int]:
        self.calls += 1
        return super().arms(instance, horizon) if self.calls == 1 else [0] * horizon


@subject("instances-are-not-changed.values")
class Scribbles(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        instance.r.flags.writeable = True
        instance.r[0] = 0.0
        instance.r.flags.writeable = False
        return plan


@subject("good.table")
class Tabulates(Good):
    """The same for users who may leave; no visit pays more than the most that one can."""

    made = itertools.count()
    table_class: type[DecisionTable] = DecisionTable

    def arm(self, instance: Instance, continuation: float) -> int:
        return int(np.argmax(instance.r))

    def most(self, instance: Instance, continuation: float) -> float:
        return float(instance.r.max()) * self.highest_state(instance) / (1 - continuation)

    def plan_stationary(self, instance: Instance, continuation: float) -> Any:
        most, arm = self.most(instance, continuation), self.arm(instance, continuation)
        bound = [0.0, self.highest_state(instance)], [most, most]
        return self.table_class(instance, continuation, [0.0], [arm], *bound)


@subject("tables-are-for-what-was-asked.continuation")
class OtherUsers(Tabulates):
    def plan_stationary(self, instance: Instance, continuation: float) -> Any:
        return super().plan_stationary(instance, continuation + 1e-13)


@subject("tables-are-for-what-was-asked.instance")
class OtherArms(Tabulates):
    def plan_stationary(self, instance: Instance, continuation: float) -> Any:
        other = Instance(instance.r * (1 + 1e-13), instance.b, instance.lam, instance.q0)
        return super().plan_stationary(other, continuation)


@subject("tables-without-return-are-greedy")
class Patient(Tabulates):
    def arm(self, instance: Instance, continuation: float) -> int:
        return int(np.argmin(instance.r)) if continuation == 0 else super().arm(instance, 0.5)


@subject("same-instance-gives-the-same-table")
class EverLooser(Tabulates):
    def most(self, instance: Instance, continuation: float) -> float:
        return super().most(instance, continuation) + next(self.made)


class Boastful(DecisionTable):
    @property
    def value(self) -> float:
        return 1.0001 * super().value


class TooSure(DecisionTable):
    def upper_bounds_at(self, states: Any) -> Any:
        bounds = super().upper_bounds_at(states)
        return np.where(
            np.asarray(states) == self.instance.q0, bounds, 0.5 * self.values_at(states)
        )


subject.variant("tables-earn-what-they-say", Tabulates, table_class=Boastful)
subject.variant("bounds-of-tables-hold", Tabulates, table_class=TooSure)


def changed(name: str, change: Callable[[Plan, Instance], dict[str, Any]], since: int = 0) -> None:
    """Add a planner that changes good plans, from some horizon on."""

    def evolved(plan: Plan, self: Good, instance: Instance, horizon: int) -> Plan:
        return evolve(plan, **change(plan, instance)) if horizon >= since else plan

    subject.after(name, "plan", evolved)


def bounded(name: str, bound: Callable[[Plan], float], since: int = 0) -> None:
    """Add a planner that changes the upper bound of good plans, from some horizon on."""
    changed(name, lambda plan, instance: {"upper_bound": bound(plan)}, since)


def ordinary(instance: Instance) -> bool:
    return 0 < instance.lam < 1 and instance.q0 == 1 and instance.n_arms > 1


bounded("good.unproven", lambda plan: math.inf)
bounded("numbers-are-floats", lambda plan: math.ceil(plan.upper_bound), since=40)
bounded("value-is-at-most-the-upper-bound", lambda plan: 0.999 * plan.value, since=40)
changed(
    "optimum-lies-between-value-and-upper-bound",
    lambda plan, instance: {"upper_bound": plan.value} if ordinary(instance) else {},
)
changed(
    "value-is-that-of-the-schedule",
    lambda plan, instance: {"value": plan.value * (1 - 1e-7)},
    since=40,
)
changed(
    "arms-exist",
    lambda plan, instance: {"schedule": Schedule.of([instance.n_arms] * plan.schedule.n_pulls)},
    since=40,
)
changed("diagnostics-are-flat", lambda plan, instance: {"diagnostics": {"gaps": [0.1, 0.2]}})

EXACTLY = "schedules-have-exactly-horizon-pulls"
subject.after(f"{EXACTLY}.more", "pulls", lambda pulls, self, horizon: pulls + (horizon >= 40))
subject.after(f"{EXACTLY}.fewer", "pulls", lambda pulls, self, horizon: pulls - (horizon >= 40))
subject.variant("plans-scaled-instances", highest_state=lambda self, instance: 1.0)
subject.variant("improving-plans-hold", improving_plans=lambda self, instance, horizon: iter(()))
subject.variant(
    "uses-no-global-random-state.reads",
    arms=lambda self, instance, horizon: [global_seed() % instance.n_arms] * horizon,
)


def needs(name: str, compute: Callable[[Instance, int], object]) -> None:
    """Add a planner that first computes something which may fail."""
    subject.before(name, "plan", lambda self, instance, horizon: compute(instance, horizon))


def at_most(longest: int, message: str) -> Callable[[Instance, int], None]:
    def compute(instance: Instance, horizon: int) -> None:
        if horizon > longest:
            raise InvalidValueError(message)

    return compute


needs("wrong.rejects-everything", at_most(0, "nothing suits me"))
needs("plans-ordinary-instances.rejects", at_most(39, "cannot plan so far ahead"))
needs("instances-are-not-changed.flags", lambda instance, n: instance.b.setflags(write=True))
needs("plans-a-single-round", lambda instance, n: instance.n_arms == 1 or 1 / math.log(n))
needs("plans-a-single-arm", lambda instance, n: 1 / (instance.n_arms - 1))
needs("plans-at-lam-0", lambda instance, n: n == 1 or 1 / instance.lam)
needs(
    "plans-at-lam-1", lambda instance, n: n == 1 or instance.n_arms == 1 or 1 / (1 - instance.lam)
)
needs("plans-worthless-and-equal-arms", lambda instance, n: 1 / Good().plan(instance, n).value)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.planner, "plan", lambda make, context: make())
