"""The rows of a log file, checked chunk after chunk and kept in five bytes each."""

import hashlib
import math
import operator
import re
import tempfile
from array import array
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import IO, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import MOST_ARMS, Log, freeze

LONGEST_NAME = 200

_REWARDS: dict[object, int] = {
    **dict.fromkeys(["0", "0.0", "false", "False", "FALSE", 0], 0),
    **dict.fromkeys(["1", "1.0", "true", "True", "TRUE", 1], 1),
}
_NO_VALUES = frozenset(
    ["", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]
)
"""How tools write a value that is not there."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}(\d+)")
_BLOCK = 1 << 20

_Number: TypeAlias = int | float | Decimal
_Snapshot: TypeAlias = tuple[object, _Number | None, bool, bool | None, int]


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
        Without it, rows are taken to be in order. Times without a zone are compared as they are.
    """

    arm: str = "arm"
    reward: str = "reward"
    user: str | None = None
    order: str | None = None

    def __attrs_post_init__(self) -> None:
        seen: dict[str, str] = {}
        for role in ("arm", "reward", "user", "order"):
            name = getattr(self, role)
            name = None if name is None else name.strip()  # as headings are
            if name in seen:
                raise InvalidValueError(
                    f"column {quoted(name)} cannot be both the {seen[name]} and the {role}"
                )
            if name is not None:
                seen[name] = role

    @property
    def wanted(self) -> list[str]:
        """The columns to read, in the order arm, reward, user, order."""
        extra = [name for name in (self.user, self.order) if name is not None]
        return [self.arm, self.reward, *extra]


class Chunk(NamedTuple):
    """Some rows of a file."""

    lines: Sequence[int]
    values: Sequence[Sequence[Any]]
    """One sequence per wanted column; None or "" where a value is missing."""

    def first(self, n_rows: int) -> "Chunk":
        """Return the rows before one."""
        return Chunk(self.lines[:n_rows], [column[:n_rows] for column in self.values])


class BadLineError(Exception):
    """A line that cannot be used, and why."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


class _BadRowError(Exception):
    """A row of a chunk that cannot be used, and why."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in _NO_VALUES)


def _is_number(value: object) -> bool:
    """Say whether it is a finite number, as files write them: Python's 1_000 is none."""
    try:
        finite = math.isfinite(float(value)) and "_" not in str(value)  # type: ignore[arg-type]
        return finite and _exact(value) is not None
    except (TypeError, ValueError, ArithmeticError):
        return False


def _exact(value: Any) -> Any:
    """Return a number with all of its digits."""
    return Decimal(value) if isinstance(value, str) else value


def _name_key(name: str) -> tuple[bool, float, str]:
    """Sort numbers as numbers, and before words."""
    number = _is_number(name)
    return not number, float(name) if number else 0.0, name


def _same_user(one: object, other: object) -> bool:
    """Say whether white space is all that differs."""
    return isinstance(one, str) and isinstance(other, str) and one.strip() == other.strip()


def _as_reward(value: object) -> object:
    """Return what a text says, so that 1.00 is 1."""
    if not isinstance(value, str):
        return value
    given = value.strip()
    return _exact(given) if given not in _REWARDS and _is_number(given) else given


def _digest(user: object) -> int:
    """Return 63 bits of a user's name; Python's own hash gives -1 and -2 the same."""
    name = str(user).strip().encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) >> 1


def _whole_numbers(values: Sequence[int]) -> NDArray[Any]:
    try:
        return np.fromiter(values, dtype=np.int64, count=len(values))
    except OverflowError:  # Python's own are exact at any size
        return np.array(values, dtype=object)


def no_room(error: OSError) -> InvalidValueError:
    """Return the error of a temporary file that cannot be written."""
    where = tempfile.tempdir or "a temporary file"
    return InvalidValueError(
        f"cannot keep the rows in {where}: {error.strerror or error}; set TMPDIR to a folder with"
        " room"
    )


def _write(file: IO[bytes], data: bytes) -> None:
    """Write all of it: a disk that is nearly full takes a part, and fails next time."""
    left = memoryview(data)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        raise no_room(error) from None


@define
class Spool:
    """Checks chunk after chunk, and keeps five bytes a row."""

    _file: str
    _columns: Columns
    _unit: str
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
    _moments: bool = False
    _zoned: bool | None = None
    """Whether moments have a time zone: as the first of them."""

    def add(self, chunk: Chunk) -> None:
        """Check more rows and keep them, or raise :class:`BadLineError` for the first bad one."""
        before: _Snapshot = (
            self._last_user, self._last_order, self._moments, self._zoned, len(self._codes)
        )  # fmt: skip
        try:
            self._add(chunk)
        except _BadRowError as bad:
            # Columns are checked one after the other: an earlier row may be bad in another one.
            self._last_user, self._last_order, self._moments, self._zoned, n_codes = before
            self._codes = dict(islice(self._codes.items(), n_codes))
            known = set(self._codes.values())
            self._names = {name: code for name, code in self._names.items() if code in known}
            if bad.index:
                self.add(chunk.first(bad.index))
            raise BadLineError(chunk.lines[bad.index], bad.problem) from None

    def refuse(self, bad: BadLineError) -> NoReturn:
        """Raise the error of the first bad line: this one, or a user's who came back before."""
        self._check_users(bad.line)
        raise InvalidValueError(f"{self._file}, {self._unit} {bad.line}: {bad.problem}")

    def log(self) -> Log:
        """Return the log, after the checks that need all of it."""
        if not self._n_rows:
            raise InvalidValueError(f"{self._file}: has no rows")
        self._check_users(math.inf)
        names = sorted(self._names, key=_name_key)
        rank = np.empty(len(names), dtype=np.int32)
        rank[[self._names[name] for name in names]] = np.arange(len(names))
        arms = self._mapped(self._arms, np.dtype(np.int32))
        for begin in range(0, self._n_rows, _BLOCK):
            arms[begin : begin + _BLOCK] = rank[arms[begin : begin + _BLOCK]]
        rewards = self._mapped(self._rewards, np.dtype(np.int8))
        for part in (arms, rewards):  # or the log would take copies
            freeze(part)
        return Log(arms, rewards, np.array(self._starts, dtype=np.int64), names)

    def _mapped(self, file: IO[bytes], dtype: "np.dtype[Any]") -> NDArray[Any]:
        try:
            return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=(self._n_rows,)))
        except OSError as error:
            raise no_room(error) from None

    def _check_users(self, before_line: float) -> None:
        """Refuse a user whose rows do not stand together, up to some line."""
        hashes = np.array(self._user_hashes, dtype=np.int64)
        lines = np.array(self._start_lines, dtype=np.int64)[: hashes.size]
        hashes, lines = hashes[lines < before_line], lines[lines < before_line]
        order = np.argsort(hashes, kind="stable")
        again = np.flatnonzero(hashes[order][1:] == hashes[order][:-1]) + 1
        if again.size:
            raise InvalidValueError(
                f"{self._file}, {self._unit} {lines[order[again]].min()}: this user had rows"
                " before: sort the file by user, then by order"
            )

    def _add(self, chunk: Chunk) -> None:
        arms, rewards, *extra = chunk.values
        users = extra.pop(0) if self._columns.user is not None else None
        orders = extra.pop(0) if self._columns.order is not None else None
        begins = self._begins(chunk, users)
        if orders is not None:
            self._check_order(orders, begins)
        paid, played = self._as_rewards(rewards), self._as_arms(arms)
        _write(self._rewards, paid.tobytes())
        _write(self._arms, played.tobytes())
        for index in np.flatnonzero(begins).tolist():
            self._starts.append(self._n_rows + index)
            self._start_lines.append(chunk.lines[index])
            if users is not None:
                self._user_hashes.append(_digest(users[index]))
        self._n_rows += len(chunk.lines)

    def _begins(self, chunk: Chunk, users: Sequence[object] | None) -> NDArray[np.bool_]:
        """Say which rows begin a sequence."""
        if users is None:
            begins = np.zeros(len(chunk.lines), dtype=np.bool_)
            begins[0] = self._n_rows == 0
            return begins
        before = chain([self._last_user], users)
        begins = np.fromiter(map(operator.ne, before, users), dtype=np.bool_, count=len(users))
        begins[0] |= self._n_rows == 0
        for index in np.flatnonzero(begins).tolist():
            if _is_missing(users[index]):
                raise _BadRowError(index, self._no_value(self._columns.user, users[index]))
            last = users[index - 1] if index else self._last_user
            begins[index] = self._n_rows + index == 0 or not _same_user(last, users[index])
        self._last_user = users[-1]
        return begins

    def _check_order(self, orders: Sequence[Any], begins: NDArray[np.bool_]) -> None:
        if self._n_rows == 0 and not _is_missing(orders[0]):  # the first row decides for the file
            self._moments = not _is_number(orders[0])
        values = self._as_orders(orders)
        follows = np.empty(len(values), dtype=np.bool_)
        follows[1:] = values[1:] > values[:-1]
        first = values[0].item() if isinstance(values[0], np.generic) else values[0]
        follows[0] = self._last_order is None or first > self._last_order
        wrong = np.flatnonzero(~(follows | begins))
        if wrong.size:
            index = int(wrong[0])
            same = values[index] == (values[index - 1] if index else self._last_order)
            problem = "is there twice" if same else "comes after a later one"
            raise _BadRowError(index, f"order {quoted(orders[index])} {problem}")
        last = values[-1]
        self._last_order = last.item() if isinstance(last, np.generic) else last

    def _as_orders(self, orders: Sequence[Any]) -> NDArray[Any]:
        """Return numbers or moments as comparable numbers; whole ones keep every digit."""
        if self._moments:
            return _whole_numbers([self._moment(i, value) for i, value in enumerate(orders)])
        if isinstance(orders[0], int | str):
            with suppress(ValueError, TypeError):
                whole = list(map(int, orders))
                if isinstance(orders[0], int) or "_" not in "".join(orders):
                    return _whole_numbers(whole)
        for index, value in enumerate(orders):
            if _is_missing(value):
                raise _BadRowError(index, self._no_value(self._columns.order, value))
            if not _is_number(value):
                raise _BadRowError(index, f"order {quoted(value)} is no finite number")
        # As objects, which Python compares exactly, of whatever kinds they are.
        return np.array([_exact(value) for value in orders], dtype=object)

    def _moment(self, index: int, value: object) -> int:
        """Return nanoseconds since 1970."""
        if _is_missing(value):
            raise _BadRowError(index, self._no_value(self._columns.order, value))
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
            has = "has a time zone, and the first has none" if zoned else (
                "has no time zone, and the first has one")  # fmt: skip
            raise _BadRowError(index, f"order {quoted(value)} {has}: give one to all, or to none")
        known = moment if zoned else moment.replace(tzinfo=UTC)
        rest = _BEYOND_MICROSECONDS.search(text)
        digits = rest[1] if rest else ""
        if len(digits) > 3:
            raise _BadRowError(index, f"order {quoted(value)} is finer than nanoseconds")
        return (known - _EPOCH) // timedelta(microseconds=1) * 1000 + int(digits.ljust(3, "0"))

    def _as_rewards(self, rewards: Sequence[object]) -> NDArray[np.int8]:
        with suppress(KeyError, TypeError):
            return np.fromiter(map(_REWARDS.__getitem__, rewards), np.int8, len(rewards))
        codes = np.empty(len(rewards), dtype=np.int8)
        for index, reward in enumerate(rewards):
            try:
                codes[index] = _REWARDS[_as_reward(reward)]
            except (KeyError, TypeError):
                if _is_missing(reward):
                    raise _BadRowError(
                        index, self._no_value(self._columns.reward, reward)
                    ) from None
                raise _BadRowError(index, f"a reward is 0 or 1, got {quoted(reward)}") from None
        return codes

    def _as_arms(self, arms: Sequence[object]) -> NDArray[np.int32]:
        codes = self._codes
        with suppress(KeyError, TypeError):
            return np.fromiter(map(codes.__getitem__, arms), np.int32, len(arms))
        for index, arm in enumerate(arms):
            try:
                known = arm in codes
            except TypeError:
                raise _BadRowError(
                    index, f"an arm is text or a number, got {quoted(arm)}"
                ) from None
            if not known:
                codes[arm] = self._new_code(index, arm)
        return np.fromiter(map(codes.__getitem__, arms), np.int32, len(arms))

    def _new_code(self, index: int, arm: object) -> int:
        if _is_missing(arm):
            raise _BadRowError(index, self._no_value(self._columns.arm, arm))
        name = str(arm).strip()
        if len(name) > LONGEST_NAME:
            raise _BadRowError(index, f"the arm's name has over {LONGEST_NAME} characters")
        if name not in self._names and len(self._names) >= MOST_ARMS:
            what = quoted(self._columns.arm)
            problem = f"over {MOST_ARMS:,} arms, and every row costs their square"
            raise _BadRowError(index, f"{problem}: is {what} the arm's column?")
        return self._names.setdefault(name, len(self._names))

    def _no_value(self, column: str | None, value: object) -> str:
        seen = f" ({quoted(value)})" if isinstance(value, str) and value.strip() else ""
        return f"has no value in column {quoted(column)}{seen}"
