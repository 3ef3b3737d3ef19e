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


def test_states_are_drawn_on_the_scale_that_is_named() -> None:
    shown = planned("--r", "0.9", "--b", "0", "--lam", "0.5", "--q0", "0.5", "-T", "3")
    assert "state, first 3 pulls  █▅▃\n(from 0 to 0.5)" in shown


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


def test_leave_prints_what_to_show_and_writes_it(tmp_path: Path) -> None:
    arms = 'r = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3\nnames = ["teaser", "long read"]\n'
    (tmp_path / "arms.toml").write_text(arms)
    arguments = ("arms.toml", "--out", "table.json")
    shown = planned(*arguments, "--leave", "0.02", cwd=tmp_path)
    assert planned(*arguments, "--visits", "50", cwd=tmp_path) == shown
    table = bdes.DecisionTable.read(tmp_path / "table.json")
    assert table.instance == INSTANCE
    assert table.continuation == pytest.approx(0.98)
    assert table.names == ("teaser", "long read")
    answer = [line.split("  ") for line in shown.splitlines()[1:3]]
    assert answer[0][0] == f"below {table.starts[1]:.4g}"
    assert "long read" in answer[0]
    assert "teaser" in answer[1]
    assert f"{table.value:.4f} expected of a user" in shown
    assert "50 of a user on average" in shown


def test_a_table_comes_as_json_on_request() -> None:
    content = json.loads(planned(*ARMS, "--visits", "10", "--json"))
    assert content["continuation"] == 0.9
    assert content["value"] <= content["upper_bound"]
    assert content["arms"] == [1, 0]


def test_a_schedule_that_burns_the_state_says_so() -> None:
    shown = planned(*ARMS, "-T", "1000")
    report = bdes.report_plan(bdes.load_plugins(), INSTANCE, 1000)
    end = report.burnt_end()
    assert end is not None
    states = report.rounds(0, 1000)[1]
    lowest = states[100:900].min()
    assert (states[1000 - end.n_rounds + 1 :] < lowest).all()
    assert states[1000 - end.n_rounds] >= lowest
    assert end.last_state == pytest.approx(INSTANCE.state_after(report.plan.schedule))
    assert end.usual_state == pytest.approx(states[100:900].mean(), rel=0.01)
    assert f"burns the state in its last {end.n_rounds} rounds, down to 0.34 from 0.7" in shown


@pytest.mark.parametrize("horizon", ["1", "2", "3", "1000", "1000000"])
def test_a_schedule_that_keeps_the_state_says_nothing_of_it(horizon: str) -> None:
    assert "burns" not in planned("--r", "0.9,0.3", "--b", "1,0.1", "--lam", "0.3", "-T", horizon)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --horizon, or else --leave or --visits"),
        (("-T", "5", "--leave", "0.1"), "give --horizon, or else --leave or --visits"),
        (("--leave", "0.1", "--visits", "10"), "say the same"),
        (("--leave", "0"), "0.0 is not in the range"),
        (("--leave", "nan"), "continuation must be in [0, 1)"),
        (("--visits", "0.5"), "0.5 is not in the range"),
        (("--leave", "0.1", "--seconds", "1"), "--seconds goes with --horizon"),
        (("--leave", "0.1", "--out", "x.csv"), "must end in .json"),
        (("--leave", "0.1", "--out", "no/where.json"), "cannot write"),
        (("--leave", "0.1", "--planner", "greedy"), "makes no decision tables; those that do:"),
    ],
)
def test_a_wrong_request_for_a_table_exits_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert message in fails("plan", *ARMS, *arguments, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
