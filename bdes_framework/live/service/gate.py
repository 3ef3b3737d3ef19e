"""What every request passes: who may call, from which page, how much at a time; and its record."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from attrs import field, frozen
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bdes_framework._internal.text import quoted
from bdes_framework.errors import BdesError
from bdes_framework.live.service.log import EventLog
from bdes_framework.live.service.numbers import RequestNumbers
from bdes_framework.live.service.problems import HttpError, http_error_of

OPEN_PATH = "/health"
"""What anybody may ask: whether somebody listens here."""
_ROUTES = (
    "/",
    "/decide",
    "/reward",
    "/arms",
    "/estimates",
    "/table",
    OPEN_PATH,
    "/ready",
    "/metrics",
    "/schema",
)
_SAFE = ("GET", "HEAD")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_CHALLENGE = 'Basic realm="bdes live", charset="UTF-8"'
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")


def _route_of(path: str) -> str:
    """Return the route of a path, one of few: what was asked for may hold anything."""
    if path in _ROUTES:
        return path
    if path.startswith("/users/"):
        return "/users/{user}"
    return "/console" if path.startswith("/console/") else "other"


@frozen
class Rules:
    """Who may call.

    Parameters
    ----------
    token : str, optional
        With one, every request but for ``/health`` must bring it: as ``Bearer``, or as the password
        of ``Basic``, which browsers ask for. Wherever it comes from: behind a proxy everything
        comes from this machine.
    hosts : tuple[str, ...]
        Without a token, the names besides those of loopback by which the service may be called.
    max_waiting : int
        How many requests may wait at a time.
    """

    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    max_waiting: int = 2_000


class Gate:
    """An ASGI application around another: refuses, counts and logs; turns errors into problems."""

    def __init__(self, app: ASGIApp, rules: Rules, log: EventLog, numbers: RequestNumbers) -> None:
        self._app = app
        self._rules = rules
        self._log = log
        self._numbers = numbers
        self._digest = None if rules.token is None else _digest(rules.token.encode())
        self._last_host: bytes | None = None
        """The last name that was right."""
        self._hosts = {*_LOOPBACK_NAMES, *(host.lower() for host in rules.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            raise NotImplementedError("only HTTP is served here")
        begin = time.perf_counter()
        route, status = _route_of(scope["path"]), 0
        noted: dict[str, object] = {}
        scope["noted"] = noted
        scope["app"] = self  # the router then raises what it refuses

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = message["headers"]
                names = [name for name, _ in given]
                given += [one for one in (_NOSNIFF, _NO_STORE) if one[0] not in names]
            await send(message)

        self._numbers.waiting += 1
        try:
            try:
                self._check(scope["method"], scope["path"], _headers(scope))
                await self._app(scope, receive, send_on)
            except Exception as error:
                if status:  # too late to say anything else
                    raise
                await self._problem(error, route).response()(scope, receive, send_on)
        except Exception as error:
            self._log.failure("broken answer", error, route=route)
            raise
        finally:
            self._numbers.waiting -= 1
            seconds = time.perf_counter() - begin
            self._numbers.note(route, status, seconds)
            self._log.write(
                "request",
                method=scope["method"] if status != 405 else "other",
                route=route,
                status=status,
                ms=round(seconds * 1e3, 3),
                **noted,
            )

    def _problem(self, error: Exception, route: str) -> HttpError:
        """Return how an error is told; the log hears of those that are nobody's request."""
        if isinstance(error, HttpError):
            return error
        if isinstance(error, HTTPException):  # of the router: no such address, or another method
            return _no_route(error)
        if isinstance(error, BdesError):
            found = http_error_of(error)
            if found.status >= 500:
                self._log.failure("failure", error, route=route)
            return found
        self._log.failure("failure", error, route=route)
        return HttpError(500, "the service made a mistake; its log says where")

    def _check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise the problem of a request that must not go on."""
        if b"transfer-encoding" in headers and b"content-length" in headers:
            # A proxy that believes the other one sees another request behind it.
            raise HttpError(400, "the content has a length or comes in chunks", connection="close")
        if path == OPEN_PATH:
            return
        if self._digest is not None:
            given = _credentials(headers.get(b"authorization", b""))
            if not hmac.compare_digest(_digest(given), self._digest):
                raise HttpError(
                    401,
                    "this service wants its token, as 'Authorization: Bearer TOKEN' or as the"
                    " password of Basic; only /health goes without",
                    www_authenticate=_CHALLENGE,
                )
        else:
            self._check_host(headers.get(b"host", b""))
        if method not in _SAFE:
            _check_origin(headers)
        if self._numbers.waiting > self._rules.max_waiting:
            raise HttpError(
                503, f"more than {self._rules.max_waiting:,} requests wait already; try again"
            )

    def _check_host(self, host: bytes) -> None:
        """Raise unless the service was called by a name of its own: see DNS rebinding."""
        if host == self._last_host:  # who calls mostly calls by one name
            return
        try:
            name = urlsplit(f"//{host.decode('ascii')}").hostname
        except ValueError:
            name = None
        if name not in self._hosts:
            raise HttpError(
                421,
                f"this service is not called {quoted(host.decode('latin-1'))}; without a token it"
                " answers to localhost and the names in 'hosts' of [serve]",
            )
        self._last_host = host


def _no_route(error: HTTPException) -> HttpError:
    """Return how the router's refusal is told."""
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return HttpError(405, f"expected one of these methods: {allowed}", allow=allowed)
    known = ", ".join((*_ROUTES, "/users/{user}"))
    return HttpError(404, f"there is no such address; there are {known}")


def _headers(scope: Scope) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Raise if a browser sends this for a page that is not ours."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        is_ours = site in (b"same-origin", b"none")
    else:
        origin = headers.get(b"origin")
        is_ours = origin is None or origin.partition(b"://")[2] == headers.get(b"host")
    if not is_ours:
        raise HttpError(
            403, "this comes from a page of another site, which may change nothing here"
        )


def _credentials(value: bytes) -> bytes:
    """Return the token that a header brings; nothing if it brings none."""
    scheme, _, rest = value.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""


def _digest(token: bytes) -> bytes:
    """Return bytes of one length, whatever the token's is: comparing takes as long for all."""
    return hashlib.sha256(token).digest()
