"""``bdes live init`` writes a folder to start from."""

import json
from importlib.resources import files
from pathlib import Path

import click

from bdes_framework._internal.files import parse_toml
from bdes_framework.cli.options import PATH, echo, write_new
from bdes_framework.errors import ConfigError
from bdes_framework.interfaces import ChoosesApart
from bdes_framework.live.config import FILE, build_live

_FLOOR = 0.01


@click.command()
@click.argument("folder", type=PATH)
@click.option("--arms", required=True, metavar="A,B,...", help="What can be shown, by name.")
@click.option("--policy", default="crowd-posterior", metavar="NAME", help="What decides.")
def init(folder: Path, arms: str, policy: str) -> None:
    """Write FOLDER with a commented live.toml that works as it is."""
    names = [name.strip() for name in arms.split(",")]
    file = folder / FILE
    template = (files("bdes_framework.cli") / FILE).read_text(encoding="utf-8")

    def filled(floor: float) -> str:
        return template.format(
            folder=folder.name,
            name=json.dumps(folder.resolve().name),
            arms=json.dumps(names, ensure_ascii=False),
            policy=f"{{ use = {json.dumps(policy)} }}",
            floor=f"{floor:g}",
        )

    text = filled(min(_FLOOR, 1 / (2 * len(names))))
    try:
        setup = build_live(parse_toml(text, file), str(file), folder.resolve())
    except ConfigError as error:
        raise click.UsageError("; ".join(str(mistake) for mistake in error.mistakes)) from None
    made = setup.plugins.crowd_policy(setup.policy, setup.config.problem, seed=1)
    if not isinstance(made, ChoosesApart):
        text = filled(0)
    write_new(file, text)
    echo(f"wrote {file}; next: bdes live serve {folder}")
