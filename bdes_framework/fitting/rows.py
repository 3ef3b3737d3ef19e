"""Rows of a log, checked one after the other and stored in five bytes each.

What files and frames have in common: the names of columns, what a value may be, and the error
that names the first bad row.
"""

import hashlib
import math
import operator
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from attrs import asdict, define, field, frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import IntArray
from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError

MAX_LOG_ARMS = 1_000
"""The information has (2K)² numbers, to which every row adds K²: a million operations per row."""

MAX_NAME_LENGTH = 200
_REWARDS: dict[object, int] = {
    **dict.fromkeys(["0", "0.0", "false", "False", "FALSE", 0], 0),
    **dict.fromkeys(["1", "1.0", "true", "True", "TRUE", 1], 1),
}
_MISSING = frozenset(["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"])
"""How tools write a missing value."""
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}(\d+)")
_BLOCK = 1 << 20
_Number: TypeAlias = int | float | Decimal


@frozen
class Columns:
    """The names of the columns of a log file.

    Parameters
    ----------
    arm, reward : str
        The arm played, any text or number; what it paid, 0 or 1.
    user : str | None
        Whose state it was. Without it, the whole file is one sequence.
    order : str | None
        A number, or an ISO 8601 date and time, that increases from row to row of a user.
        Without it, rows are taken to be in order. Times without a zone are compared as they are.
    """

    arm: str = "arm"
    reward: str = "reward"
    user: str | None = None
    order: str | None = None

    def __attrs_post_init__(self) -> None:
        seen: dict[str, str] = {}
        for role, name in _names_by_role(self).items():
            first = seen.setdefault(name.strip(), role)  # as headings are
            if first != role:
                raise InvalidValueError(
                    f"column {quoted(name.strip())} cannot be both the {first} and the {role}"
                )

    @property
    def wanted(self) -> list[str]:
        """The columns to read, in the order arm, reward, user, order."""
        return list(_names_by_role(self).values())


def _names_by_role(columns: Columns) -> dict[str, str]:
    """Return the names of the columns to read, by their roles, in a fixed order."""
    return {role: name for role, name in asdict(columns).items() if name is not None}


class Chunk(NamedTuple):
    """Some rows of a file."""

    lines: Sequence[int]
    values: Sequence[Sequence[Any]]
    """One sequence per column to read; None or "" where a value is missing."""


class BadLineError(Exception):
    """A line of a file that cannot be used: its number, and why."""


class _BadRowError(Exception):
    """A row of a chunk that cannot be used: its index, and why."""


def _temporary_file() -> IO[bytes]:
    """Return an anonymous temporary file; unbuffered, so that no write fails later on."""
    with _disk_errors():
        return tempfile.TemporaryFile(buffering=0)


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Say where a temporary file could not be written, and what helps."""
    try:
        yield
    except OSError as error:
        where = tempfile.tempdir or "a temporary file"
        raise InvalidValueError(
            f"cannot keep the rows in {where}: {error.strerror or error}; set TMPDIR to a folder"
            " with room"
        ) from None


def _column_index(name: str, header: Sequence[str], file: str) -> int:
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


def _check_present(index: int, column: str | None, value: object) -> None:
    """Raise if a row has no value in a column."""
    text = value.strip() if isinstance(value, str) else ""
    if value is None or (isinstance(value, str) and text in _MISSING):
        seen = f" ({quoted(value)})" if text else ""
        raise _BadRowError(index, f"has no value in column {quoted(column)}{seen}")


def _is_number(value: object) -> bool:
    """Return whether a value is a finite number, as files write them: not Python's 1_000."""
    try:
        finite = math.isfinite(float(value)) and "_" not in str(value)  # type: ignore[arg-type]
        return finite and _exact_number(value) is not None
    except (TypeError, ValueError, ArithmeticError):
        return False


def _exact_number(value: Any) -> Any:
    """Return a number with all of its digits."""
    return Decimal(value) if isinstance(value, str) else value


def _name_key(name: str) -> tuple[bool, float, str]:
    """Return the sort key of a name: numbers as numbers, and before words."""
    return (False, float(name), name) if _is_number(name) else (True, 0.0, name)


def _parsed_reward(value: object) -> object:
    """Return a reward as a number where it is one, so that 1.00 is 1."""
    if not isinstance(value, str):
        return value
    given = value.strip()
    return _exact_number(given) if given not in _REWARDS and _is_number(given) else given


def user_name(user: object) -> bytes:
    """Return a user's name, by which rows belong together; white space around it is no part."""
    return str(user).strip().encode("utf-8", "surrogatepass")


def _user_hash(user: object) -> int:
    """Return 63 bits of a user's name; Python's own hash gives -1 and -2 the same."""
    return int.from_bytes(hashlib.blake2b(user_name(user), digest_size=8).digest()) >> 1


def _whole_numbers(values: Sequence[int]) -> NDArray[Any]:
    try:
        return np.fromiter(values, dtype=np.int64, count=len(values))
    except OverflowError:  # Python's own are exact at any size
        return np.array(values, dtype=object)


def _write_all(file: IO[bytes], data: bytes) -> None:
    """Write all bytes: a disk that is nearly full takes a part, and fails next time."""
    left = memoryview(data)
    with _disk_errors():
        while left:
            left = left[file.write(left) :]


class CheckedRows(NamedTuple):
    """The arguments of a :class:`Log`."""

    arms: NDArray[np.int32]
    rewards: NDArray[np.int8]
    starts: IntArray
    names: list[str]


def checked_log_rows(
    chunks: Iterable[Chunk], columns: Columns, source: str, unit: str
) -> CheckedRows:
    """Return the rows of all chunks; raise InvalidValueError that names the first bad one.

    ``source`` and ``unit`` are what the log and its rows are called: a file's have lines.
    """
    # What is mapped into memory stays when its file is closed, and is gone with the log.
    with _temporary_file() as arms, _temporary_file() as rewards:
        writer = _RowWriter(source, unit, columns, arms, rewards)
        try:
            for chunk in chunks:
                writer.add(chunk)
        except BadLineError as bad:
            line, problem = bad.args
            writer.check_users(line)  # a user whose rows are apart may come before it
            raise InvalidValueError(f"{source}, {unit} {line}: {problem}") from None
        return writer.rows()


def column_places(header: Sequence[str], columns: Columns, source: str) -> list[int]:
    """Return the indices of the wanted columns; raise InvalidValueError if one is not there."""
    headings = [heading.strip() for heading in header]
    return [_column_index(name.strip(), headings, source) for name in columns.wanted]


@define
class _RowWriter:
    """Checks rows chunk by chunk and stores them, in five bytes each."""

    _source: str
    """What the log is called in error messages."""
    _unit: str
    """What its rows are called there."""
    _columns: Columns
    _arms: IO[bytes]
    _rewards: IO[bytes]
    _codes: dict[object, int] = field(factory=dict)
    """The number of each arm, as the file spells it."""
    _names: dict[str, int] = field(factory=dict)
    """The number of each arm, by its name."""
    _starts: "array[int]" = field(factory=lambda: array("q"))
    _start_lines: "array[int]" = field(factory=lambda: array("q"))
    _user_hashes: "array[int]" = field(factory=lambda: array("q"))
    _n_rows: int = 0
    _last_user: object = None
    _last_order: _Number | None = None
    _has_timestamps: bool = False
    _zoned: bool | None = None
    """Whether timestamps have a time zone: as the first of them."""

    def add(self, chunk: Chunk) -> None:
        """Check and store more rows, or raise :class:`BadLineError` for the first bad one."""
        bad: BadLineError | None = None
        while chunk.lines:
            try:
                self._store(chunk)
                break
            except _BadRowError as error:
                # Columns are checked one after the other: an earlier row may be bad in another one.
                index, problem = error.args
                bad = BadLineError(chunk.lines[index], problem)
                chunk = Chunk(chunk.lines[:index], [column[:index] for column in chunk.values])
        if bad is not None:
            raise bad

    def rows(self) -> "CheckedRows":
        """Return all rows, after the checks that need all of them."""
        if not self._n_rows:
            raise InvalidValueError(f"{self._source}: has no rows")
        self.check_users(math.inf)
        names = sorted(self._names, key=_name_key)
        rank = np.empty(len(names), dtype=np.int32)
        rank[[self._names[name] for name in names]] = np.arange(len(names))
        arms = self._memory_map(self._arms, np.dtype(np.int32))
        for begin in range(0, self._n_rows, _BLOCK):
            arms[begin : begin + _BLOCK] = rank[arms[begin : begin + _BLOCK]]
        rewards = self._memory_map(self._rewards, np.dtype(np.int8))
        for part in (arms, rewards):  # or the log would take copies
            freeze(part)
        return CheckedRows(arms, rewards, np.array(self._starts, dtype=np.int64), names)

    def _memory_map(self, file: IO[bytes], dtype: "np.dtype[Any]") -> NDArray[Any]:
        with _disk_errors():
            return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=(self._n_rows,)))

    def check_users(self, before_line: float) -> None:
        """Raise if the rows of a user do not stand together, up to some line."""
        hashes = np.array(self._user_hashes, dtype=np.int64)
        lines = np.array(self._start_lines, dtype=np.int64)
        hashes, lines = hashes[lines < before_line], lines[lines < before_line]
        order = np.argsort(hashes, kind="stable")
        again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1]) + 1
        if again.size:
            raise InvalidValueError(
                f"{self._source}, {self._unit} {lines[order[again]].min()}: this user had rows"
                " before: sort the file by user, then by order"
            )

    def _store(self, chunk: Chunk) -> None:
        of_role = dict(zip(_names_by_role(self._columns), chunk.values, strict=True))
        users = of_role.get("user", ["everybody"] * len(chunk.lines))
        orders = of_role.get("order")
        begins = self._sequence_starts(users)
        last_order = None if orders is None else self._check_order(orders, begins)
        paid, played = self._as_rewards(of_role["reward"]), self._as_arms(of_role["arm"])
        # All rows are good: nothing is kept before.
        self._last_order = last_order
        self._last_user = users[-1]
        _write_all(self._rewards, paid.tobytes())
        _write_all(self._arms, played.tobytes())
        for index in np.flatnonzero(begins).tolist():
            self._starts.append(self._n_rows + index)
            self._start_lines.append(chunk.lines[index])
            self._user_hashes.append(_user_hash(users[index]))
        self._n_rows += len(chunk.lines)

    def _sequence_starts(self, users: Sequence[object]) -> NDArray[np.bool_]:
        """Return which rows begin a sequence."""
        before = chain([self._last_user], users)
        begins = np.fromiter(map(operator.ne, before, users), dtype=np.bool_, count=len(users))
        begins[0] |= self._n_rows == 0
        for index in np.flatnonzero(begins).tolist():
            _check_present(index, self._columns.user, users[index])
            last = users[index - 1] if index else self._last_user
            same = self._n_rows + index > 0 and user_name(last) == user_name(users[index])
            begins[index] = not same  # they may differ by white space
        return begins

    def _check_order(self, orders: Sequence[Any], begins: NDArray[np.bool_]) -> _Number:
        """Raise if the rows of a user are not in order; return the last of the orders."""
        if self._n_rows == 0:  # the first row decides for the file
            _check_present(0, self._columns.order, orders[0])
            self._has_timestamps = not _is_number(orders[0])
        values = self._as_orders(orders)
        follows = np.empty(len(values), dtype=np.bool_)
        follows[1:] = values[1:] > values[:-1]
        follows[0] = self._last_order is None or values.item(0) > self._last_order
        wrong = np.flatnonzero(~(follows | begins))
        if wrong.size:
            index = int(wrong[0])
            same = values[index] == (values[index - 1] if index else self._last_order)
            problem = "is there twice" if same else "comes after a later one"
            raise _BadRowError(index, f"order {quoted(orders[index])} {problem}")
        last: _Number = values.item(-1)
        return last

    def _as_orders(self, orders: Sequence[Any]) -> NDArray[Any]:
        """Return numbers or times as comparable numbers; whole ones keep every digit."""
        if self._has_timestamps:
            return _whole_numbers([self._timestamp(i, value) for i, value in enumerate(orders)])
        if isinstance(orders[0], int | str):
            with suppress(ValueError, TypeError):
                whole = list(map(int, orders))
                if isinstance(orders[0], int) or "_" not in "".join(orders):
                    return _whole_numbers(whole)
        for index, value in enumerate(orders):
            _check_present(index, self._columns.order, value)
            if not _is_number(value):
                raise _BadRowError(index, f"order {quoted(value)} is no finite number")
        # As objects, which Python compares exactly, of whatever kinds they are.
        return np.array([_exact_number(value) for value in orders], dtype=object)

    def _timestamp(self, index: int, value: object) -> int:
        """Return nanoseconds since 1970."""
        _check_present(index, self._columns.order, value)
        text = value.isoformat() if isinstance(value, date) else str(value).strip()
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            problem = f"order {quoted(value)} is no number and no ISO 8601 moment"
            raise _BadRowError(index, problem) from None
        zoned = moment.tzinfo is not None
        if self._zoned is None:
            self._zoned = zoned
        if zoned != self._zoned:
            here, first = ("a", "none") if zoned else ("no", "one")
            problem = f"order {quoted(value)} has {here} time zone, and the first has {first}"
            raise _BadRowError(index, f"{problem}: give one to all, or to none")
        known = moment if zoned else moment.replace(tzinfo=UTC)
        rest = _BEYOND_MICROSECONDS.search(text)
        digits = rest[1] if rest else ""
        if len(digits) > 3:
            raise _BadRowError(index, f"order {quoted(value)} is finer than nanoseconds")
        return (known - _UNIX_EPOCH) // timedelta(microseconds=1) * 1000 + int(digits.ljust(3, "0"))

    def _as_rewards(self, rewards: Sequence[object]) -> NDArray[np.int8]:
        with suppress(KeyError, TypeError):
            return np.fromiter(map(_REWARDS.__getitem__, rewards), np.int8, len(rewards))
        codes = np.empty(len(rewards), dtype=np.int8)
        for index, reward in enumerate(rewards):
            try:
                codes[index] = _REWARDS[_parsed_reward(reward)]
            except (KeyError, TypeError):
                _check_present(index, self._columns.reward, reward)
                raise _BadRowError(index, f"a reward is 0 or 1, got {quoted(reward)}") from None
        return codes

    def _as_arms(self, arms: Sequence[object]) -> NDArray[np.int32]:
        codes = self._codes
        with suppress(KeyError, TypeError):
            return np.fromiter(map(codes.__getitem__, arms), np.int32, len(arms))
        for index, arm in enumerate(arms):
            try:
                if arm not in codes:
                    codes[arm] = self._new_arm_code(index, arm)
            except TypeError:
                problem = f"an arm is text or a number, got {quoted(arm)}"
                raise _BadRowError(index, problem) from None
        return np.fromiter(map(codes.__getitem__, arms), np.int32, len(arms))

    def _new_arm_code(self, index: int, arm: object) -> int:
        _check_present(index, self._columns.arm, arm)
        name = str(arm).strip()
        if len(name) > MAX_NAME_LENGTH:
            raise _BadRowError(index, f"the arm's name has over {MAX_NAME_LENGTH} characters")
        if name not in self._names and len(self._names) >= MAX_LOG_ARMS:
            what = quoted(self._columns.arm)
            problem = f"over {MAX_LOG_ARMS:,} arms, and every row costs their square"
            raise _BadRowError(index, f"{problem}: is {what} the arm's column?")
        return self._names.setdefault(name, len(self._names))


def freeze(array: NDArray[Any]) -> None:
    """Make an array read-only, and what it is a view of."""
    for part in with_bases(array):
        part.flags.writeable = False


def with_bases(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield an array, and what it is a view of."""
    part: object = array
    while isinstance(part, np.ndarray):
        yield part
        part = part.base
