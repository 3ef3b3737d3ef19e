"""What to follow, of the plans for several draws: what costs least for what it tells.

Information-directed sampling (Russo and Van Roy, 2014): take the plan with the least squared
expected regret per information gained. A draw of the posterior stands for a possible truth, so
the regret of a plan is what it earns less than the best one, on average over the draws; and what
it tells is how far the draws differ in what they expect it to earn. That is simpler than the
original in two ways: it counts what tells draws apart, not only what tells their best plans
apart; and it takes one plan, never one of two by lot.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled
from bdes_policies.posterior.lookahead import Lookahead, follow, look_ahead, over_rounds, value_at
from bdes_policies.posterior.modes import Draw

ROUGH_STATES, ROUGH_STEPS = 32, 96
"""Of a plan that is only held against others: half of the work where states are fast, a
fifth where they are slow. With fewer steps the last rounds of fast states would be planned two
at a time."""
_STEPS = 96
_SPAN = 0.25
"""Times 1/lam: plans are compared over this many rounds, if that is more than the steps."""
_LEAST_VARIANCE = 1e-6
_LEAST_TOLD = 1e-12


class Prospect(NamedTuple):
    """A draw, with a rough plan for it."""

    draw: Draw
    state: float
    """Now, if the draw is true."""
    value: float
    """What the plan promises, a round."""
    plan: Lookahead


def prospect(draw: Draw, state: float, left: int) -> Prospect:
    """Plan roughly for a draw."""
    value, plan = look_ahead(draw.r, draw.b, draw.lam, state, left, ROUGH_STATES, ROUGH_STEPS)
    return Prospect(draw, state, value, Lookahead(*plan))


def what_to_follow(found: Sequence[Prospect], lam: float, left: int) -> int:
    """Return which plan to follow.

    Plans are compared over a part of the time that the state remembers, in steps of several
    rounds if that is long, and as if the truth were known and used after that.
    """
    span = min(left, max(_STEPS, int(_SPAN / lam)))
    rounds = math.ceil(span / _STEPS)
    steps = span // rounds
    plans = np.empty((len(found), steps), dtype=np.int64)
    by_round = np.empty(steps * rounds, dtype=np.int64)
    for one, arms in zip(found, plans, strict=True):
        follow(one.plan, one.state, by_round)
        arms[:] = by_round[::rounds]
    totals = np.empty((len(found), len(found)))
    means = np.empty((len(found), len(found), steps))
    for (draw, state, _, plan), total, mean in zip(found, totals, means, strict=True):
        outcomes(plan, state, draw.r, draw.b, draw.lam, plans, rounds, left, total, mean)
    regrets = (totals.max(axis=1, keepdims=True) - totals).mean(axis=0)
    return int((regrets**2 / (rounds * told(means) + _LEAST_TOLD)).argmin())


def told(means: FloatArray) -> FloatArray:
    """Return about how much a round of every step would tell which draw is true, in nats.

    Parameters
    ----------
    means : array of float, shape (draws, plans, steps)
        Expected rewards, which are binary or nearly so.
    """
    average = means.mean(axis=0)
    variance = np.maximum(average * (1 - average), _LEAST_VARIANCE)
    return np.asarray(0.5 * (means.var(axis=0) / variance).sum(axis=1))


@compiled
def outcomes(
    plan: Lookahead,
    state: float,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    plans: IntArray,
    rounds: int,
    left: int,
    totals: FloatArray,
    means: FloatArray,
) -> None:
    """Fill in what arms by step earn if a draw is true: in all, and a round in every step.

    ``totals`` holds what the draw's own plan promises for the rounds after, too; if it has fewer
    steps than that, but for what is the same for all.
    """
    kept, weight = over_rounds(lam, rounds)
    steps = plan.values.shape[0] - 1
    # The rounds after need not be a whole number of the plan's steps, and may be more than it has.
    to_go = (left - rounds * plans.shape[1]) / plan.rounds
    whole = min(int(to_go), steps)
    last = plan.values[whole]
    if whole < steps:
        last = last + (to_go - whole) * (plan.values[whole + 1] - last)
    for c in range(plans.shape[0]):
        q = state
        earned = 0.0
        for step in range(plans.shape[1]):
            arm = plans[c, step]
            pays = r[arm] * (weight * q + (rounds - weight) * b[arm])
            means[c, step] = pays / rounds
            earned += pays
            q = kept * q + (1.0 - kept) * b[arm]
        totals[c] = earned + value_at(last, q, plan.low, plan.per_state)
