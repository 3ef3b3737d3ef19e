"""A local plugin of engines: good ones, and for every check of the kit one that breaks it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import bdes_framework as bdes
from tests.support.kit_subjects import UndocumentedConfig, UnexplainedConfig, config_for

BDES_API_VERSION = 1

Execute = Callable[[Any], Any]
RUNS: dict[str, Callable[[Sequence[Any], Execute], Iterator[Any]]] = {}


def subject(name: str) -> Callable[[Any], Any]:
    def add(run: Any) -> Any:
        RUNS[name] = run
        return run

    return add


@subject("good")
def one_by_one(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    for job in jobs:
        yield execute(job)


@subject("good.backwards")
def backwards(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    return map(execute, reversed(jobs))


@subject("every-job-has-one-result.lost")
def lose_the_last(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    yield from map(execute, jobs[:-1] if len(jobs) > 9 else jobs)


@subject("every-job-has-one-result.repeated")
def repeat_the_first(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    yield from map(execute, [*jobs[:1], *jobs] if len(jobs) > 9 else jobs)


@subject("every-job-has-one-result.invented")
def invent_one(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    yield from map(execute, jobs)
    if not jobs:
        yield 7, True


@subject("every-job-has-one-result.failed")
def give_up_the_last(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    many = len(jobs) > 9
    yield from map(execute, jobs[:-1] if many else jobs)
    if many:
        yield bdes.JobFailure(jobs[-1], "tired")


@subject("exceptions-of-execute-are-raised")
def swallow(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    for job in jobs:
        try:
            yield execute(job)
        except Exception:
            yield bdes.JobFailure(job, "raised")


@subject("iteration-may-end-early")
def insist(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    try:
        yield from map(execute, jobs)
    except GeneratorExit:
        raise RuntimeError("not now") from None


def run_all(execute: Execute, jobs: Sequence[Any]) -> list[Any]:
    return [execute(job) for job in jobs]


@subject("dead-worker-costs-one-job")
def lose_what_was_beside(jobs: Sequence[Any], execute: Execute) -> Iterator[Any]:
    if not any(job.isolate for job in jobs):
        yield from map(execute, jobs)
        return
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.submit(run_all, execute, jobs).result()
        except BrokenProcessPool:
            return


class Wrapped:
    """An engine made of a function."""

    def __init__(self, run: Any) -> None:
        self.run = run


@bdes.hookimpl
def bdes_register(registrar: bdes.Registrar) -> None:
    def factory(run: Any) -> Callable[[Any, Any], bdes.Engine]:
        return lambda config, context: Wrapped(run)

    for name, run in RUNS.items():
        registrar.engine(name, config_for(name), factory(run))
    registrar.engine("parameters-are-documented.one-not", UnexplainedConfig, factory(one_by_one))
    registrar.engine(
        "parameters-are-documented.none-at-all", UndocumentedConfig, factory(one_by_one)
    )
