"""Signals that end a command as Ctrl-C does, so that it cleans up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """A signal that asks a command to stop, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def signals_stop() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop what is done, unless they are ignored, as under nohup."""
    numbers = [signal.SIGTERM, signal.SIGHUP]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def exit_code(stop: BaseException) -> int:
    """Return the exit code of a command that was stopped."""
    return 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)
