"""What is stored of an exception: on one line whose it is and where, and its traceback."""

import traceback
from collections.abc import Iterator

from bdes_framework._internal.text import one_line
from bdes_framework.errors import BdesError, PluginError
from bdes_framework.plugin.error_places import place_of
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.plugin.registry import FIRST_PARTY
from bdes_framework.simulation.chunk import noted_rounds

MAX_MESSAGE = 2_000
"""The most characters of an exception's message that are looked at."""

MAX_DETAILS = 20_000
"""The most characters of a traceback that are stored."""


def explained(error: BaseException, plugins: Plugins) -> tuple[str, str]:
    """Return an exception on one line and with its traceback, even if it cannot be printed.

    The line says which plugin raised it, where and in which round:
    ``acme 0.3, greedy.py:41, round 500: KeyError: 'oops'``. Both have a limited length.
    """
    place = _place(error, plugins)
    try:
        name, message = type(error).__name__, str(error)[:MAX_MESSAGE]
        line = place + one_line(f"{name}: {message}" if message else name)
        if max(len(str(each)) for each in _chain(error)) > MAX_DETAILS:
            details = "".join(traceback.format_tb(error.__traceback__)) + line
        else:
            details = "".join(traceback.format_exception(error))
    except Exception:
        line = details = f"{place}{type(error).__name__}, which cannot be shown"
    details = details.encode("utf-8", "backslashreplace").decode()
    if len(details) > MAX_DETAILS:
        half = MAX_DETAILS // 2
        left_out = f"\n... {len(details) - 2 * half} characters left out ...\n"
        details = details[:half] + left_out + details[-half:]
    return line, details


def _place(error: BaseException, plugins: Plugins) -> str:
    """Return who raised an exception, where and when, with a colon; empty if that is unknown."""
    # A factory's own error stands behind the PluginError that names it.
    raised = error.__cause__ if isinstance(error, PluginError) and error.__cause__ else error
    found = place_of(raised, plugins.statuses)
    # What our own plugins raise on purpose says what to do, and their lines help nobody.
    if found is None or (found[0] == FIRST_PARTY and isinstance(raised, BdesError)):
        return ""
    return ", ".join(filter(None, (found[1], noted_rounds(raised)))) + ": "


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those behind it, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
