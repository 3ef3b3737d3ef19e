"""Engines: the same bits from each, whatever dies on the way; Dask by address."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest
from attrs import evolve, frozen
from distributed import Client

import bdes_framework as bdes
from bdes_engines import pool, processes
from bdes_engines.processes import Processes
from bdes_framework import PluginError, StoreError, load_experiment, load_run, run_experiment
from tests.support.experiments import SLOW, changed, dump, run_demo, write_experiment

CLI = [sys.executable, "-c", "from bdes_framework.cli import main; main()"]
PROCESSES = {"use": "processes", "workers": 2}
DASK = {"use": "dask", "workers": 2}
WORKERS = [
    pytest.param(PROCESSES, id="processes"),
    pytest.param(DASK, id="dask", marks=pytest.mark.slow),
]

FEW = ("replications = 15", "replications = 4")
"""32 cells of the sweep instead of 120."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine "processes" start workers at once, however little there is to do."""
    monkeypatch.setattr(pool, "WORTH_SECONDS", 0.0)
    monkeypatch.setattr(pool, "WARM_UP_SECONDS", 0.0)


def pausing(sweep: Path, seconds: float, *changes: tuple[str, str]) -> None:
    """Let the sweep's policies pause before their first decision."""
    pause = ('use = "slow"', f'use = "slow"\npause = {seconds}')
    sweep.write_text(changed(sweep.read_text(), pause, *changes))


def write_slow_policy(folder: Path, code: str) -> None:
    """Write the slow policy with more code to run when it is built."""
    pause = "        time.sleep(pause)\n"
    (folder / "slow.py").write_text(changed(SLOW, (pause, pause + indent(code, " " * 8))))


def n_saved(folder: Path) -> int:
    try:
        return len(load_run(folder).cells())
    except StoreError:
        return 0


def workers_seen(folder: Path) -> set[int]:
    return {int(file.stem) for file in folder.glob("*.pid")} - {os.getpid()}


@pytest.mark.usefixtures("eager")
def test_engine_and_order_change_no_bit(sweep: Path, tmp_path: Path) -> None:
    # It leaves its process's id; with a file "meet" it waits for a second one.
    note = f"""import os, pathlib
here = pathlib.Path({str(tmp_path)!r})
(here / f'{{os.getpid()}}.pid').touch()
for _ in range(6000):
    if len(list(here.glob('*.pid'))) >= 2 or not (here / 'meet').exists(): break
    time.sleep(0.01)
"""
    write_slow_policy(tmp_path, note)
    sweep.write_text(changed(sweep.read_text(), FEW))
    experiment = load_experiment(sweep)
    reference = dump(
        run_experiment(experiment, out=tmp_path / "serial", reuse=False, engine="serial").folder
    )
    assert len(reference) == 32
    shuffled = list(experiment.cells)
    random.Random(3).shuffle(shuffled)
    again = evolve(experiment, cells=tuple(shuffled))
    in_any_order = run_experiment(again, out=tmp_path / "shuffled", reuse=False, engine="serial")
    assert dump(in_any_order.folder) == reference
    assert not workers_seen(tmp_path)
    (tmp_path / "meet").touch()
    for engine in (PROCESSES, DASK):
        for file in tmp_path.glob("*.pid"):
            file.unlink()
        out = tmp_path / str(engine["use"])
        assert (
            dump(run_experiment(experiment, out=out, reuse=False, engine=engine).folder)
            == reference
        )
        assert len(workers_seen(tmp_path)) == 2


@frozen
class Job:
    """Waits until there are so many files in a folder, then adds one."""

    cost: float
    folder: Path
    others: int


def done_by(job: Job) -> tuple[float, int]:
    deadline = time.monotonic() + 60
    while len(list(job.folder.glob("*.done"))) < job.others and time.monotonic() < deadline:
        time.sleep(0.05)
    (job.folder / f"{job.cost}.done").touch()
    return job.cost, os.getpid()


@pytest.mark.usefixtures("eager")
def test_long_jobs_do_not_hold_up_others(tmp_path: Path) -> None:
    """The first ends only when the others' results have come: so they must come before it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    jobs = [Job(1, tmp_path, 2), Job(2, elsewhere, 0), Job(3, elsewhere, 0)]
    came = []
    for result in Processes(2).run(jobs, done_by):
        assert not isinstance(result, bdes.JobFailure)
        cost, process = result
        came.append((cost, process == os.getpid()))
        (tmp_path / f"{cost} came.done").touch()
    assert sorted(came[:2]) == [(2, False), (3, False)]
    assert came[2:] == [(1, True)]


def test_small_runs_start_no_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest cell's milliseconds are not its pulls': they do not grow with the horizon."""
    write_experiment(
        folder,
        ("[10, 50]", "[10, 100_000]"),
        ('use = "mine"', 'use = "ucb1"'),
        ("replications = 3", "replications = 10"),
    )
    run_demo(folder, "warm")
    monkeypatch.setattr(processes, "Pool", None)  # starting a pool would fail
    assert len(run_demo(folder, engine=PROCESSES).cells()) == 20


@pytest.mark.parametrize("times", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_killed_runs_end_with_the_same_bits(sweep: Path, tmp_path: Path, times: int) -> None:
    """SIGKILL at random moments; every time the same command goes on."""
    write_slow_policy(tmp_path, "import os; time.sleep(0.05 if 'SLOWLY' in os.environ else 0)\n")
    slowly = os.environ | {"SLOWLY": "yes"}
    out = tmp_path / "killed"
    command = [*CLI, "run", str(sweep), "--out", str(out), "--engine", "processes"]
    rng = random.Random(1)
    kills, progress = 0, []
    while kills < times:
        child = subprocess.Popen(
            command, env=slowly, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # From before the folder exists to well into the cells, on any machine.
        saved = n_saved(out)
        deadline = time.monotonic() + 30
        goal = min(saved + rng.randint(0, 4), 119)
        while time.monotonic() < deadline and n_saved(out) <= goal - 1:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        assert child.poll() is None, "finished before it could be killed"
        child.send_signal(signal.SIGKILL)
        child.wait()
        kills += 1
        progress.append(n_saved(out))
    assert progress == sorted(progress), "a finished cell was lost"
    assert 0 < progress[-1] < 120
    subprocess.run(command, check=True, capture_output=True)
    whole = run_experiment(
        load_experiment(sweep), out=tmp_path / "whole", reuse=False, engine="serial"
    ).folder
    assert dump(out) == dump(whole)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("engine", WORKERS)
def test_job_that_kills_its_worker_fails_alone(
    sweep: Path, tmp_path: Path, engine: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ATTEMPTS", 2)  # each takes a second
    kill = f"""import os
if pause == 0.001 and os.getpid() != {os.getpid()}:
    os.kill(os.getpid(), 9)
"""
    write_slow_policy(tmp_path, kill)
    few = (
        ("[[policies]]", "[[policies]]\npause = [0.1, 0.001]"),
        ('lam = [0.0, 0.3, "1/T", 1.0]', "lam = 0.3"),
        ("[10, 50]", "[10]"),
        ("replications = 15", "replications = 2"),
    )
    sweep.write_text(changed(sweep.read_text(), *few))
    run = run_experiment(sweep, out=tmp_path / "run", engine=engine)
    assert len(run.cells()) == run.n_cells == 4
    by_policy: dict[str, set[str | None]] = {}
    for cell in run.cells():
        by_policy.setdefault(cell.policy, set()).add(cell.error)
    assert by_policy["slow (pause=0.1)"] == {None}
    assert by_policy["slow (pause=0.001)"] == {"its worker died every time it was tried (SIGKILL)"}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("engine", WORKERS)
def test_cells_of_a_killed_worker_run_again(
    sweep: Path, tmp_path: Path, engine: dict[str, object]
) -> None:
    """One worker is killed with cells in hand, once; nothing is missing at the end."""
    sweep.write_text(changed(sweep.read_text(), FEW))
    kill_once = f"""import os, pathlib
flag = pathlib.Path({str(tmp_path / "flag")!r})
if os.getpid() != {os.getpid()} and not flag.exists():
    flag.touch()
    os.kill(os.getpid(), 9)
"""
    write_slow_policy(tmp_path, kill_once)
    run = run_experiment(sweep, out=tmp_path / "run", engine=engine)
    assert (tmp_path / "flag").exists(), "no worker was ever started"
    assert len(run.cells()) == 32
    assert all(cell.error is None for cell in run.cells())


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


def test_engines_that_repeat_or_drop_jobs(folder: Path) -> None:
    (folder / "engine.py").write_text(ENGINE)
    write_experiment(folder, ('["mine.py"]', '["mine.py", "engine.py"]'))
    with pytest.raises(bdes.ContractError, match="engine 'wrong' returned a result twice"):
        run_demo(folder, engine="wrong")
    run = run_demo(folder, "lazy", engine={"use": "wrong", "times": 0})
    assert {cell.error for cell in run.cells()} == {"the engine returned no result"}


# -- Dask by address ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("takes_calls", [False, True])
def test_port_without_scheduler_is_named(folder: Path, takes_calls: bool) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        if takes_calls:
            stranger.listen()  # and never says a word
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        with pytest.raises(PluginError, match=f"no Dask scheduler answers at '{address}'"):
            run_demo(folder, engine={"use": "dask", "address": address})
    assert load_run(folder / "run").cells() == []


@pytest.mark.parametrize(
    "address", ["", "nonsense", "foo://bar:1", "tcp://", "host:x", "a b:1", "tcp://127.0.0.1:65536"]
)
def test_bad_addresses_raise_at_once(folder: Path, address: str) -> None:
    message = "have a port up to 65535" if "65536" in address else "be host:port"
    with pytest.raises(bdes.ConfigError, match=f"address must {message}"):
        run_demo(folder, engine={"use": "dask", "address": address})
    assert not (folder / "run").exists()


def test_tls_without_keys_raises_in_one_line(folder: Path) -> None:
    with pytest.raises(PluginError, match=r"cannot connect to 'tls://127\.0\.0\.1:1': TLS"):
        run_demo(folder, engine={"use": "dask", "address": "tls://127.0.0.1:1"})


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a scheduler with one worker, in processes of their own."""
    dask = [sys.executable, "-m", "distributed.cli."]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    own = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    both: list[subprocess.Popen[str]] = []
    for name, *options in (
        ("dask_scheduler", "--host", "127.0.0.1", "--port", port),
        ("dask_worker", address, "--no-nanny", "--nthreads", "1"),
    ):
        command = [*dask[:2], dask[2] + name, *options, *own]
        both.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True))
    yield address, both[0]
    for process in both:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_lost_scheduler_raises_in_one_line(
    scheduler: tuple[str, subprocess.Popen[str]], sweep: Path, tmp_path: Path
) -> None:
    address, process = scheduler
    pausing(sweep, 0.05)
    with pytest.raises(PluginError, match=f"lost the Dask scheduler at '{address}'; run the same"):
        run_experiment(
            sweep,
            out=tmp_path / "run",
            engine={"use": "dask", "address": address},
            on_cell=lambda cell, result: process.kill(),
        )
    assert 0 < len(load_run(tmp_path / "run").cells()) < 120


@pytest.mark.slow
def test_existing_scheduler_is_used(sweep: Path, tmp_path: Path) -> None:
    whole = dump(
        run_experiment(sweep, out=tmp_path / "serial", reuse=False, engine="serial").folder
    )
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as own:
        engine = {"use": "dask", "address": own.scheduler_info()["address"]}
        assert (
            dump(run_experiment(sweep, out=tmp_path / "run", reuse=False, engine=engine).folder)
            == whole
        )


@pytest.mark.slow
def test_ctrl_c_stops_a_cluster_quietly(sweep: Path, tmp_path: Path) -> None:
    """A terminal sends it to every process of the group, workers included."""
    pausing(sweep, 0.5)
    child = subprocess.Popen(
        [*CLI, "run", str(sweep), "--out", str(tmp_path / "run"), "--engine", "dask"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not n_saved(tmp_path / "run"):
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped; finished cells are in" in errors
    assert "Traceback" not in errors
