"""A service for tests: in a thread, at a port of its own."""

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from bdes_framework.live.service.app import Service
from bdes_framework.live.service.gate import Gate, Rules
from bdes_framework.live.service.log import EventLog
from bdes_framework.live.service.server import HttpProtocol
from bdes_framework.live.session import LiveSession
from tests.support.fake_live import FakeSession


def application(
    session: FakeSession | LiveSession | None,
    rules: Rules | None = None,
    log: EventLog | None = None,
    **given: Any,
) -> Gate:
    """Return the ASGI application around a session."""
    service = Service(log or EventLog(io.StringIO()), **given)
    service.session = cast(Any, session)
    return service.application(rules or Rules())


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application; yield its address."""
    config = uvicorn.Config(
        app,
        port=0,
        log_config=None,
        lifespan="off",
        http=HttpProtocol,
        ws="none",
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
