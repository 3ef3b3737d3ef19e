"""The run database: one SQLite file, one transaction per cell, safe against being killed."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.files import check_no_link
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
    """A row of a run's plan: the key and the place of one cell."""

    key: str
    environment: str
    policy: str
    horizon: int
    replication: int


class Store:
    """An open run database, made by :func:`open_store`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def set_plan(self, cells: Sequence[Cell]) -> None:
        """Replace the plan: the cells of the run, in order."""
        rows = [
            (i, c.key, c.environment.label, c.policy.label, c.horizon, c.replication)
            for i, c in enumerate(cells)
        ]
        with self._transaction():
            self._connection.execute("DELETE FROM plan")
            self._connection.executemany("INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?)", rows)

    def set_checkpoints(self, horizon: int, rounds: IntArray) -> None:
        """Save the rounds at which the curves of one horizon are recorded."""
        with self._transaction():
            self._insert("checkpoints", horizon, rounds.tobytes())

    def set_meta(self, name: str, value: str) -> None:
        """Save a property of the run itself."""
        with self._transaction():
            self._insert("meta", name, value)

    def save(self, result: CellResult) -> None:
        """Save a cell in one transaction; once this returns, no kill can lose it."""
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        arrays = (result.rewards, result.means, result.states, result.counts)
        blobs = (np.ascontiguousarray(array).tobytes() for array in arrays)
        texts = (result.basis, result.diagnostics, result.error, result.details)
        with self._transaction():
            self._insert("cells", result.key, *blobs, *texts)
            self._insert("timings", result.key, result.seconds, finished)

    def save_benchmark(self, key: str, benchmark: Benchmark | None, error: str = "") -> None:
        """Save a benchmark, or that there is none, or why it failed."""
        values = np.empty(0) if benchmark is None else benchmark.values
        bound = 0.0 if benchmark is None else benchmark.upper_bound
        with self._transaction():
            self._insert("benchmarks", key, values.tobytes(), bound, error)

    def finished(self, *, failed: bool) -> set[str]:
        """Return the keys of the cells that failed, or of those that did not."""
        rows = self._rows("SELECT key FROM cells WHERE (error != '') = ?", failed)
        return {key for (key,) in rows}

    def plan(self) -> list[PlannedCell]:
        """Return the cells of the run, in order."""
        query = "SELECT key, environment, policy, horizon, replication FROM plan ORDER BY position"
        return [PlannedCell(*row) for row in self._rows(query)]

    def result(self, key: str) -> CellResult | None:
        """Return a saved cell; None if it is not finished."""
        query = "SELECT c.*, t.seconds FROM cells c JOIN timings t USING (key) WHERE key = ?"
        for row in self._rows(query, key):
            rewards, means, states = (np.frombuffer(blob) for blob in row[1:4])
            counts = np.frombuffer(row[4], dtype=np.int64)
            return CellResult(row[0], rewards, means, states, counts, *row[5:])
        return None

    def checkpoints(self, horizon: int) -> IntArray:
        """Return the rounds at which the curves of one horizon are recorded."""
        ((rounds,),) = self._rows("SELECT rounds FROM checkpoints WHERE horizon = ?", horizon)
        return np.frombuffer(rounds, dtype=np.int64)

    def benchmark(self, key: str) -> tuple[FloatArray, float, str] | None:
        """Return a benchmark's totals, upper bound and error; None if it is not planned."""
        query = "SELECT totals, upper_bound, error FROM benchmarks WHERE key = ?"
        for totals, bound, error in self._rows(query, key):
            return np.frombuffer(totals), bound, error
        return None

    def bases(self) -> dict[str, str]:
        """Return the basis of each finished cell's benchmark, by the cell's key."""
        return dict(self._rows("SELECT key, basis FROM cells WHERE error = ''"))

    def benchmark_errors(self) -> list[str]:
        """Return the errors of benchmarks, each once."""
        query = "SELECT DISTINCT error FROM benchmarks WHERE error != '' ORDER BY error"
        return [error for (error,) in self._rows(query)]

    def meta(self, name: str) -> str | None:
        """Return a property of the run itself; None if it is not set."""
        for (value,) in self._rows("SELECT value FROM meta WHERE name = ?", name):
            return str(value)
        return None

    def dump(self) -> Iterator[tuple[object, ...]]:
        """Yield every result in order, without durations and dates: equal for equal runs."""
        yield from self._rows("SELECT * FROM cells ORDER BY key")
        yield from self._rows("SELECT * FROM benchmarks ORDER BY key")

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _insert(self, table: str, *values: object) -> None:
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)  # noqa: S608

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with _store_errors(self._path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _store_errors(self._path), self._connection:
            yield
            if not self._path.exists():  # SQLite would go on writing into nothing
                raise StoreError(
                    f"{quoted(str(self._path), 200)} was deleted while the run was going on"
                )


def benchmark_key(basis: str, horizon: int) -> str:
    """Return the key of a cell's benchmark."""
    return f"{basis}-{horizon}"


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreErrors that say what to do."""
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
    """Open a run's database; raise StoreError if it is damaged or of a newer version."""
    path = folder / DATABASE
    for name in (DATABASE, *(f"{DATABASE}-{part}" for part in ("wal", "shm", "journal"))):
        check_no_link(folder / name)
    if not create and not path.is_file():
        raise StoreError(f"{quoted(str(folder), 200)} is not a run: it has no {DATABASE}")
    with _store_errors(path):
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
    """Lock a run's folder for this process; raise StoreError if another process has it."""
    check_no_link(folder / LOCK)
    with _store_errors(folder / LOCK):
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
