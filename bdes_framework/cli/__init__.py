"""The ``bdes`` command: finds, imports and runs its subcommands, each only when called."""

import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import click

from bdes_framework._internal.text import one_line, printable
from bdes_framework._version import __version__
from bdes_framework.errors import BdesError

COMMANDS_GROUP = "bdes_framework.commands"
"""Entry-point group in which other distributions announce commands of their own."""

_OWN_COMMANDS = {
    "plugins": ("bdes_framework.cli.plugins:plugins", "List plugins, and what went wrong."),
    "fit": ("bdes_framework.cli.fit:fit", "Estimate arms from a log of pulls."),
    "plan": ("bdes_framework.cli.plan:plan", "Plan the best schedule for arms one knows."),
    "init": ("bdes_framework.cli.start:init", "Write a commented experiment file to start from."),
    "check": ("bdes_framework.cli.run:check", "Check an experiment file without running it."),
    "run": ("bdes_framework.cli.run:run", "Run an experiment, or go on with it."),
    "runs": ("bdes_framework.cli.runs:runs", "List runs."),
    "show": ("bdes_framework.cli.runs:show", "Print a run's table of results again."),
    "verify": ("bdes_framework.cli.runs:verify", "Check that a run is as it was written."),
    "compare": ("bdes_framework.cli.runs:compare", "Compare two runs, cell by cell."),
    "report": ("bdes_framework.cli.report:report", "Write a run as one HTML page with charts."),
    "plot": ("bdes_framework.cli.report:plot", "Save a chart of a run as SVG or PNG."),
    "export": ("bdes_framework.cli.runs:export", "Write a run's cells as CSV, JSON or Parquet."),
    "schema": ("bdes_framework.cli.start:schema", "Print a JSON Schema of the file, for editors."),
}


class _Commands(click.Group):
    """Commands of ours and of other distributions, each imported only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_OWN_COMMANDS, *sorted(set(_foreign_commands()) - set(_OWN_COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OWN_COMMANDS:
            module, name = _OWN_COMMANDS[cmd_name][0].split(":")
            command = getattr(import_module(module), name)
        else:
            points = _foreign_commands().get(cmd_name)
            if not points:
                return None
            command = _load_foreign(points[0])
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from bdes_framework._internal.text import did_you_mean, listed, quoted

        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            ctx.fail(
                f"no command is called {quoted(name)}.{did_you_mean(name, known)}"
                f" Commands: {listed(known)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        foreign = _foreign_commands()
        rows = []
        for name in self.list_commands(ctx):
            providers = [one_line(_provider(point)) for point in foreign.get(name, ())]
            text = _OWN_COMMANDS[name][1] if name in _OWN_COMMANDS else f"From {providers.pop(0)}."
            # Nobody takes over a command in silence: the first one wins, the others are named.
            ignored = f" (ignored: the one of {', '.join(providers)})" if providers else ""
            rows.append((one_line(name), text + ignored))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _foreign_commands() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=COMMANDS_GROUP), key=_provider):
        found.setdefault(point.name, []).append(point)
    return found


def _provider(point: EntryPoint) -> str:
    return point.dist.metadata["Name"] if point.dist is not None else "an unknown distribution"


def _load_foreign(point: EntryPoint) -> click.Command:
    who = f"command {point.name!r} of {_provider(point)}"
    try:
        command = point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        raise click.UsageError(f"{who} cannot be loaded: {reason}") from None
    if not isinstance(command, click.Command):
        raise click.UsageError(f"{who} is no click command but {type(command).__name__}")
    return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="bdes %(version)s")
def bdes() -> None:
    """Bandits with deterministically evolving states: plan, learn, compare.
    An experiment is a TOML file; all that plays in it is a plugin.
    """


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"bdes: warning: {one_line(str(message))}", err=True)


def main() -> None:
    """Run ``bdes``. Exit codes: 0 done, 1 the work failed, 2 the request was wrong."""
    warnings.showwarning = _show_warning
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nothing else may get its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    try:
        try:
            status = _status()
        finally:
            sys.stdout.flush()  # a full disk is noticed here, not when Python ends
    except BrokenPipeError:  # the reader, such as head, has seen enough
        _discard_output()
        status = 1
    except OSError as error:
        _discard_output()
        place = "cannot write the output" if error.filename is None else str(error.filename)
        click.echo(f"bdes: error: {printable(place)}: {error.strerror or error}", err=True)
        status = 1
    sys.exit(status)


def _status() -> int:
    """Run the command; return its exit code, after telling what was wrong."""
    try:
        bdes.main(prog_name="bdes", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        vars(error).update(message=printable(error.message))  # it may quote arguments
        error.show()
        return error.exit_code
    except BdesError as error:
        click.echo(f"bdes: error: {printable(str(error))}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("bdes: stopped", err=True)
        return 130
    return 0


def _discard_output() -> None:
    """Let Python close standard output at its end without failing again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
