"""How a CSV file is written: encoding, separator and header; and which line a row is on."""

import bz2
import codecs
import csv
import gzip
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.rows import Columns, has_columns

_SEPARATORS = ",;\t|"
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
ZSTD = b"\x28\xb5\x2f\xfd"
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_BLOCK = 1 << 20


@frozen
class CsvForm:
    """How a CSV file is written.

    Parameters
    ----------
    separator : str
        What stands between fields.
    header : list[str]
        The headings.
    n_skipped : int
        Records up to the header, blank ones and itself included.
    """

    separator: str
    header: list[str]
    n_skipped: int


def is_compressed(start: bytes) -> bool:
    """Return whether the first bytes are those of a compressed file that Python can read."""
    return start.startswith(tuple(_OPENERS))


def open_plain(path: Path) -> IO[bytes]:
    """Open a file for reading; what is compressed is decompressed."""
    with path.open("rb") as file:
        start = file.read(8)
    for magic, opener in _OPENERS.items():
        if start.startswith(magic):
            opened: IO[bytes] = opener(path, "rb")
            return opened
    return path.open("rb")


def encoding_of(start: bytes, given: str) -> str:
    """Return the encoding of a text by its first bytes, or as given."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return encoding
    return given


def read_form(lines: Iterator[str], columns: Columns, source: str) -> CsvForm:
    """Return how a file is written: the separator is the one by which it has the wanted columns."""
    blank, first = 0, next(lines, None)
    while first is not None and not first.strip():
        blank, first = blank + 1, next(lines, None)
    if first is None:
        raise InvalidValueError(f"{source}: is empty")
    rest = list(lines)
    found: dict[str, list[str]] = {}
    for separator in _SEPARATORS:
        reader = csv.reader(chain([first], rest), delimiter=separator, skipinitialspace=True)
        try:
            found[separator] = next(reader, [])
        except csv.Error as error:
            raise not_csv(source, blank + 1, error) from None
        if has_columns(found[separator], columns):
            return CsvForm(separator, found[separator], blank + 1)
    widest = max(found, key=lambda separator: len(found[separator]))
    return CsvForm(widest, found[widest], blank + 1)


def not_csv(source: str, line: int, error: csv.Error) -> InvalidValueError:
    """Return the error for a line that Python cannot read as CSV."""
    said = str(error)
    if "new-line" in said:  # it goes on with advice on how to open files in Python
        said = "a carriage return stands alone: end lines with a line feed, or with both"
    return InvalidValueError(f"{source}, line {line}: is not CSV: {said}")


@contextmanager
def encoding_errors(source: str, encoding: str) -> Iterator[None]:
    """Say that a file is not written in the encoding it was taken for."""
    try:
        yield
    except UnicodeError as error:
        reason = getattr(error, "reason", str(error))
        raise InvalidValueError(f"{source} is not {encoding}: {reason}") from None
    except LookupError:
        raise InvalidValueError(f"there is no encoding {quoted(encoding)}") from None


def line_of_row(path: Path, form: CsvForm, row: int) -> int | None:
    """Return the line on which a row ends, of the rows that have all fields; None if unknown."""
    width = len(form.header)
    with open_plain(path) as raw:
        text = (line.decode("utf-8", "replace") for line in raw)
        reader = csv.reader(text, delimiter=form.separator, skipinitialspace=True)
        skipped = 0
        try:
            for cells in reader:
                skipped += 1
                if skipped <= form.n_skipped or not _is_whole(cells, width):
                    continue
                if row == 0:
                    return reader.line_num
                row -= 1
        except (csv.Error, OSError, EOFError):
            return None
    return None


def _is_whole(cells: Sequence[str], width: int) -> bool:
    """Return whether DuckDB takes a record for a row: a separator may follow the last field."""
    if len(cells) == width + 1 and not cells[-1]:
        return True
    return len(cells) == width and not any("\ufffd" in cell for cell in cells)


def line_of_byte(path: Path, position: int) -> int:
    """Return the line that begins at some byte, or after line breaks there."""
    line = 1
    with open_plain(path) as raw:
        while position > 0:
            block = raw.read(min(position, _BLOCK))
            if not block:
                return line
            position -= len(block)
            line += block.count(b"\n")
        following = raw.read(_BLOCK)
    return line + following[: len(following) - len(following.lstrip(b"\r\n"))].count(b"\n")
