"""Reading a log of pulls from a CSV or Parquet file that may be larger than memory.

The file is read in chunks, once. What a fit needs of a row, five bytes, goes to a temporary
file that is mapped into memory, so that the system keeps as much of it as there is room for.
Rows must be sorted: the rows of a user stand together, in the order they happened.
"""

import csv
import hashlib
import math
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from io import TextIOWrapper
from itertools import islice
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from bdes_framework.errors import InvalidValueError
from bdes_framework.logs import MOST_ARMS, Log
from bdes_framework.text import did_you_mean, listed, quoted

CHUNK = 1 << 13
LONGEST_NAME = 200

_REWARDS: Mapping[object, int] = {
    **dict.fromkeys(["0", "0.0", "false", "False", "FALSE", 0], 0),
    **dict.fromkeys(["1", "1.0", "true", "True", "TRUE", 1], 1),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Columns:
    """What the columns of a log file are called.

    Parameters
    ----------
    arm, reward : str
        The arm played, any text or number; what it paid, 0 or 1.
    user : str or nothing
        Whose state it was. Without it, the whole file is one sequence.
    order : str or nothing
        A number, or an ISO 8601 date and time, that increases from row to row of a user.
        Without it, rows are taken to be in order.
    """

    arm: str = "arm"
    reward: str = "reward"
    user: str | None = None
    order: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The columns to read, in the order arm, reward, user, order."""
        extra = [name for name in (self.user, self.order) if name is not None]
        return [self.arm, self.reward, *extra]


class _Chunk(NamedTuple):
    lines: Sequence[int]
    values: Sequence[Sequence[Any]]
    """One sequence per wanted column; None or "" where a value is missing."""


def read_log(
    path: str | PathLike[str],
    columns: Columns | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> Log:
    """Read a log from a ``.csv`` file, or a ``.parquet`` one if pyarrow is installed.

    Arms are numbered in the order of their names. Rows that are unordered, doubled, not
    binary or incomplete are refused, by their line (in Parquet, their row, counted from 1).

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
        spool = _Spool(file.name, names, unit, arms, rewards)
        try:
            for chunk, done in reading(file, names):
                spool.add(chunk)
                if on_progress is not None:
                    on_progress(done)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidValueError(f"cannot read {file.name}: {reason}") from None
        return spool.log()


def _csv(file: Path, columns: Columns) -> Iterator[tuple[_Chunk, float]]:
    size = max(file.stat().st_size, 1)
    with file.open("rb") as raw:
        text = TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, strict=True)
        try:
            header = next(reader, [])
            places = [_place(name, header, file.name) for name in columns.wanted]
            pick = itemgetter(*places)
            before = reader.line_num
            while read := list(islice(reader, CHUNK)):
                lines = _lines(read, before, reader.line_num)
                before = reader.line_num
                rows = [row for row in read if row]
                if set(map(len, rows)) - {len(header)}:
                    index = next(i for i, row in enumerate(rows) if len(row) != len(header))
                    raise InvalidValueError(
                        f"{file.name}, line {lines[index]}: has {len(rows[index])} fields where"
                        f" the header has {len(header)} (is a comma unquoted?)"
                    )
                if rows:
                    values = list(zip(*map(pick, rows), strict=True))
                    yield _Chunk(lines, values), raw.tell() / size
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"{file.name}, line {reader.line_num}"
            raise InvalidValueError(f"{where}: is not CSV: {error}") from None


def _digest(user: object) -> int:
    """Return 63 bits of a user's name; Python's own hash gives -1 and -2 the same."""
    name = str(user).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) >> 1


def _lines(rows: Sequence[Sequence[str]], before: int, after: int) -> Sequence[int]:
    """Return the last line of each row that is not blank, given the lines around them."""
    if after - before == len(rows) and all(rows):
        return range(before + 1, after + 1)
    found = []
    for row in rows:
        text = "".join(row)
        before += 1 + text.count("\n") + text.count("\r") - text.count("\r\n")
        if row:
            found.append(before)
    return found


def _place(name: str, header: Sequence[str], file: str) -> int:
    if header.count(name) != 1:
        what = "has two columns" if name in header else "has no column"
        raise InvalidValueError(
            f"{file}: {what} {quoted(name)}.{did_you_mean(name, header)} It has {listed(header)}"
        )
    return header.index(name)


def _parquet(file: Path, columns: Columns) -> Iterator[tuple[_Chunk, float]]:
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
            for batch in table.iter_batches(CHUNK, columns=list(dict.fromkeys(columns.wanted))):
                values = [_plain(batch.column(name), pa) for name in columns.wanted]
                yield _Chunk(range(done + 1, done + 1 + batch.num_rows), values), done / total
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


def _is_number(value: object) -> bool:
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _name_key(name: str) -> tuple[bool, float, str]:
    """Sort numbers as numbers, and before words."""
    number = _is_number(name)
    return not number, float(name) if number else 0.0, name


@define
class _Spool:
    """Checks chunk after chunk, and keeps five bytes a row."""

    _file: str
    _columns: Columns
    _unit: str
    _arms: IO[bytes]
    _rewards: IO[bytes]
    _numbers: dict[str, int] = field(factory=dict)
    _starts: "array[int]" = field(factory=lambda: array("q"))
    _start_lines: "array[int]" = field(factory=lambda: array("q"))
    _user_hashes: "array[int]" = field(factory=lambda: array("q"))
    _n_rows: int = 0
    _last_user: object = None
    _last_order: float | None = None
    _moments: bool = False

    def add(self, chunk: _Chunk) -> None:
        for name, values in zip(self._columns.wanted, chunk.values, strict=True):
            if None in values or "" in values:
                index = next(i for i, value in enumerate(values) if value is None or value == "")
                self._refuse(chunk, index, f"column {quoted(name)} is missing")
        arms, rewards, *extra = chunk.values
        users = extra.pop(0) if self._columns.user is not None else None
        orders = extra.pop(0) if self._columns.order is not None else None
        begins = self._begins(chunk, users)
        if orders is not None:
            self._check_order(chunk, orders, begins)
        self._rewards.write(self._as_rewards(chunk, rewards).tobytes())
        self._arms.write(self._as_arms(chunk, arms).tobytes())
        self._n_rows += len(chunk.lines)

    def log(self) -> Log:
        """Return the log, after the checks that need all of it."""
        if not self._n_rows:
            raise InvalidValueError(f"{self._file}: has no rows")
        hashes = np.frombuffer(self._user_hashes, dtype=np.int64)
        order = np.argsort(hashes, kind="stable")
        again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1]) + 1
        if again.size:
            line = self._start_lines[int(order[again].min())]
            raise InvalidValueError(
                f"{self._file}, {self._unit} {line}: this user had rows before: sort the file by"
                " user, then by order"
            )
        names = sorted(self._numbers, key=_name_key)
        rank = np.empty(len(names), dtype=np.int32)
        rank[[self._numbers[name] for name in names]] = np.arange(len(names))
        arms = self._mapped(self._arms, np.dtype(np.int32))
        for begin in range(0, self._n_rows, CHUNK):
            arms[begin : begin + CHUNK] = rank[arms[begin : begin + CHUNK]]
        rewards = self._mapped(self._rewards, np.dtype(np.int8))
        return Log(arms, rewards, np.array(self._starts, dtype=np.int64), names)

    def _mapped(self, file: IO[bytes], dtype: "np.dtype[Any]") -> NDArray[Any]:
        file.flush()
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=(self._n_rows,)))

    def _begins(self, chunk: _Chunk, users: Sequence[object] | None) -> NDArray[np.bool_]:
        """Say which rows begin a sequence, and note them."""
        if users is None:
            begins = np.zeros(len(chunk.lines), dtype=np.bool_)
            begins[0] = self._n_rows == 0
        else:
            before = [self._last_user, *users[:-1]]
            begins = np.array([a != b for a, b in zip(before, users, strict=True)])
            self._last_user = users[-1]
        for index in np.flatnonzero(begins).tolist():
            self._starts.append(self._n_rows + index)
            self._start_lines.append(chunk.lines[index])
            if users is not None:
                self._user_hashes.append(_digest(users[index]))
        return begins

    def _check_order(self, chunk: _Chunk, orders: Sequence[Any], begins: NDArray[np.bool_]) -> None:
        if self._n_rows == 0:  # the first row decides for the file
            self._moments = not _is_number(orders[0])
        values = self._as_orders(chunk, orders)
        before = np.concatenate([values[:1], values[:-1]])
        if self._last_order is not None:
            before[0] = self._last_order
        self._last_order = values[-1]
        wrong = np.flatnonzero(~((values > before) | begins))
        if wrong.size:
            index = int(wrong[0])
            same = values[index] == before[index]
            problem = "is there twice" if same else "comes after a later one"
            self._refuse(chunk, index, f"order {quoted(orders[index])} {problem}")

    def _as_orders(self, chunk: _Chunk, orders: Sequence[Any]) -> NDArray[Any]:
        """Return numbers or moments as comparable numbers; whole ones keep every digit."""
        if self._moments:
            moments = [self._moment(chunk, index, value) for index, value in enumerate(orders)]
            return np.array(moments, dtype=np.int64)
        if isinstance(orders[0], int | str):
            with suppress(ValueError, OverflowError):
                return np.array([int(value) for value in orders], dtype=np.int64)
        for index, value in enumerate(orders):
            if not _is_number(value):
                self._refuse(chunk, index, f"order {quoted(value)} is no finite number")
        return np.array([float(value) for value in orders])

    def _moment(self, chunk: _Chunk, index: int, value: object) -> int:
        try:
            text = value.isoformat() if isinstance(value, date) else str(value)
            moment = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(chunk, index, f"order {quoted(value)} is no number and no ISO 8601 moment")
        known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (known - _EPOCH) // timedelta(microseconds=1)

    def _as_rewards(self, chunk: _Chunk, rewards: Sequence[object]) -> NDArray[np.int8]:
        try:
            codes = np.array([_REWARDS.get(reward, -1) for reward in rewards], dtype=np.int8)
        except TypeError:
            codes = np.full(len(rewards), -1, dtype=np.int8)
        if codes.min() < 0:
            index = int(np.argmin(codes))
            self._refuse(chunk, index, f"a reward is 0 or 1, got {quoted(rewards[index])}")
        return codes

    def _as_arms(self, chunk: _Chunk, arms: Sequence[object]) -> NDArray[np.int32]:
        numbers = self._numbers
        texts = [str(arm) for arm in arms]
        for name in sorted(set(texts) - numbers.keys()):
            index = texts.index(name)
            if len(name) > LONGEST_NAME:
                self._refuse(chunk, index, f"the arm's name has over {LONGEST_NAME} characters")
            if len(numbers) >= MOST_ARMS:
                what = quoted(self._columns.arm)
                self._refuse(chunk, index, f"over {MOST_ARMS:,} arms: is {what} the arm's column?")
            numbers[name] = len(numbers)
        return np.array([numbers[text] for text in texts], dtype=np.int32)

    def _refuse(self, chunk: _Chunk, index: int, problem: str) -> NoReturn:
        where = f"{self._file}, {self._unit} {chunk.lines[index]}"
        raise InvalidValueError(f"{where}: {problem}")
