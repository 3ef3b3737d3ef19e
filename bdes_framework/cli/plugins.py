"""``bdes plugins`` and ``bdes plugins show``: lists of plugins and of parameters."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, did_you_mean, listed, quoted
from bdes_framework.cli.options import chosen_plugins, plugin_options
from bdes_framework.errors import UnknownNameError
from bdes_framework.plugin.parameters import parameters_of
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import LIST_ITEM, Entry, PluginStatus

_PADDING = 2
_STYLES = {"loaded": "green", "disabled": "yellow", "failed": "bold red"}


@click.group(invoke_without_command=True)
@plugin_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def plugins(
    context: click.Context,
    config: Path | None,
    modules: tuple[str, ...],
    disabled: tuple[str, ...],
    as_json: bool,
) -> None:
    """List plugins: what each registered, or why it failed."""
    if context.invoked_subcommand is not None:
        return
    loaded = chosen_plugins(config, modules, disabled)
    if as_json:
        click.echo(json.dumps([_as_json(status) for status in loaded.records], indent=2))
        return
    console = Console()
    widths = _widths(loaded)
    for status in loaded.records:
        _list_plugin(console, status, widths)
    if not loaded.records:
        console.print("No plugins found.")
    if any(status.state == "failed" for status in loaded.records):
        console.print("'bdes plugins show PLUGIN' prints a failure's whole traceback.")


@plugins.command()
@plugin_options
@click.argument("name")
@click.pass_context
def show(
    context: click.Context,
    config: Path | None,
    modules: tuple[str, ...],
    disabled: tuple[str, ...],
    name: str,
) -> None:
    """Show the parameters of a registered NAME, or one plugin by its NAME."""
    # The options may stand before 'show' or after it, as people write them.
    before = context.parent.params if context.parent is not None else {}
    loaded = chosen_plugins(
        config or before["config"], (*before["modules"], *modules), (*before["disabled"], *disabled)
    )
    console = Console()
    entries = [entry for entry in loaded.entries() if entry.name == name]
    statuses = [status for status in loaded.records if status.name == name]
    if not entries and not statuses:
        known = {e.name for e in loaded.entries()} | {r.name for r in loaded.records}
        raise UnknownNameError(
            f"nothing is called {quoted(name)}.{did_you_mean(name, known)} Known: {listed(known)}"
        )
    for entry in entries:
        _show_entry(console, entry)
    for status in statuses:
        _show_plugin(console, status)


def _widths(loaded: Plugins) -> tuple[int, int]:
    entries = [entry for status in loaded.records for entry in status.entries]
    kinds = max((len(str(entry.kind)) for entry in entries), default=0)
    return kinds, max((len(entry.name) for entry in entries), default=0)


def _list_plugin(console: Console, status: PluginStatus, widths: tuple[int, int]) -> None:
    """Print one plugin: a heading, and what it registered or why it failed."""
    console.print(
        Text.assemble(
            (ascii_controls(status.name), "bold"),
            f"  {ascii_controls(status.origin)}  ",
            (status.state, _STYLES[status.state]),
        )
    )
    table = Table.grid(padding=(0, 0, 0, _PADDING), pad_edge=True, expand=True)
    if status.state == "loaded":
        table.add_column(width=widths[0] + _PADDING)
        table.add_column(width=widths[1] + _PADDING)
        table.add_column(ratio=1)
        for entry in status.entries:
            table.add_row(str(entry.kind), _safe(entry.name), _safe(entry.summary))
    elif status.reason:
        table.add_row(Text(ascii_controls(status.reason), style="red"))
    console.print(table)


def _as_json(status: PluginStatus) -> dict[str, object]:
    return {
        "plugin": status.name,
        "distribution": status.distribution,
        "version": status.version,
        "state": status.state,
        "reason": status.reason,
        "registered": [
            {"kind": entry.kind.value, "name": entry.name, "summary": entry.summary}
            for entry in (status.entries if status.state == "loaded" else ())
        ],
    }


def _show_entry(console: Console, entry: Entry) -> None:
    console.print(Text(f"{entry.kind} {entry.name}", style="bold"))
    console.print(_safe(entry.summary))
    for paragraph in entry.explanation:
        _print_paragraph(console, paragraph)
    console.print(_safe(f"from plugin {entry.plugin} of {entry.distribution}"), style="dim")
    parameters = parameters_of(entry.config)
    if not parameters:
        console.print("It has no parameters.")
        return
    table = Table(pad_edge=False, box=None, header_style="bold")
    for heading in ("Parameter", "Type", "Default", "Meaning"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "Parameter")
    for parameter in parameters:
        default = "required" if parameter.default is None else parameter.default
        table.add_row(*map(_safe, (parameter.name, parameter.type, default, parameter.meaning)))
    console.print(table)


def _print_paragraph(console: Console, text: str) -> None:
    """Print a paragraph, or a list item with a hanging indent."""
    mark, _, rest = text.partition(" ")
    if not LIST_ITEM.match(text):
        console.print(_safe(text))
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row(_safe(mark), _safe(rest))
    console.print(table)


def _show_plugin(console: Console, status: PluginStatus) -> None:
    name, origin = ascii_controls(status.name), ascii_controls(status.origin)
    state = (status.state, _STYLES[status.state])
    console.print(Text.assemble((f"plugin {name}", "bold"), f" of {origin}: ", state))
    if status.state == "loaded":
        for entry in status.entries:
            console.print(_safe(f"  {entry.kind} {entry.name}: {entry.summary}"))
    elif status.details:
        for line in status.details.splitlines():
            console.print(_safe(line))


def _safe(text: str) -> Text:
    """Return text of plugins without markup and control characters."""
    return Text(ascii_controls(text))
