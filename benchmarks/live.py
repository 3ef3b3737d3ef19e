"""The live service beside an empty endpoint with the same commits: rate, waiting, start, memory.

``python -m benchmarks.live``: both serve on this machine, and so does what loads them; turns
alternate, so that noise hits both alike, and the best turn of each counts.
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bdes_framework as bdes
from bdes_framework.live import Client
from bdes_framework.live.config import load_live
from benchmarks.live_load import Measured, decide_request, load
from benchmarks.measure import Row, absolute, run_benchmark

TURNS = 5
SECONDS = 4.0
CONNECTIONS = 64
USERS = 20_000
EVENTS = 1_000_000
RATE = 200.0
"""Requests a second while a model is made."""
LIVE = """
name = "benchmark"
arms = ["clip", "essay", "poll", "quiz", "story"]
visits_per_user = 50
default_reward = "none"
seed = 1
"""
SERVE = [sys.executable, "-c", "from bdes_framework.cli import main; main()", "live", "serve"]


def requests(seed: int) -> Iterator[bytes]:
    """Yield requests to decide for users at random."""
    rng = random.Random(seed)
    while True:
        yield decide_request(f"user {rng.randrange(USERS)}")


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


@contextmanager
def process(*command: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the end of the block; its log goes nowhere."""
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **settings})
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


def wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return


def wait_until_ready(port: int) -> None:
    with Client(f"http://127.0.0.1:{port}", retries=0) as client:
        while not client.is_ready():
            time.sleep(0.02)


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[tuple[int, int]]:
    """Serve a folder; yield port and process number once it decides."""
    port = free_port()
    with process(*SERVE, str(folder), "--port", str(port), **settings) as started:
        wait_until_ready(port)
        yield port, started.pid


def new_shop(folder: Path) -> Path:
    (folder / "live.toml").write_text(LIVE, encoding="utf-8")
    return folder


def rate_rows() -> list[Row]:
    """Return rate and waiting at half of it, over those of the empty endpoint."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "shop").mkdir()
        empty = free_port()
        command = (sys.executable, "-m", "benchmarks.live_empty", str(empty), str(folder))
        stack.enter_context(process(*command))
        wait_for(empty)
        live, _ = stack.enter_context(served(new_shop(folder / "shop")))
        full: dict[int, list[Measured]] = {empty: [], live: []}
        half: dict[int, list[Measured]] = {empty: [], live: []}
        for turn in range(TURNS):
            for port in full:
                full[port].append(_loaded(port, turn))
        rates = {port: max(each.rate for each in full[port]) for port in full}
        for turn in range(TURNS):
            for port in half:
                half[port].append(_loaded(port, turn, rates[port] / 2))
    late = {port: min(each.quantile(0.99) for each in half[port]) for port in half}
    ours, theirs = (f"{rates[port]:,.0f}" for port in (live, empty))
    claim = "decisions a second, over requests of an empty endpoint"
    return [
        Row(claim, ours, theirs, rates[live] / rates[empty], 0.5, at_least=True),
        Row(
            "p99 at half of each's rate, over the same",
            f"{late[live] * 1e3:.1f} ms",
            f"{late[empty] * 1e3:.1f} ms",
            late[live] / late[empty],
            3,
        ),
    ]


def _loaded(port: int, turn: int, rate: float | None = None) -> Measured:
    found = load(port, requests(turn), seconds=SECONDS, connections=CONNECTIONS, rate=rate)
    assert not found.failed
    return found


def refit_rows() -> list[Row]:
    """Return the waiting while a model is made of 10^6 events, over that when none is.

    First after a restart, when all events are read; then while the service runs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = new_shop(Path(name))
        with bdes.open_live(folder) as session:
            session.wait_until_ready()
        _fill(folder, EVENTS // 2)
        with served(folder) as (port, _):
            restarted = _until_next_model(port)
            _add(port, EVENTS // 2 // 10)
            running = _until_next_model(port, len(restarted))
            calm: list[float] = []
            while len(calm) < len(restarted):
                calm += load(port, requests(2), seconds=1.0, rate=RATE).seconds
    after = Measured(RATE, calm, 0).quantile(0.999)
    rows = []
    for what, seconds in (("read again and learned from", restarted), ("learned from", running)):
        busy = Measured(RATE, seconds, 0).quantile(0.999)
        took = len(seconds) / RATE
        rows.append(
            Row(
                f"p99.9 of {took:.0f} s in which {EVENTS:,} events are {what}, over that after",
                f"{busy * 1e3:.1f} ms",
                f"{after * 1e3:.1f} ms",
                busy / after,
                2,
            )
        )
    return rows


def _until_next_model(port: int, least: int = 0) -> list[float]:
    """Return how long requests wait until the next model decides, and at least so many did."""
    waited: list[float] = []
    first = _model(port)
    while _model(port) == first or len(waited) < least:
        waited += load(port, requests(1), seconds=1.0, rate=RATE).seconds
    return waited


def _add(port: int, n: int) -> None:
    """Let n more decisions and their rewards happen, so that a model is due."""
    with Client(f"http://127.0.0.1:{port}", timeout=120) as client:
        for first in range(0, n, 1_000):
            users = [f"user {i}" for i in range(first, min(first + 1_000, n))]
            client.reward_many([(each.id, 0.0) for each in client.decide_many(users)])


def _model(port: int) -> int:
    """Return the model that decides now."""
    with Client(f"http://127.0.0.1:{port}") as client:
        return client.decide("whoever looks").model


def _fill(folder: Path, n: int) -> None:
    """Let n decisions and their rewards have happened, of which no model has been made."""
    setup, rng = load_live(folder), random.Random(1)
    journal = setup.plugins.journal(setup.journal)
    journal.open()
    now = time.time()
    for first in range(0, n, 1_000):
        with journal.turn() as turn:
            events: list[bdes.Event] = []
            for i in range(first, first + 1_000):
                user = i if i < USERS else rng.randrange(USERS)
                if i < USERS:
                    events.append(bdes.NewUser(i, f"user {i}"))
                arm = rng.randrange(5)
                events.append(bdes.Decided(i, user, arm, arm, 0.2, 0, now))
                events.append(bdes.Rewarded(i, float(rng.random() < 0.2 * arm / 5 + 0.1), now))
            turn.append(events)
    journal.close()


def start_rows() -> list[Row]:
    """Return how long it takes until the first decision is answered.

    Modules are compiled to bytecode, as pip does when it installs them: the cold start does it.
    """
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = new_shop(Path(name))
        with bdes.open_live(folder) as session:
            session.wait_until_ready()
        (folder / "cache").mkdir()
        cold = {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
        cold["PYTHONPYCACHEPREFIX"] = str(folder / "cache")
        for claim, settings, asked in (
            ("first answer after the start, cold compile cache", cold, 20),
            ("the same, warm", cold, 2),
        ):
            begin = time.perf_counter()
            with served(folder, **settings) as (port, _):
                _model(port)
                rows.append(absolute(claim, time.perf_counter() - begin, "s", asked))
    return rows


def memory_rows() -> list[Row]:
    """Return how much the process grows, over what users and decisions may take."""
    users, visits = 20_000, 50
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, pid = stack.enter_context(served(new_shop(folder)))
        client = stack.enter_context(Client(f"http://127.0.0.1:{port}", timeout=120))
        _decide(client, -users // 10, 0)  # others, so that all that is used once is there
        start = _bytes(pid)
        for _ in range(visits):
            _decide(client, 0, users)
        grown = _bytes(pid) - start
        disk = (folder / "journal.sqlite").stat().st_size / (users * visits)
    allowed = users * (200 + visits * 32)
    claim = f"memory of {users:,} users and {users * visits:,} decisions, over 200 B and 32 B each"
    ours, against = f"{grown / 1e6:.1f} MB", f"{allowed / 1e6:.1f} MB"
    return [
        Row(claim, ours, against, grown / allowed, 1),
        absolute("disk of a decision without its reward", disk, "bytes", 200),
    ]


def _decide(client: Client, first: int, end: int) -> None:
    for start in range(first, end, 1_000):
        client.decide_many([f"user {i}" for i in range(start, min(start + 1_000, end))])


def _bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1_024


if __name__ == "__main__":
    run_benchmark("The live service", rate_rows, refit_rows, start_rows, memory_rows)
