"""What any service pays: an empty Starlette endpoint whose request is one durable SQLite row.

``python -m benchmarks.live_empty PORT FOLDER``. Rows that wait are committed together,
synchronously, and nobody is answered before: as a live session does, without deciding anything.
"""

import asyncio
import queue
import sqlite3
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MOST_TOGETHER = 512
ANSWER = b'{"id":"0-000000000000","arm":"clip","probability":0.98,"model":0}'


class Rows:
    """Appends rows in a thread of its own, as many as wait in one transaction."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, daemon=True).start()

    def append(self, row: bytes) -> "asyncio.Future[None]":
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((row, waiting))
        return waiting

    def _run(self) -> None:
        with sqlite3.connect(self._file, isolation_level=None) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, row BLOB)")
            while True:
                waiting = [self._queue.get()]
                with suppress(queue.Empty):
                    while len(waiting) < MOST_TOGETHER:
                        waiting.append(self._queue.get_nowait())
                database.execute("BEGIN IMMEDIATE")
                rows = [(row,) for row, _ in waiting]
                database.executemany("INSERT INTO rows (row) VALUES (?)", rows)
                database.execute("COMMIT")
                self._loop.call_soon_threadsafe(_answer, deque(one for _, one in waiting))


def _answer(waiting: "deque[asyncio.Future[None]]") -> None:
    for one in waiting:
        if not one.done():
            one.set_result(None)


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    rows: Rows | None = None

    async def decide(request: Request) -> Response:
        nonlocal rows
        if rows is None:
            rows = Rows(folder / "rows.sqlite")
        await rows.append(await request.body())
        return Response(ANSWER, media_type="application/json")

    app = Starlette(routes=[Route("/decide", decide, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="warning", access_log=False, lifespan="off", ws="none")


if __name__ == "__main__":
    main()
