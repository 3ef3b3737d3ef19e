"""Summaries of cells: means over replications with intervals, and log-log slopes of regret."""

import math
import statistics
from collections.abc import Sequence

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.distributions import student_quantile
from bdes_framework.plugin.hookspecs import FinishedCell
from bdes_framework.simulation.regret import allowed_rounding


@frozen
class CellSummary(FinishedCell):
    """One finished cell of a run, with its regret.

    Parameters
    ----------
    regret : float | None
        DES regret; None without a benchmark, or if the cell failed.
    warning : str | None
        Why the cell has no diagnostics although its policy has; None otherwise.
    visits, users : int | None
        How many visits were made, by how many users; None with one audience, or if it failed.
    """

    regret: float | None = None
    warning: str | None = None
    visits: int | None = None
    users: int | None = None

    @property
    def mean_per_step(self) -> float | None:
        """Expected reward per round, or per visit of many users; None if it failed."""
        steps = self.horizon if self.visits is None else self.visits
        return None if self.total_mean is None else self.total_mean / steps

    @property
    def regret_per_user(self) -> float | None:
        """DES regret per user; None without a benchmark, or with one audience."""
        if self.regret is None or self.users is None:
            return None
        return self.regret / self.users


@frozen
class Estimate:
    """A mean over replications, with its 95 % interval.

    Parameters
    ----------
    mean : float
        The average.
    half_width : float | None
        Half the width of its 95 % interval (Student's t); None with a single value.
    """

    mean: float
    half_width: float | None


@frozen
class Result:
    """The result of one policy on one environment at one horizon, over all replications.

    Parameters
    ----------
    environment, policy : str
        Their labels.
    horizon : int
        Number of rounds.
    reward, mean, regret : Estimate | None
        Total reward, its expectation given the arms pulled, and DES regret; None where no
        replication has one.
    n_failed : int
        Number of failed replications.
    mean_per_step : Estimate | None
        Expected reward per round, or per visit of many users.
    regret_per_user : Estimate | None
        DES regret per user; None where there is one audience, or no benchmark.
    """

    environment: str
    policy: str
    horizon: int
    reward: Estimate | None
    mean: Estimate | None
    regret: Estimate | None
    n_failed: int
    mean_per_step: Estimate | None = None
    regret_per_user: Estimate | None = None

    @property
    def beats_benchmark(self) -> bool:
        """Whether more was earned than the benchmark earns, beyond rounding."""
        if self.mean is None or self.regret is None:
            return False
        return self.regret.mean < -allowed_rounding(self.mean.mean)

    @property
    def share(self) -> float | None:
        """Expected reward as a share of the benchmark's; None without one, or if it is 0."""
        if self.mean is None or self.regret is None:
            return None
        optimum = self.mean.mean + self.regret.mean
        return self.mean.mean / optimum if optimum > 0 else None


def beaten_benchmarks(results: Sequence[Result]) -> list[str]:
    """Return the environments, each once, whose benchmark a policy beats."""
    return list(dict.fromkeys(result.environment for result in results if result.beats_benchmark))


def summarise(cells: Sequence[CellSummary]) -> list[Result]:
    """Return one result per environment, horizon and policy, in the order first seen."""
    groups: dict[tuple[str, int, str], list[CellSummary]] = {}
    for cell in cells:
        groups.setdefault((cell.environment, cell.horizon, cell.policy), []).append(cell)
    return [
        Result(
            environment=environment,
            policy=policy,
            horizon=horizon,
            reward=estimate([cell.total_reward for cell in group]),
            mean=estimate([cell.total_mean for cell in group]),
            regret=estimate([cell.regret for cell in group]),
            n_failed=sum(cell.error is not None for cell in group),
            mean_per_step=estimate([cell.mean_per_step for cell in group]),
            regret_per_user=estimate([cell.regret_per_user for cell in group]),
        )
        for (environment, horizon, policy), group in groups.items()
    ]


def estimate(values: Sequence[float | None]) -> Estimate | None:
    """Return the mean and 95 % interval of the values that are not None; None without any.

    >>> estimate([1.0, 3.0, None])
    Estimate(mean=2.0, half_width=12.706204736174694)
    """
    given = [value for value in values if value is not None]
    if not given:
        return None
    mean = statistics.fmean(given)
    if len(given) == 1:
        return Estimate(mean, None)
    error = statistics.stdev(given) / math.sqrt(len(given))
    return Estimate(mean, student_quantile(0.975, len(given) - 1) * error)


def slopes(results: Sequence[Result]) -> dict[tuple[str, str], float]:
    """Return the log-log slope of mean regret over horizons, by environment and policy.

    Least squares over all horizons with positive regret; absent below two of them.
    """
    points: dict[tuple[str, str], dict[int, float]] = {}
    for result in results:
        if result.regret is not None and result.regret.mean > 0:
            regret = points.setdefault((result.environment, result.policy), {})
            regret[result.horizon] = result.regret.mean
    return {
        key: float(loglog_line(list(regret), np.array(list(regret.values())))[0])
        for key, regret in points.items()
        if len(regret) > 1
    }


def loglog_line(
    horizons: Sequence[int] | IntArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return slope and intercept of log values over log horizons, by least squares.

    Parameters
    ----------
    horizons : Sequence[int] | IntArray, shape (n,)
        At least two of them.
    values : FloatArray, shape (..., n)
        Positive; one line per row.
    """
    logs, log_values = np.log(np.asarray(horizons, dtype=float)), np.log(values)
    centred = logs - logs.mean()
    slope = np.asarray((log_values * centred).sum(axis=-1) / (centred**2).sum())
    return slope, np.asarray(log_values.mean(axis=-1) - slope * logs.mean())
