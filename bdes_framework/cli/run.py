"""``bdes run``: run an experiment and print who earned what."""

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bdes_framework.experiment import Experiment, load_experiment, run_experiment
from bdes_framework.records import CellRecord
from bdes_framework.summary import Estimate, Result, summarise
from bdes_framework.text import ascii_controls


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def run(file: Path) -> None:
    """Run the experiment that FILE describes and print a table of results."""
    experiment = load_experiment(file)
    records = _run_with_progress(experiment)
    console = Console()
    console.print(_table(summarise(records)))
    failed = [record for record in records if record.error is not None]
    for record in failed:
        click.echo(
            f"failed: {_safe(record.policy)} on {_safe(record.environment)}, T = {record.horizon},"
            f" replication {record.replication}: {record.error}",
            err=True,
        )
    if failed:
        click.echo(f"bdes: {len(failed)} of {len(records)} cells failed", err=True)
        sys.exit(1)


def _run_with_progress(experiment: Experiment) -> list[CellRecord]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("cells"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        name = Text(_safe(experiment.config.name)).markup
        task = progress.add_task(name, total=len(experiment.cells))
        return run_experiment(experiment, lambda _: progress.advance(task))


def _table(results: list[Result]) -> Table:
    with_regret = any(result.regret is not None for result in results)
    table = Table(pad_edge=False, box=None, header_style="bold")
    table.add_column("Environment")
    table.add_column("T", justify="right")
    table.add_column("Policy")
    table.add_column("Reward ± 95 %", justify="right")
    table.add_column("Expected a round", justify="right")
    if with_regret:
        table.add_column("DES regret ± 95 %", justify="right")
    for result in results:
        row = [
            _safe(result.environment),
            f"{result.horizon:,}",
            _safe(result.policy),
            _text(result.reward),
            "failed" if result.mean is None else f"{result.mean.mean / result.horizon:.4f}",
        ]
        table.add_row(*map(Text, row + ([_text(result.regret)] if with_regret else [])))
    return table


def _text(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if estimate.half_width is None:
        return f"{estimate.mean:,.1f}"
    return f"{estimate.mean:,.1f} ± {estimate.half_width:,.1f}"


def _safe(text: str) -> str:
    return ascii_controls(text)
