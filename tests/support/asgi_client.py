"""Requests to an ASGI application in this process, without a server between."""

import asyncio
import json
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass
class Answer:
    """What an application answered."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """Return the content, read as JSON."""
        return json.loads(self.content)


class AsgiClient:
    """Asks one application; ``Host`` is the one of a service on this machine unless given."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._runner = asyncio.Runner()  # one loop for all, as a server has
        weakref.finalize(self, self._runner.close)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask with GET."""
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, content: object, headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON, or bytes as they are."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        given = {"content-type": "application/json", **(headers or {})}
        return self.ask("POST", path, body, given)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request and return the answer."""
        return self._runner.run(self.answer(method, path, body, headers))

    async def answer(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request from inside an event loop."""
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        given = {"host": "127.0.0.1:8000", **{k.lower(): v for k, v in (headers or {}).items()}}
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "query_string": b"",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items()],
        }
        await self._app(scope, receive, send)
        found = {k.decode(): v.decode("latin-1") for k, v in sent[0]["headers"]}
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], found, content)
