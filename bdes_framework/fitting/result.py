"""What a fit says: estimates with intervals, comparisons, draws, and forecasts from them."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.numbers import as_integer
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.goodness import GoodnessOfFit
from bdes_framework.fitting.parametrisation import Coordinates, RatePrediction
from bdes_framework.model.instance import Instance
from bdes_framework.model.schedule import Schedule

Interval: TypeAlias = tuple[float, float]

_WIDTH = NormalDist().inv_cdf(0.975)


@frozen
class ModelScore:
    """How well a model with so many parameters explains a log; smaller AIC and BIC are better.

    Parameters
    ----------
    log_likelihood : float
        The largest the model's likelihood gets. The estimates of a fit are a posterior's mode,
        where it is a little less.
    n_parameters, n_rows : int
        What AIC and BIC charge for.
    """

    log_likelihood: float
    n_parameters: int
    n_rows: int

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * self.n_parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return float(np.log(self.n_rows)) * self.n_parameters - 2 * self.log_likelihood


@frozen(eq=False)
class Fit:
    """What a log says about its arms: made by :func:`fit`.

    Parameters
    ----------
    instance : Instance
        The estimates, ready for any planner.
    names : tuple of str
        What the arms are called.
    pulls : array of int, shape (K,)
        How often each arm was played.
    covariance : array of float, shape (2K+1, 2K+1)
        Of the estimates of r, b and lam, in this order; a known lam has zeros. Where an
        arm has few successes or failures, it says less than the intervals.
    r_interval, b_interval : arrays of float, shape (K, 2)
        95 % intervals, made in the fit's coordinates; by profile likelihood too, where some
        arm has few successes or failures.
    lam_interval : pair of float
        Twice the same number if lam is known.
    evolving, stationary : ModelScore
        This model, and the one without a state, in which every arm pays its mean.
    goodness : GoodnessOfFit
        Predictions against rewards, by bins.
    warnings : tuple of str
        What the log cannot tell.
    coordinates, centre, deviations : Coordinates, array and matrix
        The normal posterior that intervals and draws come from: its mean, and a square root
        of its covariance.
    """

    instance: Instance
    names: tuple[str, ...]
    pulls: IntArray
    covariance: FloatArray
    r_interval: FloatArray
    b_interval: FloatArray
    lam_interval: Interval
    evolving: ModelScore
    stationary: ModelScore
    goodness: GoodnessOfFit
    warnings: tuple[str, ...]
    coordinates: Coordinates = field(repr=False)
    centre: FloatArray = field(repr=False)
    deviations: FloatArray = field(repr=False)

    def draws(self, n: int, rng: np.random.Generator) -> list[Instance]:
        """Return instances drawn from the posterior: how else the arms may well be."""
        as_integer(n, "n", 1)
        normal = rng.standard_normal((n, self.centre.size))
        return [self.coordinates.instance(self.centre + self.deviations @ z) for z in normal]


@frozen
class Forecast:
    """An expected value and its 95 % interval, over draws of the parameters.

    Parameters
    ----------
    mean : float
        Over all draws.
    low, high : float
        Between them lie 95 % of the draws.
    """

    mean: float
    low: float
    high: float


Playable: TypeAlias = Sequence[int] | IntArray | Schedule


def forecast(
    draws: Sequence[Instance], schedule: Playable, against: Playable | None = None
) -> Forecast:
    """Return what a schedule will earn, or by which part it will earn more than another.

    Parameters
    ----------
    draws : sequence of Instance
        From :meth:`Fit.draws`.
    schedule : Schedule or arms in order
        What to play.
    against : Schedule or arms in order, or nothing
        With it, the forecast is of the lift: 0.1 means that ``schedule`` earns 10 % more.

    Examples
    --------
    >>> sure = [Instance(r=[0.8, 0.4], b=[0.5, 1.0], lam=1.0)] * 3
    >>> round(forecast(sure, [0, 0]).mean, 6)
    1.2
    """
    if not draws:
        raise InvalidValueError("a forecast needs at least one draw")
    values = np.array([draw.value(schedule) for draw in draws])
    if against is not None:
        base = np.array([draw.value(against) for draw in draws])
        if not base.all():
            raise InvalidValueError("the schedule to compare with earns nothing in some draw")
        values = values / base - 1
    low, high = np.quantile(values, [0.025, 0.975])
    return Forecast(float(values.mean()), float(low), float(high))


def intervals(coordinates: Coordinates, centre: FloatArray, errors: FloatArray) -> FloatArray:
    """Return 95 % intervals of r, b and lam: shape (2K+1, 2).

    ``errors`` are the standard errors of the free ones. Intervals are made in each
    parameter's own coordinate, the others staying put, with two exceptions. One reaches a
    boundary that lies within 1.96 standard errors of the estimate: no interval in logits ever
    does. And that of b is at least as wide as the plain one: unlike a probability's, the error
    of b does not shrink towards the boundaries.
    """
    best = coordinates.parameters(centre)
    reach = _WIDTH * errors / np.diag(coordinates.jacobian(centre))
    found = np.empty((2, best.size))
    for place in range(best.size):
        move = np.zeros(best.size)
        move[place] = reach[place]
        for side, sign in enumerate((-1, 1)):
            found[side, place] = coordinates.parameters(centre + sign * move)[place]
    largest = coordinates.largest(best, found[0])
    low, high = best - _WIDTH * errors, best + _WIDTH * errors
    b = slice(coordinates.n_arms, 2 * coordinates.n_arms)
    found[0, b], found[1, b] = np.minimum(low[b], found[0, b]), np.maximum(high[b], found[1, b])
    found[0, np.minimum(low, found[0]) <= 0] = 0.0
    at_top = np.maximum(high, found[1]) >= largest
    found[1, at_top] = largest[at_top]
    if not isinstance(coordinates.lam, RatePrediction):
        found = np.column_stack([found, [coordinates.lam, coordinates.lam]])
    result: FloatArray = found.T
    return result
