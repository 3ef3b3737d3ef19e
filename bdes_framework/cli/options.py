"""Options and tables that several commands share."""

import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, printable, quoted
from bdes_framework.cli.completion import complete_disabled, items

F = TypeVar("F", bound=Callable[..., object])


class _PathType(click.Path):
    """A path that the system can be asked for."""

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | PathLike[str]:
        if "\0" in str(value):
            self.fail(f"{quoted(value)} is no path: it has a NUL character", param, ctx)
        return super().convert(value, param, ctx)


PATH = _PathType(path_type=Path)
TEXT_PATH = _PathType(path_type=str)


class RunType(_PathType):
    """A run: its path, a name that :func:`find_run` knows, or ``latest``."""

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | PathLike[str]:
        """Return the folder of the run, or raise UsageError."""
        from bdes_framework.experiment.find import find_run

        super().convert(value, param, ctx)
        return find_run(str(value))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names of runs, and leave paths to the shell."""
        from bdes_framework.experiment.find import run_names

        names = items(((name, "") for name in run_names()), incomplete)
        return [CompletionItem(incomplete, type="dir"), *names]


RUN = RunType(path_type=Path)

HORIZON = click.IntRange(min=1, max=10**15)
"""Up to here floats count every round."""
LEAVE = click.FloatRange(min=1e-9, max=1)
VISITS = click.FloatRange(min=1, max=1e9)

_PIPED_WIDTH = 10_000
"""Characters per line, where no terminal wraps it: what is piped is read line by line."""


class _Console(Console):
    """Where commands print; its reader may leave. In a pipe no line ends with blanks."""

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))
        self.file.flush()

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # main knows what to do, for all commands alike


def output() -> Console:
    """Return what commands print on: standard output, no line of it wrapped in a pipe."""
    console = _Console()
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def messages() -> Console:
    """Return where commands tell what they are doing: standard error."""
    return _Console(stderr=True)


def echo(text: str, *, err: bool = False) -> None:
    """Print text of any origin, control characters but newlines escaped."""
    click.echo(printable(text), err=err)


def json_text(value: object) -> str:
    """Return a value as JSON that any reader takes: NaN and infinity are null, text is ASCII."""
    return json.dumps(_finite(value), indent=1, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def inert(value: object) -> object:
    """Return text that a spreadsheet would run as a formula with a ``'`` before it."""
    live = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{value}" if live else value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV in which no spreadsheet finds a formula."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns)
    writer.writeheader()
    writer.writerows({name: inert(value) for name, value in row.items()} for row in rows)
    return buffer.getvalue()


def write_data(text: str) -> None:
    """Write data to standard output as it is; on a terminal, control characters escaped."""
    if sys.stdout.isatty():
        text = "".join(f"{ascii_controls(line)}\n" for line in text.splitlines())
    sys.stdout.write(text)  # click.echo would cut escape sequences out of the data


def write_new(file: Path, text: str) -> None:
    """Write a file that a user will change, in a folder that may be new; never over another."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise click.UsageError(f"{file} is already there; it was left as it is") from None
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror}") from None


AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")


def plugin_options(command: F) -> F:
    """Add options that choose plugins: ``config``, ``modules`` and ``disabled`` of load_plugins."""
    text = "Do not load this plugin or distribution."
    command = click.option(
        "--disable",
        "disabled",
        multiple=True,
        metavar="NAME",
        help=text,
        shell_complete=complete_disabled,
    )(command)
    text = "Also load a local module, file or package folder."
    command = click.option(
        "--module",
        "modules",
        multiple=True,
        metavar="MODULE",
        help=text,
        shell_complete=TEXT_PATH.shell_complete,
    )(command)
    text = "Choose plugins as this file's [plugins] table says."
    return click.option("--config", type=PATH, metavar="FILE", help=text)(command)


def print_facts(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Print names, in bold, and what is to be said about each."""
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(ascii_controls(text)))
    console.print(table)
