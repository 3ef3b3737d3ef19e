"""Journal in one SQLite file: of one process at a time, with nothing to install or to run."""

import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from attrs import frozen

from bdes_framework import BuildContext, Event, InvalidValueError, JournalError
from bdes_journals.claims import Claims
from bdes_journals.rows import Counts, Turn, checked_name
from bdes_journals.salvage import PAGE_BYTES, events_in_pages, numbered_events_in_pages
from bdes_journals.tables import MOST_LINES, Rows, TableJournal, gaps

FORMAT = 1
"""The version of the tables; in the file as SQLite's ``user_version``."""

UPGRADES: Mapping[int, str] = {}
"""For each older format the statements that make it the next one."""

SECONDS_TO_WAIT = 60
"""For the turn of another thread or process."""

_APPLICATION = int.from_bytes(b"bdes")

_TABLES = """
CREATE TABLE header (text TEXT NOT NULL, checksum INTEGER NOT NULL, key BLOB NOT NULL);
CREATE TABLE head (
    events INTEGER, users INTEGER, decisions INTEGER, arms INTEGER, models INTEGER,
    checksum INTEGER NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, subject INTEGER NOT NULL,
    user_no INTEGER, arm INTEGER, chosen INTEGER, model INTEGER,
    value REAL, time REAL, checksum INTEGER NOT NULL);
CREATE UNIQUE INDEX decisions ON events (subject) WHERE kind = 1;
CREATE UNIQUE INDEX rewards ON events (subject) WHERE kind IN (2, 3);
CREATE INDEX windows ON events (subject) WHERE kind = 4;
CREATE UNIQUE INDEX models_made ON events (subject) WHERE kind = 8;
CREATE TABLE users (number INTEGER PRIMARY KEY, name, checksum INTEGER NOT NULL);
CREATE TABLE names (hash INTEGER, user_no INTEGER, PRIMARY KEY (hash, user_no)) WITHOUT ROWID;
CREATE TABLE arms (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE models (
    number INTEGER PRIMARY KEY, read INTEGER NOT NULL, digest TEXT NOT NULL,
    version TEXT NOT NULL, data BLOB, checksum INTEGER NOT NULL);
CREATE VIEW log AS
    SELECT d.subject AS decision, d.time AS time, d.user_no AS user, a.name AS arm,
        coalesce(
            (SELECT r.value FROM events r WHERE r.kind IN (2, 3) AND r.subject = d.subject
                AND r.kind = 2),
            (SELECT w.value FROM events w WHERE w.kind = 4 AND w.subject > d.subject
                ORDER BY w.subject, w.number LIMIT 1)) AS reward,
        d.value AS propensity
    FROM events d JOIN arms a ON a.number = d.arm WHERE d.kind = 1;
"""

_USERS_BY_HASH = (
    "SELECT u.number, u.name, u.checksum FROM main.names n JOIN main.users u"
    " ON u.number = n.user_no WHERE n.hash = ?"
)
_INSERT_EVENT = "INSERT INTO main.events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_MODEL = "INSERT INTO main.models VALUES (?, ?, ?, ?, ?, ?)"


@frozen
class SqliteConfig:
    """Keeps all in one SQLite file, durable before anybody is answered; one process at a time.

    Parameters
    ----------
    file : Path
        Where it lies; not on a network drive.
    """

    file: Path = Path("journal.sqlite")


class SqliteJournal(TableJournal):
    """Events in a SQLite file with a write-ahead log, which is synced at the end of each turn."""

    def __init__(self, config: SqliteConfig) -> None:
        self._file = config.file
        self.place = f"journal {str(config.file)[:200]!r}"
        self._connection: sqlite3.Connection | None = None
        self._claims = Claims(config.file)
        self._must_wipe = False
        self._key = b""

    def __repr__(self) -> str:
        return f"SqliteJournal({str(self._file)!r})"

    # -- opening and closing ------------------------------------------------------------------

    def create(self, header: str) -> None:
        """Make an empty journal with a header, and open it; refuse if there is one already."""
        with self._errors():
            # For this user alone: it holds the names of users.
            with suppress(FileExistsError):
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if self._file.stat().st_size:
                raise JournalError(f"{self.place} is there already")
            connection = self._connect()
            try:
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                with _transaction(connection):
                    if _number(connection, "user_version"):
                        raise JournalError(f"{self.place} is there already")
                    _run_all(connection, _TABLES)
                    self._key = os.urandom(16)
                    row = header, crc32(header.encode()), self._key
                    connection.execute("INSERT INTO header VALUES (?, ?, ?)", row)
                    connection.execute("INSERT INTO head VALUES (?, ?, ?, ?, ?, ?)", Counts().row())
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
                _sync_folder(self._file.absolute().parent)
            except BaseException:
                connection.close()
                raise
        self._adopt(connection)

    def open(self) -> str:
        """Open the journal and return its header; older formats are brought up to date."""
        with self._errors():
            if not self._file.is_file():
                raise JournalError(f"there is no {self.place}")
            connection = self._connect()
            try:
                self._check_format(connection)
                [[header, checksum, self._key]] = connection.execute(
                    "SELECT * FROM header"
                ).fetchall()
                if crc32(header.encode()) != checksum:
                    raise self._damaged("its header is not as it was written")
            except ValueError:
                connection.close()
                raise self._damaged("its header is gone") from None
            except BaseException:
                connection.close()
                raise
        self._adopt(connection)
        return str(header)

    def close(self) -> None:
        """Let go of the file and of claims; closing twice is fine."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._must_wipe:
                self._wipe(connection)
            connection.close()
        self._claims.close()

    def claim(self, role: str) -> bool:
        """Try to become the only holder of a role until close, or until this process ends."""
        with self._errors():
            connection = self._opened()
            held = self._claims.claim(role)
            if held and role == "owner":  # whoever was killed may have left names behind
                self._wipe(connection)
        return held

    def holder(self, role: str) -> str | None:
        """Return who holds a role, as ``process 123 on host``; None if that is not known."""
        return self._claims.holder(role)

    def _adopt(self, connection: sqlite3.Connection) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = connection

    def _connect(self) -> sqlite3.Connection:
        mode = "rw" if os.access(self._file, os.W_OK) else "ro"
        connection = sqlite3.connect(
            f"{self._file.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=SECONDS_TO_WAIT,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Bring an older format up to date; raise if this is a newer one, or no journal at all."""
        if _number(connection, "application_id") != _APPLICATION:
            raise JournalError(f"{self.place} is a database, but no journal of bdes-framework")
        version = _number(connection, "user_version")
        if version > FORMAT:
            raise JournalError(
                f"{self.place} was written by a newer bdes-framework (format {version}, this one"
                f" reads up to {FORMAT}): install that"
            )
        if version < FORMAT:
            with _transaction(connection):
                for older in range(_number(connection, "user_version"), FORMAT):
                    if older not in UPGRADES:
                        raise self._damaged(f"its format {older} was never written")
                    _run_all(connection, UPGRADES[older])
                connection.execute(f"PRAGMA user_version = {FORMAT}")

    # -- appending ----------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Generator[Turn]:
        """Wait for the turn to append; at its end all that was appended is durable."""
        connection = self._opened()
        with self._errors():
            connection.execute("BEGIN IMMEDIATE")
        turn: Turn | None = None
        try:
            turn = Turn(self._counts())
            yield turn
            with self._errors():
                if turn.events:
                    self._write(connection, turn)
                connection.execute("COMMIT")
        finally:
            if turn is not None:
                turn.is_over = True
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        self._must_wipe |= bool(turn.forgotten)
        if self._must_wipe:
            self._wipe(connection)

    def _write(self, connection: sqlite3.Connection, turn: Turn) -> None:
        # First who goes, then who comes: a name that was forgotten may come again.
        for user, _, checksum in turn.users_to_forget():
            self._blank(connection, user, checksum)
        new = turn.new_users()
        named = [(name, user) for user, name, _ in new if isinstance(name, str)]
        taken = [n for n in self.find_users([name for name, _ in named]) if n is not None]
        if taken or len(dict(named)) < len(named):
            raise InvalidValueError(f"{self.place}: a new user of this turn has another's name")
        try:
            connection.executemany(_INSERT_EVENT, turn.events)
            connection.executemany("INSERT INTO main.users VALUES (?, ?, ?)", new)
            hashed = [(self._hash(name), user) for name, user in named]
            connection.executemany("INSERT INTO main.names VALUES (?, ?)", hashed)
            connection.executemany("INSERT INTO main.arms VALUES (?, ?, ?)", turn.arms)
            connection.executemany(_INSERT_MODEL, turn.models)
        except sqlite3.IntegrityError:
            what = "a decision of this turn has a reward already"
            raise InvalidValueError(f"{self.place}: {what}") from None
        if turn.models:
            connection.execute(
                "UPDATE main.models SET data = NULL WHERE data IS NOT NULL AND number < ?",
                (turn.after.models - 2,),
            )
        connection.execute(
            "UPDATE main.head SET events = ?, users = ?, decisions = ?, arms = ?, models = ?,"
            " checksum = ?",
            turn.after.row(),
        )

    def _blank(self, connection: sqlite3.Connection, user: int, checksum: int) -> None:
        """Write zeros over a name, as long as it: no page is split, where a copy could stay."""
        query = "SELECT name FROM main.users WHERE number = ?"
        for (name,) in connection.execute(query, (user,)).fetchall():
            if isinstance(name, str):
                entry = self._hash(name), user
                connection.execute("DELETE FROM main.names WHERE hash = ? AND user_no = ?", entry)
                connection.execute(
                    "UPDATE main.users SET name = zeroblob(?), checksum = ? WHERE number = ?",
                    (len(name.encode()), checksum, user),
                )

    def _hash(self, name: str) -> int:
        """Return what a name is found by: it says nothing to those who have not the key."""
        digest = blake2b(name.encode(), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, signed=True)

    def _wipe(self, connection: sqlite3.Connection) -> None:
        """Empty the write-ahead log, where forgotten names still are; else the next turn does."""
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 100")
            [[is_busy, *_]] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._must_wipe = bool(is_busy)
        connection.execute(f"PRAGMA busy_timeout = {SECONDS_TO_WAIT * 1000}")

    # -- reading ------------------------------------------------------------------------------

    def _fetch(self, statement: str, *parameters: object) -> Rows:
        with self._errors():
            filled = statement.format(schema="main", p="?")
            return self._opened().execute(filled, parameters).fetchall()

    def find_users(self, names: Sequence[str]) -> list[int | None]:
        """Return the number of each user by name; None for one who never came, or is forgotten."""
        return [self._find_user(name) for name in names]

    def _find_user(self, name: str) -> int | None:
        try:
            wanted = self._hash(name)
        except UnicodeEncodeError:  # a lone surrogate: nobody is called so
            return None
        for user, found, checksum in self._fetch(_USERS_BY_HASH, wanted):
            with self._damage():
                if checked_name("users", user, (user, found, checksum)) == name:
                    return int(user)
        return None

    def _fetch_each(self, statement: str, numbers: Sequence[int]) -> Rows:
        with self._errors():
            filled = f"{statement.format(schema='main')} IN (SELECT value FROM json_each(?))"
            return self._opened().execute(filled, (json.dumps(numbers),)).fetchall()

    # -- damage -------------------------------------------------------------------------------

    def read_undamaged(self) -> Iterator[Event]:
        """Yield what can still be read of a damaged journal, in order, each event as it was.

        Needs nothing of SQLite's: it looks for rows in every page of the file.
        """
        with self._errors():
            yield from events_in_pages(self._file)

    def check(self) -> list[str]:
        """Return what is damaged, a line each; empty if all events are as they were written."""
        lines: list[str] = []
        n_events = 0
        try:
            with closing(SqliteJournal(SqliteConfig(self._file))) as fresh:
                fresh.open()
                n_events = fresh.count()
                rows = fresh._fetch(f"PRAGMA integrity_check({MOST_LINES})")
                lines += [" ".join(line.split()) for (line,) in rows if line != "ok"]
        except JournalError as error:
            lines.append(str(error))
        with self._errors():
            numbers = (number for number, _ in numbered_events_in_pages(self._file))
            lines += gaps(numbers, n_events)
        return lines[:MOST_LINES]

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise JournalError(f"{self.place} is not open")
        return self._connection

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Turn SQLite's errors into JournalErrors that say what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: of SQLite's own message
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if "decode" in str(error):
                code = sqlite3.SQLITE_CORRUPT
            what, is_passing = _ADVICE.get(code, (str(error), False))
            raise JournalError(f"{self.place}: {what}", is_passing=is_passing) from error
        except JournalError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise JournalError(f"{self.place}: {reason}", is_passing=False) from error


_DAMAGE = "it is damaged; see what can still be read with 'bdes live export --undamaged'"

_ADVICE: Mapping[int, tuple[str, bool]] = {
    sqlite3.SQLITE_FULL: ("the disk is full; nothing of this turn was kept", True),
    sqlite3.SQLITE_IOERR: ("the disk failed or is full; nothing of this turn was kept", True),
    sqlite3.SQLITE_BUSY: ("another process or thread did not end its turn", True),
    sqlite3.SQLITE_NOMEM: ("there is not enough memory", True),
    sqlite3.SQLITE_CANTOPEN: ("it or a file beside it cannot be opened", True),
    sqlite3.SQLITE_READONLY: ("it cannot be written here", False),
    sqlite3.SQLITE_CORRUPT: (_DAMAGE, False),
    sqlite3.SQLITE_NOTADB: (_DAMAGE, False),
}


def build(config: SqliteConfig, context: BuildContext) -> SqliteJournal:
    """Make the journal, which is not open yet."""
    return SqliteJournal(config)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _run_all(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements inside a transaction, which ``executescript`` would end."""
    for statement in filter(str.strip, statements.split(";")):
        connection.execute(statement)


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
