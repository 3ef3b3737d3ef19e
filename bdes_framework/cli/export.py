"""``bdes export``: the cells or curves of a run for other programs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework.cli.options import AS_JSON, PATH, RUN, csv_text, json_text, write_data
from bdes_framework.experiment.results import load_run

_Row = Mapping[str, object]


@click.command()
@click.argument("run", type=RUN)
@click.option("--curves", is_flag=True, help="One row per cell and checkpoint: its curves.")
@click.option("--format", "form", type=click.Choice(["csv", "json", "parquet"]), default="csv")
@AS_JSON
@click.option("--out", type=PATH, help="Where to write; standard output by default.")
def export(run: Path, curves: bool, form: str, as_json: bool, out: Path | None) -> None:
    """Write the cells of RUN as CSV, JSON or Parquet, one row per cell."""
    form = "json" if as_json else form
    if form == "parquet" and out is None:
        raise click.UsageError("Parquet needs --out FILE")
    with load_run(run) as opened:
        columns = opened.curve_columns if curves else opened.columns
        rows = opened.curve_rows() if curves else opened.rows()
        if form == "parquet":
            assert out is not None
            _write_parquet(list(rows), columns, out)
            return
        text = csv_text(columns, rows) if form == "csv" else json_text(list(_nested(rows)))
    if out is None:
        write_data(text)
    else:
        replace_text(out, text)


def _nested(rows: Iterator[dict[str, object]]) -> Iterator[_Row]:
    """Yield rows with their diagnostics as objects, and what was told as a list."""
    for row in rows:
        told = str(row["told"])
        row |= {"told": told.split(", ") if told else []}
        if "diagnostics" in row:
            text = str(row["diagnostics"])
            try:
                diagnostics = json.loads(text) if text else {}
            except (ValueError, RecursionError):  # not written by us
                diagnostics = text
            row |= {"diagnostics": diagnostics}
        yield row


def _write_parquet(rows: list[dict[str, object]], columns: tuple[str, ...], out: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise click.UsageError("Parquet needs pyarrow: install 'bdes-framework[export]'") from None
    table = pyarrow.table({name: _of_one_type([row[name] for row in rows]) for name in columns})
    replace_file(out, lambda path: pyarrow.parquet.write_table(table, path))


def _of_one_type(values: list[object]) -> list[object]:
    """Return a column whose values Parquet can hold: text, if they are of several types."""
    if any(isinstance(v, str) for v in values) and any(isinstance(v, int | float) for v in values):
        return [None if value is None else str(value) for value in values]
    return values
