"""Requests are read strictly, and whatever is wrong is told, with what was allowed."""

import pytest

from tests.support.asgi_client import AsgiClient
from tests.support.fake_live import FakeSession
from tests.support.live_service import application

DEEP = 100_000

NOT_JSON = [
    b"",
    b"{",
    b"\xff\xfe",
    b'{"user": "\xff"}',
    b'{"user": "\\ud800"}',
    b"\xef\xbb\xbf{}",
    b'{"user": "anna"} {"user": "bert"}',
    b"{'user': 'anna'}",
    b"[" * DEEP,
    b'{"user": ' + b"[" * DEEP,
    b'{"x": ' + b'{"x": ' * DEEP,
    b'{"user": "anna", "x": ' + b"[" * DEEP + b"]" * DEEP + b"}",
]
NOT_A_DECISION = [
    b"null",
    b"[]",
    b"{}",
    b'{"user": null}',
    b'{"user": 1}',
    b'{"user": ""}',
    b'{"user": "' + b"x" * 201 + b'"}',
    b'{"user": "a\\nb"}',
    b'{"user": "\\u0000"}',
    b'{"user": "anna", "users": ["bert"]}',
    b'{"users": []}',
    b'{"users": ["anna", ""]}',
    b'{"users": "anna"}',
    b'{"user": "anna", "arm": "clip"}',
    b'{"users": [' + b'"a", ' * 1000 + b'"a"]}',
]
NOT_A_REWARD = [
    b"NaN",
    b"-NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 5_000,
    b"-0.001",
    b"1.0000001",
    b"true",
    b'"1"',
    b"null",
    b"[1]",
    b"1_0",
    b"0x1",
    b"",
]


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def client(session: FakeSession) -> AsgiClient:
    return AsgiClient(application(session, max_body=500_000))


@pytest.mark.parametrize("path", ["/decide", "/reward", "/arms"])
@pytest.mark.parametrize("content", [*NOT_JSON, *NOT_A_DECISION], ids=lambda c: str(c[:20]))
def test_malformed_content_is_told(
    client: AsgiClient, session: FakeSession, path: str, content: bytes
) -> None:
    asked = client.post(path, content)
    assert asked.status in (413, 422)
    assert (asked.status == 413) == (len(content) > 500_000)
    assert asked.headers["content-type"] == "application/problem+json"
    assert set(asked.json()) == {"type", "title", "status", "detail"}
    assert asked.json()["status"] == asked.status
    assert len(asked.content) < 5_000
    assert not session.shown


@pytest.mark.parametrize("value", NOT_A_REWARD, ids=lambda v: str(v[:10]))
def test_what_is_no_reward_is_refused(
    client: AsgiClient, session: FakeSession, value: bytes
) -> None:
    decision = client.post("/decide", {"user": "anna"}).json()["id"]
    asked = client.post("/reward", b'{"id": "%s", "reward": %s}' % (decision.encode(), value))
    assert asked.status == 422
    assert not session.rewards


@pytest.mark.parametrize("value", [0, 1, 0.25, 1e-300])
def test_rewards_in_the_unit_interval_are_noted(
    client: AsgiClient, session: FakeSession, value: float
) -> None:
    decision = client.post("/decide", {"user": "anna"}).json()["id"]
    asked = client.post("/reward", {"id": decision, "reward": value})
    assert (asked.status, asked.json()) == (200, {"answer": "noted"})
    assert session.rewards == {0: value}


def test_last_of_equal_keys_counts(client: AsgiClient, session: FakeSession) -> None:
    assert client.post("/decide", b'{"user": "anna", "user": "bert"}').status == 200
    assert [*session.users] == ["bert"]


def test_detail_says_what_was_allowed(client: AsgiClient) -> None:
    detail = client.post("/decide", {"user": "x" * 201}).json()["detail"]
    assert "200" in detail
    assert "user" in detail
    assert "500,000" in client.post("/decide", b" " * 500_001).json()["detail"]
    assert "'user' or 'users'" in client.post("/decide", {}).json()["detail"]


def test_content_type_may_name_a_charset(client: AsgiClient) -> None:
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/decide", {"user": "änna 😀"}, kind).status == 200


def test_announced_size_is_refused_before_it_is_read(client: AsgiClient) -> None:
    asked = client.post("/decide", {"user": "anna"}, {"content-length": "500001"})
    assert asked.status == 413
    wrong = client.post("/decide", {"user": "anna"}, {"content-length": "many"})
    assert wrong.status == 200
