"""The interactive charts of the page: definitions, rows packed small, and text alternatives."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import altair as alt

from bdes_framework.report import charts
from bdes_framework.report.data import (
    MAX_POINTS,
    REGRET,
    Panel,
    RunData,
    curve_rows,
    final_rows,
    gap_rows,
    lam_rows,
    loglog_rows,
)
from bdes_framework.report.labels import Row, grouped, place_names
from bdes_framework.report.slopes import SlopeFit
from bdes_framework.report.trajectories import Trajectory

MAX_CURVE_POINTS = 40_000
MIN_POINTS = 12
MAX_ALT = 600
MAX_GAPS = 60
MAX_FAMILIES = 200

Option = dict[str, Any]
"""One entry of a figure's picker: its label, and the charts it shows."""

Fits = Mapping[tuple[str, str], SlopeFit]

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
_POLICY = ("policy", "policy")
_INTERVAL = [("value", "mean"), ("low", "95 % from"), ("high", "95 % to")]


class Figures:
    """What the page's script needs to draw; strings and definitions are kept once.

    Attributes
    ----------
    options : dict[str, list[Option]]
        The entries of each figure's picker.
    left_out : int
        How many panels have no entry: the page would get too large.
    """

    def __init__(self, data: RunData, fits: Fits, trajectories: Sequence[Trajectory]) -> None:
        self._data = data
        self._policies = data.policies
        self._specs: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}
        self._strings: dict[str, dict[str, int]] = {}
        n_policies = max(len(self._policies), 1)
        max_panels = MAX_CURVE_POINTS // (MIN_POINTS * n_policies)
        panels = data.panels()[:max_panels]
        self.left_out = len(data.panels()) - len(panels)
        n_curves = max(len(panels) * n_policies, 1)
        points = max(MIN_POINTS, min(MAX_POINTS, MAX_CURVE_POINTS // n_curves))
        max_environments = MAX_CURVE_POINTS // (n_policies * max(len(data.horizons), 1))
        fitted = [e for e in data.environment_names if any(place == e for place, _ in fits)]
        self.options: dict[str, list[Option]] = {
            "final": [self._final(panel) for panel in panels],
            "regret": [self._regret(panel, points) for panel in panels],
            "loglog": [self._loglog(name, fits) for name in fitted[:max_environments]],
            "lam": self._lam(),
            "path": [self._path(trajectory) for trajectory in trajectories],
            "gap": self._gap(),
        }

    def script_data(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "figures": self.options,
            "specs": self._specs,
            "strings": {name: list(known) for name, known in self._strings.items()},
            "policies": self._policies,
            "themes": {name: charts.theme(name) for name in ("light", "dark")},
        }

    # -- one method per figure --------------------------------------------------------------

    def _final(self, panel: Panel) -> Option:
        name = self._data.panel_name(panel.environment, panel.horizon)
        height = 30 * len(self._policies)
        part = self._part(
            f"final {panel.measure}",
            lambda: charts.final(self._policies, panel.measure).properties(height=height),
            final_rows(self._data, panel),
            [_POLICY, *_INTERVAL],
            f"Each policy at the horizon on {name}.",
            zoom=False,
        )
        return _option(name, part)

    def _regret(self, panel: Panel, points: int) -> Option:
        name = self._data.panel_name(panel.environment, panel.horizon)
        ends = ", ".join(f"{r['policy']} {r['label']}" for r in final_rows(self._data, panel))
        part = self._part(
            f"regret {panel.measure}",
            lambda: charts.regret(self._policies, panel.measure).properties(height=320),
            place_names(curve_rows(self._data, panel, points)),
            [_POLICY, ("round", "round"), *_INTERVAL],
            f"{charts.MEASURES[panel.measure]} over rounds on {name}. At the end: {ends}.",
            also=("label_at",),
        )
        return _option(name, part)

    def _loglog(self, environment: str, fits: Fits) -> Option:
        data, name = self._data, self._data.environment_names[environment]
        slopes = ", ".join(
            f"{data.policy_names[policy]} {fit.slope:.2f}"
            for (place, policy), fit in fits.items()
            if place == environment
        )
        part = self._part(
            "loglog",
            lambda: charts.loglog(self._policies, data.horizons).properties(height=340),
            loglog_rows(data, environment, fits, self._policies),
            [_POLICY, ("T", "T"), *_INTERVAL],
            f"{charts.MEASURES[REGRET]} against T on log scales, on {name}. Slopes: {slopes}.",
            also=("kind", "drawn_low", "label", "label_at"),
            kinds=["mean"],
        )
        return _option(name, part)

    def _lam(self) -> list[Option]:
        groups = grouped(lam_rows(self._data), itemgetter("family", "horizon", "measure"))
        return [self._lam_option(rows) for rows in list(groups.values())[:MAX_FAMILIES]]

    def _lam_option(self, rows: list[Row]) -> Option:
        values, measure = sorted({row["lam"] for row in rows}), rows[0]["measure"]
        name = f"{rows[0]['family']}, T = {rows[0]['horizon']:,}"
        part = self._part(
            f"lam {measure} {values}",
            lambda: charts.lam(self._policies, measure, values).properties(height=300),
            place_names(rows, "family", "lam"),
            [_POLICY, ("lam", "lam"), *_INTERVAL],
            f"{charts.MEASURES[measure]} across lam on {name}.",
            also=("label_at",),
        )
        return _option(name, part)

    def _gap(self) -> list[Option]:
        rows = gap_rows(self._data)[:MAX_GAPS]
        if not rows:
            return []
        fields = [("environment", "environment"), ("T", "T"), ("value", "benchmark")]
        part = self._part(
            "gap",
            lambda: charts.gap(self._data.horizons).properties(height=18 * len(rows)),
            rows,
            [*fields, ("upper_bound", "upper bound"), ("gap", "gap")],
            f"The proven gap of {len(rows)} benchmarks, as a share of the upper bound; the"
            f" widest is {max(row['gap'] for row in rows):.1e}.",
            also=("rounds", "drawn_gap"),
            zoom=False,
        )
        return [_option("all", part)]

    def _path(self, path: Trajectory) -> Option:
        name = self._data.cell_name(path.environment, path.policy, path.horizon)
        if path.replication:
            name += f", replication {path.replication}"
        parts = []
        if path.states:
            bins = [("round", "from round"), ("until", "to round"), ("state", "mean state")]
            parts = [
                self._part(
                    "state",
                    lambda: charts.state().properties(height=190),
                    path.states,
                    [*bins, ("lowest", "lowest"), ("highest", "highest")],
                    f"The state over rounds: {name}. It ends at {path.states[-1]['state']:.3f}.",
                )
            ]
        arms = self._part(
            f"arms {path.arm_names}",
            lambda: charts.arms(path.arm_names).properties(height=190),
            path.arms,
            [("round", "from round"), ("arm", "arm"), ("share", "share of pulls")],
            f"Which arms were pulled over rounds: {name}.",
            also=("position",),
            zoom=False,
        )
        return _option(name, *parts, arms)

    # -- packing ----------------------------------------------------------------------------

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
        """Return one chart of an option: definition, rows, and its text alternative.

        ``fields`` are the columns of its table with their headings, ``also`` the other columns
        that the chart needs, ``kinds`` the kinds of rows that the table shows.
        """
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
            "alt": words[:MAX_ALT],
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


def _option(label: str, *parts: dict[str, Any]) -> Option:
    return {"label": label, "parts": list(parts)}
