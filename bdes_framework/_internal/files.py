"""Reading TOML and JSON files with errors that name the file and the line."""

import json
import tomllib
from pathlib import Path

from bdes_framework.errors import ConfigError, Mistake

LARGEST_FILE = 16 * 1024 * 1024


def read_toml(path: Path) -> dict[str, object]:
    """Return a TOML file's tables, or raise ConfigError saying why it cannot be read."""
    content = _content(path)
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError([Mistake("", f"is not valid TOML: {error}")], str(path)) from None
    except ValueError:  # int(): tomllib lets it through
        raise ConfigError([Mistake("", "has a number with too many digits")], str(path)) from None


def read_json(path: Path) -> dict[str, object]:
    """Return the members of a JSON file's object, or raise ConfigError saying why not."""
    content = _content(path)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError([Mistake("", f"is not valid JSON: {error}")], str(path)) from None
    if not isinstance(found, dict):
        raise ConfigError([Mistake("", "is not a JSON object, {...}")], str(path))
    return found


def _content(path: Path) -> bytes:
    try:
        size, content = path.stat().st_size, b""
        if size <= LARGEST_FILE:
            content = path.read_bytes()
    except OSError as error:
        raise ConfigError([Mistake("", error.strerror or str(error))], str(path)) from None
    if size > LARGEST_FILE:
        raise ConfigError([Mistake("", "is larger than 16 MiB")], str(path))
    return content
