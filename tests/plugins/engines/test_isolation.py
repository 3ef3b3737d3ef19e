"""Workers: what somebody's code cannot do to a run, time limits, scripts, signals."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from attrs import frozen

from bdes_engines import pool
from bdes_engines.worker import Worker
from bdes_framework import ConfigError, JobFailure, PluginError, load_run, run_experiment
from tests.support.command import bdes, bdes_process
from tests.support.experiments import plugin_of, run_demo, write_experiment, write_plugin

PROCESSES = {"use": "processes", "workers": 2}
DASK = {"use": "dask", "workers": 2}
WORKERS = [
    pytest.param(PROCESSES, id="processes"),
    pytest.param(DASK, id="dask", marks=pytest.mark.slow),
]
ONE_CELL = (("[10, 50]", "[10]"), ("replications = 3", "replications = 1"))
BESIDE_OURS = ('use = "mine"', 'use = "mine"\n\n[[policies]]\nuse = "uniform"')


def errors(folder: Path) -> dict[str, str | None]:
    with load_run(folder / "run") as run:
        return {cell.policy: cell.error for cell in run.cells()}


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a job that has killed two workers: each takes a second to start."""
    monkeypatch.setattr(pool, "ATTEMPTS", 2)


@pytest.mark.parametrize("engine", WORKERS)
def test_cells_of_third_parties_cannot_end_the_run(folder: Path, engine: dict[str, object]) -> None:
    """However small the run is: in this process it would end the tests, with exit code 0."""
    write_plugin(folder, ("        pass", "        import os; os._exit(0)"))
    write_experiment(folder, BESIDE_OURS, *ONE_CELL)
    run_demo(folder, engine=engine)
    died = "its worker died every time it was tried (exit code 0)"
    assert errors(folder) == {"mine": died, "uniform": None}


def test_factories_of_third_parties_run_in_workers_only(folder: Path) -> None:
    write_plugin(folder, ("    return First()", "    import os; os._exit(0)"))
    write_experiment(folder, BESIDE_OURS, *ONE_CELL)
    checked = bdes_process("check", "demo.toml", cwd=folder)
    assert "demo.toml: no mistakes" in checked.stdout
    run_demo(folder, engine=PROCESSES)
    died = "its worker died every time it was tried (exit code 0)"
    assert errors(folder) == {"mine": died, "uniform": None}


def test_cell_that_forks_or_prints_costs_nobody_else(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The fork ends where its cell does; what is printed is not the command's output."""
    write_plugin(
        folder, ("        pass", "        import os; os.fork(); print('hello', flush=True)")
    )
    write_experiment(folder, BESIDE_OURS, *ONE_CELL)
    run_demo(folder, engine=PROCESSES)
    assert errors(folder) == {"mine": None, "uniform": None}
    printed = capfd.readouterr()
    assert "hello" in printed.err
    assert "hello" not in printed.out


@pytest.mark.parametrize("engine", WORKERS)
def test_cell_that_takes_too_long_is_ended(folder: Path, engine: dict[str, object]) -> None:
    write_plugin(folder, ("        pass", "        while True: pass"))
    write_experiment(folder, *ONE_CELL, ("seed = 1", "seed = 1\ntimeout = 0.5"))
    run_demo(folder, engine=engine)
    assert errors(folder) == {"mine": "took longer than 0.5 s (timeout)"}


ENDLESS = """
    def plan(self, instance, horizon):
        time.sleep(1000)
"""


def test_benchmark_that_takes_too_long_is_ended(folder: Path) -> None:
    (folder / "mine.py").write_text(plugin_of("planner", "endless", ENDLESS))
    ours = ('use = "mine"', 'use = "uniform"')
    endless = ("benchmark = false", 'benchmark = "endless"')
    write_experiment(folder, endless, ours, *ONE_CELL)
    with pytest.raises(KeyboardInterrupt):  # all cells are done, no limit of time for them
        run_demo(folder, on_benchmark=interrupt)
    limited = ("benchmark = false", 'benchmark = "endless"\ntimeout = 0.5')
    write_experiment(folder, limited, ours, *ONE_CELL)
    with run_demo(folder, engine=PROCESSES) as run:
        assert [cell.error for cell in run.cells()] == [None]
        assert run.benchmark_errors() == ["took longer than 0.5 s (timeout)"]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_serial_says_that_it_cannot_end_a_cell(folder: Path) -> None:
    write_experiment(folder, ("seed = 1", "seed = 1\ntimeout = 60.5"))
    with pytest.warns(RuntimeWarning, match="engine 'serial' .* timeout is ignored"):
        assert len(run_demo(folder).cells()) == 6


@pytest.mark.parametrize("timeout", ["0", "-1", "inf"])
def test_wrong_time_limits_are_mistakes(folder: Path, timeout: str) -> None:
    write_experiment(folder, ("seed = 1", f"seed = 1\ntimeout = {timeout}"))
    with pytest.raises(ConfigError, match="timeout: must be above 0"):
        run_demo(folder)


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_too_many_workers_are_a_mistake(folder: Path, engine: str) -> None:
    with pytest.raises(ConfigError, match="'workers' must be <= 1024: 100000"):
        run_demo(folder, engine={"use": engine, "workers": 100_000})


STUBBORN = """
        import os, pathlib, signal, subprocess, threading, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=time.sleep, args=(1000,)).start()
        child = subprocess.Popen(["sleep", "1000"])
        pathlib.Path({folder!r}, "processes").write_text(f"{{os.getpid()}} {{child.pid}}")
"""


@pytest.mark.parametrize("busy", [False, True])
def test_stubborn_workers_are_gone_after_the_run(folder: Path, busy: bool) -> None:
    """One with a thread that does not end; one at work when the run is stopped."""
    pause = "        time.sleep(1000)" if busy else ""
    write_plugin(folder, ("        pass", STUBBORN.format(folder=str(folder)) + pause))
    write_experiment(folder, *ONE_CELL)
    noted = folder / "processes"
    if busy:
        threading.Thread(target=interrupt_once, args=(noted,), daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            run_demo(folder, engine=PROCESSES)
    else:
        run_demo(folder, engine=PROCESSES)
    for process in map(int, noted.read_text().split()):
        deadline = time.monotonic() + 60
        while is_alive(process) and time.monotonic() < deadline:
            time.sleep(0.01)  # until whoever inherited it has buried it
        assert not is_alive(process)


def interrupt_once(file: Path) -> None:
    while not (file.exists() and file.read_text()):
        time.sleep(0.01)
    signal.raise_signal(signal.SIGINT)


def test_workers_import_nothing_in_place_of_python(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")  # as in a notebook, or under python -c
    for name in ("signal", "struct", "pickle", "json"):
        (folder / f"{name}.py").write_text("raise RuntimeError('the wrong one')")
    assert {cell.error for cell in run_demo(folder, engine=PROCESSES).cells()} == {None}


def test_workers_that_cannot_start_are_an_error(folder: Path) -> None:
    refuse = f"import os\nos.getpid() == {os.getpid()} or os._exit(3)\nimport numpy"
    write_plugin(folder, ("import numpy", refuse))
    message = r"worker processes cannot start: they die at once \(exit code 3\)"
    with pytest.raises(PluginError, match=message):
        run_demo(folder, engine=PROCESSES)


@pytest.mark.parametrize("engine", WORKERS)
@pytest.mark.parametrize("how", ["script", "standard input"])
def test_scripts_need_no_main_guard(folder: Path, engine: dict[str, object], how: str) -> None:
    call = f"bdes.run_experiment('demo.toml', out='run', engine={engine!r})"
    script = f"import bdes_framework as bdes\nprint('begin')\n{call}\n"
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "script.py" if how == "script" else "-"],
        input=None if how == "script" else script,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "begin\n"), done.stderr
    assert errors(folder) == {"mine": None}


HOOK = """
@hookimpl
def bdes_cell_finished(run, cell):
    import os, signal
    os.kill(os.getpid(), signal.{name})
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_stop_a_run_like_ctrl_c(folder: Path, name: str, code: int) -> None:
    write_plugin(folder, ("@hookimpl", HOOK.format(name=name) + "\n@hookimpl"))
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    command = ["run", str(folder / "demo.toml"), "--out", str(folder / "run")]
    done = bdes(*command, "--engine", "serial")
    assert done.returncode == code
    assert "stopped; finished cells are in" in done.stderr
    assert errors(folder) == {"mine": None}
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


def test_local_dask_cluster_listens_on_no_port(folder: Path) -> None:
    """Nobody else can send it work: it has no address outside this process."""
    from distributed import Client

    seen = []

    def look(*_: object) -> None:
        info = Client.current().scheduler_info()
        seen.extend([info["address"], *info["workers"]])

    write_experiment(folder, *ONE_CELL)
    run_experiment(folder / "demo.toml", out=folder / "run", engine=DASK, on_cell=look)
    assert len(seen) == 2
    assert all(address.startswith("inproc://") for address in seen)


@frozen
class Task:
    """A job with a time limit of its own."""

    number: int
    timeout: float | None = None


def work(task: Task) -> int:
    if task.number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if task.number == 5:
        time.sleep(1000)
    return task.number


def test_jobs_that_always_die_are_soon_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "HOPELESS", 1)
    started: list[Worker] = []
    start = Worker.start

    def counted(execute: bytes) -> Worker:
        started.append(start(execute))
        return started[-1]

    monkeypatch.setattr(Worker, "start", counted)
    with closing(pool.Pool[int, None](1, os._exit)) as workers:
        came = list(workers.run([7, 8, 9]))
    reasons = {failure.job: failure.reason for failure in came if isinstance(failure, JobFailure)}
    assert reasons == {
        7: "its worker died every time it was tried (exit code 7)",
        8: "its worker died every time it was tried (exit code 8)",
        9: "its worker died every time it was tried (exit code 9)",
    }
    assert len(started) == pool.ATTEMPTS + 2  # all attempts for one job, then one for each


def test_one_job_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that kills its worker nor one without end: those beside them are done."""
    tasks = [Task(number, timeout=0.5 if number == 5 else None) for number in range(10)]
    with closing(pool.Pool[Task, int](2, work, cost_per_second=100.0)) as workers:
        came = list(workers.run(tasks))
    assert sorted(result for result in came if isinstance(result, int)) == [0, 1, 2, 4, 6, 7, 8, 9]
    failures = {result.job.number: result.reason for result in came if not isinstance(result, int)}
    assert failures == {
        3: "its worker died every time it was tried (SIGSEGV)",
        5: "took longer than 0.5 s (timeout)",
    }
