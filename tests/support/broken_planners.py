"""A local plugin of planners: good ones, and for every check of the kit one that breaks it.

Each broken one is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart. Faults that would spoil every plan are
kept to long horizons, which only the general checks ask for.
"""

import math
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from attrs import AttrsInstance, evolve

from bdes_framework import (
    BuildContext,
    Instance,
    InvalidValueError,
    Plan,
    Planner,
    Registrar,
    Schedule,
    hookimpl,
)
from tests.support.kit_subjects import SpeechlessConfig, UnexplainedConfig, config_for

BDES_API_VERSION = 1

P = TypeVar("P", bound=Planner)
SUBJECTS: dict[str, Any] = {}


def subject(name: str) -> Callable[[type[P]], type[P]]:
    """Register the class below under a name."""

    def add(cls: type[P]) -> type[P]:
        SUBJECTS[name] = cls
        return cls

    return add


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


@subject("good.unproven")
class Unproven(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        return evolve(super().plan(instance, horizon), upper_bound=math.inf)


@subject("plans-ordinary-instances.refuses")
class ShortOnly(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        if horizon >= 40:
            raise InvalidValueError("cannot plan so far ahead")
        return super().plan(instance, horizon)


@subject("numbers-are-floats")
class WholeNumbers(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        return evolve(plan, upper_bound=math.ceil(plan.upper_bound)) if horizon >= 40 else plan


@subject("schedules-have-exactly-horizon-pulls.more")
class OneMore(Good):
    def pulls(self, horizon: int) -> int:
        return horizon + 1 if horizon >= 40 else horizon


@subject("schedules-have-exactly-horizon-pulls.fewer")
class OneFewer(Good):
    def pulls(self, horizon: int) -> int:
        return horizon - 1 if horizon >= 40 else horizon


@subject("arms-exist")
class OffTheEnd(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        wrong = Schedule.of([instance.n_arms] * horizon)
        return evolve(plan, schedule=wrong) if horizon >= 40 else plan


@subject("value-is-that-of-the-schedule")
class Inexact(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        return evolve(plan, value=plan.value * (1 - 1e-7)) if horizon >= 40 else plan


@subject("value-is-at-most-the-upper-bound")
class BoundBelowValue(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        return evolve(plan, upper_bound=0.999 * plan.value) if horizon >= 40 else plan


@subject("optimum-lies-between-value-and-upper-bound")
class ClaimsOptimality(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        ordinary = 0 < instance.lam < 1 and instance.q0 == 1 and instance.n_arms > 1
        return evolve(plan, upper_bound=plan.value) if ordinary else plan


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


@subject("diagnostics-are-flat")
class Nested(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        return evolve(super().plan(instance, horizon), diagnostics={"gaps": [0.1, 0.2]})


@subject("improving-plans-hold")
class NeverPlans(Good):
    def improving_plans(self, instance: Instance, horizon: int) -> Iterator[Plan]:
        return iter(())


@subject("plans-a-single-round")
class NeedsTwoRounds(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        if instance.n_arms > 1:
            self.scale = 1 / math.log(horizon)
        return super().plan(instance, horizon)


@subject("plans-a-single-arm")
class NeedsTwoArms(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        self.share = 1 / (instance.n_arms - 1)
        return super().plan(instance, horizon)


@subject("plans-at-lam-0")
class NeedsMotion(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        if horizon > 1:
            self.memory = 1 / instance.lam
        return super().plan(instance, horizon)


@subject("plans-at-lam-1")
class NeedsMemory(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        if horizon > 1 and instance.n_arms > 1:
            self.memory = 1 / (1 - instance.lam)
        return super().plan(instance, horizon)


@subject("plans-scaled-instances")
class TrustsOne(Good):
    def highest_state(self, instance: Instance) -> float:
        return 1.0


@subject("plans-worthless-and-equal-arms")
class NeedsReward(Good):
    def plan(self, instance: Instance, horizon: int) -> Any:
        plan = super().plan(instance, horizon)
        self.gap = 1 - plan.upper_bound / float(plan.value)
        return plan


# -- the plugin -----------------------------------------------------------------------------


def factory(make: Callable[[], Planner]) -> Callable[..., Planner]:
    def build(config: AttrsInstance, context: BuildContext) -> Planner:
        return make()

    return build


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    for name, make in SUBJECTS.items():
        registrar.planner(name, config_for(name), factory(make))
    registrar.planner("parameters-are-documented.one-not", UnexplainedConfig, factory(Good))
    registrar.planner("parameters-are-documented.none-at-all", SpeechlessConfig, factory(Good))
