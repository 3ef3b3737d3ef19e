"""What a log says to do: a plan, what it is worth, and a check of it against the log itself."""

import numpy as np
from attrs import evolve, frozen

from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.fit import Forecast
from bdes_framework.fitting.log import Log
from bdes_framework.interfaces import Plan, Reference
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.lift import TODAY, Lift, lift
from bdes_framework.planning.off_policy import OffPolicyCheck, check_off_policy
from bdes_framework.planning.plan_report import PlanReport, plan_for_leavers, report_plan
from bdes_framework.planning.verdict import LEAST_REWARDS, Verdict
from bdes_framework.plugin.plugins import Plugins


@frozen(eq=False)
class Advice:
    """A plan for the arms of a log, what it is worth, and how it fares on the log itself.

    Parameters
    ----------
    verdict : Verdict
        Whether there is reason to deploy it, what it shows considered.
    plan : PlanReport | DecisionTable
        A schedule for a fixed number of visits, or a table for users who may leave.
    lift : Lift
        What it earns more than today's traffic and than simple rules.
    check : OffPolicyCheck | None
        Its value by the log's propensities, if it has any.
    unchecked : str
        Why there is no check; empty if there is one, or there are no propensities.
    """

    verdict: Verdict
    plan: PlanReport | DecisionTable
    lift: Lift
    check: OffPolicyCheck | None
    unchecked: str = ""

    @property
    def answer(self) -> str:
        """What the plan is worth, in a sentence."""
        over = self.lift.over(TODAY).lift
        if over is None:
            return "Today's traffic earns nothing by the fit, so nothing can be compared with it."
        return worth_sentence(over)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before it is deployed, in words."""
        over = self.lift.over(TODAY).lift
        if over is None or over.low >= 0:
            return ()
        return ("the plan may earn less than today's traffic: the interval reaches below 0",)


def worth_sentence(over: Forecast) -> str:
    """Return what a plan earns more than today's traffic, in words.

    >>> worth_sentence(Forecast(0.09, 0.06, 0.12))
    "The plan earns 9.0 % more than today's traffic (6.0 to 12.0 %)."
    """
    low, mean, high = (f"{100 * part:.1f}" for part in (over.low, over.mean, over.high))
    if over.low > 0:
        return f"The plan earns {mean} % more than today's traffic ({low} to {high} %)."
    if over.high < 0:
        less, least, most = (f"{-100 * part:.1f}" for part in (over.mean, over.high, over.low))
        return f"The plan earns {less} % less than today's traffic ({least} to {most} %)."
    return (
        "It is not certain that the plan earns more than today's traffic:"
        f" {100 * over.mean:+.1f} % ({100 * over.low:+.1f} to {100 * over.high:+.1f} %)."
    )


def advise(
    plugins: Plugins,
    verdict: Verdict,
    log: Log,
    horizon: int | None = None,
    continuation: float = 0.0,
    planner: Reference = "certified",
) -> Advice:
    """Return a plan for a horizon, or else for users who come back with this probability."""
    fit = verdict.fit
    instance = fit.playable_arms().instance
    plan: PlanReport | DecisionTable
    if horizon is not None:
        plan = report_plan(plugins, instance, horizon, planner)
        deployed: Plan | DecisionTable = plan.plan
    else:
        table = plan_for_leavers(plugins, instance, continuation, planner)
        plan = deployed = evolve(table, names=fit.names)
    verdict = evolve(verdict, unknown_arms=_unknown_arms(deployed, log))
    worth, check, unchecked = lift(fit, deployed, log), None, ""
    if log.propensities is not None:
        try:
            check = check_off_policy(fit, deployed, log)
        except InvalidValueError as error:
            unchecked = str(error)
    return Advice(verdict, plan, worth, check, unchecked)


def _unknown_arms(deployed: Plan | DecisionTable, log: Log) -> tuple[str, ...]:
    """Return the names of the arms that a plan shows and of which few rewards are known."""
    if isinstance(deployed, DecisionTable):
        shown = np.unique(deployed.arms)
    else:
        segments = deployed.schedule.segments
        shown = np.unique(np.concatenate([segment.arms for segment in segments]))
    known, _ = log.totals()
    return tuple(log.names[arm] for arm in shown.tolist() if known[arm] < LEAST_REWARDS)
