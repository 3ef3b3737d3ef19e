"""Where an exception of a plugin comes from: its distribution and version, file and line."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from bdes_framework._internal.text import one_line
from bdes_framework.plugin.fingerprint import folder_beside, outermost_module
from bdes_framework.plugin.registry import PluginStatus


def place_of(error: BaseException, statuses: Iterable[PluginStatus]) -> tuple[str, str] | None:
    """Return the distribution and the place of the innermost line of a plugin in a traceback.

    The place reads ``acme 0.3, greedy.py:41``; None if no plugin's line is in it.
    """
    roots = dict(_roots(statuses))
    for file, line in reversed(list(_lines(error.__traceback__))):
        status = _plugin_of(file, roots)
        if status is not None:
            shown = f"{one_line(Path(file).name)}:{line}"
            origin = f"{status.distribution} " if status.is_local else f"{status.origin}, "
            return status.distribution, origin + shown
    return None


def origin_of_file(file: str, statuses: Iterable[PluginStatus]) -> str:
    """Return whose a source file is, such as ``acme 0.3``; empty if it is no plugin's."""
    status = _plugin_of(file, dict(_roots(statuses))) if file else None
    if status is None:
        return ""
    local = f"{status.distribution} {one_line(Path(file).name)}"
    return local if status.is_local else status.origin


def _plugin_of(file: str, roots: dict[Path, PluginStatus]) -> PluginStatus | None:
    """Return the plugin a source file belongs to: its own, or a module beside a local file."""
    path = Path(file)
    for parent in (path, *path.parents):
        if parent in roots:
            return roots[parent]
    for root, status in roots.items():
        if status.distribution == "local file" and path.parent == folder_beside(_source(root)):
            return status
    return None


def _source(root: Path) -> Path:
    return root / "__init__.py" if root.suffix != ".py" else root


def _roots(statuses: Iterable[PluginStatus]) -> Iterator[tuple[Path, PluginStatus]]:
    """Yield the package folder or the file of each loaded plugin's code."""
    for status in statuses:
        for name in {entry.build.__module__ for entry in status.entries}:
            module = outermost_module(name)
            if module is not None:
                path = Path(str(module.__file__))
                yield (path.parent if path.name == "__init__.py" else path), status


def _lines(trace: TracebackType | None) -> Iterator[tuple[str, int]]:
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
