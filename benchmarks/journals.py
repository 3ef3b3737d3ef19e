"""How many events a journal makes durable per second, by how many are in a turn.

``python -m benchmarks.journals`` compares with bare ``sqlite3`` and ``psycopg`` that insert the
same rows into one table without an index, and commit as often. PostgreSQL, without fsync, is
measured where it is installed.
"""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import bdes_framework as bdes
from bdes_journals.rows import Counts, Turn
from benchmarks.measure import Row, absolute, best_seconds, run_benchmark
from tests.support.journals import endless
from tests.support.postgres import BINARIES, postgres

GROUPS = {1: 2.0, 30: 2.0, 200: 2.5}
"""Events in a turn, and how many times as long as the bare commit a turn may take."""

TURNS = 40
N_READ = 300_000
SECONDS_PER_MILLION = 3.0

Commit = Callable[[Sequence[Any]], object]


def prepared(start: int, size: int) -> tuple[list[list[bdes.Event]], list[list[Any]]]:
    """Return the events of some turns, and their rows."""
    stream = endless(start)
    events = [list(islice(stream, size)) for _ in range(TURNS)]
    counts = Counts(events=start, users=1, decisions=(start - 2) // 2, arms=1)
    rows = []
    for group in events:
        turn = Turn(counts)
        turn.append(group)
        rows.append(list(turn.events))
        counts = turn.after
    return events, rows


def append(journal: bdes.Journal, events: Sequence[bdes.Event]) -> None:
    with journal.turn() as turn:
        turn.append(events)


@contextmanager
def bare_sqlite(file: Path) -> Iterator[Commit]:
    insert = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE events (number INTEGER PRIMARY KEY, kind, subject, user_no, arm, chosen,"
            " model, value, time, checksum)"
        )

        def commit(rows: Sequence[Any]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows)
            connection.execute("COMMIT")

        yield commit


@contextmanager
def bare_postgres(address: str) -> Iterator[Commit]:
    import psycopg

    insert = f"INSERT INTO bare VALUES ({', '.join(['%s'] * 10)})"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE bare (number bigint PRIMARY KEY, kind smallint, subject bigint,"
            " user_no bigint, arm bigint, chosen bigint, model bigint, value float8, time float8,"
            " checksum bigint)"
        )

        def commit(rows: Sequence[Any]) -> None:
            with connection.transaction():
                connection.cursor().executemany(insert, rows)

        yield commit


def compared(kind: str, journal: bdes.Journal, commit: Commit) -> Iterator[Row]:
    """Yield a claim for each size of turns: seconds of ours against the bare commits."""
    append(journal, list(islice(endless(0), 2)))
    for size, asked in GROUPS.items():
        events, rows = prepared(journal.count(), size)
        ours, theirs = map(partial(append, journal), events), map(commit, rows)
        best = best_seconds(
            {"ours": partial(next, ours), "bare": partial(next, theirs)}, repeats=TURNS
        )
        mine, bare = (f"{size / best[name]:,.0f} a second" for name in ("ours", "bare"))
        ratio = best["ours"] / best["bare"]
        yield Row(f"{kind}, {size} events in a turn", mine, bare, ratio, asked)


def reading(journal: bdes.Journal) -> Row:
    """Return how long a million events take to be read and checked."""
    missing = N_READ - journal.count()
    append(journal, list(islice(endless(journal.count()), missing)))
    begin = time.process_time()  # nothing waits for a disk here, but for others' processes it may
    n = sum(1 for _ in journal.read())
    seconds = (time.process_time() - begin) / n * 1e6
    return absolute(
        "sqlite, a million events read, processor time", seconds, "s", SECONDS_PER_MILLION
    )


def sqlite_rows() -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as name,
        closing(bdes.load_plugins().journal("sqlite", file=Path(name) / "ours")) as journal,
        bare_sqlite(Path(name) / "bare") as commit,
    ):
        journal.create("{}")
        return [*compared("sqlite", journal, commit), reading(journal)]


def postgres_rows() -> list[Row]:
    if not BINARIES:
        return []
    with (
        postgres() as address,
        closing(bdes.load_plugins().journal("postgres", dsn=address)) as journal,
        bare_postgres(address) as commit,
    ):
        journal.create("{}")
        return list(compared("postgres (without fsync)", journal, commit))


if __name__ == "__main__":
    run_benchmark("Events made durable, the best of 40 turns", sqlite_rows, postgres_rows)
