"""Engines: the same bits from each, whatever dies on the way."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from bdes_framework import (
    ContractError,
    StoreError,
    load_experiment,
    load_run,
    run_experiment,
)
from bdes_framework.store import open_store
from tests.running import FILE, SLOW, dump


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
    text = sweep.read_text().replace("[[policies]]", "[[policies]]\npause = [0.2, 0.001]")
    text = text.replace('lam = [0.0, 0.3, "1/T", 1.0]', "lam = 0.3").replace("[10, 50]", "[10]")
    sweep.write_text(text.replace("replications = 15", "replications = 4"))
    run = load_run(run_experiment(sweep, out=tmp_path / "run", engine=engine))
    assert len(run.cells()) == run.n_cells == 8
    by_policy: dict[str, set[str | None]] = {}
    for cell in run.cells():
        by_policy.setdefault(cell.policy, set()).add(cell.error)
    assert by_policy["slow (pause=0.2)"] == {None}
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
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.03'))
    run = load_run(run_experiment(sweep, out=tmp_path / "run", engine=engine))
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
    run = load_run(run_experiment(folder / "demo.toml", out=folder / "lazy", engine=lazy))
    assert {cell.error for cell in run.cells()} == {"its worker died every time it was tried"}
