"""Runs that came from somebody else: what they name is not read, what they hold is checked."""

import json
import os
import re
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from bdes_framework._version import __version__
from bdes_framework.experiment import results, run_files
from bdes_framework.experiment.store import DATABASE
from tests.support.command import bdes, fails, prints
from tests.support.damage import change_index, change_value, seal
from tests.support.experiments import changed, run_demo, write_experiment
from tests.support.reports import SMALL

SECRET = "password of the reader"


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_experiment(folder, text=SMALL)
    with run_demo(folder) as run:
        return run.folder


@pytest.fixture
def foreign(own_run: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be tampered with."""
    return Path(shutil.copytree(own_run, tmp_path / "run"))


@pytest.mark.parametrize("name", ["experiment.toml", "resolved.json", "results.sqlite"])
def test_links_in_a_run_are_not_followed(foreign: Path, name: str) -> None:
    secret = foreign.parent / "secret"
    shutil.move(foreign / name, secret)
    if name != "results.sqlite":
        secret.write_text(f'{{"versions": "{SECRET}"}}')
    (foreign / name).symlink_to(secret)
    done = bdes("report", str(foreign), "--paths", "1")
    if name == "experiment.toml":
        page = (foreign / "report.html").read_text()
        assert SECRET not in page
        assert "has no experiment.toml that can be read" in page
    else:
        assert (done.returncode, "is a link, which is not followed" in done.stderr) == (2, True)


def test_a_linked_lock_is_not_written_to(foreign: Path) -> None:
    target = foreign.parent / "target"
    (foreign / "lock.sqlite").unlink()
    (foreign / "lock.sqlite").symlink_to(target)
    write_experiment(foreign.parent, text=SMALL)
    done = bdes("run", "demo.toml", "--out", "run", cwd=foreign.parent)
    assert (done.returncode, target.exists()) == (2, False)
    assert "is a link" in done.stderr


@pytest.mark.parametrize("name", ["report.html", "report.html.tmp"])
def test_report_writes_through_no_link(foreign: Path, name: str) -> None:
    victim = foreign.parent / "victim.pth"
    victim.write_text("mine")
    (foreign / name).symlink_to(victim)
    done = bdes("report", str(foreign), "--paths", "0", "--overwrite")
    assert (done.returncode, done.stderr, victim.read_text()) == (0, "", "mine")


@pytest.mark.parametrize("arms", ["file = '{}'", "file = ['{}', 'b.csv']"])
def test_arms_that_a_run_names_are_not_read(foreign: Path, arms: str) -> None:
    secret = foreign.parent / "secret.csv"
    secret.write_text(f"{SECRET}\n1\n")
    text = changed(
        (foreign / "experiment.toml").read_text(),
        ("r = [0.9, 0.3]\nb = [0.1, 1.0]\n", f"arms = {{{arms.format(secret)}}}\n"),
    )
    (foreign / "experiment.toml").write_text(text)
    done = bdes("report", str(foreign), "--paths", "1")
    page = (foreign / "report.html").read_text()
    assert (done.returncode, SECRET in page) == (0, False)
    assert "which is not read unasked: name its experiment file" in page


def test_code_that_a_run_names_is_not_run(foreign: Path) -> None:
    (foreign / "theirs.py").write_text("open('ran', 'w').close()\n")
    text = changed((foreign / "experiment.toml").read_text(), ("[]", '["theirs.py"]'))
    (foreign / "experiment.toml").write_text(text)
    done = bdes("report", str(foreign), "--paths", "1", cwd=foreign)
    assert (done.returncode, (foreign / "ran").exists()) == (0, False)
    assert "which are not run unasked" in (foreign / "report.html").read_text()


COLUMNS = ["cells.means", "cells.basis", "benchmarks.totals", "plan.horizon", "plan.policy"]
COLUMNS += ["checkpoints.rounds", "meta.value", "timings.seconds"]


@pytest.mark.parametrize("column", COLUMNS)
def test_verify_names_what_is_damaged(foreign: Path, column: str) -> None:
    assert prints("verify", str(foreign)) == f"{foreign}: no damage in 4 cells\n"
    assert json.loads(prints("verify", str(foreign), "--json"))["damage"] == []
    change_value(foreign, column)
    done = bdes("verify", str(foreign))
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert done.stdout.startswith("damaged: ")
    as_json = bdes("verify", str(foreign), "--json")
    assert as_json.returncode == 1
    assert [f"damaged: {line}\n" for line in json.loads(as_json.stdout)["damage"]] == [done.stdout]
    if column == "cells.means":
        shown = fails("show", str(foreign))
        assert re.search(
            r"cell '\w{32}' is damaged; run .* \('ucb1' on 'bernoulli', T = (10|50),", shown
        )


def test_verify_of_what_cannot_be_opened(foreign: Path) -> None:
    assert "is not a run" in fails("verify", str(foreign.parent))
    (foreign / "resolved.json").write_text("{")
    assert "damaged: file 'resolved.json'\n" in bdes("verify", str(foreign)).stdout
    (foreign / DATABASE).write_bytes(b"no database " * 1000)
    done = bdes("verify", str(foreign))
    assert (done.returncode, "it is damaged" in done.stdout) == (1, True)


def test_verify_reads_no_more_of_a_file_than_is_used(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_RESOLVED_BYTES", 1 << 20)
    os.truncate(foreign / "resolved.json", 1 << 26)
    tracemalloc.start()
    try:
        damage = results.find_damage(foreign)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert damage == ["file 'resolved.json'"]
    assert peak < 1 << 24


@pytest.mark.parametrize("table", ["meta", "cells", "benchmarks", "timings", "code", "provenance"])
def test_a_damaged_index_changes_no_number(foreign: Path, table: str) -> None:
    before = prints("export", str(foreign))
    write_experiment(foreign.parent, text=SMALL)
    change_index(foreign, table)
    assert "an index is damaged; run the experiment again" in fails("show", str(foreign))
    done = bdes("verify", str(foreign))
    assert (done.returncode, "damaged: the database: row " in done.stdout) == (1, True)
    assert prints("run", "demo.toml", "--out", "run", cwd=foreign.parent).count("4 reused")
    assert prints("export", str(foreign)) == before
    assert "no damage" in prints("verify", str(foreign))


def test_damaged_cells_are_played_again(foreign: Path) -> None:
    before = prints("export", str(foreign))
    write_experiment(foreign.parent, text=SMALL)
    for column in ("cells.means", "benchmarks.upper_bound", "code.versions", "meta.name"):
        change_value(foreign, column)
    change_value(foreign, "timings.finished")
    (foreign / "resolved.json").unlink()
    assert bdes("run", "demo.toml", "--out", "run", cwd=foreign.parent).returncode == 0
    assert prints("export", str(foreign)) == before
    assert "no damage" in prints("verify", str(foreign))


def test_runs_shows_dates_failures_versions(foreign: Path) -> None:
    for name in ("bad", "empty", "strange"):
        shutil.copytree(foreign, foreign.parent / name)
    (foreign.parent / "bad" / DATABASE).write_bytes(b"x" * 5000)
    (foreign.parent / "strange" / "resolved.json").write_text("[")
    (foreign.parent / "empty" / DATABASE).write_bytes(b"")
    lines = prints("runs", str(foreign.parent)).splitlines()
    assert lines[0].split() == ["Run", "Experiment", "Finished", "Cells", "Failed", "Version"]
    row = rf"{foreign} +demo +\d{{4}}-\d\d-\d\d \d\d:\d\d +4/4 +0 +"
    assert any(re.fullmatch(row + re.escape(__version__) + " *", line) for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "it is damaged" in text
    assert "holds no run" in text
    assert len(re.findall(r" 4/4 ", text)) == 2


def test_runs_reads_no_results(foreign: Path) -> None:
    change_value(foreign, "cells.means")
    assert " 4/4 " in prints("runs", str(foreign.parent))


def test_a_hostile_neighbour_costs_only_its_cells(foreign: Path) -> None:
    with closing(sqlite3.connect(foreign / DATABASE)) as connection, connection:
        connection.execute("UPDATE code SET versions = '[['")
        seal(connection)
    write_experiment(foreign.parent, text=SMALL)
    done = bdes("run", "demo.toml", "--out", "next", cwd=foreign.parent)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "no damage in 4 cells" in prints("verify", "next", cwd=foreign.parent)
