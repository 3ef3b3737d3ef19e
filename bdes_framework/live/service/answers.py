"""Waiting in an event loop for what the writer thread finishes, a group of requests at a time."""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from bdes_framework.errors import BdesError
from bdes_framework.live.decision import Decision
from bdes_framework.live.session import MAX_BATCH, LiveSession

T = TypeVar("T")
_Group: TypeAlias = "list[tuple[Sequence[str], asyncio.Future[list[Decision]]]]"


class Decisions:
    """Asks the session for all decisions that wait in one pass of the event loop, by one request.

    So what a request costs the writer, and waking the loop, is shared.
    """

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._waiting: _Group = []
        self._n_users = 0

    async def of(self, users: Sequence[str]) -> list[Decision]:
        """Return a decision for each user, who has been checked: at most as many as a batch has."""
        if self._n_users + len(users) > MAX_BATCH:
            self._ask()
        if not self._waiting:
            self._loop.call_soon(self._ask)
        waiting: asyncio.Future[list[Decision]] = self._loop.create_future()
        self._waiting.append((users, waiting))
        self._n_users += len(users)
        return await waiting

    def _ask(self) -> None:
        group, self._waiting, self._n_users = self._waiting, [], 0
        if not group:  # asked before, as there was no room for more
            return
        try:
            future = self._session.submit_decide([user for users, _ in group for user in users])
        except BdesError as error:
            _fail(group, error)
            return
        future.add_done_callback(lambda done: self._finish(group, done))

    def _finish(self, group: _Group, done: Future[list[Decision]]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(_hand_out, group, done)


def _hand_out(group: _Group, done: Future[list[Decision]]) -> None:
    """Give each request of a group its part of the decisions."""
    if (error := done.exception()) is not None:
        _fail(group, error)
        return
    found, first = done.result(), 0
    for users, waiting in group:
        if not waiting.cancelled():
            waiting.set_result(found[first : first + len(users)])
        first += len(users)


def _fail(group: _Group, error: BaseException) -> None:
    for _, waiting in group:
        if not waiting.cancelled():
            waiting.set_exception(error)


class Answers:
    """Hands finished futures to an event loop: one call into the loop for all of a group.

    ``asyncio.wrap_future`` would wake the loop once a request, through its pipe.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._finished: deque[tuple[Future[Any], asyncio.Future[Any]]] = deque()
        self._is_called = False

    async def of(self, future: Future[T]) -> T:
        """Return the result of a future that another thread finishes, or raise its error."""
        waiting: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda done: self._finish(done, waiting))
        return await waiting

    def _finish(self, done: Future[Any], waiting: asyncio.Future[Any]) -> None:
        self._finished.append((done, waiting))
        if not self._is_called:  # else the loop has yet to come, and will find this one too
            self._is_called = True
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_called = False  # before looking: what comes from now on calls again
        with suppress(IndexError):
            while True:
                done, waiting = self._finished.popleft()
                if waiting.cancelled():
                    continue
                if (error := done.exception()) is not None:
                    waiting.set_exception(error)
                else:
                    waiting.set_result(done.result())
