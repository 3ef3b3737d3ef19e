"""Rows found in the pages of a damaged SQLite file, without SQLite: each page on its own.

A leaf page of a table says where its rows begin, and a row says the types of its values. So what
lies in an undamaged page is found, whatever became of the pages that lead there; a row counts if
its checksum is right. Pages that wait in the write-ahead log count as well, up to its last commit.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from struct import Struct, unpack
from typing import Any, TypeAlias

from bdes_framework import Event
from bdes_journals.rows import (
    DamagedRowError,
    SideRows,
    event_checksum,
    events_of,
    model_checksum,
    name_checksum,
)

PAGE_BYTES = 4096
"""The size of a page, in every journal."""

_LEAF = 0x0D
_FILE_HEADER_BYTES = 100
_WAL_HEADER_BYTES = 32
_FRAME = Struct(">IIQII")
_MOST_LOCAL = PAGE_BYTES - 35
_LEAST_LOCAL = (PAGE_BYTES - 12) * 32 // 255 - 23
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_BLOCK = 5_000

_Values: TypeAlias = list[Any]
_GetPage: TypeAlias = Callable[[int], bytes]

_TABLES = """
CREATE TABLE events (number INTEGER PRIMARY KEY, kind, subject, user_no, arm, chosen, model,
    value REAL, time REAL, checksum);
CREATE TABLE users (number INTEGER PRIMARY KEY, name, checksum);
CREATE TABLE arms (number INTEGER PRIMARY KEY, name, checksum);
CREATE TABLE models (number INTEGER PRIMARY KEY, read, digest, version, data, checksum);
"""


def events_in_pages(file: Path) -> Iterator[Event]:
    """Yield the events of which every row is undamaged, in order."""
    for _, event in numbered_events_in_pages(file):
        yield event


def numbered_events_in_pages(file: Path) -> Iterator[tuple[int, Event]]:
    """Yield the events of which every row is undamaged, in order, each with its number."""
    with closing(sqlite3.connect("")) as found:  # a temporary file: memory stays flat
        found.executescript(_TABLES)
        _collect(file, found)
        forgotten = found.execute("SELECT subject FROM events WHERE kind = 7").fetchall()
        gone = {user for (user,) in forgotten}
        for row in found.execute("SELECT * FROM events ORDER BY number"):
            try:
                [event] = events_of([row], _side_rows(found, row, gone))
            except DamagedRowError:
                continue
            yield row[0], event


def _side_rows(found: sqlite3.Connection, row: Any, forgotten: set[int]) -> SideRows:
    """Return the row of the user, arm or model that an event is about."""
    _, kind, subject, *_ = row
    if kind == 0 and subject in forgotten:  # its row may be older than that
        return SideRows({subject: (subject, None, name_checksum("users", subject, None))}, {}, {})
    table = {0: "users", 5: "arms", 8: "models"}.get(kind)
    if table is None:
        return SideRows({}, {}, {})
    query = f"SELECT * FROM {table} WHERE number = ?"
    side = {row[0]: row for row in found.execute(query, (subject,))}
    return SideRows(side, side, side)


def _collect(file: Path, found: sqlite3.Connection) -> None:
    """Fill tables with all rows whose checksums are right; a newer row replaces an older one."""
    waiting = _pages_in_log(file.with_name(f"{file.name}-wal"))
    newest = dict(waiting)
    with file.open("rb") as opened:

        def get_page(number: int) -> bytes:
            if number in newest:
                return newest[number]
            opened.seek((number - 1) * PAGE_BYTES)
            return opened.read(PAGE_BYTES)

        n_pages = -(-file.stat().st_size // PAGE_BYTES)
        for number in range(1, n_pages + 1):
            opened.seek((number - 1) * PAGE_BYTES)
            _collect_page(number, opened.read(PAGE_BYTES), get_page, found)
        for number, page in waiting:
            _collect_page(number, page, get_page, found)


def _collect_page(number: int, page: bytes, get_page: _GetPage, found: sqlite3.Connection) -> None:
    events: list[_Values] = []
    for rowid, values in _rows_in_page(number, page, get_page):
        match values:
            case [_, _, _, _, _, _, _, _, _, checksum]:
                row = [rowid, *values[1:]]
                row[7:9] = [None if x is None else _as_float(x) for x in row[7:9]]
                if event_checksum(row) == checksum:
                    events.append(row)
            case [_, name, int() as checksum]:
                name = name if isinstance(name, str) else None
                for table in ("users", "arms"):
                    if name_checksum(table, rowid, name) == checksum:
                        found.execute(
                            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
                            (rowid, name, checksum),
                        )
            case [_, int() as read, str() as digest, str() as version, data, int() as checksum]:
                if model_checksum(rowid, read, digest, version) == checksum:
                    found.execute(
                        "INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?, ?, ?)",
                        (rowid, read, digest, version, data, checksum),
                    )
    found.executemany("INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?,?,?,?,?)", events)


def _as_float(value: object) -> object:
    """Return a number as float: SQLite keeps a float that is whole as an integer."""
    return float(value) if isinstance(value, int) else value


def _pages_in_log(file: Path) -> list[tuple[int, bytes]]:
    """Return the pages in a write-ahead log that were committed, with their numbers, in order."""
    try:
        content = file.read_bytes()
    except OSError:
        return []
    salt = content[16:24]
    pages: list[tuple[int, bytes]] = []
    n_committed = 0
    for at in range(_WAL_HEADER_BYTES, len(content), _FRAME.size + PAGE_BYTES):
        frame = content[at : at + _FRAME.size + PAGE_BYTES]
        if len(frame) == _FRAME.size + PAGE_BYTES and frame[8:16] == salt:
            number, committed_size, *_ = _FRAME.unpack(frame[: _FRAME.size])
            pages.append((number, frame[_FRAME.size :]))
            if committed_size:
                n_committed = len(pages)
    return pages[:n_committed]


# -- SQLite's file format ---------------------------------------------------------------------


def _rows_in_page(number: int, page: bytes, get_page: _GetPage) -> Iterator[tuple[int, _Values]]:
    """Yield the rowid and values of each row that can be decoded."""
    start = _FILE_HEADER_BYTES if number == 1 else 0
    if len(page) != PAGE_BYTES or page[start] != _LEAF:
        return
    n_rows = int.from_bytes(page[start + 3 : start + 5])
    pointers = page[start + 8 : start + 8 + 2 * n_rows]
    for (offset,) in Struct(">H").iter_unpack(pointers[: len(pointers) // 2 * 2]):
        try:
            size, at = _varint(page, offset)
            rowid, at = _varint(page, at)
            yield rowid, _values(_payload(page, at, size, get_page))
        except (IndexError, ValueError):
            continue


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where the next value begins."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9


def _payload(page: bytes, at: int, size: int, get_page: _GetPage) -> bytes:
    """Return the bytes of a row, with those that spilled over into other pages."""
    if size <= _MOST_LOCAL:
        return page[at : at + size]
    spilled = _LEAST_LOCAL + (size - _LEAST_LOCAL) % (PAGE_BYTES - 4)
    n_local = spilled if spilled <= _MOST_LOCAL else _LEAST_LOCAL
    parts = [page[at : at + n_local]]
    following = int.from_bytes(page[at + n_local : at + n_local + 4])
    left = size - n_local
    while left > 0:
        more = get_page(following) if following else b""
        if len(more) != PAGE_BYTES:
            raise ValueError("the row goes on in a page that is not there")
        parts.append(more[4 : 4 + left])
        left -= PAGE_BYTES - 4
        following = int.from_bytes(more[:4])
    return b"".join(parts)


def _values(payload: bytes) -> _Values:
    """Return the values of a row; raises ValueError or IndexError if it is damaged."""
    header_end, at = _varint(payload, 0)
    body = header_end
    values: _Values = []
    while at < header_end:
        kind, at = _varint(payload, at)
        if kind in (0, 8, 9):
            values.append({0: None, 8: 0, 9: 1}[kind])
            continue
        size = 8 if kind == 7 else _INTEGER_BYTES.get(kind, (kind - 12) // 2)
        content = payload[body : body + size]
        if size < 0 or len(content) != size:
            raise ValueError("a value goes on behind the end of its row")
        body += size
        if kind == 7:
            values.append(unpack(">d", content)[0])
        elif kind in _INTEGER_BYTES:
            values.append(int.from_bytes(content, signed=True))
        else:
            values.append(content.decode() if kind % 2 else content)
    return values
