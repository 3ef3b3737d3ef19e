"""Growth of regret with the horizon: fitted log-log slopes, and rates of the paper's Table 1."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from attrs import frozen

from bdes_framework.experiment.summary import loglog_line

Key = TypeVar("Key", bound=Hashable)

_RESAMPLES = 1000


@frozen
class SlopeFit:
    """The log-log line through a policy's mean regret over horizons, by least squares.

    ``low`` and ``high`` are a 95 % bootstrap interval of the slope over draws, None with fewer than
    three that finished at every horizon; ``horizons`` have positive mean regret.
    """

    slope: float
    intercept: float
    low: float | None
    high: float | None
    horizons: tuple[int, ...]

    def at(self, horizon: float) -> float:
        """Return the fitted regret at a horizon."""
        return math.exp(self.intercept + self.slope * math.log(horizon))


def fit_slopes(
    regrets: Mapping[Key, Mapping[int, Mapping[Hashable, float]]],
) -> dict[Key, SlopeFit]:
    """Return a fit by the same keys, where two horizons have positive mean regret.

    ``regrets`` are by horizon and draw: an instance, or a replication of the only one.
    """
    fits = {key: _fit(by_horizon) for key, by_horizon in regrets.items()}
    return {key: fit for key, fit in fits.items() if fit is not None}


def _fit(by_horizon: Mapping[int, Mapping[Hashable, float]]) -> SlopeFit | None:
    means = {t: sum(values.values()) / len(values) for t, values in sorted(by_horizon.items())}
    horizons = tuple(t for t, mean in means.items() if mean > 0)
    if len(horizons) < 2:
        return None
    slope, intercept = loglog_line(horizons, np.array([means[t] for t in horizons]))
    low, high = _interval(horizons, [by_horizon[t] for t in horizons])
    return SlopeFit(float(slope), float(intercept), low, high, horizons)


def _interval(
    horizons: Sequence[int], columns: Sequence[Mapping[Hashable, float]]
) -> tuple[float | None, float | None]:
    """Bootstrap over draws, whole rows at a time: horizons share their instances and luck."""
    shared = [draw for draw in columns[0] if all(draw in column for column in columns)]
    if len(shared) < 3:
        return None, None
    regret = np.array([[column[k] for column in columns] for k in shared])
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(shared), (_RESAMPLES, len(shared)))
    means = regret[picks].mean(axis=1)
    means = means[(means > 0).all(axis=1)]
    if not len(means):
        return None, None
    low, high = np.quantile(loglog_line(horizons, means)[0], (0.025, 0.975))
    return float(low), float(high)


@frozen
class Promise:
    """The rate Table 1 gives for one lam at one horizon: T to ``exponent``, logarithms left out.

    ``words`` are the regime, the algorithm and the theorem it belongs to.
    """

    exponent: float
    words: str


def table_1(lam: float, horizon: int) -> Promise:
    """Return the rate the paper proves for ``lam`` at ``horizon``.

    The table's borders are orders of magnitude; they are taken here with factor 1, and the
    open point between its columns, lam = 1/T, with the limit of the column below it.

    >>> table_1(0.3, 10_000)
    Promise(exponent=0.6666666666666666, words='middle lam: ETC, Theorem 3.1')
    """
    if lam * horizon * horizon <= 1 or horizon < 2:
        return Promise(1 / 2, "slow lam, up to 1/T²: EXP3.P, Theorem 4.1")
    if lam * horizon <= 1:
        power = -math.log(lam) / math.log(horizon)
        return Promise(1 / power, f"slow lam, T^-{power:.2f}: EXP3.P, Theorem 4.1")
    if (1 - lam) * math.sqrt(horizon) <= 1:
        return Promise(1 / 2, "fast lam: sticky arms, Theorem 5.1")
    return Promise(2 / 3, "middle lam: ETC, Theorem 3.1")
