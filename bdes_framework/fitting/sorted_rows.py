"""Checks and sorts the rows of a log inside of DuckDB.

A table ``raw`` holds the wanted columns as they were found, by their roles; the row's number in
it is the order of the log. What a value means is decided once for each distinct value, in Python
(see :mod:`rows`); only moments, numbers to sort by and propensities are judged in SQL, row by row.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log_database import LogDatabase, codes_of, sql_text
from bdes_framework.fitting.row_store import RowStore
from bdes_framework.fitting.rows import (
    MAX_LOG_ARMS,
    MISSING,
    UNKNOWN,
    BadRows,
    BadValueError,
    CheckedRows,
    Columns,
    arm_name,
    check_bad_rows,
    in_parts,
    is_missing,
    missing_problem,
    numbered_names,
    reward_code,
    too_many_arms,
)

_MAX_VALUES = 10_000
"""A column of more different values is none of arms or of rewards."""
_BLOCK = 1 << 22
_MISSING_TEXTS = ", ".join(map(sql_text, MISSING))
_WHITE = "' \"' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(160)"
_UNCLEAR = r'^[\s\x{a0}"]|[\s\x{a0}"]$|[.]0+$'
_SAMPLE = 10_000
_ZONE = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_MOMENT = f"{_DAY}({_TIME}{_ZONE}?)?"
_ZONED = f"{_DAY}{_TIME}{_ZONE}"
_LOCAL = f"{_DAY}({_TIME})?"

Where = Callable[[int], str]
"""Returns the name of the log and the line of one of its rows, counted from 0."""


class _Order(NamedTuple):
    """How rows are sorted by a column."""

    keys: Sequence[str]
    is_good: str
    """A condition that holds for values that have a place."""
    expected: str


def sorted_rows(
    database: LogDatabase,
    columns: Columns,
    where: Where,
    bad: Sequence[BadRows] = (),
    strict: bool = False,
) -> CheckedRows:
    """Return the rows of the table ``raw``, checked and sorted by user and order.

    ``bad`` are kinds of bad rows that were found before. Users stand in the order in which they
    first appear.
    """
    ((n_raw,),) = database.rows("SELECT count(*) FROM raw")
    n_rows = n_raw + sum(kind.n for kind in bad)
    if not n_rows:
        raise InvalidValueError(f"{database.name}: has no rows")
    checks = _Checks(database, columns, where, n_raw)
    names = checks.number_arms()
    checks.number_rewards()
    roles, conditions, keys = columns.by_role, ["true"], list[str]()
    for role in ("user", "strata"):
        if role in roles:
            checks.number_groups(role)
    if "user" in roles:
        keys.append("user_codes.code")
    if "order" in roles:
        order = checks.order()
        keys += order.keys
        conditions.append(order.is_good)
    if "propensity" in roles:
        conditions.append(checks.propensities())
    n_bad = sum(kind.n for kind in bad) + checks.n_bad()
    kinds = check_bad_rows([*bad, *checks.bad], n_bad, n_rows, strict)
    _sort(database, roles, conditions, keys)
    return _taken(database, roles, names, kinds)


class _Checks:
    """Numbers what there are few of, and collects bad rows by kind."""

    def __init__(self, database: LogDatabase, columns: Columns, where: Where, n_rows: int) -> None:
        self._database, self._roles, self._where = database, columns.by_role, where
        self._n_rows = n_rows
        self._types = {str(name): str(kind) for name, kind, *_ in database.rows("DESCRIBE raw")}
        self.bad: list[BadRows] = []
        self._is_bad: list[str] = []
        """Conditions that hold for bad rows, by what is wrong with them."""

    def n_bad(self) -> int:
        """Return how many rows are bad, each counted once."""
        if len(self.bad) < 2:
            return sum(kind.n for kind in self.bad)
        (n,) = self._counts([" OR ".join(self._is_bad)])
        return n

    def number_arms(self) -> list[str]:
        """Number the arms in a table ``arm_codes``; return their names."""
        values, column = self._distinct("arm"), self._roles["arm"]
        of_value: dict[int, str] = {}
        for first, _, value in values:
            try:
                of_value[first] = arm_name(value, column)
            except BadValueError:
                continue
            if len(of_value) > MAX_LOG_ARMS:
                raise InvalidValueError(f"{self._where(first)}: {too_many_arms(column)}")
        if len(values) == _MAX_VALUES:  # most of them no names: the others were not looked at
            raise InvalidValueError(f"{self._database.name}: {too_many_arms(column)}")
        self._collect(values, lambda value: arm_name(value, column))
        numbers, names = numbered_names(list(dict.fromkeys(of_value.values())))
        self._code("arm", {first: numbers[name] for first, name in of_value.items()})
        self._is_bad.append(_has_no_code("arm"))
        return names

    def number_rewards(self) -> None:
        """Put the codes of rewards in a table ``reward_codes``."""
        values, codes, bad = self._distinct("reward"), dict[int, int](), list[int]()
        for first, _, value in values:
            try:
                codes[first] = reward_code(value)
            except BadValueError:
                codes[first] = UNKNOWN
                bad.append(first)
        self._collect(values, reward_code, dropped=False)
        self._code("reward", codes)
        if bad:
            firsts = ", ".join(map(str, bad))
            self._is_bad.append(
                f"raw.reward IN (SELECT value FROM reward_codes WHERE first IN ({firsts}))"
            )

    def number_groups(self, role: str) -> None:
        """Number users or strata in the order in which they first appear."""
        name = "value"
        if self._types[role] == "VARCHAR":
            text = f"trim(value, {_WHITE})"
            whole = f"regexp_full_match({text}, '[+-]?[0-9]+[.]0+')"
            name = f"CASE WHEN {whole} THEN split_part({text}, '.', 1) ELSE {text} END"
        self._database.run(
            f'CREATE TABLE {role}_values AS SELECT "{role}" AS value, count(*) AS n,'
            f' min(rowid) AS first FROM raw GROUP BY "{role}"',
            until=0.55,
        )
        missing = f"value IS NULL OR CAST({name} AS VARCHAR) IN ({_MISSING_TEXTS})"
        if role == "user" and not self._has_variants(role):
            # Their first rows will do as codes.
            self._database.rows(f"ALTER TABLE {role}_values RENAME TO {role}_codes")
            self._database.rows(f"ALTER TABLE {role}_codes RENAME COLUMN first TO code")
            return
        found = self._database.rows(
            "SELECT first, n, CAST(value AS VARCHAR)"
            f" FROM {role}_values WHERE {missing} ORDER BY first"
        )
        if found:
            first, _, value = found[0]
            problem = missing_problem(self._roles[role], value)
            self._add(sum(n for _, n, _ in found), first, problem)
        self._database.run(
            f"CREATE TABLE {role}_codes AS SELECT value, dense_rank() OVER (ORDER BY start) - 1"
            f" AS code FROM (SELECT value, min(first) OVER (PARTITION BY {name}) AS start"
            f" FROM {role}_values WHERE NOT ({missing}))",
            until=0.6,
        )
        self._is_bad.append(_has_no_code(role))

    def _has_variants(self, role: str) -> bool:
        """Return whether a name may stand for none, or for the same as another."""
        unclear = "value IS NULL"
        if self._types[role] == "VARCHAR":
            unclear += f" OR value IN ({_MISSING_TEXTS}) OR regexp_matches(value, '{_UNCLEAR}')"
        ((n,),) = self._database.run(
            f"SELECT count(*) FROM {role}_values WHERE {unclear}", until=0.57
        )
        return bool(n)

    def order(self) -> _Order:
        """Return how rows are sorted within a user, after a check of all of them."""
        kind, column = self._types["order"], 'raw."order"'
        if kind == "VARCHAR":
            # Text without white space, all of one kind, is known by its first rows.
            order = self._order_of_text(column, f"(FROM raw LIMIT {_SAMPLE}) AS raw")
            if self._all_are(order.is_good):
                return order._replace(is_good="true")
            # Not every version of DuckDB knows minutes that a zone follows.
            text = f"trim({column}, {_WHITE})"
            text = (
                f"regexp_replace({text}, '^({_DAY}[T ][0-9]{{2}}:[0-9]{{2}})([Z+-])', '\\1:00\\2')"
            )
            order = self._order_of_text(text, "raw")
        elif kind == "DOUBLE":
            order = _Order([column], f"isfinite({column})", "is no finite number")
        elif kind.startswith(("TIMESTAMP", "DATE")):
            order = _Order([column], f"isfinite({column})", "is no moment")
        else:
            order = _Order([column], f"{column} IS NOT NULL", "is no number")
        problem = f"order {{}} {order.expected}"
        return order._replace(is_good=self._check_each("order", order.is_good, problem))

    def _order_of_text(self, text: str, table: str) -> _Order:
        """Return how rows are sorted by text: as what most of it is."""
        integer = f"TRY_CAST({text} AS BIGINT)"
        is_integer = f"CAST({integer} AS VARCHAR) = {text}"
        number = f"TRY_CAST({text} AS DOUBLE)"
        is_number = f"(isfinite({number}) AND NOT contains({text}, '_'))"
        moment = f"replace({text}, ',', '.')"
        has_time = f"TRY_CAST({moment} AS TIMESTAMP) IS NOT NULL"
        is_moment = f"({has_time} AND regexp_full_match({moment}, '{_MOMENT}'))"
        integers, numbers, moments = self._counts([is_integer, is_number, is_moment], table)
        if moments > numbers:
            return self._order_of_moments(moment, table)
        if numbers == integers > 0:
            return _Order([integer], is_integer, "is no finite number")
        # Floats first; others tell apart what are the same floats.
        exact = [f"TRY_CAST({text} AS {kind})" for kind in ("HUGEINT", "DECIMAL(38, 19)")]
        expected = "is no finite number" if numbers else "is no number and no ISO 8601 moment"
        return _Order([number, *exact], is_number, expected)

    def _order_of_moments(self, moment: str, table: str) -> _Order:
        """Return how rows are sorted by moments, of which all or none have a time zone."""
        cast = f"TRY_CAST({moment} AS TIMESTAMP)"
        is_zoned = f"regexp_full_match({moment}, '{_ZONED}')"
        digits = f"regexp_extract({moment}, '[.][0-9]{{6}}([0-9]+)', 1)"
        n, zoned, fine = self._counts(
            [f"{cast} IS NOT NULL", f"{cast} IS NOT NULL AND {is_zoned}", f"{digits} <> ''"], table
        )
        expected = "is no ISO 8601 moment, such as 2024-01-31T18:00:00"
        if 2 * zoned >= n:
            keys = [f"TRY_CAST({moment} AS TIMESTAMPTZ)"]
            form, others = _ZONED, "has no time zone, and most have one"
        else:
            keys = [cast]
            form, others = _LOCAL, "has a time zone, and most have none"
        if fine:
            keys.append(f"TRY_CAST(rpad({digits}, 3, '0') AS INTEGER)")
        else:
            form = form.replace("{1,9}", "{1,6}")
        if 0 < zoned < n:
            expected = f"{others}, or is no moment: give one to all, or to none"
        is_good = f"({keys[0]} IS NOT NULL AND regexp_full_match({moment}, '{form}'))"
        return _Order(keys, is_good, expected)

    def _counts(self, conditions: Sequence[str], table: str = "raw") -> tuple[int, ...]:
        """Return how many rows meet each condition."""
        counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
        (found,) = self._database.run(f"SELECT {counts} FROM {table}", until=0.62)
        return found

    def propensities(self) -> str:
        """Return a condition that holds for rows whose propensity can be used."""
        good = f"({_PROPENSITY} > 0 AND {_PROPENSITY} <= 1)"
        if self._types["propensity"] == "VARCHAR":
            good = f"({good} AND NOT contains(raw.propensity, '_'))"
        problem = "a propensity is a number above 0 and at most 1, got {}"
        return self._check_each("propensity", good, problem)

    def _distinct(self, role: str) -> list[tuple[int, int, Any]]:
        """Return the different values of a column: first row, number of rows, value."""
        self._database.run(
            f'CREATE TABLE {role}_codes AS SELECT "{role}" AS value, count(*) AS n,'
            f' min(rowid) AS first, CAST(NULL AS INTEGER) AS code FROM raw GROUP BY "{role}"',
            until=0.5,
        )
        found: list[Any] = self._database.rows(
            f"SELECT first, n, value FROM {role}_codes ORDER BY first LIMIT {_MAX_VALUES}"
        )
        if role == "reward" and len(found) == _MAX_VALUES:
            column = quoted(self._roles[role])
            raise InvalidValueError(
                f"{self._database.name}: over {_MAX_VALUES:,} different rewards, and a reward is 0"
                f" or 1: is {column} the reward's column?"
            )
        return found

    def _code(self, role: str, codes: dict[int, int]) -> None:
        """Set the codes of values, known by their first rows; the others are not joined."""
        if codes:
            pairs = ", ".join(f"({first}, {code})" for first, code in codes.items())
            self._database.rows(
                f"UPDATE {role}_codes SET code = new.code FROM (VALUES {pairs}) AS new (first,"
                f" code) WHERE {role}_codes.first = new.first"
            )
        self._database.rows(f"DELETE FROM {role}_codes WHERE code IS NULL")

    def _collect(
        self,
        values: Iterable[tuple[int, int, Any]],
        check: Callable[[Any], object],
        dropped: bool = True,
    ) -> None:
        """Collect the bad ones of different values, those that are missing apart."""
        kinds: dict[bool, list[tuple[int, int, str]]] = {}
        for first, n, value in values:
            try:
                check(value)
            except BadValueError as error:
                kinds.setdefault(is_missing(value), []).append((first, n, str(error)))
        for found in kinds.values():
            first, _, problem = found[0]
            self._add(sum(n for _, n, _ in found), first, problem, dropped)

    def _all_are(self, good: str) -> bool:
        return self._counts([good]) == (self._n_rows,)

    def _check_each(self, role: str, good: str, problem: str) -> str:
        """Collect rows whose value is missing, or not good; return a condition for the others."""
        if self._all_are(good):
            return "true"
        text = f'trim(CAST(raw."{role}" AS VARCHAR), {_WHITE})'
        missing = f'(raw."{role}" IS NULL OR {text} IN ({_MISSING_TEXTS}))'
        found = self._database.run(
            f"SELECT {missing}, count(*), min(raw.rowid) FROM raw WHERE NOT coalesce({good}, false)"
            " GROUP BY 1",
            until=0.64,
        )
        for is_none, n, first in found:
            value = self._text(role, first)
            said = missing_problem(self._roles[role], value)
            self._add(n, first, said if is_none else problem.format(quoted(value)))
        self._is_bad.append(f"NOT coalesce({good}, false)")
        return good

    def _text(self, role: str, row: int) -> str:
        statement = f'SELECT CAST("{role}" AS VARCHAR) FROM raw WHERE rowid = ?'
        ((text,),) = self._database.rows(statement, [row])
        return "" if text is None else str(text)

    def _add(self, n: int, first: int, problem: str, dropped: bool = True) -> None:
        self.bad.append(BadRows(int(n), self._where(first), problem, dropped, first))


_PROPENSITY = "TRY_CAST(raw.propensity AS DOUBLE)"


def _has_no_code(role: str) -> str:
    """Return a condition that holds for rows whose value has no code."""
    return f'NOT coalesce(raw."{role}" IN (SELECT value FROM {role}_codes), false)'


def _sort(
    database: LogDatabase, roles: dict[str, str], conditions: Sequence[str], keys: Sequence[str]
) -> None:
    """Make the table ``sorted`` of codes."""
    wanted = [
        "CAST(arm_codes.code AS SMALLINT) AS arm",
        f"CAST(coalesce(reward_codes.code, {UNKNOWN}) AS TINYINT) AS reward",
    ]
    joins = [
        "JOIN arm_codes ON raw.arm = arm_codes.value",
        "LEFT JOIN reward_codes ON raw.reward = reward_codes.value",
    ]
    for role in ("user", "strata"):
        if role in roles:
            wanted.append(f'{role}_codes.code AS "{role}"')
            joins.append(f'JOIN {role}_codes ON raw."{role}" = {role}_codes.value')
    if "propensity" in roles:
        wanted.append(f"{_PROPENSITY} AS propensity")
    database.run(
        f"CREATE TABLE sorted AS SELECT {', '.join(wanted)} FROM raw {' '.join(joins)}"
        f" WHERE {' AND '.join(conditions)} ORDER BY {', '.join([*keys, 'raw.rowid'])}",
        until=0.95,
    )
    database.rows("DROP TABLE raw")


def _taken(
    database: LogDatabase, roles: dict[str, str], names: list[str], bad: list[BadRows]
) -> CheckedRows:
    """Return the rows of the table ``sorted``."""
    types: dict[str, type[np.generic]] = {"arm": np.int32, "reward": np.int8}
    if "propensity" in roles:
        types["propensity"] = np.float64
    if "strata" in roles:
        types["strata"] = np.int32
    ((n_rows,),) = database.rows("SELECT count(*) FROM sorted")
    if not n_rows:
        raise InvalidValueError(f"{database.name}: has no rows that can be used")
    starts, last = [], -1
    with RowStore(types) as store:
        for begin, end in in_parts(n_rows, _BLOCK):
            block = database.arrays(
                "SELECT * FROM sorted WHERE rowid >= ? AND rowid < ? ORDER BY rowid", [begin, end]
            )
            store.add({name: codes_of(block[name], dtype) for name, dtype in types.items()})
            users = codes_of(block["user"], np.int64) if "user" in roles else np.zeros(1, np.int64)
            changes = np.flatnonzero(np.diff(users, prepend=last))
            starts.append(begin + changes)
            last = int(users[-1])
            database.tell(0.95 + 0.05 * end / n_rows)
        return CheckedRows(
            store.column("arm"),
            store.column("reward"),
            np.concatenate(starts),
            names,
            store.column("propensity") if "propensity" in roles else None,
            store.column("strata") if "strata" in roles else None,
            bad,
        )
