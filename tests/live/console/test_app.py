"""The console's routes: who gets what, with which headers, and how the stream is shared."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bdes_framework._internal.colours import ARMS, BLACK, TEXT_CONTRAST, WHITE, contrast
from bdes_framework.live.console.app import (
    MAX_STREAMS,
    StatusStream,
    arms_style,
    console_routes,
)
from bdes_framework.live.console.sign_in import COOKIE, LASTS, SignIn

TOKEN = "a-token-of-the-shop"
PAGES = ["/", "/console/console.js", "/console/console.css", "/console/arms.css"]


def client(token: str | None = None, stream: StatusStream | None = None) -> TestClient:
    stream = StatusStream(lambda: "{}") if stream is None else stream
    app = Starlette(routes=console_routes(stream, SignIn(token)))
    return TestClient(app, "http://127.0.0.1", follow_redirects=False)


@pytest.mark.parametrize("page", PAGES)
def test_strict_headers_on_every_file(page: str) -> None:
    answer = client().get(page)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("page", [*PAGES, "/console/events", "/console/icon.svg"])
def test_nothing_without_the_token(page: str) -> None:
    asked = client(TOKEN)
    for headers in ({}, {"authorization": "Bearer no"}, {"authorization": f"Basic {TOKEN}"}):
        answer = asked.get(page, headers=headers)
        assert answer.status_code == 401
        assert "<script" not in answer.text
    if page != "/console/events":
        assert asked.get(page, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_token_in_form_makes_a_cookie() -> None:
    asked = client(TOKEN)
    answer = asked.post("/console/sign-in", data={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert asked.get("/").status_code == 200
    assert asked.post("/console/sign-out").status_code == 303
    assert asked.get("/").status_code == 401


def test_cookie_is_secure_over_tls() -> None:
    asked = TestClient(
        Starlette(routes=console_routes(StatusStream(lambda: "{}"), SignIn(TOKEN))),
        "https://shop.example",
        follow_redirects=False,
    )
    answer = asked.post("/console/sign-in", data={"token": TOKEN})
    assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.parametrize("form", [{}, {"token": ""}, {"token": "wrong"}, {"token": "ä\ud800"[0]}])
def test_wrong_token_gets_no_cookie(form: dict[str, str]) -> None:
    answer = client(TOKEN).post("/console/sign-in", data=form)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_endless_form_is_cut_off() -> None:
    answer = client(TOKEN).post("/console/sign-in", data={"token": "x" * 100_000})
    assert answer.status_code == 413


def test_forged_and_old_cookies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(TOKEN)
    answer = asked.post("/console/sign-in", data={"token": TOKEN})
    cookie = answer.cookies[COOKIE]
    until, _, code = cookie.partition(".")
    longer = f"{int(until) + 1}.{code}"
    for forged in (longer, f"{until}.", f".{code}", "x", f"{'9' * 400}.{code}", f"²{cookie}"):
        header = {b"cookie": f"{COOKIE}={forged}".encode("latin-1")}
        assert client(TOKEN).get("/", headers=header).status_code == 401
    for token, status in ((TOKEN, 200), (TOKEN + "2", 401)):
        other = client(token)
        other.cookies.set(COOKIE, cookie)
        assert other.get("/").status_code == status
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LASTS + 1)
    asked.cookies.clear()
    asked.cookies.set(COOKIE, cookie)
    assert asked.get("/").status_code == 401


def test_no_form_without_a_token() -> None:
    assert client().post("/console/sign-in", data={"token": ""}).status_code == 404


def test_one_reading_serves_all_browsers() -> None:
    readings: list[int] = []

    def read() -> str:
        readings.append(threading.get_ident())
        return str(len(readings))

    async def look(events: AsyncIterator[str], n: int) -> list[str]:
        return [await anext(events) for _ in range(n)]

    async def both() -> None:
        stream = StatusStream(read, 0.2)
        one, other = stream.events(), stream.events()
        first, second = await asyncio.gather(look(one, 1), look(other, 1))
        assert first == second == ["event: status\nid: 1\ndata: 1\n\n"]
        assert stream.n_open == 2
        begin = time.monotonic()
        first, second = await asyncio.gather(look(one, 2), look(other, 2))
        assert first == second
        assert time.monotonic() - begin > 0.3
        assert len(readings) == 3
        assert threading.get_ident() not in readings, "the event loop waited for a reading"
        stream.close()
        assert [event async for event in one] == []
        assert stream.n_open == 1
        await asyncio.sleep(0.3)
        assert len(readings) == 3, "nobody looked"

    asyncio.run(both())


def test_streams_are_limited() -> None:
    stream = StatusStream(lambda: "{}")
    stream.n_open = MAX_STREAMS
    answer = client(stream=stream).get("/console/events")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


def test_arms_have_the_colours_of_reports() -> None:
    style = arms_style()
    for theme, ink in (("light", BLACK), ("dark", WHITE)):
        for arm, colour in enumerate(ARMS[theme]):
            assert f".arm-{arm} {{ fill: {colour};" in style
            assert contrast(ink, colour) >= TEXT_CONTRAST, "a label on it cannot be read"
