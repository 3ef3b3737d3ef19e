"""``bdes fit``: estimate the arms of a log, print them, and write them to a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, listed, one_line, quoted
from bdes_framework.cli.options import PATH, fact_table
from bdes_framework.experiment.arms import fitted_arms, write_arms
from bdes_framework.fitting.fit import Fit
from bdes_framework.fitting.fit import fit as fit_log
from bdes_framework.fitting.fit_warnings import MAX_USEFUL_FACTOR
from bdes_framework.fitting.goodness import SIGNIFICANT
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import RatePrediction
from bdes_framework.fitting.readers import Columns, read_log
from bdes_framework.model.instance import as_rate, as_state

_MAX_NAME_LENGTH = 40
_PIPED_WIDTH = 10_000
"""Characters per line, where no terminal wraps it: what is piped is read line by line."""
_LOG = type(PATH)(path_type=str)
_USER_HELP = "Whose state it was; without it the log is one sequence."
_ORDER_HELP = "A number or a moment that increases within a user."
_DEVIATION_HELP = "--lam is only a prediction, with this deviation of its logit."
_STATE_HELP = "The state each sequence begins at, or 'unknown'."
_OUT_HELP = "Write a .toml or .json file, for 'bdes plan' and experiments."


@click.command()
@click.argument("log", type=_LOG)
@click.option("--arm", default="arm", show_default=True, metavar="COLUMN", help="The arm played.")
@click.option("--reward", default="reward", show_default=True, metavar="COLUMN", help="0 or 1.")
@click.option("--user", metavar="COLUMN", help=_USER_HELP)
@click.option("--order", "--time", metavar="COLUMN", help=_ORDER_HELP)
@click.option("--lam", type=float, help="The evolution rate, if it is known.")
@click.option("--lam-deviation", type=float, metavar="DEVIATION", help=_DEVIATION_HELP)
@click.option("--q0", default="1", show_default=True, metavar="STATE", help=_STATE_HELP)
@click.option("--out", type=PATH, help=_OUT_HELP)
def fit(
    log: str,
    lam: float | None,
    lam_deviation: float | None,
    q0: str,
    out: Path | None,
    **columns: Any,
) -> None:
    """Estimate r, b and lam from LOG, a CSV or Parquet file of pulls, or - for CSV from a pipe.

    One row per pull, sorted by user and then by order.
    """
    # All that was asked for is checked before a long file is read.
    if log == "-" and sys.stdin is None:
        raise click.UsageError("standard input is closed: there is no log to read from it")
    if out is not None:
        _check_out(out)
    rate, state, named = _rate(lam, lam_deviation), _state(q0), Columns(**columns)
    unused: list[str] = []
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        reading = progress.add_task("reading", total=1.0)
        rows = read_log(
            sys.stdin.buffer if log == "-" else log,
            named,
            lambda done: progress.update(reading, completed=done),
            unused.extend,
        )
        progress.update(reading, completed=1.0)
        progress.add_task(f"fitting {rows.n_rows:,} rows", total=None)
        found = fit_log(rows, lam=rate, q0=state)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    _show(console, found, rows, unused)
    if out is not None:
        write_arms(out, fitted_arms(found, rows))
        console.print(Text(ascii_controls(f"wrote {out}")))


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
    console.print(fact_table(_summary(found, log, unused)))
    arms = Table(pad_edge=False, box=None, header_style="bold")
    arms.add_column("Arm")
    for heading in ("Pulls", "r", "95 %", "b", "95 %"):
        arms.add_column(heading, justify="right")
    for arm, name in enumerate(found.names):
        # Text, not markup: names come from the log.
        cells = (
            one_line(name, _MAX_NAME_LENGTH),
            f"{found.pulls[arm]:,}",
            _number(found.instance.r[arm]),
            " to ".join(map(_number, found.r_interval[arm])),
            _number(found.instance.b[arm]),
            " to ".join(map(_number, found.b_interval[arm])),
        )
        arms.add_row(*map(Text, cells))
    console.print(arms)
    for warning in found.warnings:
        console.print(Text(ascii_controls(f"warning: {warning}"), style="yellow"))


def _summary(found: Fit, log: Log, unused: list[str]) -> Iterator[tuple[str, str]]:
    plural = "" if log.n_sequences == 1 else "s"
    yield "rows", f"{log.n_rows:,} in {log.n_sequences:,} sequence{plural}"
    if unused:
        yield "not used", f"column{'s' if len(unused) > 1 else ''} {listed(unused)}"
    low, high = found.lam_interval
    rate = f"{found.instance.lam:.4g}"
    yield "lam", f"{rate}, known" if low == high else f"{rate} ({low:.4g} to {high:.4g})"
    evolving, stationary = found.evolving, found.stationary
    yield "log-likelihood", f"{evolving.log_likelihood:z,.1f}"
    aic, bic = evolving.aic - stationary.aic, evolving.bic - stationary.bic
    verdict = f"the state explains the log {'better' if bic < 0 else 'no better'}"
    if (aic < 0) != (bic < 0):
        verdict = "they disagree on whether the state explains the log better"
    yield "against no state", f"AIC {aic:+z,.1f}, BIC {bic:+z,.1f}: {verdict}"
    check = found.goodness
    verdict = "no sign of misfit"
    if check.p_value < SIGNIFICANT:
        verdict = "the model does not describe the log"
    elif check.detectable > MAX_USEFUL_FACTOR:
        verdict = "too little data to tell"
    statistic = f"{check.statistic:{'.1f' if check.statistic < 1e5 else '.3g'}}"
    yield (
        "goodness of fit",
        f"chi-square {statistic} on {check.freedom}, p = {check.p_value:.2g}: {verdict}",
    )


def _number(value: float) -> str:
    """Return four decimals, or, of a b that has no bound to speak of, three digits."""
    return f"{value:.4f}" if value < 1000 else f"{value:.3g}"
