"""Scripts that start a run while they are imported: noticed, instead of run over and over.

A worker process imports the script that started it. A script without
``if __name__ == "__main__":`` then starts the same run again, inside the worker.
"""

import inspect
import multiprocessing
from types import FrameType

from bdes_framework import PluginError

RUN_AGAIN = 71
"""The exit code of a worker that found itself starting a run while it imported the script."""

_WORKERS_NAME_FOR_THE_SCRIPT = "__mp_main__"


def leave_if_imported_by_a_worker() -> None:
    """End this process, without a traceback, if a worker is importing its parent's script."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module == _WORKERS_NAME_FOR_THE_SCRIPT and frame.f_code.co_name == "<module>":
            raise SystemExit(RUN_AGAIN)
        frame = frame.f_back


def refuse_run_again(engine: str) -> PluginError:
    """Return the error that tells people what to write."""
    return PluginError(
        f"engine {engine!r} starts processes, and each imports the script that called"
        " run_experiment, which calls it again: put the call under"
        " 'if __name__ == \"__main__\":'"
    )


def try_a_worker(engine: str) -> None:
    """Start one process that does nothing, and refuse a script that starts its run again."""
    worker = multiprocessing.get_context("spawn").Process(target=_nothing)
    worker.start()
    worker.join()
    if worker.exitcode == RUN_AGAIN:
        raise refuse_run_again(engine)


def _nothing() -> None:
    pass
