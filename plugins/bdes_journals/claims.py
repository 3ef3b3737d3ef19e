"""Roles of which one process at a time has each, as locks on small files beside a journal.

They are SQLite's own locks: the system lets go of them when a process ends, however it ends.
"""

import os
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from bdes_framework import InvalidValueError

ROLES = ("owner", "learner")


class Claims:
    """The roles that one object holds.

    Parameters
    ----------
    file : Path
        The journal; a lock's file lies beside it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._held: dict[str, sqlite3.Connection] = {}

    def claim(self, role: str) -> bool:
        """Take a role if nobody has it; True if this object has it now."""
        if role in self._held:
            return True
        path = self._path(role)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = _connect(path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS holder (pid INTEGER, host TEXT)")
            connection.execute("DELETE FROM holder")
            who = os.getpid(), socket.gethostname()
            connection.execute("INSERT INTO holder VALUES (?, ?)", who)
            connection.execute("COMMIT")
            # Others can read who it is, and take no such lock, as long as this one lasts.
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return False
            raise
        self._held[role] = connection
        return True

    def holder(self, role: str) -> str | None:
        """Return who took a role last, as ``process 123 on host``; None if that is not known."""
        with suppress(sqlite3.Error), closing(_connect(self._path(role))) as connection:
            row = connection.execute("SELECT pid, host FROM holder").fetchone()
            if row is not None:
                return f"process {row[0]} on {row[1]}"
        return None

    def close(self) -> None:
        """Let go of all roles."""
        while self._held:
            self._held.popitem()[1].close()

    def _path(self, role: str) -> Path:
        check_role(role)
        return self._file.with_name(f"{self._file.name}.{role}")


def check_role(role: str) -> None:
    """Raise InvalidValueError if there is no such role."""
    if role not in ROLES:
        raise InvalidValueError(f"a role is one of {', '.join(ROLES)}; got {role!r:.80}")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=0.2,
        isolation_level=None,
        check_same_thread=False,
    )
