"""Command-line options that choose plugins, shared by several commands."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.plugins import Plugins

F = TypeVar("F", bound=Callable[..., object])


_OPTIONS: tuple[tuple[str, str, str, str], ...] = (
    ("--disable", "disabled", "NAME", "Do not load this plugin or distribution."),
    ("--module", "modules", "MODULE", "Also load a local module, file or package folder."),
)


def plugin_options(command: F) -> F:
    """Add the options that choose plugins: a config file, local modules, disabled ones."""
    for option, name, metavar, text in _OPTIONS:
        command = click.option(option, name, multiple=True, metavar=metavar, help=text)(command)
    text = "Choose plugins as this file's [plugins] table says."
    path = click.Path(path_type=Path)
    return click.option("--config", "config", type=path, metavar="FILE", help=text)(command)


def chosen_plugins(
    config: Path | None, modules: tuple[str, ...], disabled: tuple[str, ...]
) -> Plugins:
    """Load the plugins these options choose."""
    return load_plugins(config, modules=modules, disabled=disabled)
