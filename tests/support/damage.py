"""Damage done to run databases on purpose."""

import json
import math
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

from bdes_framework.experiment.database import checksum
from bdes_framework.experiment.store import DATABASE

TABLES = ("meta", "cells", "plan", "checkpoints", "benchmarks", "timings", "code", "provenance")


def change_value(folder: Path, column: str) -> None:
    """Change one bit or digit of a column, such as ``cells.means``, in its table's first row."""
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        query = f"SELECT rowid, {name} FROM {table} ORDER BY rowid"
        rowid, old = connection.execute(query).fetchone()
        new: object
        if isinstance(old, bytes):
            new = bytes([old[0] ^ 1]) + old[1:]
        elif isinstance(old, str):
            new = chr(ord(old[0]) ^ 1) + old[1:]
        else:
            new = old + 1
        change = f"UPDATE {table} SET {name} = ? WHERE rowid = ?"
        connection.execute(change, (new, rowid))


def change_index(folder: Path, table: str) -> None:
    """Flip one bit of a key in the index of a table, with few rows, and none in the table."""
    file = folder / DATABASE
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (key, *_) = connection.execute(f"SELECT * FROM {table} NOT INDEXED").fetchone()
    content = bytearray(file.read_bytes())
    content[content.index(key.encode(), (page - 1) * size, page * size)] ^= 1
    file.write_bytes(content)


def plant_journal(database: Path, victim: Path) -> None:
    """Leave a journal beside a database that makes SQLite delete ``victim`` when it is opened."""
    journal = database.with_name(f"{database.name}-journal")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in ("journal_mode = delete", "application_id = 1", "cache_size = 1"):
            connection.execute(f"PRAGMA {statement}")
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE filler (x)")
        connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 500,)] * 300)
        content = journal.read_bytes()
        connection.execute("ROLLBACK")
    name = str(victim).encode()
    end = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name))
    content += bytes(-len(content) % 512) + end + bytes.fromhex("d9d505f920a163d7")
    journal.write_bytes(content)


HOSTILE: dict[str, list[object]] = {
    "TEXT": [
        *("", "x" * 5000, "\x1b[31m", "</script>", "[" * 5000, "NaN", "{}", "null"),
        *('{"a": [1e999, -1e400]}', '{"a": ' + "9" * 400 + "}", '{"a": "b"}', "2026-11-18T99"),
    ],
    "INTEGER": [0, -1, 1, 7, 10, 50, 10**12, 10**18, 2**63 - 1, -(2**63)],
    "REAL": [math.inf, -math.inf, 1e308, -1e308, 1e99, 5e-324, -0.0, 0.5, -3.0],
    "BLOB": [
        *(b"", b"x", bytes(8), bytes(40), b"\xff" * 40, bytes(800)),
        *(struct.pack("<5d", *row) for row in ((1e308,) * 5, (math.nan,) * 5, (5e-324,) * 5)),
        *(struct.pack("<5d", *row) for row in ((-1e99, 1e99, 0, 0, 0), (1, 2, 3, math.inf, 4))),
        *(struct.pack("<5q", *row) for row in ((1, 2, 3, 4, 10), (2**62,) * 5, (5, 4, 3, 2, 1))),
        *(struct.pack("<2q", *row) for row in ((10, 0), (-40, 50), (50, 0), (0, 0))),
    ],
}
"""Values that somebody could put into a row, by the type of its column."""


def forge_values(folder: Path, rng: Random) -> str:
    """Put hostile values into some rows, with checksums that fit; return what was done."""
    done = []
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        for _ in range(rng.choice((1, 1, 2, 5))):
            table = rng.choice(TABLES)
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            _, column, kind, *_ = rng.choice(columns)
            value = rng.choice(HOSTILE[kind])
            rows = connection.execute(f"SELECT rowid FROM {table}").fetchall()
            chosen = rows if rng.random() < 0.5 else rng.sample(rows, 1)
            # Keys are unique: that of one row is changed, the others stay.
            with suppress(sqlite3.IntegrityError), connection:
                for rowid in chosen:
                    change = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                    connection.execute(change, (value, *rowid))
                done.append(f"{len(chosen)} {table}.{column} = {value!r:.60}")
        with connection:
            seal(connection)
    return ", ".join(done)


def seal(connection: sqlite3.Connection) -> None:
    """Give all rows checksums that fit."""
    for table in TABLES:
        for row in connection.execute(f"SELECT rowid, * FROM {table}").fetchall():
            values = checksum(table, row[1:-1]), row[0]
            connection.execute(f"UPDATE {table} SET checksum = ? WHERE rowid = ?", values)


def flip_bits(file: Path, rng: Random) -> str:
    """Change some bytes of a file; return which."""
    content = bytearray(file.read_bytes())
    places = [rng.randrange(len(content)) for _ in range(rng.choice((1, 1, 3, 30)))]
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    if rng.random() < 0.1:
        del content[rng.randrange(len(content)) :]
    file.write_bytes(content)
    return f"{file.name} flipped at {places}"


def forge_json(file: Path, rng: Random) -> str:
    """Replace or delete a value somewhere in a JSON file; return what was done."""
    root = json.loads(file.read_text())
    holder: Any = root
    while True:
        keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
        key = rng.choice(keys)
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.3:
            break
        holder = holder[key]
    values: list[object] = [
        None,
        "",
        "x" * 5000,
        "</script>",
        -1,
        0,
        10**400,
        1e308,
        math.nan,
        [],
        {},
        True,
    ]
    value = rng.choice([*values, [[]], ["a"], {"use": 1}, {"label": "x", "horizon": 10}])
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = value
    file.write_text(json.dumps(root))
    return f"{file.name}: {key} = {value!r:.60}"
