"""What charts and tables show of a run: plain rows, computed once from what is stored."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.distributions import student_quantile
from bdes_framework.experiment.results import Curves, Run, RunBenchmark
from bdes_framework.experiment.summary import (
    CellSummary,
    Estimate,
    Result,
    estimate,
    summarise,
)
from bdes_framework.report.names import shown_names

Row = dict[str, Any]
"""A row of a chart's data: names to strings and numbers."""

MOST_POINTS = 60
"""Checkpoints a curve keeps; more cannot be told apart in a chart."""

REGRET, REWARD = "regret", "reward"


@frozen
class Panel:
    """One environment at one horizon, and what its policies are measured by.

    Parameters
    ----------
    environment : str
        The environment's label.
    horizon : int
        How many rounds.
    measure : str
        ``"regret"`` where every finished cell has one, else ``"reward"``: the expected
        reward a round.
    """

    environment: str
    horizon: int
    measure: str


@frozen
class Standing:
    """How one policy did in one panel, beside the best one.

    Parameters
    ----------
    result : Result
        Its means and intervals.
    behind : Estimate or None
        How much less expected reward it has than the panel's best policy, replication by
        replication; None for the best itself, and where nothing can be compared.
    is_best : bool
        Whether it has the highest mean expected reward of its panel.
    """

    result: Result
    behind: Estimate | None
    is_best: bool

    @property
    def is_tied(self) -> bool:
        """Whether the interval of what it is behind by holds zero."""
        behind = self.behind
        return (
            behind is not None
            and behind.half_width is not None
            and behind.mean <= behind.half_width
        )


Place = tuple[str, int]
"""An environment's label and a horizon."""


class RunData:
    """A run as reports see it: everything but its curves, which are read when asked for.

    Parameters
    ----------
    run : Run
        What to read.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.resolved: Mapping[str, Any] = run.resolved
        self.records = run.cells()
        self.results = summarise(self.records)
        self.benchmarks = run.benchmarks()
        self.policy_names = shown_names(result.policy for result in self.results)
        self.environment_names = shown_names(result.environment for result in self.results)
        self._tables: dict[Place, Mapping[str, Any]] = {
            (part["label"], part["horizon"]): part["table"]
            for part in self.resolved["config"]["environments"]
        }
        self._records: dict[Place, list[CellSummary]] = {}
        for record in self.records:
            self._records.setdefault((record.environment, record.horizon), []).append(record)
        self._results: dict[Place, list[Result]] = {}
        for result in self.results:
            if result.mean is not None:
                self._results.setdefault((result.environment, result.horizon), []).append(result)

    @property
    def policies(self) -> list[str]:
        """How those policies that have a figure are called in charts, in their order."""
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
            Panel(environment, horizon, REGRET if self._has_regret(place) else REWARD)
            for place in sorted(self._results, key=lambda place: (-place[1], order[place[0]]))
            for environment, horizon in (place,)
        ]

    def _has_regret(self, place: Place) -> bool:
        return all(r.error is not None or r.regret is not None for r in self._records[place])

    def results_of(self, panel: Panel) -> list[Result]:
        """Return the results of one panel that have a figure, in the experiment's order."""
        return self._results[panel.environment, panel.horizon]

    def records_of(self, panel: Panel) -> list[CellSummary]:
        """Return the finished cells of one panel."""
        return self._records[panel.environment, panel.horizon]

    def lam_of(self, environment: str, horizon: int) -> float | None:
        """Return the evolution rate an environment was given, if it has one."""
        value = self._tables.get((environment, horizon), {}).get("lam")
        return float(value) if isinstance(value, int | float) else None

    def family_of(self, environment: str, horizon: int) -> str:
        """Return what environments that differ in nothing but lam have in common."""
        table = self._tables.get((environment, horizon), {})
        return json.dumps({k: v for k, v in table.items() if k != "lam"}, sort_keys=True)


# -- rows of charts -------------------------------------------------------------------------


def curve_rows(data: RunData, panel: Panel, points: int = MOST_POINTS) -> list[Row]:
    """Return mean curves with their 95 % intervals: a row per policy and checkpoint."""
    rows: list[Row] = []
    for result in data.results_of(panel):
        curves = data.run.curves(panel.environment, result.policy, panel.horizon)
        mean, half = _mean_and_half_width(_measured(curves, panel.measure))
        names = {
            "environment": data.environment_names[panel.environment],
            "policy": data.policy_names[result.policy],
        }
        rows += [
            {
                **names,
                "round": int(curves.checkpoints[index]),
                "value": float(mean[index]),
                "low": float(mean[index] - half[index]),
                "high": float(mean[index] + half[index]),
            }
            for index in _thinned(curves.checkpoints.size, points)
        ]
    return rows


def _measured(curves: Curves, measure: str) -> FloatArray:
    if measure == REGRET and curves.regret is not None:
        return curves.regret
    average: FloatArray = curves.means / curves.checkpoints
    return average


def _mean_and_half_width(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean = values.mean(axis=0)
    n = len(values)
    if n == 1:
        return mean, np.zeros_like(mean)
    return mean, student_quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)


def _thinned(n: int, most: int) -> list[int]:
    """Return at most so many of n indices, evenly spread, first and last among them."""
    return sorted({round(float(x)) for x in np.linspace(0, n - 1, min(n, most))})


def final_rows(data: RunData, panel: Panel) -> list[Row]:
    """Return each policy's figure at the horizon with its interval."""
    return [
        {
            "environment": data.environment_names[panel.environment],
            "policy": data.policy_names[result.policy],
            **_figure(result, panel.measure),
        }
        for result in data.results_of(panel)
    ]


def _figure(result: Result, measure: str) -> Row:
    """Return value, low and high of what a result is measured by."""
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


def horizon_rows(data: RunData, environment: str) -> list[Row]:
    """Return mean regret at each horizon: a row per policy and horizon with positive regret."""
    return [
        {
            "environment": data.environment_names[environment],
            "policy": data.policy_names[result.policy],
            "T": result.horizon,
            **_figure(result, REGRET),
        }
        for result in data.results
        if result.environment == environment
        and result.regret is not None
        and result.regret.mean > 0
    ]


def lam_rows(data: RunData, measure: str | None = None) -> list[Row]:
    """Return figures over lam, a row per policy, where environments differ in lam alone.

    What shares an axis is measured alike: by ``measure``, or else, in each family at each
    horizon, by regret where all of its environments have one.
    """
    groups: dict[tuple[str, int], list[Panel]] = {}
    families = _families(data)
    for panel in data.panels():
        if (panel.environment, panel.horizon) in families:
            family = families[panel.environment, panel.horizon]
            groups.setdefault((family, panel.horizon), []).append(panel)
    rows = []
    for (family, horizon), panels in groups.items():
        common = measure or common_measure(panels)
        for panel in panels:
            rows += [
                {
                    "family": family,
                    "horizon": horizon,
                    "measure": common,
                    "lam": data.lam_of(panel.environment, horizon),
                    **row,
                }
                for row in final_rows(data, evolve(panel, measure=common))
            ]
    return rows


def common_measure(panels: Iterable[Panel]) -> str:
    """Return what all panels can be measured by."""
    return REGRET if all(panel.measure == REGRET for panel in panels) else REWARD


def _families(data: RunData) -> dict[tuple[str, int], str]:
    """Name the family of each panel whose family has at least two values of lam."""
    members: dict[tuple[str, int], list[Panel]] = {}
    for panel in data.panels():
        if data.lam_of(panel.environment, panel.horizon) is not None:
            key = data.family_of(panel.environment, panel.horizon), panel.horizon
            members.setdefault(key, []).append(panel)
    heads = {key: _without_lam(panels[0].environment) for key, panels in members.items()}
    labels = _family_labels(heads)
    return {
        (panel.environment, panel.horizon): labels[key[0]]
        for key, panels in members.items()
        if len({data.lam_of(p.environment, p.horizon) for p in panels}) > 1
        for panel in panels
    }


def _family_labels(heads: Mapping[tuple[str, int], str]) -> dict[str, str]:
    """Give each family one name, whatever the horizon; no two families the same."""
    labels: dict[str, str] = {}
    for (family, _), head in heads.items():
        if family in labels:
            continue
        name, n = head, 1
        while name in labels.values():
            n += 1
            name = f"{head} ({n})"
        labels[family] = name
    return labels


def _without_lam(label: str) -> str:
    """Return the label of a family: that of an environment without the part that tells lam."""
    (shown,) = shown_names([re.sub(r"lam=[^,)]*(, )?", "", label)]).values()
    return re.sub(r",? ?\(\s*\)$", "", shown) or label


# -- who won --------------------------------------------------------------------------------


def standings(data: RunData, panel: Panel) -> list[Standing]:
    """Return how the policies of a panel did, best first, with paired differences."""
    results = sorted(data.results_of(panel), key=lambda result: -_mean(result))
    paid = _paid_by_replication(data.records_of(panel))
    best = results[0]
    return [
        Standing(
            result,
            None if result is best else _behind(paid[best.policy], paid[result.policy]),
            is_best=result is best and len(results) > 1,
        )
        for result in results
    ]


def _mean(result: Result) -> float:
    assert result.mean is not None
    return result.mean.mean


def _paid_by_replication(records: Iterable[CellSummary]) -> dict[str, dict[int, float]]:
    paid: dict[str, dict[int, float]] = {}
    for record in records:
        if record.total_mean is not None:
            paid.setdefault(record.policy, {})[record.replication] = record.total_mean
    return paid


def _behind(best: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    """Return the paired difference: the same replication is the same luck for both."""
    return estimate([best[k] - other[k] for k in sorted(best.keys() & other.keys())])


# -- the benchmark --------------------------------------------------------------------------


def gap_rows(data: RunData) -> list[Row]:
    """Return the widest proven gap per environment and horizon, as a share of the value."""
    widest: dict[tuple[str, int], RunBenchmark] = {}
    for record in data.benchmarks:
        place = record.environment, record.horizon
        if place not in widest or record.gap > widest[place].gap:
            widest[place] = record
    return [
        {
            "environment": data.environment_names.get(record.environment, record.environment),
            "T": record.horizon,
            "value": record.value,
            "upper_bound": record.upper_bound,
            "gap": record.gap,
            "share": record.gap / record.value if record.value > 0 else 0.0,
        }
        for record in widest.values()
    ]
