"""Engine that runs one job after another in this process."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from attrs import frozen

from bdes_engines.batches import JobT, timeout_of
from bdes_engines.pool import ResultT


@frozen
class Serial:
    """Runs one cell after another in this process."""

    in_process: ClassVar[bool] = True

    def run(self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]) -> Iterator[ResultT]:
        """Yield each job's result as it comes."""
        if any(timeout_of(job) is not None for job in jobs):
            warnings.warn(
                "engine 'serial' runs cells in this process and cannot end one: timeout is ignored",
                RuntimeWarning,
                stacklevel=2,
            )
        for job in jobs:
            yield execute(job)
