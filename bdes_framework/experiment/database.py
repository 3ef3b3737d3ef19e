"""Opening the database of a run, which may be damaged, newer, or made by somebody else."""

import os
import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from itertools import count
from pathlib import Path

from bdes_framework._internal.files import check_no_link
from bdes_framework._internal.text import one_line, quoted
from bdes_framework.errors import StoreError

MAX_ROW_BYTES = 64 * 1024 * 1024
MAX_STEPS = 2_000_000_000
"""Steps of SQLite's virtual machine after which a query is stopped: some thousand per cell."""


class DamagedError(StoreError):
    """Something in a run's database is not as it was written."""


_MAGIC = b"SQLite format 3\0"
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_STEPS_PER_CHECK = 1_000_000


def checksum(table: str, values: Sequence[object]) -> bytes:
    """Return the checksum of a row: of its table's name and of all its other values."""
    parts = [_encoded(value) for value in (table, *values)]
    lengths = array("Q", map(len, parts)).tobytes()  # so that no byte can move between values
    return blake2b(lengths + b"".join(parts), digest_size=16).digest()


def _encoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, str):
        return b"s" + value.encode()
    if isinstance(value, float):
        return b"f" + float(value).hex().encode()
    return b"i" + str(value).encode()


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into StoreErrors that say what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: of SQLite's own message
        text, kind = str(error), StoreError
        if "full" in text:
            advice = "the disk is full; what was saved is safe, free some space and run again"
        elif any(word in text for word in ("malformed", "not a database", "decode", "interrupted")):
            advice, kind = "it is damaged; it was left as it is, use another --out", DamagedError
        elif "too big" in text:
            advice = f"it has a row of more than {MAX_ROW_BYTES // 1024**2} MiB"
        elif "readonly" in text or "unable to open" in text:
            advice = "it cannot be written here"
        else:
            advice = one_line(text)
        raise kind(f"{quoted(str(path), 200)}: {advice}") from error


def connect_to_read(
    path: Path, formats: Mapping[int, str], *, check: bool
) -> tuple[sqlite3.Connection, int]:
    """Open an existing database for reading; return it with the version of its format.

    Parameters
    ----------
    path : Path
        The database.
    formats : Mapping[int, str]
        The SQL that makes the tables of each format that can be read.
    check : bool
        Whether to check the whole file for damage, too.
    """
    _check_files(path, formats)
    wal = path.with_name(f"{path.name}-wal")
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        # Not "ro", which leaves two files of SQLite's behind; see query_only below.
        mode = "mode=rw"
    elif wal.exists() and wal.stat().st_size:
        mode = "mode=ro"  # somebody else is writing
    else:
        mode = "mode=ro&immutable=1"  # nothing can be written beside it, as SQLite else would
    with database_errors(path):
        uri = f"{path.absolute().as_uri()}?{mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)
        with _closed_on_error(connection):
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
            stop_long_queries(connection)
            version = _check_content(connection, path, formats)
            if check:
                _check_whole(connection, path)
            if version == 0:
                raise StoreError(f"{quoted(str(path), 200)} holds no run")
    return connection, version


def connect_to_write(path: Path, formats: Mapping[int, str]) -> sqlite3.Connection:
    """Open a database of the newest format, or make one; nothing is changed before the checks.

    An older format that only lacks tables is given them.
    """
    _check_files(path, formats)
    newest = max(formats)
    with database_errors(path):
        connection = sqlite3.connect(path, isolation_level="IMMEDIATE", timeout=10)
        with _closed_on_error(connection):
            version = _check_content(connection, path, formats)
            known = formats[version] if version else ""
            if not formats[newest].startswith(known):
                raise StoreError(
                    f"{quoted(str(path), 200)} was written by an older bdes-framework (format"
                    f" {version}): it can be read, but not gone on with; use another --out"
                )
            _repair_indexes(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if version < newest:
                missing = formats[newest].removeprefix(known)
                with connection:
                    connection.executescript(
                        f"BEGIN; {missing} PRAGMA user_version = {newest}; COMMIT;"
                    )
    return connection


def stop_long_queries(connection: sqlite3.Connection) -> None:
    """Count a connection's steps from 0 again; a query that takes too many is interrupted."""
    calls = count(1)
    connection.set_progress_handler(
        lambda: next(calls) * _STEPS_PER_CHECK > MAX_STEPS, _STEPS_PER_CHECK
    )


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _check_files(path: Path, formats: Mapping[int, str]) -> None:
    """Raise StoreError for files not to be opened, and a newer format, before SQLite touches it."""
    check_files(path)
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read {quoted(str(path), 200)}: {error.strerror}") from None
    if head.startswith(_MAGIC):
        _check_version(path, int.from_bytes(head[60:64], "big"), max(formats))


def check_files(path: Path) -> None:
    """Raise StoreError if a database or what SQLite keeps beside it is a link or a trap."""
    for part in ("", "-wal", "-shm", "-journal"):
        check_no_link(path.with_name(path.name + part))
    _check_journal(path.with_name(f"{path.name}-journal"))


def _check_journal(journal: Path) -> None:
    """Raise StoreError if a journal names another file, which SQLite would then delete.

    Ours never does: it is that of one database alone.
    """
    with suppress(FileNotFoundError), journal.open("rb") as file:
        file.seek(max(journal.stat().st_size - len(_JOURNAL_MAGIC), 0))
        if file.read() == _JOURNAL_MAGIC:
            raise DamagedError(f"{quoted(str(journal), 200)} names another file; it is not used")


def _check_version(path: Path, version: int, newest: int) -> None:
    if not 0 <= version <= newest:
        raise StoreError(
            f"{quoted(str(path), 200)} was written by a newer bdes-framework (format"
            f" {version}, this one knows {newest}): upgrade to read it"
        )


def _check_content(connection: sqlite3.Connection, path: Path, formats: Mapping[int, str]) -> int:
    """Return the version of a database whose tables are ours, and nothing else is in it.

    A view, a trigger or a computed column in somebody's file would run as part of our queries.
    """
    # Should another process change the tables after this check.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _check_version(path, version, max(formats))
    expected = _schema(formats[version]) if version else set()
    if expected != set(connection.execute(_SCHEMA).fetchmany(len(expected) + 1)):
        raise DamagedError(
            f"{quoted(str(path), 200)} is damaged, or no run: its tables are not those of"
            f" format {version}"
        )
    return int(version)


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error if pages are damaged, or an index lacks rows: they would not be found."""
    if _is_whole(connection, "integrity_check"):
        return
    if not _is_whole(connection, "quick_check"):  # the same without indexes
        raise sqlite3.DatabaseError("malformed")
    raise DamagedError(
        f"{quoted(str(path), 200)}: an index is damaged; run the experiment again, which makes it"
        " anew"
    )


def _repair_indexes(connection: sqlite3.Connection) -> None:
    """Make damaged indexes anew; raise an error, with nothing changed, if that does not help."""
    if _is_whole(connection, "integrity_check"):
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("REINDEX")
        if not _is_whole(connection, "integrity_check"):
            raise sqlite3.DatabaseError("malformed")
        connection.execute("COMMIT")
    except sqlite3.IntegrityError as error:  # two rows of one key
        raise sqlite3.DatabaseError("malformed") from error


def _is_whole(connection: sqlite3.Connection, check: str) -> bool:
    (found,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
    return str(found) == "ok"


_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"


@cache
def _schema(tables: str) -> set[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(tables)
        return set(connection.execute(_SCHEMA))
