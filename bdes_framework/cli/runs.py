"""``bdes runs``, ``show``, ``export``: list runs, print and export their results."""

import csv
import io
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework._internal.text import ascii_controls, one_line
from bdes_framework.cli.run import show_run
from bdes_framework.errors import BdesError
from bdes_framework.experiment.results import COLUMNS, load_run
from bdes_framework.experiment.run import RUNS, list_runs

_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=_FOLDER, default=RUNS)
def runs(folder: Path) -> None:
    """List the runs below FOLDER."""
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("Run")
    table.add_column("Experiment")
    table.add_column("Cells", justify="right")
    for path in list_runs(folder):
        shown = ascii_controls(str(path))
        try:
            with load_run(path) as run:
                row = [shown, ascii_controls(run.name), f"{len(run.cells())}/{run.n_cells}"]
        except BdesError as error:
            row = [shown, one_line(str(error), 60), "-"]
        table.add_row(*map(Text, row))
    Console().print(table if table.row_count else Text(ascii_controls(f"no runs in {folder}")))


@click.command()
@click.argument("run", type=_FOLDER)
@click.option("--traceback", is_flag=True, help="Show where failed cells failed.")
def show(run: Path, traceback: bool) -> None:
    """Print the table of results of RUN again."""
    with load_run(run) as opened:
        status = show_run(opened, tracebacks=traceback)
    sys.exit(status)


@click.command()
@click.argument("run", type=_FOLDER)
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet"]), default="csv")
@click.option("--out", type=_FOLDER, help="Where to write; standard output by default.")
def export(run: Path, form: str, out: Path | None) -> None:
    """Write the cells of RUN as CSV, JSON or Parquet, one row per cell."""
    with load_run(run) as opened:
        rows = list(opened.rows())
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
        _print(text.getvalue())
    else:
        replace_text(out, text.getvalue())


def _print(text: str) -> None:
    """Write to standard output, control characters escaped only for a terminal."""
    if sys.stdout.isatty():
        text = "".join(f"{ascii_controls(line)}\n" for line in text.splitlines())
    sys.stdout.write(text)  # click.echo would cut escape sequences out of the data


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
