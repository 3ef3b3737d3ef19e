"""``bdes run``, ``bdes check``: run an experiment, or only check its file."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, one_line
from bdes_framework.cli.options import PATH, echo, fact_table
from bdes_framework.cli.report import need_charts, write_report
from bdes_framework.cli.runs import show_run
from bdes_framework.experiment.cell import Cell, CellResult
from bdes_framework.experiment.file import Experiment, load_experiment
from bdes_framework.experiment.replay import (
    ReplayError,
    spread_cells,
    verify_cell,
    why_not_verified,
)
from bdes_framework.experiment.results import Run
from bdes_framework.experiment.run import run_experiment, run_folder
from bdes_framework.experiment.summary import CellSummary
from bdes_framework.interfaces import Reference
from bdes_framework.plugin.fingerprint import ChangedCodeError
from bdes_framework.report.data import RunData

_VERIFY = click.option(
    "--verify",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Play N cells again, twice, to find what is not deterministic.",
)


@click.command()
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, help="The run's folder.")
@click.option("--engine", metavar="NAME", help="Engine for the cells: serial, processes, dask.")
@click.option("--workers", type=click.IntRange(min=1), help="How many workers the engine starts.")
@click.option("--retry-failed", is_flag=True, help="Run cells that failed before again.")
@click.option("--no-reuse", is_flag=True, help="Take no cells from other runs of the experiment.")
@click.option("--report", is_flag=True, help="Write an HTML page with charts, too.")
@_VERIFY
def run(
    file: Path,
    out: Path | None,
    engine: str | None,
    workers: int | None,
    retry_failed: bool,
    no_reuse: bool,
    report: bool,
    verify: int,
) -> None:
    """Run the experiment FILE describes, or go on with it, and print a table of results."""
    if report:
        need_charts()
    experiment = load_experiment(file)
    folder = run_folder(experiment, out)
    chosen: Reference = engine or experiment.config.engine
    if workers is not None:
        table = dict(chosen) if isinstance(chosen, Mapping) else {"use": chosen}
        chosen = {**table, "workers": workers}
    try:
        with _signals_stop():
            finished = _run_with_progress(
                experiment, folder, chosen, retry_failed=retry_failed, reuse=not no_reuse
            )
    except ChangedCodeError as error:
        echo(f"bdes: error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt as stop:
        with suppress(OSError):  # of a terminal that hung up
            echo(f"\nbdes: stopped; finished cells are in {folder}", err=True)
            echo("run the same command to go on", err=True)
        sys.exit(128 + (stop.number if isinstance(stop, _Stopped) else signal.SIGINT))
    with finished:
        data = RunData(finished) if report else None
        status = show_run(finished, data.cells if data else None)
        if data:
            write_report(data, experiment=experiment)
        if verify and not _verify(experiment, verify, finished.cells()):
            status = 1
    sys.exit(status)


def _verify(experiment: Experiment, n: int, stored: Sequence[CellSummary] = ()) -> bool:
    """Play some cells twice; print what is not the same, and return whether nothing is wrong."""
    known = {(c.environment, c.policy, c.horizon, c.replication): c for c in stored}
    by_reason: dict[str, list[Cell]] = {}
    for cell in experiment.cells:
        by_reason.setdefault(why_not_verified(cell, known.get(_place(cell))), []).append(cell)
    same = wrong = 0
    chosen = spread_cells(by_reason.pop("", []), n)
    for cell in chosen:
        try:
            difference = verify_cell(experiment, cell, known.get(_place(cell)))
        except ReplayError as error:
            echo(f"not verified: {one_line(str(error))}", err=True)
            wrong += 1
            continue
        same += not difference
        wrong += bool(difference)
        if difference:
            echo(f"not deterministic: {one_line(difference)}", err=True)
    # Said where fewer cells than asked for could be played.
    for reason, cells in by_reason.items() if len(chosen) < n else ():
        echo(f"not verified: {_counted(len(cells))}: {reason}", err=True)
    if same:
        echo(f"{_counted(same)} played again: the same, round by round")
    return not wrong


def _place(cell: Cell) -> tuple[str, str, int, int]:
    return cell.environment.label, cell.policy.label, cell.horizon, cell.replication


def _counted(n: int) -> str:
    return f"{n:,} cell" if n == 1 else f"{n:,} cells"


class _Stopped(KeyboardInterrupt):
    """A signal that asks the run to stop, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def _signals_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop the run, unless they are ignored, as under nohup."""
    numbers = [signal.SIGTERM, signal.SIGHUP]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(number)


def _rounded(number: float) -> str:
    """Return a number with a unit, such as 350, 12 k, 3.4 M."""
    for unit, size in ((" M", 1e6), (" k", 1e3)):
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f}{unit}"
    return f"{number:.0f}"


def _run_with_progress(
    experiment: Experiment, folder: Path, engine: Reference, *, retry_failed: bool, reuse: bool
) -> Run:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        TimeRemainingColumn(),
    )
    pulls, failures, begin = 0, 0, time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        name = ascii_controls(experiment.config.name)[:30]
        task = progress.add_task(name, total=None, status="cells")
        plans = progress.add_task("best sequences", visible=False, status="planned")

        def on_start(total: int, done: int) -> None:
            progress.update(task, total=total, completed=done)

        def on_cell(cell: Cell, result: CellResult) -> None:
            nonlocal pulls, failures
            pulls += 0 if result.error else cell.horizon
            failures += bool(result.error)
            rate = _rounded(pulls / max(time.monotonic() - begin, 1e-3))
            status = f"cells, {rate} pulls/s" + (f", {failures} failed" if failures else "")
            progress.update(task, advance=1, status=status)

        def on_benchmark(total: int, done: int) -> None:
            # No more cells come from here on, so their rate is no longer updated.
            progress.stop_task(task)
            progress.update(plans, total=total, completed=done, visible=total > 0)

        return run_experiment(
            experiment,
            out=folder,
            engine=engine,
            retry_failed=retry_failed,
            reuse=reuse,
            on_note=lambda note: echo(note, err=True),
            on_start=on_start,
            on_cell=on_cell,
            on_benchmark=on_benchmark,
        )


@click.command()
@click.argument("file", type=PATH)
@_VERIFY
def check(file: Path, verify: int) -> None:
    """Check everything in FILE without running it: plugins, parameters, sizes."""
    experiment = load_experiment(file)
    cells = experiment.cells
    pulls = sum(cell.horizon for cell in cells)
    # From 10 ns per pull of compiled policies to 10 µs of plain Python ones that decide each round.
    low, high = (_duration(pulls * seconds + len(cells) * 1e-3) for seconds in (1e-8, 1e-5))
    duration = f"{low} with compiled policies, up to {high} with plain Python ones"
    if experiment.config.benchmark is not False:
        duration += "; besides, planning the benchmark"
    counts = {
        "environments": len({c.environment.label for c in cells}),
        "policies": len({c.policy.label for c in cells}),
        "horizons": len(experiment.config.horizons),
        "replications": experiment.config.replications,
        "cells": len(cells),
        "pulls": pulls,
    }
    rows = {name: f"{count:,}" for name, count in counts.items()}
    rows |= {"folder": str(run_folder(experiment)), "time": duration}
    console = Console()
    console.print(Text(ascii_controls(f"{file}: no mistakes"), style="green"))
    console.print(fact_table(rows.items()))
    if verify and not _verify(experiment, verify):
        sys.exit(1)


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"
