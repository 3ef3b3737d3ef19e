"""The plan that ``bdes fit --plan`` makes, prints and writes; or why it makes none."""

from collections.abc import Sequence
from pathlib import Path

import click
from attrs import frozen
from rich.console import Console
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, quoted
from bdes_framework.cli.lift_table import show_check
from bdes_framework.cli.options import echo
from bdes_framework.cli.plan_table import continuation_of, show_table
from bdes_framework.cli.schedule_text import schedule_json, show_schedule, write_schedule
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import Log
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.advice import Advice
from bdes_framework.planning.plan_report import PlanReport
from bdes_framework.planning.traffic import estimate_continuation
from bdes_framework.planning.verdict import Verdict

PLAN_OPTIONS = ("planned", "horizon", "leave", "visits", "plan_anyway", "plan_out")


@frozen
class PlanRequest:
    """What was asked for of a plan: raises UsageError if it does not hold together."""

    planned: bool
    horizon: int | None
    leave: float | None
    visits: float | None
    plan_anyway: bool
    plan_out: Path | None

    def __attrs_post_init__(self) -> None:
        continuation_of(self.leave, self.visits)
        timed = self.leave is not None or self.visits is not None
        if self.horizon is not None and timed:
            raise click.UsageError("give --horizon, or else --leave or --visits")
        asked = timed or self.horizon is not None or self.plan_anyway or self.plan_out is not None
        if asked and not self.planned:
            raise click.UsageError(
                "--horizon, --leave, --visits, --plan-out and --plan-anyway go with --plan"
            )
        if (out := self.plan_out) is not None:
            allowed = (".json",) if self.horizon is None else (".csv", ".json")
            if out.suffix not in allowed:
                what = " or ".join(allowed)
                raise click.UsageError(f"--plan-out must end in {what}, got {quoted(out.name)}")
            if out.is_dir() or not out.parent.is_dir():
                raise click.UsageError(f"cannot write {out}: no such folder, or it is one")

    def continuation(self, log: Log) -> float:
        """Return the probability that a user comes back: given, or as a log shows it."""
        given = continuation_of(self.leave, self.visits)
        if given or self.leave or self.visits or self.horizon is not None or not self.planned:
            return given
        try:
            return estimate_continuation(log)
        except InvalidValueError as error:
            raise InvalidValueError(f"{error}: give --visits, --leave or --horizon") from None


def answer_json(verdict: Verdict, advice: Advice | None) -> dict[str, object]:
    """Return what JSON holds of the verdict and of a plan, if there is one."""
    found: dict[str, object] = {"verdict": verdict.as_json()}
    if advice is None:
        return found
    plan, names = advice.plan, verdict.fit.names
    if isinstance(plan, DecisionTable):
        found["table"] = plan.as_json()
    else:
        found["schedule"] = schedule_json(plan, names)
    found["lift"] = advice.lift.as_json()
    found["off_policy"] = None if advice.check is None else advice.check.as_json()
    return found


def show_advice(console: Console, advice: Advice) -> None:
    """Print a plan, what it is worth, and how it fares on the log."""
    console.print()
    if isinstance(advice.plan, DecisionTable):
        show_table(console, advice.plan, advice.lift)
    else:
        show_schedule(console, advice.plan, advice.verdict.fit.names, advice.lift)
    for doubt in advice.verdict.doubts:
        console.print(Text(f"warning: planned anyway, although {doubt}", style="yellow"))
    for warning in advice.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    if advice.check is not None:
        show_check(console, advice.check)
    elif advice.unchecked:
        console.print(Text(ascii_controls(f"not checked by propensities: {advice.unchecked}")))


def write_plan(path: Path, plan: PlanReport | DecisionTable, names: Sequence[str]) -> None:
    """Write a schedule or a table, with the names of the arms."""
    if isinstance(plan, DecisionTable):
        plan.write(path)
    else:
        write_schedule(path, plan, names)


def refuse_plan(verdict: Verdict) -> None:
    """Say why nothing is recommended, and end with exit code 1."""
    echo(f"bdes: error: no plan is recommended: {'; '.join(verdict.doubts)}", err=True)
    if verdict.experiment is not None:
        echo(f"bdes: to find out, {verdict.experiment}", err=True)
    echo("bdes: --plan-anyway makes one all the same", err=True)
    raise click.exceptions.Exit(1)
