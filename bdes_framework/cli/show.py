"""``bdes show``, and what ``bdes run`` ends with: the answer, the table, what went wrong."""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, one_line, quoted
from bdes_framework.cli.completion import complete_labels
from bdes_framework.cli.options import AS_JSON, RUN, csv_text, echo, json_text, output, write_data
from bdes_framework.cli.result_text import every_row, print_blocks, result_lines, row_records
from bdes_framework.experiment.find import run_name
from bdes_framework.experiment.pooling import Observations, place_name, pool
from bdes_framework.experiment.result_table import ResultTable
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.experiment.summary import CellSummary, beaten_benchmarks, summarise
from bdes_framework.plugin.hookspecs import RunProgress

FORMATS = ("text", "markdown", "latex", "csv", "json")
_FORMAT_HELP = "How to print the table; --json is short for json."
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_MAX_ERRORS = 5
"""Failed benchmarks that are named."""


@click.command()
@click.argument("run", type=RUN)
@click.option("--all", "every", is_flag=True, help="Also each environment and horizon by itself.")
@click.option("--by", metavar="NAMES", help="Columns for each of these, such as lam or lam,K.")
@click.option("--horizon", type=int, metavar="T", help="The longest by default.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="LABEL",
    help="Only this; repeatable.",
    shell_complete=complete_labels("policy"),
)
@click.option("--traceback", is_flag=True, help="Show where failed cells failed.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help=_FORMAT_HELP)
@AS_JSON
def show(run: Path, as_json: bool, **choices: Any) -> None:
    """Print the answer and the table of results of RUN again."""
    if as_json:
        choices["form"] = "json"
    if choices["every"] and choices["form"] not in ("text", "json"):
        raise click.UsageError(
            f"--all prints text or JSON, not {choices['form']}; without --all, every policy is"
            " in the table, and 'bdes export' writes every cell as CSV"
        )
    with load_run(run) as opened:
        sys.exit(show_run(opened, **choices))


def show_run(
    run: Run,
    cells: Sequence[CellSummary] | None = None,
    *,
    every: bool = False,
    by: str | None = None,
    horizon: int | None = None,
    policies: Sequence[str] = (),
    traceback: bool = False,
    form: str = "text",
    quiet: bool = False,
) -> int:
    """Print results and failures of a run, or of these cells of it; if ``quiet``, only the answer.

    Return the exit code: 1 if a cell or a benchmark failed.
    """
    cells = run.cells() if cells is None else cells
    observations = run.observed(cells)
    names = None if by is None else [name.strip() for name in by.split(",") if name.strip()]
    table = pool(observations, names, horizon=horizon, policies=policies)
    chosen = [
        cell
        for cell in cells
        if (not policies or cell.policy in policies) and horizon in (None, cell.horizon)
    ]
    if form == "json":
        rows = row_records(evolve(observations, cells=chosen)) if every else None
        write_data(json_text(_as_json(run, table, observations, rows)))
    elif form != "text":
        write_data(_FORMATS[form](table))
    else:
        _print(run, table, evolve(observations, cells=chosen), len(cells), every, quiet)
    return _tell_problems(run, observations, traceback=traceback)


def _tell_problems(run: Run, observations: Observations, *, traceback: bool) -> int:
    """Print what failed and what is doubtful; return the exit code."""
    cells = observations.cells
    benchmark_errors = run.benchmark_errors()
    for error in benchmark_errors[:_MAX_ERRORS]:
        echo(f"no regret: the benchmark failed: {error}", err=True)
    if len(benchmark_errors) > _MAX_ERRORS:
        echo(f"and {len(benchmark_errors) - _MAX_ERRORS:,} more benchmarks failed", err=True)
    beaten = beaten_benchmarks(summarise(cells))
    if beaten:
        more = f" and of {len(beaten) - 1:,} more" if len(beaten) > 1 else ""
        echo(
            f"warning: the benchmark of {quoted(beaten[0])}{more} is beaten: it is no upper bound,"
            " so regret is not regret against the best sequence",
            err=True,
        )
    failed = [cell for cell in cells if cell.error is not None]
    for cell, place in _kinds(observations, attrgetter("warning")):
        echo(f"warning: {place}: {one_line(cell.warning or '')}", err=True)
    kinds = _kinds(observations, attrgetter("error"))
    for cell, place in kinds:
        echo(f"failed: {place}: {one_line(cell.error or '')}", err=True)
        if traceback:
            for line in run.traceback(cell).splitlines():
                echo(f"  {line}", err=True)
    if failed:
        counts = f"{len(failed)} of {len(cells)} cells failed"
        ways = f", in {len(kinds)} ways" if len(kinds) > 1 else ""
        where = "" if traceback else "'bdes show RUN --traceback' prints where, "
        echo(f"bdes: {counts}{ways}; {where}--retry-failed runs them again", err=True)
    return 1 if failed or benchmark_errors else 0


def _print(
    run: Run, table: ResultTable, shown: Observations, n_cells: int, every: bool, quiet: bool
) -> None:
    """Print the answer, the table and every row, or, if ``quiet``, only the answer."""
    console = output()
    counts = f"{n_cells:,} of {run.n_cells:,} cells in {ascii_controls(str(run.folder))}"
    last = [Text(counts + (_done_text(run.progress) if run.progress else ""))]
    if quiet:
        print_blocks(console, [[Text(table.sentence), *last]])
        return
    name = ascii_controls(shlex.quote(run_name(run.folder)))
    blocks = list(result_lines(table, console, name=name, every_policy=every, policies=run.told))
    if every:
        blocks.append(list(every_row(shown, console.width)))
    elif not run.is_whole():
        last.append(Text("not finished: the same 'bdes run' goes on, and plans benchmarks last"))
    else:
        last.append(Text(f"next: bdes report {name}; every row: bdes show {name} --all"))
    print_blocks(console, [*blocks, last])


def _as_json(
    run: Run,
    table: ResultTable,
    observations: Observations,
    rows: list[dict[str, object]] | None,
) -> dict[str, object]:
    done, cells = run.progress, observations.cells
    failed = [cell for cell in cells if cell.error is not None]
    found: dict[str, object] = {
        "run": str(run.folder),
        "cells": {
            "n_cells": run.n_cells,
            "n_finished": len(cells),
            "n_failed": len(failed),
            "n_computed": None if done is None else done.n_finished - done.n_reused,
            "n_reused": None if done is None else done.n_reused,
        },
        **table.to_dict(),
        "failures": [
            {
                "environment": cell.environment,
                "policy": cell.policy,
                "T": cell.horizon,
                "replication": cell.replication,
                "error": cell.error,
            }
            for cell, _ in _kinds(observations, attrgetter("error"))
        ],
        "benchmark_errors": run.benchmark_errors(),
        "beaten_benchmarks": beaten_benchmarks(summarise(cells)),
    }
    return found if rows is None else found | {"rows": rows}


def _csv(table: ResultTable) -> str:
    told = {row.policy: ", ".join(row.told) for row in table.rows}
    records = [record | {"told": told[str(record["policy"])]} for record in table.to_records()]
    columns = dict.fromkeys(name for record in records for name in record)
    return csv_text(list(columns), records)


_FORMATS: dict[str, Callable[[ResultTable], str]] = {
    "markdown": ResultTable.to_markdown,
    "latex": ResultTable.to_latex,
    "csv": _csv,
}


def _done_text(done: RunProgress) -> str:
    n_computed = done.n_finished - done.n_reused
    return f": {n_computed:,} computed, {done.n_reused:,} reused, {done.n_failed:,} failed"


def _kinds(
    observations: Observations, text_of: Callable[[CellSummary], str | None]
) -> list[tuple[CellSummary, str]]:
    """Return one cell of each kind of failure or warning, with where it and others of it are.

    Texts that differ in numbers alone, such as a round, are of one kind.
    """
    kinds: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in observations.cells:
        text = text_of(cell)
        if text is not None:
            kinds.setdefault((cell.policy, _NUMBER.sub("#", text)), []).append(cell)
    found = []
    dimensions = observations.dimensions() if kinds else {}
    for first, *others in kinds.values():
        variant = observations.variants[first.environment, first.horizon]
        where = one_line(f"{first.policy} on {place_name(variant, dimensions)}")
        place = f"{where}, T = {first.horizon}, replication {first.replication}"
        n = len(others)
        more = f" and {n} more cell{'s' if n > 1 else ''}" if n else ""
        found.append((first, place + more))
    return found
