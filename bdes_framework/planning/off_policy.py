"""Off-policy checks: what a plan would have earned, from a log that knows its propensities.

Users whose first visits happened to show what the plan would have shown stand for all: each
counts by one over the probability of that. Nothing is believed of the model, but such users get
fewer visit by visit, so only the first visits of a plan can be checked.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import html_facts, html_table, shown_fields
from bdes_framework._internal.distributions import normal_quantile
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.fit import Forecast
from bdes_framework.fitting.log import Log
from bdes_framework.interfaces import Plan
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.lift import Deployed, Posterior, forecast_text
from bdes_framework.planning.traffic import MAX_VISITS, Instances, visits_of

MIN_EFFECTIVE = 30
_MOST_ERRORS = 4.0
"""Weights average 1; by more standard errors than so many they miss it by no chance."""
_ROUNDING = 1e-6
_WIDTH = normal_quantile(0.975)
_METHODS = {
    "model": "the model",
    "importance": "inverse propensities",
    "self_normalised": "the same, self-normalised",
    "doubly_robust": "doubly robust",
}
OFF_POLICY_HEADINGS = ("By", "Reward per visit", "95 %")


@frozen(eq=False)
class OffPolicyCheck:
    """What a plan earns per visit on users' first visits: by the model, and by the log alone.

    Parameters
    ----------
    n_visits : int
        How many first visits of each user are checked.
    n_users : int
        How many users there are.
    matching : int
        How many users were shown all that the plan shows on the visits they made of these.
    effective : float
        The effective number of users at the last of these visits: as many users, all counting
        alike, would tell as much.
    model : Forecast
        By the fit; the interval is that of its posterior.
    importance : Forecast
        By inverse propensities, visit by visit. Intervals of this and the following are clustered
        by user.
    self_normalised : Forecast
        The same, with each visit's weights divided by their sum: a little biased, less noisy.
    doubly_robust : Forecast
        The model's value plus the weighted errors of its predictions: right if either the model
        or the propensities are.
    """

    n_visits: int
    n_users: int
    matching: int
    effective: float
    model: Forecast
    importance: Forecast
    self_normalised: Forecast
    doubly_robust: Forecast

    @property
    def agrees(self) -> bool:
        """Whether the model's value lies in the interval of the doubly robust one."""
        return bool(self.doubly_robust.low <= self.model.mean <= self.doubly_robust.high)

    def __repr__(self) -> str:
        values = {name: forecast_text(getattr(self, name)) for name in _METHODS}
        effective = f"{self.effective:.4g} of {self.n_users:,} users"
        return shown_fields("OffPolicyCheck", visits=self.n_visits, effective=effective, **values)

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = [
            ("first visits", self.n_visits),
            ("users", self.n_users),
            ("users shown what the plan shows", self.matching),
            ("effective users", self.effective),
        ]
        table = html_table(OFF_POLICY_HEADINGS, list(self.rows()))
        return html_facts("Off-policy check", facts) + table

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield each estimate in words: by what, its value and its interval."""
        for name, title in _METHODS.items():
            value: Forecast = getattr(self, name)
            yield title, f"{value.mean:.4f}", f"{value.low:.4f} to {value.high:.4f}"

    def as_json(self) -> dict[str, object]:
        """Return what JSON holds of it."""
        found: dict[str, object] = {
            "visits": self.n_visits,
            "users": self.n_users,
            "matching": self.matching,
            "effective": self.effective,
            "agrees": self.agrees,
        }
        for name in _METHODS:
            value: Forecast = getattr(self, name)
            found[name] = {"mean": value.mean, "low": value.low, "high": value.high}
        return found


def check_off_policy(
    fit: Posterior,
    plan: Deployed,
    log: Log,
    propensities: FloatArray | None = None,
    *,
    n_visits: int | None = None,
    n_draws: int = 1000,
) -> OffPolicyCheck:
    """Return what a plan would have earned on the users of a log, by the model and by the log.

    Parameters
    ----------
    fit : Posterior
        The model, whose arms are those of the log.
    plan : Plan | Schedule | DecisionTable
        What would be shown. How many visits a user makes must not depend on it.
    log : Log
        Of many users.
    propensities : FloatArray | None, shape (n,)
        With which probability each row showed the arm it showed, given what that user had been
        shown before; the log's own by default.
    n_visits : int | None
        How many first visits are checked; by default as many as there are 30 effective users for.
    n_draws : int
        How many draws the model's interval is from.

    Raises
    ------
    InvalidValueError
        If there are no propensities, or they do not fit the log, or too few users were shown what
        the plan shows.

    Examples
    --------
    >>> from bdes_framework import Instance, Schedule, fit
    >>> ads = Instance(r=[0.8, 0.3], b=[0.2, 1.0], lam=0.1)
    >>> rng = np.random.default_rng(1)
    >>> arms = rng.integers(0, 2, (500, 6))
    >>> means = np.array([ads.expected_rewards(user) for user in arms])
    >>> log = Log(arms.ravel(), rng.random(3000) < means.ravel(), range(0, 3000, 6))
    >>> check = check_off_policy(fit(log), Schedule.of([0] * 6), log, np.full(3000, 0.5))
    >>> check.n_visits, round(check.effective)
    (4, 44)
    """
    chances = _as_propensities(log, propensities)
    arms = _shown_arms(plan, log)
    if n_visits is not None and as_integer(n_visits, "n_visits", 1) > arms.size:
        raise InvalidValueError(f"n_visits must be at most {arms.size}, got {n_visits}")
    visits = list(_matching_visits(log, chances, arms[:n_visits]))
    least = MIN_EFFECTIVE if n_visits is None else 0
    reached = next((t for t, one in enumerate(visits) if one.effective <= least), len(visits))
    if reached < (n_visits or 1):
        raise InvalidValueError(_no_support(fit.names[arms[reached]], visits[reached], reached))
    visits = visits[:reached]
    _check_weights(visits)
    made = np.array([one.made.size for one in visits], dtype=np.float64)
    weights = made / made.sum()
    predicted = fit.instance.expected_rewards(arms[:reached])
    drawn = Instances.of(fit.draws(as_integer(n_draws, "n_draws", 1), np.random.default_rng(0)))
    low, high = np.quantile(drawn.totals(arms, weights), [0.025, 0.975])
    return OffPolicyCheck(
        n_visits=reached,
        n_users=log.n_sequences,
        matching=visits[-1].users.size,
        effective=visits[-1].effective,
        model=Forecast(float(weights @ predicted), float(low), float(high)),
        importance=_by_log(log, visits, weights, np.zeros(reached), by_sum=False),
        self_normalised=_by_log(log, visits, weights, np.zeros(reached), by_sum=True),
        doubly_robust=_by_log(log, visits, weights, predicted, by_sum=False),
    )


class _Visit(NamedTuple):
    """One visit number: who made it, and who was shown what the plan shows up to it."""

    made: IntArray
    """The users who made it, and whose reward is known."""
    users: IntArray
    """Those of them who were shown what the plan shows."""
    weights: FloatArray
    """One over the probability of that, for each of them."""
    rewards: FloatArray
    n_matching: int
    n_there: int
    """How many made it, whether their reward is known or not."""
    sum_weights: float
    sum_squares: float
    """Of the weights of all who were shown what the plan shows."""

    @property
    def effective(self) -> float:
        total = float(self.weights.sum())
        return total**2 / float(self.weights @ self.weights) if total > 0 else 0.0


def _as_propensities(log: Log, given: FloatArray | None) -> FloatArray:
    found = log.propensities if given is None else given
    if found is None:
        raise InvalidValueError(
            "the log has no propensities: with which probability each arm was shown"
        )
    chances = np.asarray(found, dtype=np.float64)
    if chances.shape != (log.n_rows,):
        raise InvalidValueError(f"need one propensity per row, got shape {chances.shape}")
    good = (chances > 0) & (chances <= 1)
    if not good.all():
        row = int(np.argmin(good))
        raise InvalidValueError(
            f"propensities, row {row}: must lie above 0 and be at most 1, got {chances[row]}"
        )
    return chances


def _shown_arms(plan: Deployed, log: Log) -> IntArray:
    """Return what the plan shows on as many visits as the log's longest user made."""
    most = int(min(visits_of(log).max(), MAX_VISITS))
    if isinstance(plan, DecisionTable):
        return plan.first_arms(most)
    schedule = plan.schedule if isinstance(plan, Plan) else plan
    return schedule.slice(0, min(most, schedule.n_pulls))


def _matching_visits(log: Log, chances: FloatArray, arms: IntArray) -> Iterator[_Visit]:
    """Yield first, second, ... visits, until nobody is left who was shown what the plan shows."""
    lengths = visits_of(log)
    users, weights = np.arange(log.n_sequences), np.ones(log.n_sequences)
    for visit, arm in enumerate(arms.tolist()):
        everybody = np.flatnonzero(lengths > visit)
        known = log.rewards[log.starts[everybody] + visit] >= 0
        there = lengths[users] > visit
        users, weights = users[there], weights[there]
        rows = log.starts[users] + visit
        same = log.arms[rows] == arm
        users, weights, rows = users[same], weights[same] / chances[rows[same]], rows[same]
        seen = log.rewards[rows] >= 0
        rewards = log.rewards[rows[seen]].astype(np.float64)
        sums = float(weights.sum()), float(weights @ weights)
        matching = users[seen], weights[seen], rewards
        yield _Visit(everybody[known], *matching, users.size, everybody.size, *sums)
        if not users.size:
            return


def _check_weights(visits: list[_Visit]) -> None:
    """Raise if the weights of a visit do not average 1 over all users, as right ones do.

    Each user has one weight at a visit, 0 if they were shown something else, so errors are those
    of independent users. With few effective users the error itself is not known well enough.
    """
    for place, one in enumerate(visits):
        mean = one.sum_weights / one.n_there
        variance = max(one.sum_squares / one.n_there - mean**2, 0.0)
        error = float(np.sqrt(variance / one.n_there))
        if one.effective > MIN_EFFECTIVE and abs(mean - 1) > _MOST_ERRORS * error + _ROUNDING:
            raise InvalidValueError(
                f"the propensities do not fit the log: at visit {place + 1} those who were shown"
                f" what the plan shows stand for {100 * mean:.3g} % (±{100 * error:.1g}) of users,"
                " not for all of them"
            )


def _by_log(
    log: Log, visits: list[_Visit], weights: FloatArray, predicted: FloatArray, *, by_sum: bool
) -> Forecast:
    """Return predictions plus weighted errors, per visit; users are independent of each other."""
    value, influence = float(weights @ predicted), np.zeros(log.n_sequences)
    for one, weight, mean in zip(visits, weights, predicted, strict=True):
        total = float(one.weights.sum()) if by_sum else float(one.made.size)
        errors = one.rewards - mean
        found = float(one.weights @ errors) / total
        value += float(weight) * found
        if by_sum:
            influence[one.users] += weight / total * one.weights * (errors - found)
        else:
            influence[one.users] += weight / total * one.weights * errors
            influence[one.made] -= weight / total * found
    half = _WIDTH * float(np.sqrt(influence @ influence))
    return Forecast(value, value - half, value + half)


def _no_support(name: str, visit: _Visit, before: int) -> str:
    shown = quoted(name)
    if visit.effective == 0:
        seen = f"no user was shown {shown} at visit {before + 1}"
    else:
        what = f"{visit.n_matching:,} users, who count as {visit.effective:.1f}"
        seen = f"only {what}, were shown {shown} at visit {before + 1}"
    after = " after what the plan shows before it" if before else ""
    return f"{seen}{after}, as the plan does; {MIN_EFFECTIVE} are needed to check it"
