"""Jobs spread over processes of this machine, with the standard library alone."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import TypeVar

from attrs import field, frozen, validators

from bdes_engines.batches import cost_of, in_batches, run_batch
from bdes_engines.guard import RUN_AGAIN, leave_if_imported_by_a_worker, refuse_run_again
from bdes_framework import BuildContext

Job = TypeVar("Job")
Result = TypeVar("Result")

_ALONE_SECONDS = 0.5
_WORTH_SECONDS = 2.0
_BATCH_SECONDS = 1.0
"""No batch is meant to take longer: what is in flight is what a kill can cost."""


@frozen
class ProcessesConfig:
    """Runs cells in processes of this machine; small runs stay in this one.

    Parameters
    ----------
    workers : int or nothing
        How many processes; as many as there are processors by default.
    """

    workers: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


class Processes:
    """Starts alone; when more than a couple of seconds are left, hands the rest to a pool."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, jobs: Sequence[Job], execute: Callable[[Job], Result]) -> Iterator[Result]:
        """Yield each job's result as it comes."""
        # The cheapest first: they tell how long the rest will take without taking long.
        left = deque(sorted(jobs, key=cost_of))
        cost_left = sum(map(cost_of, left))
        begin, cost_done, spent = time.perf_counter(), 0.0, 0.0
        while left:
            expected = cost_left * spent / cost_done if cost_done else 0.0
            long = spent > _ALONE_SECONDS or expected > _WORTH_SECONDS
            if long and self._workers > 1 and len(left) > 1:
                break
            job = left.popleft()
            yield execute(job)
            cost_done += cost_of(job)
            cost_left -= cost_of(job)
            spent = time.perf_counter() - begin
        if left:
            yield from self._in_pools(list(left), execute, cost_done / spent)

    def _in_pools(
        self, jobs: list[Job], execute: Callable[[Job], Result], cost_a_second: float
    ) -> Iterator[Result]:
        """Run everything, starting another pool whenever a worker's death broke one."""
        batches = in_batches(jobs, self._workers, most=cost_a_second * _BATCH_SECONDS)
        while batches:
            lost: list[list[Job]] = []
            yield from self._in_one_pool(batches, execute, self._workers, lost)
            if len(lost) == len(batches):  # nothing came back: look for the job that kills
                for batch in lost[: self._workers]:
                    yield from self._isolated(batch, execute)
                lost = lost[self._workers :]
            batches = lost

    def _isolated(self, batch: list[Job], execute: Callable[[Job], Result]) -> Iterator[Result]:
        """Run a batch apart from others; halve it until the job that kills stands alone."""
        lost: list[list[Job]] = []
        yield from self._in_one_pool([batch], execute, 1, lost)
        if lost and len(batch) > 1:
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                yield from self._isolated(half, execute)

    def _in_one_pool(
        self,
        batches: list[list[Job]],
        execute: Callable[[Job], Result],
        workers: int,
        lost: list[list[Job]],
    ) -> Iterator[Result]:
        """Run batches in one pool; if a worker dies, note the batches that did not come back."""
        pool = ProcessPoolExecutor(
            min(workers, len(batches)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_settle_in,
        )
        try:
            waiting = {pool.submit(run_batch, execute, batch): batch for batch in batches}
            while waiting:
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    batch = waiting.pop(future)
                    try:
                        results = future.result()
                    except BrokenProcessPool:
                        lost.append(batch)
                    else:
                        yield from results
        finally:
            exit_codes = _stop(pool)
        if RUN_AGAIN in exit_codes:
            raise refuse_run_again("processes")


def _settle_in() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it: a killed parent cannot stop us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> list[int | None]:
    """End the pool at once, losing only cells in flight; return how its workers ended."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def build(config: ProcessesConfig, context: BuildContext) -> Processes:
    """Build the engine."""
    leave_if_imported_by_a_worker()
    return Processes(config.workers or os.cpu_count() or 1)
