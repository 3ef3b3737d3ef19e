"""A schedule as commands print it and write it to files."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from attrs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.files import replace_file, replace_text
from bdes_framework.cli.lift_table import show_lift
from bdes_framework.cli.options import inert, print_facts
from bdes_framework.cli.progress import progress
from bdes_framework.planning.lift import Lift
from bdes_framework.planning.plan_report import BurntEnd, PlanReport
from bdes_framework.planning.plan_words import arm_name, schedule_words

_BARS = "▁▂▃▄▅▆▇█"
_SHOWN_STATES = 50
_BLOCK = 1 << 16


def show_schedule(
    console: Console, report: PlanReport, names: Sequence[str], lift: Lift | None = None
) -> None:
    """Print a schedule: what it earns, and what it earns more than others."""
    plan, horizon = report.plan, report.plan.schedule.n_pulls
    rows = {
        "value": f"{plan.value:,.4f} expected, {plan.value / horizon:.4f} per pull",
        "upper bound": f"{plan.upper_bound:,.4f}: no schedule earns more",
        "gap": f"{plan.gap:.2e} of the upper bound at most",
        "schedule": schedule_words(plan.schedule, names) if names else str(plan.schedule),
    }
    if plan.diagnostics.get("gap_reached") is False:
        rows["gap"] += f"; asked was {plan.diagnostics['gap_asked']:.0e}, not reached"
    if lift is None:
        for name in report.alternatives:
            more = report.lift(name)
            rows[f"over {name}"] = "it earns nothing" if more is None else f"{more:+.2%}"
    print_facts(console, rows.items())
    if lift is not None:
        show_lift(console, lift)
    shares = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Arm", "r", "b", "Share"):
        shares.add_column(heading, justify="right")
    shares.add_column("Name" if names else "")
    for arm in np.flatnonzero(report.shares).tolist():
        numbers = (report.instance.r[arm], report.instance.b[arm])
        name = arm_name(arm, names) if arm < len(names) else ""
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


def write_schedule(path: Path, report: PlanReport, names: Sequence[str]) -> None:
    """Write each round of a schedule to a .csv or .json file, whole or not at all."""
    if path.suffix == ".csv":
        replace_file(path, lambda place: _write_csv(place, report, names))
    else:
        replace_text(path, json.dumps(_rounds_json(report, names)))


def _write_csv(path: Path, report: PlanReport, names: Sequence[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        headings = ["round", "arm", "state", "expected_reward"]
        writer.writerow([*headings, "name"] if names else headings)
        for row in _rounds(report):
            writer.writerow([*row, inert(names[row[1]])] if names else row)


def _rounds(report: PlanReport) -> Iterator[tuple[int, int, float, float]]:
    horizon = report.plan.schedule.n_pulls
    with progress() as shown:
        shown.begin("writing", horizon)
        for start in range(0, horizon, _BLOCK):
            stop = min(start + _BLOCK, horizon)
            arms, states, rewards = report.rounds(start, stop)
            numbers = range(start + 1, stop + 1)
            yield from zip(numbers, arms.tolist(), states.tolist(), rewards.tolist(), strict=True)
            shown.advance(stop)


def schedule_json(
    report: PlanReport, names: Sequence[str], lift: Lift | None = None
) -> dict[str, object]:
    """Return what is printed of a schedule, as JSON has it."""
    instance = report.instance
    found: dict[str, object] = {
        "horizon": report.plan.schedule.n_pulls,
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
    if names:
        found["names"] = list(names)
    if lift is not None:
        found["lift"] = lift.as_json()
    return found


def _segments(report: PlanReport) -> list[dict[str, object]]:
    return [
        {"arms": segment.arms.tolist(), "repeats": segment.repeats}
        for segment in report.plan.schedule.segments
    ]


def _rounds_json(report: PlanReport, names: Sequence[str]) -> dict[str, object]:
    arms, states, rewards = report.rounds(0, report.plan.schedule.n_pulls)
    found: dict[str, object] = {
        "value": report.plan.value,
        "upper_bound": report.plan.upper_bound,
        "segments": _segments(report),
        "arms": arms.tolist(),
        "states": states.tolist(),
        "expected_rewards": rewards.tolist(),
    }
    if names:
        found["names"] = list(names)
    return found
