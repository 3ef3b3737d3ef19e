"""Who may call the service, from which page, and how much at a time."""

import asyncio
import base64
import io
import json

import pytest

from bdes_framework.live.service.gate import Rules
from bdes_framework.live.service.log import EventLog
from tests.support.asgi_client import AsgiClient
from tests.support.fake_live import FakeSession
from tests.support.live_service import application

TOKEN = "0123456789abcdef-token"
PATHS = ("/decide", "/reward", "/arms", "/estimates", "/table", "/ready", "/metrics", "/schema")
OTHER_PATHS = (
    "/",
    "/users/anna",
    "/console/page.js",
    "/nothing",
    "/health/",
    "/HEALTH",
    "//health",
)


def client(
    session: FakeSession | None = None, *, token: str | None = None, hosts: tuple[str, ...] = ()
) -> AsgiClient:
    return AsgiClient(application(session or FakeSession(), Rules(token, hosts)))


@pytest.mark.parametrize("path", [*PATHS, *OTHER_PATHS])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "HEAD"])
def test_nothing_but_health_goes_without_token(path: str, method: str) -> None:
    asked = client(token=TOKEN).ask(method, path)
    assert asked.status == 401
    assert asked.headers["www-authenticate"].startswith("Basic ")


def test_health_needs_no_token() -> None:
    assert client(token=TOKEN).get("/health").json() == {"status": "ok"}


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(TOKEN)])
def test_token_opens(header: str) -> None:
    assert client(token=TOKEN).get("/arms", headers={"Authorization": header}).status == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        TOKEN,
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Token {TOKEN}",
        basic(TOKEN[1:]),
        "Basic ###",
        "Basic " + base64.b64encode(TOKEN.encode()).decode(),
    ],
)
def test_wrong_token_is_refused(header: str) -> None:
    asked = client(token=TOKEN).get("/arms", headers={"Authorization": header})
    assert asked.status == 401
    assert TOKEN.encode() not in asked.content


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("shop.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
def test_only_own_names_are_answered_without_token(host: str, status: int) -> None:
    asked = client(hosts=("Shop.example",)).get("/arms", headers={"Host": host})
    assert asked.status == status


def test_any_name_will_do_with_the_token() -> None:
    headers = {"Host": "shop.example", "Authorization": f"Bearer {TOKEN}"}
    assert client(token=TOKEN).get("/arms", headers=headers).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 200),
        ({"Origin": "http://127.0.0.1:9000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_others_change_nothing(headers: dict[str, str], status: int) -> None:
    session = FakeSession()
    asked = client(session).post("/decide", {"user": "anna"}, headers)
    assert asked.status == status
    assert len(session.shown) == (status == 200)


def test_forms_of_other_pages_have_the_wrong_type() -> None:
    session = FakeSession()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        asked = client(session).post("/decide", {"user": "anna"}, {"Content-Type": kind})
        assert asked.status == 415
    assert not session.shown


def test_content_has_one_length() -> None:
    """Or a proxy and the service could see different requests in the same bytes."""
    session = FakeSession()
    asked = client(session).post(
        "/decide", {"user": "anna"}, {"Content-Length": "5", "Transfer-Encoding": "chunked"}
    )
    assert (asked.status, asked.headers["connection"]) == (400, "close")
    assert not session.shown


def test_too_many_waiting_are_sent_away() -> None:
    async def all_at_once() -> list[int]:
        app = AsgiClient(application(FakeSession(), Rules(max_waiting=3)))
        asked = ("POST", "/decide", b'{"user": "anna"}', {"content-type": "application/json"})
        found = await asyncio.gather(*(app.answer(*asked) for _ in range(5)))
        return [answer.status for answer in [*found, await app.answer(*asked)]]

    assert asyncio.run(all_at_once()) == [200, 200, 200, 503, 503, 200]


def test_answers_are_not_stored_or_sniffed() -> None:
    asked = client().get("/arms")
    assert asked.headers["cache-control"] == "no-store"
    assert asked.headers["x-content-type-options"] == "nosniff"


def test_mistakes_of_ours_tell_nothing_outside() -> None:
    out = io.StringIO()
    session = FakeSession()
    session.fault = RuntimeError("secret of anna\n/home/shop")
    app = application(session, log=EventLog(out))
    asked = AsgiClient(app).post("/decide", {"user": "anna"})
    assert asked.status == 500
    assert asked.headers["content-type"] == "application/problem+json"
    assert b"secret" not in asked.content
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0]["error"] == "RuntimeError"
    assert any("fake_live.py" in place for place in lines[0]["at"])
    assert "anna" not in out.getvalue()
