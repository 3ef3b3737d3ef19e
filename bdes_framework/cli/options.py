"""Options and tables that several commands share."""

from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TypeVar

import click
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, printable, quoted

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


def echo(text: str, *, err: bool = False) -> None:
    """Print text of any origin, control characters but newlines escaped."""
    click.echo(printable(text), err=err)


def plugin_options(command: F) -> F:
    """Add options that choose plugins: ``config``, ``modules`` and ``disabled`` of load_plugins."""
    for option, name, metavar, text in (
        ("--disable", "disabled", "NAME", "Do not load this plugin or distribution."),
        ("--module", "modules", "MODULE", "Also load a local module, file or package folder."),
    ):
        command = click.option(option, name, multiple=True, metavar=metavar, help=text)(command)
    text = "Choose plugins as this file's [plugins] table says."
    return click.option("--config", type=PATH, metavar="FILE", help=text)(command)


def fact_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names, in bold, and what is to be said about each."""
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(ascii_controls(text)))
    return table
