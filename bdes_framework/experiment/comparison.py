"""Comparisons: runs on what they have in common, or policies of one run, pooled and paired."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from bdes_framework._internal.text import counted, listed, one_line, quoted
from bdes_framework.experiment.pooling import (
    Observations,
    Sample,
    differences,
    estimate_of,
    reward_of,
    share_of,
)
from bdes_framework.experiment.result_table import Measure, shown_value
from bdes_framework.experiment.reuse import code_changes
from bdes_framework.experiment.summary import CellSummary, Estimate
from bdes_framework.simulation.regret import allowed_rounding

_Resolved: TypeAlias = Mapping[str, Any]
_Place: TypeAlias = tuple[str, int]
"""Environment and horizon."""

_SETTINGS = (
    "seed",
    "replications",
    "horizons",
    "reveal_lam",
    "reveal_replenishing_arm",
    "reveal_visits_per_user",
    "feedback",
)


@frozen
class Contrast:
    """What one side earns less what the other does, on what both have.

    Parameters
    ----------
    first, second : Estimate
        What each earns: shares of the best sequence's reward, or rewards per round.
    difference : Estimate
        The second less the first.
    reward_difference : Estimate
        The difference in expected reward, summed over the rounds.
    n_ahead, n_units : int
        On how many instances the second earns more, and how many there are.
    """

    first: Estimate
    second: Estimate
    difference: Estimate
    reward_difference: Estimate
    n_ahead: int
    n_units: int

    @property
    def is_same(self) -> bool:
        """Whether both earn the same, everywhere."""
        return self.difference.mean == 0 and not self.difference.half_width

    @property
    def is_tied(self) -> bool:
        """Whether the interval of the difference holds 0."""
        half = self.difference.half_width
        return half is not None and abs(self.difference.mean) <= half


def measure_of(cells: Sequence[CellSummary]) -> Measure:
    """Return what cells are compared by: shares, if all that did not fail have one."""
    good = [cell for cell in cells if cell.total_mean is not None]
    return "share" if all(share_of(cell) is not None for cell in good) else "reward"


def contrast(
    observations: Observations,
    one: Sequence[CellSummary],
    other: Sequence[CellSummary],
    measure: Measure,
    *,
    paired: bool = True,
) -> Contrast | None:
    """Return how ``other`` fares against ``one``; None if they have no cell in common.

    ``paired`` says that replications of one number share their random numbers; otherwise only
    the instances are the same, and replications are averaged first.
    """
    of = share_of if measure == "share" else reward_of
    first, second = (observations.sample(cells, of) for cells in (one, other))
    change = _changes_of(first, second, paired)
    if not change:
        return None
    before, after = (observations.sample(cells, _total_of) for cells in (one, other))
    ahead = (statistics.fmean(v.values()) > allowed_rounding(1.0) for v in change.values())
    return Contrast(
        first=estimate_of(_within(first, change, paired)),
        second=estimate_of(_within(second, change, paired)),
        difference=estimate_of(change),
        reward_difference=estimate_of(_changes_of(before, after, paired)),
        n_ahead=sum(ahead),
        n_units=len(change),
    )


def _total_of(cell: CellSummary) -> float | None:
    return cell.total_mean


def _changes_of(first: Sample, second: Sample, paired: bool) -> Sample:
    if not paired:
        first, second = (
            {unit: {0: statistics.fmean(values.values())} for unit, values in sample.items()}
            for sample in (first, second)
        )
    return differences(second, first)


def _within(sample: Sample, common: Sample, paired: bool) -> Sample:
    """Return a sample without what is not common."""
    return {
        unit: {k: sample[unit][k] for k in values} if paired else sample[unit]
        for unit, values in common.items()
    }


@frozen
class Common:
    """What two runs have in common.

    Parameters
    ----------
    first, second : Sequence[CellSummary]
        The cells of each whose environment, horizon and policy the other has, too.
    different : Sequence[str]
        What is left out, as parameters differ: environments in words, and which parameters.
    """

    first: Sequence[CellSummary]
    second: Sequence[CellSummary]
    different: Sequence[str]


def common_cells(
    one: _Resolved, other: _Resolved, before: Sequence[CellSummary], after: Sequence[CellSummary]
) -> Common:
    """Return the cells of two runs that can be compared, given what they were resolved to."""
    first, second = _tables(one, "environments"), _tables(other, "environments")
    both = {_place(cell) for cell in before} & {_place(cell) for cell in after}
    same = {place for place in both if first.get(place[:2]) == second.get(place[:2])}
    changed = dict.fromkeys(_place(cell)[:2] for cell in before if _place(cell) in both - same)
    sources = {part["label"]: _source(part) for part in one["config"]["environments"]}
    groups: dict[tuple[str, tuple[str, ...]], dict[str, set[str]]] = {}
    for place in changed:
        names = _changed_names(first[place], second[place])
        group = groups.setdefault((sources[place[0]], names), {})
        group.setdefault(place[0], set()).add(_changed_keys(first[place], second[place]))
    different = [_different(*key, group) for key, group in groups.items()]
    return Common(
        [cell for cell in before if _place(cell) in same],
        [cell for cell in after if _place(cell) in same],
        different,
    )


def _different(source: str, names: Sequence[str], found: Mapping[str, set[str]]) -> str:
    """Return which environments have other parameters, and which: with values, if always the same.

    ``found`` has the changes in words, by label.
    """
    texts = set[str]().union(*found.values())
    what = texts.pop() if len(texts) == 1 else listed(names)
    one = next(iter(found)) if len(found) == 1 else ""
    return f"{quoted(one)}: {what}" if one else f"{len(found):,} of {quoted(source)}: {what}"


def _place(cell: CellSummary) -> tuple[str, int, str]:
    return cell.environment, cell.horizon, cell.policy


def _tables(resolved: _Resolved, key: str) -> dict[_Place, Any]:
    """Return the resolved tables of environments or policies, by label and horizon."""
    return {(part["label"], part["horizon"]): part["table"] for part in resolved["config"][key]}


def setup_changes(before: _Resolved, after: _Resolved, name: str) -> Iterator[str]:
    """Yield in what the second run, called ``name``, was set up otherwise than the first."""
    first, second = before["config"], after["config"]
    for key in _SETTINGS:
        # Older runs lack what came later.
        if key in first and key in second and first[key] != second[key]:
            yield f"{key}: {_shown(first[key])} -> {_shown(second[key])} in {name}"
    was, now = _tables(before, "policies"), _tables(after, "policies")
    changed: dict[str, str] = {}
    for place in was.keys() & now.keys():
        if was[place] != now[place]:
            changed.setdefault(place[0], _changed_keys(was[place], now[place]))
    for label, changes in sorted(changed.items()):
        yield f"policy {quoted(label)} has other parameters in {name}: {changes}"
    for kind in ("policies", "environments"):
        for where, own, others in (("A", first, second), (name, second, first)):
            only = list(_only_in(own[kind], others[kind]))
            if only:
                more = f" and {len(only) - 1:,} more" if len(only) > 1 else ""
                yield f"{kind} only in {where}: {only[0]}{more}"


def _only_in(parts: Sequence[_Resolved], others: Sequence[_Resolved]) -> Iterator[str]:
    """Yield the environments or policies that others lack, each with what they lack of it."""
    known = {part["label"] for part in others}
    sources: dict[str, list[_Resolved]] = {}
    for part in parts:
        if part["label"] not in known:
            sources.setdefault(_source(part), []).append(part)
    for source, own in sources.items():
        theirs = [part for part in others if _source(part) == source]
        names = dict.fromkeys(name for part in own for name in part.get("varies", {}))
        words = []
        for name in names:
            there = {part.get("varies", {}).get(name) for part in theirs}
            values = dict.fromkeys(part.get("varies", {}).get(name) for part in own)
            missing = [shown_value(v) for v in values if v is not None and v not in there]
            if missing:
                words.append(f"{shown_value(name)} = {listed(missing)}")
        instances = {part.get("instance", "") for part in own}
        n_missing = len(instances - {part.get("instance", "") for part in theirs} - {""})
        if n_missing:
            words.append(counted(n_missing, "instance"))
        yield quoted(source) + (f" with {', '.join(words)}" if words else "")


def _source(part: _Resolved) -> str:
    """Return the label without what varies."""
    return str(part.get("source") or part["label"])


def _changed_keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = _changed_names(before, after)
    words = (
        f"{one_line(n, 40)} {_shown(before.get(n))} -> {_shown(after.get(n))}" for n in names[:4]
    )
    return ", ".join(words) + (", ..." if len(names) > 4 else "")


def _changed_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys([*before, *after])
    return tuple(name for name in names if before.get(name) != after.get(name))


def _shown(value: object) -> str:
    return "default" if value is None else one_line(repr(value), 40)


def code_differences(one: _Resolved, other: _Resolved, name: str) -> Iterator[str]:
    """Yield which code is another in the second run."""
    for change in code_changes(one["versions"], other["versions"]):
        yield f"other code in {name}: {change}"
