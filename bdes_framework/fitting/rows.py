"""What all readers of logs share: the names of columns, what a value means, what a bad row is."""

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from attrs import asdict, frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import counted, did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError

MAX_LOG_ARMS = 1_000
"""The information has (2K)² numbers, to which every row adds K²: a million operations per row."""

MAX_NAME_LENGTH = 200
MAX_BAD_SHARE = 0.01
"""The largest share of bad rows that is passed over."""
UNKNOWN = -128
"""The code of a reward that is not known."""
MISSING = (
    *("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT"),
    *("None", "n/a", "nan", "null"),
)
"""How tools write a missing value."""
_REWARDS: dict[object, int] = {
    **dict.fromkeys(["0", "0.0", "false", "False", "FALSE", 0], 0),
    **dict.fromkeys(["1", "1.0", "true", "True", "TRUE", 1], 1),
}
_WHOLE = re.compile(r"([+-]?\d+)\.0*")


@frozen
class Columns:
    """The names of the columns of a log.

    Parameters
    ----------
    arm, reward : str
        The arm played, any text or number; what it paid, 0 or 1, or nothing where that is not
        known.
    user : str | None
        Whose state it was. Without it, the whole log is one sequence.
    order : str | None
        Numbers, or ISO 8601 dates and times, by which the rows of a user are sorted; rows that
        are equal in it stay in the order of the file. Without it, rows are taken to be in order.
        Times without a zone are compared as they are.
    propensity : str | None
        How probable it was that the arm was chosen: above 0, and at most 1.
    strata : str | None
        Groups of rows within which any arm might have been chosen as well, any text or number.
    """

    arm: str = "arm"
    reward: str = "reward"
    user: str | None = None
    order: str | None = None
    propensity: str | None = None
    strata: str | None = None

    def __attrs_post_init__(self) -> None:
        seen: dict[str, str] = {}
        for role, name in self.by_role.items():
            first = seen.setdefault(name.strip(), role)  # as headings are
            if first != role:
                raise InvalidValueError(
                    f"column {quoted(name.strip())} cannot be both the {first} and the {role}"
                )

    @property
    def by_role(self) -> dict[str, str]:
        """The columns to read, by their roles, in a fixed order."""
        return {role: name for role, name in asdict(self).items() if name is not None}


@frozen
class BadRows:
    """Rows of one kind that could not be used as they are.

    Parameters
    ----------
    n : int
        How many there are.
    where : str
        The first of them: the name of the log, and its line or row.
    problem : str
        What is wrong with the first, and what was allowed.
    dropped : bool
        Whether such rows are left out; otherwise only their rewards are taken as not known.
    place : int
        Which row of the log the first is, to put kinds in order.
    """

    n: int
    where: str
    problem: str
    dropped: bool = True
    place: int = 0

    def __str__(self) -> str:
        what = "left out" if self.dropped else "kept with an unknown reward"
        return f"{counted(self.n, 'row')} {what}; the first is {self.where}: {self.problem}"


class CheckedRows(NamedTuple):
    """The arguments of a :class:`Log`, and what was wrong with its source."""

    arms: NDArray[np.int32]
    rewards: NDArray[np.int8]
    starts: IntArray
    names: list[str]
    propensities: FloatArray | None
    strata: NDArray[np.int32] | None
    bad: list[BadRows]


class BadValueError(Exception):
    """A value that a column may not have, and why."""


def warn_of_bad_rows(kinds: Sequence[BadRows]) -> None:
    """Warn of rows that were passed over, from the function that the user called."""
    if kinds:
        warnings.warn("; ".join(map(str, kinds)), stacklevel=3)


def check_bad_rows(
    kinds: Iterable[BadRows], n_bad: int, n_rows: int, strict: bool
) -> list[BadRows]:
    """Return kinds of bad rows, the first first; raise InvalidValueError if they are too many.

    ``n_bad`` is how many rows are bad: one may be of more than one kind.
    """
    found = sorted(kinds, key=lambda kind: kind.place)
    if found and (strict or n_bad > MAX_BAD_SHARE * n_rows):
        first, *others = found
        more = ""
        if n_bad > 1:
            limit = "" if strict else f", and at most {100 * MAX_BAD_SHARE:g} % may be"
            more = f" (of {n_bad:,} bad rows, in {n_rows:,}{limit})"
        for kind in others:
            more += f"; {counted(kind.n, 'row')} from {kind.where} on: {kind.problem}"
        raise InvalidValueError(f"{first.where}: {first.problem}{more}")
    return found


def is_missing(value: object) -> bool:
    """Return whether a value stands for none."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and clean_text(value) in MISSING)


def clean_text(text: str) -> str:
    """Return text without white space around it, nor quotes that stood behind white space."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('""', '"').strip()
    return text


def missing_problem(column: str, value: object) -> str:
    """Return what is wrong with a value that stands for none."""
    text = clean_text(str(value)) if isinstance(value, str) else ""
    seen = f" ({quoted(text)})" if text else ""
    return f"has no value in column {quoted(column)}{seen}"


def reward_code(value: object) -> int:
    """Return 0 or 1, or :data:`UNKNOWN` where a reward is missing; raise for others."""
    if is_missing(value):
        return UNKNOWN
    given = clean_text(value) if isinstance(value, str) else value
    if isinstance(given, str) and given not in _REWARDS and is_number(given):
        given = Decimal(given)
    try:
        return _REWARDS[given]
    except (KeyError, TypeError):
        raise BadValueError(f"a reward is 0 or 1, got {quoted(value)}") from None


def arm_name(value: object, column: str) -> str:
    """Return the name of an arm; raise if it has none."""
    if is_missing(value):
        raise BadValueError(missing_problem(column, value))
    name = clean_text(str(value))
    if len(name) > MAX_NAME_LENGTH:
        raise BadValueError(f"the arm's name has over {MAX_NAME_LENGTH} characters")
    return name


def too_many_arms(column: str) -> str:
    """Return what is wrong with a log of too many arms."""
    return (
        f"over {MAX_LOG_ARMS:,} arms, and every row costs their square: is {quoted(column)} the"
        " arm's column?"
    )


def is_number(value: object) -> bool:
    """Return whether a value is a finite number, as files write them: not Python's 1_000."""
    try:
        finite = math.isfinite(float(value)) and "_" not in str(value)  # type: ignore[arg-type]
        return finite and (not isinstance(value, str) or Decimal(value) is not None)
    except (TypeError, ValueError, ArithmeticError):
        return False


def numbered_names(names: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Return the number of each name, and the names in their order: numbers come before words.

    Where all names are whole numbers, 1.0 is 1: tools write it so where a value is missing.

    >>> numbered_names(["b", "10", "9"])
    ({'b': 2, '10': 1, '9': 0}, ['9', '10', 'b'])
    >>> numbered_names(["1.0", "1", "0.0"])
    ({'1.0': 1, '1': 1, '0.0': 0}, ['0', '1'])
    """
    whole = {name: _WHOLE.fullmatch(name) for name in names}
    if all(match or name.lstrip("+-").isdecimal() for name, match in whole.items()):
        shown = {name: match[1] if match else name for name, match in whole.items()}
    else:
        shown = {name: name for name in names}
    ordered = sorted(set(shown.values()), key=_name_key)
    numbers = {name: number for number, name in enumerate(ordered)}
    return {name: numbers[shown[name]] for name in names}, ordered


def _name_key(name: str) -> tuple[bool, float, str]:
    """Return the sort key of a name: numbers as numbers, and before words."""
    return (False, float(name), name) if is_number(name) else (True, 0.0, name)


class Header(NamedTuple):
    """Where the wanted columns are, by their roles, and which are not read."""

    places: dict[str, int]
    unused: list[str]


def read_header(header: Sequence[str], columns: Columns, source: str) -> Header:
    """Return where the wanted columns are; raise InvalidValueError if one is not there."""
    headings = [heading.strip() for heading in header]
    found = {
        role: _column_index(name.strip(), headings, source)
        for role, name in columns.by_role.items()
    }
    # Tools write the numbers of rows into a column without a heading.
    places = set(found.values())
    unused = [name or "(unnamed)" for i, name in enumerate(headings) if i not in places]
    return Header(found, unused)


def _column_index(name: str, header: Sequence[str], source: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    if name in header:
        raise InvalidValueError(f"{source}: has two columns {quoted(name)}")
    problem = f"{source}: has no column {quoted(name)}."
    raise InvalidValueError(f"{problem}{did_you_mean(name, header)} It has {listed(header)}")


def has_columns(header: Sequence[str], columns: Columns) -> bool:
    """Return whether all wanted columns are in a header."""
    headings = {heading.strip() for heading in header}
    return all(name.strip() in headings for name in columns.by_role.values())


def in_parts(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ends of parts of so many rows."""
    for begin in range(0, n, size):
        yield begin, min(begin + size, n)
