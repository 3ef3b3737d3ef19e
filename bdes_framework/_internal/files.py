"""Reading TOML and JSON files with errors that name the file; writing files atomically."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError, ConfigError, Mistake, StoreError

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_KEY_PARTS = 32
MAX_KEYS = 100_000
"""Of a TOML file: the parts of all keys. tomllib takes about a kilobyte for each."""

_STRING_OR_COMMENT = re.compile(
    r'''(?sx) \#[^\n]*+ | """ (?:[^"\\]++ | \\. | "(?!""))*+ """"{0,2} | '{3} .*? '{3}'{0,2}
    | " (?:[^"\\\n]++ | \\.)*+ " | ' [^'\n]*+ ' '''
)


def read_text(path: Path) -> str:
    """Return a text file's content (UTF-8); raise ConfigError if it cannot be read."""
    try:
        return _content(path).decode()
    except UnicodeDecodeError as error:
        raise invalid_file(path, f"is not UTF-8: {error}") from None


def read_toml(path: Path) -> dict[str, object]:
    """Return a TOML file's tables; raise ConfigError if it cannot be read."""
    return parse_toml(read_text(path), path)


def parse_toml(text: str, path: Path | str) -> dict[str, object]:
    """Return the tables of a TOML text; raise ConfigError, naming ``path``, if it is not valid."""
    _check_keys(text, path)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise invalid_file(path, f"is not valid TOML: {error}") from None
    except ValueError:  # int(): tomllib lets it through
        raise invalid_file(path, "has a number with too many digits") from None


def _check_keys(text: str, path: Path | str) -> None:
    """Raise if keys have so many parts that tomllib would need all memory for them."""
    n = 0
    for line in map(str.strip, _STRING_OR_COMMENT.sub("", text).split("\n")):
        parts = max(piece.count(".") for piece in re.split(r"[=,\[\]{}]", line)) + 1
        if parts > MAX_KEY_PARTS:
            raise invalid_file(
                path, f"has a key of {parts:,} parts; the maximum is {MAX_KEY_PARTS}"
            )
        is_heading = line.startswith("[") and line.endswith("]") and "," not in line
        n += parts * (line.count("=") or is_heading)
    if n > MAX_KEYS:
        raise invalid_file(path, f"has {n:,} parts of keys; the maximum is {MAX_KEYS:,}")


def read_json(path: Path, limit: int = MAX_BYTES) -> dict[str, object]:
    """Return the members of a JSON file's object; raise ConfigError if it has none."""
    content = _content(path, limit)
    try:
        return parse_json(content)
    except ValueError as error:
        raise invalid_file(path, str(error)) from None


def parse_json(content: str | bytes) -> dict[str, object]:
    """Return the members of a JSON object; raise ValueError if it is none or too deeply nested."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object, {...}")  # noqa: TRY004
    level: list[object] = [found]
    for _ in range(MAX_DEPTH):
        lists = [value for value in level if isinstance(value, list)]
        lists += [list(value.values()) for value in level if isinstance(value, dict)]
        level = [value for values in lists for value in values]
        if not level:
            return found
    raise ValueError(f"is nested more than {MAX_DEPTH} deep")


@contextmanager
def working_folder_restored() -> Iterator[None]:
    """Undo an ``os.chdir`` of a plugin: the run's own relative paths go on meaning the same."""
    try:
        before = Path.cwd()
    except FileNotFoundError:  # it was deleted, so nothing relative can be meant
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all: ``write`` fills a temporary file that takes its place.

    The temporary file lies in a new folder of this user's beside ``path``, so nobody can have put
    a link there; a link at ``path`` itself is replaced, not followed. Raises StoreError if the
    file cannot be written; what was there before then stays.
    """
    try:
        with TemporaryDirectory(prefix=".bdes-", dir=path.parent) as folder:
            temporary = Path(folder) / path.name
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
    except BdesError:  # of what is written, and no fault of the disk
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot write {quoted(str(path), 200)}: {reason}") from None


def replace_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) to a file, whole or not at all; see :func:`replace_file`."""
    replace_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def check_no_link(path: Path) -> None:
    """Raise StoreError if ``path`` exists and is a link, a device or anything but a plain file.

    For files of a run's folder, which may come from somebody else.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot read {quoted(str(path), 200)}: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        what = "a link, which is not followed" if stat.S_ISLNK(mode) else "not a file"
        raise StoreError(f"{quoted(str(path), 200)} is {what}")


def _content(path: Path, limit: int = MAX_BYTES) -> bytes:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe may never end, nor does /dev/zero
            kind = "a folder, not a file" if stat.S_ISDIR(mode) else "no regular file"
            raise OSError(f"is {kind}")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise invalid_file(path, getattr(error, "strerror", None) or str(error)) from None
    if len(content) > limit:
        raise invalid_file(path, f"is larger than {limit // 1024**2} MiB")
    return content


def invalid_file(path: Path | str, message: str) -> ConfigError:
    """Return the error that says what is wrong with a file."""
    return ConfigError([Mistake("", message)], str(path))
