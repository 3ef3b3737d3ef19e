"""The run database: what was committed survives; a damaged one raises and is left as it is."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import StoreError
from bdes_framework.experiment import database
from bdes_framework.experiment.cell import CellResult
from bdes_framework.experiment.store import DATABASE, Store, locked, open_store
from bdes_framework.interfaces import Benchmark
from tests.support.damage import change_index, change_value, plant_journal


def result(key: str, size: int = 50) -> CellResult:
    values = np.arange(size, dtype=float)
    return CellResult(key, values, 2 * values, values, np.arange(3), "x", '{"a": 1}', "", "", 0.5)


@pytest.mark.parametrize("key", ["a", "x'); DROP TABLE cells; --"])
def test_saved_cells_are_read_back(tmp_path: Path, key: str) -> None:
    store = open_store(tmp_path, create=True)
    store.set_meta("name", key)
    store.save(result(key))
    store.close()
    again = open_store(tmp_path, create=False)
    assert again.meta("name") == key
    assert again.finished(failed=False) == {key}
    found = again.result(key)
    assert found is not None
    np.testing.assert_array_equal(found.rewards, np.arange(50))
    np.testing.assert_array_equal(found.means, 2 * np.arange(50))
    np.testing.assert_array_equal(found.counts, [0, 1, 2])
    assert (found.key, found.diagnostics, found.error, found.seconds) == (key, '{"a": 1}', "", 0.5)


def test_a_folder_without_a_database_raises(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run"):
        open_store(tmp_path, create=False)
    (tmp_path / DATABASE).touch()
    with pytest.raises(StoreError, match="holds no run"):
        open_store(tmp_path, create=False)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[: len(content) // 2 - 100], "damaged"),
        (lambda content: content[:2000] + b"\xff" * 60_000 + content[62_000:], "damaged"),
        (lambda content: b"this is no database, but somebody's notes " * 100, "damaged"),
        (lambda content: content.replace(b"TABLE plan (", b"TABLE \xcelan ("), "damaged"),
        (lambda content: content.replace(b"TABLE plan (", b"TABLE plan \xce"), "damaged"),
        # The version of the format, big-endian at byte 60.
        (lambda content: content[:60] + b"\0\0\0\x63" + content[64:], "newer bdes-framework"),
    ],
    ids=["truncated", "overwritten", "text", "renamed", "not UTF-8", "newer"],
)
def test_an_unusable_database_is_left_as_it_is(
    tmp_path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    store = open_store(tmp_path, create=True)
    for index in range(200):
        store.save(result(f"cell-{index}"))
    store.close()
    path = tmp_path / DATABASE
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(StoreError, match=message):
            open_store(tmp_path, create=create)
    assert path.read_bytes() == before


def fill(store: Store) -> set[str]:
    """Save cells until there is no more room; return the keys of those saved."""
    saved: set[str] = set()
    with pytest.raises(StoreError, match="the disk is full; what was saved is safe"):  # noqa: PT012
        for index in range(10_000):
            store.save(result(f"cell-{index}"))
            saved.add(f"cell-{index}")
    return saved


def test_a_full_database_loses_no_saved_cell(tmp_path: Path) -> None:
    store = open_store(tmp_path, create=True)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages + 50}")
    saved = fill(store)
    store.close()
    again = open_store(tmp_path, create=True)
    assert again.finished(failed=False) == saved != set()
    again.save(result("one more"))


def test_a_full_disk_loses_no_saved_cell(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        store = open_store(disk, create=True)
        saved = fill(store)
        assert store.finished(failed=False) == saved != set()
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_second_lock_raises(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(StoreError, match="in use by another process"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_damaged_lock_raises(tmp_path: Path) -> None:
    (tmp_path / "lock.sqlite").write_text("no lock, but somebody's notes " * 100)
    with pytest.raises(StoreError, match="damaged"), locked(tmp_path):
        pass


@pytest.mark.parametrize("create", [True, False])
def test_a_newer_database_is_not_even_opened(tmp_path: Path, create: bool) -> None:
    path = tmp_path / DATABASE
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE later (x); PRAGMA user_version = 99;")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer bdes-framework"):
        open_store(tmp_path, create=create)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (before, [path])


def saved(folder: Path) -> Path:
    """Return a folder with a database that has a row in every table."""
    store = open_store(folder, create=True)
    store.set_meta("name", "a")
    store.set_checkpoints(3, np.array([1, 3]))
    store.save(result("a"))
    store.save_benchmark("b", Benchmark(np.array([3]), np.array([2.0]), 3.0))
    store.close()
    return folder


@pytest.mark.parametrize(
    ("column", "read"),
    [
        ("meta.value", lambda store: store.meta("name")),
        ("checkpoints.rounds", lambda store: store.checkpoints(3)),
        ("benchmarks.totals", lambda store: store.benchmark("b")),
        ("benchmarks.upper_bound", lambda store: store.benchmark("b")),
        *(
            (f"cells.{column}", lambda store: store.result("a"))
            for column in ("rewards", "means", "states", "counts", "basis", "diagnostics")
        ),
        ("cells.checksum", lambda store: store.result("a")),
    ],
)
def test_one_flipped_bit_is_noticed(
    tmp_path: Path, column: str, read: Callable[[Store], object]
) -> None:
    store = open_store(saved(tmp_path), create=False)
    assert read(store) is not None
    assert not [*store.damage()]
    store.close()
    change_value(tmp_path, column)
    store = open_store(tmp_path, create=False)
    with pytest.raises(StoreError, match=r"is damaged; run the experiment again"):
        read(store)
    assert len([*store.damage()]) == 1
    store.close()


@pytest.mark.parametrize(
    "hostile",
    [
        "DROP TABLE cells; CREATE VIEW cells AS SELECT * FROM benchmarks",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM plan; END",
        "CREATE INDEX i ON plan (abs(horizon))",
        "CREATE TABLE more (x)",
        "ALTER TABLE cells ADD COLUMN more TEXT",
        "ALTER TABLE timings ADD COLUMN more TEXT AS (hex(seconds))",
        "ALTER TABLE cells DROP COLUMN details",
        "DROP TABLE checkpoints",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = -1",
    ],
)
def test_a_schema_that_is_not_ours_raises(tmp_path: Path, hostile: str) -> None:
    connection = sqlite3.connect(saved(tmp_path) / DATABASE)
    connection.executescript(hostile)
    connection.close()
    before = (tmp_path / DATABASE).read_bytes()
    for create in (False, True):
        with pytest.raises(StoreError, match=r"its tables are not those|newer"):
            open_store(tmp_path, create=create)
    assert (tmp_path / DATABASE).read_bytes() == before


@pytest.mark.parametrize("create", [False, True])
def test_a_schema_changed_after_the_check_runs_no_function(tmp_path: Path, create: bool) -> None:
    store = open_store(saved(tmp_path), create=create)
    store._connection.create_function("spy", 0, lambda: "seen")
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.executescript(
        "DROP TABLE meta;CREATE VIEW meta AS SELECT 'name' AS name, spy() AS value, x'' AS checksum"
    )
    connection.close()
    with pytest.raises(StoreError, match="unsafe use of spy"):
        store.meta("name")
    store.close()


def test_a_row_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, create=True)
    store.save(result("a", size=2 * 1024**2 // 8))
    store.close()
    store = open_store(tmp_path, create=False)
    assert store.result("a") is not None
    store.close()
    monkeypatch.setattr(database, "MAX_ROW_BYTES", 1024**2)
    with pytest.raises(StoreError, match="it has a row of more than 1 MiB"):
        open_store(tmp_path, create=False, check=False).result("a")


@pytest.mark.parametrize("name", [DATABASE, "lock.sqlite"])
def test_a_planted_journal_deletes_no_file(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    saved(tmp_path)
    plant_journal(tmp_path / name, victim)
    for use in (lambda: open_store(tmp_path, create=False), lambda: locked(tmp_path).__enter__()):
        with suppress(StoreError):
            use()
    assert victim.exists()


def test_reading_leaves_nothing_behind_and_cannot_write(tmp_path: Path) -> None:
    store = open_store(saved(tmp_path), create=False)
    with pytest.raises(StoreError, match="cannot be written here"):
        store.set_meta("name", "other")
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE]


def test_what_another_process_writes_is_read(tmp_path: Path) -> None:
    writer = open_store(saved(tmp_path), create=True)
    writer.save(result("b"))
    reader = open_store(tmp_path, create=False)
    assert reader.finished(failed=False) == {"a", "b"}
    writer.save(result("c"))
    assert reader.finished(failed=False) == {"a", "b", "c"}
    reader.close()
    writer.close()


def test_a_read_only_folder_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path)
    # As root, who may write everywhere, read-only storage can only be pretended.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    tmp_path.chmod(0o555)
    try:
        store = open_store(tmp_path, create=False)
        assert store.finished(failed=False) == {"a"}
        store.close()
    finally:
        tmp_path.chmod(0o755)
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE]


def test_a_long_query_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(saved(tmp_path), create=False)
    monkeypatch.setattr(database, "MAX_STEPS", 10_000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
    with pytest.raises(StoreError, match="damaged"):
        store._rows(f"SELECT COUNT(*) FROM ({endless})")
    store.close()


def test_damaged_rows_are_deleted_to_be_made_anew(tmp_path: Path) -> None:
    change_value(saved(tmp_path), "cells.means")
    change_value(tmp_path, "benchmarks.totals")
    store = open_store(tmp_path, create=True)
    assert (store.delete_damaged(), store.delete_damaged()) == (2, 0)
    assert (store.finished(failed=False), store.benchmark("b")) == (set(), None)
    store.close()


@pytest.mark.parametrize("table", ["meta", "cells", "benchmarks", "timings"])
def test_a_damaged_index_is_noticed_and_made_anew(tmp_path: Path, table: str) -> None:
    store = open_store(saved(tmp_path), create=False)
    before = [*store.dump()]
    store.close()
    change_index(tmp_path, table)
    with pytest.raises(StoreError, match="an index is damaged; run the experiment again"):
        open_store(tmp_path, create=False)
    open_store(tmp_path, create=True).close()
    store = open_store(tmp_path, create=False)
    assert [*store.dump()] == before
    assert (store.meta("name"), store.result("a") is None) == ("a", False)
    store.close()


def test_a_cell_that_an_index_has_lost_is_not_taken_over(tmp_path: Path) -> None:
    change_index(saved(tmp_path), "cells")
    other = open_store(tmp_path, create=False, check=False)
    (tmp_path / "own").mkdir()
    store = open_store(tmp_path / "own", create=True)
    with pytest.raises(StoreError, match="cell 'a' is damaged"):
        store.copy_cells(other, other.finished(failed=False))
    other.close()
    store.close()
