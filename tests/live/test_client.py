"""The client: what it sends, when it tries again and when it must not, what it imports."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

import bdes_framework as bdes
from bdes_framework.live import Client
from bdes_framework.live.service.gate import Rules
from tests.support.fake_live import FakeSession
from tests.support.live_service import application, serving

TOKEN = "a token for tests 1234".replace(" ", "-")


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def client(session: FakeSession) -> Iterator[Client]:
    with serving(application(session)) as url, Client(url, retries=1) as opened:
        yield opened


def test_imports_the_standard_library_only() -> None:
    script = (
        "import sys; before = set(sys.modules)\n"
        "from bdes_framework.live import Client\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(tops - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["bdes_framework"], "")


def test_works_where_nothing_else_is_installed() -> None:
    script = (
        "import sys\n"
        "for name in 'attrs attr numpy numba scipy rich click pluggy'.split():\n"
        "    sys.modules[name] = None\n"
        "from bdes_framework.live import Client\n"
        "print(Client('http://127.0.0.1:9').is_ready())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_decides_and_rewards(client: Client, session: FakeSession) -> None:
    decision = client.decide("anna")
    assert decision.user == "anna"
    assert (decision.arm, decision.probability, decision.model) == ("clip", 0.5, 0)
    assert client.reward(decision.id, 1) == "noted"
    assert client.reward(decision.id, 1) == "duplicate"
    many = client.decide_many(["bert", "ä 😀"])
    assert [each.user for each in many] == ["bert", "ä 😀"]
    assert client.reward_many([(each.id, 0.5) for each in many]) == ["noted", "noted"]
    assert session.rewards == {0: 1, 1: 0.5, 2: 0.5}


def test_does_what_its_owner_asks(client: Client, session: FakeSession) -> None:
    session.users["a/b ?#%"] = 0
    assert client.is_ready()
    assert client.add_arm("poll") == 2
    client.retire_arm("clip")
    assert [arm["is_active"] for arm in client.arms()] == [False, True, True]
    assert client.forget("a/b ?#%")
    assert not client.forget("a/b ?#%")
    estimates, table = client.estimates(), client.table()
    assert estimates is not None
    assert table is not None
    assert estimates["lam"]["estimate"] == 0.1
    assert table["rows"] == [{"start": 0.0, "arm": "clip"}]


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.reward("9-x", 1), bdes.UnknownNameError),
        (lambda c: c.reward("0-x", 0), bdes.ContradictionError),
        (lambda c: c.reward("0-x", 2), bdes.InvalidValueError),
        (lambda c: c.reward("0-x", float("nan")), bdes.InvalidValueError),
        (lambda c: c.decide(""), bdes.InvalidValueError),
        (lambda c: c.decide(object()), bdes.InvalidValueError),
        (lambda c: c.decide_many([]), bdes.InvalidValueError),
        (lambda c: c.decide_many(["x" * 200] * 2_000), bdes.InvalidValueError),
        (lambda c: c.retire_arm("nobody"), bdes.UnknownNameError),
        (lambda c: c.add_arm("clip"), bdes.InvalidValueError),
    ],
)
def test_errors_are_those_of_a_session(
    client: Client, ask: Callable[[Client], object], error: type[Exception]
) -> None:
    client.reward(client.decide("anna").id, 1)
    with pytest.raises(error):
        ask(client)


def test_token_is_sent_and_asked_for() -> None:
    with serving(application(FakeSession(), Rules(TOKEN))) as url:
        with Client(url, token=TOKEN) as client:
            assert client.decide("anna").arm == "clip"
        for wrong in (None, TOKEN + "x"):
            with Client(url, token=wrong) as client:
                with pytest.raises(bdes.ServiceError, match="wants its token") as raised:
                    client.decide("anna")
                assert raised.value.status == 401


@pytest.mark.parametrize("token", ["a b", "a\nb", "ä"])
def test_token_cannot_smuggle_headers(token: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match="token"):
        Client("http://127.0.0.1:8000", token=token)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://[::1", "http://a:b", "http://a?b"],
)
def test_wrong_addresses_are_refused(url: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match="address"):
        Client(url)


def test_one_connection_serves_many_requests() -> None:
    ports = set()
    app = application(FakeSession())

    async def noting(scope, receive, send):  # type: ignore[no-untyped-def]
        ports.add(scope["client"])
        await app(scope, receive, send)

    with serving(noting) as url, Client(url) as client:
        for _ in range(20):
            client.decide("anna")
    assert len(ports) == 1


def test_threads_share_a_client(client: Client, session: FakeSession) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(client.decide, [f"u{i}" for i in range(200)]))
    assert len({each.id for each in found}) == 200
    assert [each.user for each in found] == [f"u{i}" for i in range(200)]
    assert len(session.shown) == 200


def test_a_forked_process_takes_a_connection_of_its_own(client: Client) -> None:
    client.decide("anna")
    (kept,) = client._idle
    assert client._connection() is kept[0]
    client._idle.append(kept)
    client._process = os.getpid() - 1  # as its child sees it
    connection = client._connection()
    assert connection is not kept[0]
    connection.close()
    kept[0].close()


def test_not_ready_is_tried_again(client: Client, session: FakeSession) -> None:
    session.is_ready = False
    timer = threading.Timer(0.3, lambda: setattr(session, "is_ready", True))
    timer.start()
    assert client.decide("anna").id == "0-x"
    timer.join()


def test_full_disk_is_a_passing_error(client: Client, session: FakeSession) -> None:
    session.fault = bdes.JournalError("full", is_passing=True)
    with pytest.raises(bdes.JournalError) as raised:
        client.reward("0-x", 1)
    assert raised.value.is_passing


ANSWER = b'{"id": "0-x", "arm": "clip", "probability": 1.0, "model": 0, "answer": "noted"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def scripted(*answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one connection an answer; None closes it after the request was read."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            with suppress(OSError):  # at the end, when nobody came for the last ones
                for answer in answers:
                    connection, _ = server.accept()
                    with connection:
                        heard.append(connection.recv(65_536))
                        if answer is not None:
                            connection.sendall(answer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.close()
        thread.join(0.1)


GOOD = HEAD % len(ANSWER) + ANSWER


def test_lost_answer_of_a_reward_is_asked_for_again() -> None:
    lost = (None, b"HTTP/1.1 200 OK\r\nContent-Le")
    with scripted(*lost, GOOD) as (url, heard), Client(url) as client:
        assert client.reward("0-x", 1) == "noted"
    assert len(heard) == 3


@pytest.mark.parametrize("lost", [None, b"HTTP/1.1 200 OK\r\nContent-Le", b"what?\r\n\r\n"])
def test_lost_answer_of_a_decision_is_not(lost: bytes | None) -> None:
    with scripted(lost, GOOD) as (url, heard):
        with pytest.raises(bdes.ServiceError, match="not known") as raised:
            Client(url).decide("anna")
        assert len(heard) == 1
        assert raised.value.status is None


def test_a_connection_that_ended_is_not_used_again() -> None:
    with scripted(GOOD, GOOD) as (url, heard), Client(url) as client:
        client.decide("anna")
        threading.Event().wait(0.2)  # until the other side's end has come
        assert client.decide("bert").arm == "clip"
    assert len(heard) == 2


def test_nobody_there_is_told_after_trying_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(bdes.ServiceError, match="nothing was sent"):
        Client(f"http://127.0.0.1:{port}", retries=1).decide("anna")


def test_a_service_that_is_silent_is_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(bdes.ServiceError, match="timed out"):
            Client(url, timeout=0.1, retries=1).reward("0-x", 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\n<ht\x1b[",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000,
        b"HTTP/1.1 302 Found\r\nLocation: http://evil.example\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Unavailable\r\nContent-Length: 4\r\n\r\nbusy",
    ],
)
def test_strange_answers_are_told(answer: bytes) -> None:
    with scripted(answer) as (url, heard), Client(url) as client:
        with pytest.raises(bdes.ServiceError, match="answered") as raised:
            client.decide("anna")
        assert str(raised.value).isprintable()
        assert len(heard) == 1


DOUBT = b'{"type": "about:blank", "title": "Lost", "status": 504, "detail": "nobody knows"}'
IN_DOUBT = (
    b"HTTP/1.1 504 Gateway Timeout\r\nContent-Type: application/problem+json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(DOUBT), DOUBT)
)


def test_decision_in_doubt_is_not_asked_for_again() -> None:
    with scripted(IN_DOUBT) as (url, heard), Client(url) as client:
        with pytest.raises(bdes.JournalError, match="nobody knows") as raised:
            client.decide("anna")
        assert raised.value.is_in_doubt
        assert len(heard) == 1


def test_reward_in_doubt_is_told_again() -> None:
    with scripted(IN_DOUBT, GOOD) as (url, heard), Client(url) as client:
        assert client.reward("0-x", 1) == "noted"
        assert len(heard) == 2
