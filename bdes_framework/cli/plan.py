"""``bdes plan``: the best schedule for known arms, and how far from optimal it can be."""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import parse_toml, replace_file, replace_text
from bdes_framework._internal.text import ascii_controls, one_line, quoted
from bdes_framework.cli.options import PATH, fact_table
from bdes_framework.errors import ConfigError
from bdes_framework.experiment.arms import ArmsFile, read_arms
from bdes_framework.model.instance import Instance
from bdes_framework.planning import PlanReport, report_plan
from bdes_framework.plugin.load import load_plugins

_BARS = "▁▂▃▄▅▆▇█"
_SHOWN_STATES = 50
_BLOCK = 1 << 16
_MAX_JSON_ROUNDS = 10_000_000
_SECONDS = click.FloatRange(min=0, max=1e9, min_open=True)
_HORIZON = click.IntRange(min=1, max=10**15)
"""Up to here floats count every round."""
_SET_HELP = "A parameter of the planner, such as gap=1e-6."


@click.command()
@click.argument("file", type=PATH, required=False)
@click.option("--r", "r", metavar="LIST", help="What each arm pays at state 1, such as 0.9,0.3.")
@click.option("--b", "b", metavar="LIST", help="The end state of each arm, such as 0.1,1.")
@click.option("--lam", type=float, help="How far one pull moves the state, from 0 to 1.")
@click.option("--q0", type=float, help="The state at the first pull; 1 by default.")
@click.option("--horizon", "-T", type=_HORIZON, required=True, help="How many pulls.")
@click.option("--planner", default="certified", show_default=True, metavar="NAME")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=_SET_HELP)
@click.option("--seconds", type=_SECONDS, help="Stop after about this long with the best plan.")
@click.option("--out", type=PATH, help="Write every round's arm, state and reward: .csv or .json.")
def plan(
    file: Path | None,
    horizon: int,
    planner: str,
    settings: tuple[str, ...],
    seconds: float | None,
    out: Path | None,
    **flags: Any,
) -> None:
    """Plan the best schedule for known arms, from FILE (TOML, or CSV with r and b) or flags."""
    if out is not None and out.suffix not in (".csv", ".json"):
        raise click.UsageError(f"--out must end in .csv or .json, got {quoted(out.name)}")
    if out is not None and out.suffix == ".json" and horizon > _MAX_JSON_ROUNDS:
        raise click.UsageError(f"JSON holds {_MAX_JSON_ROUNDS:,} rounds at most; write a .csv")
    if seconds is not None and math.isnan(seconds):
        raise click.UsageError("--seconds must be a number of seconds, got nan")
    known = ArmsFile([], []) if file is None else read_arms(file)
    instance = _instance(known, **flags)
    ref: dict[str, object] = {"use": planner, **_settings(settings)}
    console = Console()
    with Console(stderr=True).status(f"planning {horizon:,} pulls of {instance.n_arms} arms"):
        report = report_plan(load_plugins(), instance, horizon, ref, seconds=seconds)
    _show(console, report, horizon, known.names or [])
    if out is not None:
        if out.suffix == ".csv":
            replace_file(out, lambda path: _write_csv(path, report, horizon))
        else:
            replace_text(out, json.dumps(_as_json(report, horizon)))
        console.print(Text(ascii_controls(f"wrote {out}")))


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
        try:
            found |= parse_toml(f"{key} = {value}", Path("--set")) if equals else {}
        except ConfigError:
            found |= {key: value}
        if not equals:
            raise click.UsageError(f"--set needs KEY=VALUE, got {quoted(pair)}")
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
    console.print(fact_table(rows.items()))
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
    first = report.rounds(0, min(_SHOWN_STATES, horizon))[1]
    console.print(Text(f"state, first {first.size} pulls  {_spark(first)}"))
    if horizon > _SHOWN_STATES:
        last = report.rounds(horizon - min(_SHOWN_STATES, horizon - _SHOWN_STATES), horizon)[1]
        console.print(Text(f"state, last {last.size} pulls   {_spark(last)}"))
    highest = max(report.instance.q0, float(report.instance.b.max()))
    console.print(Text(f"(from 0 to {highest:g})", style="dim"))


def _spark(states: FloatArray) -> str:
    top = max(float(states.max()), 1.0)
    steps = np.minimum(states / top * len(_BARS), len(_BARS) - 1).astype(int)
    return "".join(_BARS[step] for step in steps)


def _write_csv(path: Path, report: PlanReport, horizon: int) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("round", "arm", "state", "expected_reward"))
        writer.writerows(_rounds(report, horizon))


def _rounds(report: PlanReport, horizon: int) -> Iterator[tuple[int, int, float, float]]:
    blocks = range(0, horizon, _BLOCK)
    for start in track(blocks, "writing", console=Console(stderr=True), transient=True):
        stop = min(start + _BLOCK, horizon)
        arms, states, rewards = report.rounds(start, stop)
        numbers = range(start + 1, stop + 1)
        yield from zip(numbers, arms.tolist(), states.tolist(), rewards.tolist(), strict=True)


def _as_json(report: PlanReport, horizon: int) -> dict[str, object]:
    arms, states, rewards = report.rounds(0, horizon)
    return {
        "value": report.plan.value,
        "upper_bound": report.plan.upper_bound,
        "segments": [
            {"arms": segment.arms.tolist(), "repeats": segment.repeats}
            for segment in report.plan.schedule.segments
        ],
        "arms": arms.tolist(),
        "states": states.tolist(),
        "expected_rewards": rewards.tolist(),
    }
