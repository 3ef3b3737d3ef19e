"""CSV without DuckDB: small files whose rows are sorted already, read and checked in Python."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path

import numpy as np

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.csv_form import (
    CsvForm,
    encoding_errors,
    encoding_of,
    not_csv,
    open_plain,
    read_form,
)
from bdes_framework.fitting.log_database import EXTRA
from bdes_framework.fitting.rows import (
    MAX_LOG_ARMS,
    BadValueError,
    CheckedRows,
    Columns,
    arm_name,
    clean_text,
    is_missing,
    is_number,
    missing_problem,
    numbered_names,
    read_header,
    reward_code,
    too_many_arms,
)

_HEAD = 100
"""Lines among which the header is."""
_SORT = f"sort the file by user, then by order, or {EXTRA} to have it sorted"
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}(\d+)")
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sorted_csv(
    path: Path,
    source: str,
    columns: Columns,
    encoding: str,
    on_unused: Callable[[list[str]], None] | None,
) -> CheckedRows:
    """Return the rows of a CSV file; raise InvalidValueError for the first bad row."""
    with open_plain(path) as raw:
        found = encoding_of(raw.read(4), encoding)
    with (
        encoding_errors(source, found),
        open_plain(path) as raw,
        io.TextIOWrapper(raw, encoding=found, newline="") as text,
    ):
        form = read_form(islice(text, _HEAD), columns, source)
        header = read_header(form.header, columns, source)
        if header.unused and on_unused is not None:
            on_unused(header.unused)
        text.seek(0)
        rows = _Rows(source, columns)
        for line, cells in _records(text, form, source):
            rows.line = line
            rows.add({role: cells[place] for role, place in header.places.items()})
        return rows.taken()


def _records(lines: Iterator[str], form: CsvForm, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records after the header, with their lines."""
    reader = csv.reader(lines, delimiter=form.separator, skipinitialspace=True, strict=True)
    width, skipped = len(form.header), 0
    try:
        for cells in reader:
            skipped += 1
            if skipped <= form.n_skipped or not cells:
                continue
            if len(cells) != width:
                raise InvalidValueError(
                    f"{source}, line {reader.line_num}: has {len(cells)} fields where the header"
                    f" has {width} (is a separator unquoted?)"
                )
            yield reader.line_num, cells
    except csv.Error as error:
        raise not_csv(source, reader.line_num, error) from None


class _Rows:
    """Rows that are checked one after the other."""

    def __init__(self, source: str, columns: Columns) -> None:
        self._source, self._roles = source, columns.by_role
        self.line = 0
        self._names: dict[str, int] = {}
        self._codes: dict[str, list[float]] = {role: [] for role in self._roles}
        self._starts: list[int] = []
        self._users: set[str] = set()
        self._strata: dict[str, int] = {}
        self._user: str | None = None
        self._last: Decimal | int | None = None
        self._kind: str | None = None

    def add(self, cells: dict[str, str]) -> None:
        """Check and keep a row."""
        try:
            self._add(cells)
        except BadValueError as error:
            raise InvalidValueError(f"{self._source}, line {self.line}: {error}") from None

    def _add(self, cells: dict[str, str]) -> None:
        user = clean_text(cells["user"]) if "user" in cells else "everybody"
        for role in ("user", "order", "propensity", "strata"):
            if role in cells and is_missing(cells[role]):
                raise BadValueError(missing_problem(self._roles[role], cells[role]))
        n_rows = len(self._codes["arm"])
        if user != self._user:
            if user in self._users:
                raise BadValueError(f"this user had rows before: {_SORT}")
            self._users.add(user)
            self._starts.append(n_rows)
            self._user, self._last = user, None
        if "order" in cells:
            self._check_order(cells["order"])
        name = arm_name(cells["arm"], self._roles["arm"])
        if name not in self._names and len(self._names) >= MAX_LOG_ARMS:
            raise BadValueError(too_many_arms(self._roles["arm"]))
        codes = self._codes
        codes["reward"].append(reward_code(cells["reward"]))
        if "propensity" in cells:
            codes["propensity"].append(_propensity(cells["propensity"]))
        if "strata" in cells:
            stratum = clean_text(cells["strata"])
            codes["strata"].append(self._strata.setdefault(stratum, len(self._strata)))
        codes["arm"].append(self._names.setdefault(name, len(self._names)))

    def _check_order(self, cell: str) -> None:
        """Raise if a row comes before the one above; equal ones stay as they are."""
        kind, place = _place(cell)
        if self._kind is None:
            self._kind = kind
        if kind != self._kind:
            raise BadValueError(f"order {quoted(cell)} is {kind}, and the first is {self._kind}")
        if self._last is not None and place < self._last:
            raise BadValueError(f"order {quoted(cell)} comes after a later one: {_SORT}")
        self._last = place

    def taken(self) -> CheckedRows:
        """Return all rows."""
        if not self._starts:
            raise InvalidValueError(f"{self._source}: has no rows")
        numbers, ordered = numbered_names(list(self._names))
        rank = np.array([numbers[name] for name in self._names])
        types = {"propensity": np.float64, "strata": np.int32}
        more = [
            np.array(self._codes[role], dtype) if role in self._codes else None
            for role, dtype in types.items()
        ]
        return CheckedRows(
            rank[np.array(self._codes["arm"], np.int64)].astype(np.int32),
            np.array(self._codes["reward"], np.int8),
            np.array(self._starts, np.int64),
            ordered,
            more[0],
            more[1],
            [],
        )


def _propensity(cell: str) -> float:
    text = clean_text(cell)
    if not is_number(text) or not 0 < float(text) <= 1:
        raise BadValueError(f"a propensity is a number above 0 and at most 1, got {quoted(text)}")
    return float(text)


def _place(cell: str) -> tuple[str, Decimal | int]:
    """Return what kind of order a cell is, and a number to compare it by."""
    text = clean_text(cell)
    if is_number(text):
        return "a number", Decimal(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "is no finite number and no ISO 8601 moment"
        raise BadValueError(f"order {quoted(text)} {expected}") from None
    zoned = moment.tzinfo is not None
    known = moment if zoned else moment.replace(tzinfo=UTC)
    fraction = _BEYOND_MICROSECONDS.search(text)
    nanoseconds = int(fraction[1].ljust(3, "0")[:3]) if fraction else 0
    place = (known - _UNIX_EPOCH) // timedelta(microseconds=1) * 1000 + nanoseconds
    return f"a moment {'with' if zoned else 'without'} a time zone", place
