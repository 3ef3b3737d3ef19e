"""``bdes warm-up``: afterwards nothing is left to compile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import bdes

pytest.importorskip("numba")

# Counts what is compiled, and not read from the disk, while a command runs.
COUNT = """
import sys
from bdes_framework.model.compiling import on_compiling
from bdes_framework.cli import main
begun = []
sys.argv[0] = "bdes"
with on_compiling(begun.append):
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
print(begun.count(True), "compiled", file=sys.stderr)
"""


def test_says_what_it_left_out() -> None:
    done = bdes("warm-up", "--disable", "bdes-policies")
    assert "left out, as they need parameters: fixed-schedule" in done.stderr
    assert "compiled what was missing" in done.stdout or "nothing to compile" in done.stdout


def n_compiled(folder: Path, *arguments: str) -> int:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "numba")}
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stderr.split()[-2])


@pytest.mark.slow
def test_nothing_is_compiled_afterwards(tmp_path: Path) -> None:
    arms = ["--r", "0.9,0.3", "--b", "0.1,0.9", "--lam", "0.05"]
    assert n_compiled(tmp_path, "warm-up") > 50
    assert n_compiled(tmp_path, "warm-up") == 0
    assert n_compiled(tmp_path, "plan", *arms, "--horizon", "5000") == 0
    assert n_compiled(tmp_path, "plan", *arms, "--visits", "50") == 0
    assert n_compiled(tmp_path, "init", "experiment.toml") == 0
    assert n_compiled(tmp_path, "run", "--engine", "serial") == 0
