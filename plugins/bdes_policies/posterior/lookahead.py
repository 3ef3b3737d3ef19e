"""Fast approximate planning for one drawn instance, compiled and without a proven bound.

A policy that plans for several draws at every one of its hundreds of epochs needs a plan in tens of
microseconds to a millisecond; the registered planners take up to a second, because they prove a
bound. Here the best value of n steps is kept on a grid of states (convex: what lies between its
points lies below their chord), for as many steps as it takes to forget the state a few times over,
or for all rounds left if that is less. Slow states are planned in steps of several rounds of one
arm: within a step the state hardly moves, so that the order of its rounds hardly counts.
"""

import math
from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled, hull_of_arms, repeat_weights
from bdes_policies.posterior.backtracking import Instances
from bdes_policies.posterior.laplace import Draw

STATES = 64
"""At which values are kept."""
MAX_STEPS = 256
MEMORIES = 8.0
"""How many times 1/lam to look ahead."""
MIN_ROUNDS = 48


class Lookahead(NamedTuple):
    """A plan: the value function on a grid of states, and the arms it is for."""

    values: FloatArray
    """Shape (steps + 1, states): the best value of n steps from each state of the grid."""
    arms: IntArray
    """Shape (k,), as their ``r`` and ``b``: arms that can be needed at all."""
    r: FloatArray
    b: FloatArray
    lam: float
    low: float
    """The lowest state of the grid."""
    per_state: float
    """Grid points per unit of state; 0 if the state cannot move."""
    rounds: int
    """Rounds in a step."""
    to_the_end: bool
    """Whether the steps are all that are left; if not, they stand for ever longer horizons."""


class Futures(NamedTuple):
    """What the rounds after some arms are worth, to several plans: on their grids of states."""

    values: FloatArray
    """Shape (n, states). Of a plan with fewer steps: up to a constant."""
    low: FloatArray
    """Shape (n,), as ``per_state``: see :class:`Lookahead`."""
    per_state: FloatArray


@compiled
def steps_ahead(lam: float, left: int, max_steps: int) -> tuple[int, int, bool]:
    """Return the rounds in a step, how many steps to plan, and whether these are all there are."""
    ahead = float(left)
    if lam * left > MEMORIES:
        ahead = max(MEMORIES / lam, float(MIN_ROUNDS))
    to_the_end = left <= 2.0 * ahead
    if to_the_end:
        ahead = float(left)
    rounds = math.ceil(ahead / max_steps)
    return rounds, math.ceil(ahead / rounds), to_the_end


@compiled
def plan_all(
    instances: Instances,
    left: int,
    max_steps: int,
    promised: FloatArray,
    arms: IntArray,
    futures: Futures,
) -> None:
    """Plan for some instances for the rounds left, each from its state.

    Parameters
    ----------
    instances : Instances, n of them
        What to plan for.
    left, max_steps : int
        How many rounds to plan for, in at most how many steps.
    promised : FloatArray, shape (n,)
        Filled in: the value per round of the rounds left.
    arms : IntArray, shape (n, rounds)
        Filled in: the first arms of every plan; may be of no rounds.
    futures : Futures, of n plans
        Filled in: what the rounds after those arms are worth. Sets the number of grid points.
    """
    for i in range(promised.size):
        draw = Draw(instances.r[i], instances.b[i], instances.lam[i])
        states = futures.values.shape[1]
        promised[i], plan = look_ahead(draw, instances.state[i], left, states, max_steps)
        follow(plan, instances.state[i], arms[i])
        steps = plan.values.shape[0] - 1
        # The rounds after need not be a whole number of steps, and may be more than all of them.
        to_go = (left - arms.shape[1]) / plan.rounds
        whole = min(int(to_go), steps)
        futures.low[i], futures.per_state[i] = plan.low, plan.per_state
        for g in range(states):
            value = plan.values[whole, g]
            if whole < steps:
                value += (to_go - whole) * (plan.values[whole + 1, g] - value)
            futures.values[i, g] = value


def room_for_futures(n: int, states: int) -> Futures:
    """Return the futures of ``n`` plans, not filled in yet."""
    return Futures(np.empty((n, states)), np.empty(n), np.empty(n))


@compiled
def look_ahead(
    draw: Draw, q: float, left: int, states: int, max_steps: int
) -> tuple[float, Lookahead]:
    """Return the value per round of the rounds left from state ``q``, and the plan."""
    r, b, lam = draw
    # The states that any arms lead to: plans of other arms may be compared, too.
    low = high = q
    for arm in range(b.size):
        low, high = min(low, b[arm]), max(high, b[arm])
    arms = hull_of_arms(r, b)
    r, b = r[arms], b[arms]
    rounds, steps, to_the_end = steps_ahead(lam, left, max_steps)
    per_state = (states - 1) / (high - low) if high > low else 0.0
    values = np.zeros((steps + 1, states))
    found = Lookahead(values, arms, r, b, lam, low, per_state, rounds, to_the_end)
    _fill(found, high)
    whole = interpolated_value(values[steps], q, low, per_state)
    if to_the_end:
        return whole / (steps * rounds), found
    # Past the steps every round is worth what the second half of them was.
    half = steps // 2
    gain = (whole - interpolated_value(values[half], q, low, per_state)) / ((steps - half) * rounds)
    return (whole + (left - steps * rounds) * gain) / left, found


@compiled
def follow(found: Lookahead, q: float, arms: IntArray) -> None:
    """Fill ``arms`` with the plan from state ``q`` on.

    A plan that does not go to the end is followed for the first half of its steps, and then
    started again from the state it has led to.
    """
    kept, weight = repeat_weights(found.lam, found.rounds)
    steps = found.values.shape[0] - 1
    to_go = steps
    t = 0
    while t < arms.size:
        if not found.to_the_end and to_go <= steps // 2:
            to_go = steps
        to_go = max(to_go, 1)
        best, highest, after = 0, -1.0, q
        for k in range(found.arms.size):
            following = kept * q + (1.0 - kept) * found.b[k]
            value = found.r[k] * (weight * q + (found.rounds - weight) * found.b[k])
            value += interpolated_value(
                found.values[to_go - 1], following, found.low, found.per_state
            )
            if value > highest:
                best, highest, after = k, value, following
        stop = min(arms.size, t + found.rounds)
        for at in range(t, stop):
            arms[at] = found.arms[best]
        t, q, to_go = stop, after, to_go - 1


@compiled
def _fill(found: Lookahead, high: float) -> None:
    """Fill the table of values, from no steps on; ``high`` is the highest state of the grid."""
    values, _, r, b, lam, low, per_state, rounds, _ = found
    kept, weight = repeat_weights(lam, rounds)
    states = values.shape[1]
    cell = np.empty((r.size, states), dtype=np.int64)
    share = np.empty((r.size, states))
    pays = np.empty((r.size, states))
    for k in range(r.size):
        for g in range(states):
            q = low + (high - low) * (g / (states - 1))
            pays[k, g] = r[k] * (weight * q + (rounds - weight) * b[k])
            place = (kept * q + (1.0 - kept) * b[k] - low) * per_state
            cell[k, g] = min(max(int(place), 0), states - 2)
            share[k, g] = place - cell[k, g]
    for n in range(1, values.shape[0]):
        before = values[n - 1]
        for g in range(states):
            highest = -1.0
            for k in range(r.size):
                at = cell[k, g]
                value = pays[k, g] + before[at] + share[k, g] * (before[at + 1] - before[at])
                highest = max(highest, value)
            values[n, g] = highest


@compiled
def interpolated_value(values: FloatArray, q: float, low: float, per_state: float) -> float:
    """Return the value at a state: on the chord between the grid's states around it."""
    place = (q - low) * per_state
    at = min(max(int(place), 0), values.size - 2)
    return float(values[at] + (place - at) * (values[at + 1] - values[at]))
