"""Sweeps over a log in blocks of users, on several threads: sums do not depend on how many.

Users are independent, so value, score and information add up over them. A log is always cut into
the same blocks and the sums of these are always added in the same order, so one thread and many
give the same bits. Compiled sweeps let go of Python's lock, and threads share the log: nothing is
copied, and a log that is mapped into memory is read once.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray, read_only
from bdes_framework.fitting.adjoint import FASTER_FROM, likelihood_by_adjoint, score_by_adjoint
from bdes_framework.fitting.likelihood import (
    Likelihood,
    sweep_likelihood,
    sweep_log_likelihood,
)
from bdes_framework.fitting.log import Log
from bdes_framework.model.instance import Instance

BLOCK_ROWS = 1 << 18
"""Users whose last rows lie in the same stretch of so many rows are a block."""


class Rows(NamedTuple):
    """Rows of whole users, as sweeps take them."""

    arms: NDArray[np.int32]
    rewards: NDArray[np.int8]
    starts: IntArray


_S = TypeVar("_S")
_T = TypeVar("_T")
_THREADS: ContextVar[ThreadPoolExecutor | None] = ContextVar("_THREADS", default=None)


@contextmanager
def sweeping_threads(n: int) -> Iterator[None]:
    """Sweep on so many threads meanwhile."""
    if n == 1:
        yield
        return
    with ThreadPoolExecutor(n, thread_name_prefix="bdes-fit") as threads:
        token = _THREADS.set(threads)
        try:
            yield
        finally:
            _THREADS.reset(token)


def log_likelihood_of_log(log: Log, at: Instance) -> float:
    """Return the log-likelihood of a log."""

    def one(block: Rows) -> float:
        return sweep_log_likelihood(*block, at.r, at.b, at.lam, at.q0, at.q0)[0]

    return sum(of_blocks(log, one))


def likelihood_of_log(log: Log, at: Instance) -> Likelihood:
    """Return log-likelihood, score and information of a log."""
    sweep = sweep_likelihood if at.n_arms < FASTER_FROM else likelihood_by_adjoint

    def one(block: Rows) -> Likelihood:
        return sweep(*block, at.r, at.b, at.lam, at.q0)

    return summed_likelihood(of_blocks(log, one))


def score_of_log(log: Log, at: Instance) -> tuple[float, FloatArray]:
    """Return log-likelihood and score of a log: fast at any number of arms."""

    def one(block: Rows) -> tuple[float, FloatArray]:
        return score_by_adjoint(*block, at.r, at.b, at.lam, at.q0)

    found = of_blocks(log, one)
    value, score = next(found)
    for other in found:
        value += other[0]
        score += other[1]
    return value, score


def summed_likelihood(parts: Iterator[Likelihood]) -> Likelihood:
    """Return the sum of the likelihoods of blocks."""
    value, score, information = next(parts)
    for other in parts:
        value += other.value
        score += other.score
        information += other.information
    return Likelihood(value, score, information)


def user_blocks(starts: IntArray, n_rows: int) -> IntArray:
    """Return the users at which blocks begin, and one past the last user."""
    ends = np.append(starts[1:], n_rows)
    block = (ends - 1) // BLOCK_ROWS
    return np.concatenate([[0], np.flatnonzero(np.diff(block)) + 1, [starts.size]])


def of_blocks(log: Log, sweep: Callable[[Rows], _T]) -> Iterator[_T]:
    """Yield what a sweep returns of each block, in their order."""
    if log.n_rows <= BLOCK_ROWS or log.n_sequences == 1:
        yield sweep(Rows(log.arms, log.rewards, log.starts))
        return
    users = user_blocks(log.starts, log.n_rows)
    firsts = np.append(log.starts, log.n_rows)
    parts = [
        (int(firsts[begin]), int(firsts[end]), log.starts[begin:end])
        for begin, end in zip(users[:-1].tolist(), users[1:].tolist(), strict=True)
    ]

    def one(part: tuple[int, int, IntArray]) -> _T:
        first, end, starts = part
        begins = read_only(starts - first)  # as those of a log are: sweeps are compiled once
        return sweep(Rows(log.arms[first:end], log.rewards[first:end], begins))

    yield from map_on_threads(one, parts)


def map_on_threads(work: Callable[[_S], _T], items: Iterable[_S]) -> Iterator[_T]:
    """Yield what work returns of each item, in their order, worked at on several threads.

    What runs on one of them sweeps on that thread alone.
    """
    threads = _THREADS.get()
    return map(work, items) if threads is None else threads.map(work, items)
