"""Charts of a run as pictures: what ``bdes plot`` saves."""

from collections.abc import Callable, Sequence
from pathlib import Path

import altair as alt
from attrs import frozen

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import BdesError, InvalidValueError
from bdes_framework.experiment.cell import Cell
from bdes_framework.report import charts
from bdes_framework.report.data import (
    REGRET,
    REWARD,
    Panel,
    Row,
    RunData,
    common_measure,
    curve_rows,
    final_rows,
    gap_rows,
    lam_rows,
    loglog_rows,
)
from bdes_framework.report.labels import place_names
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.trajectories import Trajectory, replay_trajectories

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
    chosen = _Chosen(data, choice)
    chart = _DRAW[name](chosen)
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


class _Chosen:
    """The part of a run that was asked for; raises if the run does not have it."""

    def __init__(self, data: RunData, choice: Choice) -> None:
        self.data = data
        self.choice = choice
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
            known_horizons = ", ".join(map(str, data.horizons))
            raise InvalidValueError(
                f"the run has no horizon {choice.horizon}. It has: {known_horizons}"
            )
        if not data.horizons:
            raise NothingToShowError("the run has no finished cell yet")
        self.horizon = choice.horizon or data.horizons[-1]
        labels = choice.policies or list(data.policy_names)
        self.policies = [data.policy_names[label] for label in labels]
        self.environments = list(choice.environments or data.environment_names)

    @property
    def legend(self) -> list[str]:
        """Policies in the legend: all, where there are too many to name each beside its line."""
        return self.policies if len(self.policies) > MAX_NAMES else []

    def panels(self) -> list[Panel]:
        """Return the panels of the horizon; all of them by the same measure."""
        panels = [
            panel
            for panel in self.data.panels()
            if panel.horizon == self.horizon and panel.environment in self.environments
        ]
        if not panels:
            raise NothingToShowError("no cell of what was asked for has finished well")
        return _fitting(panels)

    def keep(self, rows: list[Row]) -> list[Row]:
        """Return the rows of the chosen policies, and those of no policy."""
        return [row for row in rows if row.get("policy") in (None, *self.policies)]

    def paths(self) -> Trajectory:
        """Return the path of the one cell that was asked for."""

        def wanted(cells: Sequence[Cell]) -> Sequence[Cell]:
            return [
                cell
                for cell in cells
                if cell.horizon == self.horizon
                and cell.replication == self.choice.replication
                and cell.environment.label in self.environments
                and self.data.policy_names[cell.policy.label] in self.policies
            ][:1]

        paths = replay_trajectories(
            self.data, wanted, experiment=self.choice.experiment, seconds=3600
        )
        if not paths.found:
            reason = paths.reasons[0] if paths.reasons else "no finished cell is what was asked for"
            raise NothingToShowError(f"no path can be shown: {reason}")
        return paths.found[0]


def _fitting(panels: list[Panel]) -> list[Panel]:
    if len(panels) > MAX_PANELS:
        raise InvalidValueError(
            f"{len(panels)} environments do not fit in one picture, {MAX_PANELS} do: choose some"
            " with --environment"
        )
    return panels


def _composed(layered: charts.Layered, rows: list[Row], choice: Choice, by: str) -> Drawn:
    """Return a layered chart over rows: one panel, or one per value of a column."""
    if not rows:
        raise NothingToShowError("the chosen policies have no figure here")
    names = list(dict.fromkeys(row[by] for row in rows))
    values = alt.InlineData(values=rows, name="rows")
    wide = choice.width or (520 if len(names) == 1 else 280 if len(names) > 2 else 340)
    sized = layered.properties(width=wide, height=choice.height)
    if len(names) == 1:
        sized.data, sized.title = values, names[0]
        return sized
    faceted: alt.FacetChart = sized.facet(
        facet=alt.Facet(f"{by}:N", title=None, sort=names), columns=min(3, len(names)), data=values
    )
    resolved: alt.FacetChart = faceted.resolve_scale(x="independent", y="independent")
    return resolved


def _measured(
    chosen: _Chosen, rows_of: Callable[[RunData, Panel], list[Row]]
) -> tuple[list[Row], str]:
    """Return the rows of all panels, and the one measure that all of them have."""
    panels = chosen.panels()
    measure = common_measure(panels)
    alike = [Panel(panel.environment, panel.horizon, measure) for panel in panels]
    return [row for panel in alike for row in rows_of(chosen.data, panel)], measure


def _regret(chosen: _Chosen) -> Drawn:
    rows, measure = _measured(chosen, curve_rows)
    rows = place_names(chosen.keep(rows))
    chart = charts.regret(chosen.data.policies, measure, legend=chosen.legend)
    return _composed(chart, rows, chosen.choice, "environment")


def _final(chosen: _Chosen) -> Drawn:
    rows, measure = _measured(chosen, final_rows)
    for row in rows:  # nothing else in this chart tells the horizon
        row["environment"] += f", T = {chosen.horizon:,}"
    chart = charts.final(chosen.data.policies, measure)
    return _composed(chart, chosen.keep(rows), chosen.choice, "environment")


def _loglog(chosen: _Chosen) -> Drawn:
    fits = fit_slopes(chosen.data.records)
    environments = [e for e in chosen.environments if any(place == e for place, _ in fits)]
    if not environments:
        raise NothingToShowError(
            "a slope needs regret at two horizons; this run has "
            + ("one horizon" if len(chosen.data.horizons) == 1 else "none")
        )
    _fitting([Panel(environment, chosen.horizon, REGRET) for environment in environments])
    fits = {k: fit for k, fit in fits.items() if chosen.data.policy_names[k[1]] in chosen.policies}
    rows = []
    for environment in environments:
        rows += loglog_rows(chosen.data, environment, fits, chosen.policies)
    chart = charts.loglog(chosen.data.policies, chosen.data.horizons, legend=chosen.legend)
    return _composed(chart, rows, chosen.choice, "environment")


def _lam(chosen: _Chosen) -> Drawn:
    rows = [row for row in lam_rows(chosen.data) if row["horizon"] == chosen.horizon]
    if not rows:
        raise NothingToShowError("no two environments of this run differ in lam alone")
    measure = REGRET
    if any(row["measure"] == REWARD for row in rows):
        measure = REWARD
        rows = [row for row in lam_rows(chosen.data, REWARD) if row["horizon"] == chosen.horizon]
    for row in rows:  # nothing else in this chart tells the horizon
        row["family"] += f", T = {chosen.horizon:,}"
    values = sorted({row["lam"] for row in rows})
    rows = place_names(chosen.keep(rows), "family", "lam")
    chart = charts.lam(chosen.data.policies, measure, values, legend=chosen.legend)
    return _composed(chart, rows, chosen.choice, "family")


def _path(chosen: _Chosen) -> Drawn:
    path = chosen.paths()
    width, height = chosen.choice.width or 560, chosen.choice.height * 2 // 3
    title = path.name(chosen.data)
    arms = charts.arms(path.arm_names).properties(width=width, height=height)
    arms.data = alt.InlineData(values=path.arms, name="arms")
    if not path.states:
        return arms.properties(title=title)
    states = charts.state().properties(width=width, height=height, title=title)
    states.data = alt.InlineData(values=path.states, name="states")
    both: alt.VConcatChart = alt.vconcat(states, arms).resolve_scale(color="independent")
    return both


def _gap(chosen: _Chosen) -> Drawn:
    names = [chosen.data.environment_names[label] for label in chosen.environments]
    rows = [row for row in gap_rows(chosen.data) if row["environment"] in names]
    if not rows:
        raise NothingToShowError("the run has no benchmark, and so no gap")
    n = len({row["environment"] for row in rows})
    chart = charts.gap(chosen.data.horizons).properties(
        width=chosen.choice.width or 420, height=max(60, 24 * n)
    )
    chart.data = alt.InlineData(values=rows, name="rows")
    return chart


_DRAW: dict[str, Callable[[_Chosen], Drawn]] = {
    "final": _final,
    "regret": _regret,
    "loglog": _loglog,
    "lam": _lam,
    "path": _path,
    "gap": _gap,
}
