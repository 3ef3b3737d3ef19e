"""What shells complete: names of plugins and of runs, and the labels of a run.

Completing imports no code of third parties: the names that they register are noted whenever
``bdes plugins`` lists them.
"""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

from bdes_framework._internal.files import replace_text
from bdes_framework.cli import COMPLETE
from bdes_framework.errors import StoreError
from bdes_framework.experiment.find import find_run
from bdes_framework.experiment.store import open_store
from bdes_framework.plugin.discovery import Candidate, installed
from bdes_framework.plugin.load import load_plugins
from bdes_framework.plugin.registry import FIRST_PARTY, PluginStatus

_Answer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_Named: TypeAlias = tuple[str, str, str]
"""Kind, name and summary."""


def items(names: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """Return names, with what is said of each, as a shell reads them: a line each."""
    return [
        CompletionItem(name, help=text)
        for name, text in names
        if name.startswith(incomplete) and name.isprintable()
    ]


def complete_plugins(*kinds: str) -> _Answer:
    """Return what completes a registered name of these kinds, or of any, or of a plugin."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        named = [(name, text) for kind, name, text in _registered() if not kinds or kind in kinds]
        return items(named + ([] if kinds else _installed()), incomplete)

    return complete


def complete_disabled(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a plugin or distribution."""
    return items(_installed(), incomplete)


def complete_labels(column: str) -> _Answer:
    """Return what completes the label of an environment or policy of the run that was given."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        # Behind an option that has no value yet, click leaves arguments as they are.
        if not context.args:
            return []
        run = find_run(context.args[0])
        with closing(open_store(run, create=False, check=False)) as store:
            labels = dict.fromkeys(getattr(cell, column) for cell in store.plan())
        found = items(((label, "") for label in labels), incomplete)
        if os.environ.get(COMPLETE, "").startswith("bash"):  # the others quote by themselves
            for item in found:
                item.value = shlex.quote(item.value)
        return found

    return complete


def note_names(statuses: Iterable[PluginStatus]) -> None:
    """Keep what third parties' installed plugins registered, for completions to come."""
    known = _noted()
    loaded = {_key(s): s.entries for s in statuses if s.state == "loaded"}
    found = {}
    for key in map(_key, _foreign()):
        if key in loaded:
            found[key] = [(entry.kind.value, entry.name, entry.summary) for entry in loaded[key]]
        elif key in known:
            found[key] = known[key]
    if found != known:
        with suppress(OSError, StoreError):
            _file().parent.mkdir(parents=True, exist_ok=True)
            replace_text(_file(), json.dumps(found))


def _registered() -> list[_Named]:
    """Return what installed plugins registered, as far as it is known without importing them."""
    own = load_plugins(disabled=sorted({candidate.distribution for candidate in _foreign()}))
    found = [(entry.kind.value, entry.name, entry.summary) for entry in own.entries()]
    known = _noted()
    for candidate in _foreign():
        found += known.get(_key(candidate), ())
    return found


def _foreign() -> list[Candidate]:
    """Return the installed plugins of third parties, which are not imported for it."""
    return [candidate for candidate in installed() if candidate.distribution != FIRST_PARTY]


def _installed() -> list[tuple[str, str]]:
    """Return the names of plugins with their distributions, and of the distributions."""
    plugins = [(candidate.name, f"of {candidate.distribution}") for candidate in installed()]
    return plugins + [(name, "") for name in dict.fromkeys(c.distribution for c in installed())]


def _key(plugin: Candidate | PluginStatus) -> str:
    return f"{plugin.name} of {plugin.distribution} {plugin.version}"


def _noted() -> dict[str, list[_Named]]:
    with suppress(OSError, ValueError, TypeError, LookupError):
        found = json.loads(_file().read_text(encoding="utf-8"))
        return {key: [(kind, name, text) for kind, name, text in found[key]] for key in found}
    return {}


def _file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    environment = hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]
    return folder / "bdes-framework" / f"names-{environment}.json"
