"""The interactive charts of the page: definitions, rows packed small, and words for each."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import altair as alt

from bdes_framework.report import charts, theme
from bdes_framework.report.data import (
    MOST_POINTS,
    REGRET,
    Panel,
    Row,
    RunData,
    curve_rows,
    final_rows,
    lam_rows,
)
from bdes_framework.report.rows import drawn_gap_rows, loglog_rows
from bdes_framework.report.slopes import SlopeFit
from bdes_framework.report.trajectories import Trajectory

MOST_CURVE_POINTS = 40_000
LEAST_POINTS = 12
LONGEST_ALT = 600
MOST_GAPS = 60

Option = dict[str, Any]
"""One entry of a figure's picker: its label, and the charts it shows."""

_ZOOM = {
    "name": "zoom",
    # The wheel alone scrolls the page, and a finger's drag as well.
    "select": {
        "type": "interval",
        "zoom": "wheel![event.shiftKey]",
        "translate": "[mousedown, window:mouseup] > window:mousemove!",
    },
    "bind": "scales",
}
_INTERVAL = [("value", "mean"), ("low", "95 % from"), ("high", "95 % to")]


class Figures:
    """Collects what the page's script needs; strings and definitions are kept once."""

    def __init__(self, data: RunData) -> None:
        self._data = data
        self._specs: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}
        self._strings: dict[str, dict[str, int]] = {}
        self.options: dict[str, list[Option]] = {}
        self.left_out = 0

    def script_data(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "figures": self.options,
            "specs": self._specs,
            "strings": {name: list(known) for name, known in self._strings.items()},
            "policies": self._data.policies,
            "themes": {name: theme.config(name) for name in ("light", "dark")},
        }

    # -- one method a figure ----------------------------------------------------------------

    def add_final(self) -> None:
        """Add each policy's figure at the horizon, an option a panel."""
        self.options["final"] = [
            _option(
                _name(self._data, panel),
                self._part(
                    f"final {panel.measure}",
                    partial(self._final, panel.measure),
                    final_rows(self._data, panel),
                    [("policy", "policy"), *_INTERVAL],
                    f"Each policy at the horizon on {_name(self._data, panel)}.",
                    zoom=False,
                ),
            )
            for panel in self._shown_panels()
        ]

    def add_regret(self) -> None:
        """Add mean curves with bands, an option a panel."""
        panels = self._shown_panels()
        n_curves = max(len(panels) * len(self._data.policies), 1)
        points = max(LEAST_POINTS, min(MOST_POINTS, MOST_CURVE_POINTS // n_curves))
        self.options["regret"] = [
            _option(
                _name(self._data, panel),
                self._part(
                    f"regret {panel.measure}",
                    partial(self._regret, panel.measure),
                    charts.with_names(curve_rows(self._data, panel, points)),
                    [("policy", "policy"), ("round", "round"), *_INTERVAL],
                    self._curve_words(panel),
                    also=("label_at",),
                ),
            )
            for panel in panels
        ]

    def add_loglog(self, fits: dict[tuple[str, str], SlopeFit]) -> None:
        """Add regret over horizons with fitted slopes, an option an environment."""
        environments = [e for e in self._data.environment_names if any(p == e for p, _ in fits)]
        most = MOST_CURVE_POINTS // max(len(self._data.policies) * len(self._data.horizons), 1)
        self.options["loglog"] = [
            _option(
                self._data.environment_names[environment],
                self._part(
                    "loglog",
                    self._loglog,
                    loglog_rows(self._data, environment, fits, self._data.policies),
                    [("policy", "policy"), ("T", "T"), *_INTERVAL],
                    self._slope_words(environment, fits),
                    also=("kind", "drawn_low", "label", "label_at"),
                    kinds=["mean"],
                ),
            )
            for environment in environments[:most]
        ]

    def add_lam(self) -> None:
        """Add figures across lam, an option per family of environments and horizon."""
        groups: dict[tuple[str, int, str], list[Row]] = {}
        for row in lam_rows(self._data):
            groups.setdefault((row["family"], row["horizon"], row["measure"]), []).append(row)
        self.options["lam"] = []
        for (family, horizon, measure), rows in list(groups.items())[:200]:
            values = sorted({row["lam"] for row in rows})
            part = self._part(
                f"lam {measure} {values}",
                partial(self._lam, measure, values),
                charts.with_names(rows, "family", "lam"),
                [("policy", "policy"), ("lam", "lam"), *_INTERVAL],
                f"{charts.MEASURES[measure]} across lam on {family}, T = {horizon:,}.",
                also=("label_at",),
            )
            self.options["lam"].append(_option(f"{family}, T = {horizon:,}", part))

    def add_paths(self, paths: Sequence[Trajectory]) -> None:
        """Add the state and the arms of cells, an option a cell."""
        self.options["path"] = [self._path(path) for path in paths]

    def add_gap(self) -> None:
        """Add how far from optimal benchmarks can be."""
        rows = drawn_gap_rows(self._data)[:MOST_GAPS]
        self.options["gap"] = []
        if rows:
            part = self._part(
                "gap",
                lambda: charts.gap(self._data.horizons).properties(height=18 * len(rows)),
                rows,
                [("environment", "environment"), ("T", "T"), ("value", "benchmark"),
                 ("upper_bound", "upper bound"), ("share", "gap / benchmark")],
                f"The proven gap of {len(rows)} benchmarks, as a share of their value; the"
                f" widest is {max(row['share'] for row in rows):.1e}.",
                also=("rounds", "drawn_share"),
                zoom=False,
            )  # fmt: skip
            self.options["gap"] = [_option("all", part)]

    # -- definitions ------------------------------------------------------------------------

    def _final(self, measure: str) -> alt.LayerChart:
        policies = self._data.policies
        return charts.final(policies, measure).properties(height=30 * len(policies))

    def _regret(self, measure: str) -> alt.LayerChart:
        return charts.regret(self._data.policies, measure).properties(height=320)

    def _loglog(self) -> alt.LayerChart:
        chart = charts.loglog(self._data.policies, self._data.horizons)
        return chart.properties(height=340)

    def _lam(self, measure: str, values: Sequence[float]) -> alt.LayerChart:
        return charts.lam(self._data.policies, measure, values).properties(height=300)

    # -- parts ------------------------------------------------------------------------------

    def _shown_panels(self) -> list[Panel]:
        panels = self._data.panels()
        most = MOST_CURVE_POINTS // (LEAST_POINTS * max(len(self._data.policies), 1))
        self.left_out = max(len(panels) - most, 0)
        return panels[:most]

    def _path(self, path: Trajectory) -> Option:
        name = (
            f"{self._data.policy_names[path.policy]} on"
            f" {self._data.environment_names[path.environment]}, T = {path.horizon:,}"
        )
        if path.replication:
            name += f", replication {path.replication}"
        parts = []
        if path.states:
            parts.append(
                self._part(
                    "state",
                    lambda: charts.state().properties(height=190),
                    path.states,
                    [("round", "from round"), ("until", "to round"), ("state", "mean state"),
                     ("lowest", "lowest"), ("highest", "highest")],
                    f"The state over rounds: {name}. It ends at {path.states[-1]['state']:.3f}.",
                )
            )  # fmt: skip
        parts.append(
            self._part(
                f"arms {path.arm_names}",
                lambda: charts.arms(path.arm_names).properties(height=190),
                path.arms,
                [("round", "from round"), ("arm", "arm"), ("share", "share of pulls")],
                f"Which arms were pulled over rounds: {name}.",
                also=("position",),
                zoom=False,
            )
        )
        return _option(name, *parts)

    def _part(
        self,
        key: str,
        draw: Callable[[], alt.Chart | alt.LayerChart],
        rows: Sequence[Row],
        fields: Sequence[tuple[str, str]],
        words: str,
        *,
        also: Sequence[str] = (),
        kinds: list[str] | None = None,
        zoom: bool = True,
    ) -> dict[str, Any]:
        """Return one chart of an option: definition, rows, and what stands for it in words."""
        columns = [name for name, _ in fields] + list(also)
        if "label" not in columns and any(row.get("label") for row in rows):
            columns.append("label")
        return {
            "spec": self._spec(key, draw, zoom),
            "table": {
                "columns": columns,
                "rows": [[self._packed(name, row.get(name)) for name in columns] for row in rows],
            },
            "fields": fields,
            "kinds": kinds,
            "alt": words[:LONGEST_ALT],
        }

    def _spec(self, key: str, draw: Callable[[], alt.Chart | alt.LayerChart], zoom: bool) -> int:
        if key not in self._known:
            chart = draw()  # once only: Altair takes its time
            chart.data = alt.NamedData("rows")  # else every layer gets an empty set of its own
            spec = chart.to_dict()
            for name in ("config", "data", "datasets"):
                spec.pop(name, None)
            if zoom:
                spec["layer"][0]["params"] = [_ZOOM]
                for layer in spec["layer"]:  # names stand beside the plot, lines stay inside
                    layer["mark"]["clip"] = layer["mark"]["type"] != "text"
            self._known[key] = len(self._specs)
            self._specs.append(spec)
        return self._known[key]

    def _packed(self, name: str, value: object) -> object:
        """Return a value as the page stores it: strings by number, numbers to five digits."""
        if isinstance(value, str):
            known = self._strings.setdefault(name, {})
            return known.setdefault(value, len(known))
        if isinstance(value, float):
            return float(f"{value:.5g}") if math.isfinite(value) else None
        return value

    # -- words ------------------------------------------------------------------------------

    def _curve_words(self, panel: Panel) -> str:
        ends = ", ".join(f"{r['policy']} {r['label']}" for r in final_rows(self._data, panel))
        title = charts.MEASURES[panel.measure]
        return f"{title} over rounds on {_name(self._data, panel)}. At the end: {ends}."

    def _slope_words(self, environment: str, fits: dict[tuple[str, str], SlopeFit]) -> str:
        slopes = ", ".join(
            f"{self._data.policy_names[policy]} {fit.slope:.2f}"
            for (place, policy), fit in fits.items()
            if place == environment
        )
        name = self._data.environment_names[environment]
        return f"{charts.MEASURES[REGRET]} against T on log scales, on {name}. Slopes: {slopes}."


def _option(label: str, *parts: dict[str, Any]) -> Option:
    return {"label": label, "parts": list(parts)}


def _name(data: RunData, panel: Panel) -> str:
    return f"{data.environment_names[panel.environment]}, T = {panel.horizon:,}"
