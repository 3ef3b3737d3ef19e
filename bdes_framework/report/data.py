"""Rows of charts and tables, computed from a stored run and pooled over instances."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Self

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.colours import Colour, colours_of
from bdes_framework._internal.distributions import student_quantile
from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.experiment.curves import Curves, OverUsers
from bdes_framework.experiment.pooling import (
    ENVIRONMENT,
    HORIZON,
    RATE,
    Variant,
    pool,
)
from bdes_framework.experiment.result_table import (
    BEATEN,
    Group,
    Pooled,
    Value,
    horizon_words,
    shown_value,
)
from bdes_framework.experiment.results import Run, RunBenchmark
from bdes_framework.experiment.summary import CellSummary, Estimate, summarise
from bdes_framework.report.dimensions import Dimensions
from bdes_framework.report.labels import (
    Row,
    clipped,
    grouped,
    place_bars,
    shown_names,
    spread_labels,
)
from bdes_framework.report.slopes import Promise, SlopeFit, table_1

MAX_POINTS = 60
"""Checkpoints a curve keeps; more are not distinguishable in a chart."""

MAX_SLOPE_NAME = 16
"""Characters of a policy's name beside its slope; the slope must not be cut off."""

MIN_GAP = 1e-12
"""Gaps below this are drawn here: a logarithmic axis has no zero."""

REGRET, REWARD, SHARE = "regret", "reward", "share"
VISIT_REWARD = "reward per visit"
USER_REGRET, USER_REWARD = "regret over users", "reward per user"
COHORT_SHARE, COHORT_REWARD = "share by cohort", "reward by cohort"
"""What many users are measured by."""

MAX_COHORTS = 14

Place = tuple[str, int]
"""The label of an environment's variant, and a horizon."""


@frozen
class Setting:
    """All instances of an environment with the same parameters, at one horizon.

    ``group`` are its values of the dimensions of the run, ``variants`` the labels of its
    instances.
    """

    environment: str
    group: Group
    horizon: int
    variants: tuple[str, ...]


@frozen(eq=False)
class Curve:
    """The mean at each checkpoint, and half its 95 % interval."""

    checkpoints: IntArray
    mean: FloatArray
    half_width: FloatArray

    @classmethod
    def of(cls, checkpoints: IntArray, values: FloatArray) -> Self:
        """Return the curve of ``values``, a row per independent draw."""
        mean, n = values.mean(axis=0), len(values)
        if n == 1:
            return cls(checkpoints, mean, np.zeros_like(mean))
        half = student_quantile(0.975, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
        return cls(checkpoints, mean, half)


def _place(item: CellSummary | RunBenchmark) -> Place:
    return item.environment, item.horizon


class RunData:
    """A run's results, each cell fetched once.

    ``environments`` are the labels of environments, or of single variants, that are read; all
    by default. Raises InvalidValueError if the run does not have one.

    Attributes
    ----------
    cells : list[CellSummary]
        The finished cells, failed ones included.
    diagnostics : dict[tuple[str, Setting], list[str]]
        Diagnostics as JSON, a text per cell, at the longest horizon that has a finished cell: by
        policy and setting.
    varying : dict[str, tuple[Value, ...]]
        The dimensions of the run: what varies besides the instance, with its values.
    table : ResultTable
        The ranked table, as the terminal prints it.
    """

    def __init__(self, run: Run, environments: Collection[str] = ()) -> None:
        self.run = run
        self.resolved: Mapping[str, Any] = run.resolved
        self.cells: list[CellSummary] = []
        self._diagnostics: dict[tuple[str, Place], list[str]] = {}
        self._curves: dict[tuple[str, int, str, str], Curve] = {}
        self._read_cells(environments)
        self.observations = run.observed(self.cells)
        self.varying = self.observations.dimensions()
        self.n_missing = run.n_cells - len(self.cells)
        self.n_failed = sum(cell.error is not None for cell in self.cells)
        self.policy_names = shown_names(cell.policy for cell in self.cells)
        self.table = pool(self.observations)
        self._settings = self._find_settings()
        self._by_setting = self._pooled()
        self.dimensions: Dimensions[Setting] = Dimensions(
            {name: [_shown(value) for value in values] for name, values in self.varying.items()},
            {setting: self.shown(setting) for setting in self.settings()},
        )

    def _read_cells(self, environments: Collection[str]) -> None:
        self._check_names(environments)
        many = self._with_instances()
        for cells, diagnostics, curves in self.run.groups():
            place, policy = _place(cells[0]), cells[0].policy
            variant = self.run.variants[place]
            if environments and not {place[0], variant.environment} & set(environments):
                continue
            self.cells += cells
            self._diagnostics[policy, place] = diagnostics
            if curves is not None:
                for measure, (checkpoints, values) in self._measured(curves).items():
                    # Of one of many instances, only the mean counts.
                    rows = values.mean(axis=0, keepdims=True) if place in many else values
                    self._curves[*place, policy, measure] = Curve.of(checkpoints, rows)

    def _measured(self, curves: Curves) -> dict[str, tuple[IntArray, FloatArray]]:
        """Return what is known of curves: checkpoints, and a row per replication."""
        found = {self.reward: (curves.checkpoints, curves.means / curves.steps)}
        if curves.regret is not None:
            found[REGRET] = curves.checkpoints, curves.regret
        return found | ({} if curves.over_users is None else _measured_users(curves.over_users))

    def _check_names(self, environments: Collection[str]) -> None:
        labels = dict.fromkeys(label for label, _ in self.run.variants)
        known = dict.fromkeys(variant.environment for variant in self.run.variants.values())
        for label in environments:
            if label not in known and label not in labels:
                raise InvalidValueError(
                    f"the run has no environment {quoted(label)}."
                    f"{did_you_mean(label, [*known, *labels])} It has: {listed(known)}"
                )

    def _with_instances(self) -> set[Place]:
        """Return the places of environments that have several instances."""
        instances: dict[str, set[str]] = {}
        for variant in self.run.variants.values():
            instances.setdefault(variant.environment, set()).add(variant.instance)
        return {
            place
            for place, variant in self.run.variants.items()
            if len(instances[variant.environment]) > 1
        }

    def _find_settings(self) -> dict[Place, Setting]:
        """Return the setting of each place that has a cell that finished well."""
        names = tuple(self.varying)
        groups: dict[Group, list[Place]] = {}
        done = dict.fromkeys(_place(cell) for cell in self.cells if cell.total_mean is not None)
        for label, horizon in done:
            variant = self.run.variants[label, horizon]
            group = tuple(horizon if d == HORIZON else variant.value(d) for d in names)
            groups.setdefault(group, []).append((label, horizon))
        found: dict[Place, Setting] = {}
        for group, places in groups.items():
            labels = tuple(label for label, _ in places)
            environment = self.run.variants[places[0]].environment
            setting = Setting(environment, group, places[0][1], labels)
            found |= dict.fromkeys(places, setting)
        return found

    def _pooled(self) -> dict[tuple[Group, str], Pooled]:
        """Return results by setting and policy."""
        table = pool(self.observations, tuple(self.varying))
        found: dict[tuple[Group, str], Pooled] = {}
        for row in table.rows:
            columns = (
                zip(table.groups, row.groups, strict=True) if table.groups else [((), row.overall)]
            )
            found |= {(group, row.policy): own for group, own in columns if own is not None}
        return found

    def shown(self, setting: Setting) -> dict[str, str]:
        """Return a setting's values of all dimensions, as they are shown."""
        values = zip(self.varying, setting.group, strict=True)
        return {name: _shown(value) for name, value in values}

    @property
    def policies(self) -> dict[str, Colour]:
        """Shown names of the policies that have a result, in their order, with their colours."""
        drawn = {policy for _, policy in self._by_setting}
        colours = colours_of([*self.run.told, *self.policy_names])
        names = self.policy_names.items()
        return {name: colours[label] for label, name in names if label in drawn}

    @property
    def measure(self) -> str:
        """What the ranked table compares: the share of OPT, or the reward per round or visit."""
        return SHARE if self.table.measure == "share" else self.reward

    @property
    def reward(self) -> str:
        """The measure that needs no benchmark: reward per round, or per visit."""
        return REWARD if self.run.step == "round" else VISIT_REWARD

    @property
    def horizons(self) -> list[int]:
        """All horizons, shortest first."""
        return self.observations.horizons

    @cached_property
    def beaten(self) -> list[str]:
        """The settings in which a policy beats the benchmark."""
        beaten = {_result_place(r) for r in summarise(self.cells) if r.beats_benchmark}
        found = dict.fromkeys(self._settings[place] for place in beaten if place in self._settings)
        return [self.name_of(setting) for setting in found]

    @property
    def diagnostics(self) -> dict[tuple[str, Setting], list[str]]:
        """Diagnostics as JSON by policy and setting, at the longest horizon with a cell."""
        longest = max((place[1] for _, place in self._diagnostics), default=0)
        found: dict[tuple[str, Setting], list[str]] = {}
        for (policy, place), texts in self._diagnostics.items():
            if place[1] == longest and place in self._settings:
                found.setdefault((policy, self._settings[place]), []).extend(texts)
        return found

    def settings(self) -> list[Setting]:
        """Return all settings, longest horizon first."""
        ranks = [list(values) for values in self.varying.values()]

        def rank(setting: Setting) -> tuple[int, list[int]]:
            places = [rank.index(v) for rank, v in zip(ranks, setting.group, strict=True)]
            return -setting.horizon, places

        return sorted(dict.fromkeys(self._settings.values()), key=rank)

    def setting_of(self, environment: str, horizon: int) -> Setting:
        """Return the setting of a variant of an environment at a horizon."""
        return self._settings[environment, horizon]

    def variant_of(self, setting: Setting) -> Variant:
        """Return the first instance of a setting."""
        return self.run.variants[setting.variants[0], setting.horizon]

    def value(self, setting: Setting, dimension: str) -> Value:
        """Return a setting's value of a dimension; of lam, the number a formula stands for."""
        if dimension == HORIZON:
            return setting.horizon
        variant = self.variant_of(setting)
        if dimension == RATE and variant.lam is not None:
            return variant.lam
        return variant.value(dimension)

    def name_of(self, setting: Setting, without: Collection[str] = ()) -> str:
        """Return what a setting is called in charts: its environment, what varies, its horizon."""
        words = [shown_value(setting.environment)]
        words += [
            f"{name} = {value}"
            for name, value in self.shown(setting).items()
            if name not in (ENVIRONMENT, HORIZON, *without) and value != "-"
        ]
        if HORIZON not in without:
            words.append(horizon_words(setting.horizon, self.run.step))
        return clipped(", ".join(words), 120)

    def has_regret(self, setting: Setting) -> bool:
        """Return whether every finished cell of a setting has regret."""
        return all(
            cell.error is not None or cell.regret is not None
            for label in setting.variants
            for cell in self._cells[label, setting.horizon]
        )

    @cached_property
    def _cells(self) -> dict[Place, list[CellSummary]]:
        return grouped(self.cells, _place)

    def pooled(self, setting: Setting) -> dict[str, Pooled]:
        """Return the results of a setting by the policies' labels, in the experiment's order."""
        found = {
            policy: self._by_setting.get((setting.group, policy)) for policy in self.policy_names
        }
        return {policy: own for policy, own in found.items() if own is not None}

    def curve(self, setting: Setting, policy: str, measure: str) -> Curve | None:
        """Return a policy's mean curve: over instances, or over replications if there is one."""
        keys = [(label, setting.horizon, policy, measure) for label in setting.variants]
        curves = [self._curves[key] for key in keys if key in self._curves]
        if len(curves) < 2:
            return curves[0] if curves else None
        common = curves[0].checkpoints
        for curve in curves[1:]:  # of many users, the last one differs
            common = np.intersect1d(common, curve.checkpoints)
        if not common.size:
            return None
        places = [np.searchsorted(curve.checkpoints, common) for curve in curves]
        rows = [curve.mean[at] for curve, at in zip(curves, places, strict=True)]
        return Curve.of(common, np.array(rows))

    def regret_draws(self) -> "Regrets":
        """Return the regret of each draw by horizon: of policies in settings that differ in T.

        A draw is an instance, or a replication where there is one instance.
        """
        found: dict[tuple[str, str], dict[int, dict[Hashable, list[float]]]] = {}
        families = {setting: self.name_of(setting, (HORIZON,)) for setting in self.settings()}
        for place, cells in self._cells.items():
            if place not in self._settings:
                continue
            setting = self._settings[place]
            family = families[setting]
            instance = self.run.variants[place].instance
            for cell in cells:
                if cell.regret is not None:
                    horizons = found.setdefault((family, cell.policy), {})
                    draws = horizons.setdefault(cell.horizon, {})
                    draws.setdefault(instance or cell.replication, []).append(cell.regret)
        return {
            key: {
                horizon: {draw: math.fsum(values) / len(values) for draw, values in draws.items()}
                for horizon, draws in horizons.items()
            }
            for key, horizons in found.items()
        }


Regrets = dict[tuple[str, str], dict[int, dict[Hashable, float]]]
"""By family of settings and policy: by horizon, the regret of each draw."""


def _shown(value: Value) -> str:
    return clipped(shown_value(value), 60)


def _result_place(result: Any) -> Place:
    return result.environment, result.horizon


def _measured_users(over: OverUsers) -> dict[str, tuple[IntArray, FloatArray]]:
    """Return what is known of curves over users, of all so far and of cohorts."""
    users = over.users
    found = {USER_REWARD: (users, over.means / users)}
    first = int(np.searchsorted(users, max(int(users[-1]) // 1000, 1)))
    edges = np.unique(first + np.array(_thinned(users.size - first, MAX_COHORTS + 1)))
    sizes, means = np.diff(users[edges]), np.diff(over.means[:, edges])
    if sizes.size:
        found[COHORT_REWARD] = users[edges[1:]], means / sizes
    if over.regret is not None:
        found[USER_REGRET] = users, over.regret
        best = means + np.diff(over.regret[:, edges])
        if sizes.size and (best > 0).all():
            found[COHORT_SHARE] = users[edges[1:]], means / best
    return found


def common_measure(data: RunData, settings: Iterable[Setting]) -> str:
    """Return what all settings can be measured by over rounds or visits."""
    return REGRET if all(map(data.has_regret, settings)) else data.reward


def common_cohort_measure(data: RunData, settings: Iterable[Setting]) -> str:
    """Return what the cohorts of all settings can be measured by."""
    cohorts = [
        data.curve(setting, policy, COHORT_SHARE)
        for setting in settings
        for policy in data.pooled(setting)
    ]
    return COHORT_REWARD if any(cohort is None for cohort in cohorts) else COHORT_SHARE


def curve_rows(
    data: RunData, setting: Setting, measure: str, points: int = MAX_POINTS
) -> list[Row]:
    """Return mean curves with their 95 % intervals: a row per policy and checkpoint."""
    rows: list[Row] = []
    for policy, name in data.policy_names.items():
        curve = data.curve(setting, policy, measure)
        if curve is None:
            continue
        mean, half = curve.mean, curve.half_width
        columns = (curve.checkpoints, mean, mean - half, mean + half)
        kept = _thinned(curve.checkpoints.size, points)
        head = {"panel": data.name_of(setting), "policy": name}
        rows += [
            head | dict(zip(("round", "value", "low", "high"), row, strict=True))
            for row in zip(*(column[kept].tolist() for column in columns), strict=True)
        ]
    return rows


def _thinned(n: int, most: int) -> list[int]:
    """Return at most ``most`` of n indices, evenly spread, first and last among them."""
    return sorted({round(float(x)) for x in np.linspace(0, n - 1, min(n, most))})


def final_rows(data: RunData, setting: Setting, measure: str) -> list[Row]:
    """Return each policy's mean at the horizon with its interval."""
    rows = []
    for policy, own in data.pooled(setting).items():
        of_measure = {REGRET: own.regret, SHARE: own.share}
        found = of_measure.get(measure, own.reward)
        if found is not None:
            head = {"panel": data.name_of(setting), "policy": data.policy_names[policy]}
            place = {"setting": data.dimensions.index(setting)}
            rows.append(head | place | _mean_row(found, measure))
    return rows


_FORMS = {REGRET: "{:,.0f}", REWARD: "{:,.4f}", VISIT_REWARD: "{:,.4f}", SHARE: "{:.1%}"}


def _mean_row(found: Estimate, measure: str) -> Row:
    """Return mean and interval, with a label."""
    half = found.half_width or 0.0
    text = _FORMS[measure].format(found.mean)
    if found.half_width is not None:
        text += f" ± {_FORMS[measure].format(half)}"
    if measure == SHARE and found.mean > BEATEN:
        text = "> 100%"
    low, high = found.mean - half, found.mean + half
    drawn = {"drawn_low": low, "drawn_high": high}
    if measure == SHARE:  # intervals of few instances may end far from any share there can be
        drawn["drawn_low"] = max(low, min(found.mean, 0.0))
        drawn["drawn_high"] = min(high, max(found.mean, 1.0))
    return {"label": text, "value": found.mean, "low": low, "high": high, **drawn}


def axis_of(data: RunData) -> str | None:
    """Return the dimension that charts across settings have on their horizontal axis.

    It has numbers for values: lam, or else the first other such dimension, T last. None without.
    """
    names = sorted(data.varying, key=lambda name: (name != RATE, name == HORIZON))
    settings = data.settings()
    for name in names:
        values = [data.value(setting, name) for setting in settings]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            return name
    return None


def across_rows(data: RunData, settings: Sequence[Setting], axis: str, measure: str) -> list[Row]:
    """Return each policy's mean over the values of a dimension; a panel per other values."""
    rows = [
        {**row, axis: data.value(setting, axis), "panel": data.name_of(setting, (axis,))}
        for setting in settings
        for row in final_rows(data, setting, measure)
    ]
    return place_bars(rows, axis, list(data.policies))


def loglog_rows(
    data: RunData, family: str, fits: Mapping[tuple[str, str], SlopeFit], policies: Collection[str]
) -> list[Row]:
    """Return mean regret over horizons, fitted lines, and the slope Table 1 promises."""
    settings = [s for s in data.settings() if data.name_of(s, (HORIZON,)) == family]
    means = [
        {**row, "kind": "mean", "panel": family, "T": setting.horizon}
        for setting in settings
        for row in final_rows(data, setting, REGRET)
        if row["policy"] in policies and row["value"] > 0
    ]
    for row in means:
        row["drawn_low"] = max(row["low"], row["value"] / 20)  # nothing negative has a logarithm
    found = {
        data.policy_names[policy]: fit for (place, policy), fit in fits.items() if place == family
    }
    lines: list[Row] = []
    for policy, fit in found.items():
        label = f"{clipped(policy, MAX_SLOPE_NAME)}: {fit.slope:.2f}"
        line = {"kind": "fit", "panel": family, "policy": policy, "label": label}
        lines += [{**line, "T": t, "value": fit.at(t)} for t in (fit.horizons[0], fit.horizons[-1])]
    lines += _promise_rows(data, family, means)
    ends = [row for row in lines if row["T"] == max(r["T"] for r in means)]
    if ends:
        values = [row[end] for row in means for end in ("drawn_low", "high")]
        values += [row["value"] for row in lines]
        # The axis ends at whole powers of ten.
        lowest = 10 ** math.floor(math.log10(min(values)))
        highest = 10 ** math.ceil(math.log10(max(values)))
        spread_labels(ends, lowest, highest, log=True)
    return means + lines


def promise_of(data: RunData, family: str) -> Promise | None:
    """Return Table 1's rate for a family of settings at its longest horizon, if it has a lam."""
    longest = next(s for s in data.settings() if data.name_of(s, (HORIZON,)) == family)
    lam = data.variant_of(longest).lam
    return None if lam is None or not 0 <= lam <= 1 else table_1(lam, longest.horizon)


def _promise_rows(data: RunData, family: str, means: list[Row]) -> list[Row]:
    """Return a line of the promised slope, a little above everything measured."""
    promise = promise_of(data, family)
    horizons = sorted({row["T"] for row in means})
    if promise is None or len(horizons) < 2:
        return []
    scale = 1.6 * max(row["value"] / row["T"] ** promise.exponent for row in means)
    line = {"kind": "promise", "panel": family, "label": f"Table 1: {promise.exponent:.2f}"}
    ends = (horizons[0], horizons[-1])
    return [{**line, "T": t, "value": scale * t**promise.exponent} for t in ends]


def gap_rows(data: RunData) -> list[Row]:
    """Return the widest proven gap of each setting."""
    known = [b for b in data.run.benchmarks() if _place(b) in data._settings]
    places = grouped(known, lambda found: data.setting_of(*_place(found)))
    widest = {setting: max(found, key=attrgetter("gap")) for setting, found in places.items()}
    return [
        {
            "panel": data.name_of(setting, (HORIZON,)),
            "T": found.horizon,
            "value": found.value,
            "upper_bound": found.upper_bound,
            "difference": found.upper_bound - found.value,
            "gap": found.gap,
            "table_gap": found.table_gap,
            "rounds": f"{found.horizon:,}",
            "drawn_gap": max(found.gap, MIN_GAP),
        }
        for setting, found in widest.items()
    ]
