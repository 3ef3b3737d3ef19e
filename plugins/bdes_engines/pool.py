"""A pool of workers that outlives their deaths, and ends jobs that take too long.

Each worker runs one job after another and answers every one, so that of a dead worker's jobs
only the one it was at is to blame; the others are handed out again.
"""

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection
from typing import Generic, TypeVar

from attrs import define, field

from bdes_engines import worker
from bdes_engines.batches import BATCHES_PER_WORKER, JobT, cost_of, timeout_of
from bdes_engines.worker import Worker
from bdes_framework import JobFailure, PluginError

ResultT = TypeVar("ResultT")

MAX_WORKERS = 1024

ATTEMPTS = 3
"""How many workers a job may kill before it is given up."""

HOPELESS = 3
"""After so many jobs were given up, another is given up at its first death.

Trying again is for what dies by chance, and a new worker takes a second to start."""

BATCH_SECONDS = 1.0
"""No batch is meant to take longer."""

WORTH_SECONDS = 2.0
"""About how long workers take to start: what is over sooner is not worth them."""

WARM_UP_SECONDS = 0.5
"""The first jobs load compiled code; this much of their time says nothing about the rest."""

START_SECONDS = 60.0
"""How much longer than one job a worker may take to load plugins, where jobs have a limit."""

_POLL_SECONDS = 0.5
"""How often workers are looked after whose death cannot be heard: their children live on."""


@define(eq=False)
class _Task(Generic[JobT]):
    job: JobT
    deaths: int = 0


@define(eq=False)
class _Member(Generic[JobT]):
    """A worker of the pool, and the tasks it was given and has not answered."""

    worker: Worker
    ready: bool = False
    tasks: deque[_Task[JobT]] = field(factory=deque)
    since: float = field(factory=time.monotonic)
    """When it was started, or began the first of its tasks."""


class Pool(Generic[JobT, ResultT]):
    """Workers for one function; close it when done.

    Begins with one worker, and has them all once work has gone on for a while, or from the start
    if it is told how much is done per second.
    """

    def __init__(
        self,
        workers: int,
        execute: Callable[[JobT], ResultT] | bytes,
        cost_per_second: float | None = None,
    ) -> None:
        self._workers = workers
        self._execute = execute if isinstance(execute, bytes) else pickle.dumps(execute)
        self._members: list[_Member[JobT]] = []
        self._left: deque[_Task[JobT]] = deque()
        self._cost_left = 0.0
        self._start_limit: float | None = None
        self._failed_starts = 0
        self._given_up = 0
        self._grown = cost_per_second is not None
        self._cost_done = cost_per_second or 0.0
        self._spent = 1.0 if cost_per_second else 0.0
        self._interrupted = False

    def run(self, jobs: Sequence[JobT]) -> Iterator[ResultT | JobFailure[JobT]]:
        """Yield the result of each job, or why it has none, as they come."""
        # The cheapest first while there is one worker: they tell how long the rest will take.
        self._left.extend(_Task(job) for job in sorted(jobs, key=cost_of))
        self._cost_left += sum(map(cost_of, jobs))
        limits = [limit for job in jobs if (limit := timeout_of(job))]
        self._start_limit = START_SECONDS + max(limits) if limits else None
        while self._left or any(member.tasks for member in self._members):
            self._hand_out()
            for member in self._wait():
                yield from self._hear(member)
            yield from self._look_after()

    def interrupt(self) -> None:
        """Make a ``run`` in another thread raise, its workers killed."""
        self._interrupted = True
        for member in list(self._members):
            member.worker.process.kill()

    def close(self) -> None:
        """End all workers: at once those that are at work, the others gently."""
        members, self._members = self._members, []
        for member in members:
            if member.tasks or not member.ready:
                member.worker.kill()
        worker.stop([member.worker for member in members if member.ready and not member.tasks])

    # -- handing out ------------------------------------------------------------------------

    def _hand_out(self) -> None:
        if self._interrupted:
            raise PluginError("the run was stopped")
        for member in self._members:
            if member.ready and not member.tasks and self._left:
                member.tasks.extend(self._batch())
                member.since = time.monotonic()
                member.worker.send(pickle.dumps([task.job for task in member.tasks]))
        wanted = self._workers if self._grown else 1
        starting = sum(not member.ready for member in self._members)
        for _ in range(min(wanted - len(self._members), len(self._left) - starting)):
            self._members.append(_Member(Worker.start(self._execute)))

    def _give_back(self, tasks: Iterable[_Task[JobT]]) -> None:
        """Put tasks back where the next one is taken, so that a job's attempts are in a row."""
        for task in tasks:
            if self._is_measured():
                self._left.append(task)
            else:
                self._left.appendleft(task)
            self._cost_left += cost_of(task.job)

    def _batch(self) -> Iterator[_Task[JobT]]:
        """Take one task while little is known, later some that fit, expensive ones first."""
        if not self._is_measured():
            task = self._left.popleft()
            self._cost_left -= cost_of(task.job)
            yield task
            return
        share = self._cost_left / (self._workers * BATCHES_PER_WORKER)
        most = min(share, BATCH_SECONDS * self._cost_done / self._spent)
        cost = 0.0
        while self._left and (not cost or cost + cost_of(self._left[-1].job) <= most):
            task = self._left.pop()
            cost += cost_of(task.job)
            yield task
        self._cost_left -= cost

    def _is_measured(self) -> bool:
        """Return whether jobs are handed out in batches of known length, expensive ones first."""
        return self._grown and bool(self._spent)

    # -- listening --------------------------------------------------------------------------

    def _wait(self) -> list[_Member[JobT]]:
        """Return the members that have something to say, once there are any, or it is time."""
        now = time.monotonic()
        limits = [(member, self._limit(member)) for member in self._members]
        ends = [member.since + limit - now for member, limit in limits if limit is not None]
        patience = max(min([_POLL_SECONDS, *ends]), 0.0)
        heard = connection.wait([member.worker.connection for member in self._members], patience)
        return [member for member in self._members if member.worker.connection in heard]

    def _hear(self, member: _Member[JobT]) -> Iterator[ResultT | JobFailure[JobT]]:
        try:
            kind, content = member.worker.receive()
        except EOFError:
            yield from self._bury(member)
            return
        now = time.monotonic()
        if kind == worker.READY:
            member.ready, self._failed_starts = True, 0
        elif kind == worker.UNABLE:
            raise _cannot_start(content)
        elif kind == worker.RAISED:
            raise content if isinstance(content, Exception) else PluginError(repr(content))
        else:
            self._cost_done += cost_of(member.tasks.popleft().job)
            self._spent += now - member.since
            yield content
        member.since = now
        self._grow()

    def _grow(self) -> None:
        """Ask for all workers once what is left is expected to take longer than they to start."""
        known = max(self._spent - WARM_UP_SECONDS, 0.0)
        if self._cost_left * known > WORTH_SECONDS * self._cost_done:
            self._grown = True

    # -- deaths and time limits -------------------------------------------------------------

    def _look_after(self) -> Iterator[ResultT | JobFailure[JobT]]:
        """Deal with members that died unheard, that take too long, or that need help."""
        now = time.monotonic()
        for member in list(self._members):
            limit = self._limit(member)
            if member.worker.process.poll() is not None and not member.worker.connection.poll():
                yield from self._bury(member)
            elif limit is not None and now - member.since > limit:
                yield from self._end(member)
            elif member.ready and member.tasks and now - member.since > WORTH_SECONDS:
                self._grown = True

    def _bury(self, member: _Member[JobT]) -> Iterator[JobFailure[JobT]]:
        """Hand out a dead member's tasks again, except one that has killed too often."""
        ending = self._remove(member)
        if not member.ready:
            self._failed_starts += 1
            if self._failed_starts >= ATTEMPTS:
                raise _cannot_start(f"they die at once ({ending})")
        elif member.tasks:
            task = member.tasks[0]
            task.deaths += 1
            if task.deaths >= ATTEMPTS or self._given_up >= HOPELESS:
                self._given_up += 1
                member.tasks.popleft()
                yield JobFailure(task.job, f"its worker died every time it was tried ({ending})")
        self._give_back(reversed(member.tasks))

    def _end(self, member: _Member[JobT]) -> Iterator[JobFailure[JobT]]:
        """Kill a member whose task takes too long."""
        self._remove(member)
        if not member.ready:
            raise _cannot_start(f"they are not ready after {self._start_limit:g} s")
        late = member.tasks.popleft()
        self._give_back(reversed(member.tasks))
        yield JobFailure(late.job, f"took longer than {timeout_of(late.job):g} s (timeout)")

    def _limit(self, member: _Member[JobT]) -> float | None:
        """Return how long a member may be at what it does."""
        if member.tasks:
            return timeout_of(member.tasks[0].job)
        return None if member.ready else self._start_limit

    def _remove(self, member: _Member[JobT]) -> str:
        self._members.remove(member)
        return member.worker.kill()


def _cannot_start(why: str) -> PluginError:
    return PluginError(f"worker processes cannot start: {why}; finished cells are kept")
