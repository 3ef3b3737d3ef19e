"""``bdes export``: the cells or curves of a run for other programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework.cli.completion import complete_labels
from bdes_framework.cli.options import AS_JSON, PATH, RUN, csv_text, json_text, write_data
from bdes_framework.experiment.replay import chosen_cell, experiment_of, replay_cell
from bdes_framework.experiment.results import Run, load_run
from bdes_framework.simulation.crowd import CrowdTrace
from bdes_framework.simulation.loop import log_checkpoints

_Row = Mapping[str, object]

_FORMS = ("csv", "json", "parquet")
_FORMAT_HELP = "By default what the file's name ends with, or CSV."
_EXPERIMENT_HELP = "With --log: the file the run was made from, if it names local files."


@click.command()
@click.argument("run", type=RUN)
@click.option("--curves", is_flag=True, help="One row per cell and checkpoint: its curves.")
@click.option("--log", is_flag=True, help="Every round or visit of one cell, for 'bdes fit'.")
@click.option("--environment", metavar="LABEL", help="With --log: of which one.")
@click.option(
    "--policy",
    metavar="LABEL",
    help="With --log: of which one.",
    shell_complete=complete_labels("policy"),
)
@click.option("--horizon", type=int, metavar="T", help="With --log: the longest by default.")
@click.option("--replication", type=int, metavar="N", help="With --log: 0 by default.")
@click.option("--experiment", type=PATH, metavar="FILE", help=_EXPERIMENT_HELP)
@click.option("--format", "form", type=click.Choice(_FORMS), help=_FORMAT_HELP)
@AS_JSON
@click.option("--out", type=PATH, help="Where to write; standard output by default.")
def export(
    run: Path,
    curves: bool,
    log: bool,
    form: str | None,
    as_json: bool,
    out: Path | None,
    **cell: Any,
) -> None:
    """Write the cells of RUN as CSV, JSON or Parquet, one row per cell."""
    form = "json" if as_json else form or _form_of(out)
    given = [name for name, value in cell.items() if value is not None]
    if given and not log:
        raise click.UsageError(f"--{given[0]} goes with --log")
    if log and (curves or form != "csv"):
        raise click.UsageError("--log writes CSV, and no curves")
    if form == "parquet" and out is None:
        raise click.UsageError("Parquet needs --out FILE")
    with load_run(run) as opened:
        if log:
            _write_log(opened, out, **cell)
            return
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


def _form_of(out: Path | None) -> str:
    suffix = "" if out is None else out.suffix.lower().removeprefix(".")
    return suffix if suffix in _FORMS else "csv"


def _write_log(
    run: Run, out: Path | None, *, experiment: Path | None, replication: int | None, **choice: Any
) -> None:
    """Write every round or visit of a cell, which is played again, as a log.

    The visits of a user stand together, in order; a reward that was lost is left blank.
    """
    loaded = experiment_of(run, experiment)
    cell, stored = chosen_cell(run, loaded, replication=replication or 0, **choice)
    trace = replay_cell(loaded, cell, stored, log_checkpoints(cell.horizon, cell.checkpoints))
    assert trace.arms is not None
    assert trace.rewards is not None
    columns: dict[str, Sequence[object]] = {}
    order = np.arange(trace.arms.size)
    rewards = [_reward_text(reward) for reward in trace.rewards.tolist()]
    if isinstance(trace, CrowdTrace):
        assert trace.users is not None
        assert trace.lost is not None
        order = np.argsort(trace.users, kind="stable")
        columns["user"] = trace.users[order].tolist()
        for at in np.flatnonzero(trace.lost).tolist():
            rewards[at] = ""
    columns[run.step] = (order + 1).tolist()
    columns["arm"] = trace.arms[order].tolist()
    columns["reward"] = [rewards[at] for at in order.tolist()]
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows), ""])
    if out is None:
        write_data(text)
    else:
        replace_text(out, text)


def _reward_text(reward: float) -> str:
    """Return a reward as logs have it: clicks as 0 and 1."""
    return str(int(reward)) if reward in (0.0, 1.0) else repr(reward)


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
