"""A PostgreSQL server of a test's own, on loopback, where one is installed."""

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of a fresh server, which is stopped at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        data, user = folder / "data", None
        if os.getuid() == 0:  # the server refuses to run as root
            user = "nobody"
            folder.chmod(0o777)

        def run(tool: str, *arguments: str) -> None:
            command = [str(BINARIES[-1] / tool), "-D", str(data), *arguments]
            done = subprocess.run(command, cwd=folder, user=user, capture_output=True, text=True)
            assert done.returncode == 0, f"{tool}: {done.stderr}"

        run("initdb", "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        started = f"-h 127.0.0.1 -p {port} -k '' -F"
        run("pg_ctl", "-l", str(folder / "server.log"), "-o", started, "-w", "start")
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


class ServerOf:
    """The process of a server that :func:`postgres` started, to be killed and started again."""

    def __init__(self, address: str) -> None:
        with psycopg.connect(address) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        self._data = Path(row[0])
        words = shlex.split((self._data / "postmaster.opts").read_text(encoding="utf-8"))
        self._options = shlex.join(words[words.index("-h") :])

    def kill(self) -> None:
        """Kill the server and all that it started, without a chance to write anything."""
        lock = self._data / "postmaster.pid"
        main = int(lock.read_text(encoding="utf-8").split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="ascii").split()
        for process in (main, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        lock.unlink()  # where nobody buries dead processes, it would seem to be running

    def start(self) -> None:
        """Start it again, as it was started first, and wait until it answers."""
        log = self._data.parent / "server.log"
        command = [str(BINARIES[-1] / "pg_ctl"), "-D", str(self._data), "-l", str(log)]
        command += ["-o", self._options, "-w", "start"]
        user = "nobody" if os.getuid() == 0 else None
        done = subprocess.run(
            command, cwd=self._data, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert done.returncode == 0, done.stderr
