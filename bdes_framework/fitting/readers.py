"""Reading a log of pulls from CSV or Parquet, in a file or a pipe, that may not fit in memory.

The log is read in chunks, once. What a fit needs of a row, five bytes, goes to a temporary
file that is mapped into memory, so that the system keeps as much of it as there is room for.
Rows must be sorted: the rows of a user stand together, in the order they happened. What is
wrong in a file is told by its first bad line; :mod:`bdes_framework.fitting.spool` checks the rows.
"""

import csv
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.spool import BadLineError, Chunk, Columns, Spool, no_room

CHUNK = 1 << 10
"""Rows of CSV at a time: their cells, as Python strings, stay in a core's cache."""
_BATCH = 1 << 13
_PARQUET = b"PAR1"
_UNPACKED_BY = {
    b"\x1f\x8b": "zcat",
    b"BZh": "bzcat",
    b"\xfd7zXZ": "xzcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
}
"""The first bytes of compressed files, and what makes text of them."""


def read_log(
    path: str | PathLike[str] | IO[bytes],
    columns: Columns | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_unused: Callable[[list[str]], None] | None = None,
) -> Log:
    """Read a log from CSV, or from Parquet if pyarrow is installed.

    Arms are numbered in the order of their names; white space around a name is no part of it.
    Rows that are unordered, doubled, not binary or incomplete are refused: the first of them,
    by its line (in Parquet, its row, counted from 1).

    Parameters
    ----------
    path : path, or open binary file
        The log; CSV may come through a pipe. Parquet is known by its first bytes.
    columns : Columns
        What its columns are called; ``arm`` and ``reward`` by default, and one sequence.
    on_progress : function or nothing
        Told now and then which part of the file has been read, from 0 to 1; of a pipe nobody
        knows, and it is 0.
    on_unused : function or nothing
        Told the names of the columns that are there and not read, if there are any.
    """
    names, shown = columns or Columns(), _shown(path)
    try:
        if isinstance(path, str | PathLike) and Path(path).is_dir():
            raise InvalidValueError(f"cannot read {shown}: it is a folder, not a file")
        with _opened(path) as raw:
            return _kept(_Table(raw, shown, names, on_unused), on_progress)
    except OSError as error:
        raise InvalidValueError(f"cannot read {shown}: {error.strerror or error}") from None


def _shown(path: str | PathLike[str] | IO[bytes]) -> str:
    """Return what to call a log."""
    if not isinstance(path, str | PathLike):
        return str(getattr(path, "name", "log"))
    file = Path(path)
    with suppress(OSError):
        if file.is_fifo():  # its own name is a mere number
            return str(file)
    return file.name or str(file)


def _opened(path: str | PathLike[str] | IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """Return a log to be read; what was open stays open."""
    return Path(path).open("rb") if isinstance(path, str | PathLike) else nullcontext(path)


@frozen
class _Table:
    """A log to be read."""

    raw: IO[bytes]
    name: str
    columns: Columns
    on_unused: Callable[[list[str]], None] | None

    def places(self, header: Sequence[str]) -> list[int]:
        """Return where the wanted columns are, and tell of those that are not wanted."""
        headings = [heading.strip() for heading in header]
        places = [_place(name.strip(), headings, self.name) for name in self.columns.wanted]
        # Tools write the numbers of rows into a column without a heading.
        unused = [name or "(unnamed)" for i, name in enumerate(headings) if i not in places]
        if unused and self.on_unused is not None:
            self.on_unused(unused)
        return places


def _kept(table: _Table, on_progress: Callable[[float], None] | None) -> Log:
    first = table.raw.readline()
    if isinstance(first, str):
        raise InvalidValueError(f"{table.name} is open as text: open it in binary mode, 'rb'")
    for magic, tool in _UNPACKED_BY.items():
        if first.startswith(magic):
            raise InvalidValueError(
                f"{table.name} is compressed: pipe it through {tool} into 'bdes fit -'"
            )
    is_parquet = first.startswith(_PARQUET) or table.name.endswith(".parquet")
    rows = _parquet(table) if is_parquet else _csv(table, first)
    # What is mapped into memory stays when its file is closed, and is gone with the log.
    with _temporary() as arms, _temporary() as rewards:
        spool = Spool(table.name, table.columns, "row" if is_parquet else "line", arms, rewards)
        try:
            for chunk, done in rows:
                spool.add(chunk)
                if on_progress is not None:
                    on_progress(done)
        except BadLineError as bad:
            spool.refuse(bad)
        return spool.log()


def _temporary() -> IO[bytes]:
    """Return a file that nobody else sees; unbuffered, so that no write fails later on."""
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        raise no_room(error) from None


def _csv(table: _Table, first: bytes) -> Iterator[tuple[Chunk, float]]:
    raw, size = table.raw, _size(table.raw)
    # Line by line, so that a line that is not UTF-8 is known by its number.
    lines_of_text = map(bytes.decode, chain([first.removeprefix(b"\xef\xbb\xbf")], raw))
    reader = csv.reader(lines_of_text, strict=True, skipinitialspace=True)
    header: list[str] = []
    try:
        header = next(filter(None, reader), [])
    except (csv.Error, UnicodeDecodeError) as error:
        raise _not_csv(reader.line_num, error) from None
    if not header:
        raise InvalidValueError(f"{table.name}: is empty")
    places = table.places(header)
    bad: BadLineError | None = None
    while bad is None:
        lines, cells, bad = _rows(reader, len(header))
        if lines:
            values = [cells[place :: len(header)] for place in places]
            yield Chunk(lines, values), raw.tell() / size if size else 0.0
        elif bad is None:
            return
    raise bad  # after the rows before it, which may be bad themselves


def _size(raw: IO[bytes]) -> int:
    """Return how many bytes there are; 0 for a pipe, of which nobody knows."""
    if not raw.seekable():
        return 0
    here = raw.tell()
    size = raw.seek(0, os.SEEK_END)
    raw.seek(here)
    return size


def _rows(reader: Any, width: int) -> tuple[list[int], list[str], BadLineError | None]:
    """Return the lines of the next rows, their cells one after the other, and what ended them."""
    lines: list[int] = []
    cells: list[str] = []
    try:
        for row in islice(reader, CHUNK):
            if len(row) == width:
                cells.extend(row)
                lines.append(reader.line_num)
            elif row:
                problem = (
                    f"has {len(row)} fields where the header has {width} (is a comma unquoted?)"
                )
                return lines, cells, BadLineError(reader.line_num, problem)
    except (csv.Error, UnicodeDecodeError) as error:
        return lines, cells, _not_csv(reader.line_num, error)
    return lines, cells, None


def _not_csv(line: int, error: Exception) -> BadLineError:
    """Say what is wrong; the reader has not counted a line that it could not have."""
    if isinstance(error, UnicodeDecodeError):
        return BadLineError(line + 1, f"is not CSV: it is not UTF-8 ({error.reason})")
    return BadLineError(line, f"is not CSV: {error}")


def _place(name: str, header: Sequence[str], file: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    if name in header:
        raise InvalidValueError(f"{file}: has two columns {quoted(name)}")
    problem = f"{file}: has no column {quoted(name)}."
    separators = [mark for mark in ";\t|" if len(header) == 1 and mark in header[0]]
    if separators:
        raise InvalidValueError(
            f"{problem} Fields are separated by commas, its only heading is {quoted(header[0])}:"
            f" is the file separated by {quoted(separators[0])}?"
        )
    raise InvalidValueError(f"{problem}{did_you_mean(name, header)} It has {listed(header)}")


def _parquet(table: _Table) -> Iterator[tuple[Chunk, float]]:
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
            wanted = [headings[place] for place in table.places(headings)]
            done, total = 0, max(parquet.metadata.num_rows, 1)
            for batch in parquet.iter_batches(_BATCH, columns=wanted):
                values = [_plain(batch.column(name), pa) for name in wanted]
                yield Chunk(range(done + 1, done + 1 + batch.num_rows), values), done / total
                done += batch.num_rows
    except pa.ArrowException as error:
        raise InvalidValueError(
            f"{table.name} is not a Parquet file: {quoted(str(error))}"
        ) from None


def _plain(column: Any, pa: Any) -> list[Any]:
    """Return a column as Python values; moments as whole numbers, which keep every digit."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if value is not None and math.isnan(value) else value for value in values]
    return values
