"""Plan reports: a plan, each arm's share, and the lift over simpler planners."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import html_table, shown_fields, shown_numbers
from bdes_framework._internal.text import class_path, listed
from bdes_framework._internal.threads import one_thread
from bdes_framework._internal.upwards import drawn, report_function
from bdes_framework.errors import BdesError, ContractError, InvalidValueError
from bdes_framework.interfaces import (
    AnytimePlanner,
    Kind,
    Plan,
    Reference,
    StationaryPlanner,
    plan_html,
)
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.instance import Instance
from bdes_framework.plugin.plugins import Plugins

if TYPE_CHECKING:
    import altair


_FAR_BELOW = 0.8
_MIDDLE = 4096
_LONGEST_END = 1 << 16


@frozen
class BurntEnd:
    """The last rounds of a schedule that leave the state far below what it was before.

    Parameters
    ----------
    n_rounds : int
        How many rounds.
    usual_state : float
        The mean state in the middle of the schedule.
    last_state : float
        The state after the last round.
    """

    n_rounds: int
    usual_state: float
    last_state: float


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

    def __repr__(self) -> str:
        horizon = self.plan.schedule.n_pulls
        return shown_fields(
            "PlanReport",
            horizon=horizon,
            value=self.plan.value,
            gap=f"{self.plan.gap:.2g}",
            shares=shown_numbers(self.shares),
            lift=", ".join(f"{name} {self._lift_text(name)}" for name in self.alternatives),
        )

    def plot(self, rounds: int | None = None) -> "altair.VConcatChart":
        """Return a chart of the first rounds: the state and the arms.

        Needs the extra ``report``; ``rounds`` is 120 unless told otherwise.
        """
        chart: altair.VConcatChart = report_function("plot_plan")(self, rounds)
        return chart

    def _repr_html_(self) -> str:
        at = self.instance
        arms = zip(range(at.n_arms), at.r.tolist(), at.b.tolist(), self.shares, strict=True)
        rows = [(arm, r, b, f"{100 * share:.1f} %") for arm, r, b, share in arms]
        table = html_table(["arm", "r", "b", "share of the pulls"], rows)
        others = [(name, value, self._lift_text(name)) for name, value in self.alternatives.items()]
        compared = html_table(["simpler planner", "earns", "lift of the plan"], others)
        tables = plan_html(self.plan) + table + (compared if others else "")
        return tables + drawn("image_of_plan", self)

    def _lift_text(self, name: str) -> str:
        lift = self.lift(name)
        return "that earns nothing" if lift is None else f"{100 * lift:+.1f} %"

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

    def burnt_end(self) -> BurntEnd | None:
        """Return how the schedule burns the state at its end; None if it does not.

        It does if the last state is a fifth and more below all states in the middle: nothing is
        earned after the last round, so nothing is saved for it.
        """
        horizon = self.plan.schedule.n_pulls
        middle = self.rounds(horizon // 4, horizon // 4 + min(_MIDDLE, horizon // 2 + 1))[1]
        lowest = float(middle.min())
        begin = horizon - max(1, min(horizon // 4, _LONGEST_END))
        arms, states, _ = self.rounds(begin, horizon)
        last = self.instance.starting_at(float(states[-1])).state_after(arms[-1:])
        if last >= _FAR_BELOW * lowest:
            return None
        high = np.flatnonzero(states >= lowest)
        n_rounds = states.size - (int(high[-1]) if high.size else 0)
        return BurntEnd(n_rounds, float(middle.mean()), last)


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
    >>> report  # doctest: +ELLIPSIS
    PlanReport(
        horizon=300,
        value=111.854,
        gap=...,
        shares=[0.34, 0.66],
        lift=best-fixed +24.3 %, greedy +276.6 %,
    )
    """
    chosen = plugins.planner(planner)
    if seconds is None:
        plan = chosen.plan(instance, horizon)
    else:
        if not isinstance(chosen, AnytimePlanner):
            name = plugins.resolve(Kind.PLANNER, planner)[0].name
            raise InvalidValueError(
                f"planner {name!r} cannot stop early, so takes no time limit;"
                f" those that can: {listed(_planners_of(plugins, AnytimePlanner))}"
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


@one_thread()
def plan_for_leavers(
    plugins: Plugins, instance: Instance, continuation: float, planner: Reference = "certified"
) -> DecisionTable:
    """Return a decision table, for users who come back after a visit with this probability.

    Raises
    ------
    InvalidValueError
        If the planner is no :class:`StationaryPlanner`.
    """
    return stationary_planner(plugins, planner).plan_stationary(instance, continuation)


def stationary_planner(plugins: Plugins, planner: Reference) -> StationaryPlanner:
    """Return a planner; raise InvalidValueError if it makes no decision tables."""
    chosen = plugins.planner(planner)
    if not isinstance(chosen, StationaryPlanner):
        name = plugins.resolve(Kind.PLANNER, planner)[0].name
        raise InvalidValueError(
            f"planner {name!r} makes no decision tables;"
            f" those that do: {listed(_planners_of(plugins, StationaryPlanner))}"
        )
    return chosen


def _planners_of(plugins: Plugins, protocol: type) -> Iterator[str]:
    """Yield the names of planners that, with their defaults, have an optional protocol."""
    for entry in plugins.entries(Kind.PLANNER):
        with suppress(BdesError):
            if isinstance(plugins.planner(entry.name), protocol):
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
