"""Hostile arguments, files and outputs: one clear sentence, no traceback, no live text."""

import csv
import io
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.support.command import bdes, fails, prints
from tests.support.experiments import write_experiment, write_plugin

ESCAPE = "\x1b[2J"
SHOWN = r"\x1b[2J"


@pytest.mark.parametrize(
    "arguments",
    [
        "check {}.toml",
        "check demo.toml {}",
        "show --{}",
        "{}",
        "run {}.toml --out x",
        "run demo.toml --workers {}",
        "run demo.toml --engine {}",
        "report {}",
        "report one --out {}/x.html",
        "plot one --chart {} -o x.svg",
        "plot one --chart final -o {}.gif",
        "plot one --chart final -o x.svg --policy {}",
        "export one --out {}/x.csv",
        "init log.csv/{}",
        "plan {}.csv -T 10",
        "plan {}.toml -T 10",
        "plan --r {} --b 1 --lam 0.5 -T 3",
        "fit {}.csv",
        "fit log.csv --out {}/x.toml",
        "fit log.csv --arm {}",
        "plugins show {}",
        "plugins --config {}.toml",
        "compare {} {}",
    ],
)
def test_escapes_in_arguments_do_not_reach_the_terminal(run: Path, arguments: str) -> None:
    done = bdes(*arguments.replace("{}", ESCAPE).split(), cwd=run)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert SHOWN in done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an experiment, its run ``one``, and a log."""
    folder = tmp_path_factory.mktemp("hostile")
    write_plugin(folder)
    write_experiment(folder)
    (folder / "log.csv").write_text("arm,reward\na,1\nb,0\n")
    prints("run", "demo.toml", "--out", "one", cwd=folder)
    return folder


@pytest.mark.parametrize(
    "arguments",
    ["init {}.toml", "report one --out {}.html --paths 0", "check {}.toml", "run {}.toml --out {}"],
)
def test_escapes_in_paths_that_are_printed_are_shown(folder: Path, arguments: str) -> None:
    prints("run", "demo.toml", "--out", "one", cwd=folder)
    if "init" not in arguments:
        (folder / f"{ESCAPE}.toml").write_text((folder / "demo.toml").read_text())
    shown = prints(*arguments.replace("{}", ESCAPE).split(), cwd=folder)
    assert "\x1b" not in shown
    assert SHOWN in shown


def test_errors_of_cells_and_arms_files_are_shown_as_text(folder: Path) -> None:
    arms = ("r = [0.9, 0.3]\nb = [0.1, 1.0]", 'arms = {file = "no\\u001b[2J.toml"}')
    assert SHOWN in fails("check", str(write_experiment(folder, arms)))
    write_experiment(folder)
    failing = "raise OSError('=1+1\\x1b[2J')"
    write_plugin(folder, ("return np.zeros(limit, dtype=np.int64)", failing))
    done = bdes("run", "demo.toml", "--out", "one", cwd=folder)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert SHOWN in done.stderr


def test_csv_holds_no_live_formulas(folder: Path) -> None:
    label = ('use = "mine"', 'use = "mine"\nlabel = "=cmd|x!A1"')
    bernoulli = ('use = "bernoulli"', 'use = "bernoulli"\nlabel = "-1+2"')
    write_experiment(folder, label, bernoulli, ("[10, 50]", "[10]"))
    prints("run", "demo.toml", "--out", "one", cwd=folder)
    (row, *_) = csv.DictReader(io.StringIO(prints("export", "one", cwd=folder)))
    assert (row["policy"], row["environment"]) == ("'=cmd|x!A1", "'-1+2")
    assert float(row["total_reward"]) >= 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "a\0b.toml"),
        ("run", "demo.toml", "--out", "a\0b"),
        ("show", "a\0b"),
        ("fit", "a\0b.csv"),
        ("plan", "a\0b.csv", "-T", "10"),
        ("plugins", "--module", "./a\0b.py"),
    ],
)
def test_nul_in_a_path_is_a_wrong_request(folder: Path, arguments: tuple[str, ...]) -> None:
    done = bdes(*arguments, cwd=folder)
    assert "Traceback" not in done.stderr
    assert "NUL" in done.stderr or "null" in done.stdout + done.stderr


ARMS = ("--r", "0.9,0.3", "--b", "0.1,1", "--lam", "0.3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", *ARMS, "-T", str(10**24)), "is not in the range 1<=x<=1000000000000000"),
        (("plan", *ARMS, "-T", "9", "--seconds", "inf"), "inf is not in the range"),
        (("plan", *ARMS, "-T", "9", "--seconds", "nan"), "must be a number of seconds, got nan"),
        (("plan", *ARMS, "-T", "9", "--set", f"{'a.' * 40_000}a=1"), "is not a parameter"),
        (("plugins", "--module", f"./{'x' * 5_000}.py"), "File name too long"),
        (("check", f"{'x' * 5_000}.toml"), "File name too long"),
        (("fit", "/dev/zero"), "zero is a device: give a file or a pipe"),
        (("fit", "damaged.parquet"), "cannot read damaged.parquet"),
        (("fit", "log.csv", "--lam", "1e-320", "--lam-deviation", "1"), "lam"),
    ],
)
def test_no_request_ends_in_a_traceback(
    run: Path, arguments: tuple[str, ...], message: str
) -> None:
    table = pyarrow.table({"arm": ["xyz", "b"], "reward": [1, 0]})
    pyarrow.parquet.write_table(table, run / "damaged.parquet", compression="none")
    content = (run / "damaged.parquet").read_bytes()
    (run / "damaged.parquet").write_bytes(content.replace(b"xyz", b"\xff\xff\xff"))
    done = bdes(*arguments, cwd=run)
    assert "Traceback" not in done.stderr
    assert message in done.stdout + done.stderr


def test_names_that_javascript_objects_have_can_be_drawn(folder: Path) -> None:
    label = ('use = "mine"', 'use = "mine"\nlabel = "constructor"')
    environment = ('use = "bernoulli"', 'use = "bernoulli"\nlabel = "toString"')
    write_experiment(folder, label, environment)
    prints("run", "demo.toml", "--out", "one", cwd=folder)
    flags = ("--chart", "regret", "--policy", "constructor", "-o", "x.svg")
    assert "wrote x.svg" in prints("plot", "one", *flags, cwd=folder)
    assert "constructor" in (folder / "x.svg").read_text()


OUTPUT = [sys.executable, "-c", "from bdes_framework.cli import main; main()", "schema"]


def test_output_that_is_full_or_closed() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(OUTPUT, stdout=full, stderr=subprocess.PIPE, text=True)
    reason = "cannot write the output: No space left on device"
    assert (done.returncode, done.stderr) == (1, f"bdes: error: {reason}\n")
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *OUTPUT], stderr=subprocess.PIPE, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")
