"""Options and tables that several commands share."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click
from rich.table import Table
from rich.text import Text

F = TypeVar("F", bound=Callable[..., object])
PATH = click.Path(path_type=Path)


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
        table.add_row(Text(name, style="bold"), Text(text))
    return table
