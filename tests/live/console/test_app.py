"""The console's routes: who gets what, with which headers, and how the stream is shared."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest
from httpx2 import Response
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bdes_framework._internal.colours import ARMS, BLACK, TEXT_CONTRAST, WHITE, contrast
from bdes_framework.live.console.app import (
    MAX_STREAMS,
    StatusStream,
    arms_style,
    console_routes,
)
from tests.support.asgi_client import AsgiClient

PAGES = ["/", "/console/console.js", "/console/console.css", "/console/arms.css"]


def asked(page: str, n_open: int = 0) -> Response:
    """Return the answer of a console that so many look at."""
    stream = StatusStream(lambda: "{}", asyncio.Event())
    stream.n_open = n_open
    return TestClient(Starlette(routes=console_routes(stream))).get(page)


@pytest.mark.parametrize("page", PAGES)
def test_strict_headers_on_every_file(page: str) -> None:
    answer = asked(page)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["cache-control"] == "no-store"


def test_one_reading_serves_all_browsers() -> None:
    readings: list[int] = []

    def read() -> str:
        readings.append(threading.get_ident())
        return str(len(readings))

    async def look(events: AsyncIterator[str], n: int) -> list[str]:
        return [await anext(events) for _ in range(n)]

    async def both() -> None:
        stopping = asyncio.Event()
        stream = StatusStream(read, stopping, 0.2)
        one, other = stream.events(), stream.events()
        first, second = await asyncio.gather(look(one, 1), look(other, 1))
        assert first == second == ["event: status\nid: 1\ndata: 1\n\n"]
        begin = time.monotonic()
        first, second = await asyncio.gather(look(one, 2), look(other, 2))
        assert first == second
        assert time.monotonic() - begin > 0.3
        assert len(readings) == 3
        assert threading.get_ident() not in readings, "the event loop waited for a reading"
        stopping.set()
        assert [event async for event in one] == []
        await asyncio.sleep(0.3)
        assert len(readings) == 3, "nobody looked"

    asyncio.run(both())


def test_streams_are_limited() -> None:
    answer = asked("/console/events", MAX_STREAMS)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


def test_streams_that_begin_at_once_are_limited() -> None:
    async def all_at_once() -> tuple[list[int], int]:
        stopping = asyncio.Event()
        stream = StatusStream(lambda: "{}", stopping)
        client = AsgiClient(Starlette(routes=console_routes(stream)))
        asked = [
            asyncio.create_task(client.answer("GET", "/console/events"))
            for _ in range(MAX_STREAMS + 9)
        ]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        stopping.set()
        return [answer.status for answer in await asyncio.gather(*asked)], stream.n_open

    statuses, left = asyncio.run(all_at_once())
    assert (statuses.count(200), statuses.count(503), left) == (MAX_STREAMS, 9, 0)


def test_arms_have_the_colours_of_reports() -> None:
    style = arms_style()
    for theme, ink in (("light", BLACK), ("dark", WHITE)):
        for arm, colour in enumerate(ARMS[theme]):
            assert f".arm-{arm} {{ fill: {colour};" in style
            assert contrast(ink, colour) >= TEXT_CONTRAST, "a label on it cannot be read"
