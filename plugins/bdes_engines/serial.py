"""Engine that runs one job after another in this process."""

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen

from bdes_engines.batches import JobT, ResultT


@frozen
class Serial:
    """Runs one cell after another in this process."""

    def run(self, jobs: Sequence[JobT], execute: Callable[[JobT], ResultT]) -> Iterator[ResultT]:
        """Yield each job's result as it comes."""
        for job in jobs:
            yield execute(job)
