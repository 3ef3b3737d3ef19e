"""Engine that runs jobs in processes of this machine."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing

from attrs import field, frozen, validators

from bdes_engines import pool
from bdes_engines.batches import JobT, cost_of, timeout_of
from bdes_engines.pool import MAX_WORKERS, Pool, ResultT
from bdes_framework import BuildContext, JobFailure


@frozen
class ProcessesConfig:
    """Runs cells in processes of this machine; small runs of our own plugins stay in this one.

    Parameters
    ----------
    workers : int | None
        How many processes; as many as there are processors by default.
    """

    workers: int | None = field(
        default=None,
        validator=validators.optional([validators.ge(1), validators.le(MAX_WORKERS)]),
    )


class Processes:
    """Runs jobs in a pool of processes; in this one while that is safe and takes two seconds."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def __repr__(self) -> str:
        return f"Processes(workers={self._workers})"

    def run(
        self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]
    ) -> Iterator[ResultT | JobFailure[JobT]]:
        """Yield each job's result as it comes."""
        if any(map(_needs_worker, jobs)):
            with closing(Pool[JobT, ResultT](self._workers, execute)) as workers:
                yield from workers.run(jobs)
            return
        # The cheapest first: they tell how long the rest will take without taking long.
        left = deque(sorted(jobs, key=cost_of))
        cost_left = sum(map(cost_of, left))
        cost_done, spent = 0.0, 0.0
        while left:
            job = left.popleft()
            alone = self._workers == 1 or not left  # nobody to share with
            begin = time.perf_counter()
            here = _in_a_thread(execute, job)
            wait([here], timeout=None if alone else pool.WORTH_SECONDS)
            seconds = time.perf_counter() - begin
            # This job was the most expensive so far, and so the most like those to come.
            rate = cost_of(job) / seconds
            if not here.done():
                yield from self._in_workers(left, execute, rate, [here])
                return
            yield here.result()
            cost_done += cost_of(job)
            cost_left -= cost_of(job)
            spent += seconds
            expected = cost_left * (spent - pool.WARM_UP_SECONDS) / cost_done
            if expected > pool.WORTH_SECONDS and len(left) > 1 and not alone:
                yield from self._in_workers(left, execute, rate, [])
                return

    def _in_workers(
        self,
        jobs: Sequence[JobT],
        execute: Callable[[JobT], ResultT],
        cost_per_second: float,
        here: list[Future[ResultT]],
    ) -> Iterator[ResultT | JobFailure[JobT]]:
        """Run jobs in workers, and yield what this process itself has in hand when it comes."""
        with closing(Pool[JobT, ResultT](self._workers, execute, cost_per_second)) as workers:
            for result in workers.run(jobs):
                yield result
                if here and here[0].done():
                    yield here.pop().result()
        for future in here:
            wait([future])
            yield future.result()


def _needs_worker(job: object) -> bool:
    """Return whether a job may end this process, or must be ended by it."""
    return bool(getattr(job, "isolate", False)) or timeout_of(job) is not None


def _in_a_thread(execute: Callable[[JobT], ResultT], job: JobT) -> Future[ResultT]:
    """Run a job in a thread of this process, so that the caller may stop waiting for it.

    The thread is a daemon: after Ctrl-C nobody waits for the job's end.
    """
    future: Future[ResultT] = Future()

    def work() -> None:
        try:
            future.set_result(execute(job))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def build(config: ProcessesConfig, context: BuildContext) -> Processes:
    """Build the engine."""
    return Processes(config.workers or os.cpu_count() or 1)
