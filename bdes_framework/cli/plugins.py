"""``bdes plugins`` and ``bdes plugins show``: lists of plugins and of parameters."""

from typing import Any

import click
from attrs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bdes_framework._internal.text import ascii_controls, did_you_mean, listed, quoted
from bdes_framework.cli.completion import complete_plugins, note_names
from bdes_framework.cli.options import AS_JSON, json_text, output, plugin_options, write_data
from bdes_framework.errors import UnknownNameError
from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.parameters import parameters_of
from bdes_framework.plugin.registry import LIST_ITEM, Entry, PluginStatus

_PADDING = 2
_STYLES = {"loaded": "green", "disabled": "yellow", "failed": "bold red"}


@click.group(invoke_without_command=True)
@plugin_options
@AS_JSON
@click.pass_context
def plugins(context: click.Context, /, as_json: bool, **chosen: Any) -> None:
    """List plugins: what each registered, or why it failed."""
    if context.invoked_subcommand is not None:
        return
    loaded = load_plugins(**chosen)
    note_names(loaded.statuses)
    if as_json:
        write_data(json_text([_as_json(status) for status in loaded.statuses]))
        return
    console = output()
    entries = [entry for status in loaded.statuses for entry in status.entries]
    widths = [
        max(map(len, column), default=0) + _PADDING
        for column in ([str(entry.kind) for entry in entries], [entry.name for entry in entries])
    ]
    for status in loaded.statuses:
        _list_plugin(console, status, widths)
    if not loaded.statuses:
        console.print("No plugins found.")
    if any(status.state == "failed" for status in loaded.statuses):
        console.print("'bdes plugins show PLUGIN' prints a failure's whole traceback.")


@plugins.command()
@plugin_options
@click.argument("name", shell_complete=complete_plugins())
@AS_JSON
@click.pass_context
def show(context: click.Context, /, name: str, as_json: bool, **chosen: Any) -> None:
    """Show the parameters of a registered NAME, or one plugin by its NAME."""
    # The options may stand before 'show' or after it, as people write them.
    assert context.parent is not None
    before = context.parent.params
    loaded = load_plugins(
        chosen["config"] or before["config"],
        modules=before["modules"] + chosen["modules"],
        disabled=before["disabled"] + chosen["disabled"],
    )
    entries = [entry for entry in loaded.entries() if entry.name == name]
    statuses = [status for status in loaded.statuses if status.name == name]
    if not entries and not statuses:
        known = {e.name for e in loaded.entries()} | {s.name for s in loaded.statuses}
        raise UnknownNameError(
            f"nothing is called {quoted(name)}.{did_you_mean(name, known)} Known: {listed(known)}"
        )
    if as_json or before["as_json"]:
        found = {
            "entries": [_entry_json(entry) for entry in entries],
            "plugins": [_as_json(status) for status in statuses],
        }
        write_data(json_text(found))
        return
    console = output()
    for entry in entries:
        _show_entry(console, entry)
    for status in statuses:
        _show_plugin(console, status)


def _list_plugin(console: Console, status: PluginStatus, widths: list[int]) -> None:
    """Print one plugin: a heading, and what it registered or why it failed."""
    name, origin = ascii_controls(status.name), ascii_controls(status.origin)
    state = (status.state, _STYLES[status.state])
    console.print(Text.assemble((name, "bold"), f"  {origin}  ", state))
    table = Table.grid(padding=(0, 0, 0, _PADDING), pad_edge=True, expand=console.is_terminal)
    if status.state == "loaded":
        for width in widths:
            table.add_column(width=width)
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
        "details": status.details,
        "registered": [
            {"kind": entry.kind.value, "name": entry.name, "summary": entry.summary}
            for entry in (status.entries if status.state == "loaded" else ())
        ],
    }


def _entry_json(entry: Entry) -> dict[str, object]:
    return {
        "kind": entry.kind.value,
        "name": entry.name,
        "summary": entry.summary,
        "plugin": entry.plugin,
        "distribution": entry.distribution,
        "parameters": [asdict(parameter) for parameter in parameters_of(entry.config)],
    }


def _show_entry(console: Console, entry: Entry) -> None:
    console.print(_safe(f"{entry.kind} {entry.name}"), style="bold")
    console.print(_safe(entry.summary))
    for paragraph in entry.explanation:
        if not LIST_ITEM.match(paragraph):
            console.print(_safe(paragraph))
            continue
        item = Table.grid(padding=(0, 1, 0, 0))  # a hanging indent
        item.add_row(*map(_safe, paragraph.split(" ", 1)))
        console.print(item)
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
