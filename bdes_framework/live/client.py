"""A client of the live service, with nothing but the standard library.

A web shop imports this and neither numpy nor numba; errors are those that a session of its own
would raise.
"""

import json
import os
import select
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from bdes_framework._internal.text import one_line, quoted
from bdes_framework.errors import (
    BdesError,
    ContradictionError,
    InvalidValueError,
    JournalError,
    ServiceError,
    UnknownNameError,
)
from bdes_framework.live.decision import Decision, RewardAnswer

_MAX_ANSWER = 64 * 2**20
_MAX_IDLE_SECONDS = 30.0  # the service closes an idle connection after 75
_MAX_IDLE = 32
_FIRST_PAUSE = 0.1

_Answer: TypeAlias = dict[str, Any]


class Client:
    """Decides and rewards over HTTP; threads may share one, and processes that fork.

    Connections are kept open and used again. A reward is tried again when its answer got lost, as
    telling it twice changes nothing. A decision is tried again only if nothing of it was sent, or
    if the service said that it could not decide: otherwise a visit could count twice.

    Parameters
    ----------
    url : str
        Where the service is, such as ``http://127.0.0.1:8000``; with https, certificates
        are checked.
    token : str, optional
        The service's token, if it has one.
    timeout : float
        Seconds to wait for a connection, and for each part of an answer.
    retries : int
        How often to try again. A service that starts or whose disk is full answers at once that it
        cannot: the client then pauses for as long as it is told to, at most ``timeout``.

    Examples
    --------
    >>> from bdes_framework.live import Client
    >>> with Client("http://127.0.0.1:8000") as client:
    ...     decision = client.decide("anna")          # doctest: +SKIP
    ...     client.reward(decision.id, 1)             # doctest: +SKIP
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retries: int = 2
    ) -> None:
        try:
            parts = urlsplit(url)
            host, self._port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidValueError(f"{quoted(url)} is no address: {error}") from None
        if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
            raise InvalidValueError(
                f"{quoted(url)} is no address of a service; one looks like http://127.0.0.1:8000"
            )
        self._host, self._base = host, parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._timeout, self._retries = timeout, retries
        self._headers = {"Accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable()) or " " in token:
                raise InvalidValueError("the token has characters other than printable ASCII")
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: deque[tuple[HTTPConnection, float]] = deque()  # its ends are thread-safe
        self._process = os.getpid()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections; the client may still be used."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    # -- what a shop does ------------------------------------------------------------------------

    def decide(self, user: str) -> Decision:
        """Return what to show this user now; noted as shown."""
        answer = self._ask("POST", "/decide", {"user": user}, can_repeat=False)
        return _decision(user, answer)

    def decide_many(self, users: Sequence[str]) -> list[Decision]:
        """Return what to show each of up to 1,000 users, in their order; all or none are noted."""
        answer = self._ask("POST", "/decide", {"users": list(users)}, can_repeat=False)
        return [_decision(u, d) for u, d in zip(users, answer["decisions"], strict=True)]

    def reward(self, decision: str, value: float) -> RewardAnswer:
        """Tell the reward of a decision, in [0, 1], by the decision's id."""
        found: RewardAnswer = self._ask("POST", "/reward", {"id": decision, "reward": value})[
            "answer"
        ]
        return found

    def reward_many(self, rewards: Sequence[tuple[str, float]]) -> list[RewardAnswer]:
        """Tell up to 1,000 rewards, each with its decision's id; all or none are noted."""
        told = [{"id": decision, "reward": value} for decision, value in rewards]
        found: list[RewardAnswer] = self._ask("POST", "/reward", {"rewards": told})["answers"]
        return found

    # -- what its owner does ---------------------------------------------------------------------

    def arms(self) -> list[_Answer]:
        """Return the arms: number, name, whether active, how often shown, what they earned."""
        found: list[_Answer] = self._ask("GET", "/arms")["arms"]
        return found

    def add_arm(self, name: str) -> int:
        """Add an arm; return its number."""
        number: int = self._ask("POST", "/arms", {"add": name}, can_repeat=False)["number"]
        return number

    def retire_arm(self, name: str) -> None:
        """Never show an arm again."""
        self._ask("POST", "/arms", {"retire": name}, can_repeat=False)

    def forget(self, user: str) -> bool:
        """Remove the name of a user; return whether there was one."""
        found: bool = self._ask("DELETE", f"/users/{quote(user, safe='')}")["forgotten"]
        return found

    def estimates(self) -> _Answer | None:
        """Return what the service takes its arms for; None if its policy estimates nothing."""
        found: _Answer | None = self._ask("GET", "/estimates")["estimates"]
        return found

    def table(self) -> _Answer | None:
        """Return which arm is best at which state; None if the policy estimates nothing."""
        found: _Answer | None = self._ask("GET", "/table")["table"]
        return found

    def is_ready(self) -> bool:
        """Return whether the service decides now; False too where nothing answers."""
        try:
            return self._once("GET", "/ready", None).status == 200
        except (OSError, HTTPException):
            return False

    # -- requests ----------------------------------------------------------------------------------

    def _ask(
        self, method: str, path: str, content: object = None, *, can_repeat: bool = True
    ) -> _Answer:
        """Return the answer to a request, or raise the error that the service tells."""
        body = None if content is None else _json(content)
        for left in reversed(range(self._retries + 1)):
            pause = _FIRST_PAUSE * 2 ** (self._retries - left)
            try:
                reply = self._once(method, path, body)
            except _NotSentError as error:
                if not left:
                    raise ServiceError(
                        f"{self._name}: {_reason(error)}; nothing was sent"
                    ) from None
            except (OSError, HTTPException) as error:
                if not (left and can_repeat):
                    what = "" if can_repeat else "; whether it was done is not known"
                    raise ServiceError(f"{self._name}: {_reason(error)}{what}") from None
            else:
                if reply.status < 300 and reply.content is not None:
                    return reply.content
                again = reply.status == 503 or (reply.status == 504 and can_repeat)
                if not (left and again and reply.is_problem):
                    raise self._error(path, reply)
                with suppress(ValueError):
                    pause = float(reply.headers.get("retry-after", ""))
            time.sleep(min(pause, self._timeout))
        raise AssertionError("the last try returns or raises")  # pragma: no cover

    def _once(self, method: str, path: str, body: bytes | None) -> "_Reply":
        """Send one request and return what was answered, whole."""
        connection = self._connection()
        headers = {**self._headers, "Content-Type": "application/json"} if body else self._headers
        answer: HTTPResponse | None = None
        is_kept = False
        try:
            connection.request(method, self._base + path, body, headers)
            answer = connection.getresponse()
            data = answer.read(_MAX_ANSWER + 1)
            if len(data) > _MAX_ANSWER:
                raise HTTPException(f"the answer has more than {_MAX_ANSWER:,} bytes")
            is_kept = not answer.will_close
        finally:
            if is_kept and len(self._idle) < _MAX_IDLE:
                self._idle.append((connection, time.monotonic()))
            else:
                if answer is not None:
                    answer.close()
                connection.close()
        reply = _Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, data)
        if reply.status < 300 and reply.content is None:
            raise HTTPException(f"it answered {reply.status} with {quoted(reply.start)}")
        return reply

    def _connection(self) -> HTTPConnection:
        """Return a connection that is open; one that was used before, if it still can be."""
        if self._process != os.getpid():  # after a fork: its parent answers on these
            self._idle, self._process = deque(), os.getpid()
        with suppress(IndexError):
            while True:
                connection, since = self._idle.pop()
                if time.monotonic() - since < _MAX_IDLE_SECONDS and _is_quiet(connection):
                    return connection
                connection.close()
        try:
            if self._tls is None:
                connection = HTTPConnection(self._host, self._port, timeout=self._timeout)
            else:
                connection = HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=self._tls
                )
            connection.connect()
        except OSError as error:
            raise _NotSentError(_reason(error)) from error
        return connection

    @property
    def _name(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port or 'default port'}"

    def _error(self, path: str, reply: "_Reply") -> BdesError:
        """Return the error that a session of one's own would raise."""
        status = reply.status
        if reply.content is None or not reply.is_problem:
            shown = quoted(reply.start)
            return ServiceError(f"{self._name} answered {status}: {shown}", status=status)
        detail = one_line(str(reply.content.get("detail") or reply.content.get("title")), 2_000)
        if status == 404:
            return UnknownNameError(detail)
        if status == 409 and path == "/reward":
            return ContradictionError(detail)
        if status in (409, 413, 415, 422):
            return InvalidValueError(detail)
        if status == 503:
            return JournalError(detail, is_passing=True)
        if status == 504:
            return JournalError(detail, is_passing=True, is_in_doubt=True)
        return ServiceError(detail, status=status)


class _Reply:
    """What a service answered."""

    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers = status, headers
        self.start = data[:200].decode("utf-8", "replace")
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            content = None
        self.content: _Answer | None = content if isinstance(content, dict) else None

    @property
    def is_problem(self) -> bool:
        """Whether the service itself says what was wrong, and not something in front of it."""
        return self.headers.get("content-type", "").startswith("application/problem+json")


class _NotSentError(OSError):
    """There is no connection: nothing of a request can have arrived."""


def _is_quiet(connection: HTTPConnection) -> bool:
    """Return whether a connection is open and has nothing to read, such as the other side's end."""
    if connection.sock is None:
        return False
    asked = select.poll()
    asked.register(connection.sock, select.POLLIN)
    return not asked.poll(0)


def _reason(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__


def _json(content: object) -> bytes:
    try:
        return json.dumps(content, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"cannot be sent as JSON: {_reason(error)}") from None


def _decision(user: str, answer: _Answer) -> Decision:
    return Decision(answer["id"], user, answer["arm"], answer["probability"], answer["model"])
