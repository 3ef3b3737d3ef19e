"""The run database: one SQLite file, one transaction a cell, safe against being killed.

Results, durations and the plan of a run live in tables of their own; a cell is all there or
not at all. Nothing here knows what is above it.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import one_line, quoted
from bdes_framework.errors import StoreError
from bdes_framework.experiment.cell import Cell, CellResult
from bdes_framework.interfaces import Benchmark

SCHEMA_VERSION = 1
DATABASE = "results.sqlite"
LOCK = "lock.sqlite"

_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE cells (
    key TEXT PRIMARY KEY, rewards BLOB NOT NULL, means BLOB NOT NULL, states BLOB NOT NULL,
    counts BLOB NOT NULL, basis TEXT NOT NULL, diagnostics TEXT NOT NULL, error TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
CREATE TABLE plan (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL, environment TEXT NOT NULL,
    policy TEXT NOT NULL, horizon INTEGER NOT NULL, replication INTEGER NOT NULL
) STRICT;
CREATE TABLE checkpoints (horizon INTEGER PRIMARY KEY, rounds BLOB NOT NULL) STRICT;
CREATE TABLE benchmarks (
    key TEXT PRIMARY KEY, totals BLOB NOT NULL, upper_bound REAL NOT NULL, error TEXT NOT NULL
) STRICT;
CREATE TABLE timings (key TEXT PRIMARY KEY, seconds REAL NOT NULL, finished TEXT NOT NULL) STRICT;
"""


@frozen
class PlannedCell:
    """A line of a run's plan: which cell stands where."""

    key: str
    environment: str
    policy: str
    horizon: int
    replication: int


class Store:
    """An open run database. Use :func:`open_store`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    # -- writing ----------------------------------------------------------------------------

    def set_plan(self, cells: Sequence[Cell]) -> None:
        """Replace the plan: what this run consists of, in order."""
        rows = [
            (i, c.key, c.environment.label, c.policy.label, c.horizon, c.replication)
            for i, c in enumerate(cells)
        ]
        with self._transaction():
            self._connection.execute("DELETE FROM plan")
            self._connection.executemany("INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?)", rows)

    def set_checkpoints(self, horizon: int, rounds: IntArray) -> None:
        """Note at which rounds the curves of one horizon were taken."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", (horizon, rounds.tobytes())
            )

    def set_meta(self, name: str, value: str) -> None:
        """Note something about the run itself."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def save(self, result: CellResult) -> None:
        """Save a cell in one transaction; once this returns, no kill can lose it."""
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        blobs = (result.rewards, result.means, result.states, result.counts)
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    result.key,
                    *(np.ascontiguousarray(blob).tobytes() for blob in blobs),
                    result.basis,
                    result.diagnostics,
                    result.error,
                    result.details,
                ),
            )
            self._connection.execute(
                "INSERT OR REPLACE INTO timings VALUES (?, ?, ?)",
                (result.key, result.seconds, finished),
            )

    def save_benchmark(self, key: str, benchmark: Benchmark | None, error: str = "") -> None:
        """Save a benchmark, or that there is none, or why it failed."""
        values = np.empty(0) if benchmark is None else benchmark.values
        bound = 0.0 if benchmark is None else benchmark.upper_bound
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO benchmarks VALUES (?, ?, ?, ?)",
                (key, values.tobytes(), bound, error),
            )

    # -- reading ----------------------------------------------------------------------------

    def finished(self, *, failed: bool) -> set[str]:
        """Return the keys of the cells that failed, or of those that did not."""
        condition = "error != ''" if failed else "error = ''"
        return {key for (key,) in self._rows(f"SELECT key FROM cells WHERE {condition}")}  # noqa: S608

    def plan(self) -> list[PlannedCell]:
        """Return what the run consists of, in order."""
        columns = "key, environment, policy, horizon, replication"
        rows = self._rows(f"SELECT {columns} FROM plan ORDER BY position")  # noqa: S608
        return [PlannedCell(*row) for row in rows]

    def result(self, key: str) -> CellResult | None:
        """Return a saved cell, or None if it is not there yet."""
        for row in self._rows(
            "SELECT c.*, t.seconds FROM cells c JOIN timings t USING (key) WHERE key = ?", (key,)
        ):
            rewards, means, states = (np.frombuffer(blob) for blob in row[1:4])
            counts = np.frombuffer(row[4], dtype=np.int64)
            return CellResult(row[0], rewards, means, states, counts, *row[5:])
        return None

    def checkpoints(self, horizon: int) -> IntArray:
        """Return the rounds at which the curves of one horizon were taken."""
        rows = self._rows("SELECT rounds FROM checkpoints WHERE horizon = ?", (horizon,))
        return np.frombuffer(next(iter(rows))[0], dtype=np.int64)

    def benchmark(self, key: str) -> tuple[FloatArray, float, str] | None:
        """Return a benchmark's totals, upper bound and error, or None if it is not there yet."""
        for totals, bound, error in self._rows(
            "SELECT totals, upper_bound, error FROM benchmarks WHERE key = ?", (key,)
        ):
            return np.frombuffer(totals), bound, error
        return None

    def bases(self) -> dict[str, str]:
        """Return what each finished cell's benchmark is computed from, by the cell's key."""
        return dict(self._rows("SELECT key, basis FROM cells WHERE error = ''"))

    def benchmark_errors(self) -> list[str]:
        """Return why benchmarks could not be computed, each reason once."""
        return [error for (error,) in self._rows(
            "SELECT DISTINCT error FROM benchmarks WHERE error != '' ORDER BY error"
        )]  # fmt: skip

    def meta(self, name: str) -> str | None:
        """Return something noted about the run."""
        for (value,) in self._rows("SELECT value FROM meta WHERE name = ?", (name,)):
            return str(value)
        return None

    def dump(self) -> Iterator[tuple[object, ...]]:
        """Yield every result in order, durations and dates left out: equal runs, equal dumps."""
        yield from self._rows("SELECT * FROM cells ORDER BY key")
        yield from self._rows("SELECT * FROM benchmarks ORDER BY key")

    def close(self) -> None:
        """Close the file; what was saved stays."""
        self._connection.close()

    # -- errors -----------------------------------------------------------------------------

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with _explained(self._path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _explained(self._path), self._connection:
            yield


def benchmark_key(basis: str, horizon: int) -> str:
    """Return under which key the benchmark of a cell is kept."""
    return f"{basis}-{horizon}"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ones that say what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "full" in text:
            advice = "the disk is full; what was saved is safe, free some space and run again"
        elif "malformed" in text or "not a database" in text:
            advice = "it is damaged; it was left as it is, use another --out"
        elif "readonly" in text or "unable to open" in text:
            advice = "it cannot be written here"
        else:
            advice = one_line(text)
        raise StoreError(f"{quoted(str(path), 200)}: {advice}") from error


def open_store(folder: Path, *, create: bool) -> Store:
    """Open a run's database; refuse a damaged one, and one of a newer version."""
    path = folder / DATABASE
    if not create and not path.is_file():
        raise StoreError(f"{quoted(str(folder), 200)} is no run: it has no {DATABASE}")
    with _explained(path):
        connection = sqlite3.connect(path, isolation_level="IMMEDIATE", timeout=10)
        store = Store(connection, path)
        if create:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if check != "ok":
            raise sqlite3.DatabaseError(f"malformed: {check}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{quoted(str(path), 200)} was written by a newer bdes-framework (format"
                f" {version}, this one knows {SCHEMA_VERSION}): upgrade to read it"
            )
        if version == 0:
            if not create:
                raise StoreError(f"{quoted(str(path), 200)} holds no run")
            with connection:
                connection.executescript(
                    f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
                )
    return store


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run's folder for this process; a second one is refused, a killed one lets go."""
    with _explained(folder / LOCK):
        connection = sqlite3.connect(folder / LOCK, isolation_level=None, timeout=0)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            connection.close()
            if "locked" not in str(error):
                raise
            raise StoreError(
                f"{quoted(str(folder), 200)} is in use by another process; wait for it, or use"
                " another --out"
            ) from None
    try:
        yield
    finally:
        connection.close()
