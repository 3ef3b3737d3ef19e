"""Signing in to the console: a browser gives the token once, in a form, and gets a cookie.

The cookie is no copy of the token: it says until when it holds, with a code that only the token can
make. Nothing is stored, and another token ends what the one before allowed. It opens the console
alone, which only reads; whatever changes something asks for the token itself.
"""

import hmac
import html
import string
import time
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

COOKIE = "bdes_console"
LASTS = 12 * 3600
"""Seconds until a browser has to sign in again."""
_MOST_BYTES = 4096
"""Of a form that is sent; a token is shorter."""


class SignIn:
    """Who may see the console: everybody without a token, otherwise who gave it."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    @property
    def is_needed(self) -> bool:
        """Whether there is a token."""
        return self._token is not None

    def allows(self, request: Request) -> bool:
        """Say whether a request comes with the token, or with a cookie that it made."""
        if self._token is None:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(given.strip(), self._token):
            return True
        until, _, code = request.cookies.get(COOKIE, "").partition(".")
        is_current = until.isascii() and until.isdigit() and len(until) < 12
        return is_current and _same(code, self._code(until)) and time.time() < int(until)

    async def enter(self, request: Request) -> Response:
        """Take the form: set the cookie and show the console, or ask again."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _MOST_BYTES:
                return sign_in_page("That is no token: it is too long.", 413)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        if self._token is None or not _same(given, self._token):
            return sign_in_page("That is not the token of this service.", 401)
        until = str(int(time.time()) + LASTS)
        answer = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
        answer.set_cookie(
            COOKIE,
            f"{until}.{self._code(until)}",
            max_age=LASTS,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def leave(self, request: Request) -> Response:
        """Take the cookie back."""
        answer = RedirectResponse("/", 303, {"Cache-Control": "no-store"})
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    def _code(self, until: str) -> str:
        assert self._token is not None
        return hmac.new(self._token.encode(), b"bdes console " + until.encode(), sha256).hexdigest()


def _same(given: str, right: str) -> bool:
    """Compare in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


def sign_in_page(message: str = "", status: int = 401) -> Response:
    """Return the form, with its style in it: nothing else is served without the token."""
    assets = files(__package__) / "assets"
    style = (assets / "sign-in.css").read_text("utf-8")
    page = string.Template((assets / "sign-in.html").read_text("utf-8"))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none';"
        " form-action 'self'; frame-ancestors 'none'"
    )
    content = page.substitute(style=style, message=html.escape(message))
    return HTMLResponse(content, status, secure_headers(policy))


def secure_headers(policy: str) -> dict[str, str]:
    """Return the headers of a page with a Content-Security-Policy."""
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
