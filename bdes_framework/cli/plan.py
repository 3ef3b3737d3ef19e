"""``bdes plan``: the best schedule for known arms, and how far from optimal it can be."""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from attrs import asdict, evolve
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import parse_toml, replace_file, replace_text
from bdes_framework._internal.text import counted, one_line, quoted
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
from bdes_framework.cli.plan_table import continuation_of, show_table
from bdes_framework.cli.progress import progress
from bdes_framework.errors import ConfigError
from bdes_framework.experiment.arms import ArmsFile, read_arms
from bdes_framework.interfaces import Reference
from bdes_framework.model.instance import Instance
from bdes_framework.planning.plan_report import BurntEnd, PlanReport, plan_for_leavers, report_plan
from bdes_framework.plugin.load import load_plugins

_BARS = "▁▂▃▄▅▆▇█"
_SHOWN_STATES = 50
_BLOCK = 1 << 16
_MAX_JSON_ROUNDS = 10_000_000
_SECONDS = click.FloatRange(min=0, max=1e9, min_open=True)
_HORIZON = click.IntRange(min=1, max=10**15)
"""Up to here floats count every round."""
_LEAVE = click.FloatRange(min=1e-9, max=1)
_VISITS = click.FloatRange(min=1, max=1e9)
_OUT_HELP = "Write each round (.csv, .json); with --leave or --visits, the table (.json)."
_SET_HELP = "A parameter of the planner, such as gap=1e-6."


@click.command()
@click.argument("file", type=PATH, required=False)
@click.option("--r", "r", metavar="LIST", help="What each arm pays at state 1, such as 0.9,0.3.")
@click.option("--b", "b", metavar="LIST", help="The end state of each arm, such as 0.1,1.")
@click.option("--lam", type=float, help="How far one pull moves the state, from 0 to 1.")
@click.option("--q0", type=float, help="The state at the first pull; 1 by default.")
@click.option("--horizon", "-T", type=_HORIZON, help="How many pulls.")
@click.option("--leave", type=_LEAVE, help="Or: the share of users who leave after each visit.")
@click.option("--visits", type=_VISITS, help="Or: how often a user comes on average.")
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
    if horizon is None:
        _plan_table(instance, continuation, ref, names, out, as_json)
    else:
        _plan_schedule(instance, horizon, ref, names, seconds, out, as_json)


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
) -> None:
    with progress() as shown:
        shown.begin(f"planning for users who may leave, {counted(instance.n_arms, 'arm')}")
        table = plan_for_leavers(load_plugins(), instance, continuation, ref)
    # Flags may give more arms than the file has names.
    if len(names) == instance.n_arms:
        table = evolve(table, names=tuple(names))
    if as_json:
        write_data(json_text(table.as_json()))
    else:
        show_table(output(), table)
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
) -> None:
    with progress() as shown:
        shown.begin(f"planning {horizon:,} pulls of {counted(instance.n_arms, 'arm')}")
        report = report_plan(load_plugins(), instance, horizon, ref, seconds=seconds)
    if as_json:
        write_data(json_text(_summary(report, horizon)))
    else:
        _show(output(), report, horizon, names)
    if out is not None:
        if out.suffix == ".csv":
            replace_file(out, lambda path: _write_csv(path, report, horizon))
        else:
            replace_text(out, json.dumps(_as_json(report, horizon)))
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


def _show(console: Console, report: PlanReport, horizon: int, names: Sequence[str]) -> None:
    plan = report.plan
    rows = {
        "value": f"{plan.value:,.4f} expected, {plan.value / horizon:.4f} per pull",
        "upper bound": f"{plan.upper_bound:,.4f}: no schedule earns more",
        "gap": f"{plan.gap:.2e} of the upper bound at most",
        "schedule": str(plan.schedule),
    }
    if plan.diagnostics.get("gap_reached") is False:
        rows["gap"] += f"; asked was {plan.diagnostics['gap_asked']:.0e}, not reached"
    for name in report.alternatives:
        lift = report.lift(name)
        rows[f"over {name}"] = "it earns nothing" if lift is None else f"{lift:+.2%}"
    print_facts(console, rows.items())
    shares = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Arm", "r", "b", "Share"):
        shares.add_column(heading, justify="right")
    shares.add_column("Name" if names else "")
    for arm in np.flatnonzero(report.shares).tolist():
        numbers = (report.instance.r[arm], report.instance.b[arm])
        # Flags may give more arms than the file has names.
        name = one_line(names[arm], 40) if arm < len(names) else ""
        texts = (str(arm), *(f"{n:.4g}" for n in numbers), f"{report.shares[arm]:.1%}", name)
        shares.add_row(*map(Text, texts))
    console.print(shares)
    highest = max(report.instance.q0, float(report.instance.b.max()))
    first = report.rounds(0, min(_SHOWN_STATES, horizon))[1]
    console.print(Text(f"state, first {first.size} pulls  {_spark(first, highest)}"))
    if horizon > _SHOWN_STATES:
        last = report.rounds(horizon - min(_SHOWN_STATES, horizon - _SHOWN_STATES), horizon)[1]
        console.print(Text(f"state, last {last.size} pulls   {_spark(last, highest)}"))
    console.print(Text(f"(from 0 to {highest:g})", style="dim"))
    if (end := report.burnt_end()) is not None:
        console.print(Text(_burnt(end)))


def _burnt(end: BurntEnd) -> str:
    rounds = "round" if end.n_rounds == 1 else f"{end.n_rounds:,} rounds"
    return (
        f"The schedule burns the state in its last {rounds}, down to {end.last_state:.3g} from"
        f" {end.usual_state:.3g} before. For users who stay on, plan with --leave or --visits."
    )


def _spark(states: FloatArray, highest: float) -> str:
    steps = np.minimum(states / (highest or 1.0) * len(_BARS), len(_BARS) - 1).astype(int)
    return "".join(_BARS[step] for step in steps)


def _write_csv(path: Path, report: PlanReport, horizon: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("round", "arm", "state", "expected_reward"))
        writer.writerows(_rounds(report, horizon))


def _rounds(report: PlanReport, horizon: int) -> Iterator[tuple[int, int, float, float]]:
    with progress() as shown:
        shown.begin("writing", horizon)
        for start in range(0, horizon, _BLOCK):
            stop = min(start + _BLOCK, horizon)
            arms, states, rewards = report.rounds(start, stop)
            numbers = range(start + 1, stop + 1)
            yield from zip(numbers, arms.tolist(), states.tolist(), rewards.tolist(), strict=True)
            shown.advance(stop)


def _summary(report: PlanReport, horizon: int) -> dict[str, object]:
    """Return what is printed of a plan, as JSON has it."""
    instance = report.instance
    return {
        "horizon": horizon,
        "r": instance.r.tolist(),
        "b": instance.b.tolist(),
        "lam": instance.lam,
        "q0": instance.q0,
        "value": report.plan.value,
        "upper_bound": report.plan.upper_bound,
        "gap": report.plan.gap,
        "segments": _segments(report),
        "shares": report.shares.tolist(),
        "alternatives": {
            name: {"value": value, "lift": report.lift(name)}
            for name, value in report.alternatives.items()
        },
        "burnt_end": None if (end := report.burnt_end()) is None else asdict(end),
    }


def _segments(report: PlanReport) -> list[dict[str, object]]:
    return [
        {"arms": segment.arms.tolist(), "repeats": segment.repeats}
        for segment in report.plan.schedule.segments
    ]


def _as_json(report: PlanReport, horizon: int) -> dict[str, object]:
    arms, states, rewards = report.rounds(0, horizon)
    return {
        "value": report.plan.value,
        "upper_bound": report.plan.upper_bound,
        "segments": _segments(report),
        "arms": arms.tolist(),
        "states": states.tolist(),
        "expected_rewards": rewards.tolist(),
    }
