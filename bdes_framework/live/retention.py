"""The thread that forgets the names of users who were not seen for long."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from bdes_framework._internal.text import error_text
from bdes_framework.errors import BdesError
from bdes_framework.interfaces import Journal
from bdes_framework.live.pace import ReadingEndedError, unhurried
from bdes_framework.live.requests import ForgetUnseen
from bdes_framework.model.events import Decided, Event, NewUser, UserForgotten

_MOST = 10_000
"""Names that are forgotten in one turn."""
_RETRY = 60.0


class Forgetter(Protocol):
    """Who forgets: a writer."""

    def new_journal(self) -> Journal:
        """Return a journal object that is not open."""

    def submit(self, request: ForgetUnseen) -> "Future[Any]":
        """Have users forgotten."""


class Keeper:
    """Looks for users not seen for long, at the start and then once a day or more often."""

    def __init__(self, writer: Forgetter, retention: float) -> None:
        self._writer = writer
        self._retention = retention
        self._closing = threading.Event()
        self.trouble: str | None = None
        """Why no names are forgotten at the moment."""
        self._thread = threading.Thread(target=self._run, name="bdes-live-keeper", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        usual = min(max(self._retention / 10, 0.1), 86_400.0)
        while not self._closing.is_set():
            pause = usual
            try:
                self._look()
                self.trouble = None
            except Exception as error:  # a journal of others' may raise anything
                said = str(error) if isinstance(error, BdesError) else error_text(error)
                self.trouble, pause = f"names are not forgotten: {said}", min(usual, _RETRY)
            self._closing.wait(pause)

    def _look(self) -> None:
        journal = self._writer.new_journal()
        try:
            journal.open()
            read = journal.count()
            events = unhurried(journal.read(), self._closing)
            unseen = users_not_seen(events, time.time() - self._retention)
        except ReadingEndedError:
            return
        finally:
            journal.close()
        for start in range(0, len(unseen), _MOST):
            self._writer.submit(ForgetUnseen(unseen[start : start + _MOST], read)).result()


def users_not_seen(events: Iterable[Event], since: float) -> list[int]:
    """Return the users with a name who came last before a time, of all events of a journal."""
    seen, n = np.zeros(1024), 0
    for event in events:
        if isinstance(event, NewUser):
            if n == seen.size:
                seen = np.append(seen, np.zeros(n))
            seen[n] = np.inf if event.name is None else 0.0
            n += 1
        elif isinstance(event, Decided):
            seen[event.user] = max(seen[event.user], event.time)
        elif isinstance(event, UserForgotten):
            seen[event.user] = np.inf
    unseen: list[int] = np.flatnonzero(seen[:n] < since).tolist()
    return unseen
