"""Options that several commands share, and how they choose plugins."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.plugins import Plugins

F = TypeVar("F", bound=Callable[..., object])


def plugin_options(command: F) -> F:
    """Add the options that choose plugins: a config file, local modules, disabled ones."""
    for option in (
        click.option("--disable", "disabled", multiple=True, metavar="NAME",
                     help="Do not load this plugin or distribution."),
        click.option("--module", "modules", multiple=True, metavar="MODULE",
                     help="Also load a local module, file or package folder."),
        click.option("--config", "config", type=click.Path(path_type=Path), metavar="FILE",
                     help="Choose plugins as this file's [plugins] table says."),
    ):  # fmt: skip
        command = option(command)
    return command


def chosen_plugins(
    config: Path | None, modules: tuple[str, ...], disabled: tuple[str, ...]
) -> Plugins:
    """Load the plugins these options choose."""
    return load_plugins(config, modules=modules, disabled=disabled)
