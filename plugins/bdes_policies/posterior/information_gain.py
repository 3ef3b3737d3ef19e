"""Information-directed sampling: choose the plan with the least squared regret per information.

After Russo and Van Roy (2014). A draw of the posterior stands for a possible truth: the regret of
a plan is what it earns less than the best one, on average over the draws, and its information gain
is how far the draws differ in what they expect it to earn. That is simpler than the original in
two ways: all that distinguishes draws counts, not only what distinguishes their best plans; and
one plan is chosen, never one of two at random.
"""

import math

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled, repeat_weights
from bdes_policies.posterior.backtracking import Instances
from bdes_policies.posterior.lookahead import (
    Futures,
    interpolated_value,
    plan_all,
    room_for_futures,
)

ROUGH_STATES, ROUGH_STEPS = 32, 96
"""Of a plan that is only compared with others: half of the work where states are fast, a fifth
where they are slow. With fewer steps the last rounds of fast states would be planned in pairs."""
_STEPS = 96
_SPAN = 0.25
"""Times 1/lam: plans are compared over this many rounds, if that is more than the steps."""
_MIN_VARIANCE = 1e-6
_MIN_INFORMATION = 1e-12


def plan_roughly(
    instances: Instances, left: int, rounds: int
) -> tuple[FloatArray, IntArray, Futures]:
    """Return what rough plans promise per round, their first arms, and what comes after those."""
    n = instances.lam.size
    promised, arms = np.empty(n), np.empty((n, rounds), dtype=np.int64)
    futures = room_for_futures(n, ROUGH_STATES)
    plan_all(instances, left, ROUGH_STEPS, promised, arms, futures)
    return promised, arms, futures


def highest_value(draws: Instances, left: int) -> int:
    """Return the index of the draw whose plan promises most."""
    return int(plan_roughly(draws, left, 0)[0].argmax())


def choose_plan(draws: Instances, others: Instances, price: float, lam: float, left: int) -> int:
    """Return the index of the instance whose plan to follow: a draw, or one of the others.

    Another one, counted from the number of draws on, if what its plan promises, less a share
    ``price``, is more than the draws' plans promise on average. If not, the draw whose plan has
    the least squared regret per information gain. Plans are compared over a part of the time that
    the state remembers at rate ``lam``, in steps of several rounds if that is long, and as if the
    truth were known and used after that.
    """
    span = min(left, max(_STEPS, int(_SPAN / lam)))
    rounds = math.ceil(span / _STEPS)
    steps = span // rounds
    promised, arms, futures = plan_roughly(draws, left, steps * rounds)
    n = promised.size
    if others.lam.size:
        after_price = (1 - price) * plan_roughly(others, left, 0)[0]
        if after_price.max() > sum(promised.tolist()) / n:
            return n + int(after_price.argmax())
    totals, means = np.empty((n, n)), np.empty((n, n, steps))
    evaluate_plans(draws, futures, arms, rounds, totals, means)
    regrets = (totals.max(axis=1, keepdims=True) - totals).mean(axis=0)
    gains = np.empty(n)
    information_gain(means, gains)
    return int((regrets**2 / (rounds * gains + _MIN_INFORMATION)).argmin())


@compiled
def information_gain(means: FloatArray, gains: FloatArray) -> None:
    """Fill in about how much one round of every step reveals of which draw is true, in nats.

    Parameters
    ----------
    means : FloatArray, shape (draws, plans, steps)
        Expected rewards, which are binary or nearly so.
    gains : FloatArray, shape (plans,)
        Filled in.
    """
    n, _, steps = means.shape
    for c in range(gains.size):
        gained = 0.0
        for step in range(steps):
            average = 0.0
            for i in range(n):
                average += means[i, c, step]
            average /= n
            spread = 0.0
            for i in range(n):
                off = means[i, c, step] - average
                spread += off * off
            gained += spread / n / max(average * (1.0 - average), _MIN_VARIANCE)
        gains[c] = 0.5 * gained


@compiled
def evaluate_plans(
    draws: Instances,
    futures: Futures,
    arms: IntArray,
    rounds: int,
    totals: FloatArray,
    means: FloatArray,
) -> None:
    """Fill in what every plan earns if a draw is true: in total, and per round of every step.

    Parameters
    ----------
    draws : Instances, n of them
        What may be true.
    futures : Futures, of their own plans
        What the rounds after are worth.
    arms : IntArray, shape (plans, rounds)
        The first of every step's ``rounds`` are played throughout the step.
    totals : FloatArray, shape (n, plans)
        Filled in; up to a constant that is the same for all plans.
    means : FloatArray, shape (n, plans, steps)
        Filled in.
    """
    for i in range(draws.lam.size):
        r, b = draws.r[i], draws.b[i]
        kept, weight = repeat_weights(draws.lam[i], rounds)
        for c in range(arms.shape[0]):
            q = draws.state[i]
            earned = 0.0
            for step in range(means.shape[2]):
                arm = arms[c, step * rounds]
                pays = r[arm] * (weight * q + (rounds - weight) * b[arm])
                means[i, c, step] = pays / rounds
                earned += pays
                q = kept * q + (1.0 - kept) * b[arm]
            future = interpolated_value(futures.values[i], q, futures.low[i], futures.per_state[i])
            totals[i, c] = earned + future
