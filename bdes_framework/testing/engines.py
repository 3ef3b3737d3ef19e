"""Checks of engines."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from unittest import SkipTest

from attrs import frozen

from bdes_framework.interfaces import Engine, JobFailure, Kind
from bdes_framework.testing import expect
from bdes_framework.testing.checks import ConformanceSuite, Subject


@frozen
class TrialJob:
    """A job of the kit.

    Parameters
    ----------
    number : int
        What it is called.
    cost : float
        What it tells the engine of its cost.
    parent : int
        The process that hands it to the engine.
    fault : str
        What goes wrong in it: "raises", "dies", or nothing.
    isolate : bool
        Whether it asks to be run in another process.
    """

    number: int
    cost: float
    parent: int
    fault: str = ""
    isolate: bool = False


class TrialError(Exception):
    """Raised by the job that is to raise."""


def perform(job: TrialJob) -> tuple[int, bool]:
    """Return a job's number, and whether it was run by the process that handed it in."""
    here = os.getpid() == job.parent
    if job.fault == "raises":
        raise TrialError("raised on purpose")
    if job.fault == "dies" and not here:
        os._exit(1)
    return job.number, here


@frozen
class EngineScenario:
    """How many jobs to run, and what is wrong with the third."""

    n_jobs: int
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.n_jobs} jobs" + (f", one {self.fault}" if self.fault else "")

    @property
    def jobs(self) -> Sequence[TrialJob]:
        """The jobs, of costs that are neither equal nor in order."""
        return [
            TrialJob(
                number,
                cost=float(1 + 7 * number % 5),
                parent=os.getpid(),
                fault=self.fault if number == 2 else "",
                isolate=self.fault == "dies",
            )
            for number in range(self.n_jobs)
        ]


SUITE: ConformanceSuite[EngineScenario] = ConformanceSuite(Kind.ENGINE)

engine_checks = SUITE.checks
"""Return the checks of an engine, to be called one by one."""

check_engine = SUITE.check
"""Run every check of an engine; raise one error with all failures."""

Result = tuple[int, bool] | JobFailure[TrialJob]


def _run(subject: Subject, jobs: Sequence[TrialJob]) -> Iterator[Result]:
    engine: Engine = subject.plugins.engine(subject.ref, **subject.parameters)
    return engine.run(jobs, perform)


def _numbers(results: Sequence[Result]) -> Counter[object]:
    """Count what came, by the number of its job."""
    found = (r.job.number if isinstance(r, JobFailure) else r[0] for r in results)
    return Counter(found)


@SUITE.over(EngineScenario(0), EngineScenario(1), EngineScenario(20))
def every_job_has_one_result(subject: Subject, scenario: EngineScenario) -> None:
    """Each job gives one result, in any order: none is lost, repeated or made up."""
    came = list(_run(subject, scenario.jobs))
    failures = [result for result in came if isinstance(result, JobFailure)]
    expected = "one result of each job, and nothing else"
    expect.that(not failures, expected, f"{len(failures)} failures of jobs that do not fail")
    numbers = _numbers(came)
    wanted = Counter[object](job.number for job in scenario.jobs)
    lost, excess = wanted - numbers, numbers - wanted
    what = f"{lost.total()} results missing, {excess.total()} repeated or of no job"
    expect.that(not lost and not excess, expected, what)


@SUITE.over(EngineScenario(5, "raises"))
def exceptions_of_execute_are_raised(subject: Subject, scenario: EngineScenario) -> None:
    """What execute raises, run raises: an error of the framework is not a failed job."""
    try:
        list(_run(subject, scenario.jobs))
    except TrialError:
        return
    except Exception as error:
        if "raised on purpose" in str(error) or isinstance(error.__cause__, TrialError):
            return
        raise
    expect.that(False, "the exception that execute raised", "none")


@SUITE.over(EngineScenario(20))
def iteration_may_end_early(subject: Subject, scenario: EngineScenario) -> None:
    """Closed after its first result, it ends without an exception, and can run again."""
    results = _run(subject, scenario.jobs)
    next(results)
    close = getattr(results, "close", None)
    if close is None:
        raise SkipTest("it returns an iterator that cannot be closed")
    close()
    every_job_has_one_result(subject, EngineScenario(3))


@SUITE.over(EngineScenario(5, "dies"))
def dead_worker_costs_one_job(subject: Subject, scenario: EngineScenario) -> None:
    """A job that kills its worker costs no other; it is reported as failed, or left out."""
    came = list(_run(subject, scenario.jobs))
    numbers = _numbers(came)
    done = {result[0] for result in came if not isinstance(result, JobFailure)}
    if 2 in done:
        raise SkipTest("it runs jobs in this process")
    others = {0, 1, 3, 4}
    expect.that(
        done == others and all(numbers[number] == 1 for number in others) and numbers[2] <= 1,
        "one result of each of the four others",
        f"results of {sorted(done)}, and {len(came) - len(done)} others",
    )
