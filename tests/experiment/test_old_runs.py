"""A run made by an earlier version is shown, reported and listed; it is not gone on with."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bdes_framework import load_run, run_experiment
from bdes_framework.experiment.store import DATABASE
from tests.support.command import bdes, fails, prints

FIRST_FORMAT = Path(__file__).parents[1] / "support" / "first_format"


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """A run of the first format, of two policies of which one fails."""
    for name in ("experiment.toml", "resolved.json"):
        shutil.copy(FIRST_FORMAT / name, tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        connection.executescript((FIRST_FORMAT / "results.sql").read_text())
    return tmp_path


def test_runs_of_the_first_format_are_read(old_run: Path) -> None:
    before = (old_run / DATABASE).read_bytes()
    with load_run(old_run) as run:
        assert [cell.total_reward for cell in run.cells()] == [3, 6, None, None, 5, 8, None, None]
        assert len(run.benchmarks()) == 2
    shown = bdes("show", str(old_run))
    assert (shown.returncode, "8 of 8 cells" in shown.stdout) == (1, True)  # one policy failed
    for command in (("report", "--paths", "1"), ("export",), ("compare", str(old_run))):
        assert bdes(command[0], str(old_run), *command[1:]).returncode == 0
    assert "made before there were checksums" in prints("verify", str(old_run))
    assert "8/8" in prints("runs", str(old_run.parent))
    assert (old_run / DATABASE).read_bytes() == before


def test_runs_of_the_first_format_are_not_gone_on_with(old_run: Path) -> None:
    before = (old_run / DATABASE).read_bytes()
    command = "run", "experiment.toml", "--out", str(old_run)
    assert "older bdes-framework (format 1): it can be read" in fails(*command, cwd=old_run)
    assert (old_run / DATABASE).read_bytes() == before


def test_runs_of_the_second_format_are_gone_on_with(tmp_path: Path) -> None:
    tables = {
        "name": "second",
        "seed": 1,
        "horizons": [20],
        "environments": [{"use": "bernoulli", "r": [0.9], "b": [1.0], "lam": 0.1}],
        "policies": ["ucb1", "thompson"],
    }
    run_experiment(tables, out=tmp_path / "run", engine="serial").close()
    with closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as connection:
        connection.executescript(
            "DROP TABLE user_curves; DROP TABLE user_benchmarks; PRAGMA user_version = 2;"
        )
    with load_run(tmp_path / "run") as run:
        earned = [cell.total_reward for cell in run.cells()]
    assert len(earned) == 2
    with run_experiment(tables, out=tmp_path / "run", engine="serial", reuse=False) as run:
        assert run.progress is not None
        assert run.progress.n_reused == 2
        assert [cell.total_reward for cell in run.cells()] == earned
    assert "no damage in 2 cells" in prints("verify", str(tmp_path / "run"))
