"""A plan with what people ask of it: each arm's share, and the lift over simpler schedules."""

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.interfaces import Plan, Reference
from bdes_framework.model.instance import Instance
from bdes_framework.plugin.plugins import Plugins


@frozen(eq=False)
class PlanReport:
    """A plan beside the alternatives people compare it with.

    Parameters
    ----------
    instance : Instance
        What was planned for.
    plan : Plan
        The schedule, its value and its upper bound.
    shares : array of float, shape (K,)
        Which part of the pulls each arm gets; sums to 1.
    alternatives : mapping
        Planners by name, with the value of their schedules.
    """

    instance: Instance
    plan: Plan
    shares: FloatArray
    alternatives: Mapping[str, float]

    def lift(self, name: str) -> float | None:
        """Return by which part the plan earns more than an alternative; None over nothing."""
        base = self.alternatives[name]
        return self.plan.value / base - 1 if base > 0 else None

    def rounds(self, start: int, stop: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return arms, states and expected rewards of rounds ``start`` to ``stop - 1``.

        Each has shape (stop - start,). What came before is not expanded.
        """
        here = self.instance
        if start:
            here = here.starting_at(here.state_after(self.plan.schedule.part(0, start)))
        arms = self.plan.schedule.slice(start, stop)
        states = here.states(arms)
        return arms, states, here.r[arms] * states


def report_plan(
    plugins: Plugins,
    instance: Instance,
    horizon: int,
    planner: Reference = "certified",
    against: Sequence[str] = ("best-fixed", "greedy"),
) -> PlanReport:
    """Plan, and value what simpler planners would do.

    Examples
    --------
    >>> from bdes_framework import load_plugins
    >>> ads = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
    >>> report = report_plan(load_plugins(), ads, horizon=300)
    >>> report.shares.round(2).tolist(), round(report.lift("best-fixed"), 2)
    ([0.34, 0.66], 0.24)
    """
    plan = plugins.planner(planner).plan(instance, horizon)
    return PlanReport(
        instance=instance,
        plan=plan,
        shares=plan.schedule.counts(instance.n_arms) / np.float64(horizon),
        alternatives={
            name: plugins.planner(name).plan(instance, horizon).value for name in against
        },
    )
