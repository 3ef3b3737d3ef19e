"""The tables of the page and its headline: plain data, which the template escapes."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from bdes_framework._internal.files import parse_json
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import one_line
from bdes_framework.experiment.summary import Estimate
from bdes_framework.report.data import REGRET, RunData, Standing, gap_rows, promise_of, standings
from bdes_framework.report.labels import MAX_TEXT
from bdes_framework.report.slopes import SlopeFit

MAX_ROWS = 2_500
MAX_DIAGNOSTICS = 1_250
MAX_FAILURES = 200
MAX_ELEMENTS = 12
MAX_PARAMETERS = 400
MAX_VALUE = 160

MEANINGS = {
    "DES regret ± 95 %": "Expected reward lost against the best sequence",
    "Of OPT": "Expected reward as a share of the benchmark's",
    "Reward/round": "Mean expected reward per round",
    "Difference": "By how much regret can be too low at most",
    "Gap": "The difference as a share of the upper bound",
    "Behind best ± 95 %": "Paired by replication: the same random draws for both",
}


@frozen
class TableCell:
    """A cell of a table: its text, and the number it is sorted by, if any."""

    text: str
    value: float | None = None
    is_number: bool = False
    limit: int = MAX_TEXT


TableRow = Sequence[TableCell | str]


def _cells(rows: Iterable[TableRow]) -> list[list[TableCell]]:
    return [[TableCell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]


@frozen
class Table:
    """A table of the page: ``strong`` rows are set off, ``left_out`` rows of a kind not shown.

    ``meanings`` explains the headings that are not plain.
    """

    caption: str
    headings: Sequence[str]
    rows: list[list[TableCell]] = field(converter=_cells)
    sortable: bool = True
    strong: Collection[int] = ()
    left_out: int = 0
    kind: str = "lines"
    meanings: Mapping[str, str] = field(factory=dict)


def number(value: float | None, form: str) -> TableCell:
    """Return a cell with a formatted number, or a dash."""
    if value is None:
        return TableCell("–", None, True)
    return TableCell(format(value, form), value, True)


def facts(data: RunData) -> dict[str, str]:
    """Return size, seed, horizons and what policies know, by name."""
    config = data.resolved["config"]
    known = {"lam": config["reveal_lam"], "replenishing arm": config["reveal_replenishing_arm"]}
    revealed = [name for name, is_known in known.items() if is_known]
    benchmark = config["benchmark"] or "none"
    return {
        "cells finished": f"{len(data.cells):,} of {data.run.n_cells:,}",
        "seed": str(config["seed"]),
        "replications": f"{config['replications']:,}",
        "horizons T": ", ".join(f"{horizon:,}" for horizon in config["horizons"]),
        "benchmark": benchmark if isinstance(benchmark, str) else _brief(benchmark),
        "revealed to policies": ", ".join(revealed) or "neither lam nor arm",
    }


def run_tables(data: RunData) -> list[Table]:
    """Return environments, policies, and the versions of the code that decides the numbers."""
    config = data.resolved["config"]
    versions = data.resolved["versions"].items()
    headings = ["Distribution", "Version"]
    return [
        _parts("Environments", "Environment", config["environments"]),
        _parts("Policies", "Policy", config["policies"]),
        Table("Code that decides the numbers", headings, versions, sortable=False),
    ]


def _parts(title: str, one: str, parts: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of environments or policies; of those that depend on T, the longest."""
    last = {part["label"]: part for part in sorted(parts, key=lambda part: part["horizon"])}
    order = dict.fromkeys(part["label"] for part in parts)
    rows: list[TableRow] = []
    for label in list(order)[:MAX_ROWS]:
        parameters = {k: v for k, v in last[label]["table"].items() if k != "use"}
        words = ", ".join(f"{name} = {_brief(value)}" for name, value in parameters.items())
        use = str(last[label]["table"]["use"])
        rows.append([label, use, TableCell(words or "defaults", limit=MAX_PARAMETERS)])
    caption = f"{title}, with parameters as they are at the longest horizon"
    return Table(caption, [one, "Plugin", "Parameters"], rows, sortable=False)


def _brief(value: object) -> str:
    """Return a value as JSON, cut where it gets long."""
    plain = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return plain if len(plain) <= MAX_VALUE else plain[: MAX_VALUE - 1] + "…"


def headline(data: RunData) -> str:
    """Return the size of the run and the winner at the longest horizon, in two sentences."""
    panels = data.panels()
    if not panels:
        return "No cell has finished well yet."
    n_policies = len(data.policies)
    policies = f"{n_policies:,} {'policy' if n_policies == 1 else 'policies'}"
    environments = _count(len(data.environment_names), "environment")
    horizons = _count(len(data.horizons), "horizon")
    words = f"{_count(data.run.n_cells, 'cell')}{_undone(data)}: "
    words += f"{policies}, {environments}, {horizons}."
    last = [panel for panel in panels if panel.horizon == panels[0].horizon]
    found = [standing for panel in last for standing in standings(data, panel)]
    wins = Counter(standing.result.policy for standing in found if standing.is_best)
    ties = Counter(standing.result.policy for standing in found if standing.is_tied)
    if wins:
        best, count = wins.most_common(1)[0]
        where = f" in {count} of {len(last)} environments" if len(last) > 1 else ""
        tied = f", and tied with the best in {ties[best]}" if ties[best] else ""
        name = data.policy_names[best]
        words += f" At T = {panels[0].horizon:,}, {name} earned the most{where}{tied}."
    return words


def _undone(data: RunData) -> str:
    """Return how many cells are missing or failed, if any: the winner may not win in the end."""
    counts = {"not played yet": data.n_missing, "failed": data.n_failed}
    parts = ", ".join(f"{n:,} {what}" for what, n in counts.items() if n)
    return f" ({parts})" if parts else ""


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def standings_table(data: RunData) -> Table:
    """Return means with intervals and paired differences, by environment, horizon and policy."""
    rows: list[TableRow] = []
    with_regret = has_regret(data)
    n_rows = 0
    best: set[int] = set()
    for panel in data.panels():
        found = standings(data, panel)
        n_rows += len(found)
        if len(rows) < MAX_ROWS:
            best.update(len(rows) + i for i, standing in enumerate(found) if standing.is_best)
            rows += [_standing_row(data, standing, with_regret) for standing in found]
    headings = ["Environment", "T", "Policy"]
    if with_regret:
        headings += ["DES regret ± 95 %", "Of OPT"]
    headings += ["Reward/round", "Behind best ± 95 %", "Verdict"]
    caption = "Results by environment, horizon and policy"
    left_out = n_rows - len(rows)
    return Table(caption, headings, rows, strong=best, left_out=left_out, meanings=MEANINGS)


def _standing_row(data: RunData, standing: Standing, with_regret: bool) -> TableRow:
    result = standing.result
    assert result.mean is not None
    regret: list[TableCell] = []
    if with_regret:
        share = number(result.share, ".1%")
        if result.beats_benchmark:
            share = TableCell("> 100%", result.share, True)
        regret = [_estimate(result.regret), share]
    verdict = "best" if standing.is_best else "tied" if standing.is_tied else ""
    if result.n_failed:
        verdict = f"{verdict}, {result.n_failed} failed".removeprefix(", ")
    return [
        data.environment_names[result.environment],
        number(result.horizon, ",d"),
        data.policy_names[result.policy],
        *regret,
        number(result.mean.mean / result.horizon, ".4f"),
        _estimate(standing.behind),
        verdict,
    ]


def _estimate(found: Estimate | None) -> TableCell:
    if found is None:
        return number(None, "")
    half = "" if found.half_width is None else f" ± {found.half_width:,.1f}"
    return TableCell(f"{found.mean:,.1f}{half}", found.mean, True)


def has_regret(data: RunData) -> bool:
    """Return whether any panel is measured by regret."""
    return any(panel.measure == REGRET for panel in data.panels())


def slope_table(data: RunData, fits: Mapping[tuple[str, str], SlopeFit]) -> Table:
    """Return fitted log-log slopes beside those of the paper's Table 1."""
    rows: list[TableRow] = []
    for (environment, policy), fit in list(fits.items())[:MAX_ROWS]:
        promise = promise_of(data, environment)
        interval = "–" if fit.low is None else f"{fit.low:.2f} to {fit.high:.2f}"
        rows.append(
            [
                data.environment_names[environment],
                data.policy_names[policy],
                number(fit.slope, ".2f"),
                TableCell(interval, fit.low, True),
                number(promise.exponent if promise else None, ".2f"),
                promise.words if promise else "lam is not known",
            ]
        )
    caption = "Log-log slopes of mean regret over horizons"
    what = "What Table 1 says of this lam"
    headings = ["Environment", "Policy", "Slope", "95 %", "Table 1", what]
    return Table(caption, headings, rows, meanings={"95 %": "Bootstrap over replications"})


def gap_table(data: RunData) -> Table:
    """Return by how much regret may be understated: benchmarks and their upper bounds."""
    forms = {"T": ",d", "value": ",.2f", "upper_bound": ",.2f", "difference": ",.2g", "gap": ".1e"}
    rows = [
        [row["environment"], *(number(row[column], form) for column, form in forms.items())]
        for row in gap_rows(data)[:MAX_ROWS]
    ]
    headings = ["Environment", "T", "Benchmark", "Upper bound", "Difference", "Gap"]
    return Table("Benchmarks and their proven upper bounds", headings, rows, meanings=MEANINGS)


def failure_table(data: RunData) -> Table:
    """Return which cells failed and how."""
    failed = [cell for cell in data.cells if cell.error is not None]
    rows: list[TableRow] = [
        [
            data.policy_names[r.policy],
            data.environment_names[r.environment],
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
    for place, texts in data.diagnostics.items():
        for text in texts:
            for name, value in _diagnostics(text).items():
                groups.setdefault((*place, name), []).append(value)
    rows: list[TableRow] = [
        [
            data.policy_names[policy],
            data.environment_names[environment],
            TableCell(name, limit=60),
            typical(values),
        ]
        for (policy, environment, name), values in list(groups.items())[:MAX_DIAGNOSTICS]
    ]
    caption = f"What policies showed at the end, T = {last:,}, over all replications"
    headings = ["Policy", "Environment", "Name", "Value"]
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
        return _brief(value)
    words = ", ".join(map(_digits, numbers))
    return f"[{words}]" if isinstance(value, list) else words


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
