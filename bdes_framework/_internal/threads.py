"""Threads: linear algebra on one of them, as sums shared among several end in other last bits."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def usable_processors() -> int:
    """Return on how many processors this process may run."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows do not say
        return os.cpu_count() or 1


@define
class _Limit:
    """The limit of this process, which all of Python's threads share."""

    lock: Lock = field(factory=Lock)
    n_inside: int = 0
    undone_by: ExitStack = field(factory=ExitStack)


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS and LAPACK to one thread meanwhile; also a decorator.

    Numbers are then the same whatever the engine and the number of processors are; and the
    small matrices of policies take less time.
    """
    with _limit.lock:
        if not _limit.n_inside:
            libraries = _controller(len(sys.modules))
            _limit.undone_by.enter_context(libraries.limit(limits=1, user_api="blas"))
        _limit.n_inside += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.n_inside -= 1
            if not _limit.n_inside:
                _limit.undone_by.close()


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> "ThreadpoolController":
    """Return the control of all libraries loaded; looked for anew once there are more modules."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
