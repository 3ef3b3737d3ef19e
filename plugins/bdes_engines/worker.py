"""Worker processes: what runs in one, and the handle its parent has.

A worker is a fresh interpreter that imports nothing of the script that started the run, so that
scripts need no ``__main__`` guard and notebooks work; and nothing from the current folder in
place of the standard library. It has a session of its own, so that the terminal's Ctrl-C does not
reach it, and what it started itself can be killed with it.
"""

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attrs import define

READY = "ready"
"""The worker has loaded what it needs."""
DONE = "done"
"""With the result of a job."""
RAISED = "raised"
"""With the exception that ``execute`` raised."""
UNABLE = "unable"
"""With the reason why the worker cannot load what it needs."""

IDLE_SECONDS = 300.0
"""A worker that is asked for nothing ends itself: that of a Dask worker may be forgotten."""

GRACE_SECONDS = 1.0
"""How long a worker may take to end by itself before it is killed."""

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    " from bdes_engines.worker import serve; serve(int(sys.argv[2]))"
)


# -- in the worker --------------------------------------------------------------------------


def serve(handle: int) -> None:
    """Run the jobs that come in, one after another, until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Connection(handle)
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(parent, requests), daemon=True).start()
    with suppress(OSError, queue.Empty):  # the parent is gone, or has forgotten this worker
        _answer_all(parent, requests)


def _answer_all(parent: Connection, requests: "queue.SimpleQueue[bytes | None]") -> None:
    first = requests.get()
    if first is None:
        return
    try:
        execute = pickle.loads(first)  # noqa: S301 (our parent's; this loads the plugins)
    except BaseException as error:
        parent.send_bytes(_pickled(UNABLE, f"{type(error).__name__}: {error}"))
        return
    parent.send_bytes(_pickled(READY))
    process = os.getpid()
    while (batch := requests.get(timeout=IDLE_SECONDS)) is not None:
        for job in pickle.loads(batch):  # noqa: S301
            outcome = _outcome(execute, job)
            if os.getpid() != process:
                os._exit(0)  # a job's fork came back: only the worker itself answers
            parent.send_bytes(outcome)


def _outcome(execute: Callable[[object], object], job: object) -> bytes:
    try:
        return _pickled(DONE, execute(job))
    except BaseException as error:
        try:
            answer = _pickled(RAISED, error)
            pickle.loads(answer)  # noqa: S301 (some exceptions can be written but not read)
        except Exception:
            return _pickled(RAISED, RuntimeError(f"{type(error).__name__}: {error}"))
        return answer


def _pickled(kind: str, content: object = None) -> bytes:
    return pickle.dumps((kind, content))


def _listen(parent: Connection, requests: "queue.SimpleQueue[bytes | None]") -> None:
    """Take in requests; end this process soon after the parent has hung up or died."""
    with suppress(EOFError, OSError):
        while True:
            requests.put(parent.recv_bytes())
    requests.put(None)
    time.sleep(GRACE_SECONDS)
    os._exit(1)  # a job still runs, or a thread that somebody left behind


# -- in the parent --------------------------------------------------------------------------


@define(eq=False)
class Worker:
    """A running worker, as its parent sees it."""

    process: subprocess.Popen[bytes]
    connection: Connection

    @classmethod
    def start(cls, execute: bytes) -> "Worker":
        """Start a worker for a pickled function."""
        own, others = Pipe()
        with others:
            command = [sys.executable, "-P", "-c", _START, json.dumps(_safe_path())]
            process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                [*command, str(others.fileno())],
                stdin=subprocess.DEVNULL,
                # What plugins print must not get into the output of a command.
                stdout=sys.__stderr__ or subprocess.DEVNULL,
                pass_fds=[others.fileno()],
                start_new_session=True,
            )
        worker = cls(process, own)
        worker.send(execute)
        return worker

    def send(self, request: bytes) -> None:
        """Send the pickled function, or pickled jobs; one that died is found when it is read."""
        with suppress(OSError):
            self.connection.send_bytes(request)

    def receive(self) -> tuple[str, Any]:
        """Return the next answer; raise EOFError if the worker died."""
        try:
            answer = self.connection.recv_bytes()
        except OSError:
            raise EOFError from None
        kind, content = pickle.loads(answer)  # noqa: S301 (our own worker's)
        return kind, content

    def kill(self) -> str:
        """Kill it and all that it started; return how it ended, if that was before."""
        ended = self.process.poll()
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()
        return _ending(self.process.returncode if ended is None else ended)


def stop(workers: Sequence[Worker]) -> None:
    """Let workers that have nothing to do end by themselves, then kill those still there."""
    for worker in workers:
        worker.connection.close()
    deadline = time.monotonic() + GRACE_SECONDS
    for worker in workers:
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(deadline - time.monotonic(), 0.0))
        worker.kill()


def _ending(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _safe_path() -> list[str]:
    """Return this process's import path with the standard library before all else."""
    base = sysconfig.get_path("platstdlib")
    own = {base, sysconfig.get_path("stdlib"), str(Path(base, "lib-dynload"))}
    path = [entry or str(Path.cwd()) for entry in sys.path]
    return sorted(path, key=lambda entry: entry not in own and not _is_library_zip(entry))


def _is_library_zip(entry: str) -> bool:
    return Path(entry).name == "python{}{}.zip".format(*sys.version_info)
