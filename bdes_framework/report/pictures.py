"""Charts of a run as pictures: what ``bdes plot`` saves."""

import io
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import altair as alt
import vl_convert
from attrs import evolve, frozen

from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import BdesError, InvalidValueError
from bdes_framework.experiment.cell import Cell
from bdes_framework.experiment.pooling import HORIZON, RATE
from bdes_framework.experiment.result_table import horizon_words
from bdes_framework.report import charts
from bdes_framework.report.data import (
    COHORT_SHARE,
    REGRET,
    SHARE,
    USER_REGRET,
    USER_REWARD,
    RunData,
    Setting,
    across_rows,
    axis_of,
    common_cohort_measure,
    common_measure,
    curve_rows,
    final_rows,
    gap_rows,
    loglog_rows,
)
from bdes_framework.report.labels import Row, clipped, place_names
from bdes_framework.report.slopes import fit_slopes
from bdes_framework.report.trajectories import replay_trajectories

Drawn = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart

PNG_SCALE = 3.0
PIXELS_PER_MM = 96 / 25.4
POINTS_PER_PIXEL = 72 / 96
MIN_WIDTH = 60
MAX_PANELS = 12
MAX_NAMES = 12


@frozen
class Choice:
    """The part of a run a picture shows (empty: everything; no horizon: the longest), and how.

    ``where`` are values of what varies, such as ``"K=5"``.

    ``replication`` and ``experiment``, the file the run was made from, are for the path of a
    cell. ``width`` and ``height`` are those of one panel in pixels; ``width_mm`` is the width
    of the whole picture in millimetres.
    """

    policies: Sequence[str] = ()
    where: Sequence[str] = ()
    horizon: int | None = None
    replication: int = 0
    experiment: Path | None = None
    width: int | None = None
    height: int = 260
    width_mm: float | None = None
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
    InvalidValueError
        If the run has no such policy or horizon, or too many settings for one picture.
    """
    if choice.width_mm is None:
        return _drawn(data, name, choice)
    # How much room axes and names take is known once they are drawn: draw, measure, draw again.
    n_columns, target = _columns(choice), choice.width_mm * PIXELS_PER_MM
    width = target / n_columns
    for _ in range(2):
        chart = _drawn(data, name, evolve(choice, width=max(round(width), 1)))
        width += (target - _width_of(chart)) / n_columns
    if width < MIN_WIDTH:
        raise InvalidValueError(
            f"{choice.width_mm:g} mm are too narrow for this chart: axes and names need the room"
        )
    return _drawn(data, name, evolve(choice, width=round(width)))


def _drawn(data: RunData, name: str, choice: Choice) -> Drawn:
    chart: Drawn = getattr(_Pictures(data, choice), name)()
    if choice.title:
        chart.title = choice.title
    config = charts.theme(choice.theme, list(data.policies.values()))
    chart.config = alt.Config.from_dict(config)
    return chart


def _columns(choice: Choice) -> int:
    """Return how many panels stand side by side: three, or fewer in a narrow picture."""
    if choice.width_mm is None:
        return 3
    return 1 if choice.width_mm < 120 else 2 if choice.width_mm < 200 else 3


def _svg(chart: Drawn) -> str:
    svg = io.StringIO()
    chart.save(svg, format="svg")
    return svg.getvalue()


def _width_of(chart: Drawn) -> float:
    """Return the width of a picture in pixels."""
    found = _SIZE.search(_svg(chart))
    assert found is not None
    return float(found[1])


_SIZE = re.compile(r'(?<= width=")([\d.]+)(" height=")([\d.]+)')


def save(chart: Drawn, file: Path, form: str) -> None:
    """Write a picture as svg, pdf or png (at three times the size in pixels, for print)."""
    if form == "png":
        chart.save(str(file), format="png", scale_factor=PNG_SCALE)
    elif form == "pdf":
        file.write_bytes(vl_convert.svg_to_pdf(_SIZE.sub(_in_points, _svg(chart), count=1)))
    else:
        chart.save(str(file), format="svg")


def _in_points(size: re.Match[str]) -> str:
    """Return the size of a picture in points: the converter takes a pixel for one."""
    width, between, height = size.groups()
    return f"{float(width) * POINTS_PER_PIXEL:g}{between}{float(height) * POINTS_PER_PIXEL:g}"


class _Pictures:
    """The chosen part of a run, with one method per chart; raises if the run does not have it."""

    def __init__(self, data: RunData, choice: Choice) -> None:
        known = data.policy_names
        for label in choice.policies:
            if label not in known:
                raise InvalidValueError(
                    f"the run has no policy {quoted(label)}.{did_you_mean(label, known)}"
                    f" It has: {listed(known)}"
                )
        if choice.horizon is not None and choice.horizon not in data.horizons:
            horizons = ", ".join(map(str, data.horizons))
            raise InvalidValueError(f"the run has no horizon {choice.horizon}. It has: {horizons}")
        self._settings = _chosen(data, choice.where)
        if not self._settings:
            raise NothingToShowError("no cell of what was asked for has finished well")
        self._data, self._choice = data, choice
        self._horizon = choice.horizon or data.horizons[-1]
        self._policies = [known[label] for label in choice.policies or known]
        # Where there are too many policies to name each beside its line, all are in the legend.
        self._legend = self._policies if len(self._policies) > MAX_NAMES else []

    def share(self) -> Drawn:
        """Draw what the ranked table has, over all horizons unless one is chosen."""
        measure, axis = self._data.measure, axis_of(self._data)
        settings = [s for s in self._settings if self._choice.horizon in (None, s.horizon)]
        if axis is None or (axis == HORIZON and self._choice.horizon is not None):
            return self._dots(settings, measure)
        return self._across(settings, axis, measure)

    def lam(self) -> Drawn:
        # Environments of other kinds may have none.
        settings = [s for s in self._at_horizon() if is_number(self._data.value(s, RATE))]
        if len({self._data.value(setting, RATE) for setting in settings}) < 2:
            raise NothingToShowError("lam does not vary in this run")
        return self._across(settings, RATE, common_measure(self._data, settings))

    def final(self) -> Drawn:
        settings = self._at_horizon()
        return self._dots(settings, common_measure(self._data, settings))

    def regret(self) -> Drawn:
        data, settings = self._data, self._at_horizon()
        _check_count(settings)
        measure = common_measure(data, settings)
        rows = [row for setting in settings for row in curve_rows(data, setting, measure)]
        over = data.run.step
        chart = charts.regret(data.policies, measure, over=over, legend=self._legend)
        return self._composed(chart, place_names(self._of_policies(rows)))

    def users(self) -> Drawn:
        settings = self._of_users()
        known = common_measure(self._data, settings) == REGRET
        return self._over_users(settings, USER_REGRET if known else USER_REWARD, "users")

    def cohorts(self) -> Drawn:
        settings = self._of_users()
        measure = common_cohort_measure(self._data, settings)
        return self._over_users(settings, measure, "up to user", log=True)

    def _of_users(self) -> list[Setting]:
        if self._data.run.step == "round":
            raise NothingToShowError("this run has one audience, and no users")
        settings = self._at_horizon()
        _check_count(settings)
        return settings

    def _over_users(
        self, settings: Sequence[Setting], measure: str, over: str, *, log: bool = False
    ) -> Drawn:
        rows = [row for setting in settings for row in curve_rows(self._data, setting, measure)]
        policies = self._data.policies
        chart = charts.regret(policies, measure, over=over, log=log, legend=self._legend)
        own = place_names(self._of_policies(rows), zero=measure != COHORT_SHARE)
        return self._composed(chart, own)

    def _across(self, settings: Sequence[Setting], axis: str, measure: str) -> Drawn:
        rows = self._of_policies(across_rows(self._data, settings, axis, measure))
        _check_count({row["panel"] for row in rows})
        values = sorted({row[axis] for row in rows})
        chart = charts.across(
            self._data.policies,
            measure,
            axis,
            values,
            step=self._data.run.step,
            legend=self._legend,
        )
        zero = measure != SHARE
        return self._composed(chart, place_names(rows, x=axis, zero=zero))

    def _dots(self, settings: Sequence[Setting], measure: str) -> Drawn:
        _check_count(settings)
        rows = [row for setting in settings for row in final_rows(self._data, setting, measure)]
        chart = charts.final(self._data.policies, measure)
        return self._composed(chart, self._of_policies(rows))

    def loglog(self) -> Drawn:
        data, policies = self._data, self._policies
        fits = fit_slopes(data.regret_draws())
        chosen = {data.name_of(setting, (HORIZON,)) for setting in self._settings}
        families = list(dict.fromkeys(family for family, _ in fits if family in chosen))
        if not families:
            raise NothingToShowError(
                "a slope needs regret at two horizons; this run has "
                + ("one horizon" if len(data.horizons) == 1 else "none")
            )
        _check_count(families)
        fits = {k: fit for k, fit in fits.items() if data.policy_names[k[1]] in policies}
        rows = [row for family in families for row in loglog_rows(data, family, fits, policies)]
        step = data.run.step
        chart = charts.loglog(data.policies, data.horizons, step=step, legend=self._legend)
        return self._composed(chart, rows)

    def path(self) -> Drawn:
        paths = replay_trajectories(
            self._data, self._first_cell, experiment=self._choice.experiment, seconds=3600
        )
        if not paths.found:
            reason = paths.reasons[0] if paths.reasons else "no finished cell is what was asked for"
            raise NothingToShowError(f"no path can be shown: {reason}")
        path = paths.found[0]
        size = {"width": self._choice.width or 560, "height": self._choice.height * 2 // 3}
        name = self._data.policy_names[path.policy]
        at = horizon_words(path.horizon, self._data.run.step)
        title = clipped(f"{name} on {path.environment}, {at}", 120)
        step = self._data.run.step
        arms = charts.arms(path.arm_names, size["width"], step=step).properties(**size)
        arms.data = alt.InlineData(values=path.arms, name="arms")
        if not path.states:
            return arms.properties(title=title)
        states = charts.state() if step == "round" else charts.states()
        states = states.properties(title=title, **size)
        states.data = alt.InlineData(values=path.states, name="states")
        parts: list[alt.Chart | alt.LayerChart] = [states, arms]
        if path.by_state:
            by_state = charts.arms_by_state(path.arm_names).properties(**size)
            by_state.data = alt.InlineData(values=path.by_state, name="by_state")
            parts.insert(1, by_state)
        drawn: alt.VConcatChart = alt.vconcat(*parts).resolve_scale(color="independent")
        return drawn

    def gap(self) -> Drawn:
        names = {self._data.name_of(setting, (HORIZON,)) for setting in self._settings}
        rows = [row for row in gap_rows(self._data) if row["panel"] in names]
        if not rows:
            raise NothingToShowError("the run has no benchmark, and so no gap")
        height = max(60, 24 * len({row["panel"] for row in rows}))
        chart = charts.gap(self._data.horizons, min(row["drawn_gap"] for row in rows)).properties(
            width=self._choice.width or 420, height=height
        )
        chart.data = alt.InlineData(values=rows, name="rows")
        return chart

    def _at_horizon(self) -> list[Setting]:
        """Return the settings at the horizon that is shown."""
        found = [setting for setting in self._settings if setting.horizon == self._horizon]
        if not found:
            raise NothingToShowError("no cell of what was asked for has finished well")
        return found

    def _of_policies(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["policy"] in self._policies]

    def _first_cell(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        return [
            cell
            for cell in cells
            if cell.horizon == self._horizon
            and self._data.setting_of(cell.environment.label, cell.horizon) in self._settings
            and cell.replication == self._choice.replication
            and self._data.policy_names[cell.policy.label] in self._policies
        ][:1]

    def _composed(self, chart: charts.Layered, rows: list[Row]) -> Drawn:
        """Return a layered chart over rows: one panel, or several."""
        if not rows:
            raise NothingToShowError("the chosen policies have no figure here")
        names = list(dict.fromkeys(row["panel"] for row in rows))
        values = alt.InlineData(values=rows, name="rows")
        width = self._choice.width or {1: 520, 2: 340}.get(len(names), 280)
        sized = chart.properties(width=width, height=self._choice.height)
        if len(names) == 1:
            sized.data, sized.title = values, names[0]
            return sized
        facet = alt.Facet("panel:N", title=None, sort=names)
        faceted: alt.FacetChart = sized.facet(
            facet=facet, columns=min(_columns(self._choice), len(names)), data=values
        ).resolve_scale(x="independent", y="independent")
        return faceted


def _chosen(data: RunData, where: Sequence[str]) -> list[Setting]:
    """Return the settings with these values; of one dimension, any of those given."""
    wanted: dict[str, set[str]] = {}
    known = {d.name: d.values for d in data.dimensions.dimensions}
    for text in where:
        name, _, value = text.partition("=")
        if name not in known:
            raise InvalidValueError(
                f"--where {quoted(text)}: {quoted(name)} does not vary."
                f"{did_you_mean(name, known)} What varies: {listed(known) or 'nothing'}"
            )
        if value not in known[name]:
            raise InvalidValueError(
                f"--where {quoted(text)}: {name} has the values {', '.join(known[name])}"
            )
        wanted.setdefault(name, set()).add(value)
    return [
        setting
        for setting in data.settings()
        if all(data.shown(setting)[name] in values for name, values in wanted.items())
    ]


def _check_count(panels: Collection[object]) -> None:
    """Raise InvalidValueError if there are too many panels for one picture."""
    if len(panels) > MAX_PANELS:
        raise InvalidValueError(
            f"{len(panels)} settings do not fit in one picture, {MAX_PANELS} do: choose some"
            " with --where, --environment or --horizon"
        )
