"""Read a log of pulls from files, folders, pipes and databases, and sort and check it.

DuckDB does the work, in a private database that spills to disk: a log may be larger than memory.
What a fit needs of a row, five bytes, goes to a temporary file that is mapped into memory. Without
DuckDB, CSV files that are sorted are read row by row.
"""

from collections.abc import Callable
from os import PathLike
from typing import IO

from bdes_framework._internal.text import without_password
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.log_sources import Reading, read_rows
from bdes_framework.fitting.rows import BadRows, Columns, warn_of_bad_rows


def read_log(
    path: str | PathLike[str] | IO[bytes],
    columns: Columns | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_unused: Callable[[list[str]], None] | None = None,
    *,
    on_bad: Callable[[list[BadRows]], None] | None = None,
    strict: bool = False,
    query: str | None = None,
    encoding: str = "utf-8",
) -> Log:
    """Read a log, sort it by user and order, and check it.

    Arms are numbered in the order of their names, users in the order in which they first appear;
    white space around a name is no part of it. A missing reward is one that is not known. Rows
    that are bad are left out, or, if only their reward is, kept without it; where they are more
    than 1 %, InvalidValueError names the first by its line (in Parquet and databases, its row,
    counted from 1).

    Parameters
    ----------
    path : str | PathLike[str] | IO[bytes]
        CSV, or with the extra ``logs``: Parquet, a folder of files of one kind, in which names of
        folders such as ``day=2024-01-31`` are a column, a database of DuckDB or SQLite, or the
        address ``postgresql://...`` of one. CSV may be compressed and come through a pipe.
    columns : Columns | None
        What its columns are called; ``arm`` and ``reward`` by default, and one sequence.
    on_progress : Callable | None
        Called now and then with the part of the work that is done, from 0 to 1.
    on_unused : Callable | None
        Called with the names of the columns that are not read, if there are any.
    on_bad : Callable | None
        Called with the kinds of bad rows, if there are any; without it they are a warning.
    strict : bool
        Whether a single bad row is an error.
    query : str | None
        The rows of a database: one SELECT.
    encoding : str
        How CSV is written; UTF-8 and UTF-16 are known by their byte-order marks.
    """
    named = columns or Columns()
    reading = Reading(named, on_progress, on_unused, strict, query, encoding)
    try:
        rows = read_rows(path, reading)
    except InvalidValueError as error:
        said = _without_passwords(str(error), path)
        if said == str(error):
            raise
        raise InvalidValueError(said) from None
    if rows.bad and on_bad is not None:
        on_bad(rows.bad)
    else:
        warn_of_bad_rows(rows.bad)
    return Log(*rows[:-1])


def _without_passwords(message: str, path: str | PathLike[str] | IO[bytes]) -> str:
    """Return what is wrong with a log, with the password masked where its address is named."""
    if not isinstance(path, str | PathLike):
        return message
    address = str(path)
    masked = without_password(address)
    return message if masked == address else message.replace(address, masked)
