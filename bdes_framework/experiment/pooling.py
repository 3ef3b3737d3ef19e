"""Pooled results: each policy's share of OPT over all instances of an environment.

Arms drawn with several seeds, or given as a list, are *instances* of one environment. Intervals
are over instances, with replications nested inside: what an interval says holds for instances
like these, not for these alone. Where an environment has one instance, they are over replications.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from bdes_framework._internal.distributions import student_quantile
from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.experiment.result_table import (
    Group,
    Measure,
    PolicyResults,
    Pooled,
    ResultTable,
    Step,
    Value,
    shown_value,
)
from bdes_framework.experiment.summary import CellSummary, Estimate
from bdes_framework.simulation.regret import allowed_rounding

ENVIRONMENT, HORIZON, RATE, ARMS, INSTANCE = "environment", "T", "lam", "K", "instance"


@frozen
class Variant:
    """One environment of a run's grid: which environment, with which parameters, which instance.

    Parameters
    ----------
    environment : str
        The environment's own label, without what varies.
    varies : Mapping[str, Value]
        The parameters that the experiment file gives several values, by name.
    instance : str
        Which instance it is; empty if there is only one.
    lam, n_arms : float | int | None
        Its evolution rate and number of arms; None if it is no B-DES environment.
    """

    environment: str
    varies: Mapping[str, Value] = field(factory=dict)
    instance: str = ""
    lam: float | None = None
    n_arms: int | None = None

    def value(self, dimension: str) -> Value:
        """Return its value of a dimension; a dash if it has none."""
        if dimension == ENVIRONMENT:
            return self.environment
        own = {RATE: self.lam, ARMS: self.n_arms}.get(dimension)
        found = self.varies.get(dimension, own)
        return "-" if found is None else found


@frozen
class Unit:
    """One instance at one setting: what all policies play alike."""

    variant: str
    horizon: int
    environment: str
    instance: str


Sample: TypeAlias = dict[Unit, dict[int, float]]
"""A number per unit and replication."""


@frozen
class Observations:
    """The finished cells of a run as numbers per policy, unit and replication.

    Parameters
    ----------
    name : str
        The experiment's name.
    variants : Mapping[tuple[str, int], Variant]
        Where the environments of cells come from, by their labels in the cells and horizons.
    told : Mapping[str, tuple[str, ...]]
        What was revealed to each policy.
    cells : Sequence[CellSummary]
        The cells, failed ones included.
    step : Literal["round", "visit"]
        What horizons count: rounds, or visits of many users.
    plans_benchmarks : bool
        Whether the experiment wants benchmarks, though some may not be planned yet.
    """

    name: str
    variants: Mapping[tuple[str, int], Variant]
    told: Mapping[str, tuple[str, ...]]
    cells: Sequence[CellSummary]
    step: Step = "round"
    plans_benchmarks: bool = True

    @property
    def horizons(self) -> list[int]:
        """All horizons, shortest first."""
        return sorted({cell.horizon for cell in self.cells})

    def dimensions(self) -> dict[str, tuple[Value, ...]]:
        """Return what varies besides the instance, with its values: numbers by size, then text."""
        places = dict.fromkeys((cell.environment, cell.horizon) for cell in self.cells)
        seen = [self.variants[place] for place in places]
        names = [ENVIRONMENT, *dict.fromkeys(name for one in seen for name in one.varies)]
        values = {name: _ordered(one.value(name) for one in seen) for name in names}
        values[HORIZON] = tuple(self.horizons)
        # lam first: it is what most studies are about.
        order = sorted(values, key=lambda name: name != RATE)
        return {name: values[name] for name in order if len(values[name]) > 1}

    def unit(self, cell: CellSummary) -> Unit:
        """Return the instance and setting of a cell."""
        variant = self.variants[cell.environment, cell.horizon]
        return Unit(cell.environment, cell.horizon, variant.environment, variant.instance)

    def group(self, unit: Unit, by: Sequence[str]) -> Group:
        """Return a unit's values of dimensions."""
        variant = self.variants[unit.variant, unit.horizon]
        return tuple(unit.horizon if d == HORIZON else variant.value(d) for d in by)

    def sample(
        self, cells: Iterable[CellSummary], of: Callable[[CellSummary], float | None]
    ) -> Sample:
        """Return a number of each cell that has one, by unit and replication."""
        found: Sample = {}
        for cell in cells:
            value = of(cell)
            if value is not None:
                found.setdefault(self.unit(cell), {})[cell.replication] = value
        return found


def _ordered(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return values, each once: numbers by size, then text in its order."""
    distinct = list(dict.fromkeys(values))
    numbers = sorted(value for value in distinct if not isinstance(value, str))
    return (*numbers, *(value for value in distinct if isinstance(value, str)))


def share_of(cell: CellSummary) -> float | None:
    """Return a cell's expected reward as a share of its benchmark's; None without one."""
    if cell.total_mean is None or cell.regret is None:
        return None
    optimum = cell.total_mean + cell.regret
    return cell.total_mean / optimum if optimum > 0 else None


def reward_of(cell: CellSummary) -> float | None:
    """Return a cell's expected reward per round, or per visit; None if it failed."""
    return cell.mean_per_step


def regret_of(cell: CellSummary) -> float | None:
    """Return a cell's DES regret; None without a benchmark, or if it failed."""
    return cell.regret


def regret_per_user_of(cell: CellSummary) -> float | None:
    """Return a cell's DES regret per user; None without a benchmark, or with one audience."""
    return cell.regret_per_user


def differences(one: Sample, other: Sample) -> Sample:
    """Return ``one`` less ``other`` on the units and replications that both have."""
    found: Sample = {}
    for unit, values in one.items():
        common = {
            k: value - other[unit][k] for k, value in values.items() if k in other.get(unit, {})
        }
        if common:
            found[unit] = common
    return found


def estimate_of(sample: Sample) -> Estimate:
    """Return the mean of a sample that is not empty, with its 95 % interval over instances.

    The settings of an instance are averaged first: they share its arms, so they are no
    independent draws. An environment with a single instance counts by its replications. Of
    several environments, which are chosen and not drawn, the means are averaged, and the degrees
    of freedom are Welch's.
    """
    environments: dict[str, Sample] = {}
    for unit, values in sample.items():
        environments.setdefault(unit.environment, {})[unit] = values
    draws = [_draws(own) for own in environments.values()]
    mean = statistics.fmean(statistics.fmean(own) for own in draws)
    if any(len(own) < 2 for own in draws):
        return Estimate(mean, None)
    errors = [statistics.variance(own) / len(own) / len(draws) ** 2 for own in draws]
    total = math.fsum(errors)
    if total == 0:
        return Estimate(mean, 0.0)
    freedom = total**2 / math.fsum(
        e**2 / (len(own) - 1) for e, own in zip(errors, draws, strict=True)
    )
    return Estimate(mean, student_quantile(0.975, freedom) * math.sqrt(total))


def _draws(sample: Sample) -> list[float]:
    """Return the independent values of one environment: by instance, or else by replication."""
    instances: dict[str, list[float]] = {}
    for unit, values in sample.items():
        instances.setdefault(unit.instance, []).append(statistics.fmean(values.values()))
    if len(instances) > 1:
        return [statistics.fmean(values) for values in instances.values()]
    replications: dict[int, list[float]] = {}
    for values in sample.values():
        for replication, value in values.items():
            replications.setdefault(replication, []).append(value)
    return [statistics.fmean(values) for values in replications.values()]


def default_split(dimensions: Mapping[str, Sequence[Value]]) -> tuple[str, ...]:
    """Return the dimension a table is split by if nobody says: lam, or else the first."""
    return tuple(dimensions)[:1]


def pool(
    observations: Observations,
    by: Sequence[str] | None = None,
    *,
    horizon: int | None = None,
    policies: Sequence[str] = (),
) -> ResultTable:
    """Return the table of results, split by dimensions; see ``Run.table``.

    Raises InvalidValueError if a dimension does not vary, or a policy or horizon is none of them.
    """
    dimensions = observations.dimensions()
    by = default_split(dimensions) if by is None else tuple(by)
    check_names("dimension", by, dimensions)
    labels = list(dict.fromkeys(cell.policy for cell in observations.cells))
    check_names("policy", policies, labels)
    check_names("horizon", [] if horizon is None else [horizon], observations.horizons)
    chosen = horizon or max(observations.horizons, default=0)
    cells = [
        cell
        for cell in observations.cells
        if (not policies or cell.policy in policies)
        and (cell.horizon == chosen or (HORIZON in by and horizon is None))
    ]
    good = [cell for cell in cells if cell.total_mean is not None]
    measure: Measure = "share" if all(share_of(cell) is not None for cell in good) else "reward"
    groups = _groups(observations, cells, by, dimensions)
    # Split by T, the last column is the longest horizon: rounds of different T are not averaged.
    at_end = [cell for cell in cells if cell.horizon == chosen]
    overall = _column(observations, at_end, measure)
    columns = [_column(observations, own, measure) for own in groups.values()]
    places = {label: index for index, label in enumerate(labels)}
    shown = [label for label in labels if not policies or label in policies]

    def rank(policy: str) -> tuple[float, int]:
        own = overall.get(policy)
        return (math.inf if own is None else -own.measured(measure).mean), places[policy]

    units = {observations.unit(cell) for cell in at_end}
    return ResultTable(
        name=observations.name,
        step=observations.step,
        measure=measure,
        by=by,
        groups=tuple(groups),
        horizon=chosen,
        dimensions=dimensions,
        n_instances=len({(unit.environment, unit.instance) for unit in units}),
        n_units=len(units),
        n_replications=len({cell.replication for cell in cells}),
        interval_over=interval_over(units),
        plans_benchmarks=observations.plans_benchmarks,
        rows=tuple(
            PolicyResults(
                policy=policy,
                told=observations.told.get(policy, ()),
                overall=overall.get(policy),
                groups=tuple(column.get(policy) for column in columns),
            )
            for policy in sorted(shown, key=rank)
        ),
    )


def check_names(
    kind: str, wanted: Sequence[Any], known: Iterable[Any], *, owner: str = "the run has"
) -> None:
    """Raise InvalidValueError, with the nearest match, if a name that is wanted is not known."""
    there = "They have" if owner.endswith("have") else "It has"
    names = [str(name) for name in known]
    for name in map(str, wanted):
        if name not in names:
            found = f" {there}: {listed(names)}" if names else f" {there} none"
            raise InvalidValueError(
                f"{owner} no {kind} {quoted(name)}.{did_you_mean(name, names)}{found}"
            )


def _groups(
    observations: Observations,
    cells: Sequence[CellSummary],
    by: Sequence[str],
    dimensions: Mapping[str, Sequence[Value]],
) -> dict[Group, list[CellSummary]]:
    """Return the cells of each group, groups in the order of the file; none without a split."""
    found: dict[Group, list[CellSummary]] = {}
    for cell in cells if by else ():
        found.setdefault(observations.group(observations.unit(cell), by), []).append(cell)
    ranks = [list(dimensions[name]) for name in by]
    order = sorted(found, key=lambda g: [rank.index(v) for rank, v in zip(ranks, g, strict=True)])
    return {group: found[group] for group in order}


def interval_over(units: Iterable[Unit]) -> Literal["instances", "replications", "both"]:
    """Return what intervals over units are over."""
    instances: dict[str, set[str]] = {}
    for unit in units:
        instances.setdefault(unit.environment, set()).add(unit.instance)
    several = [len(own) > 1 for own in instances.values()]
    if all(several) and several:
        return "instances"
    return "both" if any(several) else "replications"


def _column(
    observations: Observations, cells: Sequence[CellSummary], measure: Measure
) -> dict[str, Pooled]:
    """Return the pooled results of all policies over some cells; of none that only failed."""
    own: dict[str, list[CellSummary]] = {}
    for cell in cells:
        own.setdefault(cell.policy, []).append(cell)
    of = share_of if measure == "share" else reward_of
    samples = {policy: observations.sample(group, of) for policy, group in own.items()}
    samples = {policy: sample for policy, sample in samples.items() if sample}
    means = {policy: estimate_of(sample) for policy, sample in samples.items()}
    best = max(means, key=lambda policy: means[policy].mean, default=None)
    firsts = _firsts(samples)
    found = {}
    for policy, sample in samples.items():
        unit_means = {unit: statistics.fmean(v.values()) for unit, v in sample.items()}
        worst = min(unit_means, key=lambda unit: unit_means[unit])
        assert best is not None
        ahead = differences(samples[best], sample)
        regrets = observations.sample(own[policy], regret_of)
        per_user = observations.sample(own[policy], regret_per_user_of)
        found[policy] = Pooled(
            share=means[policy] if measure == "share" else None,
            regret=estimate_of(regrets) if regrets else None,
            regret_per_user=estimate_of(per_user) if per_user else None,
            reward=estimate_of(observations.sample(own[policy], reward_of)),
            behind=estimate_of(ahead) if ahead and policy != best else None,
            n_first=firsts[policy],
            n_units=len(sample),
            worst_instance=unit_name(observations, worst),
            worst=unit_means[worst],
            n_failed=sum(cell.error is not None for cell in own[policy]),
            is_best=policy == best,
        )
    return found


def _firsts(samples: Mapping[str, Sample]) -> dict[str, int]:
    """Return on how many units each policy has the largest mean; equal ones count for both."""
    means: dict[Unit, dict[str, float]] = {}
    for policy, sample in samples.items():
        for unit, values in sample.items():
            means.setdefault(unit, {})[policy] = statistics.fmean(values.values())
    firsts = dict.fromkeys(samples, 0)
    for of_policies in means.values():
        most = max(of_policies.values())
        for policy, mean in of_policies.items():
            firsts[policy] += mean >= most - allowed_rounding(most)
    return firsts


def place_name(variant: Variant, dimensions: Iterable[str]) -> str:
    """Return which environment one is: its label, what varies, and its instance."""
    names = [name for name in dimensions if name not in (ENVIRONMENT, HORIZON)]
    values = {name: variant.value(name) for name in names}
    words = [variant.environment]
    words += [f"{name} = {shown_value(value)}" for name, value in values.items() if value != "-"]
    if variant.instance:
        words.append(f"instance {variant.instance}")
    return ", ".join(words)


def unit_name(observations: Observations, unit: Unit) -> str:
    """Return what tells a unit from the others: its environment if several, values, instance."""
    dimensions = observations.dimensions()
    variant = observations.variants[unit.variant, unit.horizon]
    words = [
        str(variant.environment) if name == ENVIRONMENT else f"{name} = {shown_value(value)}"
        for name in dimensions
        if (value := unit.horizon if name == HORIZON else variant.value(name)) != "-"
    ]
    if unit.instance:
        words.append(f"instance {unit.instance}")
    return ", ".join(words)
