"""Plan reports: a plan, each arm's share, and the lift over simpler planners."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import class_path, listed
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import BdesError, ContractError, InvalidValueError
from bdes_framework.interfaces import AnytimePlanner, Kind, Plan, Reference
from bdes_framework.model.instance import Instance
from bdes_framework.plugin.plugins import Plugins


@frozen(eq=False)
class PlanReport:
    """A plan, compared with the plans of simpler planners.

    Parameters
    ----------
    instance : Instance
        The instance planned for.
    plan : Plan
        The schedule, its value and its upper bound.
    shares : FloatArray, shape (K,)
        Each arm's share of the pulls; sums to 1.
    alternatives : Mapping[str, float]
        The values of other planners' schedules, by the planner's name.
    """

    instance: Instance
    plan: Plan
    shares: FloatArray
    alternatives: Mapping[str, float]

    def lift(self, name: str) -> float | None:
        """Return the plan's relative gain over an alternative; None if that earns nothing."""
        base = self.alternatives[name]
        return self.plan.value / base - 1 if base > 0 else None

    def rounds(self, start: int, stop: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return arms, states and expected rewards of rounds ``start`` to ``stop - 1``.

        Each has shape (stop - start,). Earlier rounds are not expanded.
        """
        here = self.instance
        if start:
            here = here.starting_at(here.state_after(self.plan.schedule.part(0, start)))
        arms = self.plan.schedule.slice(start, stop)
        states = here.states(arms)
        return arms, states, here.r[arms] * states


@one_thread()
def report_plan(
    plugins: Plugins,
    instance: Instance,
    horizon: int,
    planner: Reference = "certified",
    against: Sequence[str] = ("best-fixed", "greedy"),
    *,
    seconds: float | None = None,
) -> PlanReport:
    """Plan, and compare the plan with those of simpler planners.

    With ``seconds``, planning stops after about that long with the best plan so far.

    Raises
    ------
    InvalidValueError
        If there is a time limit and the planner is no :class:`AnytimePlanner`.

    Examples
    --------
    >>> from bdes_framework import load_plugins
    >>> ads = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
    >>> report = report_plan(load_plugins(), ads, horizon=300)
    >>> report.shares.round(2).tolist(), round(report.lift("best-fixed"), 2)
    ([0.34, 0.66], 0.24)
    """
    chosen = plugins.planner(planner)
    if seconds is None:
        plan = chosen.plan(instance, horizon)
    else:
        if not isinstance(chosen, AnytimePlanner):
            name = plugins.resolve(Kind.PLANNER, planner)[0].name
            raise InvalidValueError(
                f"planner {name!r} cannot stop early, so takes no time limit;"
                f" those that can: {listed(_anytime_planners(plugins))}"
            )
        plan = _plan_within(chosen, instance, horizon, seconds)
    return PlanReport(
        instance=instance,
        plan=plan,
        shares=plan.schedule.counts(instance.n_arms) / np.float64(horizon),
        alternatives={
            name: plugins.planner(name).plan(instance, horizon).value for name in against
        },
    )


def _anytime_planners(plugins: Plugins) -> Iterator[str]:
    """Yield the names of planners that, with their defaults, can stop early."""
    for entry in plugins.entries(Kind.PLANNER):
        with suppress(BdesError):
            if isinstance(plugins.planner(entry.name), AnytimePlanner):
                yield entry.name


def _plan_within(planner: AnytimePlanner, instance: Instance, horizon: int, seconds: float) -> Plan:
    """Return the best plan found in about ``seconds``; the clock decides nothing else."""
    begin, best = time.monotonic(), None
    for plan in planner.improving_plans(instance, horizon):
        if best is None or plan.gap <= best.gap:
            best = plan
        # The next plan takes about twice as long as this one.
        if 3 * (time.monotonic() - begin) > seconds:
            break
    if best is None:
        raise ContractError(f"planner {class_path(planner)}: improving_plans yielded no plan")
    return best
