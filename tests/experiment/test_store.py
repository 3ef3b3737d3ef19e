"""The run database: what was committed survives; a damaged one raises and is left as it is."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import StoreError
from bdes_framework.experiment.cell import CellResult
from bdes_framework.experiment.store import DATABASE, Store, locked, open_store


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
        # The version of the format, big-endian at byte 60.
        (lambda content: content[:60] + b"\0\0\0\x63" + content[64:], "newer bdes-framework"),
    ],
    ids=["truncated", "overwritten", "text", "newer"],
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
