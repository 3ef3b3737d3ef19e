"""The run database: one SQLite file, one transaction per cell, safe against being killed."""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.files import parse_json
from bdes_framework._internal.text import quoted
from bdes_framework.errors import StoreError
from bdes_framework.experiment.cell import Cell, CellResult, UserCurves
from bdes_framework.experiment.config import MAX_HORIZON
from bdes_framework.experiment.database import (
    DamagedError,
    check_files,
    checksum,
    connect_to_read,
    connect_to_write,
    database_errors,
    stop_long_queries,
)
from bdes_framework.interfaces import Benchmark
from bdes_framework.simulation.crowd_benchmark import CrowdBenchmark

DATABASE = "results.sqlite"
LOCK = "lock.sqlite"

_FIRST_TABLES = """
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

# The last column of every table is the checksum of the others, see Store._insert.
_TABLES = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL
) STRICT;
CREATE TABLE cells (
    key TEXT PRIMARY KEY, rewards BLOB NOT NULL, means BLOB NOT NULL, states BLOB NOT NULL,
    counts BLOB NOT NULL, basis TEXT NOT NULL, diagnostics TEXT NOT NULL, error TEXT NOT NULL,
    details TEXT NOT NULL, checksum BLOB NOT NULL
) STRICT;
CREATE TABLE plan (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL, environment TEXT NOT NULL,
    policy TEXT NOT NULL, horizon INTEGER NOT NULL, replication INTEGER NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoints (
    horizon INTEGER PRIMARY KEY, rounds BLOB NOT NULL, checksum BLOB NOT NULL
) STRICT;
CREATE TABLE benchmarks (
    key TEXT PRIMARY KEY, totals BLOB NOT NULL, upper_bound REAL NOT NULL, error TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE timings (
    key TEXT PRIMARY KEY, seconds REAL NOT NULL, finished TEXT NOT NULL, checksum BLOB NOT NULL
) STRICT;
CREATE TABLE code (
    hash TEXT PRIMARY KEY, versions TEXT NOT NULL, checksum BLOB NOT NULL
) STRICT;
CREATE TABLE provenance (
    key TEXT PRIMARY KEY, spec TEXT NOT NULL, code TEXT NOT NULL, checksum BLOB NOT NULL
) STRICT;
"""

# Of many users: curves over users, of cells and of benchmarks, and the gap of a benchmark's table.
_USER_TABLES = """
CREATE TABLE user_curves (
    key TEXT PRIMARY KEY, users BLOB NOT NULL, rewards BLOB NOT NULL, means BLOB NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE user_benchmarks (
    key TEXT PRIMARY KEY, users BLOB NOT NULL, totals BLOB NOT NULL, visits INTEGER NOT NULL,
    table_gap REAL NOT NULL, checksum BLOB NOT NULL
) STRICT;
"""

_FORMATS = {1: _FIRST_TABLES, 2: _TABLES, 3: _TABLES + _USER_TABLES}
"""The tables of every format that can be read, by its version; the last one is written."""

_KINDS = {
    "meta": "property",
    "cells": "cell",
    "plan": "planned cell",
    "checkpoints": "checkpoints of horizon",
    "benchmarks": "benchmark",
    "timings": "duration of cell",
    "code": "versions of code",
    "provenance": "code of cell",
    "user_curves": "users of cell",
    "user_benchmarks": "users of benchmark",
}
"""What a row of each table is called in messages."""

_LIMIT = 1e100
"""Sums of rewards beyond this are damage: they would overflow when squared."""


_OF_USERS = ("user_curves", "user_benchmarks")
_WITHOUT_USERS = 2
"""The last format without tables of users."""


@frozen
class UserBenchmark:
    """What a stored benchmark of many users has besides its curve over visits.

    Parameters
    ----------
    users : IntArray, shape (d,)
        Numbers of users, increasing; the last is the number of all.
    totals : FloatArray, shape (d,)
        Expected reward of the plan from the first so many users.
    visits : int
        Number of visits.
    table_gap : float
        The gap of the decision table that is followed.
    """

    users: IntArray
    totals: FloatArray
    visits: int
    table_gap: float


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

    def __init__(self, connection: sqlite3.Connection, version: int, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._version = version

    @property
    def has_checksums(self) -> bool:
        """Whether every row has a checksum: rows of the first format have none."""
        return self._version > 1

    @property
    def _tables(self) -> list[str]:
        return [name for name in _KINDS if self._version > _WITHOUT_USERS or name not in _OF_USERS]

    def _user_rows(self, table: str, key: str) -> Iterator[tuple[Any, ...]]:
        """Yield the row of a table of users, if there is one; older formats have no such tables."""
        if self._version > _WITHOUT_USERS:
            yield from self._checked_rows(table, "WHERE key = ?", key)

    def set_plan(self, cells: Sequence[Cell]) -> None:
        """Replace the plan: the cells of the run, in order, and the code that each is made by."""
        # Replications share the mapping of their code.
        texts = {id(c.code): json.dumps(dict(c.code), sort_keys=True) for c in cells}
        hashes = {of: hashlib.sha256(text.encode()).hexdigest() for of, text in texts.items()}
        with self._transaction():
            self._connection.execute("DELETE FROM plan")
            for of, text in texts.items():
                self._insert("code", hashes[of], text)
            for i, c in enumerate(cells):
                labels = c.environment.label, c.policy.label
                self._insert("plan", i, c.key, *labels, c.horizon, c.replication)
                self._insert("provenance", c.key, c.spec, hashes[id(c.code)])

    def set_benchmark_key(self, key: str) -> None:
        """Say what decides benchmarks besides the instance; others than these are forgotten."""
        if self.meta("benchmark") != key:
            with self._transaction():
                self._connection.execute("DELETE FROM benchmarks")
                self._connection.execute("DELETE FROM user_benchmarks")
                self._insert("meta", "benchmark", key)

    def copy_cells(self, other: "Store", keys: Collection[str]) -> None:
        """Copy finished cells of another run, in one transaction."""
        with self._transaction():
            for key in keys:
                result = other.result(key)
                if result is None:  # its index, which is not checked, has lost it
                    raise other._damaged("cells", key)
                self._insert_cell(result)

    def copy_benchmarks(self, other: "Store") -> None:
        """Copy benchmarks that did not fail from another run that plans them alike."""
        if self.meta("benchmark") != other.meta("benchmark"):
            return
        known = {key for (key,) in self._rows("SELECT key FROM benchmarks")}
        with self._transaction():
            for key, *values in other._checked_rows("benchmarks", "WHERE error = ''"):
                if key not in known:
                    self._insert("benchmarks", key, *values)
                    for row in other._user_rows("user_benchmarks", key):
                        self._insert("user_benchmarks", *row)

    def forget_unplanned(self) -> None:
        """Delete cells and benchmarks that the plan has no longer: of other code, say."""
        with self._transaction():
            for table in ("cells", "timings", "provenance", "user_curves"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE key NOT IN (SELECT key FROM plan)"  # noqa: S608
                )
            for table in ("benchmarks", "user_benchmarks"):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE key NOT IN"  # noqa: S608
                    " (SELECT basis || '-' || horizon FROM plan JOIN cells USING (key))"
                )
            self._connection.execute(
                "DELETE FROM code WHERE hash NOT IN (SELECT code FROM provenance)"
            )

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
        with self._transaction():
            self._insert_cell(result)

    def _insert_cell(self, result: CellResult) -> None:
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        arrays = (result.rewards, result.means, result.states, result.counts)
        blobs = (np.ascontiguousarray(array).tobytes() for array in arrays)
        texts = (result.basis, result.diagnostics, result.error, result.details)
        self._insert("cells", result.key, *blobs, *texts)
        self._insert("timings", result.key, float(result.seconds), finished)
        if result.user_curves is not None:
            curves = result.user_curves
            blobs = (array.tobytes() for array in (curves.users, curves.rewards, curves.means))
            self._insert("user_curves", result.key, *blobs)

    def save_benchmark(
        self, key: str, benchmark: Benchmark | CrowdBenchmark | None, error: str = ""
    ) -> None:
        """Save a benchmark, or that there is none, or why it failed."""
        values = np.empty(0) if benchmark is None else np.asarray(benchmark.values, dtype=float)
        bound = 0.0 if benchmark is None else float(benchmark.upper_bound)
        with self._transaction():
            self._insert("benchmarks", key, values.tobytes(), bound, error)
            if isinstance(benchmark, CrowdBenchmark):
                curve = benchmark.user_checkpoints.tobytes(), benchmark.user_values.tobytes()
                gap = float(benchmark.table.gap)
                self._insert("user_benchmarks", key, *curve, benchmark.visits, gap)

    def delete_damaged(self) -> int:
        """Delete damaged rows; cells and benchmarks are then made anew. Return how many."""
        n = 0
        for table in self._tables:
            found = [rowid for rowid, _, is_sound in self._all_rows(table) if not is_sound]
            n += len(found)
            with self._transaction():
                for rowid in found:
                    self._connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608
        return n

    def finished(self, *, failed: bool) -> set[str]:
        """Return the keys of the cells that failed, or of those that did not."""
        rows = self._rows("SELECT key FROM cells WHERE (error != '') = ?", failed)
        return {key for (key,) in rows}

    def with_users(self) -> set[str]:
        """Return the keys of the cells that have curves over users."""
        return {key for (key,) in self._rows("SELECT key FROM user_curves")}

    def _versions(self, hashed: object, text: str) -> dict[str, str]:
        try:
            found = parse_json(text)
        except ValueError:
            found = {"": None}
        versions = {name: version for name, version in found.items() if isinstance(version, str)}
        self._require(len(versions) == len(found), "code", hashed)
        return versions

    def code_of_specs(self) -> dict[str, dict[str, str]]:
        """Return the names and versions of the code that finished cells were made by, by spec."""
        codes = {
            hashed: self._versions(hashed, text) for hashed, text in self._checked_rows("code", "")
        }
        query = "SELECT spec, code FROM provenance JOIN cells USING (key)"
        return {spec: codes.get(code, {}) for spec, code in self._rows(query)}

    def plan(self) -> list[PlannedCell]:
        """Return the cells of the run, in order."""
        rows = self._checked_rows("plan", "ORDER BY position")
        return [self._planned(*values) for _, *values in rows]

    def _planned(self, key: str, *place: Any) -> PlannedCell:
        environment, policy, horizon, replication = place
        self._require(
            all(isinstance(text, str) for text in (key, environment, policy))
            and isinstance(horizon, int)
            and 1 <= horizon <= MAX_HORIZON
            and isinstance(replication, int)
            and replication >= 0,
            "plan",
            key,
        )
        return PlannedCell(key, environment, policy, horizon, replication)

    def result(self, key: str) -> CellResult | None:
        """Return a saved cell; None if it is not finished."""
        for row in self._checked_rows("cells", "WHERE key = ?", key):
            rewards, means, states = (self._floats(blob, "cells", key) for blob in row[1:4])
            counts = self._integers(row[4], "cells", key)
            basis, diagnostics, error, details = texts = row[5:9]
            ((seconds,),) = self._rows("SELECT SUM(seconds) FROM timings WHERE key = ?", key)
            self._require(
                all(isinstance(text, str) for text in texts)
                and rewards.size == means.size
                and states.size in (0, means.size)
                and all(map(_is_usable, (rewards, means, states)))
                and bool(error or (means.size and counts.size)),
                "cells",
                key,
            )
            seconds = seconds if isinstance(seconds, float) else 0.0
            arrays = rewards, means, states, counts
            texts = basis, diagnostics, error, details
            users = None if error else self._user_curves(key)
            return CellResult(key, *arrays, *texts, seconds, users)
        return None

    def _user_curves(self, key: str) -> UserCurves | None:
        for _, users, rewards, means in self._user_rows("user_curves", key):
            numbers = self._users(users, "user_curves", key)
            curves = (self._floats(blob, "user_curves", key) for blob in (rewards, means))
            found = UserCurves(numbers, *curves)
            sound = all(
                c.size == numbers.size and _is_usable(c) for c in (found.rewards, found.means)
            )
            self._require(sound, "user_curves", key)
            return found
        return None

    def user_benchmark(self, key: str) -> UserBenchmark | None:
        """Return what a benchmark of many users has besides its curve; None for one audience."""
        for _, users, totals, visits, gap in self._user_rows("user_benchmarks", key):
            numbers = self._users(users, "user_benchmarks", key)
            values = self._floats(totals, "user_benchmarks", key)
            sound = values.size == numbers.size and _is_usable(values)
            typed = isinstance(visits, int) and isinstance(gap, float)
            self._require(sound and typed and visits >= numbers[-1], "user_benchmarks", key)
            return UserBenchmark(numbers, values, visits, gap)
        return None

    def _users(self, blob: object, table: str, key: str) -> IntArray:
        """Return numbers of users: at least one, rising from at least 1."""
        numbers = self._integers(blob, table, key)
        sound = numbers.size > 0 and numbers[0] > 0 and bool((np.diff(numbers) > 0).all())
        self._require(sound, table, key)
        return numbers

    def checkpoints(self, horizon: int) -> IntArray:
        """Return the rounds at which the curves of one horizon are recorded."""
        rounds = np.empty(0, dtype=np.int64)
        for _, blob in self._checked_rows("checkpoints", "WHERE horizon = ?", horizon):
            rounds = self._integers(blob, "checkpoints", horizon)
        self._require(
            rounds.size > 0 and rounds[-1] == horizon and bool((np.diff(rounds) > 0).all()),
            "checkpoints",
            horizon,
        )
        return rounds

    def benchmark(self, key: str) -> tuple[FloatArray, float, str] | None:
        """Return a benchmark's totals, upper bound and error; None if it is not planned."""
        for _, blob, bound, error in self._checked_rows("benchmarks", "WHERE key = ?", key):
            self._require(isinstance(bound, float) and isinstance(error, str), "benchmarks", key)
            totals = self._floats(blob, "benchmarks", key)
            if not _is_usable(totals) or not bound >= 0:  # a plugin's, of a time without checks
                return np.empty(0), 0.0, "its numbers are not finite"
            return totals, bound, error
        return None

    def bases(self) -> dict[str, str]:
        """Return the basis of each finished cell's benchmark, by the cell's key."""
        return dict(self._rows("SELECT key, basis FROM cells WHERE error = ''"))

    def total_means(self) -> dict[str, tuple[str, float]]:
        """Return the basis and the expected total reward of each cell that did not fail, by key."""
        query = "SELECT key, basis, substr(means, -8) FROM cells WHERE error = ''"
        return {key: (basis, float(np.frombuffer(m)[0])) for key, basis, m in self._rows(query)}

    def benchmark_errors(self) -> list[str]:
        """Return the errors of benchmarks, each once."""
        rows = self._checked_rows("benchmarks", "WHERE error != ''")
        return sorted({str(error) for *_, error in rows})

    def meta(self, name: str) -> str | None:
        """Return a property of the run itself; None if it is not set."""
        for _, value in self._checked_rows("meta", "WHERE name = ?", name):
            return str(value)
        return None

    def counts(self) -> tuple[int, int, int, str]:
        """Return how many cells there are, are finished, failed, and when the last one finished."""
        ((planned,),) = self._rows("SELECT COUNT(*) FROM plan")
        query = "SELECT COUNT(*) FROM plan JOIN cells USING (key)"
        ((finished,),) = self._rows(query)
        ((failed,),) = self._rows(f"{query} WHERE error != ''")
        return planned, finished, failed, self.last_finished()

    def last_finished(self) -> str:
        """Return when the last cell finished (ISO 8601); empty if none has."""
        ((last,),) = self._rows("SELECT MAX(finished) FROM timings")
        return str(last or "")

    def integrity(self) -> list[str]:
        """Return what SQLite finds wrong in the file's structure, at most 20 things."""
        found = [str(text) for (text,) in self._rows("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def damage(self) -> Iterator[tuple[str, object]]:
        """Yield kind and key of every row that is not as it was written, where that is known."""
        for table in self._tables if self.has_checksums else ():
            for _, row, is_sound in self._all_rows(table):
                if not is_sound:
                    yield _KINDS[table], _key(table, row)

    def dump(self) -> Iterator[tuple[object, ...]]:
        """Yield every result in order, without durations and dates: equal for equal runs."""
        yield from self._rows("SELECT * FROM cells ORDER BY key")
        yield from self._rows("SELECT * FROM benchmarks ORDER BY key")
        for table in _OF_USERS if self._version > _WITHOUT_USERS else ():
            yield from self._rows(f"SELECT * FROM {table} ORDER BY key")  # noqa: S608

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _insert(self, table: str, *values: object) -> None:
        marks = ", ".join("?" * (len(values) + 1))
        row = (*values, checksum(table, values))
        self._connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)  # noqa: S608

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with database_errors(self._path):
            stop_long_queries(self._connection)
            return self._connection.execute(query, values).fetchall()

    def _checked_rows(self, table: str, which: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield rows without their checksums; raise StoreError if one is not what it says."""
        for row in self._rows(f"SELECT * FROM {table} {which}", *values):  # noqa: S608
            self._require(self._is_sound(table, row), table, _key(table, row))
            yield row[:-1] if self.has_checksums else row

    def _all_rows(self, table: str) -> Iterator[tuple[int, tuple[Any, ...], bool]]:
        """Yield the number of each row, the row, and whether it is as it was written."""
        with database_errors(self._path):
            stop_long_queries(self._connection)
            for rowid, *row in self._connection.execute(f"SELECT rowid, * FROM {table}"):  # noqa: S608
                yield rowid, tuple(row), self._is_sound(table, tuple(row))

    def _is_sound(self, table: str, row: tuple[Any, ...]) -> bool:
        return not self.has_checksums or checksum(table, row[:-1]) == row[-1]

    def _require(self, is_sound: bool, table: str, key: object) -> None:
        if not is_sound:
            raise self._damaged(table, key)

    def _damaged(self, table: str, key: object) -> DamagedError:
        return DamagedError(
            f"{quoted(str(self._path), 200)}: {_KINDS[table]} {quoted(key)} is damaged; run"
            " the experiment again, which makes only what is damaged anew"
        )

    def _floats(self, blob: object, table: str, key: object) -> FloatArray:
        return np.frombuffer(self._blob(blob, table, key))

    def _integers(self, blob: object, table: str, key: object) -> IntArray:
        numbers = np.frombuffer(self._blob(blob, table, key), dtype=np.int64)
        sound = not numbers.size or bool(numbers.min() >= 0 and numbers.max() <= MAX_HORIZON)
        self._require(sound, table, key)
        return numbers

    def _blob(self, blob: object, table: str, key: object) -> bytes:
        self._require(isinstance(blob, bytes) and len(blob) % 8 == 0, table, key)
        assert isinstance(blob, bytes)
        return blob

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with database_errors(self._path), self._connection:
            stop_long_queries(self._connection)
            yield
            if not self._path.exists():  # SQLite would go on writing into nothing
                raise StoreError(
                    f"{quoted(str(self._path), 200)} was deleted while the run was going on"
                )


def _key(table: str, row: tuple[Any, ...]) -> object:
    """Return what a row is called in messages: its first column, or that of a planned cell."""
    return row[1 if table == "plan" else 0]


def _is_usable(numbers: FloatArray) -> bool:
    # Written so that NaN, with which nothing compares, is not usable.
    return not numbers.size or bool(numbers.min() > -_LIMIT and numbers.max() < _LIMIT)


def benchmark_key(basis: str, horizon: int) -> str:
    """Return the key of a cell's benchmark."""
    return f"{basis}-{horizon}"


def open_store(folder: Path, *, create: bool, check: bool = True) -> Store:
    """Open a run's database, to read it or, with ``create``, to write it.

    Raises StoreError if it is damaged (looked for in the whole file unless ``check`` is false),
    of a newer version, or not ours.
    """
    path = folder / DATABASE
    if create:
        return Store(connect_to_write(path, _FORMATS), max(_FORMATS), path)
    if not path.is_file():
        raise StoreError(f"{quoted(str(folder), 200)} is not a run: it has no {DATABASE}")
    return Store(*connect_to_read(path, _FORMATS, check=check), path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run's folder for this process; raise StoreError if another process has it."""
    check_files(folder / LOCK)
    with database_errors(folder / LOCK):
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
