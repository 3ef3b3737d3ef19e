"""A service that is killed, whose disk is full or whose database is gone: nothing acknowledged is
lost, nothing counted twice, and a replay says the same."""

import random
import resource
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from bdes_framework.live import Client
from bdes_framework.live.serving import ServiceProcess
from tests.support.live_traffic import Traffic
from tests.support.postgres import BINARIES, postgres_server

LIVE = """
name = "killed"
arms = ["clip", "essay", "poll"]
visits_per_user = 50
default_reward = "none"
seed = 5
"""
needs_postgres = pytest.mark.skipif(not BINARIES, reason="no PostgreSQL here")


def shop(folder: Path, journal: str = 'use = "sqlite"') -> Path:
    (folder / "live.toml").write_text(f"{LIVE}journal = {{ {journal} }}\n", encoding="utf-8")
    return folder


def kill_and_check(folder: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    with ServiceProcess(folder) as service:
        traffic = Traffic(service.address, seed)
        for _ in range(kills):
            traffic.start()
            traffic.run_until(rng.randrange(1, 60))
            service.restart(kill=True)
            traffic.stop()
        traffic.start()
        traffic.run_until(50)
        traffic.stop()
    assert len(traffic.rewards) > 10
    traffic.check(folder)


def test_killed_service_loses_nothing(tmp_path: Path) -> None:
    kill_and_check(shop(tmp_path), 2, 1)


@pytest.mark.slow
def test_service_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    kill_and_check(shop(tmp_path), 20, 2)


def test_stopped_service_answers_what_it_accepted(tmp_path: Path) -> None:
    with ServiceProcess(shop(tmp_path)) as service:
        traffic = Traffic(service.address, 3, n_threads=16)
        traffic.start()
        traffic.run_until(50)
        service.stop()
        traffic.stop()
        assert service.exit_code == 0
    # A request that met the closing of its connection was not accepted, nor done.
    traffic.unsure_decisions = 0
    traffic.unsure_rewards = {}
    traffic.check(tmp_path)


def test_full_disk_is_told_and_passes(tmp_path: Path) -> None:
    with ServiceProcess(shop(tmp_path)) as service:
        traffic = Traffic(service.address, 4)
        traffic.start()
        traffic.run_until(50)
        _, most = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (4_096, most))  # files grow no more
        deadline = time.monotonic() + 60
        while traffic.refused < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Client(service.address) as client:
            assert client.is_ready()
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (most, most))
        traffic.run_until(50)
        traffic.stop()
    assert not traffic.unsure_decisions
    assert not traffic.unsure_rewards
    traffic.check(tmp_path)


def kill_database(folder: Path, kills: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server() as server:
        monkeypatch.setenv("BDES_JOURNAL_DSN", server.address)
        shop(folder, 'use = "postgres"')
        rng = random.Random(seed)
        with ServiceProcess(folder) as service:
            traffic = Traffic(service.address, seed)
            traffic.start()
            for _ in range(kills):
                traffic.run_until(rng.randrange(1, 60))
                server.kill()
                time.sleep(0.2)
                server.start()
            traffic.run_until(50)
            traffic.stop()
        assert not traffic.unsure_decisions
        assert not traffic.unsure_rewards
        traffic.check(folder)


@needs_postgres
def test_killed_database_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_database(tmp_path, 2, 5, monkeypatch)


@pytest.mark.slow
@needs_postgres
def test_database_killed_twenty_times_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_database(tmp_path, 20, 6, monkeypatch)


@pytest.mark.slow
@needs_postgres
def test_services_share_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decide, one learns; where that one is killed, the other learns and nothing is lost."""
    with postgres_server() as server:
        monkeypatch.setenv("BDES_JOURNAL_DSN", server.address)
        shop(tmp_path, 'use = "postgres"')
        with ServiceProcess(tmp_path) as first, ServiceProcess(tmp_path) as second:
            one, other = Traffic(first.address, 7), Traffic(second.address, 8)
            assert [learns(first.address), learns(second.address)] == [True, False]
            for traffic in (one, other):
                traffic.start()
            for traffic in (one, other):
                traffic.run_until(60)
            first.stop(signal.SIGKILL)
            one.stop()
            other.run_until(60)
            deadline = time.monotonic() + 60
            while not learns(second.address):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            other.run_until(60)
            other.stop()
        assert not other.unsure_decisions
        one.decisions += other.decisions
        one.rewards |= other.rewards
        assert len({each.model for each in other.decisions}) > 1
        one.check(tmp_path)


def learns(address: str) -> bool:
    """Return whether this process makes models."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
        return "\nbdes_learning 1.0\n" in answer.read().decode()
