"""Reading TOML files with errors that name the file and the line."""

import tomllib
from pathlib import Path

from bdes_framework.errors import ConfigError, Mistake

LARGEST_FILE = 16 * 1024 * 1024


def read_toml(path: Path) -> dict[str, object]:
    """Return a TOML file's tables, or raise ConfigError saying why it cannot be read."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError([Mistake("", "is larger than 16 MiB")], str(path))
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([Mistake("", error.strerror or str(error))], str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError([Mistake("", f"is not valid TOML: {error}")], str(path)) from None
