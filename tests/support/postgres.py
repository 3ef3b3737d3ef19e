"""A PostgreSQL server of a test's own, on loopback, where one is installed."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

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
