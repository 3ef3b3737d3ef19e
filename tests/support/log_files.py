"""Files of pulls for tests that read logs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import bdes_framework as bdes

COLUMNS = bdes.Columns(arm="ad", reward="click", user="user", order="time")
HEAD = "user,time,ad,click\n"
MANY = "".join(f"z,{row},a,1\n" for row in range(1000))
"""So many good rows that ten bad ones are passed over."""


def write(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def read(
    folder: Path, content: str | bytes, columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    return bdes.read_log(write(folder, content), columns, **options)


def read_parquet(
    folder: Path, table: Mapping[str, Any], columns: bdes.Columns | None = COLUMNS, **options: Any
) -> bdes.Log:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), folder / "log.pq")
    return bdes.read_log(folder / "log.pq", columns, **options)


def rows_of(log: bdes.Log) -> list[list[int]]:
    return [log.arms.tolist(), log.rewards.tolist(), log.starts.tolist()]
