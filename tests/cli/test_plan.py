"""``bdes plan`` and report_plan: checked against the model and brute force."""

import csv
import itertools
import json
from functools import partial
from pathlib import Path

import pytest

import bdes_framework as bdes
from tests.support.command import fails, prints

ARMS = ("--r", "0.9,0.3", "--b", "0.1,1", "--lam", "0.3")
INSTANCE = bdes.Instance([0.9, 0.3], [0.1, 1.0], 0.3)


planned = partial(prints, "plan")


def test_plan_prints_value_bound_and_lift() -> None:
    shown = planned(*ARMS, "-T", "8", "--planner", "exact")
    best = max(INSTANCE.value(list(arms)) for arms in itertools.product((0, 1), repeat=8))
    alone = max(INSTANCE.value([arm] * 8) for arm in (0, 1))
    lines = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert f"{best:.4f} expected" in lines["value"]
    assert f"{best / alone - 1:+.2%}" in lines["over best-fixed"]
    assert "over greedy" in lines
    assert "no schedule earns more" in lines["upper bound"]
    assert any(bar in shown for bar in "▁▂▃▄▅▆▇")


def test_a_long_plan_is_printed_shortly() -> None:
    shown = planned(*ARMS, "-T", "1000000000")
    assert " × 33333333" in shown
    assert len(shown.splitlines()) < 20


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_plan_writes_every_round(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"plan.{suffix}"
    planned(*ARMS, "-T", "70000", "--out", str(out))
    if suffix == "csv":
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        arms = [int(row["arm"]) for row in rows]
        states = [float(row["state"]) for row in rows]
        rewards = [float(row["expected_reward"]) for row in rows]
        assert [int(row["round"]) for row in rows[:2]] == [1, 2]
    else:
        content = json.loads(out.read_text())
        arms, states, rewards = content["arms"], content["states"], content["expected_rewards"]
        assert content["value"] <= content["upper_bound"]
    assert len(arms) == 70_000
    assert states == pytest.approx(INSTANCE.states(arms), abs=1e-12)
    assert rewards == pytest.approx(INSTANCE.expected_rewards(arms), abs=1e-12)
    assert list(tmp_path.iterdir()) == [out]


def test_flags_override_the_arms_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "arms.toml").write_text("r = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3\n")
    (tmp_path / "arms.csv").write_text("r,b\n0.9,0.1\n0.3,1\n")
    flags = planned(*ARMS, "-T", "100")
    assert planned("arms.toml", "-T", "100", cwd=tmp_path) == flags
    assert planned("arms.csv", "--lam", "0.3", "-T", "100", cwd=tmp_path) == flags
    assert planned("arms.toml", "--lam", "0.5", "-T", "100", cwd=tmp_path) != flags


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-T", "10"), "need a FILE or --r and --b"),
        ((*ARMS, "-T", "0"), "0 is not in the range"),
        (("--r", "x", "--b", "1", "--lam", "0.1", "-T", "5"), "--r needs numbers"),
        (("--r", "1,2", "--b", "1", "--lam", "0.1", "-T", "5"), "2 and 1"),
        (("--r", "1", "--b", "1", "--lam", "2", "-T", "5"), "lam must be a number in [0, 1]"),
        (("nowhere.toml", "-T", "5"), "No such file"),
        (("no/where.csv", "--lam", "0.1", "-T", "5"), "no/where.csv: No such file"),
        ((*ARMS, "-T", "5", "--planner", "exat"), "Did you mean 'exact'?"),
        ((*ARMS, "-T", "5", "--set", "gpa=1"), "Did you mean 'gap'?"),
        ((*ARMS, "-T", "5", "--set", "gap"), "--set needs KEY=VALUE"),
        ((*ARMS, "-T", "5", "--out", "x.txt"), "must end in .csv or .json"),
        ((*ARMS, "-T", "5", "--out", "no/where.csv"), "cannot write"),
        (
            (*ARMS, "-T", "5", "--planner", "greedy", "--seconds", "1"),
            "planner 'greedy' cannot stop early",
        ),
    ],
)
def test_a_wrong_plan_request_exits_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert message in fails("plan", *arguments, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_seconds_stops_with_the_best_plan() -> None:
    arms = ("--r", "0.9,0.3,0.6", "--b", "0.1,1,0.65", "--lam", "0.001", "-T", "100000")
    assert "upper bound" in planned(*arms, "--set", "gap=1e-9", "--seconds", "0.01")
