"""Cut jobs into batches of about equal cost, expensive ones first and alone.

A task sent to another process costs as much as thousands of pulls, so cheap jobs travel
together; an expensive job travels alone and early, so that it does not hold up the end.
"""

from collections.abc import Sequence
from typing import TypeVar

JobT = TypeVar("JobT")

BATCHES_PER_WORKER = 8
"""Into how many batches for each worker the work is divided, so that all end together."""


def cost_of(job: object) -> float:
    """Return a job's expected pulls, 1 if it does not say."""
    return max(float(getattr(job, "cost", 1.0)), 1.0)


def timeout_of(job: object) -> float | None:
    """Return how many seconds a job may take; None if there is no limit."""
    timeout: float | None = getattr(job, "timeout", None)
    return timeout


def in_batches(jobs: Sequence[JobT], n_workers: int) -> list[list[JobT]]:
    """Return batches of jobs that cost at most their share, or hold a single job."""
    ordered = sorted(jobs, key=cost_of, reverse=True)
    share = sum(map(cost_of, ordered)) / (n_workers * BATCHES_PER_WORKER)
    batches: list[list[JobT]] = []
    current: list[JobT] = []
    cost = 0.0
    for job in ordered:
        if current and cost + cost_of(job) > share:
            batches.append(current)
            current, cost = [], 0.0
        current.append(job)
        cost += cost_of(job)
    return [*batches, current] if current else batches
