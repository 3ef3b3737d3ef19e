"""Journal in a schema of a PostgreSQL database: for several processes, on any number of hosts."""

import re
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from zlib import crc32

from attrs import field, frozen, validators

from bdes_framework import BuildContext, Event, InvalidValueError, JournalError, PluginError
from bdes_journals.claims import check_role
from bdes_journals.rows import Counts, DamagedRowError, Turn, checked_name, events_of
from bdes_journals.server import Server
from bdes_journals.tables import BLOCK, EVENTS, MOST_LINES, Rows, TableJournal, gaps

if TYPE_CHECKING:
    from psycopg import Connection

FORMAT = 1
"""The version of the tables; in the table ``header``."""

UPGRADES: Mapping[int, str] = {}
"""For each older format the statements that make it the next one."""

_TABLES = """
CREATE TABLE {schema}.header (
    text text NOT NULL, checksum bigint NOT NULL, format integer NOT NULL);
CREATE TABLE {schema}.head (
    events bigint NOT NULL, users bigint NOT NULL, decisions bigint NOT NULL, arms bigint NOT NULL,
    models bigint NOT NULL, checksum bigint NOT NULL) WITH (fillfactor = 10);
CREATE TABLE {schema}.events (
    number bigint PRIMARY KEY, kind smallint NOT NULL, subject bigint NOT NULL,
    user_no bigint, arm bigint, chosen bigint, model bigint,
    value double precision, time double precision, checksum bigint NOT NULL, mark bigint);
CREATE UNIQUE INDEX decisions ON {schema}.events (subject) WHERE kind = 1;
CREATE UNIQUE INDEX rewards ON {schema}.events (subject) WHERE kind IN (2, 3);
CREATE INDEX windows ON {schema}.events (subject) WHERE kind = 4;
CREATE UNIQUE INDEX models_made ON {schema}.events (subject) WHERE kind = 8;
CREATE TABLE {schema}.users (
    number bigint PRIMARY KEY, name text COLLATE "C" UNIQUE, checksum bigint NOT NULL);
CREATE TABLE {schema}.arms (
    number bigint PRIMARY KEY, name text NOT NULL, checksum bigint NOT NULL);
CREATE TABLE {schema}.models (
    number bigint PRIMARY KEY, read bigint NOT NULL, digest text NOT NULL, version text NOT NULL,
    data bytea, checksum bigint NOT NULL);
CREATE VIEW {schema}.log AS
    SELECT d.subject AS decision, d.time AS time, d.user_no AS "user", a.name AS arm,
        coalesce(
            (SELECT r.value FROM {schema}.events r
                WHERE r.kind IN (2, 3) AND r.subject = d.subject AND r.kind = 2),
            (SELECT w.value FROM {schema}.events w WHERE w.kind = 4 AND w.subject > d.subject
                ORDER BY w.subject, w.number LIMIT 1)) AS reward,
        d.value AS propensity
    FROM {schema}.events d JOIN {schema}.arms a ON a.number = d.arm WHERE d.kind = 1;
"""

_BEGIN = (
    "BEGIN; SELECT events, users, decisions, arms, models, checksum, pg_backend_pid(),"
    " txid_current() FROM {schema}.head FOR UPDATE"
)
_END_TRANSACTION = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE pid = {p} AND backend_xid = mod({p}::bigint, 4294967296)::text::xid"
)
_WAIT = "SELECT events FROM {schema}.head FOR UPDATE"
_MARK = "SELECT mark FROM {schema}.events WHERE number = {p}"
_USERS = "SELECT name, number, checksum FROM {schema}.users WHERE name = ANY({p}::text[])"
_FORGET = (
    "UPDATE {schema}.users u SET name = NULL, checksum = new.checksum"
    " FROM unnest({p}::bigint[], {p}::bigint[]) AS new (number, checksum)"
    " WHERE u.number = new.number"
)
_HEAD = (
    "UPDATE {schema}.head SET events = {p}, users = {p}, decisions = {p}, arms = {p},"
    " models = {p}, checksum = {p}"
)
_TYPES = {
    "events": "bigint smallint bigint bigint bigint bigint bigint float8 float8 bigint bigint",
    "users": "bigint text bigint",
    "arms": "bigint text bigint",
    "models": "bigint bigint text text bytea bigint",
}


@frozen
class PostgresConfig:
    """Keeps all in PostgreSQL: several processes and hosts may decide (extra ``postgres``).

    Parameters
    ----------
    dsn : str | None
        The database, such as ``postgresql://user@host/shop``; by default what the environment
        variable ``BDES_JOURNAL_DSN`` says, so that no password is in a file.
    schema : str
        The schema of the tables; one for each journal.
    patience : float
        Seconds to go on trying to hear from a server that was lost while a turn ended.
    """

    dsn: str | None = field(default=None, repr=False)
    schema: str = field(default="bdes_live", validator=validators.max_len(63))
    patience: float = field(default=30.0, validator=[validators.ge(0), validators.le(3600)])

    @schema.validator
    def _is_a_name(self, _: object, value: str) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", value) or value.startswith("pg_"):
            raise InvalidValueError(
                f"schema must have lower-case letters, digits and '_' only, and not begin with a"
                f" digit or 'pg_'; got {value!r:.80}"
            )


class PostgresJournal(TableJournal):
    """Events in tables; who locks the row of counts has the turn, over all hosts."""

    def __init__(self, config: PostgresConfig) -> None:
        self._config = config
        self.place = f"journal {config.schema!r} of PostgreSQL"  # never the dsn: it has a password
        self._server = Server(config.dsn, config.schema, self.place)
        self._is_in_turn = False

    def __repr__(self) -> str:
        return f"PostgresJournal(schema={self._config.schema!r})"

    # -- opening and closing ------------------------------------------------------------------

    def create(self, header: str) -> None:
        """Make an empty journal with a header, and open it; refuse if there is one already."""
        import psycopg

        with self._opening() as (connection, run):
            encoding = connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise JournalError(f"{self.place}: its database must be of UTF8, not {encoding}")
            try:
                with connection.transaction():
                    query = "SELECT to_regnamespace({p})"
                    if run(query, self._config.schema).fetchone() == (None,):
                        run("CREATE SCHEMA {schema}")
                    run(_TABLES)
                    row = header, crc32(header.encode()), FORMAT
                    run("INSERT INTO {schema}.header VALUES ({p}, {p}, {p})", *row)
                    counts = Counts().row()
                    run("INSERT INTO {schema}.head VALUES ({p}, {p}, {p}, {p}, {p}, {p})", *counts)
            except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation):
                raise JournalError(f"{self.place} is there already") from None

    def open(self) -> str:
        """Open the journal and return its header; older formats are brought up to date."""
        with self._opening() as (connection, run):
            name = f"{self._config.schema}.header"
            if run("SELECT to_regclass({p})", name).fetchone() == (None,):
                raise JournalError(f"there is no {self.place}")
            with connection.transaction():
                rows = run(
                    "SELECT text, checksum, format FROM {schema}.header FOR UPDATE"
                ).fetchall()
                if len(rows) != 1 or crc32(rows[0][0].encode()) != rows[0][1]:
                    raise self._damaged("its header is not as it was written")
                [[header, _, version]] = rows
                if version > FORMAT:
                    raise JournalError(
                        f"{self.place} was written by a newer bdes-framework (format {version},"
                        f" this one reads up to {FORMAT}): install that"
                    )
                for older in range(version, FORMAT):
                    run(UPGRADES[older])
                    run("UPDATE {schema}.header SET format = {p}", older + 1)
        return str(header)

    @contextmanager
    def _opening(self) -> Generator[tuple["Connection[Any]", Callable[..., Any]]]:
        """Connect; if what follows fails, the journal is not open."""
        try:
            with self._server.errors():
                yield self._server.connect(), self._server.run
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection, and so of claims; closing twice is fine."""
        self._server.close()

    def claim(self, role: str) -> bool:
        """Try to become the only holder of a role; "owner" can be had by every process.

        It is a lock of the connection: if that is lost, so is the role, unless nobody was faster.
        """
        check_role(role)
        with self._server.errors():
            return role == "owner" or self._server.claim(role)

    # -- appending ----------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Generator[Turn]:
        """Wait for the turn to append; at its end all that was appended is durable."""
        with self._server.errors():
            counts, *transaction = self._begin()
        turn = Turn(counts)
        self._is_in_turn = True
        try:
            yield turn
            with self._server.errors():
                self._end(turn, *transaction)
        finally:
            self._is_in_turn, turn.is_over = False, True
            self._server.roll_back()

    def _begin(self) -> tuple[Counts, int, int]:
        """Lock the row of counts; return them, and the server's process and transaction."""
        import psycopg

        connection = self._server.alive()
        try:
            cursor = self._server.run(_BEGIN)
        except psycopg.OperationalError:
            if not connection.closed:
                raise
            self._server.alive()  # it was lost since the last turn, so nothing was: once more
            cursor = self._server.run(_BEGIN)
        cursor.nextset()
        [[*row, process, transaction]] = cursor.fetchall()
        return self._counts_in([row]), process, transaction

    def _end(self, turn: Turn, process: int, transaction: int) -> None:
        import psycopg

        connection, mark = self._server.connection, secrets.randbits(63)
        try:
            with connection.pipeline():  # one round trip
                if turn.events:
                    self._write(turn, mark)
                committed = self._server.run("COMMIT")
            if committed.statusmessage != "COMMIT":
                raise JournalError(f"{self.place}: the server kept nothing of this turn")
        except psycopg.errors.UniqueViolation as error:
            what = f"what is in this turn is there already ({error.diag.constraint_name})"
            raise InvalidValueError(f"{self.place}: {what}") from None
        except psycopg.DataError as error:
            raise InvalidValueError(f"{self.place} cannot keep this turn: {error}") from None
        except (psycopg.OperationalError, psycopg.InterfaceError):
            if not connection.closed:
                raise
            found = self._mark_found(turn.counts.events, process, transaction)
            if turn.events and found != mark:
                raise

    def _write(self, turn: Turn, mark: int) -> None:
        # First who goes, then who comes: a name that was forgotten may come again.
        gone = turn.users_to_forget()
        if gone:
            numbers, _, checksums = map(list, zip(*gone, strict=True))
            self._server.run(_FORGET, numbers, checksums)
        tables: dict[str, Sequence[tuple[Any, ...]]] = {
            # The first row of a turn is marked, so that it can be told from another's.
            "events": [(*row, None if place else mark) for place, row in enumerate(turn.events)],
            "users": turn.new_users(),
            "arms": turn.arms,
            "models": turn.models,
        }
        for table, rows in tables.items():
            if rows:
                types = ", ".join(f"{{p}}::{kind}[]" for kind in _TYPES[table].split())
                insert = f"INSERT INTO {{schema}}.{table} SELECT * FROM unnest({types})"
                self._server.run(insert, *map(list, zip(*rows, strict=True)))
        if turn.models:
            query = "UPDATE {schema}.models SET data = NULL WHERE data IS NOT NULL AND number < {p}"
            self._server.run(query, turn.after.models - 2)
        self._server.run(_HEAD, *turn.after.row())

    def _mark_found(self, number: int, process: int, transaction: int) -> int | None:
        """Ask the server, once it is back, for an event's mark when a lost transaction is over.

        It cannot be asked for the transaction itself: a server that was killed gives the numbers
        of those that it lost to others.
        """
        import psycopg

        until = time.monotonic() + self._config.patience
        while True:
            try:
                self._server.connect()
                # The server may not know that the connection is lost: then nobody ends it but us.
                self._server.run(_END_TRANSACTION, process, transaction)
                self._server.run(_WAIT)  # as long as the lost transaction goes on, it has the lock
                found = self._server.run(_MARK, number).fetchone()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if time.monotonic() > until:
                    raise JournalError(
                        f"{self.place}: the server was lost while a turn ended, and it is not known"
                        " whether the turn was kept; what can be read later is the truth",
                        is_passing=True,
                        is_in_doubt=True,
                    ) from error
                time.sleep(0.2)
            else:
                return None if found is None else found[0]

    # -- reading ------------------------------------------------------------------------------

    def find_users(self, names: Sequence[str]) -> list[int | None]:
        """Return the number of each user by name; None for one who never came, or is forgotten."""
        rows = self._fetch(_USERS, [name for name in names if _is_storable(name)])
        with self._damage():
            for name, number, checksum in rows:
                checked_name("users", number, (number, name, checksum))
        numbers = {name: number for name, number, _ in rows}
        return [numbers.get(name) for name in names]

    def _fetch(self, statement: str, *parameters: object) -> Rows:
        import psycopg

        with self._server.errors():
            connection = self._server.alive()
            try:
                return list(self._server.run(statement, *parameters).fetchall())
            except psycopg.OperationalError:
                if self._is_in_turn or not connection.closed:
                    raise
                self._server.alive()  # it was lost since it was used last: once more
                return list(self._server.run(statement, *parameters).fetchall())

    def _fetch_each(self, statement: str, numbers: Sequence[int]) -> Rows:
        return self._fetch(f"{statement} = ANY({{p}}::bigint[])", list(numbers))

    # -- damage -------------------------------------------------------------------------------

    def read_undamaged(self) -> Iterator[Event]:
        """Yield what can still be read of a damaged journal, in order, each event as it was."""
        for _, event in self._numbered():
            yield event

    def check(self) -> list[str]:
        """Return what is damaged, a line each; empty if all events are as they were written."""
        n_events, lines = 0, []
        try:
            with closing(PostgresJournal(self._config)) as fresh:
                fresh.open()
                n_events = fresh.count()
        except JournalError as error:
            if error.is_passing:
                raise
            lines.append(str(error))
        numbers = (number for number, _ in self._numbered())
        return [*lines, *gaps(numbers, n_events)][:MOST_LINES]

    def _numbered(self) -> Iterator[tuple[int, Event]]:
        """Yield the undamaged events with their numbers, on a connection of their own."""
        with closing(PostgresJournal(self._config)) as fresh:
            with fresh._server.errors():
                fresh._server.connect()
            [[last]] = fresh._fetch("SELECT coalesce(max(number), -1) FROM {schema}.events")
            for first in range(0, last + 1, BLOCK):
                yield from fresh._readable(first, min(first + BLOCK, last + 1))

    def _readable(self, first: int, last: int) -> Iterator[tuple[int, Event]]:
        try:
            rows = self._fetch(EVENTS, first, last)
            side = self._side_rows(rows)
        except JournalError as error:
            if error.is_passing:
                raise
            middle = (first + last) // 2  # a page is damaged: what is before it, and behind it
            if first < middle:
                yield from self._readable(first, middle)
                yield from self._readable(middle, last)
            return
        for row in rows:
            with suppress(DamagedRowError):
                [event] = events_of([row], side)
                yield row[0], event


def build(config: PostgresConfig, context: BuildContext) -> PostgresJournal:
    """Make the journal, which is not open yet; raise if psycopg is not installed."""
    if find_spec("psycopg") is None:
        raise PluginError("journal 'postgres' needs psycopg: install 'bdes-framework[postgres]'")
    return PostgresJournal(config)


def _is_storable(name: str) -> bool:
    """Return whether PostgreSQL can hold a name at all; if not, nobody is called so."""
    try:
        return b"\0" not in name.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
