"""``bdes run``, ``bdes check``: run an experiment, or only check its file."""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

import click
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, counted, duration, one_line
from bdes_framework.cli.completion import complete_plugins
from bdes_framework.cli.options import (
    AS_JSON,
    PATH,
    echo,
    json_text,
    output,
    print_facts,
    write_data,
)
from bdes_framework.cli.progress import Progress, progress
from bdes_framework.cli.report import need_charts, write_report
from bdes_framework.cli.show import show_run
from bdes_framework.cli.signals import exit_code, signals_stop
from bdes_framework.experiment.cell import Cell, CellResult, Part
from bdes_framework.experiment.file import Experiment, load_experiment
from bdes_framework.experiment.replay import (
    ReplayError,
    spread_cells,
    verify_cell,
    why_not_verified,
)
from bdes_framework.experiment.result_table import Step, shown_value
from bdes_framework.experiment.run import run_experiment, run_folder
from bdes_framework.experiment.summary import CellSummary
from bdes_framework.experiment.time_left import StepsLeft, TimeLeft
from bdes_framework.interfaces import Reference
from bdes_framework.plugin.fingerprint import ChangedCodeError
from bdes_framework.report.data import RunData

_MOST_TOLD = 10.0
"""How many times the least that is possible the most may be, in a range that is told."""
_DEFAULT_FILE = "experiment.toml"
"""What ``bdes init`` writes."""


def _default_file(
    context: click.Context, parameter: click.Parameter, given: Path | None
) -> Path | None:
    """Return the experiment's file: the one given, or the one that lies here."""
    if given is not None or context.resilient_parsing:
        return given
    file = Path(_DEFAULT_FILE)
    if not file.exists():
        raise click.UsageError(
            f"there is no {_DEFAULT_FILE} here: name a FILE, or let 'bdes init' write one"
        )
    return file


_FILE = click.argument("file", type=PATH, required=False, callback=_default_file)
_VERIFY = click.option(
    "--verify",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Play N cells again, twice, to find what is not deterministic.",
)


@click.command()
@_FILE
@click.option("--out", type=PATH, help="The run's folder.")
@click.option(
    "--engine",
    metavar="NAME",
    help="Engine for the cells: serial, processes, dask.",
    shell_complete=complete_plugins("engine"),
)
@click.option("--workers", type=click.IntRange(min=1), help="How many workers the engine starts.")
@click.option("--retry-failed", is_flag=True, help="Run cells that failed before again.")
@click.option("--no-reuse", is_flag=True, help="Take no cells from other runs of the experiment.")
@click.option("--report", is_flag=True, help="Write an HTML page with charts, too.")
@_VERIFY
@click.option("--quiet", "-q", is_flag=True, help="Print the answer and what went wrong, only.")
@click.option("--verbose", "-v", is_flag=True, help="Say which code plays what, and how fast.")
@AS_JSON
def run(
    file: Path,
    out: Path | None,
    engine: str | None,
    workers: int | None,
    retry_failed: bool,
    no_reuse: bool,
    report: bool,
    verify: int,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run the experiment FILE describes, or go on with it, and print a table of results.

    Without FILE, the experiment.toml that lies here.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose: choose one of them")
    if report:
        need_charts()
    with progress("run", quiet=quiet, verbose=verbose) as shown:
        shown.begin("loading")
        experiment = load_experiment(file)
        folder = run_folder(experiment, out)
        chosen: Reference = engine or experiment.config.engine
        if workers is not None:
            table = dict(chosen) if isinstance(chosen, Mapping) else {"use": chosen}
            chosen = {**table, "workers": workers}
        playing = _Playing(shown, experiment, chosen, verbose=verbose)
        try:
            with signals_stop():
                finished = run_experiment(
                    experiment,
                    out=folder,
                    engine=chosen,
                    retry_failed=retry_failed,
                    reuse=not no_reuse,
                    on_note=lambda note: None if quiet else echo(note, err=True),
                    on_start=playing.start,
                    on_cell=playing.finish_cell,
                    on_benchmark=playing.plan,
                )
        except ChangedCodeError as error:
            echo(f"bdes: error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt as stop:
            with suppress(OSError):  # of a terminal that hung up
                echo(f"\nbdes: stopped; finished cells are in {folder}", err=True)
                echo("run the same command to go on", err=True)
            sys.exit(exit_code(stop))
    for line in playing.summary() if verbose else ():
        echo(line, err=True)
    with finished:
        data = RunData(finished) if report else None
        cells = data.cells if data else finished.cells()
        status = show_run(finished, cells, form="json" if as_json else "text", quiet=quiet)
        with redirect_stdout(sys.stderr) if as_json else nullcontext():  # JSON is alone there
            if data:
                write_report(data, experiment=experiment, quiet=quiet)
            verified = not verify or _verify(experiment, verify, cells)
        if not verified:
            status = 1
    sys.exit(status)


def _verify(experiment: Experiment, n: int, stored: Sequence[CellSummary] = ()) -> bool:
    """Play some cells twice; print what is not the same, and return whether nothing is wrong."""
    known = {(c.environment, c.policy, c.horizon, c.replication): c for c in stored}
    by_reason: dict[str, list[Cell]] = {}
    for cell in experiment.cells:
        by_reason.setdefault(why_not_verified(cell, known.get(_place(cell))), []).append(cell)
    wrong = 0
    chosen = spread_cells(by_reason.pop("", []), n)
    with progress() as shown:
        shown.begin("playing cells again", len(chosen), lambda: f"{shown.done}/{len(chosen)}")
        for done, cell in enumerate(chosen, start=1):
            try:
                difference = verify_cell(experiment, cell, known.get(_place(cell)))
                message = f"not deterministic: {one_line(difference)}" if difference else ""
            except ReplayError as error:
                message = f"not verified: {one_line(str(error))}"
            if message:
                echo(message, err=True)
                wrong += 1
            shown.advance(done)
    # Said where fewer cells than asked for could be played.
    for reason, cells in by_reason.items() if len(chosen) < n else ():
        echo(f"not verified: {counted(len(cells), 'cell')}: {reason}", err=True)
    if len(chosen) > wrong:
        step = _step(experiment)
        played = counted(len(chosen) - wrong, "cell")
        echo(f"{played} played again: the same, {step} by {step}")
    return not wrong


def _step(experiment: Experiment) -> Step:
    """Return what horizons count."""
    return "visit" if experiment.is_crowd else "round"


def _place(cell: Cell) -> tuple[str, str, int, int]:
    return cell.environment.label, cell.policy.label, cell.horizon, cell.replication


def _rounded(number: float) -> str:
    """Return a number with a unit, such as 350, 12 k, 3.4 M."""
    for unit, size in ((" M", 1e6), (" k", 1e3)):
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f}{unit}"
    return f"{number:.0f}"


class _Playing:
    """Tells how far a run is and how long it will take; with ``verbose``, what it is made of."""

    def __init__(
        self, shown: Progress, experiment: Experiment, engine: Reference, *, verbose: bool
    ) -> None:
        self._shown = shown
        self._experiment = experiment
        self._engine = engine
        self._verbose = verbose
        self._steps = "visits" if experiment.is_crowd else "pulls"
        self._time_left = TimeLeft(())
        self._planning_left = StepsLeft(0)
        self._begin = time.monotonic()
        self._first = self._pulls = self._failures = 0
        self._spent: dict[str, tuple[int, int, float]] = {}
        """Cells, pulls and seconds of each policy."""

    def start(self, total: int, left: Sequence[Cell]) -> None:
        """Begin to play what is left."""
        workers = _workers(self._experiment, self._engine)
        self._first = total - len(left)
        if self._verbose:
            for line in self._description(total, left, workers):
                echo(line, err=True)
        if left:
            self._time_left = TimeLeft(((c.policy.label, c.horizon) for c in left), workers)
            # The time to compile does not count.
            self._begin = time.monotonic() - self._shown.compiling.seconds
            self._shown.begin("playing", total, self._played)
            self._shown.advance(total - len(left))

    def finish_cell(self, cell: Cell, result: CellResult) -> None:
        """Take note of a finished cell."""
        failed = bool(result.error)
        self._failures += failed
        n_played = 0 if failed else int(result.counts.sum())
        self._pulls += n_played
        label = cell.policy.label
        seconds = None if failed else result.seconds
        self._time_left.finish(label, cell.horizon, seconds, is_first=result.is_first)
        cells, pulls, spent = self._spent.get(label, (0, 0, 0.0))
        self._spent[label] = (cells + 1, pulls + n_played, spent + result.seconds)
        self._shown.advance(self._shown.done + 1)

    def plan(self, total: int, done: int) -> None:
        """Take note of benchmarks that are planned, of those that are to be."""
        if total and not done:
            workers = _workers(self._experiment, self._engine)
            self._planning_left = StepsLeft(total, workers)
            self._shown.begin("planning benchmarks", total, self._planned)
        elif total:
            self._planning_left.finish(done)
            self._shown.advance(done)

    def summary(self) -> Iterator[str]:
        """Yield what each policy took, a line each."""
        for label, (cells, pulls, seconds) in self._spent.items():
            rate = f", {_rounded(pulls / seconds)} {self._steps}/s" if seconds else ""
            yield f"{one_line(label, 80)}: {counted(cells, 'cell')}, {seconds:.2f} s{rate}"

    def _played(self) -> str:
        texts = [f"{self._shown.done:,}/{self._shown.total:,} cells"]
        if self._shown.compiling.is_running:  # no time is known while nothing is played
            return texts[0]
        if self._shown.done == self._first:  # in workers, too, of which this process sees nothing
            return f"{texts[0]}, the first ones load code"
        seconds = time.monotonic() - self._begin - self._shown.compiling.seconds
        if self._pulls and seconds > 0:
            texts.append(f"{_rounded(self._pulls / seconds)} {self._steps}/s")
        if self._failures:
            texts.append(f"{self._failures:,} failed")
        if self._shown.done < self._shown.total:
            texts.append(time_left_text(self._time_left.seconds()))
        return ", ".join(texts)

    def _planned(self) -> str:
        done, total = self._shown.done, self._shown.total
        text = f"{done:,}/{total:,}"
        if done in (0, total):
            return text
        return f"{text}, {time_left_text(self._planning_left.seconds())}"

    def _description(self, total: int, left: Sequence[Cell], workers: int) -> Iterator[str]:
        """Yield which engine and which code there is, and which cells are played, a line each."""
        engine = self._engine["use"] if isinstance(self._engine, Mapping) else self._engine
        yield f"engine {engine}, {counted(workers, 'worker')}"
        for name, version in self._experiment.versions.items():
            yield f"{one_line(name)} {one_line(version.partition('+')[0])}"
        yield f"{counted(total - len(left), 'cell')} finished before, {len(left):,} to play"
        for label, n in Counter(cell.policy.label for cell in left).items():
            yield f"{one_line(label, 80)}: {counted(n, 'cell')} to play"


def time_left_text(left: tuple[float, float] | None) -> str:
    """Return a range of seconds in words: as one number if it is narrow, as none if too wide."""
    if left is None or left[1] > _MOST_TOLD * max(left[0], 1.0):
        return "measuring the time left"
    low, high = (max(seconds, 1.0) for seconds in left)
    if high <= 2 * low:
        return f"{duration(math.sqrt(low * high))} left"
    return f"{duration(low)} to {duration(high)} left"


def _workers(experiment: Experiment, engine: Reference) -> int:
    """Return how many cells an engine plays at once, as far as that is known."""
    if getattr(experiment.plugins.engine(engine), "in_process", False):
        return 1
    given = engine.get("workers") if isinstance(engine, Mapping) else None
    return given if isinstance(given, int) else os.cpu_count() or 1


@click.command()
@_FILE
@_VERIFY
@AS_JSON
def check(file: Path, verify: int, as_json: bool) -> None:
    """Check everything in FILE without running it: plugins, parameters, sizes.

    Without FILE, the experiment.toml that lies here.
    """
    experiment = load_experiment(file)
    cells = experiment.cells
    counts = {
        **_environment_counts([cell.environment for cell in cells]),
        "policies": len({c.policy.label for c in cells}),
        "horizons": len(experiment.config.horizons),
        "replications": experiment.config.replications,
        "cells": len(cells),
        "visits, at most" if experiment.is_crowd else "pulls": sum(cell.horizon for cell in cells),
    }
    folder = str(run_folder(experiment))
    if as_json:
        write_data(json_text({"file": str(file), "folder": folder, "counts": counts}))
    else:
        console = output()
        console.print(Text(ascii_controls(f"{file}: no mistakes"), style="green"))
        rows = {name: f"{count:,}" for name, count in counts.items()} | {"folder": folder}
        print_facts(console, rows.items())
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        if verify and not _verify(experiment, verify):
            sys.exit(1)


def _environment_counts(parts: Sequence[Part]) -> dict[str, int]:
    """Return how many environments there are, and, where there are several, of what varies."""
    names = [part.source or part.label for part in parts]
    instances = {(name, part.instance) for name, part in zip(names, parts, strict=True)}
    found = {"environments": len(set(names))}
    if len(instances) > len(set(names)):
        found["instances"] = len(instances)
    for name in dict.fromkeys(name for part in parts for name in part.varies):
        values = {part.varies[name] for part in parts if name in part.varies}
        if len(values) > 1:
            found[f"values of {shown_value(name)}"] = len(values)
    return found
