"""``bdes init`` writes a first experiment file; ``bdes schema`` prints its JSON Schema."""

import json
from importlib.resources import files
from pathlib import Path

import click

from bdes_framework.cli.options import chosen_plugins, plugin_options
from bdes_framework.experiment.schema import experiment_schema
from bdes_framework.interfaces import Kind
from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.plugins import Plugins

_PREFERRED = ("ucb1", "thompson", "exp3", "uniform")


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="experiment.toml")
def init(file: Path) -> None:
    """Write a commented experiment to FILE (experiment.toml by default)."""
    template = (files("bdes_framework.cli") / "starter.toml").read_text(encoding="utf-8")
    text = template.format(file=file.name, policies=_policies(load_plugins()))
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise click.UsageError(f"{file} is already there; it was left as it is") from None
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror}") from None
    click.echo(f"wrote {file}; next: bdes run {file}")


def _policies(plugins: Plugins) -> str:
    names = [entry.name for entry in plugins.entries(Kind.POLICY)]
    chosen = [name for name in _PREFERRED if name in names] or names[:2]
    if not chosen:
        return '# No policy is installed; name one here.\n# [[policies]]\n# use = "..."'
    return "\n\n".join(f'[[policies]]\nuse = "{name}"' for name in chosen[:2])


@click.command()
@plugin_options
def schema(config: Path | None, modules: tuple[str, ...], disabled: tuple[str, ...]) -> None:
    """Print a JSON Schema of the experiment file, made from the installed plugins."""
    plugins = chosen_plugins(config, modules, disabled)
    click.echo(json.dumps(experiment_schema(plugins), indent=2))
