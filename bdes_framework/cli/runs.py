"""``bdes runs``, ``show``, ``verify``, ``export``, ``compare``: what can be done with runs."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework._internal.text import ascii_controls, one_line, quoted
from bdes_framework.cli.options import PATH, echo
from bdes_framework.errors import BdesError
from bdes_framework.experiment.results import COLUMNS, Run, find_damage, load_run, run_overview
from bdes_framework.experiment.reuse import RUNS, code_changes, list_runs
from bdes_framework.experiment.summary import (
    CellSummary,
    Estimate,
    Result,
    beaten_benchmarks,
    estimate,
    slopes,
    summarise,
)
from bdes_framework.plugin.hookspecs import RunProgress

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_MIN_WIDTH_FOR_REWARD = 100
"""The width in characters from which on reward is shown beside regret."""
_WIDTH_OF_NUMBERS = 49
"""The width of a horizon and three estimates folded at their ±, with the space between columns."""

_Resolved: TypeAlias = dict[str, Any]
_Place: TypeAlias = tuple[str, int, str]
"""Environment, horizon and policy."""


@click.command()
@click.argument("folder", type=PATH, default=RUNS)
def runs(folder: Path) -> None:
    """List the runs below FOLDER."""
    table = _table(["Run", "Experiment"], ["Finished", "Cells", "Failed", "Version"])
    for path in list_runs(folder):
        try:
            found = run_overview(path)
        except BdesError as error:
            row = [one_line(str(error), 200), "-", "-", "-", "-"]
        else:
            cells = f"{found.n_finished:,}/{found.n_cells:,}"
            row = [found.name, _local_time(found.finished), cells, f"{found.n_failed:,}"]
            # Without the hash of the code behind it: bdes compare tells that apart.
            row.append(found.version.partition("+")[0] or "-")
        table.add_row(*(Text(ascii_controls(text)) for text in (str(path), *row)))
    Console().print(table if table.row_count else Text(ascii_controls(f"no runs in {folder}")))


def _local_time(moment: str) -> str:
    """Return a moment of ISO 8601 as date and minute of the local clock; a dash if it is none."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return "-"


@click.command()
@click.argument("run", type=PATH)
def verify(run: Path) -> None:
    """Check that RUN is as it was written: all rows against their checksums, and its files."""
    damage = find_damage(run)
    for line in damage:
        click.echo(f"damaged: {ascii_controls(line)}")
    if damage:
        click.echo("bdes: running the experiment again makes damaged cells anew", err=True)
        sys.exit(1)
    found = run_overview(run)
    click.echo(ascii_controls(f"{run}: no damage in {found.n_finished:,} cells"))
    if not found.has_checksums:
        click.echo("it was made before there were checksums, so changed numbers are not noticed")


def _table(*headings: Sequence[str]) -> Table:
    """Return a table with columns of labels, then of numbers, and so on in turn."""
    table = Table(pad_edge=False, box=None, header_style="bold")
    for index, group in enumerate(headings):
        for heading in group:
            if index % 2:
                table.add_column(heading, justify="right", no_wrap=True)
            else:
                table.add_column(heading, overflow="fold")
    return table


@click.command()
@click.argument("run", type=PATH)
@click.option("--traceback", is_flag=True, help="Show where failed cells failed.")
def show(run: Path, traceback: bool) -> None:
    """Print the table of results of RUN again."""
    with load_run(run) as opened:
        sys.exit(show_run(opened, tracebacks=traceback))


def show_run(
    run: Run, cells: Sequence[CellSummary] | None = None, *, tracebacks: bool = False
) -> int:
    """Print results and failures of a run, or of these cells of it.

    Return the exit code: 1 if a cell or a benchmark failed.
    """
    console = Console()
    cells = run.cells() if cells is None else cells
    results = summarise(cells)
    console.print(results_table(results, console.width))
    counts = f"{len(cells)} of {run.n_cells} cells in {ascii_controls(str(run.folder))}"
    console.print(Text(counts + (_done_text(run.progress) if run.progress else "")))
    benchmark_errors = run.benchmark_errors()
    for error in benchmark_errors:
        echo(f"no regret: the benchmark failed: {error}", err=True)
    for label in beaten_benchmarks(results):
        echo(
            f"warning: the benchmark of {quoted(label)} is beaten: it is no upper bound, so regret"
            " is not regret against the best sequence",
            err=True,
        )
    failed = [cell for cell in cells if cell.error is not None]
    for cell, place in _kinds(cells, attrgetter("warning")):
        echo(f"warning: {place}: {one_line(cell.warning or '')}", err=True)
    kinds = _kinds(failed, attrgetter("error"))
    for cell, place in kinds:
        echo(f"failed: {place}: {one_line(cell.error or '')}", err=True)
        if tracebacks:
            for line in run.traceback(cell).splitlines():
                echo("  " + ascii_controls(line), err=True)
    if failed:
        counts = f"{len(failed)} of {len(cells)} cells failed"
        ways = f", in {len(kinds)} ways" if len(kinds) > 1 else ""
        where = "" if tracebacks else "'bdes show RUN --traceback' prints where, "
        echo(f"bdes: {counts}{ways}; {where}--retry-failed runs them again", err=True)
    return 1 if failed or benchmark_errors else 0


def _done_text(done: RunProgress) -> str:
    n_computed = done.n_finished - done.n_reused
    return f": {n_computed:,} computed, {done.n_reused:,} reused, {done.n_failed:,} failed"


def _kinds(
    cells: Sequence[CellSummary], text_of: Callable[[CellSummary], str | None]
) -> list[tuple[CellSummary, str]]:
    """Return one cell of each kind of failure or warning, with where it and others of it are.

    Texts that differ in numbers alone, such as a round, are of one kind.
    """
    kinds: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in cells:
        text = text_of(cell)
        if text is not None:
            kinds.setdefault((cell.policy, _NUMBER.sub("#", text)), []).append(cell)
    found = []
    for first, *others in kinds.values():
        where = one_line(f"{first.policy} on {first.environment}")
        place = f"{where}, T = {first.horizon}, replication {first.replication}"
        n = len(others)
        more = f" and {n} more cell{'s' if n > 1 else ''}" if n else ""
        found.append((first, place + more))
    return found


def results_table(results: Sequence[Result], width: int) -> Table:
    """Return a table of results, with a star at the best policy of each environment and horizon."""
    with_regret = any(result.regret is not None for result in results)
    with_reward = width >= _MIN_WIDTH_FOR_REWARD or not with_regret
    best = _best(results)
    slope_of = slopes(results)
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("Environment", overflow="fold", min_width=_width(results, "environment"))
    table.add_column("T", justify="right", no_wrap=True)
    table.add_column("Policy", overflow="fold", min_width=_width(results, "policy") + 2)
    headings = ["Reward ± 95 %", "Average"] if with_reward else []
    headings += ["DES regret ± 95 %", "Of OPT"] if with_regret else []
    for heading in (*headings, *(["Slope"] if slope_of else [])):
        table.add_column(heading, justify="right")
    for result in results:
        some_failed = result.n_failed and result.mean is not None
        failures = f" ({result.n_failed} failed)" if some_failed else ""
        row = [
            ascii_controls(result.environment),
            f"{result.horizon:,}",
            ascii_controls(result.policy) + (" *" if result in best else "") + failures,
        ]
        if with_reward:
            mean = result.mean
            per_round = "failed" if mean is None else f"{mean.mean / result.horizon:.4f}"
            row += [estimate_text(result.reward), per_round]
        row += [estimate_text(result.regret), _fraction(result)] if with_regret else []
        if slope_of:
            slope = slope_of.get((result.environment, result.policy))
            row.append("" if slope is None else f"{slope:.2f}")
        table.add_row(*map(Text, row), style="bold" if result in best else "")
    return table


def _width(results: Sequence[Result], label: str) -> int:
    """Return the width of a column: that of its heading and its longest label, 20 at most."""
    return min(max([len(label), *(len(getattr(result, label)) for result in results)]), 20)


def _best(results: Sequence[Result]) -> list[Result]:
    """Return the results with the highest expected reward of their environment and horizon."""
    columns: dict[tuple[str, int], list[tuple[float, Result]]] = {}
    for result in results:
        if result.mean is not None:
            column = columns.setdefault((result.environment, result.horizon), [])
            column.append((result.mean.mean, result))
    return [max(column, key=itemgetter(0))[1] for column in columns.values() if len(column) > 1]


def _fraction(result: Result) -> str:
    if result.mean is None:
        return "failed"
    if result.beats_benchmark:
        return "> 100%"
    return "-" if result.share is None else f"{result.share:.1%}"


def estimate_text(estimate: Estimate | None) -> str:
    """Return a mean with its interval, or a dash."""
    if estimate is None:
        return "-"
    if estimate.half_width is None:
        return f"{estimate.mean:,.1f}"
    return f"{estimate.mean:,.1f} ± {estimate.half_width:,.1f}"


@click.command()
@click.argument("run", type=PATH)
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet"]), default="csv")
@click.option("--out", type=PATH, help="Where to write; standard output by default.")
def export(run: Path, form: str, out: Path | None) -> None:
    """Write the cells of RUN as CSV, JSON or Parquet, one row per cell."""
    with load_run(run) as opened:
        rows = list(opened.rows())
    if form == "parquet":
        _write_parquet(rows, out)
        return
    if form == "json":
        text = json.dumps(rows, indent=1) + "\n"
    else:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS)
        writer.writeheader()
        writer.writerows({name: _inert(value) for name, value in row.items()} for row in rows)
        text = buffer.getvalue()
    if out is not None:
        replace_text(out, text)
        return
    if sys.stdout.isatty():
        text = "".join(f"{ascii_controls(line)}\n" for line in text.splitlines())
    sys.stdout.write(text)  # click.echo would cut escape sequences out of the data


def _inert(value: object) -> object:
    """Return text that a spreadsheet would run as a formula with a ``'`` before it."""
    live = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if live else value


def _write_parquet(rows: list[dict[str, object]], out: Path | None) -> None:
    if out is None:
        raise click.UsageError("Parquet needs --out FILE")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise click.UsageError("Parquet needs pyarrow: install 'bdes-framework[export]'") from None
    table = pyarrow.Table.from_pylist(rows)
    replace_file(out, lambda path: pyarrow.parquet.write_table(table, path))


@click.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
def compare(first: Path, second: Path) -> None:
    """Compare two runs on what both have: expected reward of SECOND less that of FIRST."""
    with load_run(first) as one, load_run(second) as other:
        sys.exit(_compare(one, other))


def _compare(one: Run, other: Run) -> int:
    """Print the comparison; return the exit code: 1 if the runs have nothing in common."""
    first, second = one.resolved, other.resolved
    cells = one.cells(), other.cells()
    shared, different = _shared(first, second, *map(summarise, cells))
    same_seed = first["config"]["seed"] == second["config"]["seed"]
    differences = _paired_differences(*cells) if same_seed else {}
    table = _table(["Environment"], ["T"], ["Policy"], ["First", "Second", "Difference ± 95 %"])
    console = Console()
    if console.width < _MIN_WIDTH_FOR_REWARD:  # rich would fold labels first, and break words
        results = [before for before, _ in shared]
        width = table.columns[0].width = _width(results, "environment")
        room = max(console.width - _WIDTH_OF_NUMBERS - width, len("policy"))
        table.columns[2].width = min(_width(results, "policy"), room)
        for column in table.columns[3:]:
            column.no_wrap = False
    for before, after in shared:
        labels = ascii_controls(before.environment), ascii_controls(before.policy)
        paired = estimate(differences.get(_place(before), []))
        means = map(estimate_text, (before.mean, after.mean, paired))
        table.add_row(*map(Text, (labels[0], f"{before.horizon:,}", labels[1], *means)))
    console.print(table if table.row_count else Text("the runs have no cells in common"))
    for label in different:
        echo(f"left out: {quoted(label)} is not the same environment in both runs", err=True)
    for remark in _differences_of_setup(first, second, shared):
        echo(remark, err=True)
    return 0 if shared else 1


def _shared(
    one: _Resolved, other: _Resolved, before: Sequence[Result], after: Sequence[Result]
) -> tuple[list[tuple[Result, Result]], list[str]]:
    """Return the results both runs have, and the labels of environments that differ."""
    matches = {_place(result): result for result in after}
    first, second = _tables(one, "environments"), _tables(other, "environments")
    shared: list[tuple[Result, Result]] = []
    different: dict[str, None] = {}
    for result in before:
        match = matches.get(_place(result))
        where = (result.environment, result.horizon)
        if match is not None and first.get(where) == second.get(where):
            shared.append((result, match))
        elif match is not None:
            different[result.environment] = None
    return shared, list(different)


def _differences_of_setup(
    first: _Resolved, second: _Resolved, shared: list[tuple[Result, Result]]
) -> Iterator[str]:
    """Yield in what the runs differ besides their results."""
    before, after = _tables(first, "policies"), _tables(second, "policies")
    places = [(result.policy, result.horizon) for result, _ in shared]
    changed = [place[0] for place in places if before.get(place) != after.get(place)]
    for label in dict.fromkeys(changed):
        yield f"policy {quoted(label)} has other parameters in the second run"
    for key in ("reveal_lam", "reveal_replenishing_arm"):
        if first["config"][key] != second["config"][key]:
            yield f"the runs differ in {key}"
    for change in code_changes(first["versions"], second["versions"]):
        yield f"other code in the second run: {change}"
    if first["config"]["seed"] != second["config"]["seed"]:
        yield "the runs have different seeds, so replications are not paired"


def _tables(resolved: _Resolved, key: str) -> dict[tuple[str, int], object]:
    """Return the resolved tables of environments or policies, by label and horizon."""
    return {(part["label"], part["horizon"]): part["table"] for part in resolved["config"][key]}


def _place(result: Result | CellSummary) -> _Place:
    return result.environment, result.horizon, result.policy


def _paired_differences(
    one: Sequence[CellSummary], other: Sequence[CellSummary]
) -> dict[_Place, list[float]]:
    """Return differences of replications, which share their random streams under one seed."""
    means = {(*_place(cell), cell.replication): cell.total_mean for cell in one}
    found: dict[_Place, list[float]] = {}
    for cell in other:
        before = means.get((*_place(cell), cell.replication))
        if before is not None and cell.total_mean is not None:
            found.setdefault(_place(cell), []).append(cell.total_mean - before)
    return found
