"""Reading many events beside threads that decide, without keeping them from running."""

import threading
import time
from collections.abc import Iterable, Iterator

from bdes_framework.model.events import Event

_AT_ONCE = 500


class ReadingEndedError(Exception):
    """The session was closed while events were read."""


def unhurried(events: Iterable[Event], closing: threading.Event) -> Iterator[Event]:
    """Yield events, and after every 500 rest as long as they took.

    Only one thread runs Python at a time. A lower priority would not help: whoever waits for this
    thread would wait for all that goes before it on the machine. Raises ReadingEndedError once
    ``closing`` is set.
    """
    begin = time.perf_counter()
    for place, event in enumerate(events, 1):
        yield event
        if place % _AT_ONCE == 0:
            if closing.wait(time.perf_counter() - begin):
                raise ReadingEndedError
            begin = time.perf_counter()
