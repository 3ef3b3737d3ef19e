"""A PostgreSQL server of a test's own, on loopback, where one is installed."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class PostgresServer:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self.folder = folder
        self._user = None
        if os.getuid() == 0:  # the server refuses to run as root
            self._user = "nobody"
            folder.chmod(0o777)
        self._run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def start(self) -> None:
        started = f"-h 127.0.0.1 -p {self.port} -k '' -F"
        self._run("pg_ctl", "-l", str(self.folder / "server.log"), "-o", started, "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")

    def kill(self) -> None:
        """End all its processes at once, as a power cut does."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)  # so that it makes no more while they are counted
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for process in [postmaster, *map(int, children)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        ended = time.monotonic() + 5.0
        while time.monotonic() < ended and any(
            Path(f"/proc/{process}/task").exists() for process in (postmaster, *children)
        ):
            time.sleep(0.01)
        # Where nobody buries dead processes, the server would seem to be running.
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _run(self, tool: str, *arguments: str) -> None:
        command = [str(BINARIES[-1] / tool), "-D", str(self.folder / "data"), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, user=self._user, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{tool}: {done.stderr}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a fresh server, which is stopped at the end."""
    with TemporaryDirectory(prefix="postgres-") as name:
        server = PostgresServer(Path(name))
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of a fresh server, which is stopped at the end."""
    with postgres_server() as server:
        yield server.address
