"""A private DuckDB database in memory, in which a log is gathered, checked and sorted.

It spills to a temporary folder of its own, loads no extensions, and can read nothing but the
files it was opened for. What comes from outside, paths and values, is passed as parameters or
quoted; columns have names of our own.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError

if TYPE_CHECKING:
    pass

EXTRA = "pip install 'bdes-framework[logs]'"
_MEMORY = 2 << 30
"""Bytes; what does not fit goes to the temporary folder."""
_SECONDS_BETWEEN_LOOKS = 0.1


def has_duckdb() -> bool:
    """Return whether the extra ``logs`` is installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return False
    return True


class LogDatabase:
    """The database; close it when the log was taken.

    Parameters
    ----------
    folder : Path
        A temporary folder that nobody else writes to.
    name : str
        What the log is called in error messages.
    readable : Sequence[Path]
        Files and folders it may read, besides its own folder.
    on_progress : Callable[[float], None] | None
        Called with the part of the work that is done, from 0 to 1.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        readable: Sequence[Path] = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        try:
            import duckdb
        except ImportError:
            raise InvalidValueError(f"{name} needs DuckDB to be read: {EXTRA}") from None
        self.folder, self.name = folder, name
        self._on_progress, self._done, self._until = on_progress, 0.0, 0.0
        self._error: type[Exception] = duckdb.Error
        config: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "temp_directory": str(folder),
            "memory_limit": f"{_MEMORY >> 20}MiB",
        }
        self._con: duckdb.DuckDBPyConnection = duckdb.connect(":memory:", config=config)
        self._settle([folder, *readable])

    def _settle(self, readable: Sequence[Path]) -> None:
        real = [path.resolve() for path in readable]
        folders = [sql_text(str(path)) for path in real if path.is_dir()]
        files = [sql_text(str(path)) for path in real if not path.is_dir()]
        for setting in (
            "python_enable_replacements = false",
            "TimeZone = 'UTC'",
            "enable_progress_bar = true",
            "enable_progress_bar_print = false",
            "preserve_insertion_order = true",
            f"allowed_directories = [{', '.join(folders)}]",
            f"allowed_paths = [{', '.join(files)}]",
        ):
            self.rows(f"SET {setting}")

    def lock(self) -> None:
        """Read nothing from now on but what was allowed; call it before any statement of others."""
        self.rows("SET enable_external_access = false")
        self.rows("SET lock_configuration = true")

    def __enter__(self) -> "LogDatabase":
        return self

    def __exit__(self, *error: object) -> None:
        self._con.close()

    def frame(self, name: str, frame: Any) -> None:
        """Let statements see a frame, or a dictionary of arrays, as a table."""
        with self._own_errors():
            self._con.register(name, frame)

    def statements(self, query: str) -> Sequence[Any]:
        """Return the statements of some SQL."""
        with self._own_errors():
            found: list[Any] = self._con.extract_statements(query)
            return found

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the result of a small statement."""
        with self._own_errors():
            found: list[tuple[Any, ...]] = self._con.execute(statement, list(values)).fetchall()
            return found

    def arrays(self, statement: str, values: Sequence[object] = ()) -> dict[str, NDArray[Any]]:
        """Return the columns of a result as arrays; what is NULL is a masked array."""
        with self._own_errors():
            found: dict[str, NDArray[Any]] = self._con.execute(statement, list(values)).fetchnumpy()
            return found

    def tell(self, done: float) -> None:
        """Say which part of the work is done."""
        self._done = max(self._done, done)
        if self._on_progress is not None:
            self._on_progress(self._done)

    def run(self, statement: str, until: float) -> list[tuple[Any, ...]]:
        """Return the result of a long statement; ``until`` is the part of the work done after it.

        It runs in a thread of its own, so that this one hears Ctrl-C and can tell the progress.
        """
        failed: list[BaseException] = []
        found: list[tuple[Any, ...]] = []

        def work() -> None:
            try:
                found.extend(self._con.execute(statement).fetchall())
            except BaseException as error:
                failed.append(error)

        begin = self._done
        thread = threading.Thread(target=work, name="bdes-log", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_SECONDS_BETWEEN_LOOKS)
                share = self._con.query_progress() / 100
                if thread.is_alive() and 0 < share <= 1:
                    self.tell(begin + (until - begin) * share)
        except BaseException:
            self._con.interrupt()
            thread.join()
            raise
        if failed:
            with self._own_errors():
                raise failed[0]
        self.tell(until)
        return found

    def _own_errors(self) -> "_OwnErrors":
        return _OwnErrors(self.name, self._error)


class _OwnErrors:
    """Turns what DuckDB says into an error of ours."""

    def __init__(self, name: str, kind: type[Exception]) -> None:
        self._name, self._kind = name, kind

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, self._kind):
            return
        said = str(error).strip().split("\n")[0]
        if "No space left" in said or "File too large" in said or "max_temp_directory" in said:
            raise InvalidValueError(
                f"cannot keep the rows of {self._name}: {said}; set TMPDIR to a folder with room"
            ) from None
        raise InvalidValueError(f"cannot read {self._name}: {quoted(said)}") from None


def sql_text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def sql_name(value: str) -> str:
    """Return the name of a column as SQL writes it."""
    return '"' + value.replace('"', '""') + '"'


def sql_path(path: Path, folder: Path) -> str:
    """Return a path as SQL writes it; one that would be a pattern gets a link in a folder."""
    if set(str(path)) & set("*?["):
        link = folder / f"link-{len(list(folder.iterdir()))}"
        link.symlink_to(path.resolve())
        path = link
    return sql_text(str(path))


def codes_of(values: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of a result without a mask, which none of its values needs."""
    return np.ma.getdata(values).astype(dtype, copy=False)
