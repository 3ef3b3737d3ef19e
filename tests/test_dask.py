"""Dask by address: a scheduler that is there is used, anything else is named."""

import socket
from pathlib import Path

import pytest
from distributed import Client

from bdes_framework import ConfigError, PluginError, load_run, run_experiment
from tests.running import dump


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


@pytest.mark.slow
def test_a_scheduler_that_is_there_is_used(sweep: Path, tmp_path: Path) -> None:
    whole = dump(run_experiment(sweep, out=tmp_path / "serial", engine="serial"))
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as own:
        engine = {"use": "dask", "address": own.scheduler_info()["address"]}
        assert dump(run_experiment(sweep, out=tmp_path / "run", engine=engine)) == whole
