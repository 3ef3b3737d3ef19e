"""A connection to PostgreSQL that is made again when it was lost, and the roles that go with it."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from bdes_framework import JournalError

if TYPE_CHECKING:
    from psycopg import Connection

ENVIRONMENT = "BDES_JOURNAL_DSN"


class Server:
    """A connection, and statements with the name of the journal's schema filled in.

    Parameters
    ----------
    dsn : str | None
        The database; None for what the environment says.
    schema : str
        Where the journal's tables are.
    place : str
        What messages call the journal. They never show the dsn, which may have a password.
    """

    def __init__(self, dsn: str | None, schema: str, place: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self._place = place
        self._connection: Connection[Any] | None = None
        self._held: set[str] = set()
        self._filled: dict[str, str] = {}

    @property
    def connection(self) -> "Connection[Any]":
        """The connection; raises JournalError if none was made, or it was closed."""
        if self._connection is None:
            raise JournalError(f"{self._place} is not open")
        return self._connection

    def connect(self) -> "Connection[Any]":
        """Connect anew; roles that others took meanwhile are lost."""
        import psycopg

        if self._connection is not None:
            self._connection.close()
        connection = psycopg.connect(self._conninfo(), autocommit=True)
        try:
            # Whoever hangs in a turn, or cannot be heard any more, loses it before others give up.
            connection.execute(
                "SET idle_in_transaction_session_timeout = '20s'; SET lock_timeout = '60s'"
            )
            if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                connection.execute("SET synchronous_commit = on")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._held = {role for role in self._held if self._try_lock(role)}
        return connection

    def _conninfo(self) -> str:
        from psycopg import ProgrammingError, conninfo

        dsn = self._dsn or os.environ.get(ENVIRONMENT)
        if not dsn:
            raise JournalError(f"{self._place}: give it a dsn, or set {ENVIRONMENT}")
        ours: dict[str, int | str] = {
            "connect_timeout": 10,
            "tcp_user_timeout": 30_000,
            "application_name": f"bdes {os.getpid()} on {socket.gethostname()}",
        }
        try:
            given = conninfo.conninfo_to_dict(dsn)
            added = {key: value for key, value in ours.items() if key not in given}
            return conninfo.make_conninfo(dsn, **added)
        except ProgrammingError:  # whose message may show the password
            what = "its dsn must be as postgresql://user@host/database"
            raise JournalError(f"{self._place}: {what}") from None

    def alive(self) -> "Connection[Any]":
        """Return a connection that was not seen to be broken; raise if a role was lost with it."""
        if self.connection.closed:
            held = set(self._held)
            self.connect()
            if held - self._held:
                lost = ", ".join(held - self._held)
                raise JournalError(
                    f"{self._place}: the connection was lost, and another process is {lost} now",
                    is_passing=True,
                )
        return self.connection

    def claim(self, role: str) -> bool:
        """Take a role if nobody has it; True if this connection has it now."""
        self.alive()
        if role not in self._held and self._try_lock(role):
            self._held.add(role)
        return role in self._held

    def _try_lock(self, role: str) -> bool:
        digest = blake2b(f"bdes {self._schema} {role}".encode(), digest_size=8).digest()
        key = int.from_bytes(digest, signed=True)
        found = self.run("SELECT pg_try_advisory_lock({p})", key).fetchone()
        return bool(found == (True,))

    def run(self, statement: str, *parameters: object) -> Any:
        """Run a statement once, ``{schema}`` and ``{p}`` filled in; return its cursor."""
        from psycopg import sql

        if statement not in self._filled:
            names = {"schema": sql.Identifier(self._schema), "p": sql.Placeholder()}
            # A template of ours; what comes from outside is an identifier or a parameter.
            composed = sql.SQL(statement).format(**names)
            self._filled[statement] = composed.as_string(self.connection)
        cursor = self.connection.cursor(binary=bool(parameters))
        return cursor.execute(self._filled[statement], parameters or None)

    def roll_back(self) -> None:
        """End a transaction that is open; if the connection is lost, the server does that."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.rollback()

    def close(self) -> None:
        """Let go of the connection and of roles; closing twice is fine."""
        if self._connection is None:
            return
        if self._held:  # or the server lets go of them a moment later, when it notices
            with suppress(Exception):
                self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._held.clear()
        self._connection.close()
        self._connection = None

    @contextmanager
    def errors(self) -> Generator[None]:
        """Turn psycopg's errors into JournalErrors that say what to do."""
        import psycopg

        try:
            yield
        except psycopg.errors.UndefinedTable as error:
            raise JournalError(f"there is no {self._place}, or a table of it is gone") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            # The server is full, busy, stopping or out of reach: none of that is for ever.
            raise JournalError(f"{self._place}: {_line(error)}", is_passing=True) from error
        except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
            raise JournalError(f"{self._place} is damaged: {_line(error)}") from error
        except psycopg.Error as error:
            raise JournalError(f"{self._place}: {_line(error)}") from error


def _line(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())[:300]
