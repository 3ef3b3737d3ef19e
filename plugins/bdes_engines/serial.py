"""One job after another, in this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from attrs import frozen

from bdes_framework import BuildContext

Job = TypeVar("Job")
Result = TypeVar("Result")


@frozen
class SerialConfig:
    """Runs one cell after another in this process."""


class Serial:
    """Runs jobs in the order given."""

    def run(self, jobs: Sequence[Job], execute: Callable[[Job], Result]) -> Iterator[Result]:
        """Yield each job's result as it comes."""
        for job in jobs:
            yield execute(job)


def build(config: SerialConfig, context: BuildContext) -> Serial:
    """Build the engine."""
    return Serial()
