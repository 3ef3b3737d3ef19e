"""``bdes live``: the commands of a learner that serves people, each imported only when called."""

from importlib import import_module

import click

_COMMANDS = {
    "init": ("live_start:init", "Write a folder with a commented live.toml to start from."),
    "serve": ("live_serve:serve", "Decide and learn over HTTP."),
    "status": ("live_journal:status", "Say whether it learns, what it shows, and its lift."),
    "replay": ("live_journal:replay", "Check that all was decided and learned as it says."),
    "export": ("live_journal:export", "Write all decisions as CSV or Parquet, for 'bdes fit'."),
    "simulate": ("live_simulate:simulate", "Serve users whose truth is known, over HTTP."),
}
"""Each command: where it is in this room, and what it does."""


class _Commands(click.Group):
    """The commands above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name][0].split(":")
        command = getattr(import_module(f"bdes_framework.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.command(cls=_Commands)
def live() -> None:
    """Decide for people who are waiting, and learn of what becomes of it.
    A live learner is a folder with a live.toml, and a journal of all that happened.
    """
