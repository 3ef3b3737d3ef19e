"""``bdes fit``: estimate the arms of a log, print them, and write them to a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from attrs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, counted, listed, quoted
from bdes_framework.cli.options import (
    AS_JSON,
    PATH,
    TEXT_PATH,
    echo,
    json_text,
    output,
    print_facts,
    write_data,
)
from bdes_framework.cli.progress import progress
from bdes_framework.cli.signals import signals_stop
from bdes_framework.experiment.arms import fitted_arms, write_arms
from bdes_framework.fitting.fit import fit as fit_log
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import RatePrediction
from bdes_framework.fitting.readers import read_log
from bdes_framework.fitting.result import ARM_HEADINGS, Fit
from bdes_framework.fitting.rows import BadRows, Columns
from bdes_framework.model.instance import as_rate, as_state

_USER_HELP = "Whose state it was; without it the log is one sequence."
_ORDER_HELP = "Numbers or moments by which a user's rows are sorted."
_PROPENSITY_HELP = "How probable it was that the arm was chosen."
_STRATA_HELP = "Groups of rows in which any arm might have been chosen."
_QUERY_HELP = "The rows of a database: one SELECT."
_ENCODING_HELP = "How CSV is written."
_STRICT_HELP = "Refuse a log with bad rows; up to 1 % are left out otherwise."
_DEVIATION_HELP = "--lam is only a prediction, with this deviation of its logit."
_STATE_HELP = "The state each sequence begins at, or 'unknown'."
_OUT_HELP = "Write a .toml or .json file, for 'bdes plan' and experiments."


@click.command()
@click.argument("log", type=TEXT_PATH)
@click.option("--arm", default="arm", show_default=True, metavar="COLUMN", help="The arm played.")
@click.option("--reward", default="reward", show_default=True, metavar="COLUMN", help="0 or 1.")
@click.option("--user", metavar="COLUMN", help=_USER_HELP)
@click.option("--order", "--time", metavar="COLUMN", help=_ORDER_HELP)
@click.option("--propensity", metavar="COLUMN", help=_PROPENSITY_HELP)
@click.option("--strata", metavar="COLUMN", help=_STRATA_HELP)
@click.option("--query", metavar="SQL", help=_QUERY_HELP)
@click.option("--encoding", default="utf-8", show_default=True, help=_ENCODING_HELP)
@click.option("--strict", is_flag=True, help=_STRICT_HELP)
@click.option("--lam", type=float, help="The evolution rate, if it is known.")
@click.option("--lam-deviation", type=float, metavar="DEVIATION", help=_DEVIATION_HELP)
@click.option("--q0", default="1", show_default=True, metavar="STATE", help=_STATE_HELP)
@click.option("--out", type=PATH, help=_OUT_HELP)
@AS_JSON
def fit(
    log: str,
    lam: float | None,
    lam_deviation: float | None,
    q0: str,
    out: Path | None,
    as_json: bool,
    query: str | None,
    encoding: str,
    strict: bool,
    **columns: Any,
) -> None:
    """Estimate r, b and lam from LOG: a file or folder of pulls, a database, or - for a pipe.

    One row per pull, in any order. CSV, Parquet, DuckDB, SQLite, postgresql://...
    """
    # All that was asked for is checked before a long file is read.
    if log == "-" and sys.stdin is None:
        raise click.UsageError("standard input is closed: there is no log to read from it")
    if out is not None:
        _check_out(out)
    rate, state, named = _rate(lam, lam_deviation), _state(q0), Columns(**columns)
    unused, bad = list[str](), list[BadRows]()
    with signals_stop(), progress() as shown:
        shown.begin("reading", 100)
        rows = read_log(
            sys.stdin.buffer if log == "-" else log,
            named,
            lambda done: shown.advance(round(100 * done)),
            unused.extend,
            on_bad=bad.extend,
            strict=strict,
            query=query,
            encoding=encoding,
        )
        shown.begin(f"fitting {counted(rows.n_rows, 'row')}")
        found = fit_log(rows, lam=rate, q0=state)
    for kind in bad:
        echo(f"bad rows: {ascii_controls(str(kind))}", err=True)
    arms = fitted_arms(found, rows)
    if as_json:
        write_data(json_text(asdict(arms)))
    else:
        _show(output(), found, rows, unused)
    if out is not None:
        write_arms(out, arms)
        echo(f"wrote {out}", err=as_json)


def _check_out(out: Path) -> None:
    if out.suffix not in (".toml", ".json"):
        raise click.UsageError(f"--out must end in .toml or .json, got {quoted(out.name)}")
    if not out.parent.is_dir():
        raise click.UsageError(f"cannot write {out}: there is no such folder")
    if out.is_dir():
        raise click.UsageError(f"cannot write {out}: it is a folder")


def _rate(lam: float | None, deviation: float | None) -> float | RatePrediction | None:
    if lam is None:
        if deviation is not None:
            raise click.UsageError("--lam-deviation needs --lam, the predicted rate")
        return None
    return as_rate(lam) if deviation is None else RatePrediction(lam, deviation)


def _state(q0: str) -> float | None:
    if q0 == "unknown":
        return None
    try:
        number = float(q0)
    except ValueError:
        raise click.UsageError(f"--q0 needs a number or 'unknown', got {quoted(q0)}") from None
    return as_state(number)


def _show(console: Console, found: Fit, log: Log, unused: list[str]) -> None:
    print_facts(console, _summary(found, log, unused))
    arms = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ARM_HEADINGS:
        arms.add_column(heading, justify="left" if heading == "Arm" else "right")
    for cells in found.arm_texts():
        arms.add_row(*map(Text, cells))  # text, not markup: names come from the log
    console.print(arms)
    for warning in found.warnings:
        console.print(Text(ascii_controls(f"warning: {warning}"), style="yellow"))


def _summary(found: Fit, log: Log, unused: list[str]) -> Iterator[tuple[str, str]]:
    yield "rows", found.rows_text(f" in {counted(log.n_sequences, 'sequence')}")
    if unused:
        yield "not used", f"column{'s' if len(unused) > 1 else ''} {listed(unused)}"
    yield from found.facts()
