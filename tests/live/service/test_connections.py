"""Connections that send nothing, or half of something, and more of them than there is room for."""

import resource
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from bdes_framework.live.service import server
from tests.support.fake_live import FakeSession
from tests.support.live_service import application, serving

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    with serving(application(FakeSession())) as url:
        at = urlsplit(url)
        assert at.hostname is not None
        assert at.port is not None
        yield at.hostname, at.port


def answered(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes, or nothing more comes for a second."""
    connection.settimeout(1.0)
    got = b""
    try:
        while part := connection.recv(4096):
            got += part
    except TimeoutError:
        return got + b" and is open"
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD], ids=["nothing", "a bit", "most"])
def test_heads_that_never_end_are_cut_off(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(sent)
        assert answered(connection) == b""


def test_second_head_is_cut_off_too(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert b"200" in connection.recv(4096)
        connection.sendall(HEAD)
        assert not answered(connection).endswith(b"is open")


def test_connection_that_rests_is_kept(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert answered(connection).endswith(b"is open")
        connection.sendall(HEAD + b"\r\n")
        assert b"200" in connection.recv(4096)


def test_more_than_there_is_room_for_are_refused(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (66, 66))  # room for two
    monkeypatch.setattr(server, "HEAD_SECONDS", 60.0)
    with (
        socket.create_connection(address) as one,
        socket.create_connection(address) as two,
        socket.create_connection(address) as three,
    ):
        assert answered(three) == b""
        for connection in (one, two):
            connection.sendall(HEAD + b"\r\n")
            assert b"200" in connection.recv(4096)


def test_limit_of_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (256, 4_096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(now=new))
    server._allow_connections()
    assert limits["now"] == (4_096, 4_096)
