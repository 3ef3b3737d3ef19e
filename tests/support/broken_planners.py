"""A local plugin of planners: good ones, and for every check of the kit one that breaks it.

Faults that would spoil every plan are kept to long horizons, which only the general checks
ask for.
"""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import evolve

from bdes_framework import Instance, InvalidValueError, Plan, Registrar, Schedule, hookimpl
from tests.support.kit_subjects import Subjects

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


@subject("uses-no-global-random-state.moves-numpy")
class MovesNumpy(Good):
    def pulls(self, horizon: int) -> int:
        np.random.random()  # noqa: NPY002
        return horizon


@subject("uses-no-global-random-state.moves-random")
class MovesRandom(Good):
    def pulls(self, horizon: int) -> int:
        random.random()
        return horizon


@subject("uses-no-global-random-state.reads")
class ReadsNumpy(Good):
    def arms(self, instance: Instance, horizon: int) -> list[int]:
        key = int(np.random.get_state(legacy=False)["state"]["key"][0])  # noqa: NPY002
        return [key % instance.n_arms] * horizon


@subject("instances-are-not-changed.values")
class Scribbles(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        instance.r.flags.writeable = True
        instance.r[0] = 0.0
        instance.r.flags.writeable = False
        return plan


@subject("instances-are-not-changed.flags")
class Unlocks(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        instance.b.flags.writeable = True
        return super().plan(instance, horizon)


@subject("improving-plans-hold")
class NeverPlans(Good):
    def improving_plans(self, instance: Instance, horizon: int) -> Iterator[Plan]:
        return iter(())


def changed(name: str, change: Callable[[Plan, Instance], dict[str, Any]], since: int = 0) -> None:
    """Add a planner that changes good plans, from some horizon on."""

    def plan(self: Good, instance: Instance, horizon: int) -> Any:
        good = Good.plan(self, instance, horizon)
        return evolve(good, **change(good, instance)) if horizon >= since else good

    subject.variant(name, Good, plan=plan)


def ordinary(instance: Instance) -> bool:
    return 0 < instance.lam < 1 and instance.q0 == 1 and instance.n_arms > 1


changed("good.unproven", lambda plan, instance: {"upper_bound": math.inf})
changed(
    "numbers-are-floats",
    lambda plan, instance: {"upper_bound": math.ceil(plan.upper_bound)},
    since=40,
)
changed(
    "arms-exist",
    lambda plan, instance: {"schedule": Schedule.of([instance.n_arms] * plan.schedule.n_pulls)},
    since=40,
)
changed(
    "value-is-that-of-the-schedule",
    lambda plan, instance: {"value": plan.value * (1 - 1e-7)},
    since=40,
)
changed(
    "value-is-at-most-the-upper-bound",
    lambda plan, instance: {"upper_bound": 0.999 * plan.value},
    since=40,
)
changed(
    "optimum-lies-between-value-and-upper-bound",
    lambda plan, instance: {"upper_bound": plan.value} if ordinary(instance) else {},
)
changed("diagnostics-are-flat", lambda plan, instance: {"diagnostics": {"gaps": [0.1, 0.2]}})

for _name, _more in (("more", 1), ("fewer", -1)):
    subject.variant(
        f"schedules-have-exactly-horizon-pulls.{_name}",
        Good,
        pulls=lambda self, horizon, more=_more: horizon + more if horizon >= 40 else horizon,
    )
subject.variant("plans-scaled-instances", Good, highest_state=lambda self, instance: 1.0)


def needs(name: str, compute: Callable[[Instance, int], object]) -> None:
    """Add a planner that first computes something which may fail."""

    def plan(self: Good, instance: Instance, horizon: int) -> Any:
        compute(instance, horizon)
        return Good.plan(self, instance, horizon)

    subject.variant(name, Good, plan=plan)


def at_most(longest: int, message: str) -> Callable[[Instance, int], None]:
    def compute(instance: Instance, horizon: int) -> None:
        if horizon > longest:
            raise InvalidValueError(message)

    return compute


needs("wrong.rejects-everything", at_most(0, "nothing suits me"))
needs("plans-ordinary-instances.rejects", at_most(39, "cannot plan so far ahead"))
needs("plans-a-single-round", lambda instance, n: instance.n_arms == 1 or 1 / math.log(n))
needs("plans-a-single-arm", lambda instance, n: 1 / (instance.n_arms - 1))
needs("plans-at-lam-0", lambda instance, n: n == 1 or 1 / instance.lam)
needs(
    "plans-at-lam-1", lambda instance, n: n == 1 or instance.n_arms == 1 or 1 / (1 - instance.lam)
)
needs(
    "plans-worthless-and-equal-arms",
    lambda instance, n: 1 / float(Good().plan(instance, n).value),
)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.planner, lambda make, context: make())
