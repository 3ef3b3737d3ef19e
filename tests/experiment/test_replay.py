"""Playing cells again finds what is not deterministic, and says who."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import load_experiment
from bdes_framework.experiment import replay
from bdes_framework.experiment.replay import ReplayError, replay_cell, spread_cells
from tests.support.command import bdes
from tests.support.experiments import Install, plugin_of, run_demo, write_experiment, write_plugin

SECOND = (
    ('use = "mine"', 'use = "mine"\n\n[[policies]]\nuse = "other"'),
    ('"mine.py"', '"mine.py", "other.py"'),
)

UNSEEDED = """
    n_arms = 2
    def pull(self, arms):
        return Outcome(np.random.default_rng().random(arms.size), np.full(arms.size, 0.5))
"""

BERNOULLI = 'use = "bernoulli"\nr = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3'


@pytest.fixture
def two(folder: Path) -> Path:
    """Return an experiment of two policies, the second of which draws arms that nobody seeded."""
    drawn = ("np.zeros(limit, dtype=np.int64)", "np.random.default_rng().integers(2, size=limit)")
    write_plugin(folder, drawn, name="other")
    write_experiment(folder, *SECOND, ("[10, 50]", "[50]"))
    return folder


@pytest.mark.parametrize("command", [("run", "--out", "run"), ("check",)])
def test_policy_that_is_not_deterministic_is_named(two: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    done = bdes(name, "demo.toml", *options, "--verify", "2", cwd=two)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "not deterministic" in line]
    where = "policy 'other' of local file other on bernoulli, T = 50, replication 0: arms of round"
    assert line.startswith(f"not deterministic: {where} ")


def test_environment_that_is_not_deterministic_is_named(folder: Path, install: Install) -> None:
    install("bdes-world", plugin_of("environment", "world", UNSEEDED), version="0.3")
    write_experiment(folder, (BERNOULLI, 'use = "world"'))
    done = bdes("run", "demo.toml", "--verify", "1", cwd=folder)
    assert done.returncode == 1
    assert "environment 'world' of bdes-world 0.3 on world, T = 10" in done.stderr
    assert "rewards of round 0 are" in done.stderr


def test_what_depends_on_the_process_is_found(folder: Path) -> None:
    """Two games in one process are the same there, but not what another process stored."""
    write_plugin(
        folder,
        ("np.zeros(limit,", "np.full(limit, ARM,"),
        ("class First", "import os\nARM = int(bool(os.environ.get('ARM')))\nclass First"),
    )
    file = "demo.toml"
    assert bdes("run", file, "--out", "run", cwd=folder).returncode == 0
    for module in [module for module in sys.modules if module.startswith("bdes_local_mine")]:
        del sys.modules[module]
    done = bdes("run", file, "--out", "run", "--verify", "6", cwd=folder, settings={"ARM": "1"})
    assert done.returncode == 1
    assert "it depends on the process or on the time" in done.stderr


def test_deterministic_cells_verify(folder: Path) -> None:
    done = bdes("run", "demo.toml", "--verify", "100", cwd=folder)
    assert done.returncode == 0
    assert "6 cells played again: the same, round by round" in done.stdout


def test_cells_that_failed_are_not_verified(folder: Path) -> None:
    write_plugin(folder, ("        pass", "        raise OSError"))
    done = bdes("run", "demo.toml", "--verify", "2", cwd=folder)
    assert "played again" not in done.stdout
    assert "not verified: 6 cells: failed in the run\n" in done.stderr


def test_cells_that_are_too_long_are_not_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_ROUNDS", 20)
    write_experiment(folder, ("[10, 50]", "[50, 10]"), ("replications = 3", "replications = 1"))
    one = bdes("check", "demo.toml", "--verify", "1", cwd=folder)
    assert one.stdout.endswith("\n1 cell played again: the same, round by round\n")
    assert (one.returncode, one.stderr) == (0, "")
    two = bdes("check", "demo.toml", "--verify", "2", cwd=folder)
    assert two.returncode == 0
    assert two.stderr.startswith("not verified: 1 cell: more than ")


def test_cell_that_fails_only_when_played_again_is_not_verified(folder: Path) -> None:
    ended = "import os\n        if os.path.exists('done'): raise SystemExit('once')"
    write_plugin(folder, ("        pass", f"        {ended}"))
    assert bdes("run", "demo.toml", "--out", "run", cwd=folder).returncode == 0
    (folder / "done").touch()
    done = bdes("run", "demo.toml", "--out", "run", "--verify", "1", cwd=folder)
    assert done.returncode == 1
    assert "not verified: mine on bernoulli, T = 10, replication 0: " in done.stderr
    assert "not deterministic" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("raise GeneratorExit", "round 0: GeneratorExit"), ("np.sqrt = np.exp", "numpy.sqrt of this")],
)
def test_replay_keeps_to_itself_what_a_plugin_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str, reason: str
) -> None:
    monkeypatch.chdir(folder)
    move = "import os\n        if os.path.exists('done'): os.chdir('/')"
    write_plugin(folder, ("        pass", f"        {move}; {fault}"))
    with run_demo(folder) as run:
        stored = run.cells()[0]
    (folder / "done").touch()
    experiment = load_experiment(folder / "demo.toml")
    with pytest.raises(ReplayError, match=f"playing it again failed: .*{reason}"):
        replay_cell(experiment, experiment.cells[0], stored, np.array([10]))
    assert Path.cwd() == folder
    assert np.sqrt(4.0) == 2.0


def test_verified_cells_are_spread_over_policies(two: Path) -> None:
    cells = load_experiment(two / "demo.toml").cells
    chosen = spread_cells(cells, 3)
    assert [(c.policy.label, c.replication) for c in chosen] == [
        ("mine", 0),
        ("other", 0),
        ("mine", 1),
    ]
    assert len(spread_cells(cells, 100)) == 6
