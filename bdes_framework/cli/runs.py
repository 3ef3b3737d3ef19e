"""``bdes runs``, ``show``, ``export``, ``compare``: what was run, and what came out."""

import csv
import io
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework.cli.files import replace_file
from bdes_framework.cli.run import show_run
from bdes_framework.cli.tables import estimate_text
from bdes_framework.errors import BdesError
from bdes_framework.results import COLUMNS, Run, load_run
from bdes_framework.runs import RUNS, list_runs
from bdes_framework.summary import Result, estimate
from bdes_framework.text import ascii_controls, one_line

_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=_FOLDER, default=RUNS)
def runs(folder: Path) -> None:
    """List the runs below FOLDER."""
    table = Table(pad_edge=False, box=None, header_style="bold")
    for heading, justify in (("Run", "left"), ("Experiment", "left"), ("Cells", "right")):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    for path in list_runs(folder):
        try:
            found = load_run(path)
            row = [str(path), ascii_controls(found.name), f"{len(found.cells())}/{found.n_cells}"]
            found.close()
        except BdesError as error:
            row = [str(path), one_line(str(error), 60), "-"]
        table.add_row(*map(Text, row))
    Console().print(table if table.row_count else Text(f"no runs in {folder}"))


@click.command()
@click.argument("run", type=_FOLDER)
def show(run: Path) -> None:
    """Print the table of results of RUN again."""
    sys.exit(show_run(run))


@click.command()
@click.argument("run", type=_FOLDER)
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet"]), default="csv")
@click.option("--out", type=_FOLDER, help="Where to write; standard output by default.")
def export(run: Path, form: str, out: Path | None) -> None:
    """Write the cells of RUN as CSV, JSON or Parquet, a row a cell."""
    found = load_run(run)
    rows = list(found.rows())
    found.close()
    if form == "parquet":
        _write_parquet(rows, out)
        return
    text = io.StringIO()
    if form == "json":
        json.dump(rows, text, indent=1)
        text.write("\n")
    else:
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    if out is None:
        click.echo(text.getvalue(), nl=False)
    else:
        replace_file(out, lambda path: path.write_text(text.getvalue(), encoding="utf-8"))


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
@click.argument("first", type=_FOLDER)
@click.argument("second", type=_FOLDER)
def compare(first: Path, second: Path) -> None:
    """Compare two runs where they meet: expected reward of SECOND less that of FIRST."""
    one, other = load_run(first), load_run(second)
    table = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Environment", "T", "Policy", "First", "Second", "Difference ± 95 %"):
        table.add_column(
            heading, justify="left" if heading in ("Environment", "Policy") else "right"
        )
    shared = one.resolved["config"]["seed"] == other.resolved["config"]["seed"]
    differences = _paired(one, other) if shared else {}
    seconds = {_place(result): result for result in other.results()}
    for result in one.results():
        match = seconds.get(_place(result))
        if match is None:
            continue
        row = [
            ascii_controls(result.environment),
            f"{result.horizon:,}",
            ascii_controls(result.policy),
            estimate_text(result.mean),
            estimate_text(match.mean),
            estimate_text(estimate(differences.get(_place(result), []))),
        ]
        table.add_row(*map(Text, row))
    Console().print(table if table.row_count else Text("the runs have no cells in common"))
    if not shared:
        click.echo(
            "the runs have different seeds: their luck differs, so nothing is paired", err=True
        )


def _place(result: Result) -> tuple[str, int, str]:
    return result.environment, result.horizon, result.policy


def _paired(one: Run, other: Run) -> dict[tuple[str, int, str], list[float]]:
    """Return differences replication by replication: they share their luck under one seed."""
    means = {(c.environment, c.horizon, c.policy, c.replication): c.total_mean for c in one.cells()}
    found: dict[tuple[str, int, str], list[float]] = {}
    for cell in other.cells():
        before = means.get((cell.environment, cell.horizon, cell.policy, cell.replication))
        if before is not None and cell.total_mean is not None:
            place = (cell.environment, cell.horizon, cell.policy)
            found.setdefault(place, []).append(cell.total_mean - before)
    return found
