"""Runs: resumed where one stopped, nothing mixed; failures stay in their cell."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bdes_framework import Experiment, StoreError, load_experiment, load_run, run_experiment
from bdes_framework.cli.show import show_run
from bdes_framework.experiment.store import locked, open_store
from tests.support.command import bdes_process
from tests.support.experiments import GOOD, changed, dump, run_demo, write_experiment, write_plugin

LISTENER = """
calls = []

@hookimpl
def bdes_run_started(run):
    calls.append(("started", run.name, run.n_cells))

@hookimpl
def bdes_cell_finished(run, cell):
    calls.append(("cell", cell.policy, run.n_finished, run.n_failed))

@hookimpl
def bdes_run_finished(run):
    calls.append(("finished", run.n_finished, run.n_failed))
"""

HEADER = GOOD[: GOOD.index("class First")]

PLANNER = f"""{HEADER}
import os
from bdes_framework import Plan, Schedule

class Zero:
    def plan(self, instance, horizon):
        if os.path.exists("BROKEN"): raise OSError('no plan')
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float(horizon))

@hookimpl
def bdes_register(registrar):
    registrar.planner("zero", Config, lambda config, context: Zero())
"""

RANDOM_ARMS = f"""{HEADER}
from bdes_framework import Instance, Outcome

class RandomArms:
    n_arms = 2
    def __init__(self, rng):
        self.instance = Instance(rng.random(2), rng.random(2), 0.5)
        self.q = self.instance.q0
    def pull(self, arms):
        here = self.instance.starting_at(self.q)
        means, self.q = here.expected_rewards(arms), here.state_after(arms)
        return Outcome(means, means)

@hookimpl
def bdes_register(registrar):
    registrar.environment("random", Config, lambda config, context: RandomArms(context.rng))
"""

OTHER = '[[policies]]\nuse = "other"\n\n[[policies]]'
SECOND_POLICY = ('["mine.py"]', '["mine.py", "other.py"]'), ("[[policies]]", OTHER)
ZERO = ("benchmark = false", 'benchmark = "zero"')
WITH_PLANNER = ('["mine.py"]', '["mine.py", "planner.py"]'), ZERO


def starts_of(folder: Path, n_runs: int, experiment: Experiment, played: list[str]) -> list[Any]:
    """Run an experiment several times; return how many cells each time began with."""
    starts: list[tuple[int, int]] = []
    for _ in range(n_runs):
        run_experiment(
            experiment,
            out=folder / "run",
            engine="serial",
            on_start=lambda total, left: starts.append((total, total - len(left))),
            on_cell=lambda cell, _: played.append(cell.key),
        )
    return starts


def test_finished_cells_are_not_run_again(folder: Path) -> None:
    experiment = load_experiment(folder / "demo.toml")
    played: list[str] = []
    assert starts_of(folder, 2, experiment, played) == [(6, 0), (6, 6)]
    assert sorted(played) == sorted(cell.key for cell in experiment.cells)


def test_another_experiments_folder_raises(folder: Path) -> None:
    run_demo(folder)
    before = dump(folder / "run")
    write_experiment(folder, ("seed = 1", "seed = 2"))
    with pytest.raises(StoreError, match="holds another experiment"):
        run_demo(folder)
    assert dump(folder / "run") == before


def test_folder_with_other_files_raises(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "experiment.toml").write_text("not a run")
    with pytest.raises(StoreError, match=r"is not a run but has 'experiment\.toml' in it"):
        run_demo(folder, "notes")
    assert (folder / "notes" / "experiment.toml").read_text() == "not a run"


def test_run_in_a_locked_folder_exits_2(folder: Path) -> None:
    (folder / "run").mkdir()
    with locked(folder / "run"):
        done = bdes_process("run", "demo.toml", "--out", "run", cwd=folder)
    assert done.returncode == 2
    assert "in use by another process" in done.stderr


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()", "Odd, which cannot"),
        ("raise OSError('\\udc80')", "OSError"),
    ],
)
def test_other_policies_run_when_one_fails(folder: Path, fault: str, error: str) -> None:
    write_plugin(folder, ("pass", fault))
    write_plugin(folder, name="other")
    write_experiment(folder, *SECOND_POLICY)
    by_policy = {cell.policy: cell.error or "" for cell in run_demo(folder).cells()}
    assert by_policy["mine"].startswith(f"local file mine.py:16, round 0: {error}")
    assert by_policy["other"] == ""


def test_failed_cells_are_run_again_on_request(folder: Path) -> None:
    broken = folder / "broken"
    broken.touch()
    fault = (
        f"        import os\n        if os.path.exists({str(broken)!r}): raise OSError('no more')"
    )
    write_plugin(folder, ("        pass", fault))
    write_plugin(folder, name="other")
    write_experiment(folder, *SECOND_POLICY)
    errors = {cell.policy: cell.error for cell in run_demo(folder, engine=None).cells()}
    assert errors == {"mine": "local file mine.py:17, round 0: OSError: no more", "other": None}
    store = open_store(folder / "run", create=False)
    (key, *_) = store.finished(failed=True)
    result = store.result(key)
    assert result is not None
    assert all(text in result.details for text in ("Traceback", "mine.py"))
    broken.unlink()
    run_demo(folder)
    assert len(store.finished(failed=True)) == 6
    run_demo(folder, retry_failed=True)
    assert store.finished(failed=True) == set()
    assert len(store.finished(failed=False)) == 12


def listening(folder: Path, *changes: tuple[str, str]) -> tuple[Experiment, Any, list[Any]]:
    """Return the experiment with a plugin that listens, the hooks, and the calls it gets."""
    write_plugin(folder, *changes, ("@hookimpl", LISTENER + "\n@hookimpl"))
    experiment = load_experiment(folder / "demo.toml")
    hooks = experiment.plugins._hooks
    (plugin,) = [plugin for name, plugin in hooks.list_name_plugin() if name == "mine"]
    return experiment, hooks, vars(plugin)["calls"]


def test_no_hook_is_called_while_a_cell_runs(folder: Path) -> None:
    ask = ("return np.zeros", "calls.append('ask'); return np.zeros")
    experiment, hooks, calls = listening(folder, ask, ("pass", "calls.append('tell')"))
    undo = hooks.add_hookcall_monitoring(
        lambda name, *_: calls.append(f"before {name}"),
        lambda _, name, *__: calls.append(f"after {name}"),
    )
    run_experiment(experiment, out=folder / "run", engine="serial")
    undo()
    started = ("started", "demo", 6)
    assert calls[:3] == ["before bdes_run_started", started, "after bdes_run_started"]
    assert ("finished", 6, 0) in calls
    assert [c for c in calls if c[0] == "cell"] == [("cell", "mine", n, 0) for n in range(1, 7)]
    inside = False
    for call in calls:
        if isinstance(call, str) and call.startswith(("before", "after")):
            inside = call.startswith("before")
        elif call in ("ask", "tell"):
            assert not inside, "a hook was running while the policy was asked"
    # One call per cell and two per run: nothing is called per round.
    assert len([c for c in calls if isinstance(c, str) and c.startswith("before")]) == 6 + 2


def test_cells_of_equal_keys_are_run_once(folder: Path) -> None:
    write_experiment(
        folder, ("[[policies]]", '[[policies]]\nuse = "mine"\nlabel = "same"\n\n[[policies]]')
    )
    experiment, _, calls = listening(folder)
    assert starts_of(folder, 2, experiment, []) == [(12, 0), (12, 12)]
    cells = [call for call in calls if call[0] == "cell"]
    assert sorted(call[1] for call in cells) == ["mine"] * 6 + ["same"] * 6
    assert [call[2] for call in cells] == list(range(1, 13))
    assert [call for call in calls if call[0] == "finished"] == [("finished", 12, 0)] * 2
    assert len(dump(folder / "run")) == 6


def test_a_hook_that_raises_is_a_warning(folder: Path) -> None:
    broken = changed(LISTENER, ('calls.append(("started"', 'raise OSError(("s"'))
    write_plugin(folder, ("@hookimpl", broken + "\n@hookimpl"))
    with pytest.warns(RuntimeWarning, match=r"plugin 'mine': bdes_run_started raised OSError"):
        assert len(run_demo(folder).cells()) == 6


def test_run_is_read_as_rows_and_frames(folder: Path) -> None:
    with run_demo(folder) as run:
        rows = list(run.rows())
        assert len(rows) == 6
        assert run.to_pandas()["total_reward"].tolist() == [row["total_reward"] for row in rows]
        assert run.to_polars()["T"].to_list() == [row["T"] for row in rows]
        assert run.name == "demo"
        assert "bdes-framework" in run.resolved["versions"]
        with pytest.raises(KeyError, match="no finished cell"):
            run.curves("x", "y", 1)


def write_planner(folder: Path, *changes: tuple[str, str]) -> None:
    """Write an experiment whose benchmark is planned, unless there is a file ``broken``."""
    (folder / "planner.py").write_text(changed(PLANNER, ("BROKEN", str(folder / "broken"))))
    write_experiment(folder, *WITH_PLANNER, *changes)


def test_regret_is_measured_against_the_plan(folder: Path) -> None:
    write_planner(folder)
    run = run_demo(folder, engine=None)
    # The policy plays arm 0 in all rounds, too.
    assert [cell.regret for cell in run.cells()] == pytest.approx([0.0] * 6, abs=1e-12)
    curves = run.curves("bernoulli", "mine", 50)
    assert curves.regret is not None
    np.testing.assert_allclose(curves.regret, 0, atol=1e-12)
    assert curves.means.shape == (3, curves.checkpoints.size)
    assert curves.checkpoints[-1] == 50
    assert curves.replications.tolist() == [0, 1, 2]


def test_each_drawn_instance_has_its_own_benchmark(folder: Path) -> None:
    (folder / "random_arms.py").write_text(RANDOM_ARMS)
    arms = ("r = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3\n", "")
    modules = ('"planner.py"', '"planner.py", "random_arms.py"')
    write_planner(folder, modules, ('"bernoulli"', '"random"'), arms)
    cells = run_demo(folder).cells()
    assert len({cell.total_mean for cell in cells if cell.horizon == 50}) == 3
    assert [cell.regret for cell in cells] == pytest.approx([0.0] * 6, abs=1e-9)


def test_a_failed_benchmark_costs_only_regret(folder: Path) -> None:
    (folder / "broken").touch()
    write_planner(folder)
    run = run_demo(folder)
    assert [(cell.regret, cell.error) for cell in run.cells()] == [(None, None)] * 6
    assert run.benchmark_errors() == ["local file planner.py:18: OSError: no plan"]
    assert show_run(load_run(folder / "run")) == 1
    (folder / "broken").unlink()
    run = run_demo(folder, retry_failed=True)
    assert show_run(run) == 0
    assert all(cell.regret is not None for cell in run.cells())
