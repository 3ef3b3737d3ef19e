"""Regret in runs: each cell is held to the benchmark of its own instance."""

from pathlib import Path

import numpy as np
import pytest

from bdes_framework import load_run, run_experiment
from bdes_framework.cli.run import show_run
from tests.support.experiments import FILE

PLANNER = """
import itertools
import numpy as np
from attrs import frozen
from bdes_framework import Plan, Schedule, hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Plays arm 0 for ever.'''

class Zero:
    def plan(self, instance, horizon):
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float(horizon))

@hookimpl
def bdes_register(registrar):
    registrar.planner("zero", Config, lambda config, context: Zero())
"""


def test_regret_is_measured_against_the_benchmark_that_was_planned(folder: Path) -> None:
    (folder / "planner.py").write_text(PLANNER)
    text = FILE.replace('["mine.py"]', '["mine.py", "planner.py"]')
    (folder / "demo.toml").write_text(text.replace("benchmark = false", 'benchmark = "zero"'))
    run = run_experiment(folder / "demo.toml", out=folder / "run")
    # The policy plays arm 0 for ever too.
    assert [cell.regret for cell in run.cells()] == pytest.approx([0.0] * 6, abs=1e-12)
    curves = run.curves("bernoulli", "mine", 50)
    assert curves.regret is not None
    np.testing.assert_allclose(curves.regret, 0, atol=1e-12)
    assert curves.means.shape == (3, curves.checkpoints.size)
    assert curves.checkpoints[-1] == 50
    assert curves.replications.tolist() == [0, 1, 2]


LUCKY = """
import numpy as np
from attrs import frozen
from bdes_framework import Instance, Outcome, hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Arms that are drawn from the environment's own luck.'''

class Lucky:
    def __init__(self, rng):
        self.instance = Instance(rng.random(2), rng.random(2), 0.5)
        self.q = self.instance.q0
    @property
    def n_arms(self):
        return 2
    def pull(self, arms):
        here = self.instance.starting_at(self.q)
        means, self.q = here.expected_rewards(arms), here.state_after(arms)
        return Outcome(means, means)

@hookimpl
def bdes_register(registrar):
    registrar.environment("lucky", Config, lambda config, context: Lucky(context.rng))
"""


def with_planner(folder: Path, planner: str = PLANNER, **changes: str) -> Path:
    (folder / "planner.py").write_text(planner)
    (folder / "lucky.py").write_text(LUCKY)
    text = FILE.replace('["mine.py"]', '["mine.py", "planner.py", "lucky.py"]')
    text = text.replace("benchmark = false", 'benchmark = "zero"')
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "demo.toml").write_text(text)
    return folder / "demo.toml"


def test_every_replication_is_held_to_its_own_instance(folder: Path) -> None:
    """An environment may draw its arms from its luck; one benchmark for all would be wrong."""
    file = with_planner(folder)
    text = file.read_text()
    start = text.index("[[environments]]")
    file.write_text(
        text[:start] + '[[environments]]\nuse = "lucky"\n' + text[text.index("[[policies]]") :]
    )
    run = run_experiment(file, out=folder / "run")
    cells = run.cells()
    assert len({cell.total_mean for cell in cells if cell.horizon == 50}) == 3
    assert [cell.regret for cell in cells] == pytest.approx([0.0] * 6, abs=1e-9)


def test_a_planner_that_raises_costs_regret_and_nothing_else(folder: Path) -> None:
    broken = PLANNER.replace(
        "schedule = Schedule", "raise OSError('no plan')\n        schedule = Schedule"
    )
    broken = broken.replace(
        "        raise OSError",
        f"        import os\n        if os.path.exists({str(folder / 'broken')!r}): raise OSError",
    )
    (folder / "broken").touch()
    file = with_planner(folder, broken)
    run = run_experiment(file, out=folder / "run")
    assert [cell.regret for cell in run.cells()] == [None] * 6
    assert [cell.error for cell in run.cells()] == [None] * 6
    assert run.benchmark_errors() == ["OSError: no plan"]
    assert show_run(load_run(folder / "run")) == 1
    (folder / "broken").unlink()
    run_experiment(file, out=folder / "run", retry_failed=True)
    assert show_run(load_run(folder / "run")) == 0
    assert all(cell.regret is not None for cell in load_run(folder / "run").cells())
