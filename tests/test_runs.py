"""Runs: the same results from any engine, order or interruption; faults stay in their cell."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from bdes_framework import (
    ContractError,
    StoreError,
    load_experiment,
    load_run,
    run_experiment,
)
from bdes_framework.cli.run import show_run
from bdes_framework.runs import run_folder
from bdes_framework.store import locked, open_store
from tests.test_config import FILE

Good = Callable[[str], str]

SLOW = """
import time
import numpy as np
from attrs import frozen
from bdes_framework import hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Decides every round, in plain Python, taking its time.

    Parameters
    ----------
    pause : float
        Seconds before the first decision.
    '''
    pause: float = 0.0

class Slow:
    def __init__(self, n_arms, rng, pause):
        self.n_arms, self.rng = n_arms, rng
        time.sleep(pause)
    def ask(self, limit):
        return np.array([int(self.rng.random() * self.n_arms)])
    def tell(self, rewards):
        pass
    def diagnostics(self):
        return {"luck": float(self.rng.random()), "arms": np.arange(self.n_arms)}

@hookimpl
def bdes_register(registrar):
    registrar.policy(
        "slow", Config, lambda c, context: Slow(context.problem.n_arms, context.rng, c.pause)
    )
"""

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

Dump = list[tuple[object, ...]]


@pytest.fixture
def folder(tmp_path: Path, good_plugin: Good) -> Path:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    (tmp_path / "demo.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return an experiment of 120 cells, some with noise of their own, some grids."""
    (tmp_path / "slow.py").write_text(SLOW)
    text = FILE.replace("mine.py", "slow.py").replace('use = "mine"', 'use = "slow"')
    text = text.replace("lam = 0.3", 'lam = [0.0, 0.3, "1/T", 1.0]').replace(
        "replications = 3", "replications = 15"
    )
    (tmp_path / "sweep.toml").write_text(text)
    return tmp_path / "sweep.toml"


def dump(folder: Path) -> Dump:
    store = open_store(folder, create=False)
    found = list(store.dump())
    store.close()
    return found


def test_any_engine_and_any_order_give_the_same_bits(sweep: Path, tmp_path: Path) -> None:
    experiment = load_experiment(sweep)
    reference = dump(run_experiment(experiment, out=tmp_path / "serial", engine="serial"))
    assert len(reference) == 120
    shuffled = list(experiment.cells)
    random.Random(3).shuffle(shuffled)
    again = evolve(experiment, cells=tuple(shuffled))
    assert dump(run_experiment(again, out=tmp_path / "shuffled", engine="serial")) == reference
    for engine in ({"use": "processes", "workers": 2}, {"use": "dask", "workers": 2}):
        out = tmp_path / str(engine["use"])
        assert dump(run_experiment(experiment, out=out, engine=engine)) == reference


def test_processes_really_share_the_work_when_it_is_worth_it(sweep: Path, tmp_path: Path) -> None:
    text = sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.05')
    sweep.write_text(text)
    experiment = load_experiment(sweep)
    run = load_run(
        run_experiment(experiment, out=tmp_path / "x", engine={"use": "processes", "workers": 2})
    )
    assert len(run.cells()) == 120
    assert all(record.error is None for record in run.cells())


@pytest.mark.parametrize("times", [3, pytest.param(25, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_ends_with_the_same_bits(
    sweep: Path, tmp_path: Path, times: int
) -> None:
    """SIGKILL at random moments; every time the same command goes on."""
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.02'))
    command = [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run",
               str(sweep), "--out", str(tmp_path / "killed"), "--engine", "processes"]  # fmt: skip
    rng = random.Random(1)
    kills, progress = 0, []
    while kills < times:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # From before the folder exists to well into the cells, on any machine.
        saved = _saved(tmp_path / "killed")
        deadline = time.monotonic() + 30
        goal = min(saved + rng.randint(0, 4), 119)
        while time.monotonic() < deadline and _saved(tmp_path / "killed") <= goal - 1:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        assert child.poll() is None, "finished before it could be killed"
        child.send_signal(signal.SIGKILL)
        child.wait()
        kills += 1
        progress.append(_saved(tmp_path / "killed"))
    assert progress == sorted(progress), "a finished cell was lost"
    assert 0 < progress[-1] < 120
    subprocess.run(command, check=True, capture_output=True)
    whole = run_experiment(load_experiment(sweep), out=tmp_path / "whole", engine="serial")
    assert dump(tmp_path / "killed") == dump(whole)


def _saved(folder: Path) -> int:
    try:
        store = open_store(folder, create=False)
        n = len(store.finished(failed=False))
        store.close()
    except StoreError:
        return 0
    return n


def test_finished_cells_are_never_run_again(folder: Path) -> None:
    experiment = load_experiment(folder / "demo.toml")
    played: list[str] = []
    starts: list[tuple[int, int]] = []

    def go() -> None:
        run_experiment(
            experiment,
            out=folder / "run",
            engine="serial",
            on_start=lambda total, done: starts.append((total, done)),
            on_cell=lambda cell, _: played.append(cell.key),
        )

    go()
    go()
    assert starts == [(6, 0), (6, 6)]
    assert played == [cell.key for cell in experiment.cells]


def test_another_experiment_s_folder_is_refused(folder: Path) -> None:
    run_experiment(folder / "demo.toml", out=folder / "run")
    before = dump(folder / "run")
    (folder / "demo.toml").write_text(FILE.replace("seed = 1", "seed = 2"))
    with pytest.raises(StoreError, match="holds another experiment"):
        run_experiment(folder / "demo.toml", out=folder / "run")
    assert dump(folder / "run") == before


def test_another_version_of_a_plugin_gets_a_folder_of_its_own(
    folder: Path, good_plugin: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = run_experiment("demo.toml")
    assert first == run_experiment("demo.toml")
    (folder / "mine.py").write_text(good_plugin("mine").replace("zeros", "ones"))
    second = run_experiment("demo.toml")
    assert second != first
    assert not {row[0] for row in dump(first)} & {row[0] for row in dump(second)}


def test_a_folder_with_somebody_s_files_is_refused(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "experiment.toml").write_text("dear to me")
    with pytest.raises(StoreError, match=r"is no run but has 'experiment\.toml' in it"):
        run_experiment(folder / "demo.toml", out=folder / "mine")
    assert (folder / "mine" / "experiment.toml").read_text() == "dear to me"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()", "Odd, which cannot"),
        ("raise OSError('\\udc80')", "OSError"),
    ],
)
def test_however_a_policy_fails_the_others_go_on(
    folder: Path, good_plugin: Good, fault: str, error: str
) -> None:
    failing(folder, good_plugin)
    source = good_plugin("mine").replace("        pass", f"        {fault}")
    (folder / "mine.py").write_text(source)
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "run", engine="serial"))
    by_policy = {cell.policy: cell.error or "" for cell in run.cells()}
    assert by_policy["mine"].startswith(error)
    assert by_policy["other"] == ""


def test_diagnostics_that_cannot_be_written_fail_their_own_cell(
    folder: Path, good_plugin: Good
) -> None:
    source = good_plugin("mine").replace(
        "        pass", "        pass\n    def diagnostics(self):\n"
        "        d = {}\n        d['x'] = d\n        return d",
    )  # fmt: skip
    (folder / "mine.py").write_text(source)
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "run", engine="serial"))
    assert all("ValueError" in (cell.error or "") for cell in run.cells())


def test_a_local_package_s_version_covers_all_its_modules(folder: Path, good_plugin: Good) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import bdes_register, BDES_API_VERSION\n")
    (package / "inner.py").write_text(good_plugin("mine"))
    (folder / "demo.toml").write_text(FILE.replace("mine.py", "./package"))
    before = {cell.key for cell in load_experiment(folder / "demo.toml").cells}
    (package / "inner.py").write_text(good_plugin("mine") + "\n# changed\n")
    assert not before & {cell.key for cell in load_experiment(folder / "demo.toml").cells}


def test_a_second_process_on_one_folder_is_refused(folder: Path) -> None:
    (folder / "run").mkdir()
    with locked(folder / "run"):
        done = subprocess.run(
            [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run",
             str(folder / "demo.toml"), "--out", str(folder / "run")],
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert "in use by another process" in done.stderr


def failing(folder: Path, good_plugin: Good) -> None:
    source = good_plugin("mine").replace(
        "        pass", "        import pathlib\n"
        f"        if pathlib.Path({str(folder / 'broken')!r}).exists():\n"
        "            raise OSError('no more')"
    )  # fmt: skip
    (folder / "mine.py").write_text(source)
    (folder / "other.py").write_text(good_plugin("other"))
    (folder / "demo.toml").write_text(
        FILE.replace('["mine.py"]', '["mine.py", "other.py"]') + '[[policies]]\nuse = "other"\n'
    )
    (folder / "broken").touch()


def test_a_policy_that_raises_fails_its_own_cells_and_can_be_tried_again(
    folder: Path, good_plugin: Good
) -> None:
    failing(folder, good_plugin)
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "run"))
    errors = {cell.policy: cell.error for cell in run.cells()}
    assert errors == {"mine": "OSError: no more", "other": None}
    store = open_store(folder / "run", create=False)
    (key, *_) = store.finished(failed=True)
    result = store.result(key)
    assert result is not None
    assert "Traceback" in result.details
    assert "mine.py" in result.details
    (folder / "broken").unlink()
    run_experiment(folder / "demo.toml", out=folder / "run")
    assert len(store.finished(failed=True)) == 6
    run_experiment(folder / "demo.toml", out=folder / "run", retry_failed=True)
    assert store.finished(failed=True) == set()
    assert len(store.finished(failed=False)) == 12


def test_a_job_that_kills_its_worker_fails_alone(sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        SLOW.replace("        time.sleep(pause)", "        time.sleep(pause)\n"
                     "        import os, multiprocessing\n"
                     "        if pause == 0.001 and multiprocessing.parent_process():\n"
                     "            os.kill(os.getpid(), 9)")
    )  # fmt: skip
    text = sweep.read_text().replace("[[policies]]", "[[policies]]\npause = [0.2, 0.001]")
    text = text.replace('lam = [0.0, 0.3, "1/T", 1.0]', "lam = 0.3").replace("[10, 50]", "[10]")
    sweep.write_text(text.replace("replications = 15", "replications = 4"))
    engine = {"use": "processes", "workers": 2}
    run = load_run(run_experiment(sweep, out=tmp_path / "run", engine=engine))
    assert len(run.cells()) == run.n_cells == 8
    by_policy: dict[str, set[str | None]] = {}
    for cell in run.cells():
        by_policy.setdefault(cell.policy, set()).add(cell.error)
    assert by_policy["slow (pause=0.2)"] == {None}
    assert by_policy["slow (pause=0.001)"] == {"its worker died every time it was tried"}


def test_a_killed_worker_s_cells_are_run_again(sweep: Path, tmp_path: Path) -> None:
    """One worker is killed from outside, once; nothing is missing at the end."""
    (tmp_path / "slow.py").write_text(
        SLOW.replace("        time.sleep(pause)", "        time.sleep(pause)\n"
                     "        import os, pathlib, multiprocessing\n"
                     f"        flag = pathlib.Path({str(tmp_path / 'flag')!r})\n"
                     "        if multiprocessing.parent_process() and not flag.exists():\n"
                     "            flag.touch()\n"
                     "            os.kill(os.getpid(), 9)")
    )  # fmt: skip
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.03'))
    engine = {"use": "processes", "workers": 2}
    run = load_run(run_experiment(sweep, out=tmp_path / "run", engine=engine))
    assert (tmp_path / "flag").exists(), "no worker was ever started"
    assert len(run.cells()) == 120
    assert all(cell.error is None for cell in run.cells())


def test_hooks_are_told_and_none_is_called_while_a_cell_runs(
    folder: Path, good_plugin: Good
) -> None:
    source = good_plugin("mine") + LISTENER
    (folder / "mine.py").write_text(
        source.replace("return np.zeros", "calls.append('ask'); return np.zeros").replace(
            "        pass", "        calls.append('tell')"
        )
    )
    experiment = load_experiment(folder / "demo.toml")
    hooks = experiment.plugins._hooks
    (plugin,) = [p for name, p in hooks.list_name_plugin() if name == "mine"]
    calls: list[object] = vars(plugin)["calls"]
    undo = hooks.add_hookcall_monitoring(
        lambda name, *_: calls.append(f"before {name}"),
        lambda _, name, *__: calls.append(f"after {name}"),
    )
    run_experiment(experiment, out=folder / "run", engine="serial")
    undo()
    assert calls[:3] == [
        "before bdes_run_started",
        ("started", "demo", 6),
        "after bdes_run_started",
    ]
    assert ("finished", 6, 0) in calls
    assert [c for c in calls if isinstance(c, tuple) and c[0] == "cell"] == [
        ("cell", "mine", done, 0) for done in range(1, 7)
    ]
    inside = False
    for call in calls:
        if isinstance(call, str) and call.startswith(("before", "after")):
            inside = call.startswith("before")
        elif call in ("ask", "tell"):
            assert not inside, "a hook was running while the policy was asked"
    # One call a cell and two a run: nothing fires per round, however many rounds there are.
    assert len([c for c in calls if isinstance(c, str) and c.startswith("before")]) == 6 + 2


def test_a_listener_that_raises_is_only_a_warning(folder: Path, good_plugin: Good) -> None:
    broken = LISTENER.replace('calls.append(("started"', 'raise OSError(("s"')
    (folder / "mine.py").write_text(good_plugin("mine") + broken)
    with pytest.warns(RuntimeWarning, match=r"plugin 'mine': bdes_run_started raised OSError"):
        run = load_run(run_experiment(folder / "demo.toml", out=folder / "run"))
    assert len(run.cells()) == 6


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
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "run"))
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
    run = load_run(run_experiment(file, out=folder / "run"))
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
    run = load_run(run_experiment(file, out=folder / "run"))
    assert [cell.regret for cell in run.cells()] == [None] * 6
    assert [cell.error for cell in run.cells()] == [None] * 6
    assert run.benchmark_errors() == ["OSError: no plan"]
    assert show_run(folder / "run") == 1
    (folder / "broken").unlink()
    run_experiment(file, out=folder / "run", retry_failed=True)
    assert show_run(folder / "run") == 0
    assert all(cell.regret is not None for cell in load_run(folder / "run").cells())


ENGINE = """
from attrs import frozen
from bdes_framework import hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Runs the first job twice, or none at all.'''
    times: int = 2

class Wrong:
    def __init__(self, times):
        self.times = times
    def run(self, jobs, execute):
        for _ in range(self.times):
            yield execute(jobs[0])

@hookimpl
def bdes_register(registrar):
    registrar.engine("wrong", Config, lambda config, context: Wrong(config.times))
"""


def test_an_engine_that_runs_a_job_twice_is_refused_and_a_lazy_one_noticed(folder: Path) -> None:
    (folder / "engine.py").write_text(ENGINE)
    text = FILE.replace('["mine.py"]', '["mine.py", "engine.py"]')
    (folder / "demo.toml").write_text(text)
    with pytest.raises(ContractError, match="engine 'wrong' returned a result twice"):
        run_experiment(folder / "demo.toml", out=folder / "run", engine="wrong")
    lazy = {"use": "wrong", "times": 0}
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "lazy", engine=lazy))
    assert {cell.error for cell in run.cells()} == {"its worker died every time it was tried"}


def test_a_run_is_read_as_rows_and_frames(folder: Path) -> None:
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "run"))
    rows = list(run.rows())
    assert len(rows) == 6
    frame = run.to_pandas()
    assert frame["total_reward"].tolist() == [row["total_reward"] for row in rows]
    assert run.to_polars()["horizon"].to_list() == [row["horizon"] for row in rows]
    assert run.name == "demo"
    assert "bdes-framework" in run.resolved["versions"]
    with pytest.raises(KeyError, match="no finished cell"):
        run.curves("x", "y", 1)


HOSTILE = [
    "a'b\"c",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "x\ny",
    "\x1b[31mred",
    "[bold]",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_the_database(folder: Path, name: str) -> None:
    experiment = load_experiment(_named(folder, name))
    out = run_folder(experiment)
    assert (folder / out).resolve().parent == (folder / "runs").resolve()
    run = load_run(run_experiment(experiment, out=folder / "run", engine="serial"))
    assert {cell.policy for cell in run.cells()} == {name}
    assert run.name == name


def test_a_hostile_name_stays_text_in_the_terminal(folder: Path) -> None:
    _named(folder, "\x1b[31mred[bold]\n")
    done = subprocess.run(
        [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run", "demo.toml"],
        capture_output=True, text=True, cwd=folder, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert r"\x1b[31mred[bold]\n" in done.stdout


def _named(folder: Path, name: str) -> Path:
    escaped = name.encode("unicode_escape").decode().replace("\\x1b", "\\u001b").replace('"', '\\"')
    text = FILE.replace('name = "demo"', f'name = "{escaped}"')
    text = text.replace('use = "mine"', f'use = "mine"\nlabel = "{escaped}"')
    (folder / "demo.toml").write_text(text)
    return folder / "demo.toml"


def test_a_very_long_name_is_refused(folder: Path) -> None:
    (folder / "demo.toml").write_text(FILE.replace('"demo"', f'"{"x" * 10_000}"'))
    with pytest.raises(Exception, match="name: must have 1 to 200 characters"):
        load_experiment(folder / "demo.toml")
