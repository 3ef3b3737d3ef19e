"""Load for a service: keep-alive connections over loopback, as fast as they go or at a rate."""

import selectors
import socket
import time
from collections.abc import Iterator

from attrs import define, field, frozen

_ANSWER_BYTES = 65_536


@frozen
class Measured:
    """What a load met: requests a second, and how long each took, in seconds."""

    rate: float
    seconds: list[float]
    failed: int

    def quantile(self, share: float) -> float:
        """Return the time within which this share was answered."""
        ordered = sorted(self.seconds)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@define
class _Connection:
    sock: socket.socket
    since: float = 0.0
    data: bytearray = field(factory=bytearray)


def decide_request(user: str) -> bytes:
    """Return a request to decide for one user, as it is sent."""
    return _request("/decide", f'{{"user":"{user}"}}')


def _request(path: str, body: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def load(
    port: int,
    requests: Iterator[bytes],
    *,
    seconds: float,
    connections: int = 32,
    rate: float | None = None,
) -> Measured:
    """Ask for so many seconds; without a rate each connection asks as soon as it is answered.

    With a rate, requests are due at even times whether or not others are answered; the time of
    one that waits for a free connection counts from when it was due.
    """
    found = selectors.DefaultSelector()
    opened = [_connected(port) for _ in range(connections)]
    for each in opened:
        found.register(each.sock, selectors.EVENT_READ, each)
    run = _Run(found, opened, requests, rate)
    try:
        return run.measure(seconds)
    finally:
        found.close()
        for each in opened:
            each.sock.close()


def _connected(port: int) -> _Connection:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Connection(sock)


class _Run:
    """One load, in one thread."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        connections: list[_Connection],
        requests: Iterator[bytes],
        rate: float | None,
    ) -> None:
        self._selector = selector
        self._free = list(connections)
        self._requests = requests
        self._rate = rate
        self._times: list[float] = []
        self._failed = 0
        self._asked = 0

    def measure(self, seconds: float) -> Measured:
        begin = time.perf_counter()
        end = begin + seconds
        while (now := time.perf_counter()) < end:
            self._ask(begin, now)
            pause = 0.05
            if self._rate is not None and self._free:
                pause = max(0.0, min(pause, begin + self._asked / self._rate - now))
            for key, _ in self._selector.select(pause):
                self._hear(key.data)
        answered = len(self._times)
        took = time.perf_counter() - begin
        return Measured(answered / took, self._times, self._failed)

    def _ask(self, begin: float, now: float) -> None:
        """Send what is due to connections that are free."""
        while self._free:
            due = now if self._rate is None else begin + self._asked / self._rate
            if due > now:
                return
            connection = self._free.pop()
            connection.since = due
            connection.sock.sendall(next(self._requests))
            self._asked += 1

    def _hear(self, connection: _Connection) -> None:
        """Read; note the time if the answer is whole."""
        data = connection.data
        part = connection.sock.recv(_ANSWER_BYTES)
        if not part:
            raise ConnectionError("the service closed a connection")
        data += part
        head = data.find(b"\r\n\r\n")
        if head < 0:
            return
        lower = bytes(data[:head]).lower()
        at = lower.index(b"content-length:") + 15
        length = int(lower[at:].split(b"\r\n", 1)[0])
        if len(data) < head + 4 + length:
            return
        self._times.append(time.perf_counter() - connection.since)
        self._failed += not data.startswith(b"HTTP/1.1 200")
        data.clear()
        self._free.append(connection)
