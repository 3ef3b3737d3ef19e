"""What the endpoints answer, and what they tell when something is wrong."""

import io
import json
from typing import Any, cast

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

import bdes_framework as bdes
from bdes_framework.live.service.log import EventLog
from bdes_framework.live.service.schema import openapi
from tests.support.asgi_client import AsgiClient
from tests.support.fake_live import FakeSession
from tests.support.live_service import application


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def client(session: FakeSession) -> AsgiClient:
    return AsgiClient(application(session))


def test_decides_for_one(client: AsgiClient) -> None:
    asked = client.post("/decide", {"user": "anna"})
    assert asked.status == 200
    assert asked.json() == {"id": "0-x", "arm": "clip", "probability": 0.5, "model": 0}


def test_decides_for_a_batch_in_order(client: AsgiClient, session: FakeSession) -> None:
    asked = client.post("/decide", {"users": ["anna", "bert", "anna"]}).json()["decisions"]
    assert [each["arm"] for each in asked] == ["clip", "essay", "clip"]
    assert [*session.users] == ["anna", "bert"]


def test_same_reward_twice_is_fine_another_is_not(client: AsgiClient) -> None:
    client.post("/decide", {"user": "anna"})
    answers = [client.post("/reward", {"id": "0-x", "reward": 1}).json() for _ in range(2)]
    assert answers == [{"answer": "noted"}, {"answer": "duplicate"}]
    asked = client.post("/reward", {"id": "0-x", "reward": 0})
    assert asked.status == 409


def test_a_batch_of_rewards_is_all_or_none(client: AsgiClient, session: FakeSession) -> None:
    client.post("/decide", {"users": ["anna", "bert"]})
    told = [{"id": "0-x", "reward": 1}, {"id": "9-x", "reward": 1}]
    assert client.post("/reward", {"rewards": told}).status == 404
    assert not session.rewards
    told[1]["id"] = "1-x"
    assert client.post("/reward", {"rewards": told}).json() == {"answers": ["noted", "noted"]}


def test_arms_are_listed_added_and_retired(client: AsgiClient) -> None:
    asked = client.post("/arms", {"add": "poll"})
    assert (asked.status, asked.json()) == (201, {"number": 2, "name": "poll"})
    assert client.post("/arms", {"retire": "clip"}).status == 200
    arms = client.get("/arms").json()["arms"]
    assert [(arm["name"], arm["is_active"]) for arm in arms] == [
        ("clip", False),
        ("essay", True),
        ("poll", True),
    ]
    assert client.post("/arms", {"add": "poll"}).status == 409
    assert client.post("/arms", {"add": "a\u200bb"}).status == 422
    assert client.post("/arms", {"retire": "nobody"}).status == 404


def test_users_are_forgotten_whatever_they_are_called(
    client: AsgiClient, session: FakeSession
) -> None:
    for name in ("anna", "a/b", "ä b", "%41", ".."):
        session.users[name] = 0
        quoted = name.replace("%", "%25").replace("/", "%2F").replace(" ", "%20")
        assert client.ask("DELETE", f"/users/{quoted}").json() == {"forgotten": True}
        assert client.ask("DELETE", f"/users/{quoted}").json() == {"forgotten": False}
    assert not session.users


def test_nothing_is_decided_before_it_is_ready(session: FakeSession) -> None:
    for not_ready in (None, session):
        session.is_ready = False
        client = AsgiClient(application(not_ready))
        for asked in (client.get("/ready"), client.post("/decide", {"user": "anna"})):
            assert asked.status == 503
            assert asked.headers["retry-after"] == "1"
        assert client.get("/health").status == 200
        assert client.get("/metrics").status == 200
    session.is_ready = True
    assert AsgiClient(application(session)).get("/ready").json() == {"status": "ready"}


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (bdes.JournalError("no space left on /home/shop", is_passing=True), 503),
        (bdes.JournalError("lost /home/shop", is_passing=True, is_in_doubt=True), 504),
        (bdes.JournalError("damaged: /home/shop"), 500),
        (bdes.ContractError("the policy of /home/shop"), 500),
    ],
)
def test_faults_are_told_without_places(
    client: AsgiClient, session: FakeSession, fault: Exception, status: int
) -> None:
    session.fault = fault
    for path, content in (("/decide", {"user": "anna"}), ("/reward", {"id": "0-x", "reward": 1})):
        asked = client.post(path, content)
        assert asked.status == status
        assert ("retry-after" in asked.headers) == (status == 503)
        assert b"/home" not in asked.content
    session.fault = None
    assert client.post("/decide", {"user": "anna"}).json()["id"] == "0-x"


def test_other_addresses_and_methods_are_told(client: AsgiClient) -> None:
    assert client.get("/decid").status == 404
    asked = client.ask("PUT", "/arms")
    assert asked.status == 405
    assert set(asked.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert asked.headers["content-type"] == "application/problem+json"


HOSTILE = 'x"} 1\nbdes_ready 7\\'


def test_metrics_are_safe_against_names() -> None:
    session = FakeSession((HOSTILE, "essay"))
    client = AsgiClient(application(session))
    client.post("/decide", {"user": "anna"})
    client.post("/reward", {"id": "0-x", "reward": 0.5})
    client.get("/no\nsuch")
    families = {
        family.name: family
        for family in text_string_to_metric_families(client.get("/metrics").content.decode())
    }
    shown = {each.labels["arm"]: each.value for each in families["bdes_shown"].samples}
    assert shown == {HOSTILE: 1.0, "essay": 0.0}
    paid = {each.labels["arm"]: each.value for each in families["bdes_reward"].samples}
    assert paid == {HOSTILE: 0.5, "essay": 0.0}
    requests = {
        (each.labels["route"], each.labels["status"]): each.value
        for each in families["bdes_http_requests"].samples
    }
    assert requests == {("/decide", "200"): 1, ("/reward", "200"): 1, ("other", "404"): 1}
    took = families["bdes_http_request_seconds"].samples
    whole = [each.value for each in took if each.labels.get("le") == "+Inf"]
    assert whole == [1, 1, 1]
    assert [each.value for each in families["bdes_ready"].samples] == [1]


def test_log_tells_requests_without_users() -> None:
    out = io.StringIO()
    client = AsgiClient(application(FakeSession(), log=EventLog(out)))
    client.post("/decide", {"user": "anna"})
    client.post("/decide", {"users": ["anna", "bert"]})
    client.ask("DELETE", "/users/anna")
    client.get("/anna")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["route"] for line in lines] == ["/decide", "/decide", "/users/{user}", "other"]
    assert lines[0]["user"] == lines[2]["user"]
    assert lines[1]["batch"] == 2
    assert "anna" not in out.getvalue()


def test_schema_says_what_the_answers_are(client: AsgiClient, session: FakeSession) -> None:
    assert client.get("/schema").content == openapi(2**20)
    document = client.get("/schema").json()
    client.post("/decide", {"user": "anna"})
    for path in ("/arms", "/estimates", "/table", "/ready", "/health"):
        content = document["paths"][path]["get"]["responses"]["200"]["content"]
        schema = {**content["application/json"]["schema"], "components": document["components"]}
        answer = client.get(path)
        assert answer.status == 200
        jsonschema.validate(answer.json(), cast(Any, schema))


def test_policies_without_estimates_have_none(
    client: AsgiClient, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "estimates", lambda: None)
    monkeypatch.setattr(session, "table", lambda: None)
    assert client.get("/estimates").json() == {"estimates": None}
    assert client.get("/table").json() == {"table": None}
