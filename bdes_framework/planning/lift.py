"""The lift of a plan: what it earns more than today's traffic and simple rules, and how surely.

A platform cannot see the state. It follows what its estimates say the state is, so a plan, and a
decision table as well, comes down to a sequence of arms that is known beforehand. Other arms
that may well be true, drawn from a fit's posterior, value that same sequence differently: the
values of plan and rule under the same draw give the lift's distribution.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from attrs import evolve, field, frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.display import html_facts, html_table, shown_fields
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.text import one_line
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.fit import Forecast
from bdes_framework.fitting.log import Log
from bdes_framework.interfaces import Plan
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.hull import pareto_arms
from bdes_framework.model.instance import Instance
from bdes_framework.model.schedule import Schedule
from bdes_framework.planning.traffic import (
    MAX_VISITS,
    Instances,
    leaving_weights,
    today_totals,
    visit_weights,
)

TODAY, BEST_FIXED, GREEDY, BEFORE = "today", "best-fixed", "greedy", "before"
LIFT_HEADINGS = ("Against", "It earns", "The plan earns", "Lift", "95 %")
_MAX_NAME = 40

Deployed: TypeAlias = Plan | Schedule | DecisionTable
"""What can be shown to users."""


class Posterior(Protocol):
    """Estimates that other values of the same arms can be drawn around: a fit, for one."""

    @property
    def instance(self) -> Instance:
        """The estimates."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What the arms are called."""
        ...

    def draws(self, n: int, rng: np.random.Generator) -> list[Instance]:
        """Return ``n`` instances drawn from the posterior."""
        ...


@frozen(eq=False)
class KnownArms:
    """Arms that are known for sure: a posterior of which every draw is the same.

    Parameters
    ----------
    instance : Instance
        The arms.
    names : tuple[str, ...]
        What they are called; by default their numbers.
    """

    instance: Instance
    names: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        if not self.names:
            names = tuple(f"arm {arm}" for arm in range(self.instance.n_arms))
            object.__setattr__(self, "names", names)

    def draws(self, n: int, rng: np.random.Generator) -> list[Instance]:
        """Return the instance ``n`` times."""
        return [self.instance] * n


@frozen(eq=False)
class Comparison:
    """A plan beside another way to choose arms, on the same visits of the same users.

    Parameters
    ----------
    name : str
        ``today``, what the users of a log were shown; ``best-fixed``, the best single arm;
        ``greedy``, the arm that pays most at once; ``before``, what a live learner showed at first.
    arm : str | None
        The one arm it shows, if it shows one only.
    visits : float
        How many visits of a user count, on average.
    plan, other : Forecast
        What a user brings on these visits, under the plan and under the other.
    lift : Forecast | None
        By which part the plan brings more: 0.1 is 10 %. None if the other brings nothing.
    samples : FloatArray, shape (n,)
        The lift under each draw; empty if there is none.
    """

    name: str
    arm: str | None
    visits: float
    plan: Forecast
    other: Forecast
    lift: Forecast | None
    samples: FloatArray = field(repr=False)

    @property
    def title(self) -> str:
        """What it is called for reading."""
        if self.arm is None:
            return "the traffic before" if self.name == BEFORE else "today's traffic"
        return f"{one_line(self.arm, _MAX_NAME)} always"


@frozen(eq=False)
class Lift:
    """What a plan earns, and what it earns more than others, with 95 % intervals.

    Parameters
    ----------
    visits : float
        How many visits a user makes, on average, by what the plan was made for.
    value : Forecast
        What a user brings on them.
    comparisons : tuple[Comparison, ...]
        With others: today's traffic, if there is a log, then simple rules.
    """

    visits: float
    value: Forecast
    comparisons: tuple[Comparison, ...]

    def over(self, name: str) -> Comparison:
        """Return the comparison of this name: ``today``, ``best-fixed`` or ``greedy``."""
        for one in self.comparisons:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.comparisons)
        raise InvalidValueError(f"there is no comparison {name!r}; there are: {names}")

    def __repr__(self) -> str:
        lifts = {one.name.replace("-", "_"): lift_text(one.lift) for one in self.comparisons}
        return shown_fields("Lift", visits=self.visits, value=forecast_text(self.value), **lifts)

    def _repr_html_(self) -> str:
        facts: list[tuple[str, object]] = [("visits of a user, on average", self.visits)]
        facts += [("a user brings", forecast_text(self.value))]
        return html_facts("Lift", facts) + html_table(LIFT_HEADINGS, list(self.rows()))

    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Yield each comparison in words, rewards per visit; equal rules on one line."""
        seen: set[tuple[str | None, float]] = set()
        for one in self.comparisons:
            if (one.arm, one.visits) in seen:
                continue
            seen.add((one.arm, one.visits))
            other, plan = (f"{value.mean / one.visits:.4f}" for value in (one.other, one.plan))
            if one.lift is None:
                yield one.title, other, plan, "it earns nothing", ""
            else:
                low, high = (f"{100 * end:+.1f}" for end in (one.lift.low, one.lift.high))
                certain = one.lift.low == one.lift.high
                interval = "" if certain else f"{low} to {high} %"
                yield one.title, other, plan, f"{100 * one.lift.mean:+.1f} %", interval

    def as_json(self) -> dict[str, object]:
        """Return what JSON holds of it."""
        return {
            "visits": self.visits,
            "value": _interval(self.value),
            "over": {
                one.name: {
                    "arm": one.arm,
                    "visits": one.visits,
                    "plan": _interval(one.plan),
                    "other": _interval(one.other),
                    "lift": None if one.lift is None else _interval(one.lift),
                }
                for one in self.comparisons
            },
        }


def forecast_text(value: Forecast) -> str:
    """Return an expected value and its interval in words.

    >>> forecast_text(Forecast(12.5, 10, 15))
    '12.5 (10 to 15)'
    """
    return f"{value.mean:.4g} ({value.low:.4g} to {value.high:.4g})"


def lift_text(lift: Forecast | None) -> str:
    """Return a lift and its interval in words.

    >>> lift_text(Forecast(0.1, 0.05, 0.15))
    '+10.0 % (+5.0 to +15.0)'
    """
    if lift is None:
        return "that earns nothing"
    mean, low, high = (f"{100 * part:+.1f}" for part in (lift.mean, lift.low, lift.high))
    return f"{mean} % ({low} to {high})"


@one_thread()
def lift(
    fit: Posterior,
    plan: Deployed,
    log: Log | None = None,
    *,
    n_draws: int = 2000,
    seed: Seed = 0,
) -> Lift:
    """Return what a plan earns more than today's traffic and than simple rules.

    Parameters
    ----------
    fit : Posterior
        A :class:`Fit`, or what was read from its file. All arms are those of the plan.
    plan : Plan | Schedule | DecisionTable
        A schedule for a fixed number of visits, or a table for users who may leave.
    log : Log | None
        Today's traffic, most likely the log of the fit. Plan and log are compared on the visits
        its users made: with a schedule on those within its horizon.
    n_draws : int
        How many instances are drawn from the posterior.
    seed : Seed
        Of these draws.

    Returns
    -------
    Lift
        Rewards are expected ones. The simple rules are those of the estimates: the arm that
        would be best on its own, and the arm with the largest r.

    Notes
    -----
    Visits of one user beyond a million are left out where arms are followed one by one.

    Examples
    --------
    >>> from bdes_framework import Schedule, fit
    >>> ads = Instance(r=[0.8, 0.3], b=[0.2, 1.0], lam=0.1)
    >>> rng = np.random.default_rng(1)
    >>> arms = np.repeat(rng.integers(0, 2, (100, 5)), 8, axis=1)
    >>> means = np.array([ads.expected_rewards(user) for user in arms])
    >>> log = Log(arms.ravel(), rng.random(4000) < means.ravel(), range(0, 4000, 40))
    >>> lift(fit(log), Schedule.cycle([0, 1], 40), log)  # doctest: +ELLIPSIS
    Lift(
        visits=40,
        value=14... (...),
        today=+... % (...),
        best_fixed=+... % (...),
        greedy=+... % (...),
    )
    """
    deployed = plan.schedule if isinstance(plan, Plan) else plan
    estimates = fit.instance
    _check_arms(deployed, estimates.n_arms, log)
    drawn = fit.draws(as_integer(n_draws, "n_draws", 1), generator(branch(seed, "lift")))
    instances = Instances.of(drawn)
    rules = {BEST_FIXED: _best_fixed(estimates, deployed), GREEDY: _greedy(estimates)}
    visits, earned, alone = _own_values(deployed, rules.values(), drawn, instances)
    found = [] if log is None else [_over_today(deployed, log, instances, estimates)]
    for (name, arm), others in zip(rules.items(), alone, strict=True):
        found.append(_comparison(name, fit.names[arm], visits, earned, others))
    return Lift(visits, _forecast(earned), tuple(found))


def over_traffic(
    found: Lift, table: DecisionTable, drawn: Sequence[Instance], traffic: Sequence[Instance]
) -> Lift:
    """Return a lift with one more comparison, ``before``: of traffic that was shown at random.

    ``traffic`` says, for each draw, what one arm would be like that earns as much as that mixture.
    """
    weights = leaving_weights(table.continuation)
    planned = Instances.of(drawn).totals(table.first_arms(weights.size), weights)
    shown = Instances.of(traffic).totals(np.zeros(weights.size, dtype=np.int64), weights)
    before = _comparison(BEFORE, None, table.visits, planned, shown)
    return evolve(found, comparisons=(before, *found.comparisons))


def _check_arms(deployed: Schedule | DecisionTable, n_arms: int, log: Log | None) -> None:
    if isinstance(deployed, DecisionTable):
        highest = int(deployed.arms.max())
    else:
        highest = max(int(segment.arms.max()) for segment in deployed.segments)
    if highest >= n_arms:
        raise InvalidValueError(f"the plan shows arm {highest}; the fit has {n_arms} arms")
    if log is not None and log.n_arms != n_arms:
        raise InvalidValueError(f"the log has {log.n_arms} arms; the fit has {n_arms}")


def _own_values(
    deployed: Schedule | DecisionTable,
    alone: Iterable[int],
    drawn: Sequence[Instance],
    instances: Instances,
) -> tuple[float, FloatArray, list[FloatArray]]:
    """Return how many visits a plan is for, and what a user brings on them under each draw.

    Last, what they bring under each draw when they are shown one arm ``alone``.
    """
    if isinstance(deployed, Schedule):
        n = deployed.n_pulls
        schedules = [deployed, *(Schedule.cycle([arm], n) for arm in alone)]
        plan, *others = (np.array([one.value(each) for one in drawn]) for each in schedules)
        return float(n), plan, others
    weights = leaving_weights(deployed.continuation)
    plan = instances.totals(deployed.first_arms(weights.size), weights)
    others = [instances.totals(np.full(weights.size, arm), weights) for arm in alone]
    return deployed.visits, plan, others


def _over_today(
    deployed: Schedule | DecisionTable, log: Log, instances: Instances, centre: Instance
) -> Comparison:
    if isinstance(deployed, Schedule):
        weights = visit_weights(log, deployed.n_pulls)
        arms = deployed.slice(0, weights.size)
    else:
        weights = visit_weights(log, MAX_VISITS)
        arms = deployed.first_arms(weights.size)
    visits = float(weights.sum()) / log.n_sequences
    planned = instances.totals(arms, weights) / log.n_sequences
    shown = today_totals(log, instances, centre, weights.size) / log.n_sequences
    return _comparison(TODAY, None, visits, planned, shown)


def _comparison(
    name: str, arm: str | None, visits: float, planned: FloatArray, others: FloatArray
) -> Comparison:
    known = bool((others > 0).all())
    samples = planned / others - 1 if known else np.empty(0)
    lifted = _forecast(samples) if known else None
    return Comparison(name, arm, visits, _forecast(planned), _forecast(others), lifted, samples)


def _forecast(values: FloatArray) -> Forecast:
    low, high = np.quantile(values, [0.025, 0.975])
    return Forecast(float(values.mean()), float(low), float(high))


def _interval(value: Forecast) -> dict[str, float]:
    return {"mean": value.mean, "low": value.low, "high": value.high}


def _best_fixed(estimates: Instance, deployed: Schedule | DecisionTable) -> int:
    """Return the arm that earns most on its own, as the estimates have it."""
    arms = np.sort(pareto_arms(estimates.r, estimates.b)).tolist()
    values = [_value_alone(estimates, arm, deployed) for arm in arms]
    return int(arms[int(np.argmax(values))])


def _greedy(estimates: Instance) -> int:
    """Return the arm with the largest r: all arms see the same state."""
    return int(pareto_arms(estimates.r, estimates.b)[0])


def _value_alone(at: Instance, arm: int, deployed: Schedule | DecisionTable) -> float:
    """Return what one arm always earns; for users who may leave, a geometric series."""
    if isinstance(deployed, Schedule):
        return at.value(Schedule.cycle([arm], deployed.n_pulls))
    g, kept = deployed.continuation, 1 - at.lam
    end = float(at.b[arm])
    return float(at.r[arm]) * (end / (1 - g) + (at.q0 - end) / (1 - g * kept))
