"""The one-page HTML report of a fit: does it matter, is the model right, the arms, the worth."""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from bdes_framework._internal.colours import GREY_AND_BLUE
from bdes_framework._internal.files import replace_text
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.result import ARM_HEADINGS, Fit
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.advice import Advice
from bdes_framework.planning.lift import LIFT_HEADINGS
from bdes_framework.planning.off_policy import OFF_POLICY_HEADINGS
from bdes_framework.planning.plan_report import PlanReport
from bdes_framework.planning.plan_words import TABLE_HEADINGS, schedule_words, table_words
from bdes_framework.planning.verdict import Verdict
from bdes_framework.report import charts, fit_charts
from bdes_framework.report.fit_data import (
    Exposure,
    lift_rows,
    planned_states,
    planned_visits,
    response_rows,
    state_rows,
    table_rows,
    visit_rows,
)
from bdes_framework.report.labels import LEAST_OF_LOG, Row, shown_names
from bdes_framework.report.packing import Option, Packing, figure_option, file_stem
from bdes_framework.report.tables import Table, TableCell
from bdes_framework.report.template import check_is_report, render_page

MAX_ARM_PANELS = 6
_MOST_ROWS = 40
_SECTIONS = {
    "matters": "Does it matter?",
    "model": "Does the model describe it?",
    "arms": "What the arms are",
    "worth": "What is it worth?",
}


@frozen(eq=False)
class FitPage:
    """What a fit's page shows.

    Parameters
    ----------
    source : str
        What the log is called.
    log : Log
        Its rows.
    verdict : Verdict
        Whether what is shown matters, with the fit.
    advice : Advice | None
        A plan and what it is worth, if one was made.
    command : str
        The command that makes the page.
    """

    source: str
    log: Log
    verdict: Verdict
    advice: Advice | None
    command: str = ""

    def html(self) -> str:
        """Return the whole page."""
        found, advice = self.verdict.fit, self.advice
        figures = _Figures(self)
        sections = {name: title for name, title in _SECTIONS.items() if advice or name != "worth"}
        return render_page(
            "fit.html",
            title=self.source,
            sections=sections,
            answers=[self.verdict.answer, *([] if advice is None else [advice.answer])],
            kind=_counts(self.log, found),
            doubts=self.verdict.doubts,
            facts=dict(self.verdict.facts()),
            rest=_rest(self.verdict),
            warnings=(*found.warnings, *self.verdict.warnings),
            arms=_table("Arms, with 95 % intervals", ARM_HEADINGS, found.arm_texts()),
            advice=advice,
            plan=None if advice is None else _plan_facts(advice),
            shown=None if advice is None else _shown_table(advice.plan),
            schedule="" if advice is None else _schedule(advice.plan, found.names),
            lift=None if advice is None else _lift_table(advice),
            check=None if advice is None else _check_table(advice),
            shown_arms=min(found.instance.n_arms, MAX_ARM_PANELS),
            n_arms=found.instance.n_arms,
            command=self.command,
            first_state=f"{_first_state(advice):.4g}",
            script_data=figures.script_data(file_stem(self.source)),
            is_table=advice is not None and isinstance(advice.plan, DecisionTable),
        )

    def write(self, file: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page, whole or not at all; return its path.

        Raises
        ------
        InvalidValueError
            If the file is there and is no report, unless ``overwrite``.
        """
        path = Path(file)
        if not overwrite:
            check_is_report(path)
        replace_text(path, self.html())
        return path


def _counts(log: Log, found: Fit) -> str:
    users = f"{log.n_sequences:,} user{'' if log.n_sequences == 1 else 's'}"
    return f"{found.rows_text()} rows of {users}, {found.instance.n_arms:,} arms"


def _rest(verdict: Verdict) -> dict[str, str]:
    known = dict(verdict.facts())
    return {name: text for name, text in verdict.fit.facts() if name not in known}


def _table(caption: str, headings: Any, rows: Any, n_texts: int = 1) -> Table:
    """Return a table whose first columns are text and whose others are numbers."""
    cells = [
        [TableCell(text, None, place >= n_texts) for place, text in enumerate(row)] for row in rows
    ]
    return Table(caption, headings, cells, sortable=False)


def _first_state(advice: Advice | None) -> float:
    """Return the state that users begin at, in the scale of a plan's table."""
    if advice is None or not isinstance(advice.plan, DecisionTable):
        return 1.0
    return advice.plan.instance.q0


def _plan_facts(advice: Advice) -> dict[str, str]:
    plan, worth = advice.plan, advice.lift
    visits = f"{worth.visits:,.4g}"
    found = {
        "visits of a user": visits + (" on average" if isinstance(plan, DecisionTable) else "")
    }
    found["a user brings"] = f"{worth.value.mean:,.4g}"
    found["95 %"] = f"{worth.value.low:,.4g} to {worth.value.high:,.4g}"
    gap = plan.gap if isinstance(plan, DecisionTable) else plan.plan.gap
    found["from the optimum"] = f"{gap:.1e} of it at most"
    return found


def _shown_table(plan: DecisionTable | PlanReport) -> Table | None:
    """Return a decision table; None of a schedule."""
    if not isinstance(plan, DecisionTable):
        return None
    more = plan.starts.size - _MOST_ROWS
    caption = "What to show at which state" + (f"; {more:,} more intervals" if more > 0 else "")
    return _table(caption, TABLE_HEADINGS, table_words(plan, _MOST_ROWS), n_texts=2)


def _schedule(plan: DecisionTable | PlanReport, names: Sequence[str]) -> str:
    """Return a schedule in words; nothing of a decision table."""
    return "" if isinstance(plan, DecisionTable) else schedule_words(plan.plan.schedule, names)


def _lift_table(advice: Advice) -> Table:
    return _table("Rewards per visit, on the same visits", LIFT_HEADINGS, advice.lift.rows())


def _check_table(advice: Advice) -> Table | None:
    if advice.check is None:
        return None
    caption = (
        f"The plan's first visits ({advice.check.n_visits:,}), by the propensities of the log:"
        f" {advice.check.effective:,.0f} effective users of {advice.check.n_users:,}"
    )
    return _table(caption, OFF_POLICY_HEADINGS, advice.check.rows())


class _Figures:
    """The charts of the page, packed for its script."""

    def __init__(self, page: FitPage) -> None:
        self._page, self._packing = page, Packing()
        at = page.verdict.fit.instance
        self._exposure = Exposure.of(page.log, at)
        self._names = list(shown_names(page.verdict.fit.names).values())
        self._options: dict[str, list[Option]] = {
            "visits": [self._visits()],
            "response": list(self._responses()),
            "states": [self._states()],
            "table": [],
            "lift": [],
        }
        if page.advice is not None:
            self._options["lift"] = list(self._lifts(page.advice))
            if isinstance(page.advice.plan, DecisionTable):
                self._options["table"] = [self._table(page.advice.plan)]

    def script_data(self, file: str) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "figures": self._options,
            **self._packing.script_data(),
            "dimensions": [],
            "settings": [[]],
            "split": None,
            "file": file,
            "policies": [],
            "leastOfLog": LEAST_OF_LOG,
            "themes": {name: charts.theme(name, GREY_AND_BLUE) for name in ("light", "dark")},
        }

    def _visits(self) -> Option:
        rows = visit_rows(self._exposure)
        part = self._packing.part(
            "visits",
            lambda: fit_charts.response("visit", whole=True),
            rows,
            [("at", "visit"), *_RESPONSE],
            f"Share that responds by visit, observed and predicted: {_ends(rows)}.",
            zoom=False,
        )
        return figure_option("all arms, by visit", part, settings=[0])

    def _responses(self) -> Iterator[Option]:
        pulls = self._page.verdict.fit.pulls
        for arm in np.argsort(-pulls, kind="stable")[:MAX_ARM_PANELS].tolist():
            rows = response_rows(self._exposure, arm)
            if not rows:
                continue
            part = self._packing.part(
                "response",
                lambda: fit_charts.response("state when shown"),
                rows,
                [("at", "state"), *_RESPONSE],
                f"Share that responds to {self._names[arm]} by state: {_ends(rows)}.",
                zoom=False,
            )
            yield figure_option(self._names[arm], part, settings=[0])

    def _states(self) -> Option:
        page, exposure, planned = self._page, self._exposure, None
        if page.advice is not None:
            plan = page.advice.plan
            deployed = plan if isinstance(plan, DecisionTable) else plan.plan.schedule
            arms, weights = planned_visits(deployed, page.log)
            planned = planned_states(arms, weights, page.verdict.fit.instance, exposure.highest)
        part = self._packing.part(
            "states",
            lambda: fit_charts.states(exposure.highest, planned=planned is not None),
            state_rows(exposure, planned),
            [("state", "state from"), ("until", "to"), ("share", "share"), ("what", "of")],
            "How visits are spread over states"
            + ("." if planned is None else ", today and under the plan."),
            zoom=False,
        )
        return figure_option("states of the users of the log", part, settings=[0])

    def _table(self, table: DecisionTable) -> Option:
        rows = table_rows(table, self._names)
        shown = list(dict.fromkeys(row["arm"] for row in rows))
        words = "; ".join(f"{r['arm']} from {r['state']:.3g} to {r['until']:.3g}" for r in rows)
        part = self._packing.part(
            "table",
            lambda: fit_charts.table(shown, table.highest_state),
            rows,
            [("state", "state from"), ("until", "to"), ("arm", "show")],
            f"Which arm to show at which state: {words}.",
            zoom=False,
        )
        return figure_option("what to show at which state", part, settings=[0])

    def _lifts(self, advice: Advice) -> Iterator[Option]:
        seen: set[str] = set()
        for one in advice.lift.comparisons:
            if one.lift is None or one.title in seen:
                continue
            seen.add(one.title)
            part = self._packing.part(
                "lift",
                fit_charts.lift,
                lift_rows(one),
                [("lift", "lift from"), ("until", "to"), ("share", "share"), ("what", "is")],
                f"Lift over {one.title}: {one.lift.low:+.1%} to {one.lift.high:+.1%} in 95 %.",
                zoom=False,
            )
            yield figure_option(f"over {one.title}", part, settings=[0])


_RESPONSE = [
    ("observed", "observed"),
    ("low", "95 % from"),
    ("high", "95 % to"),
    ("predicted", "predicted"),
    ("rows", "rows"),
]


def _ends(rows: list[Row]) -> str:
    """Return the first and the last response in words."""
    first, last = rows[0], rows[-1]
    return (
        f"{first['observed']:.1%} observed and {first['predicted']:.1%} predicted at first,"
        f" {last['observed']:.1%} and {last['predicted']:.1%} at last"
    )
