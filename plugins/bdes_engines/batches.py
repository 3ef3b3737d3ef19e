"""Cutting jobs into batches of about equal cost, the dear ones first and alone.

A task sent to another process costs as much as thousands of pulls, so cheap jobs travel
together; a dear job travels alone and early, so that it does not hold up the end.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

BATCHES_PER_WORKER = 8


def cost_of(job: object) -> float:
    """Return a job's expected pulls, 1 if it does not say."""
    return max(float(getattr(job, "cost", 1.0)), 1.0)


def in_batches(jobs: Sequence[Job], n_workers: int, most: float = math.inf) -> list[list[Job]]:
    """Return the jobs in batches, none dearer than its share or ``most`` unless one job is."""
    ordered = sorted(jobs, key=cost_of, reverse=True)
    share = min(sum(map(cost_of, ordered)) / (n_workers * BATCHES_PER_WORKER), most)
    batches: list[list[Job]] = []
    current: list[Job] = []
    cost = 0.0
    for job in ordered:
        if current and cost + cost_of(job) > share:
            batches.append(current)
            current, cost = [], 0.0
        current.append(job)
        cost += cost_of(job)
    return [*batches, current] if current else batches


def run_batch(execute: Callable[[Job], Result], batch: Sequence[Job]) -> list[Result]:
    """Do a batch's jobs one after another: what a worker is sent."""
    return [execute(job) for job in batch]
