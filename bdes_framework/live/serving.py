"""A live service as a process of its own: started, stopped, killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from bdes_framework._internal.text import one_line
from bdes_framework.errors import ServiceError
from bdes_framework.live.client import Client

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
_COMMAND = "from bdes_framework.cli import main; main()"


class ServiceProcess:
    """``bdes live serve`` of a folder, on a free port of loopback, until the end of a ``with``.

    Parameters
    ----------
    folder : Path
        The folder with ``live.toml``.
    token : str | None
        The service's token, if it has one.
    """

    def __init__(self, folder: Path, token: str | None = None) -> None:
        self._folder = folder
        self._token = token
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end of the with)

    @property
    def address(self) -> str:
        """Where it is served."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self) -> None:
        """Start it, and wait until it decides; raise ServiceError if it does not come to that."""
        listen = ["--host", "127.0.0.1", "--port", str(self._port)]
        command = [sys.executable, "-c", _COMMAND, "live", "serve", str(self._folder), *listen]
        self._process = subprocess.Popen(  # noqa: S603 (our own command, no shell)
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=os.environ
        )
        with Client(self.address, token=self._token, timeout=5.0, retries=0) as client:
            deadline = time.monotonic() + READY_SECONDS
            while not client.is_ready():
                if self._process.poll() is not None:
                    raise ServiceError(
                        f"the service ended before it was ready: {self._last_line()}"
                    )
                if time.monotonic() > deadline:
                    raise ServiceError(f"the service was not ready after {READY_SECONDS:g} s")
                time.sleep(0.05)

    def restart(self, *, kill: bool = False) -> float:
        """Stop it, or kill it, and start it again; return how many seconds that took."""
        begin = time.monotonic()
        self.stop(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()
        return time.monotonic() - begin

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, and wait until the process has ended."""
        assert self._process is not None
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"the service did not end within {STOP_SECONDS:g} s") from None

    def _end(self) -> None:
        try:
            if self._process is not None and self._process.poll() is None:
                self.stop()
        finally:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._log.close()

    def _last_line(self) -> str:
        """Return the last line that it wrote, which says what was wrong."""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return one_line(lines[-1]) if lines else "it said nothing"


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port
