"""``bdes live serve``: a live learner behind HTTP."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from bdes_framework.cli.options import PATH
from bdes_framework.live.config import load_live
from bdes_framework.live.session import LiveSession

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

_PACKAGES = ("starlette", "uvicorn", "msgspec", "prometheus_client")


@click.command()
@click.argument("folder", type=PATH)
@click.option("--host", help="The address to listen on; any but loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; 0 takes a free one.")
@click.option(
    "--show-ids/--hash-ids",
    default=False,
    help="Write users into the log as they are called, or as keyed hashes (the default).",
)
def serve(folder: Path, host: str | None, port: int | None, show_ids: bool) -> None:
    """Decide and learn over HTTP, as FOLDER's live.toml says, until SIGTERM or Ctrl-C.

    The log, one JSON object a line, goes to stderr. A token comes from the environment variable
    BDES_LIVE_TOKEN, or from the file that token_file in [serve] names.
    """
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise click.UsageError(
            f"the service needs {' and '.join(missing)}: install 'bdes-framework[serve]'"
        )
    from bdes_framework.live.console.app import StatusStream, console_routes
    from bdes_framework.live.console.data import ConsoleReader
    from bdes_framework.live.service.app import Service
    from bdes_framework.live.service.log import EventLog
    from bdes_framework.live.service.server import serve as serve_until_stopped

    def console(service: Service) -> "list[BaseRoute]":
        read = ConsoleReader(lambda: service.session)
        return console_routes(StatusStream(read, service.stopping))

    setup = load_live(folder)
    serving = setup.config.serve
    config = evolve(
        serving,
        host=serving.host if host is None else host,
        port=serving.port if port is None else port,
    )
    token = config.token(setup.folder)
    log = EventLog(sys.stderr, show_ids=show_ids)
    serve_until_stopped(lambda: LiveSession(setup), config, token, log, console)
