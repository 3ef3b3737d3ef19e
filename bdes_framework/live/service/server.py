"""Listening, getting ready beside that, and stopping without losing what was accepted."""

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import uvicorn
from starlette.routing import BaseRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

from bdes_framework.errors import ServiceError
from bdes_framework.live.serve_config import ServeConfig
from bdes_framework.live.service.app import Service
from bdes_framework.live.service.gate import Gate, Rules
from bdes_framework.live.service.log import EventLog, LogHandler
from bdes_framework.live.session import LiveSession

_BACKLOG = 2_048
_KEEP_ALIVE_SECONDS = 75
_LOOK_SECONDS = 0.02
_SWITCH_SECONDS = 0.0005
"""How long one thread may keep the others from running Python. A request is handed from loop to
writer and back; by Python's own 5 ms it would wait for the learner at each of these steps."""
HEAD_SECONDS = 10.0
"""How long the head of a request may take, from the connection or its first byte on."""
_FILES = 65_536
_SPARE_FILES = 64
"""Open files that are left to the journal, however many connect."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    open_session: Callable[[], LiveSession],
    config: ServeConfig,
    token: str | None,
    log: EventLog,
    routes: Callable[[Service], Sequence[BaseRoute]] = lambda _: (),
) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, and close the session.

    Listens at once and answers ``/health``; the session is opened beside that. What its opening
    raises ends the service and is raised here.
    """
    listener = _listen(config)
    _allow_connections()
    handler = LogHandler(log)
    root = logging.getLogger()
    root.addHandler(handler)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        asyncio.run(_serve(open_session, config, token, log, routes, listener))
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        root.removeHandler(handler)
        listener.close()


def _listen(config: ServeConfig) -> socket.socket:
    """Return a socket that listens; raise ServiceError if the address is not to be had."""
    host = "127.0.0.1" if config.host == "localhost" else config.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio sends small answers at once only where it sees that it is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, config.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServiceError(
            f"cannot listen on {host} port {config.port}: {error.strerror or error}"
        ) from None
    return listener


async def _serve(
    open_session: Callable[[], LiveSession],
    config: ServeConfig,
    token: str | None,
    log: EventLog,
    routes: Callable[[Service], Sequence[BaseRoute]],
    listener: socket.socket,
) -> None:
    service = Service(log, config.max_body)
    rules = Rules(token, config.hosts, config.max_waiting)
    server = _Server(service, _uvicorn_config(service.application(rules, routes(service)), config))
    opening = _in_own_thread(open_session)
    ready = asyncio.create_task(_get_ready(service, opening, server))
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    log.write("listening", url=f"http://{shown}:{port}", token=token is not None)
    await server.serve([listener])
    log.write("stopping")
    try:
        await ready
    finally:
        if service.session is not None:
            await service.in_thread(service.session.close)
        log.write("stopped")


async def _get_ready(service: Service, opening: "Future[LiveSession]", server: "_Server") -> None:
    """Wait for the session, and say so; end the service if it cannot be opened."""
    try:
        service.session = await asyncio.wrap_future(opening)
    except BaseException as error:
        service.log.failure("session not opened", error)
        server.stop()
        raise
    while not (service.session.is_ready or service.stopping.is_set()):
        await asyncio.sleep(_LOOK_SECONDS)
    if service.session.is_ready:
        # What was loaded stays: to look for garbage among it takes a tenth of a second each time.
        gc.freeze()
        service.log.write("ready")


def _in_own_thread(work: Callable[[], LiveSession]) -> "Future[LiveSession]":
    """Return the future of a call in a thread of its own."""
    future: Future[LiveSession] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="open session").start()
    return future


def _uvicorn_config(app: Gate, config: ServeConfig) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=HttpProtocol,
        ws="none",
        server_header=False,
        proxy_headers=False,  # nothing here depends on who a proxy says it calls for
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=config.drain_seconds,
        backlog=_BACKLOG,
    )


class HttpProtocol(H11Protocol):
    """HTTP/1.1, whose requests have to begin: who sends nothing, or half a head, is cut off.

    Uvicorn itself waits for ever for the first request, and for the end of every head.
    """

    _cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, if there is room for one more."""
        super().connection_made(transport)
        if len(self.connections) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES:
            transport.abort()
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Go on with a request, or with its head."""
        super().data_received(data)
        if not self._is_in_head():
            self._stop_waiting()
        elif self._cut_off is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_in_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._cut_off = self.loop.call_later(HEAD_SECONDS, self._come_too_late)

    def _stop_waiting(self) -> None:
        if self._cut_off is not None:
            self._cut_off.cancel()
            self._cut_off = None

    def _come_too_late(self) -> None:
        if self._is_in_head():
            self.transport.abort()


def _allow_connections() -> None:
    """Allow this process as many open files, and so connections, as it may have, up to a bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Server(uvicorn.Server):
    """Uvicorn's server, stopped by signals in a way that other parts of the service see."""

    def __init__(self, service: Service, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; uvicorn itself would send it to the process once more at the end."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Accept nothing more, and end when everything accepted is answered."""
        self._service.stopping.set()
        self.should_exit = True
