"""A console that shows what a test says, served over loopback."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette

from bdes_framework.live.console.app import StatusStream, console_routes


class ServedConsole:
    """A console at a loopback address; ``status`` is what it shows."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status: Mapping[str, Any] = status
        self.address = ""

    def read(self) -> str:
        return json.dumps(self.status, allow_nan=False)


@contextmanager
def served_console(
    status: Mapping[str, Any], *, port: int = 0, every: float = 0.1
) -> Iterator[ServedConsole]:
    """Serve a console on a port of loopback, a free one by default; end it again."""
    console = ServedConsole(status)
    stopping = asyncio.Event()
    app = Starlette(routes=console_routes(StatusStream(console.read, stopping, every)))
    config = uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)

    async def serve() -> None:
        task = asyncio.create_task(server.serve())
        while not server.should_exit:
            await asyncio.sleep(0.01)
        stopping.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        console.address = f"http://127.0.0.1:{port}"
        yield console
    finally:
        server.should_exit = True
        thread.join()


def a_status(**changes: Any) -> dict[str, Any]:
    """Return a status as the console gets it: three arms, one of them retired, two models."""
    start = 1_790_000_000.0
    arms = [
        ("clip", True, 6200, 0.41, [0.9, 0.86, 0.93], [0.1, 0.05, 0.16], "wears users out"),
        ("essay", True, 8100, 0.59, [0.31, 0.29, 0.34], [0.97, 0.9, 1.0], "restores users"),
        (
            "poll",
            False,
            300,
            0.0,
            [0.2, 0.1, 0.3],
            [0.5, 0.2, 0.8],
            "leaves users as they are",
        ),
    ]
    status: dict[str, Any] = {
        "is_ready": True,
        "is_healthy": True,
        "headline": "Healthy and learning: what is shown earns 23.0 % more than essay alone.",
        "name": "shop",
        "version": "0.1.0",
        "time": start + 7200,
        "decisions": 14_600,
        "rewards": 13_100,
        "decisions_per_second": 12.31,
        "rewards_per_second": 11.02,
        "users": 812,
        "waiting": {"median": 0.0041, "p99": 0.0172},
        "model": {"number": 17, "made": start + 7000},
        "lifts": [
            {"over": "the best fixed arm, essay", "interval": [0.23, 0.17, 0.29]},
            {"over": "the traffic before", "interval": [0.08, -0.02, 0.17]},
        ],
        "arms_text": "A visit moves a user 0.30 of the way (0.27 to 0.33).",
        "arms": [
            {
                "number": number,
                "name": name,
                "is_active": is_active,
                "shown": shown,
                "known": shown - 700,
                "mean": 0.3,
                "share": share,
                "pays": pays,
                "earns": [0.6 * value for value in pays],
                "leads_to": leads,
                "does": does,
            }
            for number, (name, is_active, shown, share, pays, leads, does) in enumerate(arms)
        ],
        "table": {
            "starts": [0.0, 0.43],
            "arms": [1, 0],
            "highest": 1.0,
            "text": "Best if the estimates are true: within 0.01 % of what is possible.",
        },
        "states": {
            "edges": [i / 20 for i in range(21)],
            "counts": [0, 0, 1, 3, 5, 9, 20, 60, 120, 160, 150, 100, 80, 50, 30, 12, 6, 3, 2, 1],
        },
        "shares": [
            {"from": start + 600 * i, "counts": [500 - 20 * i, 300 + 50 * i, 90 if i < 4 else 0]}
            for i in range(12)
        ],
        "models": [
            {
                "number": n,
                "made": start + 400 * n,
                "read": 1500 * n,
                "changed": "760 more decisions, 690 more rewards",
                "shows": "essay, from 0.43 clip",
            }
            for n in range(17, -1, -1)
        ],
    }
    return status | changes
