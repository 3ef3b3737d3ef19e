"""``bdes fit --plan``: the order of the answer, no plan without evidence, files with names."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.planning.advice import advise, worth_sentence
from bdes_framework.planning.verdict import Verdict, judge
from tests.support.command import bdes as command
from tests.support.command import fails, prints
from tests.support.logs import leaving_log, simulated_log

ADS = bdes.Instance([0.8, 0.3], [0.1, 0.9], 0.2)
NAMES = ('loud "ad" \\', "calm [red]\x1b]")
FLAGS = ("--user", "who", "--arm", "ad", "--reward", "click", "--permutations", "60")


def write_log(file: Path, log: bdes.Log, chances: bdes.FloatArray | None = None) -> None:
    users = np.repeat(np.arange(log.n_sequences), np.diff(log.starts, append=log.n_rows))
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        columns = [users, [NAMES[arm] for arm in log.arms], log.rewards]
        columns += [] if chances is None else [chances]
        writer.writerow(("who", "ad", "click", "chance")[: len(columns)])
        writer.writerows(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log of which half leaves, and one in which nothing matters."""
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder / "log.csv", leaving_log(ADS, users=300, mean=20, seed=1))
    still = bdes.Instance([0.5, 0.4], [1.0, 1.0], 0.0)
    write_log(folder / "still.csv", simulated_log(still, users=60, rows=20, seed=6))
    (folder / "folder.json").mkdir()
    return folder


@pytest.fixture(scope="module")
def planned(folder: Path) -> str:
    return prints("fit", "log.csv", *FLAGS, "--plan", "--plan-out", "table.json", cwd=folder)


def test_answer_comes_in_order(planned: str) -> None:
    lines = planned.splitlines()
    assert lines[0].startswith("What you show changes how people respond later (p = 0.016). The")
    assert "more than today's traffic" in lines[0]
    facts = ("does it matter", "goodness of fit", "against a drift", "against no state")
    order = (*facts, "rows", "lam", "Arm ", "State ", "value ", "Against ", "today's traffic")
    places = [
        next(place for place, line in enumerate(lines) if line.startswith(start)) for start in order
    ]
    assert places == sorted(places)
    assert "(60 permutations within users)" in planned
    assert "\x1b" not in planned


def test_table_is_written_with_names(folder: Path, planned: str) -> None:
    table = bdes.DecisionTable.read(folder / "table.json")
    assert table.names == (NAMES[1], NAMES[0])  # as the log sorts them
    assert table.visits == pytest.approx(20, rel=0.2)  # as users leave in the log
    assert "wrote table.json" in planned
    assert 'loud "ad" \\ ' in planned


@pytest.mark.parametrize(("asked", "visits"), [(("--leave", "0.1"), 10), (("--visits", "25"), 25)])
def test_leaving_may_be_given(folder: Path, asked: tuple[str, ...], visits: float) -> None:
    shown = prints("fit", "log.csv", *FLAGS, "--plan", *asked, "--json", cwd=folder)
    content = json.loads(shown)
    assert 1 / (1 - content["table"]["continuation"]) == pytest.approx(visits)
    assert list(content["lift"]["over"]) == ["today", "best-fixed", "greedy"]
    assert content["lift"]["over"]["greedy"]["arm"] == NAMES[0]
    assert content["verdict"]["matters"] is True
    assert content["verdict"]["doubts"] == []
    assert content["off_policy"] is None
    low, high = (content["lift"]["over"]["today"]["lift"][end] for end in ("low", "high"))
    assert 0 < low < high < 1


def test_schedule_is_planned_and_written(folder: Path) -> None:
    flags = ("--plan", "-T", "15", "--plan-out", "plan.csv", "--out", "fit.toml")
    shown = prints("fit", "log.csv", *FLAGS, *flags, cwd=folder)
    assert "no schedule earns more" in shown
    with (folder / "plan.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [(NAMES[1], NAMES[0])[int(row["arm"])] for row in rows]
    assert len(rows) == 15
    # The file has the posterior: bdes plan gives the same lift over simple rules.
    again = prints("plan", "fit.toml", "-T", "15", cwd=folder)
    (rule,) = [line.split() for line in shown.splitlines() if " always " in line]
    assert rule in [line.split() for line in again.splitlines()]
    # Flags overrule the file, and its posterior.
    known = prints("plan", "fit.toml", "-T", "15", "--lam", "0.3", cwd=folder)
    assert "over best-fixed" in known
    assert "Against" not in known
    table = prints("plan", "fit.toml", "--visits", "9", "--json", cwd=folder)
    assert list(json.loads(table)["lift"]["over"]) == ["best-fixed", "greedy"]


def test_no_plan_without_evidence(folder: Path) -> None:
    flags = ("--plan", "-T", "9", "--plan-out", "no.json", "--out", "still.toml")
    done = command("fit", "still.csv", *FLAGS, *flags, cwd=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("Nothing shows that what you show changes how people respond")
    assert "the state explains the log better" not in done.stdout
    assert "no plan is recommended: the log does not show that what was shown" in done.stderr
    assert "bdes: to find out, show calm [red]\\x1b], loud" in done.stderr
    assert "--plan-anyway" in done.stderr
    assert "wrote still.toml" in done.stdout  # the estimates are there all the same
    assert not (folder / "no.json").exists()
    done = command("fit", "still.csv", *FLAGS, *flags, "--plan-anyway", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning: planned anyway, although the log does not show" in done.stdout
    assert (folder / "no.json").exists()


def test_what_was_not_tested_is_no_evidence(folder: Path) -> None:
    done = command("fit", "log.csv", *FLAGS[:-1], "0", "--plan", "-T", "9", cwd=folder)
    assert done.returncode == 1
    assert "it was not tested whether" in done.stderr
    assert "does it matter    not tested" in done.stdout


def test_terminals_are_never_overrun(folder: Path) -> None:
    for width in ("80", "140"):
        shown = command(
            "fit", "log.csv", *FLAGS, "--plan", cwd=folder,
            settings={"COLUMNS": width, "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"},
        ).stdout  # fmt: skip
        plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
        assert max(map(len, plain.splitlines())) <= int(width), plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("still.csv", "--plan", "--plan-anyway"), "all have 20 visits: give --visits, --leave or"),
        # Requests are checked before a log is read.
        (("nowhere.csv", "--leave", "0.1"), "--plan-anyway go with --plan"),
        (("nowhere.csv", "--plan-anyway"), "go with --plan"),
        (("nowhere.csv", "--plan", "-T", "5", "--leave", "0.1"), "give --horizon, or else"),
        (("nowhere.csv", "--plan", "--visits", "5", "--leave", "0.1"), "say the same"),
        (("nowhere.csv", "--plan", "--plan-out", "a.csv"), "--plan-out must end in .json"),
        (("nowhere.csv", "--plan", "-T", "5", "--plan-out", "a.md"), "end in .csv or .json"),
        (("nowhere.csv", "--plan", "--plan-out", "no/a.json"), "cannot write no/a.json"),
        (("nowhere.csv", "--plan", "--plan-out", "folder.json"), "cannot write folder.json"),
        (("nowhere.csv", "--plan", "-T", "0"), "-T"),
        (("nowhere.csv", "--permutations", "1"), "must be 0, for no test, or at least 20, got 1"),
        (("nowhere.csv", "--permutations", "19"), "the smallest p-value is 1 / (n + 1)"),
    ],
)
def test_a_wrong_request_exits_2(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in fails("fit", *FLAGS, *arguments, cwd=folder)


def test_few_permutations_are_refused() -> None:
    log = simulated_log(ADS, users=200, rows=20, seed=1)
    found = bdes.fit(log)
    with pytest.raises(bdes.InvalidValueError, match="at least 20, got 19"):
        judge(found, log, 19)
    assert judge(found, log, 20).matters
    assert judge(found, log, 0).test is None


def test_propensities_check_the_plan() -> None:
    log = simulated_log(ADS, users=400, rows=10, run=1, seed=3)
    fit, plugins = bdes.fit(log), bdes.load_plugins()
    known = bdes.Log(log.arms, log.rewards, log.starts, propensities=np.full(log.n_rows, 0.5))
    advice = advise(plugins, Verdict(fit, None), known, horizon=10)
    assert advice.check is not None
    assert advice.check.agrees
    rare = bdes.Log(log.arms[:20], log.rewards[:20], [0, 10], propensities=[0.5] * 20)
    advice = advise(plugins, Verdict(fit, None), rare, horizon=10)
    assert advice.check is None
    assert "30 are needed to check it" in advice.unchecked


def test_propensities_of_a_column_check_the_plan(tmp_path: Path) -> None:
    log = simulated_log(ADS, users=300, rows=6, run=1, seed=3)
    write_log(tmp_path / "log.csv", log, chances=np.full(log.n_rows, 0.5))
    flags = (*FLAGS, "--propensity", "chance", "--plan", "-T", "6", "--plan-anyway")
    shown = prints("fit", "log.csv", *flags, cwd=tmp_path)
    (line,) = [line for line in shown.splitlines() if line.startswith("checked by propensities")]
    assert re.fullmatch(r".* on the first \d visits: \d+ effective users of 300", line)
    assert "doubly robust" in shown
    content = json.loads(prints("fit", "log.csv", *flags, "--json", cwd=tmp_path))
    assert content["off_policy"]["users"] == 300


def test_worth_is_said_as_surely_as_it_is_known() -> None:
    sure = worth_sentence(bdes.Forecast(0.1, 0.05, 0.2))
    worse = worth_sentence(bdes.Forecast(-0.1, -0.2, -0.05))
    unsure = worth_sentence(bdes.Forecast(0.1, -0.05, 0.2))
    assert sure == "The plan earns 10.0 % more than today's traffic (5.0 to 20.0 %)."
    assert worse == "The plan earns 10.0 % less than today's traffic (5.0 to 20.0 %)."
    assert "not certain" in unsure
    assert unsure.endswith(": +10.0 % (-5.0 to +20.0 %).")


@pytest.fixture(scope="module")
def guessed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log whose third arm pays always, in five rows of all."""
    folder = tmp_path_factory.mktemp("guessed")
    log = simulated_log(ADS, users=300, rows=20, seed=1)
    arms, rewards = log.arms.copy(), log.rewards.copy()
    rows = np.arange(19, 119, 20)
    arms[rows], rewards[rows] = 2, 1
    users = np.repeat(np.arange(300), 20)
    with (folder / "log.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("who", "ad", "click"))
        writer.writerows(zip(users, arms, rewards, strict=True))
    return folder


def test_a_plan_of_guessed_arms_is_refused(guessed: Path) -> None:
    flags = ("--plan", "-T", "20", "--plan-out", "plan.json")
    done = command("fit", "log.csv", *FLAGS, *flags, cwd=guessed)
    assert done.returncode == 1
    said = "the plan shows arms of which fewer than 30 rewards are known: '2'"
    assert f"no plan is recommended: {said}" in done.stderr
    assert not (guessed / "plan.json").exists()
    done = command("fit", "log.csv", *FLAGS, *flags, "--plan-anyway", cwd=guessed)
    assert done.returncode == 0
    assert f"warning: planned anyway, although {said}" in done.stdout
    assert (guessed / "plan.json").exists()


def test_rewards_that_are_not_known_do_not_count() -> None:
    log = simulated_log(bdes.Instance([0.4, 0.3], [0.2, 0.9], 0.2), users=200, rows=10, seed=4)
    holes = np.where(log.arms == 0, np.nan, log.rewards)
    unknown = bdes.Log(log.arms, holes, log.starts, ["spare", "shown"])
    verdict = Verdict(bdes.fit(unknown), None)
    advice = advise(bdes.load_plugins(), verdict, unknown, horizon=10)
    assert advice.verdict.unknown_arms == ("spare",)
    known = bdes.Log(log.arms, log.rewards, log.starts)
    advice = advise(bdes.load_plugins(), Verdict(bdes.fit(known), None), known, continuation=0.9)
    assert advice.verdict.unknown_arms == ()


def test_a_lift_that_may_be_below_0_is_a_warning() -> None:
    plugins = bdes.load_plugins()
    sure = leaving_log(ADS, users=300, mean=20, seed=1)
    assert advise(plugins, Verdict(bdes.fit(sure), None), sure, horizon=15).warnings == ()
    flat = bdes.Instance([0.5, 0.5], [0.9, 0.9], 0.1)
    unsure = simulated_log(flat, users=40, rows=10, seed=2)
    advice = advise(plugins, Verdict(bdes.fit(unsure), None), unsure, horizon=10)
    over = advice.lift.over("today").lift
    assert over is not None
    assert over.low < 0
    (warning,) = advice.warnings
    assert "may earn less than today's traffic" in warning


def test_changing_chances_are_said(tmp_path: Path) -> None:
    log = simulated_log(ADS, users=60, rows=20, seed=3)
    write_log(tmp_path / "log.csv", log, chances=np.linspace(0.1, 0.9, log.n_rows))
    shown = prints(
        "fit", "log.csv", *FLAGS, "--propensity", "chance", "--report", "p.html", cwd=tmp_path
    )
    assert "warning: chances of arms changed: by their propensities, 0% of" in shown
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "chances of arms changed: by their propensities" in html


def test_propensities_that_do_not_fit_give_no_value(tmp_path: Path) -> None:
    log = simulated_log(ADS, users=600, rows=6, run=1, seed=3)
    write_log(tmp_path / "log.csv", log, chances=np.full(log.n_rows, 0.9))
    flags = ("--propensity", "chance", "--plan", "-T", "6", "--plan-anyway")
    shown = prints("fit", "log.csv", *FLAGS, *flags, cwd=tmp_path)
    assert "not checked by propensities: the propensities do not fit the log" in shown
    assert "doubly robust" not in shown
