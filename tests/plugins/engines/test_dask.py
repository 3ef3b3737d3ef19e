"""Dask by address: a scheduler that is there is used, anything else is named."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from bdes_framework import ConfigError, PluginError, StoreError, load_run, run_experiment
from tests.support.experiments import dump


@pytest.mark.slow
@pytest.mark.parametrize("takes_calls", [False, True])
def test_a_port_without_a_scheduler_is_named(folder: Path, takes_calls: bool) -> None:
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        if takes_calls:
            stranger.listen()  # and never says a word
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        with pytest.raises(PluginError, match=f"no Dask scheduler answers at '{address}'"):
            run_experiment(
                folder / "demo.toml", out=folder / "run", engine={"use": "dask", "address": address}
            )
    assert load_run(folder / "run").cells() == []


@pytest.mark.parametrize("address", ["", "nonsense", "foo://bar:1", "tcp://", "host:x", "a b:1"])
def test_what_is_no_address_is_refused_at_once(folder: Path, address: str) -> None:
    engine = {"use": "dask", "address": address}
    with pytest.raises(ConfigError, match="address must be host:port"):
        run_experiment(folder / "demo.toml", out=folder / "run", engine=engine)
    assert not (folder / "run").exists()


def test_a_port_that_cannot_be_is_refused_at_once(folder: Path) -> None:
    engine = {"use": "dask", "address": "tcp://127.0.0.1:65536"}
    with pytest.raises(ConfigError, match="address must have a port up to 65535"):
        run_experiment(folder / "demo.toml", out=folder / "run", engine=engine)


def test_tls_without_keys_is_told_in_one_line(folder: Path) -> None:
    engine = {"use": "dask", "address": "tls://127.0.0.1:1"}
    with pytest.raises(PluginError, match=r"cannot connect to 'tls://127\.0\.0\.1:1': TLS"):
        run_experiment(folder / "demo.toml", out=folder / "run", engine=engine)


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
def test_a_scheduler_that_is_lost_is_told_in_one_line(
    scheduler: tuple[str, subprocess.Popen[str]], sweep: Path, tmp_path: Path
) -> None:
    address, process = scheduler
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.05'))
    with pytest.raises(PluginError, match=f"lost the Dask scheduler at '{address}'; run the same"):
        run_experiment(
            sweep,
            out=tmp_path / "run",
            engine={"use": "dask", "address": address},
            on_cell=lambda cell, result: process.kill(),
        )
    assert 0 < len(load_run(tmp_path / "run").cells()) < 120


@pytest.mark.slow
def test_a_scheduler_that_is_there_is_used(sweep: Path, tmp_path: Path) -> None:
    whole = dump(run_experiment(sweep, out=tmp_path / "serial", engine="serial").folder)
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as own:
        engine = {"use": "dask", "address": own.scheduler_info()["address"]}
        assert dump(run_experiment(sweep, out=tmp_path / "run", engine=engine).folder) == whole


@pytest.mark.slow
def test_ctrl_c_stops_a_local_cluster_without_tracebacks(sweep: Path, tmp_path: Path) -> None:
    """A terminal sends it to every process of the group, workers included."""
    sweep.write_text(sweep.read_text().replace('use = "slow"', 'use = "slow"\npause = 0.5'))
    child = subprocess.Popen(
        [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run", str(sweep),
         "--out", str(tmp_path / "run"), "--engine", "dask"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not n_saved(tmp_path / "run"):
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped; finished cells are in" in told
    assert "Traceback" not in told


def n_saved(folder: Path) -> int:
    try:
        return len(load_run(folder).cells())
    except StoreError:
        return 0
