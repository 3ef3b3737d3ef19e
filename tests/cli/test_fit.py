"""``bdes fit``, and the file it writes, as ``bdes plan`` and experiments take it."""

import csv
import gzip
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.command import bdes as command
from tests.support.logs import simulated_log

ADS = bdes.Instance([0.8, 0.3], [0.2, 0.9], 0.2)
NAMES = ('loud "ad"\\', "calm [red]\x1b]")
FLAGS = ("--user", "who", "--time", "when", "--arm", "ad", "--reward", "click")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log, and what was fitted to it."""
    folder = tmp_path_factory.mktemp("logs")
    log = simulated_log(ADS, users=200, rows=40, seed=1)
    with (folder / "log.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("when", "who", "ad", "click"))
        for row, (arm, reward) in enumerate(zip(log.arms, log.rewards, strict=True)):
            writer.writerow((row % 40, row // 40, NAMES[arm], reward))
    done = command("fit", "log.csv", *FLAGS, "--out", "fit.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    (folder / "folder.toml").mkdir()
    (folder / "log.csv.gz").write_bytes(gzip.compress((folder / "log.csv").read_bytes()))
    return folder


def the_fit() -> bdes.Fit:
    log = simulated_log(ADS, users=200, rows=40, seed=1)
    # Arms are numbered by their names: calm comes first.
    return bdes.fit(bdes.Log(1 - log.arms, log.rewards, log.starts))


def test_the_table_shows_estimates_intervals_and_comparisons(folder: Path) -> None:
    shown, found = (folder / "stdout").read_text(), the_fit()
    for arm in (0, 1):
        assert f"{found.instance.r[arm]:.4f}" in shown
        low, high = found.b_interval[arm]
        assert f"{low:.4f} to {high:.4f}" in shown
    assert f"{found.instance.lam:.4g} (" in shown
    assert "8,000 in 200 sequences" in shown
    assert "the state explains the log better" in shown
    assert "\x1b" not in shown
    assert "calm [red]\\x1b]" in shown


def test_nothing_but_the_answer_is_printed_into_a_pipe(folder: Path) -> None:
    assert (folder / "stderr").read_text() == ""
    assert "not used" not in (folder / "stdout").read_text()


MAIN = "from bdes_framework.cli import main; main()"


def piped(text: str, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what a fit prints about a log that comes through a pipe, 40 characters a line."""
    command = [sys.executable, "-c", MAIN, "fit", source, *arguments]
    environment = os.environ | {"COLUMNS": "40", "NO_COLOR": "1"}
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
def test_a_log_from_a_pipe_is_read(source: str) -> None:
    done = piped("arm,reward,user\n" + "a,1,x\nb,0,y\n" * 20, source)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "40 in 1 sequence " in done.stdout
    assert "not used          column user" in done.stdout
    # Warnings are whole lines, whatever the width: they can be searched.
    assert "lam is known only to lie between" in done.stdout
    assert "\nwarning: lam cannot be told from 0, at which the state never moves\n" in done.stdout


def test_a_bad_line_from_a_pipe_is_told() -> None:
    done = piped("arm,reward\na,1\nb,2\n", "-")
    assert done.returncode == 2
    assert done.stderr == "bdes: error: <stdin>, line 3: a reward is 0 or 1, got '2'\n"


def test_a_closed_standard_input_is_told() -> None:
    close = f"import os; os.close(0); import sys; sys.stdin = None; {MAIN}"
    command = [sys.executable, "-c", close, "fit", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "standard input is closed" in done.stderr
    assert "Traceback" not in done.stderr


def test_numbers_are_short_and_none_is_minus_zero() -> None:
    shown = piped("arm,reward\n" + "a,0\nb,0\n" * 50, "-", "--q0", "unknown").stdout
    assert "-0.0" not in shown
    assert max(map(len, shown.split())) < 15


def test_criteria_that_disagree_are_said_to() -> None:
    log = simulated_log(bdes.Instance([0.6, 0.3], [0.5, 0.7], 0.8), users=1, rows=4000, seed=1)
    found = bdes.fit(log)
    assert found.evolving.aic < found.stationary.aic
    assert found.evolving.bic > found.stationary.bic
    rows = (f"{arm},{paid}" for arm, paid in zip(log.arms, log.rewards, strict=True))
    shown = piped("arm,reward\n" + "\n".join(rows), "-").stdout
    assert "they disagree on whether the state explains the log better" in shown


def test_the_file_holds_the_estimates_to_the_last_digit(folder: Path) -> None:
    content, found = tomllib.loads((folder / "fit.toml").read_text()), the_fit()
    assert content["r"] == found.instance.r.tolist()
    assert content["lam"] == found.instance.lam
    assert content["names"] == [NAMES[1], NAMES[0]]
    assert content["fit"]["b_interval"] == found.b_interval.tolist()
    assert content["fit"]["aic"] < content["fit"]["aic_without_state"]


def test_a_plan_takes_the_file_as_it_is(folder: Path) -> None:
    done = command("plan", "fit.toml", "-T", "100", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = the_fit().instance
    flags = ("--r", ",".join(map(repr, found.r.tolist())),
             "--b", ",".join(map(repr, found.b.tolist())), "--lam", repr(found.lam))  # fmt: skip
    by_hand = command("plan", *flags, "-T", "100")
    assert done.stdout.splitlines()[0] == by_hand.stdout.splitlines()[0]
    assert 'loud "ad"' in done.stdout
    assert "\x1b" not in done.stdout


EXPERIMENT = """
name = "fitted"
seed = 1
horizons = [50]
environments = [{ use = "bernoulli", arms = { file = "fit.toml" } EXTRA }]
policies = ["ucb1"]
engine = "serial"
"""


def test_an_experiment_takes_the_file_as_it_is(folder: Path) -> None:
    (folder / "own.toml").write_text(EXPERIMENT.replace(" EXTRA", ""))
    (cell,) = bdes.load_experiment(folder / "own.toml").cells
    found = the_fit().instance
    assert np.array_equal(cell.environment.parameters["r"], found.r)  # type: ignore[arg-type]
    assert cell.environment.parameters["lam"] == found.lam
    assert cell.environment.parameters["q0"] == 1.0
    (folder / "other.toml").write_text(EXPERIMENT.replace(" EXTRA", ", lam = 0.5"))
    (cell,) = bdes.load_experiment(folder / "other.toml").cells
    assert cell.environment.parameters["lam"] == 0.5
    assert cell.environment.parameters["q0"] == 1.0


def test_known_predicted_and_unknown_quantities_are_taken(folder: Path) -> None:
    known = command("fit", "log.csv", *FLAGS, "--lam", "0.2", cwd=folder).stdout
    assert "0.2, known" in known
    predicted = command("fit", "log.csv", *FLAGS, "--lam", "0.2", "--lam-deviation", "0.001",
                        cwd=folder).stdout  # fmt: skip
    assert "0.2 (0.1997 to 0.2003)" in predicted
    unknown = command("fit", "log.csv", *FLAGS, "--q0", "unknown", cwd=folder).stdout
    assert "warning: q0 is unknown" in unknown


# Arms that pay with certainty at their best: there, r or b or q0 is above 1 in some scale.
@pytest.mark.parametrize(
    ("world", "q0", "out"),
    [
        (bdes.Instance([0.5, 0.4], [0.9, 1.0], 0.3, q0=0.5), "unknown", "fit.toml"),
        (bdes.Instance([1.0, 0.9], [0.8, 1.0], 0.3, q0=0.4), "unknown", "fit.json"),
        (bdes.Instance([1.0, 0.4], [0.5, 1.0], 0.3, q0=1.0), "unknown", "fit.toml"),
        (bdes.Instance([0.5, 0.2], [0.3, 1.0], 0.3, q0=2.0), "2", "fit.json"),
    ],
)
def test_a_written_file_is_planned_and_simulated_whatever_the_first_state(
    tmp_path: Path, world: bdes.Instance, q0: str, out: str
) -> None:
    log = simulated_log(world, users=300, rows=20, seed=2)
    pairs = enumerate(zip(log.arms, log.rewards, strict=True))
    rows = [f"{row // 20},{arm},{reward}\n" for row, (arm, reward) in pairs]
    (tmp_path / "log.csv").write_text("user,arm,reward\n" + "".join(rows))
    done = command("fit", "log.csv", "--user", "user", "--q0", q0, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / out).read_text()
    content = tomllib.loads(text) if out == "fit.toml" else json.loads(text)
    assert max(*content["r"], *content["b"], content["q0"]) <= 1
    (low, high), _ = content["fit"]["r_interval"]
    assert 0 <= low < content["r"][0] <= high <= 1
    # In every scale the same: what alternating the arms pays.
    unit = max(*world.b, world.q0)
    written = bdes.Instance(content["r"], content["b"], content["lam"], content["q0"])
    assert written.value([0, 1] * 10) == pytest.approx(world.value([0, 1] * 10), rel=0.1)
    assert content["q0"] == pytest.approx(world.q0 / unit, rel=0.2)
    planned = command("plan", out, "-T", "50", "--out", "plan.json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert max(plan["expected_rewards"]) <= 1
    assert plan["value"] == pytest.approx(world.value(plan["arms"]), rel=0.1)
    config = EXPERIMENT.replace("fit.toml", out).replace(" EXTRA", "")
    (tmp_path / "experiment.toml").write_text(config)
    run = bdes.run_experiment(tmp_path / "experiment.toml", out=tmp_path / "run")
    (result,) = run.results()
    assert result.n_failed == 0
    assert result.reward is not None
    assert 0 < result.reward.mean <= 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.csv",), "cannot read nowhere.csv"),
        (("log.csv",), "has no column 'arm'"),
        (("log.csv", *FLAGS, "--q0", "x"), "--q0 needs a number or 'unknown'"),
        (("log.csv", *FLAGS, "--lam", "2"), "lam must be a number in [0, 1]"),
        (("log.csv", *FLAGS, "--lam-deviation", "1"), "needs --lam"),
        (("log.csv", *FLAGS, "--lam", "1", "--lam-deviation", "1"), "must lie above 0 and below 1"),
        (("log.csv", *FLAGS, "--out", "fit.csv"), "must end in .toml or .json"),
        (("log.csv", *FLAGS, "--out", "no/where.toml"), "cannot write"),
        (("no-such-log.csv", *FLAGS, "--out", "no/where.toml"), "cannot write"),
        (("log.csv", "--user", "when", "--arm", "ad", "--reward", "click"), "had rows before"),
        (("log.csv", "--arm", "ad", "--reward", "ad"), "cannot be both the arm and the reward"),
        (("log.csv", "--user", "who", "--order", "who"), "cannot be both the user and the order"),
        (("nowhere.csv", "--lam", "2"), "lam must be a number in [0, 1]"),
        (("nowhere.csv", "--q0", "-1"), "q0 must be a finite number of at least 0"),
        (("nowhere.csv", "--q0", "nan"), "q0 must be a finite number of at least 0"),
        (("nowhere.csv", "--out", "folder.toml"), "cannot write folder.toml: it is a folder"),
        ((".",), "cannot read .: it is a folder, not a file"),
        (("x" * 300,), "x: File name too long"),
        (
            ("log.csv.gz",),
            "log.csv.gz is compressed: pipe it through zcat into 'bdes fit -'",
        ),
    ],
)
def test_a_wrong_request_exits_2_without_a_traceback(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = command("fit", *arguments, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
