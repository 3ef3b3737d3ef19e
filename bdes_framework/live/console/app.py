"""The console's routes: the page, its few files, and the stream of what it shows."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from bdes_framework._internal.colours import ARMS
from bdes_framework.live.service.problems import HttpError

EVERY_SECONDS = 2.0
MAX_STREAMS = 50
"""Browsers that look at once; each keeps a connection open."""

# The gate of the service adds what all its answers have, such as nosniff.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = ("console.css", "console.js", "pictures.js", "words.js", "icon.svg")


class StatusStream:
    """What all browsers are sent: read once for all of them, and only while one looks.

    Parameters
    ----------
    read : Callable[[], str]
        Returns what there is to show, as one line of JSON; called in a thread.
    stopping : asyncio.Event
        Set when the service stops: all streams end then.
    every : float
        Seconds from one to the next.
    """

    def __init__(
        self, read: Callable[[], str], stopping: asyncio.Event, every: float = EVERY_SECONDS
    ) -> None:
        self._read = read
        self._stopping = stopping
        self._every = every
        self._lock = asyncio.Lock()
        self._text, self._number, self._time = "", 0, float("-inf")
        self.n_open = 0

    async def events(self) -> AsyncIterator[str]:
        """Yield server-sent events, the first at once, until the service stops."""
        while not self._stopping.is_set():
            number, text = await self._newest()
            yield f"event: status\nid: {number}\ndata: {text}\n\n"
            try:
                await asyncio.wait_for(self._stopping.wait(), self._every)
            except TimeoutError:
                continue

    async def _newest(self) -> tuple[int, str]:
        async with self._lock:
            if time.monotonic() - self._time > 0.9 * self._every:
                loop = asyncio.get_running_loop()
                self._text = await loop.run_in_executor(None, self._read)
                self._number += 1
                self._time = time.monotonic()
            return self._number, self._text


class _Events(StreamingResponse):
    """A stream to one browser, counted from before its first byte until it ends."""

    def __init__(self, stream: StatusStream) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream.events(), 200, headers, "text/event-stream")
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the browser leaves, or the service stops."""
        self._stream.n_open += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.n_open -= 1


def console_routes(stream: StatusStream) -> list[BaseRoute]:
    """Return the routes of ``/`` and of all below ``/console``."""

    async def events(request: Request) -> Response:
        if stream.n_open >= MAX_STREAMS:
            text = f"{MAX_STREAMS} browsers look already, which is the most"
            return HttpError(503, text, retry_after="10").response()
        return _Events(stream)

    return [
        Route("/", _file("index.html")),
        Route("/console/events", events),
        Route("/console/arms.css", _answer(arms_style(), "text/css")),
        *(Route(f"/console/{name}", _file(name)) for name in _FILES),
    ]


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files(__package__) / "assets" / name).read_text(encoding="utf-8")
    return _answer(content, _TYPES[name.rpartition(".")[2]])


def _answer(content: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(content, 200, _HEADERS, kind)

    return answer


def arms_style() -> str:
    """Return the colours of arms as a style sheet: those of the reports, by theme."""

    def rules(theme: str) -> str:
        return "\n".join(
            f".arm-{arm} {{ fill: {colour}; background: {colour}; }}"
            for arm, colour in enumerate(ARMS[theme])
        )

    return f"{rules('light')}\n@media (prefers-color-scheme: dark) {{\n{rules('dark')}\n}}\n"
