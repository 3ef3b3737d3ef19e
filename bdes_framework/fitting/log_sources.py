"""Where logs come from: files, folders, pipes, databases and frames, brought into one table."""

import codecs
import csv
import lzma
import os
import re
import shutil
import sqlite3
import stat
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from attrs import evolve, frozen

from bdes_framework._internal.text import listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.csv_form import (
    ZSTD,
    CsvForm,
    encoding_errors,
    encoding_of,
    is_compressed,
    open_plain,
    read_form,
)
from bdes_framework.fitting.csv_rows import sorted_csv
from bdes_framework.fitting.log_database import (
    LogDatabase,
    has_duckdb,
    sql_path,
    sql_text,
)
from bdes_framework.fitting.log_parts import (
    Heading,
    Part,
    csv_table,
    stage,
    table_headings,
)
from bdes_framework.fitting.row_store import disk_errors
from bdes_framework.fitting.rows import CheckedRows, Columns, read_header
from bdes_framework.fitting.sorted_rows import sorted_rows

_PARQUET, _SQLITE, _DUCKDB = b"PAR1", b"SQLite format 3\0", b"DUCK"
_POSTGRES = ("postgresql://", "postgres://")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_CSV_SUFFIXES = tuple(
    f"{suffix}{packed}"
    for suffix in (".csv", ".tsv", ".txt")
    for packed in ("", ".gz", ".zst", ".bz2", ".xz")
)
_BLOCK = 1 << 20
_FETCHED = 10_000
_HEAD = 100
_OF_A_RUN = "results.sqlite"
_NUMBER = re.compile(r"([0-9]+)")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@frozen
class Reading:
    """How a log is read.

    Parameters
    ----------
    columns : Columns
        What its columns are called.
    on_progress, on_unused : Callable | None
        Told the part that is done, and the columns that are not read.
    strict : bool
        Whether a single bad row is too many.
    query : str | None
        What to ask a database for.
    encoding : str
        How text is written.
    """

    columns: Columns
    on_progress: Callable[[float], None] | None = None
    on_unused: Callable[[list[str]], None] | None = None
    strict: bool = False
    query: str | None = None
    encoding: str = "utf-8"


def read_rows(source: str | PathLike[str] | IO[bytes], reading: Reading) -> CheckedRows:
    """Return the rows of a log, checked and sorted."""
    if isinstance(source, str) and source.startswith(_POSTGRES):
        return _of_cursor("the database", _postgres_records(source, _query(reading, "")), reading)
    name = _display_name(source)
    try:
        if not isinstance(source, str | PathLike):
            return _of_stream(source, name, reading)
        path = Path(source)
        if path.is_dir():
            return _of_files(path, _files_in(path), name, reading)
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _of_stream(file, name, reading)
        return _of_file(path, name, reading)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        place = source if isinstance(source, str | PathLike) else name
        raise InvalidValueError(
            f"cannot read {place}: {getattr(error, 'strerror', None) or error}"
        ) from None


def read_frame_rows(frame: Any, reading: Reading) -> CheckedRows:
    """Return the rows of a frame of pandas or polars, checked and sorted."""
    if not hasattr(frame, "columns"):
        raise InvalidValueError(f"expected a frame of pandas or polars, got {quoted(frame)}")
    headings = list(frame.columns)
    header = read_header([str(heading) for heading in headings], reading.columns, "frame")
    wanted = {role: headings[place] for role, place in header.places.items()}
    names = dict(zip(wanted, reading.columns.by_role.values(), strict=True))
    with _folder() as folder, LogDatabase(folder, "frame", (), reading.on_progress) as database:
        table = _frame_table(database, folder, frame, wanted)
        found = {heading.name: heading for heading in table_headings(database, table)}
        columns = [Heading(names[role], found[role].sql, found[role].type) for role in wanted]
        staged = stage(database, [Part("frame", table, columns, 0)], reading.columns, None)
        return sorted_rows(database, reading.columns, staged.where, (), reading.strict)


def _frame_table(database: LogDatabase, folder: Path, frame: Any, wanted: dict[str, Any]) -> str:
    """Let the database see some columns of a frame, by their roles."""
    if hasattr(frame, "write_parquet"):  # polars, which needs pyarrow for any other way
        file = folder / "frame.parquet"
        frame.select([frame[name].alias(role) for role, name in wanted.items()]).write_parquet(file)
        return f"read_parquet({sql_path(file, folder)})"
    part = frame[list(wanted.values())].set_axis(list(wanted), axis=1)
    mixed = {
        role: _texts(part[role], name)
        for role, name in wanted.items()
        if part[role].dtype == object
    }
    database.frame("frame", part.assign(**mixed))
    return "frame"


def _texts(series: Any, name: object) -> list[str | None]:
    """Return the values of a column of objects as text."""
    texts: list[str | None] = []
    for row, value in enumerate(series.tolist()):
        missing = value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
        if not missing and isinstance(value, list | dict | set | tuple | bytes):
            raise InvalidValueError(
                f"frame, row {row}: column {quoted(str(name))} holds {quoted(value)}: expected text"
                " or numbers"
            )
        texts.append(None if missing else str(value))
    return texts


def _display_name(source: object) -> str:
    """Return the name of a log in error messages."""
    if not isinstance(source, str | PathLike):
        return str(getattr(source, "name", "log"))
    file = Path(source)
    with suppress(OSError):
        if file.is_fifo():  # its own name is a mere number
            return str(file)
    return file.name or str(file)


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a private temporary folder."""
    with disk_errors():
        folder = Path(tempfile.mkdtemp(prefix="bdes-log-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_stream(stream: IO[bytes], name: str, reading: Reading) -> CheckedRows:
    """Read a pipe or an open file by way of a temporary copy, as it may be read twice."""
    with suppress(OSError, AttributeError):  # a log in memory has no number
        number = stream.fileno()
        if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
            raise InvalidValueError(f"{name} is a device: give a file or a pipe")
    with _folder() as folder:
        copy = folder / "log"
        with disk_errors(), copy.open("wb") as file:
            while block := stream.read(_BLOCK):
                if isinstance(block, str):
                    raise InvalidValueError(f"{name} is open as text: open it in binary mode, 'rb'")
                file.write(block)
        return _of_file(copy, name, reading)


def _of_file(path: Path, name: str, reading: Reading) -> CheckedRows:
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(_SQLITE):
        return _of_cursor(name, _sqlite_records(path, _query(reading, name)), reading)
    if start[8:12] == _DUCKDB:
        return _of_duckdb(path, name, _query(reading, name), reading)
    if reading.query is not None:
        raise InvalidValueError(f"{name} is no database: a query needs one")
    parquet = start.startswith(_PARQUET) or name.endswith(_PARQUET_SUFFIXES)
    if not has_duckdb() and not parquet and not start.startswith(ZSTD):
        return sorted_csv(path, name, reading.columns, reading.encoding, reading.on_unused)
    return _of_files(path, {path: name}, name, reading)


def _files_in(folder: Path) -> dict[Path, str]:
    """Return the files of a folder and their names in error messages: all Parquet or all CSV."""
    files = [
        path
        for path in sorted(folder.rglob("*"), key=_natural_key)
        if path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    kinds = [
        {path: str(path.relative_to(folder)) for path in files if path.name.lower().endswith(some)}
        for some in (_PARQUET_SUFFIXES, _CSV_SUFFIXES)
    ]
    found = [kind for kind in kinds if kind]
    if len(found) > 1:
        first, second = (quoted(next(iter(kind.values()))) for kind in found)
        raise InvalidValueError(
            f"{folder} has Parquet and CSV files, such as {first} and {second}: a log is of one"
            " kind (names that begin with _ or . are passed over)"
        )
    if not found and (folder / _OF_A_RUN).exists():
        raise InvalidValueError(
            f"{folder} is a run of 'bdes run', not a log: 'bdes export {folder} --log --out FILE'"
            " writes one"
        )
    if not found:
        raise InvalidValueError(f"{folder} has no files that end in .parquet or .csv")
    return found[0]


def _natural_key(path: Path) -> tuple[list[list[str | int]], Path]:
    """Return the sort key of a path: numbers in names are compared as such, 2 before 10."""
    names = [_NUMBER.split(name) for name in path.parts]
    return [[int(x) if i % 2 else x for i, x in enumerate(name)] for name in names], path


def _of_files(root: Path, files: dict[Path, str], name: str, reading: Reading) -> CheckedRows:
    if reading.query is not None:
        raise InvalidValueError(f"{name} is no database: a query needs one")
    with _folder() as folder, LogDatabase(folder, name, [root], reading.on_progress) as database:
        parts = []
        for number, (path, shown) in enumerate(files.items()):
            part = _file_part(database, folder, number, path, shown, reading)
            part.headings += _partition(path.relative_to(root).parts[:-1], part.headings)
            part.size = max(1, path.stat().st_size)
            parts.append(part)
        database.lock()
        staged = stage(database, parts, reading.columns, reading.on_unused)
        return sorted_rows(database, reading.columns, staged.where, staged.bad, reading.strict)


def _partition(folders: Sequence[str], headings: Sequence[Heading]) -> list[Heading]:
    """Return the columns that the names of folders stand for: ``day=2024-01-31``."""
    known = {heading.name for heading in headings}
    found = []
    for folder in folders:
        key, is_one, value = folder.partition("=")
        if is_one and unquote(key) not in known:
            text = "NULL" if value == _NO_PARTITION else sql_text(unquote(value))
            found.append(Heading(unquote(key), text, "VARCHAR"))
    return found


def _file_part(
    database: LogDatabase, folder: Path, number: int, path: Path, name: str, reading: Reading
) -> Part:
    """Return a file as a part, decompressed and decoded where DuckDB does not do that."""
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(_PARQUET) or name.lower().endswith(_PARQUET_SUFFIXES):
        where = sql_path(path, folder)
        table = f"read_parquet({where}, hive_partitioning=false, binary_as_string=true)"
        try:
            return Part(name, table, table_headings(database, table))
        except InvalidValueError as error:
            raise InvalidValueError(f"{name} is not a Parquet file: {error}") from None
    compression = "zstd" if start.startswith(ZSTD) else "none"
    if compression == "none":
        path, compression = _decoded(path, start, folder / f"{number}.csv", name, reading.encoding)
        with open_plain(path) as raw, encoding_errors(name, "UTF-8"):
            head = raw.readlines(_BLOCK)[:_HEAD]
            form = _form(head, reading.columns, name)
    else:
        form = _form(_zstd_head(database, path, folder), reading.columns, name)
    return _csv_part(name, path, folder, form, f"rejects_{number}", compression)


def _csv_part(
    name: str, path: Path, folder: Path, form: CsvForm, rejects: str, compression: str
) -> Part:
    headings = [
        Heading(heading.strip(), f"c{place}", "VARCHAR")
        for place, heading in enumerate(form.header)
    ]
    where, again = sql_path(path, folder), f"{rejects}_again"
    patient = csv_table(where, form, again, compression, strict=False)
    return Part(
        name,
        csv_table(where, form, rejects, compression),
        headings,
        form=form,
        path=path,
        rejects=rejects,
        patient=Part(name, patient, headings, rejects=again),
    )


def _form(head: Sequence[bytes], columns: Columns, name: str) -> CsvForm:
    lines = [line.decode("utf-8", "replace") for line in head]
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return read_form(iter(lines), columns, name)


def _zstd_head(database: LogDatabase, path: Path, folder: Path) -> list[bytes]:
    """Return the first lines of a file that Python cannot decompress."""
    found = database.rows(
        f"SELECT line FROM read_csv({sql_path(path, folder)}, auto_detect=false, header=false,"
        " delim=chr(1), quote='', escape='', columns={'line': 'VARCHAR'}, compression='zstd',"
        f" strict_mode=false, ignore_errors=true) LIMIT {_HEAD}"
    )
    return [str(line).encode() + b"\n" for (line,) in found]


def _decoded(path: Path, start: bytes, copy: Path, name: str, given: str) -> tuple[Path, str]:
    """Return a file in UTF-8 and its compression; a copy where it is written in another way."""
    with open_plain(path) as raw:
        encoding = encoding_of(raw.read(4), given)
    is_utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8", "utf-8-sig")
    if is_utf8 and (not is_compressed(start) or start.startswith(b"\x1f\x8b")):
        return path, "gzip" if is_compressed(start) else "none"
    with encoding_errors(name, encoding), open_plain(path) as raw, copy.open("wb") as file:
        if is_utf8:
            shutil.copyfileobj(raw, file, _BLOCK)
        else:
            decoder = codecs.getincrementaldecoder(encoding)()
            while block := raw.read(_BLOCK):
                file.write(decoder.decode(block).encode())
            file.write(decoder.decode(b"", final=True).encode())
    return copy, "none"


def _query(reading: Reading, name: str) -> str:
    if reading.query is None:
        raise InvalidValueError(
            f"{name or 'the log'} is a database: give a query, such as SELECT * FROM shown"
        )
    return reading.query


Records = Generator[Sequence[Any], None, None]


def _of_cursor(name: str, records: Records, reading: Reading) -> CheckedRows:
    """Read records, the first of which has the headings, by way of a temporary CSV file."""
    with _folder() as folder:
        copy = folder / "rows.csv"
        with closing(records), disk_errors(), copy.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            headings = [str(heading) for heading in next(records)]
            header = read_header(headings, reading.columns, name)
            places = list(header.places.values())  # the others may be of any size
            wanted = [headings[place] for place in places]
            writer.writerow(wanted)
            for record in records:
                writer.writerow([record[place] for place in places])
        if header.unused and reading.on_unused is not None:
            reading.on_unused(header.unused)
        with LogDatabase(folder, name, (), reading.on_progress) as database:
            form = CsvForm(",", wanted, 1)
            part = evolve(_csv_part(name, copy, folder, form, "rejects_0", "none"), form=None)
            database.lock()
            staged = stage(database, [part], reading.columns, None)
            return sorted_rows(database, reading.columns, staged.where, (), reading.strict)


def _only_reads(action: int, *_: object) -> int:
    """Say whether SQLite may do something for a query."""
    allowed = (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _sqlite_records(path: Path, query: str) -> Records:
    try:
        where = f"file:{quote(str(path.resolve()))}?mode=ro"
        with closing(sqlite3.connect(where, uri=True)) as connection:
            connection.set_authorizer(_only_reads)  # or a query could attach other files
            cursor = connection.execute(query)
            yield [heading for heading, *_ in cursor.description or ()]
            while records := cursor.fetchmany(_FETCHED):
                yield from records
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise InvalidValueError(f"the query failed: {error}") from None


def _postgres_records(address: str, query: str) -> Records:
    try:
        import psycopg
    except ImportError:
        raise InvalidValueError("PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None
    try:
        with psycopg.connect(address) as connection:
            connection.read_only = True
            with connection.cursor("bdes_log") as cursor:  # of the server: it sends parts
                cursor.itersize = _FETCHED
                cursor.execute(query.encode())
                yield [heading.name for heading in cursor.description or ()]
                yield from cursor
    except psycopg.Error as error:
        said = str(error).strip().split("\n")[0]
        raise InvalidValueError(f"the query failed: {said}") from None


def _of_duckdb(path: Path, name: str, query: str, reading: Reading) -> CheckedRows:
    """Read what a query yields; it is a single SELECT, and sees nothing but this database."""
    real = path.resolve()
    readable = [real, real.with_name(f"{real.name}.wal")]
    with _folder() as folder, LogDatabase(folder, name, readable, reading.on_progress) as database:
        database.rows(f"ATTACH {sql_text(str(real))} AS source (READ_ONLY)")
        database.lock()
        database.rows("USE source")
        statements = database.statements(query)
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            kinds = listed([statement.type.name for statement in statements])
            raise InvalidValueError(f"a query is one SELECT, got {kinds}")
        table = f"({query.strip().rstrip(';')}\n)"
        part = Part(name, table, table_headings(database, table))
        staged = stage(database, [part], reading.columns, reading.on_unused, "memory.main.")
        database.rows("USE memory.main")
        return sorted_rows(database, reading.columns, staged.where, (), reading.strict)
