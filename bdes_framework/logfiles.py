"""Reading a log of pulls from a CSV or Parquet file that may be larger than memory.

The file is read in chunks, once. What a fit needs of a row, five bytes, goes to a temporary
file that is mapped into memory, so that the system keeps as much of it as there is room for.
Rows must be sorted: the rows of a user stand together, in the order they happened. What is
wrong in a file is told by its first bad line; :mod:`bdes_framework.logspool` checks the rows.
"""

import csv
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

from bdes_framework.errors import InvalidValueError
from bdes_framework.logs import Log
from bdes_framework.logspool import BadLineError, Chunk, Columns, Spool
from bdes_framework.text import did_you_mean, listed, quoted

CHUNK = 1 << 10
"""Rows of CSV at a time: their cells, as Python strings, stay in a core's cache."""
_BATCH = 1 << 13


def read_log(
    path: str | PathLike[str],
    columns: Columns | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Log:
    """Read a log from a ``.csv`` file, or a ``.parquet`` one if pyarrow is installed.

    Arms are numbered in the order of their names; white space around a name is no part of it.
    Rows that are unordered, doubled, not binary or incomplete are refused: the first of them,
    by its line (in Parquet, its row, counted from 1).

    Parameters
    ----------
    path : path
        The file.
    columns : Columns
        What its columns are called; ``arm`` and ``reward`` by default, and one sequence.
    on_progress : function or nothing
        Told now and then which part of the file has been read, from 0 to 1.
    """
    file, names = Path(path), columns or Columns()
    reading = _parquet if file.suffix == ".parquet" else _csv
    unit = "row" if file.suffix == ".parquet" else "line"
    # What is mapped into memory stays when its file is closed, and is gone with the log.
    with tempfile.TemporaryFile() as arms, tempfile.TemporaryFile() as rewards:
        spool = Spool(file.name, names, unit, arms, rewards)
        try:
            for chunk, done in reading(file, names):
                spool.add(chunk)
                if on_progress is not None:
                    on_progress(done)
        except BadLineError as bad:
            spool.refuse(bad)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidValueError(f"cannot read {file.name}: {reason}") from None
        return spool.log()


def _csv(file: Path, columns: Columns) -> Iterator[tuple[Chunk, float]]:
    size = max(file.stat().st_size, 1)
    with file.open("rb") as raw:
        # Line by line, so that a line that is not UTF-8 is known by its number.
        first = raw.readline().removeprefix(b"\xef\xbb\xbf")
        reader = csv.reader(map(bytes.decode, chain([first], raw)), strict=True)
        header: list[str] = []
        try:
            header = next(reader, [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise _not_csv(reader.line_num, error) from None
        places = [_place(name, header, file.name) for name in columns.wanted]
        bad: BadLineError | None = None
        while bad is None:
            lines, cells, bad = _rows(reader, len(header))
            if lines:
                values = [cells[place :: len(header)] for place in places]
                yield Chunk(lines, values), raw.tell() / size
            elif bad is None:
                return
        raise bad  # after the rows before it, which may be bad themselves


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
    if header.count(name) != 1:
        what = "has two columns" if name in header else "has no column"
        raise InvalidValueError(
            f"{file}: {what} {quoted(name)}.{did_you_mean(name, header)} It has {listed(header)}"
        )
    return header.index(name)


def _parquet(file: Path, columns: Columns) -> Iterator[tuple[Chunk, float]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InvalidValueError(
            "Parquet files need pyarrow: pip install 'bdes-framework[export]'"
        ) from None
    try:
        with pq.ParquetFile(file) as table:
            for name in columns.wanted:
                _place(name, table.schema_arrow.names, file.name)
            done, total = 0, max(table.metadata.num_rows, 1)
            for batch in table.iter_batches(_BATCH, columns=list(dict.fromkeys(columns.wanted))):
                values = [_plain(batch.column(name), pa) for name in columns.wanted]
                yield Chunk(range(done + 1, done + 1 + batch.num_rows), values), done / total
                done += batch.num_rows
    except pa.ArrowException as error:
        raise InvalidValueError(
            f"{file.name} is not a Parquet file: {quoted(str(error))}"
        ) from None


def _plain(column: Any, pa: Any) -> list[Any]:
    """Return a column as Python values; moments as whole numbers, which keep every digit."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if value is not None and math.isnan(value) else value for value in values]
    return values
