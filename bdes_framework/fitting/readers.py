"""Read a log of pulls from CSV or Parquet, in a file or a pipe, that may not fit in memory.

The log is read in chunks, once. What a fit needs of a row, five bytes, goes to a temporary
file that is mapped into memory, so that the system keeps as much of it as there is room for.
Rows must be sorted: the rows of a user stand together, in the order they happened. The error
for a bad file names its first bad line.
"""

import csv
import math
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.rows import (
    BadLineError,
    Chunk,
    Columns,
    checked_log_rows,
    column_places,
)

CSV_CHUNK = 1 << 10
"""Rows of CSV at a time: their cells, as Python strings, stay in a core's cache."""
_PARQUET_CHUNK = 1 << 13
_PARQUET_MAGIC = b"PAR1"
_DECOMPRESSORS = {
    b"\x1f\x8b": "zcat",
    b"BZh": "bzcat",
    b"\xfd7zXZ": "xzcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
}
"""The first bytes of compressed files, and the tools that decompress them."""


def read_log(
    path: str | PathLike[str] | IO[bytes],
    columns: Columns | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_unused: Callable[[list[str]], None] | None = None,
) -> Log:
    """Read a log from CSV, or from Parquet if pyarrow is installed.

    Arms are numbered in the order of their names; white space around a name is no part of it.
    Rows that are unordered, doubled, not binary or incomplete raise InvalidValueError, which
    names the first by its line (in Parquet, its row, counted from 1).

    Parameters
    ----------
    path : str | PathLike[str] | IO[bytes]
        The log; CSV may come through a pipe. Parquet is known by its first bytes.
    columns : Columns | None
        What its columns are called; ``arm`` and ``reward`` by default, and one sequence.
    on_progress : Callable | None
        Called now and then with the part of the file that has been read, from 0 to 1; for a
        pipe it is 0.
    on_unused : Callable | None
        Called with the names of the columns that are not read, if there are any.
    """
    names, shown = columns or Columns(), _display_name(path)
    try:
        if not isinstance(path, str | PathLike):
            return _read_rows(_Table(path, shown, names, on_unused), on_progress)
        if Path(path).is_dir():
            raise InvalidValueError(f"cannot read {path}: it is a folder, not a file")
        with Path(path).open("rb") as raw:
            return _read_rows(_Table(raw, shown, names, on_unused), on_progress)
    except OSError as error:
        place = path if isinstance(path, str | PathLike) else shown
        raise InvalidValueError(f"cannot read {place}: {error.strerror or error}") from None


def _display_name(path: str | PathLike[str] | IO[bytes]) -> str:
    """Return the name of a log in error messages."""
    if not isinstance(path, str | PathLike):
        return str(getattr(path, "name", "log"))
    file = Path(path)
    with suppress(OSError):
        if file.is_fifo():  # its own name is a mere number
            return str(file)
    return file.name or str(file)


@frozen
class _Table:
    """An open log file and the columns to read of it."""

    raw: IO[bytes]
    name: str
    columns: Columns
    on_unused: Callable[[list[str]], None] | None

    def column_indices(self, header: Sequence[str]) -> list[int]:
        """Return the indices of the wanted columns, and report the columns that are not read."""
        places = column_places(header, self.columns, self.name)
        # Tools write the numbers of rows into a column without a heading.
        unused = [name.strip() or "(unnamed)" for i, name in enumerate(header) if i not in places]
        if unused and self.on_unused is not None:
            self.on_unused(unused)
        return places


def _read_rows(table: _Table, on_progress: Callable[[float], None] | None) -> Log:
    _check_has_end(table)
    first = table.raw.readline()
    if isinstance(first, str):
        raise InvalidValueError(f"{table.name} is open as text: open it in binary mode, 'rb'")
    for magic, tool in _DECOMPRESSORS.items():
        if first.startswith(magic):
            raise InvalidValueError(
                f"{table.name} is compressed: pipe it through {tool} into 'bdes fit -'"
            )
    is_parquet = first.startswith(_PARQUET_MAGIC) or table.name.endswith(".parquet")
    rows = _parquet_chunks(table) if is_parquet else _csv_chunks(table, first)
    chunks = _with_progress(rows, on_progress)
    unit = "row" if is_parquet else "line"
    return Log(*checked_log_rows(chunks, table.columns, table.name, unit))


def _with_progress(
    rows: Iterator[tuple[Chunk, float]], on_progress: Callable[[float], None] | None
) -> Iterator[Chunk]:
    """Yield chunks; after each, say which part of the file has been read."""
    for chunk, done in rows:
        yield chunk
        if on_progress is not None:
            on_progress(done)


def _check_has_end(table: _Table) -> None:
    """Raise if a log is a device such as /dev/zero: no file, pipe or terminal."""
    with suppress(OSError, AttributeError):  # a log in memory has no number
        number = table.raw.fileno()
        if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
            raise InvalidValueError(f"{table.name} is a device: give a file or a pipe")


def _csv_chunks(table: _Table, first: bytes) -> Iterator[tuple[Chunk, float]]:
    raw, size = table.raw, _file_size(table.raw)
    # Line by line, so that a line that is not UTF-8 is known by its number.
    lines_of_text = map(bytes.decode, chain([first.removeprefix(b"\xef\xbb\xbf")], raw))
    reader = csv.reader(lines_of_text, strict=True, skipinitialspace=True)
    with _csv_errors(reader):
        header = next(filter(None, reader), [])
    if not header:
        raise InvalidValueError(f"{table.name}: is empty")
    width, places, bad = len(header), table.column_indices(header), None
    while bad is None:
        lines: list[int] = []
        cells: list[str] = []
        try:
            with _csv_errors(reader):
                for row in islice(reader, CSV_CHUNK):
                    if len(row) == width:
                        cells.extend(row)
                        lines.append(reader.line_num)
                    elif row:
                        fields = f"has {len(row)} fields where the header has {width}"
                        raise BadLineError(reader.line_num, f"{fields} (is a comma unquoted?)")
        except BadLineError as error:
            bad = error
        if lines:
            values = [cells[place::width] for place in places]
            yield Chunk(lines, values), raw.tell() / size if size else 0.0
        elif bad is None:
            return
    raise bad  # after the rows before it, which may be bad themselves


@contextmanager
def _csv_errors(reader: Any) -> Iterator[None]:
    """Name the line that is not CSV; one that is not UTF-8 was not counted."""
    try:
        yield
    except UnicodeDecodeError as error:
        problem = f"is not CSV: it is not UTF-8 ({error.reason})"
        raise BadLineError(reader.line_num + 1, problem) from None
    except csv.Error as error:
        raise BadLineError(reader.line_num, f"is not CSV: {error}") from None


def _file_size(raw: IO[bytes]) -> int:
    """Return the size of a file in bytes; 0 for a pipe."""
    if not raw.seekable():
        return 0
    here, size = raw.tell(), raw.seek(0, os.SEEK_END)
    raw.seek(here)
    return size


def _parquet_chunks(table: _Table) -> Iterator[tuple[Chunk, float]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InvalidValueError(
            "Parquet files need pyarrow: pip install 'bdes-framework[export]'"
        ) from None
    if not table.raw.seekable():
        raise InvalidValueError(
            f"{table.name}: Parquet cannot be read from a pipe, as it is read from its end:"
            " give the file itself"
        )
    table.raw.seek(0)
    try:
        with pq.ParquetFile(table.raw) as parquet:
            headings = parquet.schema_arrow.names
            wanted = [headings[place] for place in table.column_indices(headings)]
            done, total = 0, max(parquet.metadata.num_rows, 1)
            for batch in parquet.iter_batches(_PARQUET_CHUNK, columns=wanted):
                values = [_python_values(batch.column(name), pa) for name in wanted]
                yield Chunk(range(done + 1, done + 1 + batch.num_rows), values), done / total
                done += batch.num_rows
    except (pa.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise InvalidValueError(
            f"{table.name} is not a Parquet file: {quoted(str(error))}"
        ) from None


def _python_values(column: Any, pa: Any) -> list[Any]:
    """Return a column as Python values; timestamps as integers, which keep every digit."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if value is not None and math.isnan(value) else value for value in values]
    return values
