"""Telling the user's wish to stop from exceptions that look like it."""

import signal
import threading


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception is the user's Ctrl-C, and not a plugin's own doing.

    A signal raises it in the main thread only, and never where SIGINT is ignored: in workers.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    )
