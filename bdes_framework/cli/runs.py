"""``bdes runs`` and ``verify``: which runs there are, and whether they are as they were written."""

import sys
from datetime import datetime
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, one_line
from bdes_framework.cli.options import AS_JSON, PATH, RUN, json_text, output, write_data
from bdes_framework.errors import BdesError
from bdes_framework.experiment.results import find_damage
from bdes_framework.experiment.reuse import RUNS, list_runs
from bdes_framework.experiment.run_files import run_overview
from bdes_framework.plugin.fingerprint import without_hash


@click.command()
@click.argument("folder", type=PATH, default=RUNS)
@AS_JSON
def runs(folder: Path, as_json: bool) -> None:
    """List the runs below FOLDER."""
    if as_json:
        write_data(json_text([_as_json(path) for path in list_runs(folder)]))
        return
    table = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Run", "Experiment"):
        table.add_column(heading, overflow="fold")
    for heading in ("Finished", "Cells", "Failed", "Version"):
        table.add_column(heading, justify="right", no_wrap=True)
    for path in list_runs(folder):
        try:
            found = run_overview(path)
        except BdesError as error:
            row = [one_line(str(error), 200), "-", "-", "-", "-"]
        else:
            cells = f"{found.n_finished:,}/{found.n_cells:,}"
            row = [found.name, local_time(found.finished), cells, f"{found.n_failed:,}"]
            # Without the hash of the code behind it: bdes compare tells that apart.
            row.append(without_hash(found.version) or "-")
        table.add_row(*(Text(ascii_controls(text)) for text in (str(path), *row)))
    output().print(table if table.row_count else Text(ascii_controls(f"no runs in {folder}")))


def local_time(moment: str) -> str:
    """Return a moment of ISO 8601 as date and minute of the local clock; a dash if it is none."""
    try:
        return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return "-"


def _as_json(path: Path) -> dict[str, object]:
    try:
        found = run_overview(path)
    except BdesError as error:
        return {"run": str(path), "error": str(error)}
    return {
        "run": str(path),
        "name": found.name,
        "finished": found.finished or None,
        "n_cells": found.n_cells,
        "n_finished": found.n_finished,
        "n_failed": found.n_failed,
        "has_checksums": found.has_checksums,
        "version": found.version or None,
        "error": None,
    }


@click.command()
@click.argument("run", type=RUN)
@AS_JSON
def verify(run: Path, as_json: bool) -> None:
    """Check that RUN is as it was written: all rows against their checksums, and its files."""
    damage = find_damage(run)
    if as_json:
        write_data(json_text({**_as_json(run), "damage": damage}))
        sys.exit(1 if damage else 0)
    for line in damage:
        click.echo(f"damaged: {ascii_controls(line)}")
    if damage:
        click.echo("bdes: running the experiment again makes damaged cells anew", err=True)
        sys.exit(1)
    found = run_overview(run)
    click.echo(ascii_controls(f"{run}: no damage in {found.n_finished:,} cells"))
    if not found.has_checksums:
        click.echo("it was made before there were checksums, so changed numbers are not noticed")
