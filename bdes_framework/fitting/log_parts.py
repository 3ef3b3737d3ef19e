"""The parts of a log, each a file or a table, and how they go into the table ``raw``."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field, frozen

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.csv_form import CsvForm, line_of_byte, line_of_row
from bdes_framework.fitting.log_database import LogDatabase, sql_name, sql_text
from bdes_framework.fitting.rows import BadRows, Columns, read_header

_READ = 0.5
"""The part of the work that is done when a log was read."""
_SMALL = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_LARGE = ("HUGEINT", "UBIGINT")
_TEXTS = ('"NULL"', "VARCHAR", "ENUM", "UUID", "DECIMAL", "UHUGEINT")
_MOMENTS = {
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
    "TIMESTAMP_NS": "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE",
}
_NOT_CSV = {
    "UNQUOTED VALUE": "a quote is not closed",
    "LINE SIZE OVER MAXIMUM": "it is too long (is a quote not closed?)",
    "INVALID STATE": "text follows a closing quote",
    "INVALID ENCODING": "it is not UTF-8 (if it is latin-1, say so as its encoding)",
}
_SWALLOWING = ("UNQUOTED VALUE", "LINE SIZE OVER MAXIMUM", "INVALID STATE")
"""Errors that may take more than one line with them: never passed over."""
_FOUND = re.compile(r"Found: (\d+)")


@frozen
class Heading:
    """A column of a part: its name, the SQL that yields it, and the type of that."""

    name: str
    sql: str
    type: str


@define
class Part:
    """A file or table of a log.

    Parameters
    ----------
    name : str
        What it is called in error messages.
    table : str
        The SQL that yields its rows.
    headings : list[Heading]
        Its columns.
    first_row : int
        The number of the first row in error messages.
    form, path : CsvForm | None, Path | None
        Of a CSV file, which has lines.
    size : int
        Bytes, for the progress.
    rejects : str | None
        The table of the lines that are not CSV.
    patient : Part | None
        A more patient reading of the same CSV file.
    """

    name: str
    table: str
    headings: list[Heading]
    first_row: int = 1
    form: CsvForm | None = None
    path: Path | None = None
    size: int = 1
    rejects: str | None = None
    patient: "Part | None" = None
    n_rows: int = field(default=0, init=False)

    def where(self, row: int) -> str:
        """Return the name of the part and the line, or row, of its nth row."""
        if self.form is not None and self.path is not None:
            line = line_of_row(self.path, self.form, row)
            if line is not None:
                return f"{self.name}, line {line}"
        return f"{self.name}, row {row + self.first_row}"


@define
class Stage:
    """The parts of a log after they were brought into ``raw``."""

    parts: list[Part]
    bad: list[BadRows] = field(factory=list)

    def where(self, row: int) -> str:
        """Return the part and the line of a row of ``raw``."""
        for part in self.parts:
            if row < part.n_rows:
                return part.where(row)
            row -= part.n_rows
        return self.parts[-1].name


def stage(
    database: LogDatabase,
    parts: Sequence[Part],
    columns: Columns,
    on_unused: Callable[[list[str]], None] | None,
    schema: str = "",
) -> Stage:
    """Bring the wanted columns of all parts into the table ``raw``, in their order."""
    wanted = [_wanted(part, columns) for part in parts]
    if on_unused is not None:
        names = [part.headings for part in parts]
        headers = [read_header([h.name for h in some], columns, database.name) for some in names]
        unused = list(dict.fromkeys(name for header in headers for name in header.unused))
        if unused:
            on_unused(unused)
    roles = list(columns.by_role)
    types: dict[str, str] = {}
    for role in roles:
        kinds = {_staged(role, some[role], database.name)[1] for some in wanted}
        types[role] = kinds.pop() if len(kinds) == 1 else "VARCHAR"
    raw = f"{schema}raw"
    defined = ", ".join(f"{sql_name(role)} {kind}" for role, kind in types.items())
    database.rows(f"CREATE TABLE {raw} ({defined})")
    done = Stage(list(parts))
    total, read, before = sum(part.size for part in parts), 0, 0
    for part, some in zip(parts, wanted, strict=True):
        taken = ", ".join(
            f"CAST({_staged(role, some[role])[0]} AS {types[role]})" for role in roles
        )
        read += part.size
        _insert(database, f"INSERT INTO {raw} SELECT {taken} FROM ", part, _READ * read / total)
        ((n_rows,),) = database.rows(f"SELECT count(*) FROM {raw}")
        part.n_rows = n_rows - before
        done.bad += _rejected(database, part, before)
        before = n_rows
    return done


def _insert(database: LogDatabase, statement: str, part: Part, until: float) -> None:
    try:
        database.run(statement + part.table, until=until)
    except InvalidValueError as error:
        if part.patient is None or "invalid state" not in str(error):
            raise
        # Lines end in two ways, or text follows a closing quote.
        part.table, part.rejects = part.patient.table, part.patient.rejects
        database.run(statement + part.table, until=until)


def _wanted(part: Part, columns: Columns) -> dict[str, Heading]:
    header = read_header([heading.name for heading in part.headings], columns, part.name)
    return {role: part.headings[place] for role, place in header.places.items()}


def _staged(role: str, heading: Heading, source: str = "") -> tuple[str, str]:
    """Return the SQL of a column as it is staged, and its type."""
    sql, kind = heading.sql, heading.type
    base = kind.split("(")[0]
    if kind in _SMALL:
        return sql, "BIGINT"
    if kind in ("FLOAT", "DOUBLE"):
        if role == "order":
            return f"CASE WHEN NOT isnan({sql}) THEN {sql} END", "DOUBLE"
        return sql, "VARCHAR" if role in ("user", "strata") else "DOUBLE"
    if role == "order" and kind in _LARGE:
        return sql, "HUGEINT"
    if role == "order" and kind in _MOMENTS:
        return sql, _MOMENTS[kind]
    if kind == "BOOLEAN" and role != "order":
        return f"CASE {sql} WHEN true THEN 'True' WHEN false THEN 'False' END", "VARCHAR"
    if not kind.endswith("]") and (base in (*_TEXTS, *_LARGE) or kind in _MOMENTS):
        return sql, "VARCHAR"
    raise InvalidValueError(
        f"{source}: column {quoted(heading.name)} holds values of type {kind}, and cannot be"
        f" the {role}: expected text or numbers"
    )


def _rejected(database: LogDatabase, part: Part, before: int) -> list[BadRows]:
    """Return the kinds of lines of a CSV file that DuckDB could not read.

    Those of our own copy of a table are not passed over: nobody wrote them so.
    """
    if part.rejects is None:
        return []
    found = database.rows(
        "SELECT line, min(line_byte_position), min(error_type), min(error_message)"
        f" FROM {part.rejects} GROUP BY line ORDER BY line"
    )
    if part.form is None or part.path is None:
        if not found:
            return []
        line, _, kind, message = found[0]
        problem = _NOT_CSV.get(kind, message)
        raise InvalidValueError(f"{part.name}, row {line - 1}: cannot be kept: {problem}")
    kinds: dict[str, list[tuple[int, int, str, str]]] = {}
    for line, position, kind, message in found:
        shape = kind if kind in _NOT_CSV else "FIELDS"
        kinds.setdefault(shape, []).append((line, position, kind, message))
    bad = []
    for kind, some in kinds.items():
        line, position, shape, message = some[0]
        if kind == "FIELDS":
            fields = _FOUND.search(message)
            n_fields = fields[1] if fields else "other"
            problem = (
                f"has {n_fields} fields where the header has {len(part.form.header)} (is a"
                " separator unquoted?)"
            )
        else:
            problem = f"is not CSV: {_NOT_CSV.get(shape, message)}"
        where = f"{part.name}, line {line_of_byte(part.path, position) or line}"
        if kind in _SWALLOWING:
            raise InvalidValueError(f"{where}: {problem}")
        place = before + line - part.form.n_skipped - 1
        bad.append(BadRows(len(some), where, problem, True, place))
    return bad


def csv_table(
    path_sql: str, form: CsvForm, rejects: str, compression: str, strict: bool = True
) -> str:
    """Return the SQL that reads a CSV file, its columns called c0, c1 and so on."""
    named = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(form.header)))
    return (
        f"read_csv({path_sql}, auto_detect=false, header=false, skip={form.n_skipped},"
        f" delim={sql_text(form.separator)}, quote='\"', escape='\"', columns={{{named}}},"
        f" compression='{compression}', strict_mode={str(strict).lower()}, store_rejects=true,"
        f" rejects_limit=0, rejects_table='{rejects}', rejects_scan='{rejects}_scan')"
    )


def table_headings(database: LogDatabase, table: str) -> list[Heading]:
    """Return the columns of a table or of SQL that yields one."""
    found = database.rows(f"DESCRIBE SELECT * FROM {table}")
    return [Heading(str(name), sql_name(str(name)), str(kind)) for name, kind, *_ in found]
