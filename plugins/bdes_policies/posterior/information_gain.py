"""Information-directed sampling: choose the plan with the least squared regret per information.

After Russo and Van Roy (2014). A draw of the posterior stands for a possible truth: the regret of
a plan is what it earns less than the best one, on average over the draws, and its information gain
is how far the draws differ in what they expect it to earn. That is simpler than the original in
two ways: all that distinguishes draws counts, not only what distinguishes their best plans; and
one plan is chosen, never one of two at random.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled, repeat_weights
from bdes_policies.posterior.laplace import Draw
from bdes_policies.posterior.lookahead import (
    MAX_STEPS,
    STATES,
    Lookahead,
    follow,
    interpolated_value,
    look_ahead,
)

ROUGH_STATES, ROUGH_STEPS = 32, 96
"""Of a plan that is only compared with others: half of the work where states are fast, a fifth
where they are slow. With fewer steps the last rounds of fast states would be planned in pairs."""
_STEPS = 96
_SPAN = 0.25
"""Times 1/lam: plans are compared over this many rounds, if that is more than the steps."""
_MIN_VARIANCE = 1e-6
_MIN_INFORMATION = 1e-12


class CandidatePlan(NamedTuple):
    """A draw from the posterior, with a plan for it."""

    draw: Draw
    state: float
    """The current state, if the draw is true."""
    value: float
    """The expected reward of the plan per round."""
    plan: Lookahead


def plan_roughly(draw: Draw, state: float, left: int) -> CandidatePlan:
    """Return a rough plan for a draw, from a state, for the rounds left."""
    value, plan = look_ahead(draw, state, left, ROUGH_STATES, ROUGH_STEPS)
    return CandidatePlan(draw, state, value, Lookahead(*plan))


def plan_finely(rough: CandidatePlan, left: int) -> CandidatePlan:
    """Return a plan for the same draw on a finer grid."""
    value, plan = look_ahead(rough.draw, rough.state, left, STATES, MAX_STEPS)
    return CandidatePlan(rough.draw, rough.state, value, Lookahead(*plan))


def choose_plan(candidates: Sequence[CandidatePlan], lam: float, left: int) -> int:
    """Return the index of the plan with the least squared regret per information gain.

    Plans are compared over a part of the time that the state remembers, in steps of several
    rounds if that is long, and as if the truth were known and used after that.
    """
    span = min(left, max(_STEPS, int(_SPAN / lam)))
    rounds = math.ceil(span / _STEPS)
    steps = span // rounds
    n = len(candidates)
    plans = np.empty((n, steps), dtype=np.int64)
    by_round = np.empty(steps * rounds, dtype=np.int64)
    for one, arms in zip(candidates, plans, strict=True):
        follow(one.plan, one.state, by_round)
        arms[:] = by_round[::rounds]
    totals = np.empty((n, n))
    means = np.empty((n, n, steps))
    for one, total, mean in zip(candidates, totals, means, strict=True):
        evaluate_plans(one, plans, rounds, left, total, mean)
    regrets = (totals.max(axis=1, keepdims=True) - totals).mean(axis=0)
    return int((regrets**2 / (rounds * information_gain(means) + _MIN_INFORMATION)).argmin())


def information_gain(means: FloatArray) -> FloatArray:
    """Return about how much one round of every step reveals of which draw is true, in nats.

    Parameters
    ----------
    means : FloatArray, shape (draws, plans, steps)
        Expected rewards, which are binary or nearly so.
    """
    average = means.mean(axis=0)
    variance = np.maximum(average * (1 - average), _MIN_VARIANCE)
    return np.asarray(0.5 * (means.var(axis=0) / variance).sum(axis=1))


@compiled
def evaluate_plans(
    own: CandidatePlan,
    plans: IntArray,
    rounds: int,
    left: int,
    totals: FloatArray,
    means: FloatArray,
) -> None:
    """Fill in what plans earn if a draw is true: in total, and per round of every step.

    ``totals`` includes what the draw's own plan earns in the rounds after; if that has fewer steps,
    up to a constant that is the same for all.
    """
    (r, b, lam), state, _, plan = own
    kept, weight = repeat_weights(lam, rounds)
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
        totals[c] = earned + interpolated_value(last, q, plan.low, plan.per_state)
