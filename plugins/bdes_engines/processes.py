"""Engine that runs jobs in processes of this machine, with the standard library alone."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Generic

from attrs import field, frozen, validators

from bdes_engines.batches import JobT, ResultT, cost_of, in_batches, run_batch
from bdes_engines.guard import RUN_AGAIN, exit_if_imported_by_worker, run_again_error
from bdes_framework import BuildContext

_WORTH_SECONDS = 2.0
"""About how long workers take to start: what is over sooner is not worth them."""

_WARM_UP_SECONDS = 0.5
"""The first jobs load compiled code; this much of their time says nothing about the rest."""

_BATCH_SECONDS = 1.0
"""No batch is meant to take longer: what is in flight is what a kill can cost."""


@frozen
class ProcessesConfig:
    """Runs cells in processes of this machine; small runs stay in this one.

    Parameters
    ----------
    workers : int | None
        How many processes; as many as there are processors by default.
    """

    workers: int | None = field(default=None, validator=validators.optional(validators.ge(1)))


class Processes:
    """Runs jobs in this process; once more than two seconds are left, in a pool of processes."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]) -> Iterator[ResultT]:
        """Yield each job's result as it comes."""
        # The cheapest first: they tell how long the rest will take without taking long.
        left = deque(sorted(jobs, key=cost_of))
        cost_left = sum(map(cost_of, left))
        cost_done, spent = 0.0, 0.0
        while left:
            job = left.popleft()
            if self._workers == 1 or not left:  # nobody to share with
                yield execute(job)
                continue
            begin = time.perf_counter()
            here = _in_a_thread(execute, job)
            wait([here], timeout=_WORTH_SECONDS)
            seconds = time.perf_counter() - begin
            # This job was the most expensive so far, and so the most like those to come.
            pools = _Pools(self._workers, execute, cost_of(job) / seconds)
            if not here.done():
                yield from pools.run(list(left), [here])
                return
            yield from here.result()
            cost_done += cost_of(job)
            cost_left -= cost_of(job)
            spent += seconds
            expected = cost_left * (spent - _WARM_UP_SECONDS) / cost_done
            if expected > _WORTH_SECONDS and len(left) > 1:
                yield from pools.run(list(left), [])
                return


def _in_a_thread(execute: Callable[[JobT], ResultT], job: JobT) -> Future[list[ResultT]]:
    """Run a job in a thread of this process, so that the caller may stop waiting for it.

    The thread is a daemon: after Ctrl-C nobody waits for the job's end.
    """
    future: Future[list[ResultT]] = Future()

    def work() -> None:
        try:
            future.set_result(run_batch(execute, [job]))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


class _Pools(Generic[JobT, ResultT]):
    """Pools of processes, one after another: each lasts until a worker's death breaks it."""

    def __init__(
        self, workers: int, execute: Callable[[JobT], ResultT], cost_per_second: float
    ) -> None:
        self._workers = workers
        self._execute = execute
        self._cost_per_second = cost_per_second
        self._here: list[Future[list[ResultT]]] = []

    def run(self, jobs: list[JobT], here: list[Future[list[ResultT]]]) -> Iterator[ResultT]:
        """Run everything, and yield what this process itself has in hand when it comes."""
        self._here = here
        batches = in_batches(jobs, self._workers, most=self._cost_per_second * _BATCH_SECONDS)
        while batches:
            lost: list[list[JobT]] = []
            yield from self._in_one_pool(batches, self._workers, lost)
            if len(lost) == len(batches):  # nothing came back: look for the job that kills
                for batch in lost[: self._workers]:
                    yield from self._isolated(batch)
                lost = lost[self._workers :]
            batches = lost
        for future in self._here:
            yield from future.result()

    def _isolated(self, batch: list[JobT]) -> Iterator[ResultT]:
        """Run a batch apart from others; halve it until the job that kills stands alone."""
        lost: list[list[JobT]] = []
        yield from self._in_one_pool([batch], 1, lost)
        if lost and len(batch) > 1:
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                yield from self._isolated(half)

    def _in_one_pool(
        self, batches: list[list[JobT]], workers: int, lost: list[list[JobT]]
    ) -> Iterator[ResultT]:
        """Run batches in one pool; if a worker dies, note the batches that did not come back."""
        pool = ProcessPoolExecutor(
            min(workers, len(batches)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_set_up_worker,
        )
        try:
            waiting = self._submitted(pool, batches, lost)
            while waiting:
                finished, _ = wait([*waiting, *self._here], return_when=FIRST_COMPLETED)
                for future in finished:
                    if future in self._here:
                        self._here.remove(future)
                        yield from future.result()
                        continue
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
            raise run_again_error("processes")

    def _submitted(
        self, pool: ProcessPoolExecutor, batches: list[list[JobT]], lost: list[list[JobT]]
    ) -> dict[Future[list[ResultT]], list[JobT]]:
        waiting: dict[Future[list[ResultT]], list[JobT]] = {}
        for batch in batches:
            try:
                waiting[pool.submit(run_batch, self._execute, batch)] = batch
            except BrokenProcessPool:  # a worker died already, before all had been handed over
                lost.append(batch)
        return waiting


def _set_up_worker() -> None:
    """Let a worker ignore Ctrl-C and end with its parent, which may be killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> list[int | None]:
    """Terminate the pool's workers, losing only cells in flight; return their exit codes."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def build(config: ProcessesConfig, context: BuildContext) -> Processes:
    """Build the engine."""
    exit_if_imported_by_worker()
    return Processes(config.workers or os.cpu_count() or 1)
