"""Waiting in an event loop for what the writer thread finishes, a group of requests at a time."""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


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
