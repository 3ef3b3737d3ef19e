"""Processes that are killed while they append, and servers: no turn is lost, doubled or halved."""

import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import bdes_framework as bdes
from tests.support.journals import append_endlessly, appending, check_events, heard
from tests.support.postgres import PostgresServer

PLUGINS = bdes.load_plugins()

KILLS = [
    pytest.param(2, id="2"),
    pytest.param(20, id="20", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("n", KILLS)
def test_killed_writers_of_sqlite_lose_nothing(tmp_path: Path, n: int) -> None:
    rng = Random(n)
    given = {"file": tmp_path / "journal.sqlite"}
    with closing(PLUGINS.journal("sqlite", **given)) as journal:
        journal.create("{}")
        said: list[tuple[int, int]] = []
        for _ in range(n):
            with appending("sqlite", given) as (process, pipe):
                assert pipe.poll(60)
                time.sleep(rng.random() * 0.3)
                process.kill()
                process.join()
                said += heard(pipe)
            check_events(journal, said)
        assert len(said) > n


@pytest.mark.parametrize("n", KILLS)
def test_killed_server_loses_nothing(server: PostgresServer, n: int) -> None:
    rng = Random(n)
    given = {"dsn": server.address, "schema": f"killed_{n}"}
    journal = PLUGINS.journal("postgres", **given)
    journal.create("{}")
    journal.close()
    said: list[tuple[int, int]] = []
    # Two at once: what one appends between the turns of the other counts, too.
    with appending("postgres", given) as left, appending("postgres", given) as right:
        (_, one), (_, two) = left, right
        for _ in range(n):
            assert one.poll(60)
            assert two.poll(60)
            time.sleep(rng.random() * 0.3)
            server.kill()
            said += heard(one) + heard(two)
            server.start()
        for process, pipe in (left, right):
            said += [pipe.recv()] if pipe.poll(60) else []
            assert process.is_alive()
            process.kill()
            process.join()
            said += heard(pipe)
    with closing(PLUGINS.journal("postgres", **given)) as journal:
        journal.open()
        check_events(journal, sorted(said))
    assert len(said) > 2 * n


@pytest.mark.parametrize("n", KILLS)
def test_killed_writers_of_postgres_lose_nothing(server: PostgresServer, n: int) -> None:
    rng = Random(n)
    given = {"dsn": server.address, "schema": f"writers_{n}"}
    with closing(PLUGINS.journal("postgres", **given)) as journal:
        journal.create("{}")
        said: list[tuple[int, int]] = []
        for _ in range(n):
            with appending("postgres", given) as (process, pipe):
                assert pipe.poll(60)
                time.sleep(rng.random() * 0.3)
                process.kill()
                process.join()
                said += heard(pipe)
            check_events(journal, said)
        assert len(said) > n


def test_appending_ends_with_an_error_that_stays() -> None:
    with pytest.raises(bdes.JournalError, match="there is no journal"):
        append_endlessly("sqlite", {"file": Path("nowhere")}, None)  # type: ignore[arg-type]
