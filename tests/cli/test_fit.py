"""``bdes fit``, and the file it writes, as ``bdes plan`` and experiments take it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from unittest import mock

import duckdb
import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.command import bdes as command
from tests.support.command import bdes_process, fails, prints, without_progress
from tests.support.logs import simulated_log

ADS = bdes.Instance([0.8, 0.3], [0.2, 0.9], 0.2)
NAMES = ('loud "ad"\\', "calm [red]\x1b]")
COLUMNS = ("--user", "who", "--time", "when", "--arm", "ad", "--reward", "click")
FLAGS = (*COLUMNS, "--permutations", "50")


def write_log(folder: Path, log: bdes.Log) -> None:
    """Write log.csv, of users with equally many rows each."""
    n_rows = log.n_rows // log.n_sequences
    with (folder / "log.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("when", "who", "ad", "click"))
        for row, (arm, reward) in enumerate(zip(log.arms, log.rewards, strict=True)):
            writer.writerow((row % n_rows, row // n_rows, NAMES[arm], reward))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log, and what was fitted to it."""
    folder = tmp_path_factory.mktemp("logs")
    write_log(folder, simulated_log(ADS, users=200, rows=40, seed=1))
    done = command("fit", "log.csv", *FLAGS, "--out", "fit.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    (folder / "folder.toml").mkdir()
    return folder


@pytest.fixture(scope="module")
def found() -> bdes.Fit:
    """Return what the library fits to the same log."""
    log = simulated_log(ADS, users=200, rows=40, seed=1)
    # Arms are numbered by their names: calm comes first.
    return bdes.fit(bdes.Log(1 - log.arms, log.rewards, log.starts), users="clustered")


def test_threads_change_nothing(tmp_path: Path) -> None:
    write_log(tmp_path, simulated_log(ADS, users=300, rows=1000, seed=2))  # more than a block
    flags = ("fit", "log.csv", *COLUMNS, "--permutations", "20")
    alone, three = (command(*flags, "--threads", n, cwd=tmp_path) for n in ("1", "3"))
    assert three.stdout == alone.stdout
    assert "--threads" in fails(*flags, "--threads", "0", cwd=tmp_path)


def test_fit_prints_estimates_and_nothing_else(folder: Path, found: bdes.Fit) -> None:
    shown = (folder / "stdout").read_text()
    low, high = found.b_interval.T
    for text in (
        *(f"{r:.4f}" for r in found.instance.r),
        *(f"{low[arm]:.4f} to {high[arm]:.4f}" for arm in (0, 1)),
        f"{found.instance.lam:.4g} (",
        "8,000 in 200 sequences",
        "the state explains the log better",
        "calm [red]\\x1b]",
    ):
        assert text in shown
    assert "\x1b" not in shown
    assert "not used" not in shown
    assert (folder / "stderr").read_text() == ""


def piped(text: str, source: str) -> subprocess.CompletedProcess[str]:
    """Return what a fit prints about a log that comes through a pipe, 40 characters a line."""
    environment = os.environ | {"COLUMNS": "40", "NO_COLOR": "1"}
    return bdes_process("fit", source, input=text, env=environment)


@pytest.mark.parametrize("source", ["-", "/dev/stdin"])
def test_fit_reads_a_pipe(source: str) -> None:
    done = piped("arm,reward,user\n" + "a,1,x\nb,0,y\n" * 20, source)
    assert done.returncode == 0, done.stderr
    assert without_progress(done.stderr) == ""
    assert "40 in 1 sequence\n" in done.stdout
    assert "not used          column user: one sequence: did you mean --user user?" in done.stdout
    # Warnings are whole lines, whatever the width: they can be searched.
    assert "lam is known only to lie between" in done.stdout
    assert (
        "\nwarning: lam cannot be distinguished from 0, at which the state never moves\n"
        in done.stdout
    )


def test_a_bad_line_from_a_pipe_is_named() -> None:
    done = piped("arm,reward\na,1\nb,2\n", "-")
    assert done.returncode == 2
    assert done.stderr == "bdes: error: <stdin>, line 3: a reward is 0 or 1, got '2'\n"


def test_a_closed_standard_input_is_an_error() -> None:
    with mock.patch("sys.stdin", None):
        assert "standard input is closed" in fails("fit", "-")


def test_printed_numbers_are_short(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm,reward\n" + "a,0\nb,0\n" * 50)
    shown = command("fit", "log.csv", "--q0", "unknown", cwd=tmp_path).stdout
    assert "-0.0" not in shown
    assert max(map(len, shown.split())) < 15


def test_criteria_that_disagree_are_reported(tmp_path: Path) -> None:
    world = bdes.Instance([0.6, 0.3], [0.5, 0.7], 0.8)
    write_log(tmp_path, simulated_log(world, users=1, rows=4000, seed=1))
    shown = command("fit", "log.csv", *FLAGS, cwd=tmp_path).stdout
    assert "they disagree on whether a state, or a trend that all arms share" in shown


def test_the_written_file_holds_every_digit(folder: Path, found: bdes.Fit) -> None:
    content = tomllib.loads((folder / "fit.toml").read_text())
    assert content["r"] == found.instance.r.tolist()
    assert content["lam"] == found.instance.lam
    assert content["names"] == [NAMES[1], NAMES[0]]
    assert content["fit"]["b_interval"] == found.b_interval.tolist()
    assert content["fit"]["aic"] < content["fit"]["aic_without_state"]


def test_plan_takes_the_written_file(folder: Path, found: bdes.Fit) -> None:
    shown = prints("plan", "fit.toml", "-T", "100", cwd=folder)
    r, b = (",".join(map(repr, part.tolist())) for part in (found.instance.r, found.instance.b))
    lam = repr(found.instance.lam)
    by_hand = prints("plan", "--r", r, "--b", b, "--lam", lam, "-T", "100")
    assert shown.splitlines()[0].split() == by_hand.splitlines()[0].split()
    assert 'loud "ad"' in shown
    assert "\x1b" not in shown


EXPERIMENT = """
name = "fitted"
seed = 1
horizons = [50]
environments = [{ use = "bernoulli", arms = { file = "fit.toml" } EXTRA }]
policies = ["ucb1"]
engine = "serial"
"""


@pytest.mark.parametrize(("extra", "lam"), [("", None), (", lam = 0.5", 0.5)])
def test_an_experiment_takes_the_written_file(
    folder: Path, found: bdes.Fit, extra: str, lam: float | None
) -> None:
    (folder / "experiment.toml").write_text(EXPERIMENT.replace(" EXTRA", extra))
    (cell,) = bdes.load_experiment(folder / "experiment.toml").cells
    parameters = cell.environment.parameters
    assert np.array_equal(parameters["r"], found.instance.r)  # type: ignore[arg-type]
    assert parameters["lam"] == (found.instance.lam if lam is None else lam)
    assert parameters["q0"] == 1.0


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (("--lam", "0.2"), "0.2, known"),
        (("--lam", "0.2", "--lam-deviation", "0.001"), "0.2 (0.1997 to 0.2003)"),
        (("--q0", "unknown"), "warning: q0 is unknown"),
    ],
)
def test_fit_takes_rates_and_states(folder: Path, flags: tuple[str, ...], shown: str) -> None:
    assert shown in command("fit", "log.csv", *FLAGS, *flags, cwd=folder).stdout


def test_a_file_in_another_scale_is_planned(tmp_path: Path) -> None:
    world = bdes.Instance([1.0, 0.9], [0.8, 1.0], 0.3, q0=0.4)
    write_log(tmp_path, simulated_log(world, users=300, rows=20, seed=2))
    flags = ("--q0", "unknown", "--out", "fit.json")
    prints("fit", "log.csv", *FLAGS, *flags, cwd=tmp_path)
    content = json.loads((tmp_path / "fit.json").read_text())
    assert max(*content["r"], *content["b"], content["q0"]) <= 1
    prints("plan", "fit.json", "-T", "50", "--out", "plan.json", cwd=tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert max(plan["expected_rewards"]) <= 1
    played = [1 - arm for arm in plan["arms"]]  # the file's arms are sorted by name
    assert plan["value"] == pytest.approx(world.value(played), rel=0.1)
    config = EXPERIMENT.replace("fit.toml", "fit.json").replace(" EXTRA", "")
    (tmp_path / "experiment.toml").write_text(config)
    with bdes.run_experiment(tmp_path / "experiment.toml", out=tmp_path / "run") as run:
        (result,) = run.results()
    assert result.n_failed == 0
    assert result.reward is not None
    assert 0 < result.reward.mean <= 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no/where.csv",), "cannot read no/where.csv"),
        (("log.csv",), "has no column 'arm'"),
        (("log.csv", "--arm", "click", "--reward", "ad"), "a reward is 0 or 1, got"),
        (("log.csv", *FLAGS, "--query", "SELECT 1"), "log.csv is no database"),
        (("log.csv", *FLAGS, "--encoding", "klingon"), "there is no encoding 'klingon'"),
        (("x" * 300,), "x: File name too long"),
        # Requests are checked before a log is read.
        (("nowhere.csv", "--q0", "x"), "--q0 needs a number or 'unknown'"),
        (("nowhere.csv", "--q0", "-1"), "q0 must be a finite number of at least 0"),
        (("nowhere.csv", "--q0", "nan"), "q0 must be a finite number of at least 0"),
        (("nowhere.csv", "--lam", "2"), "lam must be a number in [0, 1]"),
        (("nowhere.csv", "--lam-deviation", "1"), "needs --lam"),
        (("nowhere.csv", "--lam", "1", "--lam-deviation", "1"), "must lie above 0 and below 1"),
        (("nowhere.csv", "--out", "fit.csv"), "must end in .toml or .json"),
        (("nowhere.csv", "--out", "no/where.toml"), "cannot write"),
        (("nowhere.csv", "--out", "folder.toml"), "cannot write folder.toml: it is a folder"),
        (("nowhere.csv", "--user", "who", "--order", "who"), "both the user and the order"),
    ],
)
def test_a_wrong_request_exits_2(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in fails("fit", *arguments, cwd=folder)


def test_bad_rows_are_told_on_standard_error(folder: Path, tmp_path: Path) -> None:
    text = (folder / "log.csv").read_text()
    bad = 'x\x1b[31m,u,calm,1\n40,0,"",1\n41,0,calm,maybe\n'
    (tmp_path / "log.csv").write_text(text + bad)
    done = command("fit", "log.csv", *FLAGS, cwd=tmp_path)
    assert done.returncode == 0
    told = [
        "bad rows: 1 row left out; the first is log.csv, line 8002: order 'x\\x1b[31m' is no",
        "bad rows: 1 row left out; the first is log.csv, line 8003: has no value in column 'ad'",
        "bad rows: 1 row kept with an unknown reward; the first is log.csv, line 8004: a reward is",
    ]
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))
    assert "8,001 in 200 sequences, 1 reward not known" in done.stdout
    assert "line 8002: order" in fails("fit", "log.csv", *FLAGS, "--strict", cwd=tmp_path)


def test_fit_of_a_database_is_the_same(folder: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE shown AS FROM read_csv(?)", [str(folder / "log.csv")])
    query = ("--query", "SELECT * FROM shown ORDER BY random()")
    shown = command("fit", "shop.db", *FLAGS, "--strict", *query, cwd=tmp_path).stdout
    lines = (folder / "stdout").read_text().splitlines()
    for line in lines:  # users come in another order: sums are rounded in another way
        if line.startswith(("rows", "calm", "loud")):
            assert line in shown


def test_a_signal_leaves_no_temporary_files(tmp_path: Path) -> None:
    main = "from bdes_framework.cli import main; main()"
    command = [sys.executable, "-c", main, "fit", "-"]
    settings = os.environ | {"TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=settings, stdin=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(b"arm,reward\n" * 100_000)
        process.stdin.flush()
        until = time.monotonic() + 60
        while not list(tmp_path.glob("bdes-log-*")) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert b"stopped" in errors
    assert not list(tmp_path.iterdir())
