"""``bdes compare``: the results of two runs side by side, on the environments both have."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, quoted
from bdes_framework.cli.tables import estimate_text
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.experiment.summary import CellSummary, Result, estimate

_FOLDER = click.Path(path_type=Path)

_Tables: TypeAlias = dict[tuple[str, int], object]
"""The resolved tables of environments or policies, by label and horizon."""
_Place: TypeAlias = tuple[str, int, str]
"""Environment, horizon and policy."""


@click.command()
@click.argument("first", type=_FOLDER)
@click.argument("second", type=_FOLDER)
def compare(first: Path, second: Path) -> None:
    """Compare two runs on what both have: expected reward of SECOND less that of FIRST."""
    with load_run(first) as one, load_run(second) as other:
        if not _compare(one, other):
            sys.exit(1)


def _compare(one: Run, other: Run) -> bool:
    """Print the comparison; return whether the runs have anything in common."""
    shared, different = _shared(one, other)
    same_seed = _config(one)["seed"] == _config(other)["seed"]
    differences = _paired_differences(one, other) if same_seed else {}
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
    for label in different:
        click.echo(f"left out: {quoted(label)} is not the same environment in both runs", err=True)
    for remark in _differences_of_setup(one, other, shared):
        click.echo(remark, err=True)
    return bool(shared)


def _shared(one: Run, other: Run) -> tuple[list[tuple[Result, Result]], list[str]]:
    """Return the results both runs have, and the labels of environments that differ."""
    matches = {_place(result): result for result in other.results()}
    first, second = _tables(one, "environments"), _tables(other, "environments")
    shared: list[tuple[Result, Result]] = []
    different: dict[str, None] = {}
    for result in one.results():
        match = matches.get(_place(result))
        where = (result.environment, result.horizon)
        if match is not None and first.get(where) == second.get(where):
            shared.append((result, match))
        elif match is not None:
            different[result.environment] = None
    return shared, list(different)


def _differences_of_setup(
    one: Run, other: Run, shared: list[tuple[Result, Result]]
) -> Iterator[str]:
    """Yield in what the runs differ besides their results."""
    first, second = _tables(one, "policies"), _tables(other, "policies")
    places = [(before.policy, before.horizon) for before, _ in shared]
    changed = [place[0] for place in places if first.get(place) != second.get(place)]
    for label in dict.fromkeys(changed):
        yield f"policy {quoted(label)} has other parameters in the second run"
    for key in ("reveal_lam", "reveal_replenishing_arm"):
        if _config(one)[key] != _config(other)[key]:
            yield f"the runs differ in {key}"
    if one.resolved["versions"] != other.resolved["versions"]:
        yield "the runs were made with different versions of the framework or of plugins"
    if _config(one)["seed"] != _config(other)["seed"]:
        yield "the runs have different seeds, so replications are not paired"


def _config(run: Run) -> dict[str, object]:
    found: dict[str, object] = run.resolved["config"]
    return found


def _tables(run: Run, key: str) -> _Tables:
    return {(part["label"], part["horizon"]): part["table"] for part in run.resolved["config"][key]}


def _place(result: Result | CellSummary) -> _Place:
    return result.environment, result.horizon, result.policy


def _paired_differences(one: Run, other: Run) -> dict[_Place, list[float]]:
    """Return differences of replications, which share their random streams under one seed."""
    means = {(*_place(cell), cell.replication): cell.total_mean for cell in one.cells()}
    found: dict[_Place, list[float]] = {}
    for cell in other.cells():
        before = means.get((*_place(cell), cell.replication))
        if before is not None and cell.total_mean is not None:
            found.setdefault(_place(cell), []).append(cell.total_mean - before)
    return found
