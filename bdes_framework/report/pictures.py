"""Charts of a run as pictures: what ``bdes plot`` saves."""

from collections.abc import Callable, Sequence
from pathlib import Path

import altair as alt
from attrs import evolve, frozen

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import BdesError, InvalidValueError
from bdes_framework.experiment.cell import Cell
from bdes_framework.report import charts
from bdes_framework.report.data import (
    REWARD,
    Panel,
    RunData,
    common_measure,
    curve_rows,
    final_rows,
    gap_rows,
    lam_rows,
    loglog_rows,
)
from bdes_framework.report.labels import Row, place_names
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.trajectories import replay_trajectories

Drawn = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart

MAX_PANELS = 12
MAX_NAMES = 12


@frozen
class Choice:
    """The part of a run a picture shows (empty: everything; no horizon: the longest), and how.

    ``replication`` and ``experiment``, the file the run was made from, are for the path of a
    cell; ``width`` and ``height`` are those of one panel in pixels.
    """

    environments: Sequence[str] = ()
    policies: Sequence[str] = ()
    horizon: int | None = None
    replication: int = 0
    experiment: Path | None = None
    width: int | None = None
    height: int = 260
    title: str = ""
    theme: str = "light"


class NothingToShowError(BdesError, LookupError):
    """The run lacks what a chart shows."""


def picture(data: RunData, name: str, choice: Choice) -> Drawn:
    """Return a chart of a run, with its data and its theme.

    Raises
    ------
    NothingToShowError
        If the run lacks what the chart shows.
    """
    chart: Drawn = getattr(_Pictures(data, choice), name)()
    if choice.title:
        chart.title = choice.title
    chart.config = alt.Config.from_dict(charts.theme(choice.theme))
    return chart


def save(chart: Drawn, file: Path, form: str) -> None:
    """Write a picture; ``form`` is ``"svg"`` or ``"png"`` (at twice the size in pixels)."""
    if form == "png":
        chart.save(str(file), format="png", scale_factor=2.0)
    else:
        chart.save(str(file), format="svg")


class _Pictures:
    """The chosen part of a run, with one method per chart; raises if the run does not have it."""

    def __init__(self, data: RunData, choice: Choice) -> None:
        for kind, wanted, known in (
            ("environment", choice.environments, data.environment_names),
            ("policy", choice.policies, data.policy_names),
        ):
            for label in wanted:
                if label not in known:
                    raise InvalidValueError(
                        f"the run has no {kind} {quoted(label)}.{did_you_mean(label, known)}"
                        f" It has: {listed(known)}"
                    )
        if choice.horizon is not None and choice.horizon not in data.horizons:
            horizons = ", ".join(map(str, data.horizons))
            raise InvalidValueError(f"the run has no horizon {choice.horizon}. It has: {horizons}")
        if not data.horizons:
            raise NothingToShowError("the run has no finished cell yet")
        self._data, self._choice = data, choice
        self._horizon = choice.horizon or data.horizons[-1]
        self._policies = [data.policy_names[p] for p in choice.policies or data.policy_names]
        self._environments = list(choice.environments or data.environment_names)
        # Where there are too many policies to name each beside its line, all are in the legend.
        self._legend = self._policies if len(self._policies) > MAX_NAMES else []

    def regret(self) -> Drawn:
        rows, measure = self._panel_rows(curve_rows)
        chart = charts.regret(self._data.policies, measure, legend=self._legend)
        return self._composed(chart, place_names(self._of_policies(rows)), "environment")

    def final(self) -> Drawn:
        rows, measure = self._panel_rows(final_rows)
        chart = charts.final(self._data.policies, measure)
        return self._composed(
            chart, self._of_policies(self._with_horizon(rows, "environment")), "environment"
        )

    def loglog(self) -> Drawn:
        data, policies = self._data, self._policies
        fits = fit_slopes(data.cells)
        environments = [e for e in self._environments if any(place == e for place, _ in fits)]
        if not environments:
            raise NothingToShowError(
                "a slope needs regret at two horizons; this run has "
                + ("one horizon" if len(data.horizons) == 1 else "none")
            )
        _check_count(environments)
        fits = {k: fit for k, fit in fits.items() if data.policy_names[k[1]] in policies}
        rows = [row for e in environments for row in loglog_rows(data, e, fits, policies)]
        chart = charts.loglog(data.policies, data.horizons, legend=self._legend)
        return self._composed(chart, rows, "environment")

    def lam(self) -> Drawn:
        rows = lam_rows(self._data)
        here = [row for row in rows if row["horizon"] == self._horizon]
        if not here:
            raise NothingToShowError("no two environments of this run differ in lam alone")
        measure = here[0]["measure"]
        if any(row["measure"] == REWARD for row in here):
            measure = REWARD
            rows = lam_rows(self._data, REWARD)
            here = [row for row in rows if row["horizon"] == self._horizon]
        values = sorted({row["lam"] for row in here})
        here = self._of_policies(self._with_horizon(here, "family"))
        chart = charts.lam(self._data.policies, measure, values, legend=self._legend)
        return self._composed(chart, place_names(here, "family", "lam"), "family")

    def path(self) -> Drawn:
        paths = replay_trajectories(
            self._data, self._first_cell, experiment=self._choice.experiment, seconds=3600
        )
        if not paths.found:
            reason = paths.reasons[0] if paths.reasons else "no finished cell is what was asked for"
            raise NothingToShowError(f"no path can be shown: {reason}")
        path = paths.found[0]
        size = {"width": self._choice.width or 560, "height": self._choice.height * 2 // 3}
        title = self._data.cell_name(path.environment, path.policy, path.horizon)
        arms = charts.arms(path.arm_names).properties(**size)
        arms.data = alt.InlineData(values=path.arms, name="arms")
        if not path.states:
            return arms.properties(title=title)
        states = charts.state().properties(title=title, **size)
        states.data = alt.InlineData(values=path.states, name="states")
        both: alt.VConcatChart = alt.vconcat(states, arms).resolve_scale(color="independent")
        return both

    def gap(self) -> Drawn:
        names = [self._data.environment_names[label] for label in self._environments]
        rows = [row for row in gap_rows(self._data) if row["environment"] in names]
        if not rows:
            raise NothingToShowError("the run has no benchmark, and so no gap")
        height = max(60, 24 * len({row["environment"] for row in rows}))
        chart = charts.gap(self._data.horizons).properties(
            width=self._choice.width or 420, height=height
        )
        chart.data = alt.InlineData(values=rows, name="rows")
        return chart

    def _panel_rows(self, rows_of: Callable[[RunData, Panel], list[Row]]) -> tuple[list[Row], str]:
        """Return the rows of the horizon's panels, and the one measure that all of them have."""
        panels = [
            panel
            for panel in self._data.panels()
            if panel.horizon == self._horizon and panel.environment in self._environments
        ]
        if not panels:
            raise NothingToShowError("no cell of what was asked for has finished well")
        _check_count(panels)
        measure = common_measure(panels)
        alike = [evolve(panel, measure=measure) for panel in panels]
        return [row for panel in alike for row in rows_of(self._data, panel)], measure

    def _of_policies(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["policy"] in self._policies]

    def _with_horizon(self, rows: list[Row], column: str) -> list[Row]:
        """Add the horizon to the panels' names, where nothing else in a chart tells it."""
        return [{**row, column: f"{row[column]}, T = {self._horizon:,}"} for row in rows]

    def _first_cell(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        return [
            cell
            for cell in cells
            if cell.horizon == self._horizon
            and cell.replication == self._choice.replication
            and cell.environment.label in self._environments
            and self._data.policy_names[cell.policy.label] in self._policies
        ][:1]

    def _composed(self, chart: charts.Layered, rows: list[Row], by: str) -> Drawn:
        """Return a layered chart over rows: one panel, or one per value of a column."""
        if not rows:
            raise NothingToShowError("the chosen policies have no figure here")
        names = list(dict.fromkeys(row[by] for row in rows))
        values = alt.InlineData(values=rows, name="rows")
        width = self._choice.width or {1: 520, 2: 340}.get(len(names), 280)
        sized = chart.properties(width=width, height=self._choice.height)
        if len(names) == 1:
            sized.data, sized.title = values, names[0]
            return sized
        facet = alt.Facet(f"{by}:N", title=None, sort=names)
        faceted: alt.FacetChart = sized.facet(
            facet=facet, columns=min(3, len(names)), data=values
        ).resolve_scale(x="independent", y="independent")
        return faceted


def _check_count(panels: Sequence[object]) -> None:
    """Raise InvalidValueError if there are too many panels for one picture."""
    if len(panels) > MAX_PANELS:
        raise InvalidValueError(
            f"{len(panels)} environments do not fit in one picture, {MAX_PANELS} do: choose some"
            " with --environment"
        )
