"""The tables of the page and its headline: plain data, which the template escapes."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from bdes_framework._internal.files import parse_json
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import counted, one_line
from bdes_framework.experiment.pooling import ENVIRONMENT, HORIZON, place_name, pool
from bdes_framework.experiment.result_table import (
    ColumnKind,
    PolicyResults,
    Pooled,
    ResultTable,
    Value,
    beats_benchmark,
    shown_value,
)
from bdes_framework.experiment.summary import Estimate
from bdes_framework.report.data import RunData, gap_rows, promise_of
from bdes_framework.report.labels import MAX_TEXT, clipped, grouped
from bdes_framework.report.slopes import SlopeFit

MAX_ANSWERS = 40
MAX_ROWS = 2_500
MAX_DIAGNOSTICS = 1_250
MAX_FAILURES = 200
MAX_ELEMENTS = 12
MAX_NUMBERS = 40
MAX_PARAMETERS = 400
MAX_VALUE = 160

MEANINGS = {
    "DES regret ± 95 %": "Expected reward lost against the best sequence",
    "Of OPT ± 95 %": "Expected reward as a share of the benchmark's, in percent",
    "Reward/round": "Mean expected reward per round",
    "Reward/visit": "Mean expected reward per visit",
    "Difference": "By how much regret can be too low at most",
    "Clairvoyant": "Who knows how often each user will come earns at most this",
    "Gap": "The difference as a share of the upper bound",
    "Behind best ± 95 %": "Paired: the same instances and random draws for both",
}


@frozen
class TableCell:
    """A cell of a table: its text, the number it is sorted by, and a policy's colour, if any."""

    text: str
    value: float | None = None
    is_number: bool = False
    limit: int = MAX_TEXT
    colour: int | None = None


TableRow = Sequence[TableCell | str]


@frozen
class RowPlace:
    """What the page's filter asks of a row: the numbers of its setting and of its policy."""

    setting: int | None = None
    policy: int | None = None


def _cells(rows: Iterable[TableRow]) -> list[list[TableCell]]:
    return [[TableCell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]


@frozen
class Table:
    """A table of the page: ``strong`` rows are set off, ``left_out`` rows of a kind not shown.

    ``meanings`` explains the headings that are not plain; ``places`` are the rows', for the filter,
    and ``columns`` the values of the dimension that is split by, by the number of their column.
    """

    caption: str
    headings: Sequence[str]
    rows: list[list[TableCell]] = field(converter=_cells)
    sortable: bool = True
    strong: Collection[int] = ()
    left_out: int = 0
    kind: str = "lines"
    meanings: Mapping[str, str] = field(factory=dict)
    places: Sequence[RowPlace] = ()
    columns: Mapping[int, int] = field(factory=dict)


def number(value: float | None, form: str) -> TableCell:
    """Return a cell with a formatted number, or a dash."""
    if value is None:
        return TableCell("–", None, True)
    return TableCell(format(value, form), value, True)


def facts(data: RunData) -> dict[str, str]:
    """Return size, seed, horizons and what policies know, by name."""
    config = data.resolved["config"]
    known = {"lam": config["reveal_lam"], "replenishing arm": config["reveal_replenishing_arm"]}
    of_users = {}
    if data.run.step == "visit":
        known = {"lam": known["lam"], "visits per user": config["reveal_visits_per_user"]}
        of_users = {"feedback": _parameters(config["feedback"])}
    revealed = [name for name, is_known in known.items() if is_known]
    benchmark = config["benchmark"] or "none"
    return {
        "cells finished": f"{len(data.cells):,} of {data.run.n_cells:,}",
        "seed": str(config["seed"]),
        "replications": f"{config['replications']:,}",
        f"horizons T ({data.run.step}s)": ", ".join(f"{n:,}" for n in config["horizons"]),
        **of_users,
        "benchmark": benchmark if isinstance(benchmark, str) else _brief(benchmark),
        "revealed to policies": ", ".join(revealed) or f"neither {' nor '.join(known)}",
    }


def run_tables(data: RunData) -> list[Table]:
    """Return environments, policies, and the versions of the code that decides the numbers."""
    config = data.resolved["config"]
    versions = data.resolved["versions"].items()
    headings = ["Code", "Version"]
    return [
        _environments(data),
        _policies(config["policies"]),
        Table("Code that decides the numbers", headings, versions, sortable=False),
    ]


_AT_THE_LONGEST = "with parameters as they are at the longest horizon"


def _environments(data: RunData) -> Table:
    """Return a row per environment: its parameters, what varies, and how many instances."""
    parts = grouped(
        data.resolved["config"]["environments"],
        lambda part: data.run.variants[part["label"], part["horizon"]].environment,
    )
    rows: list[TableRow] = []
    for name, all_parts in list(parts.items())[:MAX_ROWS]:
        longest = max(part["horizon"] for part in all_parts)
        own = [part for part in all_parts if part["horizon"] == longest]
        variants = [data.run.variants[part["label"], longest] for part in own]
        varies = {
            key: dict.fromkeys(shown_value(variant.value(key)) for variant in variants)
            for key in dict.fromkeys(key for variant in variants for key in variant.varies)
        }
        values = "; ".join(f"{key} = {', '.join(found)}" for key, found in varies.items())
        use = ", ".join(dict.fromkeys(str(part["table"]["use"]) for part in own))
        same, differing = _same([part["table"] for part in own], {"use", *varies})
        words = _parameters(same)
        if differing:
            words += f"{'; ' if same else ''}{', '.join(differing)} differ"
        rows.append(
            [
                name,
                use,
                TableCell(words or "defaults", limit=MAX_PARAMETERS),
                TableCell(values or "–", limit=MAX_PARAMETERS),
                number(len({variant.instance for variant in variants}), ",d"),
            ]
        )
    headings = ["Environment", "Plugin", "Parameters", "What varies", "Instances"]
    return Table(f"Environments, {_AT_THE_LONGEST}", headings, rows, sortable=False)


def _same(
    tables: Sequence[Mapping[str, Any]], known: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters all tables have alike, and the names of the others but ``known``."""
    names = [key for key in dict.fromkeys(k for t in tables for k in t) if key not in known]
    first = tables[0]
    alike = {k: all(k in t and t[k] == first.get(k) for t in tables) for k in names}
    return {k: first[k] for k in names if alike[k]}, [k for k in names if not alike[k]]


def _policies(parts: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row per policy; of those that depend on T, the longest."""
    last = {part["label"]: part for part in sorted(parts, key=lambda part: part["horizon"])}
    order = dict.fromkeys(part["label"] for part in parts)
    rows: list[TableRow] = []
    for label in list(order)[:MAX_ROWS]:
        parameters = {k: v for k, v in last[label]["table"].items() if k != "use"}
        words = _parameters(parameters) or "defaults"
        use = str(last[label]["table"]["use"])
        rows.append([label, use, TableCell(words, limit=MAX_PARAMETERS)])
    headings = ["Policy", "Plugin", "Parameters"]
    return Table(f"Policies, {_AT_THE_LONGEST}", headings, rows, sortable=False)


def _parameters(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_brief(value)}" for name, value in parameters.items())


def _brief(value: object) -> str:
    """Return a value as JSON, numbers to five digits, cut where it gets long."""
    plain = json.dumps(_rounded(value), sort_keys=True, ensure_ascii=False)
    return plain if len(plain) <= MAX_VALUE else plain[: MAX_VALUE - 1] + "…"


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def counts(data: RunData) -> str:
    """Return the size of a run in words."""
    n_policies = len(data.policies)
    n_environments = len({setting.environment for setting in data.settings()})
    words = [
        f"{n_policies:,} {'policy' if n_policies == 1 else 'policies'}",
        counted(n_environments, "environment"),
    ]
    if data.table.n_instances > n_environments:
        words.append(counted(data.table.n_instances, "instance"))
    words += [
        f"{len(values):,} {'horizons' if name == HORIZON else f'values of {name}'}"
        for name, values in data.table.dimensions.items()
        if name != ENVIRONMENT
    ]
    words.append(counted(data.table.n_replications, "replication"))
    return f"{counted(data.run.n_cells, 'cell')}{_undone(data)}: {', '.join(words)}"


def _undone(data: RunData) -> str:
    """Return how many cells are missing or failed, if any: the winner may not win in the end."""
    counts = {"not played yet": data.n_missing, "failed": data.n_failed}
    parts = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    return f" ({parts})" if parts else ""


@frozen
class Answer:
    """A ranked table for one choice of the filter, with the sentence that answers.

    ``where`` has the number of the chosen value of each dimension, -1 for all.
    """

    where: list[int]
    sentence: str
    table: Table
    legend: list[str]


def answers(data: RunData) -> list[Answer]:
    """Return the ranked table of the run, and those of the filter's choices, up to a number."""
    dimensions, observations = data.dimensions.dimensions, data.observations
    split = data.table.by[0] if data.table.by else None
    choices = [[-1] if d.name == split else range(-1, len(d.values)) for d in dimensions]
    wheres = sorted(itertools.product(*choices), key=lambda where: sum(i >= 0 for i in where))
    found = [_answer(data, data.table, [-1] * len(dimensions))]
    values = observations.dimensions()
    for where in wheres[1:MAX_ANSWERS]:
        chosen = {
            d.name: values[d.name][i] for d, i in zip(dimensions, where, strict=True) if i >= 0
        }
        horizon = chosen.pop(HORIZON, None)
        cells = [
            cell
            for cell in observations.cells
            if all(
                observations.variants[cell.environment, cell.horizon].value(name) == value
                for name, value in chosen.items()
            )
        ]
        part = evolve(observations, cells=cells)
        by = [split] if split in part.dimensions() else []
        at = horizon if isinstance(horizon, int) and horizon in part.horizons else None
        if cells and (horizon is None or at is not None):
            found.append(_answer(data, pool(part, by, horizon=at), list(where)))
    return found


def _answer(data: RunData, found: ResultTable, where: list[int]) -> Answer:
    numbers = {name: i for i, name in enumerate(data.policies)}
    policies = [numbers.get(data.policy_names[row.policy]) for row in found.rows]
    columns = found.columns()
    groups = [i for i, column in enumerate(columns) if column.kind == "group"]
    cells: list[list[TableCell]] = []
    for i, column in enumerate(columns):
        values = [_sort_value(found, row, column.kind, i - 1) for row in found.rows]
        if column.kind in ("policy", "told"):
            colours = policies if column.kind == "policy" else [None] * len(policies)
            pairs = zip(column.texts, colours, strict=True)
            cells.append([TableCell(text, colour=colour) for text, colour in pairs])
        else:
            pairs_of = zip(column.texts, values, strict=True)
            cells.append([TableCell(text, value, True) for text, value in pairs_of])
    of_groups: dict[int, int] = {}
    if found.by:
        (shown,) = [d.values for d in data.dimensions.dimensions if d.name == found.by[0]]
        names = [clipped(shown_value(group[0]), 60) for group in found.groups]
        of_groups = {i: shown.index(name) for i, name in zip(groups, names, strict=True)}
    caption, *legend = found.legend
    table = Table(
        caption[0].upper() + caption[1:],
        found.headings,
        list(zip(*cells, strict=True)),
        strong=[0] if len(found.rows) > 1 else [],
        places=[RowPlace(policy=policy) for policy in policies],
        columns=of_groups,
    )
    return Answer(where, found.sentence, table, legend)


def _sort_value(
    found: ResultTable, row: PolicyResults, kind: ColumnKind, group: int
) -> float | None:
    """Return the number that a column of the ranked table is sorted by, if it has one."""
    own = row.groups[group] if kind == "group" else row.overall
    if own is None:
        return None
    if kind == "regret":
        return None if own.regret is None else own.regret.mean
    return own.n_first if kind == "first" else own.measured(found.measure).mean


def settings_table(data: RunData) -> Table:
    """Return a row per setting and policy: means with intervals, and paired differences."""
    rows: list[TableRow] = []
    places: list[RowPlace] = []
    best: set[int] = set()
    numbers = {name: i for i, name in enumerate(data.policies)}
    names = [d.name for d in data.dimensions.dimensions]
    with_regret = has_regret(data)
    n_rows = 0
    for setting in data.settings():
        found = data.pooled(setting)
        n_rows += len(found)
        if len(rows) >= MAX_ROWS:
            continue
        for label in sorted(found, key=lambda label: -found[label].reward.mean):
            own, policy = found[label], numbers[data.policy_names[label]]
            if own.is_best and len(found) > 1:
                best.add(len(rows))
            rows.append(
                [
                    TableCell(data.policy_names[label], colour=policy),
                    *(_value_cell(data.value(setting, name)) for name in names),
                    *_result_cells(data, own, with_regret),
                ]
            )
            places.append(RowPlace(data.dimensions.index(setting), policy))
    regret = ["Of OPT ± 95 %", "DES regret ± 95 %"] if with_regret else []
    several = any(len(setting.variants) > 1 for setting in data.settings())
    headings = ["Policy", *names, *regret, f"Reward/{data.run.step}", "Behind best ± 95 %"]
    headings += ["First on", "Worst instance"] if several else []
    return Table(
        "Every setting and policy",
        [*headings, "Verdict"],
        rows if several else [[*row[:-3], row[-1]] for row in rows],
        strong=best,
        left_out=n_rows - len(rows),
        meanings=MEANINGS,
        places=places,
    )


def _value_cell(value: Value) -> TableCell:
    if isinstance(value, str | bool):
        return TableCell(shown_value(value))
    return TableCell(shown_value(value), value, True)


def _result_cells(data: RunData, own: Pooled, with_regret: bool) -> list[TableCell | str]:
    percent = data.table.measure == "share"
    regret: list[TableCell] = []
    if with_regret:
        share = TableCell("> 100%", None, True)
        if not beats_benchmark(own):
            share = _estimate(own.share, ".1f", 100)
        regret = [share, _estimate(own.regret, ",.1f")]
    verdict = "best" if own.is_best else "tied" if own.is_tied else ""
    if own.n_failed:
        verdict = f"{verdict}, {own.n_failed} failed".removeprefix(", ")
    worst = f"{100 * own.worst:.1f} %" if percent else f"{own.worst:.4f}"
    return [
        *regret,
        number(own.reward.mean, ".4f"),
        _estimate(own.behind, ".1f", 100) if percent else _estimate(own.behind, ".4f"),
        TableCell(f"{own.n_first:,} of {own.n_units:,}", own.n_first, True),
        TableCell(f"{worst} ({own.worst_instance.rpartition(', ')[2]})", own.worst, True),
        verdict,
    ]


def _estimate(found: Estimate | None, form: str, scale: float = 1) -> TableCell:
    if found is None:
        return number(None, "")
    half = "" if found.half_width is None else f" ± {scale * found.half_width:{form}}"
    return TableCell(f"{scale * found.mean:{form}}{half}", found.mean, True)


def has_regret(data: RunData) -> bool:
    """Return whether any setting has regret."""
    return any(map(data.has_regret, data.settings()))


def slope_table(data: RunData, fits: Mapping[tuple[str, str], SlopeFit]) -> Table:
    """Return fitted log-log slopes beside those of the paper's Table 1."""
    rows: list[TableRow] = []
    for (family, policy), fit in list(fits.items())[:MAX_ROWS]:
        promise = promise_of(data, family)
        interval = "–" if fit.low is None else f"{fit.low:.2f} to {fit.high:.2f}"
        rows.append(
            [
                family,
                data.policy_names[policy],
                number(fit.slope, ".2f"),
                TableCell(interval, fit.low, True),
                number(promise.exponent if promise else None, ".2f"),
                promise.words if promise else "lam is not known",
            ]
        )
    caption = "Log-log slopes of mean regret over horizons"
    what = "What Table 1 says of this lam"
    headings = ["Setting", "Policy", "Slope", "95 %", "Table 1", what]
    return Table(
        caption,
        headings,
        rows,
        meanings={"95 %": "Bootstrap over instances, or over replications of the only one"},
    )


def gap_table(data: RunData) -> Table:
    """Return by how much regret may be understated: benchmarks and their upper bounds."""
    forms = {"T": ",d", "value": ",.2f", "upper_bound": ",.2f", "difference": ",.2g", "gap": ".1e"}
    rows = [
        [row["panel"], *(number(row[column], form) for column, form in forms.items())]
        for row in gap_rows(data)[:MAX_ROWS]
    ]
    bound = "Upper bound" if data.run.step == "round" else "Clairvoyant"
    what = "their proven upper bounds" if data.run.step == "round" else "the clairvoyant"
    headings = ["Setting", "T", "Benchmark", bound, "Difference", "Gap"]
    return Table(
        f"Benchmarks and {what}: the widest gap of each setting",
        headings,
        rows,
        meanings=MEANINGS,
    )


def interval_words(data: RunData) -> str:
    """Return what means and intervals of charts are over, in one sentence."""
    several = data.table.n_replications > 1
    if data.table.interval_over == "replications" and not several:
        return "There is one replication, and so no interval."
    over = {
        "instances": "instances" + (", replications nested inside" if several else ""),
        "replications": "replications",
        "both": "instances, or over replications where there is one instance",
    }
    return f"Means with 95 % intervals over {over[data.table.interval_over]}."


def gap_sentence(data: RunData) -> str:
    """Return how far from optimal the benchmarks can be, in one sentence."""
    gaps = gap_rows(data)
    if not gaps:
        return "This run has no benchmark: regret is absent, rewards are shown."
    widest = max(gaps, key=lambda row: float(row["gap"]))
    if data.run.step == "visit":
        tables = [row["table_gap"] for row in gaps if row["table_gap"] is not None]
        near = f"{100 * max([1e-6, *tables]):.2g} %"
        return (
            "OPT is the best decision table: what to show at which state, not knowing when a user"
            f" leaves, proven to be within {near} of the best for users who leave with the same"
            " chance after every visit. Who knows how often each user will come earns at most"
            f" {100 * widest['difference'] / max(widest['value'], 1e-300):.2g} % more."
        )
    if widest["gap"] >= 1:
        return (
            "OPT is the best sequence the planner found; how far from optimal it is, is not proven."
        )
    percent = 100 * widest["gap"]
    near = f"{percent:.2g} %" if percent >= 1e-4 else "0.0001 %"
    most = max(row["difference"] for row in gaps)
    too_low = f"{max(most, 0.001):,.2g}" if most < 100 else f"{most:,.0f}"
    return (
        f"OPT is proven to be within {near} of the best sequence, so regret is too low by at most"
        f" {too_low}."
    )


def failure_table(data: RunData) -> Table:
    """Return which cells failed and how."""
    failed = [cell for cell in data.cells if cell.error is not None]
    rows: list[TableRow] = [
        [
            data.policy_names[r.policy],
            place_name(data.run.variants[r.environment, r.horizon], data.varying),
            number(r.horizon, ",d"),
            number(r.replication, "d"),
            TableCell(r.error or "", limit=300),
        ]
        for r in failed[:MAX_FAILURES]
    ]
    headings = ["Policy", "Environment", "T", "Replication", "Error"]
    left_out = len(failed) - len(rows)
    return Table("Cells that failed", headings, rows, left_out=left_out, kind="failures")


def diagnostics_table(data: RunData) -> Table:
    """Return the diagnostics of policies over replications, at the last horizon."""
    groups: dict[tuple[str, str, str], list[object]] = {}
    last = data.horizons[-1] if data.horizons else 0
    for (policy, setting), texts in data.diagnostics.items():
        family = data.name_of(setting, (HORIZON,))
        for text in texts:
            for name, value in _diagnostics(text).items():
                groups.setdefault((policy, family, name), []).append(value)
    rows: list[TableRow] = [
        [data.policy_names[policy], family, TableCell(name, limit=60), typical(values)]
        for (policy, family, name), values in list(groups.items())[:MAX_DIAGNOSTICS]
    ]
    caption = f"What policies showed at the end, T = {last:,}, over all cells"
    headings = ["Policy", "Setting", "Name", "Value"]
    return Table(caption, headings, rows, left_out=len(groups) - len(rows))


def _diagnostics(text: str) -> dict[str, object]:
    try:
        return parse_json(text)
    except ValueError as error:
        return {"diagnostics": f"cannot be shown: what is stored {one_line(str(error), 100)}"}


def typical(values: list[object]) -> str:
    """Return a short text for the values of one diagnostic over replications."""
    numbers = [_numbers(value) for value in values]
    columns = [row for row in numbers if row is not None]
    lengths = {len(row) for row in columns}
    if len(columns) == len(values) and len(lengths) == 1 and 0 < max(lengths) <= MAX_ELEMENTS:
        return ", ".join(_range(column) for column in zip(*columns, strict=True))
    (first, n), *others = Counter(_plain(value) for value in values).most_common()
    return f"{first} ({n} of {len(values)} replications)" if others else first


def _plain(value: object) -> str:
    """Return one value for reading: words without quotes, numbers without needless digits."""
    if isinstance(value, str):
        return value
    numbers = _numbers(value)
    if numbers is None:
        return _shape(value) or _brief(value)
    if len(numbers) > MAX_NUMBERS:
        return f"{len(numbers):,} numbers"
    words = ", ".join(map(_digits, numbers))
    return f"[{words}]" if isinstance(value, list) else words


def _shape(value: object) -> str:
    """Return the size of a list of lists of numbers; nobody reads one in a table."""
    rows = [_numbers(row) for row in value] if isinstance(value, list) else [None]
    lengths = {len(row) for row in rows if row is not None}
    if None in rows or len(lengths) != 1:
        return ""
    return f"{len(rows):,} × {lengths.pop():,} numbers"


def _numbers(value: object) -> list[float] | None:
    """Return the numbers in a value; None if it holds anything else."""
    given = value if isinstance(value, list) else [value]
    try:
        return list(map(float, given)) if all(map(is_number, given)) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _range(column: Sequence[float]) -> str:
    """Return the mean over replications, and in brackets their range."""
    finite = [x for x in column if math.isfinite(x)]
    if not finite:
        return "not a number"
    low, high, mean = min(finite), max(finite), math.fsum(finite) / len(finite)
    if low == high:
        return _digits(mean)
    return f"{_digits(mean)} ({_digits(low)} to {_digits(high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"
