"""The rows of a log in temporary files, mapped into memory, that nobody can change."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from bdes_framework.errors import InvalidValueError


class RowStore:
    """Columns that grow block by block; close it when they were taken.

    What is mapped into memory stays when its file is closed, and is gone with the log.
    """

    def __init__(self, types: Mapping[str, type[np.generic]]) -> None:
        self._types = types
        self._stack = ExitStack()
        self._files = {name: self._stack.enter_context(_temporary_file()) for name in types}
        self.n_rows = 0

    def __enter__(self) -> "RowStore":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Store more rows of every column."""
        for name, dtype in self._types.items():
            _write_all(self._files[name], columns[name].astype(dtype, copy=False).tobytes())
        self.n_rows += len(next(iter(columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        """Return a whole column, mapped into memory."""
        with disk_errors():
            dtype = np.dtype(self._types[name])
            shape = (self.n_rows,)
            rows = np.asarray(np.memmap(self._files[name], dtype=dtype, mode="r+", shape=shape))
        freeze(rows)  # or the log would take copies
        return rows


def _temporary_file() -> IO[bytes]:
    """Return an anonymous temporary file; unbuffered, so that no write fails later on."""
    with disk_errors():
        return tempfile.TemporaryFile(buffering=0)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Say where a temporary file could not be written, and what helps."""
    try:
        yield
    except OSError as error:
        where = tempfile.tempdir or "a temporary file"
        raise InvalidValueError(
            f"cannot keep the rows in {where}: {error.strerror or error}; set TMPDIR to a folder"
            " with room"
        ) from None


def _write_all(file: IO[bytes], data: bytes) -> None:
    """Write all bytes: a disk that is nearly full takes a part, and fails next time."""
    left = memoryview(data)
    with disk_errors():
        while left:
            left = left[file.write(left) :]


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
