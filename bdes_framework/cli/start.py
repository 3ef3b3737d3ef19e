"""``bdes init`` writes a first experiment file; ``bdes schema`` prints its JSON Schema."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from bdes_framework.cli.options import PATH, echo, plugin_options, write_new
from bdes_framework.experiment.schema import experiment_schema
from bdes_framework.interfaces import Kind
from bdes_framework.plugin.load import load_plugins

_PREFERRED = ("posterior", "ucb1", "thompson")
_NO_POLICY = '# No policy is installed; name one here.\n# [[policies]]\n# use = "..."'


@click.command()
@click.argument("file", type=PATH, default="experiment.toml")
def init(file: Path) -> None:
    """Write a commented experiment to FILE (experiment.toml by default)."""
    template = (files("bdes_framework.cli") / "starter.toml").read_text(encoding="utf-8")
    names = [entry.name for entry in load_plugins().entries(Kind.POLICY)]
    chosen = [name for name in _PREFERRED if name in names] or names
    policies = "\n\n".join(f'[[policies]]\nuse = "{name}"' for name in chosen[:3])
    text = template.format(file=file.name, policies=policies or _NO_POLICY)
    write_new(file, text)
    echo(f"wrote {file}; next: bdes run {file}")


@click.command()
@plugin_options
def schema(**chosen: Any) -> None:
    """Print a JSON Schema of the experiment file, made from the installed plugins."""
    click.echo(json.dumps(experiment_schema(load_plugins(**chosen)), indent=2))
