"""``bdes plan``: the best schedule for known arms, and how far from optimal it can be."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from bdes_framework._internal.files import parse_toml
from bdes_framework._internal.text import counted, quoted
from bdes_framework.cli.completion import complete_plugins
from bdes_framework.cli.options import (
    AS_JSON,
    HORIZON,
    LEAVE,
    PATH,
    VISITS,
    echo,
    json_text,
    output,
    write_data,
)
from bdes_framework.cli.plan_table import continuation_of, show_table
from bdes_framework.cli.progress import progress
from bdes_framework.cli.schedule_text import schedule_json, show_schedule, write_schedule
from bdes_framework.errors import ConfigError
from bdes_framework.experiment.arms import ArmsFile, read_arms
from bdes_framework.experiment.fit_file import load_fit
from bdes_framework.fitting.result import Fit
from bdes_framework.interfaces import Reference
from bdes_framework.model.instance import Instance
from bdes_framework.planning.lift import KnownArms, Posterior, lift
from bdes_framework.planning.plan_report import plan_for_leavers, report_plan
from bdes_framework.plugin.load import load_plugins

_MAX_JSON_ROUNDS = 10_000_000
_SECONDS = click.FloatRange(min=0, max=1e9, min_open=True)
_OUT_HELP = "Write each round (.csv, .json); with --leave or --visits, the table (.json)."
_SET_HELP = "A parameter of the planner, such as gap=1e-6."


@click.command()
@click.argument("file", type=PATH, required=False)
@click.option("--r", "r", metavar="LIST", help="What each arm pays at state 1, such as 0.9,0.3.")
@click.option("--b", "b", metavar="LIST", help="The end state of each arm, such as 0.1,1.")
@click.option("--lam", type=float, help="How far one pull moves the state, from 0 to 1.")
@click.option("--q0", type=float, help="The state at the first pull; 1 by default.")
@click.option("--horizon", "-T", type=HORIZON, help="How many pulls.")
@click.option("--leave", type=LEAVE, help="Or: the share of users who leave after each visit.")
@click.option("--visits", type=VISITS, help="Or: how often a user comes on average.")
@click.option(
    "--planner",
    default="certified",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_plugins("planner"),
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=_SET_HELP)
@click.option("--seconds", type=_SECONDS, help="Stop after about this long with the best plan.")
@click.option("--out", type=PATH, help=_OUT_HELP)
@AS_JSON
def plan(
    file: Path | None,
    horizon: int | None,
    leave: float | None,
    visits: float | None,
    planner: str,
    settings: tuple[str, ...],
    seconds: float | None,
    out: Path | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Plan for known arms, from FILE (TOML, or CSV with r and b) or flags.

    With --horizon, the best schedule of that many pulls. With --leave or --visits, which arm to
    show at which state to users who may leave after every visit.
    """
    if seconds is not None and math.isnan(seconds):
        raise click.UsageError("--seconds must be a number of seconds, got nan")
    if (horizon is None) == (leave is None and visits is None):
        raise click.UsageError("give --horizon, or else --leave or --visits")
    if horizon is None and seconds is not None:
        raise click.UsageError("--seconds goes with --horizon")
    _check_suffix(out, *((".json",) if horizon is None else (".csv", ".json")))
    if (horizon or 0) > _MAX_JSON_ROUNDS and out is not None and out.suffix == ".json":
        raise click.UsageError(f"JSON holds {_MAX_JSON_ROUNDS:,} rounds at most; write a .csv")
    continuation = continuation_of(leave, visits)
    known = ArmsFile([], []) if file is None else read_arms(file)
    instance = _instance(known, **flags)
    ref: dict[str, object] = {"use": planner, **_settings(settings)}
    names = known.names or []
    # Flags say more than the fit that a file holds; and may give more arms than it has names.
    overridden = any(flag is not None for flag in flags.values())
    posterior = None if overridden or file is None else _posterior(file, known)
    if len(names) != instance.n_arms:
        names = []
    if horizon is None:
        _plan_table(instance, continuation, ref, names, out, as_json, posterior)
    else:
        _plan_schedule(instance, horizon, ref, names, seconds, out, as_json, posterior)


def _posterior(file: Path, known: ArmsFile) -> Fit | None:
    """Return the fit that a file of arms holds; None if it holds none with a covariance."""
    return load_fit(file) if "posterior" in known.fit else None


def _check_suffix(out: Path | None, *allowed: str) -> None:
    if out is not None and out.suffix not in allowed:
        raise click.UsageError(f"--out must end in {' or '.join(allowed)}, got {quoted(out.name)}")


def _plan_table(
    instance: Instance,
    continuation: float,
    ref: Reference,
    names: Sequence[str],
    out: Path | None,
    as_json: bool,
    posterior: Posterior | None,
) -> None:
    with progress("plan") as shown:
        shown.begin(f"planning for users who may leave, {counted(instance.n_arms, 'arm')}")
        table = plan_for_leavers(load_plugins(), instance, continuation, ref)
        table = evolve(table, names=tuple(names))
    if posterior is None:
        worth = lift(KnownArms(instance, table.names), table, n_draws=1)
    else:
        worth = lift(posterior, table)
    if as_json:
        write_data(json_text(table.as_json() | {"lift": worth.as_json()}))
    else:
        show_table(output(), table, worth)
    if out is not None:
        table.write(out)
        echo(f"wrote {out}", err=as_json)


def _plan_schedule(
    instance: Instance,
    horizon: int,
    ref: Reference,
    names: Sequence[str],
    seconds: float | None,
    out: Path | None,
    as_json: bool,
    posterior: Posterior | None,
) -> None:
    with progress("plan") as shown:
        shown.begin(f"planning {horizon:,} pulls of {counted(instance.n_arms, 'arm')}")
        report = report_plan(load_plugins(), instance, horizon, ref, seconds=seconds)
        worth = None if posterior is None else lift(posterior, report.plan)
    if as_json:
        write_data(json_text(schedule_json(report, names, worth)))
    else:
        show_schedule(output(), report, names, worth)
    if out is not None:
        write_schedule(out, report, names)
        echo(f"wrote {out}", err=as_json)


def _instance(
    known: ArmsFile, r: str | None, b: str | None, lam: float | None, q0: float | None
) -> Instance:
    """Return the instance of the file, overridden by the flags."""
    pay = _numbers("--r", r) if r is not None else known.r
    end = _numbers("--b", b) if b is not None else known.b
    rate = lam if lam is not None else known.lam
    if not pay or not end or rate is None:
        raise click.UsageError("need a FILE or --r and --b, and a lam: see 'bdes plan --help'")
    state = q0 if q0 is not None else known.q0
    return Instance(pay, end, rate, 1.0 if state is None else state)


def _numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        what = f"{flag} needs numbers such as 0.9,0.3, got {quoted(text)}"
        raise click.UsageError(what) from None


def _settings(pairs: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set needs KEY=VALUE, got {quoted(pair)}")
        try:
            found |= parse_toml(f"{key} = {value}", Path("--set"))
        except ConfigError:
            found[key] = value
    return found
