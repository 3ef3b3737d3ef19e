"""The console's routes: the page, its few files, and the stream of what it shows."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from bdes_framework._internal.colours import ARMS
from bdes_framework.live.console.sign_in import SignIn, secure_headers, sign_in_page

EVERY_SECONDS = 2.0
MAX_STREAMS = 50
"""Browsers that look at once; each keeps a connection open."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = ("console.css", "console.js", "pictures.js", "words.js", "icon.svg")


class StatusStream:
    """What all browsers are sent: read once for all of them, and only while one looks.

    Parameters
    ----------
    read : Callable[[], str]
        Returns what there is to show, as one line of JSON; called in a thread.
    every : float
        Seconds from one to the next.
    """

    def __init__(self, read: Callable[[], str], every: float = EVERY_SECONDS) -> None:
        self._read = read
        self._every = every
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._text, self._number, self._time = "", 0, float("-inf")
        self.n_open = 0

    def close(self) -> None:
        """End all streams, so that the service can end."""
        self._closing.set()

    async def events(self) -> AsyncIterator[str]:
        """Yield server-sent events, the first at once, until closed."""
        self.n_open += 1
        try:
            while not self._closing.is_set():
                number, text = await self._newest()
                yield f"event: status\nid: {number}\ndata: {text}\n\n"
                try:
                    await asyncio.wait_for(self._closing.wait(), self._every)
                except TimeoutError:
                    continue
        finally:
            self.n_open -= 1

    async def _newest(self) -> tuple[int, str]:
        async with self._lock:
            if time.monotonic() - self._time > 0.9 * self._every:
                self._text = await anyio.to_thread.run_sync(self._read)
                self._number += 1
                self._time = time.monotonic()
            return self._number, self._text


def console_routes(stream: StatusStream, sign_in: SignIn) -> list[BaseRoute]:
    """Return the routes of ``/`` and of all below ``/console``; each asks for the token itself."""

    def guarded(
        answer: Callable[[Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guard(request: Request) -> Response:
            if sign_in.allows(request):
                return await answer(request)
            if request.url.path == "/":
                return sign_in_page()
            headers = {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
            return PlainTextResponse("sign in first, at /\n", 401, headers)

        return guard

    async def events(request: Request) -> Response:
        if stream.n_open >= MAX_STREAMS:
            text = f"{MAX_STREAMS} browsers look already, which is the most\n"
            return PlainTextResponse(text, 503, {"Retry-After": "10"})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream.events(), 200, headers, "text/event-stream")

    routes: list[BaseRoute] = [
        Route("/", guarded(_file("index.html"))),
        Route("/console/events", guarded(events)),
        Route("/console/arms.css", guarded(_arms_style)),
        *(Route(f"/console/{name}", guarded(_file(name))) for name in _FILES),
    ]
    if sign_in.is_needed:
        routes.append(Route("/console/sign-in", sign_in.enter, methods=["POST"]))
        routes.append(Route("/console/sign-out", sign_in.leave, methods=["POST"]))
    return routes


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files(__package__) / "assets" / name).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]

    async def answer(request: Request) -> Response:
        return Response(content, 200, secure_headers(_POLICY), kind)

    return answer


async def _arms_style(request: Request) -> Response:
    return Response(arms_style(), 200, secure_headers(_POLICY), "text/css")


def arms_style() -> str:
    """Return the colours of arms as a style sheet: those of the reports, by theme."""

    def rules(theme: str) -> str:
        return "\n".join(
            f".arm-{arm} {{ fill: {colour}; background: {colour}; }}"
            for arm, colour in enumerate(ARMS[theme])
        )

    return f"{rules('light')}\n@media (prefers-color-scheme: dark) {{\n{rules('dark')}\n}}\n"
