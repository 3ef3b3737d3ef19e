"""Engines: the same bits from each, whatever dies on the way."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from bdes_engines import processes
from bdes_engines.processes import Processes
from bdes_framework import (
    ContractError,
    StoreError,
    load_experiment,
    load_run,
    run_experiment,
)
from bdes_framework.experiment.store import open_store
from tests.support.experiments import FILE, SLOW, dump


def noting_processes(folder: Path) -> None:
    """Let the slow policy leave its process's id, and dawdle while there is a file "dawdle"."""
    note = (
        "        import os, pathlib\n"
        f"        here = pathlib.Path({str(folder)!r})\n"
        "        (here / f'{os.getpid()}.pid').touch()\n"
        "        time.sleep(0.05 if (here / 'dawdle').exists() else 0)\n"
    )
    source = SLOW.replace("        time.sleep(pause)\n", "        time.sleep(pause)\n" + note)
    (folder / "slow.py").write_text(source)


def workers_seen(folder: Path) -> set[int]:
    return {int(file.stem) for file in folder.glob("*.pid")} - {os.getpid()}


def test_any_engine_and_any_order_give_the_same_bits(sweep: Path, tmp_path: Path) -> None:
    noting_processes(tmp_path)
    experiment = load_experiment(sweep)
    reference = dump(run_experiment(experiment, out=tmp_path / "serial", engine="serial").folder)
    assert len(reference) == 120
    shuffled = list(experiment.cells)
    random.Random(3).shuffle(shuffled)
    again = evolve(experiment, cells=tuple(shuffled))
    assert (
        dump(run_experiment(again, out=tmp_path / "shuffled", engine="serial").folder) == reference
    )
    assert not workers_seen(tmp_path)
    (tmp_path / "dawdle").touch()
    seen: set[int] = set()
    for engine in ({"use": "processes", "workers": 2}, {"use": "dask", "workers": 2}):
        out = tmp_path / str(engine["use"])
        assert dump(run_experiment(experiment, out=out, engine=engine).folder) == reference
        assert len(workers_seen(tmp_path) - seen) == 2
        seen = workers_seen(tmp_path)


class Job:
    """Waits until there are so many files in a folder, then adds one."""

    def __init__(self, cost: float, folder: Path, others: int) -> None:
        self.cost, self.folder, self.others = cost, folder, others


def done_by(job: Job) -> tuple[float, int]:
    deadline = time.monotonic() + 60
    while len(list(job.folder.glob("*.done"))) < job.others and time.monotonic() < deadline:
        time.sleep(0.05)
    (job.folder / f"{job.cost}.done").touch()
    return job.cost, os.getpid()


def test_a_job_that_takes_long_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """The first ends only when the others' results have come: so they must come before it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    jobs = [Job(1, tmp_path, 2), Job(2, elsewhere, 0), Job(3, elsewhere, 0)]
    came = []
    for cost, process in Processes(2).run(jobs, done_by):
        came.append((cost, process == os.getpid()))
        (tmp_path / f"{cost} came.done").touch()
    assert sorted(came[:2]) == [(2, False), (3, False)]
    assert came[2:] == [(1, True)]


def test_small_runs_start_no_worker_whatever_their_horizons(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cheapest cell's milliseconds are not its pulls': they do not grow with the horizon."""
    text = FILE.replace("[10, 50]", "[10, 100_000]").replace('use = "mine"', 'use = "ucb1"')
    (folder / "demo.toml").write_text(text.replace("replications = 3", "replications = 10"))
    run_experiment(folder / "demo.toml", out=folder / "warm", engine="serial")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pool was started")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", refuse)
    engine = {"use": "processes", "workers": 2}
    run = run_experiment(folder / "demo.toml", out=folder / "run", engine=engine)
    assert len(run.cells()) == 20


def test_a_pool_that_breaks_while_it_is_filled_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(ProcessPoolExecutor):
        submitted = 0

        def submit(self, *arguments: Any, **keywords: Any) -> Any:
            Breaking.submitted += 1
            if Breaking.submitted == 2:
                raise BrokenProcessPool
            return super().submit(*arguments, **keywords)

    monkeypatch.setattr(processes, "ProcessPoolExecutor", Breaking)
    pools = processes._Pools(2, done_by, 1.0)
    came = pools.run([Job(cost, tmp_path, 0) for cost in (1, 2, 3)], [])
    assert sorted(cost for cost, _ in came) == [1, 2, 3]
    assert Breaking.submitted == 4


@pytest.mark.parametrize("times", [3, pytest.param(25, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_ends_with_the_same_bits(
    sweep: Path, tmp_path: Path, times: int
) -> None:
    """SIGKILL at random moments; every time the same command goes on."""
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.05'))
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
    whole = run_experiment(load_experiment(sweep), out=tmp_path / "whole", engine="serial").folder
    assert dump(tmp_path / "killed") == dump(whole)


def _saved(folder: Path) -> int:
    try:
        store = open_store(folder, create=False)
        n = len(store.finished(failed=False))
        store.close()
    except StoreError:
        return 0
    return n


WORKERS = [
    pytest.param({"use": "processes", "workers": 2}, id="processes"),
    pytest.param({"use": "dask", "workers": 2}, id="dask", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("engine", WORKERS)
def test_a_job_that_kills_its_worker_fails_alone(
    sweep: Path, tmp_path: Path, engine: dict[str, object]
) -> None:
    (tmp_path / "slow.py").write_text(
        SLOW.replace("        time.sleep(pause)", "        time.sleep(pause)\n"
                     "        import os, multiprocessing\n"
                     "        if pause == 0.001 and multiprocessing.parent_process():\n"
                     "            os.kill(os.getpid(), 9)")
    )  # fmt: skip
    text = sweep.read_text().replace("[[policies]]", "[[policies]]\npause = [1.0, 0.001]")
    text = text.replace('lam = [0.0, 0.3, "1/T", 1.0]', "lam = 0.3").replace("[10, 50]", "[10]")
    sweep.write_text(text.replace("replications = 15", "replications = 3"))
    run = run_experiment(sweep, out=tmp_path / "run", engine=engine)
    assert len(run.cells()) == run.n_cells == 6
    by_policy: dict[str, set[str | None]] = {}
    for cell in run.cells():
        by_policy.setdefault(cell.policy, set()).add(cell.error)
    assert by_policy["slow (pause=1.0)"] == {None}
    assert by_policy["slow (pause=0.001)"] == {"its worker died every time it was tried"}


@pytest.mark.parametrize("engine", WORKERS)
def test_a_killed_worker_s_cells_are_run_again(
    sweep: Path, tmp_path: Path, engine: dict[str, object]
) -> None:
    """One worker is killed with cells in hand, once; nothing is missing at the end."""
    (tmp_path / "slow.py").write_text(
        SLOW.replace("        time.sleep(pause)", "        time.sleep(pause)\n"
                     "        import os, pathlib, multiprocessing\n"
                     f"        flag = pathlib.Path({str(tmp_path / 'flag')!r})\n"
                     "        if multiprocessing.parent_process() and not flag.exists():\n"
                     "            flag.touch()\n"
                     "            os.kill(os.getpid(), 9)")
    )  # fmt: skip
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.05'))
    run = run_experiment(sweep, out=tmp_path / "run", engine=engine)
    assert (tmp_path / "flag").exists(), "no worker was ever started"
    assert len(run.cells()) == 120
    assert all(cell.error is None for cell in run.cells())


SCRIPT = """
import bdes_framework as bdes

bdes.run_experiment("sweep.toml", out="run", engine={engine!r})
"""


@pytest.mark.parametrize("engine", WORKERS)
def test_a_script_without_a_main_guard_is_told_what_to_write(
    sweep: Path, tmp_path: Path, engine: dict[str, object]
) -> None:
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.6'))
    (tmp_path / "script.py").write_text(SCRIPT.format(engine=engine))
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("bdes_framework.errors.PluginError:")
    assert last.endswith("put the call under 'if __name__ == \"__main__\":'")


@pytest.mark.parametrize("engine", WORKERS)
def test_a_script_with_a_main_guard_runs(
    sweep: Path, tmp_path: Path, engine: dict[str, object]
) -> None:
    text = sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.6')
    sweep.write_text(text.replace("replications = 15", "replications = 1"))
    guarded = SCRIPT.format(engine=engine).replace(
        "bdes.run", 'if __name__ == "__main__": bdes.run'
    )
    (tmp_path / "script.py").write_text(guarded)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=120)
    assert len(load_run(tmp_path / "run").cells()) == 8


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
    run = run_experiment(folder / "demo.toml", out=folder / "lazy", engine=lazy)
    assert {cell.error for cell in run.cells()} == {"its worker died every time it was tried"}
