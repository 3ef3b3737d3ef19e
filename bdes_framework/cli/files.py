"""Writing files whole or not at all."""

from collections.abc import Callable
from pathlib import Path

import click


def replace_file(out: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file and put it in its place whole."""
    temporary = out.with_name(out.name + ".tmp")
    try:
        write(temporary)
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise click.UsageError(f"cannot write {out}: {error.strerror or error}") from None
