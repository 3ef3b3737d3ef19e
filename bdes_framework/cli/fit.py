"""``bdes fit``: from a log of pulls to arms that ``bdes plan`` and experiments take."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from bdes_framework.coordinates import RatePrediction
from bdes_framework.errors import InvalidValueError
from bdes_framework.fits import Fit
from bdes_framework.fitting import fit as fit_log
from bdes_framework.logfiles import Columns, read_log
from bdes_framework.logs import Log
from bdes_framework.model import Instance
from bdes_framework.text import one_line, quoted

_LONGEST_NAME = 40


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--arm", default="arm", show_default=True, metavar="COLUMN", help="The arm played.")
@click.option("--reward", default="reward", show_default=True, metavar="COLUMN", help="0 or 1.")
@click.option("--user", metavar="COLUMN",
              help="Whose state it was; without it the log is one sequence.")  # fmt: skip
@click.option("--order", "--time", metavar="COLUMN",
              help="A number or a moment that increases within a user.")  # fmt: skip
@click.option("--lam", type=float, help="The evolution rate, if it is known.")
@click.option("--lam-deviation", type=float, metavar="DEVIATION",
              help="--lam is only a prediction, with this deviation of its logit.")  # fmt: skip
@click.option("--q0", default="1", show_default=True, metavar="STATE",
              help="The state each sequence begins at, or 'unknown'.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path),
              help="Write the estimates as .toml, for 'bdes plan' and experiments.")  # fmt: skip
def fit(
    log: Path,
    arm: str,
    reward: str,
    user: str | None,
    order: str | None,
    lam: float | None,
    lam_deviation: float | None,
    q0: str,
    out: Path | None,
) -> None:
    """Estimate r, b and lam from LOG, a CSV or Parquet file of pulls.

    One row a pull, sorted by user and then by order.
    """
    if out is not None and out.suffix != ".toml":
        raise click.UsageError(f"--out must end in .toml, got {quoted(out.name)}")
    rate, state = _rate(lam, lam_deviation), _state(q0)
    console = Console()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        reading = progress.add_task("reading", total=1.0)
        columns = Columns(arm, reward, user, order)
        rows = read_log(log, columns, lambda done: progress.update(reading, completed=done))
        progress.update(reading, completed=1.0)
        progress.add_task(f"fitting {rows.n_rows:,} rows", total=None)
        found = fit_log(rows, lam=rate, q0=state)
    _show(console, found, rows)
    if out is not None:
        _write(out, found, rows)
        console.print(Text(f"wrote {out}"))


def _rate(lam: float | None, deviation: float | None) -> float | RatePrediction | None:
    if deviation is None:
        return lam
    if lam is None:
        raise click.UsageError("--lam-deviation needs --lam, the predicted rate")
    try:
        return RatePrediction(lam, deviation)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _state(q0: str) -> float | None:
    if q0 == "unknown":
        return None
    try:
        return float(q0)
    except ValueError:
        raise click.UsageError(f"--q0 needs a number or 'unknown', got {quoted(q0)}") from None


def _show(console: Console, found: Fit, log: Log) -> None:
    summary = Table.grid(padding=(0, 2))
    for name, text in _summary(found, log):
        summary.add_row(Text(name, style="bold"), Text(text))
    console.print(summary)
    arms = Table(pad_edge=False, box=None, header_style="bold")
    arms.add_column("Arm")
    for heading in ("Pulls", "r", "95 %", "b", "95 %"):
        arms.add_column(heading, justify="right")
    for arm, name in enumerate(found.names):
        # Text, not markup: names come from the log.
        cells = (
            one_line(name, _LONGEST_NAME),
            f"{found.pulls[arm]:,}",
            f"{found.instance.r[arm]:.4f}",
            _interval(*found.r_interval[arm]),
            f"{found.instance.b[arm]:.4f}",
            _interval(*found.b_interval[arm]),
        )
        arms.add_row(*map(Text, cells))
    console.print(arms)
    for warning in found.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _summary(found: Fit, log: Log) -> Iterator[tuple[str, str]]:
    yield "rows", f"{log.n_rows:,} in {log.n_sequences:,} sequences"
    low, high = found.lam_interval
    rate = f"{found.instance.lam:.4g}"
    yield "lam", f"{rate}, known" if low == high else f"{rate} ({low:.4g} to {high:.4g})"
    evolving, stationary = found.evolving, found.stationary
    yield "log-likelihood", f"{evolving.log_likelihood:,.1f}"
    aic, bic = evolving.aic - stationary.aic, evolving.bic - stationary.bic
    better = "better" if bic < 0 else "no better"
    yield (
        "against no state",
        f"AIC {aic:+,.1f}, BIC {bic:+,.1f}: the state explains the log {better}",
    )
    check = found.goodness
    verdict = "the model does not describe the log" if check.p_value < 0.01 else "no sign of misfit"
    yield (
        "goodness of fit",
        f"chi-square {check.statistic:.1f} on {check.freedom}, p = {check.p_value:.2g}: {verdict}",
    )


def _interval(low: float, high: float) -> str:
    return f"{low:.4f} to {high:.4f}"


def _write(out: Path, found: Fit, log: Log) -> None:
    """Write all of it at once, beside the file first: a stop leaves nothing half-written."""
    temporary = out.with_name(out.name + ".tmp")
    try:
        temporary.write_text("\n".join(_toml(found, log)) + "\n", encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InvalidValueError(f"cannot write {out}: {error.strerror}") from None


def _toml(found: Fit, log: Log) -> Iterator[str]:
    instance, scale = _playable(found.instance)
    yield "# Arms estimated by 'bdes fit', for 'bdes plan' and the arms of an experiment."
    yield f"r = {instance.r.tolist()}"
    yield f"b = {instance.b.tolist()}"
    yield f"lam = {instance.lam!r}"
    yield f"q0 = {instance.q0!r}"
    yield f"names = [{', '.join(map(_string, found.names))}]"
    yield ""
    yield "[fit]"
    yield f"rows = {log.n_rows}"
    yield f"sequences = {log.n_sequences}"
    yield f"pulls = {found.pulls.tolist()}"
    yield f"r_interval = {(found.r_interval * scale).tolist()}"
    yield f"b_interval = {(found.b_interval / scale).tolist()}"
    yield f"lam_interval = {list(found.lam_interval)}"
    yield f"log_likelihood = {found.evolving.log_likelihood!r}"
    for name, criterion in (("aic", "aic"), ("bic", "bic")):
        yield f"{name} = {getattr(found.evolving, criterion)!r}"
        yield f"{name}_without_state = {getattr(found.stationary, criterion)!r}"
    yield f"p_value = {found.goodness.p_value!r}"
    yield f"warnings = [{', '.join(map(_string, found.warnings))}]"


def _playable(instance: Instance) -> tuple[Instance, float]:
    """Return the same problem with every b at most 1, so that it can be simulated."""
    scale = max(1.0, float(instance.b.max()))
    return (instance if scale == 1 else instance.scaled(scale)), scale


def _string(text: str) -> str:
    """Return a TOML string; JSON's escapes are TOML's, but for the one it leaves alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
