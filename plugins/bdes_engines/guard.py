"""Detect scripts that start a run while a worker imports them, and raise.

A worker process imports the script that started it. A script without
``if __name__ == "__main__":`` then starts the same run again, inside the worker.
"""

import inspect
import multiprocessing
from types import FrameType

from bdes_framework import PluginError

RUN_AGAIN = 71
"""The exit code of a worker that found itself starting a run while it imported the script."""

_SCRIPT_IN_WORKER = "__mp_main__"


def exit_if_imported_by_worker() -> None:
    """End this process, without a traceback, if a worker is importing its parent's script."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module == _SCRIPT_IN_WORKER and frame.f_code.co_name == "<module>":
            raise SystemExit(RUN_AGAIN)
        frame = frame.f_back


def run_again_error(engine: str) -> PluginError:
    """Return the error that says what to write in the script."""
    return PluginError(
        f"engine {engine!r} starts processes, and each imports the script that called"
        " run_experiment, which calls it again: put the call under"
        " 'if __name__ == \"__main__\":'"
    )


def check_worker_start(engine: str) -> None:
    """Start one process that does nothing, and raise if the script starts its run again."""
    worker = multiprocessing.get_context("spawn").Process(target=_do_nothing)
    worker.start()
    worker.join()
    if worker.exitcode == RUN_AGAIN:
        raise run_again_error(engine)


def _do_nothing() -> None:
    pass
