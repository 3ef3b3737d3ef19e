"""A PostgreSQL server of a test's own, on loopback, where one is installed."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Yield the address of a fresh server, which is stopped at the end."""
    tools, data = BINARIES[-1], folder / "data"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options: dict[str, object] = {"check": True, "capture_output": True}
    if os.getuid() == 0:  # the server refuses to run as root
        options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
        folder.chmod(0o777)
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and parent.name.startswith("pytest-"):
                parent.chmod(0o755)
    initdb = [tools / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync"]
    subprocess.run(initdb, cwd=folder, **options)  # type: ignore[call-overload]
    started = f"-h 127.0.0.1 -p {port} -k '' -F"
    log = ["-l", folder / "server.log", "-o", started, "-w"]
    subprocess.run([tools / "pg_ctl", "-D", data, *log, "start"], cwd=folder, **options)  # type: ignore[call-overload]
    try:
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        stop = [tools / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
        subprocess.run(stop, cwd=folder, **options)  # type: ignore[call-overload]
