"""``bdes compare``: two runs side by side, where they played the same environments."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, quoted
from bdes_framework.cli.tables import estimate_text
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.experiment.summary import Result, estimate

_FOLDER = click.Path(path_type=Path)

Tables = dict[tuple[str, int], object]
"""What a label stands for at a horizon: what it uses, with every parameter."""


@click.command()
@click.argument("first", type=_FOLDER)
@click.argument("second", type=_FOLDER)
def compare(first: Path, second: Path) -> None:
    """Compare two runs where they meet: expected reward of SECOND less that of FIRST."""
    one, other = load_run(first), load_run(second)
    shared, strangers = _shared(one, other)
    same_seed = _config(one)["seed"] == _config(other)["seed"]
    differences = _paired(one, other) if same_seed else {}
    table = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Environment", "T", "Policy", "First", "Second", "Difference ± 95 %"):
        is_label = heading in ("Environment", "Policy")
        table.add_column(
            heading,
            justify="left" if is_label else "right",
            overflow="fold" if is_label else "ellipsis",
            no_wrap=not is_label,
        )
    for before, after in shared:
        row = [
            ascii_controls(before.environment),
            f"{before.horizon:,}",
            ascii_controls(before.policy),
            estimate_text(before.mean),
            estimate_text(after.mean),
            estimate_text(estimate(differences.get(_place(before), []))),
        ]
        table.add_row(*map(Text, row))
    Console().print(table if table.row_count else Text("the runs have no cells in common"))
    for remark in _remarks(one, other, shared, strangers, same_seed):
        click.echo(remark, err=True)
    one.close()
    other.close()
    if not shared:
        sys.exit(1)


def _shared(one: Run, other: Run) -> tuple[list[tuple[Result, Result]], list[str]]:
    """Return what both runs have, and the labels that stand for different environments."""
    seconds = {_place(result): result for result in other.results()}
    ours, theirs = _tables(one, "environments"), _tables(other, "environments")
    shared: list[tuple[Result, Result]] = []
    strangers: dict[str, None] = {}
    for result in one.results():
        match = seconds.get(_place(result))
        if match is None:
            continue
        where = (result.environment, result.horizon)
        if ours.get(where) == theirs.get(where):
            shared.append((result, match))
        else:
            strangers[result.environment] = None
    return shared, list(strangers)


def _remarks(
    one: Run,
    other: Run,
    shared: list[tuple[Result, Result]],
    strangers: list[str],
    same_seed: bool,
) -> Iterator[str]:
    """Say what a reader of the numbers must know."""
    for label in strangers:
        yield f"left out: {quoted(label)} is not the same environment in both runs"
    ours, theirs = _tables(one, "policies"), _tables(other, "policies")
    places = [(before.policy, before.horizon) for before, _ in shared]
    changed = [place[0] for place in places if ours.get(place) != theirs.get(place)]
    for label in dict.fromkeys(changed):
        yield f"policy {quoted(label)} has other parameters in the second run"
    for key in ("reveal_lam", "reveal_replenishing_arm"):
        if _config(one)[key] != _config(other)[key]:
            yield f"the runs differ in {key}"
    if one.resolved["versions"] != other.resolved["versions"]:
        yield "the runs were made with different versions of the framework or of plugins"
    if not same_seed:
        yield "the runs have different seeds: their luck differs, so nothing is paired"


def _config(run: Run) -> dict[str, object]:
    found: dict[str, object] = run.resolved["config"]
    return found


def _tables(run: Run, key: str) -> Tables:
    return {(part["label"], part["horizon"]): part["table"] for part in run.resolved["config"][key]}


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
