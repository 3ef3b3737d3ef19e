"""Forecasts: what a schedule will earn, over draws of the parameters of a fit."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.instance import Instance
from bdes_framework.model.schedule import Schedule

Playable: TypeAlias = Sequence[int] | IntArray | Schedule


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


def forecast(
    draws: Sequence[Instance], schedule: Playable, against: Playable | None = None
) -> Forecast:
    """Return what a schedule will earn, or by which part it will earn more than another.

    Parameters
    ----------
    draws : Sequence[Instance]
        From :meth:`Fit.draws`.
    schedule : Schedule | Sequence[int]
        What to play.
    against : Schedule | Sequence[int] | None
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
