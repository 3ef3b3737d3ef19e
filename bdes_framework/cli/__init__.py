"""The ``bdes`` command: finds, imports and runs its subcommands, each only when called."""

import os
import select
import signal
import sys
import warnings
from contextlib import redirect_stderr, suppress
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import click

from bdes_framework._internal.text import (
    did_you_mean,
    error_text,
    listed,
    one_line,
    printable,
    quoted,
)
from bdes_framework._version import __version__
from bdes_framework.cli.signals import exit_code
from bdes_framework.errors import BdesError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS_GROUP = "bdes_framework.commands"
"""Entry-point group in which other distributions announce commands of their own."""

COMPLETE = "_BDES_COMPLETE"
"""The environment variable by which click's scripts for shells ask for completions."""

_OWN_COMMANDS = {
    "plugins": ("bdes_framework.cli.plugins:plugins", "List plugins, and what went wrong."),
    "fit": ("bdes_framework.cli.fit:fit", "Estimate arms from a log of pulls."),
    "plan": ("bdes_framework.cli.plan:plan", "Plan the best schedule for arms one knows."),
    "init": ("bdes_framework.cli.start:init", "Write a commented experiment file to start from."),
    "check": ("bdes_framework.cli.run:check", "Check an experiment file without running it."),
    "run": ("bdes_framework.cli.run:run", "Run an experiment, or go on with it."),
    "runs": ("bdes_framework.cli.runs:runs", "List runs."),
    "show": ("bdes_framework.cli.show:show", "Print a run's answer and table again."),
    "verify": ("bdes_framework.cli.runs:verify", "Check that a run is as it was written."),
    "compare": ("bdes_framework.cli.compare:compare", "Compare runs, or the policies of one."),
    "report": ("bdes_framework.cli.report:report", "Write a run as one HTML page with charts."),
    "plot": ("bdes_framework.cli.report:plot", "Save a chart of a run as SVG, PNG or PDF."),
    "export": ("bdes_framework.cli.export:export", "Write a run's cells as CSV, JSON or Parquet."),
    "live": ("bdes_framework.cli.live:live", "Decide and learn for people, for months."),
    "warm-up": (
        "bdes_framework.cli.warm_up:warm_up",
        "Compile all loops now, not at first use.",
    ),
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return options and names of commands; none of them is imported for it."""
        from click.shell_completion import CompletionItem

        found = click.Command.shell_complete(self, ctx, incomplete)
        for name in self.list_commands(ctx):
            if name.startswith(incomplete):
                found.append(CompletionItem(name, help=_OWN_COMMANDS.get(name, ("", None))[1]))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        # What other distributions announce is only looked for where it is asked for.
        if name in _OWN_COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        if name not in known:
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
        raise click.UsageError(f"{who} cannot be loaded: {error_text(error)}") from None
    if not isinstance(command, click.Command):
        raise click.UsageError(f"{who} is no click command but {type(command).__name__}")
    return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="bdes %(version)s")
@click.help_option("-h", "--help", hidden=True)  # so that all fits on one screen
def bdes() -> None:
    """Bandits with evolving states: plan, learn, compare. Begin with `bdes init`."""


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"bdes: warning: {one_line(str(message))}", err=True)


def main() -> None:
    """Run ``bdes``. Exit codes: 0 done, 1 the work failed, 2 the request was wrong."""
    instruction = os.environ.get(COMPLETE)
    if instruction:
        sys.exit(_complete(instruction))
    warnings.showwarning = _show_warning
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: nothing else may get its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    try:
        try:
            status = _status()
        finally:
            sys.stdout.flush()  # a full disk is noticed here, not when Python ends
    except OSError as error:
        gone = isinstance(error, BrokenPipeError) and _reader_is_gone()
        _discard_output()
        if gone:  # it has seen enough, as head has: end as the signal would have ended us
            sys.exit(128 + signal.SIGPIPE)
        place = "cannot write the output" if error.filename is None else str(error.filename)
        click.echo(f"bdes: error: {printable(place)}: {error.strerror or error}", err=True)
        status = 1
    sys.exit(status)


def _status() -> int:
    """Run the command; return its exit code, after telling what was wrong."""
    try:
        # Not bdes.main, which ends itself where the reader has left.
        with bdes.make_context("bdes", sys.argv[1:]) as context:
            bdes.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        vars(error).update(message=printable(error.message))  # it may quote arguments
        error.show()
        return error.exit_code
    except BdesError as error:
        click.echo(f"bdes: error: {printable(str(error))}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt) as stop:
        click.echo("bdes: stopped", err=True)
        return exit_code(stop)
    return 0


def _complete(instruction: str) -> int:
    """Answer a shell that completes a command, or wants the script that lets it do so."""
    from click.shell_completion import shell_complete

    if not instruction.endswith("_complete"):
        return shell_complete(bdes, {}, "bdes", COMPLETE, instruction)
    # In the middle of a line nobody wants to read what is wrong somewhere else.
    with suppress(Exception), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):  # noqa: PTH123
        warnings.simplefilter("ignore")
        shell_complete(bdes, {}, "bdes", COMPLETE, instruction)
    return 0


def _reader_is_gone() -> bool:
    """Return whether nobody reads what is printed; another pipe may have broken, too."""
    asked = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # of a stream that is no file, as in tests
            asked.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _discard_output() -> None:
    """Let Python close its output at its end without failing again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
