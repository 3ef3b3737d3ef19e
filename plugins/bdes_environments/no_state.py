"""Many users whom nothing that is shown moves: null worlds, to count false alarms on."""

from typing import Any

import numpy as np
from attrs import cmp_using, field, frozen
from attrs.validators import and_, ge, le

import bdes_framework as bdes
from bdes_environments.bernoulli import check_unit_interval
from bdes_environments.crowd import Crowd, CrowdConfig, as_block
from bdes_framework import (
    BuildContext,
    FloatArray,
    IntArray,
    InvalidValueError,
    Outcome,
    compiled,
)

_same_array = cmp_using(eq=np.array_equal)
_DAYS = 7


def _check_week(config: object, attribute: Any, value: FloatArray) -> None:
    check_unit_interval(config, attribute, value)
    if value.shape != (_DAYS,):
        raise InvalidValueError(f"week needs {_DAYS} factors, one per day, got {value.size}")


@frozen(unsafe_hash=False)
class NoStateConfig:
    """Users who tire by themselves, differ, or follow the week, whatever they are shown.

    A click has the probability r of the arm shown, times what the number of the user's visit, the
    user and the day make of it: no earlier arm matters. A test that finds a state here is wrong.

    Parameters
    ----------
    r : list[float]
        What each arm pays at a user's first visit, in [0, 1].
    end : float
        What responsiveness drifts to from 1, in [0, 1], whatever is shown.
    rate : float
        How far one visit moves it there, in [0, 1]; 0 if it stays at 1.
    spread : float
        How much users differ, in [0, 1]: each has a factor on r of their own, drawn evenly from
        1 - spread to 1 + spread. Means are at most 1.
    week : list[float]
        A factor on r for each of the seven days, in [0, 1]; all days are alike by default.
    visits_per_day : int
        How many visits there are in a day, of all users together.
    users : int
        How many users there are; anybody may come next, with equal chances.
    visits_per_user : int | None
        How many visits each makes. Nobody leaves by default.
    """

    r: FloatArray = field(eq=_same_array, validator=check_unit_interval)
    end: float = field(default=1.0, validator=check_unit_interval)
    rate: float = field(default=0.0, validator=check_unit_interval)
    spread: float = field(default=0.0, validator=and_(bdes.validate_number, ge(0), le(1)))
    week: FloatArray = field(factory=lambda: np.ones(_DAYS), eq=_same_array, validator=_check_week)
    visits_per_day: int = field(default=1000, validator=[bdes.validate_integer, ge(1)])
    users: int = field(default=1000, validator=[bdes.validate_integer, ge(1)])
    visits_per_user: int | None = None

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "r", self.crowd.r)

    @property
    def crowd(self) -> CrowdConfig:
        """Users who come and differ in the same way."""
        return CrowdConfig(
            r=self.r,
            b=np.full(len(self.r), self.end),
            lam=self.rate,
            users=self.users,
            visits_per_user=self.visits_per_user,
            spread=self.spread,
        )


@compiled
def _sweep_visits(
    r: FloatArray,
    end: float,
    rate: float,
    factors: FloatArray,
    days: FloatArray,
    uniforms: FloatArray,
    states: FloatArray,
    users: IntArray,
    arms: IntArray,
    record: bdes.Record,
) -> None:
    """Play visits in order; the responsiveness of each user is moved in place."""
    for v in range(users.size):
        user = users[v]
        mean = r[arms[v]] * states[user] * days[v]
        if factors.size:
            mean = min(mean * factors[user], 1.0)
        record.rewards[v] = 1.0 if uniforms[v] < mean else 0.0
        record.means[v] = mean
        states[user] += rate * (end - states[user])


class NoState(Crowd):
    """Users who come as those of ``crowd`` do, and whom nothing moves."""

    def __init__(self, config: NoStateConfig, context: BuildContext) -> None:
        super().__init__(config.crowd, context)
        self._week, self._visits_per_day = config.week, config.visits_per_day
        self._visits = 0

    def pull(self, users: IntArray, arms: IntArray) -> Outcome:
        """Show ``arms`` to ``users``, in order."""
        users = as_block(users, "user", self._came)
        arms = as_block(arms, "arm", self.n_arms)
        n = users.size
        if arms.size != n:
            raise InvalidValueError(f"each visit needs an arm: got {n} users, {arms.size} arms")
        days = (self._visits + np.arange(n)) // self._visits_per_day % _DAYS
        self._visits += n
        record = bdes.Record.empty(n, arms)
        instance = self._instance
        _sweep_visits(
            instance.r,
            float(instance.b[0]),
            instance.lam,
            self._factors,
            self._week[days],
            self._rng.random(n),
            self._states,
            users,
            arms,
            record,
        )
        return Outcome(record.rewards, record.means)


def build(config: NoStateConfig, context: BuildContext) -> NoState:
    """Build the environment."""
    return NoState(config, context)
