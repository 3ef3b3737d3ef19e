"""The console of the real service: behind its token, in a browser, and when the service ends."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from bdes_framework.live import Client
from bdes_framework.live.serving import ServiceProcess
from tests.support.browser import browser, needs_browser

TOKEN = "a-token-of-the-shop"
NAME = "<img src=x onerror=\"document.title='gone'\">"
LIVE = f"""
name = "shop"
arms = ["clip", {json.dumps(NAME)}]
floor = 0.1
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceProcess]:
    monkeypatch.setenv("BDES_LIVE_TOKEN", TOKEN)
    (tmp_path / "live.toml").write_text(LIVE)
    with ServiceProcess(tmp_path, TOKEN) as started:
        yield started


@contextmanager
def asked(service: ServiceProcess, path: str, credentials: str) -> Iterator[HTTPResponse]:
    address = service.address.removeprefix("http://")
    with closing(HTTPConnection(address, timeout=20)) as connection:
        connection.request("GET", path, headers={"Authorization": credentials})
        with connection.getresponse() as answer:
            yield answer


def test_console_of_a_service_with_a_token(service: ServiceProcess) -> None:
    basic = "Basic " + base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for path in ("/", "/console/console.js", "/console/events"):
        for wrong in ("", "Bearer wrong", "Basic d3Jvbmc6d3Jvbmc="):
            with asked(service, path, wrong) as answer:
                assert answer.status == 401
                assert answer.getheader("www-authenticate", "").startswith("Basic")
    with asked(service, "/", basic) as page:
        assert page.status == 200
        assert page.getheader("x-content-type-options") == "nosniff"
        assert page.getheader("content-security-policy", "").startswith("default-src 'none'; ")
    with Client(service.address, token=TOKEN) as client:
        for i in range(30):
            client.reward(client.decide(f"user {i % 4}").id, i % 2)
    with asked(service, "/console/events", basic) as stream:
        assert stream.getheader("content-type", "").startswith("text/event-stream")
        assert stream.readline() == b"event: status\n"
        stream.readline()
        shown = json.loads(stream.readline().removeprefix(b"data: "))
        assert (shown["decisions"], shown["rewards"], shown["users"]) == (30, 30, 4)
        assert shown["is_healthy"]
        begin = time.monotonic()
        service.stop()
        assert time.monotonic() - begin < 20, "an open console keeps the service from ending"


@needs_browser
def test_browser_signs_in_and_follows(service: ServiceProcess, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as window, Client(service.address, token=TOKEN) as client:
        window.open(service.address.replace("//", f"//anybody:{TOKEN}@"))
        window.wait_until("return document.getElementById('headline')?.innerText.length > 20")
        arms = client.decide_many([f"user {i % 20}" for i in range(200)])
        client.reward_many([(decision.id, i % 2) for i, decision in enumerate(arms)])
        number = "document.querySelector('#facts small')?.innerText"
        window.wait_until(f"return {number} === '200 in all'")
        window.wait_until("return document.querySelector('#plan svg')")
        assert NAME in window.run("return document.getElementById('arms-table').textContent")
        assert window.run("return document.title") == "shop · bdes live"
        assert window.console_errors() == []
