"""``bdes live status``, ``replay`` and ``export``: what is in a live learner's journal."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.files import replace_file
from bdes_framework._internal.text import ascii_controls, counted, printable
from bdes_framework.cli.lift_table import show_lift
from bdes_framework.cli.options import AS_JSON, PATH, echo, inert, json_text, output, write_data
from bdes_framework.interfaces import CrowdEstimates, Journal
from bdes_framework.live.config import LiveSetup, load_live
from bdes_framework.live.export import COLUMNS, LogRow, log_rows, undamaged_rows
from bdes_framework.live.header import Header
from bdes_framework.live.replay import replay_live
from bdes_framework.live.state import read_state
from bdes_framework.live.status import LiveStatus, ProcessStatus, status_of, view_of
from bdes_framework.planning.lift import Lift, lift_text

_PART = 100_000
_UNDAMAGED_HELP = (
    "Write what can still be read of a damaged journal. Rewards are those that were told; nothing"
    " is settled by the default, as a reward may be among what is gone."
)


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[LiveSetup, Journal]]:
    """Open a journal to read it, while another process may write it."""
    setup = load_live(folder)
    journal = setup.plugins.journal(setup.journal)
    try:
        yield setup, journal
    finally:
        journal.close()


@click.command()
@click.argument("folder", type=PATH)
@AS_JSON
def status(folder: Path, as_json: bool) -> None:
    """Say whether FOLDER's learner learns, what it shows, and what it earns more than others.
    It may be running meanwhile.
    """
    with _opened(folder) as (setup, journal):
        state = read_state(setup, Header.read(journal.open()), journal)
        found = status_of(setup, state, ProcessStatus())
        view = view_of(state)
        table = None if view is None else view.table(setup.plugins)
        lift = None if view is None or table is None else view.lift(table)
    if as_json:
        write_data(json_text(_as_json(found, None if view is None else view.estimates, lift)))
        return
    console = output()
    console.print(Text(printable(_answer(found, lift))))
    if found.decisions:
        console.print()
        console.print(_arms(found, None if view is None else view.estimates))
    if lift is not None:
        console.print()
        show_lift(console, lift)


def _answer(found: LiveStatus, lift: Lift | None) -> str:
    """Return in a sentence or two how it is doing."""
    if not found.decisions:
        return f"{found.name} has decided nothing yet."
    known = f"{counted(found.decisions, 'decision')} for {counted(found.users, 'user')}"
    said = f"{found.name} made {known}, and knows {counted(found.rewards, 'reward')}"
    if found.models:
        newest = found.models[-1]
        made = datetime.fromtimestamp(newest.time, UTC).astimezone()
        said += f"; its newest model, number {newest.number}, is of {made:%Y-%m-%d %H:%M}"
    over = None if lift is None else lift.over("best-fixed")
    if over is None or over.lift is None:
        return f"{said}."
    return f"{said}.\nIt earns {lift_text(over.lift)} more than showing {over.title}."


def _arms(found: LiveStatus, estimates: CrowdEstimates | None) -> Table:
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("Arm", overflow="fold")
    for heading in ("Shown", "Mean reward", "Pays (r)", "Leads to (b)"):
        table.add_column(heading, justify="right", no_wrap=True)
    for arm in found.arms:
        name = arm.name + ("" if arm.is_active else " (retired)")
        mean = "-" if arm.mean_reward is None else f"{arm.mean_reward:.4f}"
        row = [name, f"{arm.shown / found.decisions:.1%}", mean, "-", "-"]
        if estimates is not None and arm.number < estimates.r.shape[1]:
            parts = (estimates.r[:, arm.number], estimates.b[:, arm.number])
            row[3:] = [f"{at:.2f} ({low:.2f} to {high:.2f})" for at, low, high in parts]
        table.add_row(*(Text(ascii_controls(text)) for text in row))
    return table


def _as_json(
    found: LiveStatus, estimates: CrowdEstimates | None, lift: Lift | None
) -> dict[str, object]:
    content = found.as_json()
    content["estimates"] = None
    if estimates is not None:
        parts = {name: getattr(estimates, name).tolist() for name in ("r", "b", "lam")}
        content["estimates"] = {
            **parts,
            "q0": estimates.q0,
            "visits": 1 / (1 - estimates.continuation),
        }
    content["lift"] = None if lift is None else lift.as_json()
    return content


@click.command()
@click.argument("folder", type=PATH)
def replay(folder: Path) -> None:
    """Decide and learn again all that FOLDER's journal has, and compare; 1 if something differs."""
    with _opened(folder) as (setup, journal):
        report = replay_live(setup, journal)
    if report.difference is not None:
        echo(f"not the same: {report.difference}")
        sys.exit(1)
    decisions, models = counted(report.decisions, "decision"), counted(report.models, "model")
    echo(f"all {decisions} and {models} are the same")


@click.command()
@click.argument("folder", type=PATH)
@click.argument("file", type=PATH)
@click.option("--undamaged", is_flag=True, help=_UNDAMAGED_HELP)
def export(folder: Path, file: Path, undamaged: bool) -> None:
    """Write all decisions of FOLDER's journal to FILE: CSV, or Parquet if it ends so.
    Columns are user, time, arm, reward and propensity. Users are numbers.
    """
    write = _write_parquet if file.suffix == ".parquet" else _write_csv
    with _opened(folder) as (setup, journal):
        if undamaged:
            rows = undamaged_rows(journal, setup.config.arms)
        else:
            journal.open()
            rows = log_rows(journal)
        replace_file(file, lambda path: write(rows, path))
        damage = journal.check() if undamaged else []
    for line in damage:
        echo(f"damaged: {line}", err=True)
    echo(f"wrote {file}; next: bdes fit {file} --user user --order time --propensity propensity")


def _write_csv(rows: Iterator[LogRow], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for row in rows:
            reward = "" if row.reward is None else row.reward
            writer.writerow((row.user, repr(row.time), inert(row.arm), reward, row.propensity))


def _write_parquet(rows: Iterator[LogRow], path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise click.UsageError("Parquet needs pyarrow: install 'bdes-framework[export]'") from None
    kinds = (pyarrow.int64(), pyarrow.float64(), pyarrow.string(), pyarrow.float64())
    schema = pyarrow.schema(list(zip(COLUMNS, (*kinds, pyarrow.float64()), strict=True)))
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        while part := list(islice(rows, _PART)):
            columns = [list(column) for column in zip(*part, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
