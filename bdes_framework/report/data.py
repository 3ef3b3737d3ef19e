"""Rows of charts and tables, computed from a stored run."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Self

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.distributions import student_quantile
from bdes_framework.experiment.results import Run, RunBenchmark
from bdes_framework.experiment.summary import CellSummary, Estimate, Result, estimate, summarise
from bdes_framework.report.labels import Row, clipped, grouped, numbered, shown_names, spread_labels
from bdes_framework.report.slopes import Promise, SlopeFit, table_1

MAX_POINTS = 60
"""Checkpoints a curve keeps; more are not distinguishable in a chart."""

MAX_SLOPE_NAME = 16
"""Characters of a policy's name beside its slope; the slope must not be cut off."""

MIN_GAP = 1e-12
"""Gaps below this are drawn here: a logarithmic axis has no zero."""

REGRET, REWARD = "regret", "reward"


@frozen
class Panel:
    """One environment at one horizon, and the measure of its policies.

    The measure is ``"regret"`` where every finished cell has one, else ``"reward"``: the
    expected reward per round.
    """

    environment: str
    horizon: int
    measure: str


@frozen
class Standing:
    """A policy's result in one panel, compared with the panel's best policy.

    ``behind`` is how much less expected reward it has than the best, replication by replication;
    None for the best itself, and where nothing can be compared.
    """

    result: Result
    behind: Estimate | None
    is_best: bool = False

    @property
    def is_tied(self) -> bool:
        """Whether the interval of ``behind`` holds zero."""
        if self.behind is None or self.behind.half_width is None:
            return False
        return self.behind.mean <= self.behind.half_width


@frozen(eq=False)
class Curve:
    """The mean over replications at each checkpoint, and half its 95 % interval."""

    checkpoints: IntArray
    mean: FloatArray
    half_width: FloatArray

    @classmethod
    def of(cls, checkpoints: IntArray, values: FloatArray) -> Self:
        """Return the curve of ``values``, a row per replication."""
        mean, n = values.mean(axis=0), len(values)
        if n == 1:
            return cls(checkpoints, mean, np.zeros_like(mean))
        half = student_quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
        return cls(checkpoints, mean, half)


Place = tuple[str, int]
"""An environment's label and a horizon."""


def _place(item: CellSummary | Result | RunBenchmark) -> Place:
    return item.environment, item.horizon


class RunData:
    """A run's results, each cell fetched once.

    Attributes
    ----------
    cells : list[CellSummary]
        The finished cells, failed ones included.
    diagnostics : dict[tuple[str, str], list[str]]
        Diagnostics as JSON, a text per cell, at the longest horizon that has a finished cell: by
        policy and environment.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.resolved: Mapping[str, Any] = run.resolved
        self.cells: list[CellSummary] = []
        self.diagnostics: dict[tuple[str, str], list[str]] = {}
        self._curves: dict[tuple[str, str, int, str], Curve] = {}
        self._read_cells()
        self.results = summarise(self.cells)
        self.n_missing = run.n_cells - len(self.cells)
        self.n_failed = sum(cell.error is not None for cell in self.cells)
        self.policy_names = shown_names(result.policy for result in self.results)
        self.environment_names = shown_names(result.environment for result in self.results)
        self._tables: dict[Place, Mapping[str, Any]] = {
            (part["label"], part["horizon"]): part["table"]
            for part in self.resolved["config"]["environments"]
        }
        self._cells = grouped(self.cells, _place)
        self._results = grouped((r for r in self.results if r.mean is not None), _place)

    def _read_cells(self) -> None:
        longest = 0
        for cells, diagnostics, curves in self.run.groups():
            self.cells += cells
            environment, policy, horizon = cells[0].environment, cells[0].policy, cells[0].horizon
            if horizon > longest:
                longest, self.diagnostics = horizon, {}
            if horizon == longest:
                self.diagnostics[policy, environment] = diagnostics
            if curves is not None:
                place, rounds = (environment, policy, horizon), curves.checkpoints
                self._curves[*place, REWARD] = Curve.of(rounds, curves.means / curves.checkpoints)
                if curves.regret is not None:
                    self._curves[*place, REGRET] = Curve.of(rounds, curves.regret)

    @property
    def policies(self) -> list[str]:
        """Shown names of the policies that have a result, in their order."""
        drawn = {result.policy for result in self.results if result.mean is not None}
        return [name for label, name in self.policy_names.items() if label in drawn]

    @property
    def horizons(self) -> list[int]:
        """All horizons, shortest first."""
        return sorted({result.horizon for result in self.results})

    def panels(self) -> list[Panel]:
        """Return one panel per environment and horizon, longest horizon first."""
        order = {label: i for i, label in enumerate(self.environment_names)}
        return [
            Panel(*place, REGRET if self._has_regret(place) else REWARD)
            for place in sorted(self._results, key=lambda place: (-place[1], order[place[0]]))
        ]

    def _has_regret(self, place: Place) -> bool:
        return all(r.error is not None or r.regret is not None for r in self._cells[place])

    def panel_name(self, environment: str, horizon: int) -> str:
        """Return what an environment at a horizon is called in charts."""
        return f"{self.environment_names[environment]}, T = {horizon:,}"

    def cell_name(self, environment: str, policy: str, horizon: int) -> str:
        """Return what a cell is called in charts, its replication left out."""
        return f"{self.policy_names[policy]} on {self.panel_name(environment, horizon)}"

    def results_of(self, panel: Panel) -> list[Result]:
        """Return the results of one panel that have a mean, in the experiment's order."""
        return self._results[panel.environment, panel.horizon]

    def cells_of(self, panel: Panel) -> list[CellSummary]:
        """Return the finished cells of one panel."""
        return self._cells[panel.environment, panel.horizon]

    def curve_of(self, result: Result, measure: str) -> Curve:
        """Return the mean curve of a result that has a mean."""
        return self._curves[result.environment, result.policy, result.horizon, measure]

    def lam_of(self, environment: str, horizon: int) -> float | None:
        """Return the evolution rate an environment was given, if it has one: from 0 to 1."""
        value = self._tables.get((environment, horizon), {}).get("lam")
        return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None

    def family_of(self, environment: str, horizon: int) -> str:
        """Return an environment's parameters other than lam, as JSON."""
        table = self._tables.get((environment, horizon), {})
        return json.dumps({k: v for k, v in table.items() if k != "lam"}, sort_keys=True)


def curve_rows(data: RunData, panel: Panel, points: int = MAX_POINTS) -> list[Row]:
    """Return mean curves with their 95 % intervals: a row per policy and checkpoint."""
    rows: list[Row] = []
    for result in data.results_of(panel):
        curve = data.curve_of(result, panel.measure)
        mean, half = curve.mean, curve.half_width
        columns = (curve.checkpoints, mean, mean - half, mean + half)
        kept = _thinned(curve.checkpoints.size, points)
        rows += [
            _names(data, result) | dict(zip(("round", "value", "low", "high"), row, strict=True))
            for row in zip(*(column[kept].tolist() for column in columns), strict=True)
        ]
    return rows


def _names(data: RunData, result: Result) -> Row:
    environment = data.environment_names[result.environment]
    return {"environment": environment, "policy": data.policy_names[result.policy]}


def _thinned(n: int, most: int) -> list[int]:
    """Return at most ``most`` of n indices, evenly spread, first and last among them."""
    return sorted({round(float(x)) for x in np.linspace(0, n - 1, min(n, most))})


def final_rows(data: RunData, panel: Panel) -> list[Row]:
    """Return each policy's mean at the horizon with its interval."""
    return [
        _names(data, result) | _mean_row(result, panel.measure) for result in data.results_of(panel)
    ]


def _mean_row(result: Result, measure: str) -> Row:
    """Return mean and interval of a result in a measure, with a label."""
    found = result.regret if measure == REGRET else result.mean
    assert found is not None
    scale = 1 if measure == REGRET else result.horizon
    half = found.half_width or 0.0
    digits = 0 if measure == REGRET else 4
    text = f"{found.mean / scale:,.{digits}f}"
    if found.half_width is not None:
        text += f" ± {half / scale:,.{digits}f}"
    return {
        "label": text,
        "value": found.mean / scale,
        "low": (found.mean - half) / scale,
        "high": (found.mean + half) / scale,
    }


def loglog_rows(
    data: RunData,
    environment: str,
    fits: Mapping[tuple[str, str], SlopeFit],
    policies: Sequence[str],
) -> list[Row]:
    """Return mean regret over horizons, fitted lines, and the slope Table 1 promises."""
    means = [
        {"kind": "mean", **_names(data, result), "T": result.horizon, **_mean_row(result, REGRET)}
        for result in data.results
        if result.environment == environment
        and data.policy_names[result.policy] in policies
        and result.regret is not None
        and result.regret.mean > 0
    ]
    for row in means:
        row["drawn_low"] = max(row["low"], row["value"] / 20)  # nothing negative has a logarithm
    found = {
        data.policy_names[policy]: fit
        for (place, policy), fit in fits.items()
        if place == environment
    }
    name = data.environment_names[environment]
    lines: list[Row] = []
    for policy, fit in found.items():
        label = f"{clipped(policy, MAX_SLOPE_NAME)}: {fit.slope:.2f}"
        line = {"kind": "fit", "environment": name, "policy": policy, "label": label}
        lines += [{**line, "T": t, "value": fit.at(t)} for t in (fit.horizons[0], fit.horizons[-1])]
    lines += _promise_rows(data, environment, means)
    ends = [row for row in lines if row["T"] == max(r["T"] for r in means)]
    if ends:
        values = [row[end] for row in means for end in ("drawn_low", "high")]
        values += [row["value"] for row in lines]
        # The axis ends at whole powers of ten.
        lowest = 10 ** math.floor(math.log10(min(values)))
        highest = 10 ** math.ceil(math.log10(max(values)))
        spread_labels(ends, lowest, highest, log=True)
    return means + lines


def promise_of(data: RunData, environment: str) -> Promise | None:
    """Return Table 1's rate for an environment at its longest horizon, if it has a lam."""
    horizon = max(r.horizon for r in data.results if r.environment == environment)
    lam = data.lam_of(environment, horizon)
    return None if lam is None else table_1(lam, horizon)


def _promise_rows(data: RunData, environment: str, means: list[Row]) -> list[Row]:
    """Return a line of the promised slope, a little above everything measured."""
    promise = promise_of(data, environment)
    horizons = sorted({row["T"] for row in means})
    if promise is None or len(horizons) < 2:
        return []
    scale = 1.6 * max(row["value"] / row["T"] ** promise.exponent for row in means)
    name, label = data.environment_names[environment], f"Table 1: {promise.exponent:.2f}"
    line = {"kind": "promise", "environment": name, "label": label}
    ends = (horizons[0], horizons[-1])
    return [{**line, "T": t, "value": scale * t**promise.exponent} for t in ends]


def lam_rows(data: RunData, measure: str | None = None) -> list[Row]:
    """Return means over lam, a row per policy, where environments differ in lam alone.

    What shares an axis is measured alike: by ``measure``, or else, in each family at each
    horizon, by regret where all of its environments have one.
    """
    rows = []
    for (family, horizon), panels in _families(data).items():
        common = measure or common_measure(panels)
        head = {"family": family, "horizon": horizon, "measure": common}
        rows += [
            {**head, "lam": data.lam_of(panel.environment, horizon), **row}
            for panel in panels
            for row in final_rows(data, evolve(panel, measure=common))
        ]
    return rows


def common_measure(panels: Iterable[Panel]) -> str:
    """Return what all panels can be measured by."""
    return REGRET if all(panel.measure == REGRET for panel in panels) else REWARD


def _families(data: RunData) -> dict[Place, list[Panel]]:
    """Return panels that differ in lam alone, by the family's label and horizon."""
    members: dict[tuple[str, int], dict[Panel, float]] = {}
    heads: dict[str, str] = {}
    for panel in data.panels():
        lam = data.lam_of(panel.environment, panel.horizon)
        if lam is not None:
            family = data.family_of(panel.environment, panel.horizon)
            heads.setdefault(family, _without_lam(panel.environment))
            members.setdefault((family, panel.horizon), {})[panel] = lam
    labels = dict(zip(heads, numbered(heads.values()), strict=True))
    return {
        (labels[family], horizon): list(lams)
        for (family, horizon), lams in members.items()
        if len(set(lams.values())) > 1
    }


def _without_lam(label: str) -> str:
    """Return the label of a family: that of an environment without the part that tells lam."""
    (shown,) = shown_names([re.sub(r"lam=[^,)]*(, )?", "", label)]).values()
    return re.sub(r",? ?\(\s*\)$", "", shown) or label


def standings(data: RunData, panel: Panel) -> list[Standing]:
    """Return the policies of a panel, best first, with paired differences to the best."""
    paid: dict[str, dict[int, float]] = {}
    for cell in data.cells_of(panel):
        if cell.total_mean is not None:
            paid.setdefault(cell.policy, {})[cell.replication] = cell.total_mean
    best, *others = sorted(data.results_of(panel), key=_negative_mean)
    first = Standing(best, None, is_best=bool(others))
    return [first, *(Standing(r, _behind(paid[best.policy], paid[r.policy])) for r in others)]


def _negative_mean(result: Result) -> float:
    assert result.mean is not None
    return -result.mean.mean


def _behind(best: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    """Return the paired difference: both met the same random draws."""
    return estimate([best[k] - other[k] for k in sorted(best.keys() & other.keys())])


def gap_rows(data: RunData) -> list[Row]:
    """Return the widest proven gap per environment and horizon."""
    places = grouped(data.run.benchmarks(), _place).values()
    return [
        {
            "environment": data.environment_names.get(widest.environment, widest.environment),
            "T": widest.horizon,
            "value": widest.value,
            "upper_bound": widest.upper_bound,
            "difference": widest.upper_bound - widest.value,
            "gap": widest.gap,
            "rounds": f"{widest.horizon:,}",
            "drawn_gap": max(widest.gap, MIN_GAP),
        }
        for widest in (max(place, key=attrgetter("gap")) for place in places)
    ]
