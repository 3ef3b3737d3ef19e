"""Cheap proven bounds on the optimum, from below and above, and on rounding errors."""

import numpy as np

import bdes_framework as bdes
from bdes_framework import AffineEffect, FloatArray, Plan, add_pull, compiled, repeat_effect
from bdes_planners.reduced_problem import UNIT_ROUNDOFF, Reduced


@compiled
def _best_pair(
    r: FloatArray, b: FloatArray, lam: float, q0: float, horizon: int
) -> tuple[int, int, float]:
    best_first, best_second, best = 0, 0, -1.0
    for first in range(r.size):
        one = add_pull(AffineEffect(1.0, 0.0, 0.0, 0.0, 0.0), r[first], b[first], lam)
        for second in range(r.size):
            pairs = repeat_effect(add_pull(one, r[second], b[second], lam), horizon // 2)
            total = pairs.slope * q0 + pairs.base
            if horizon % 2 == 1:
                total += r[first] * (pairs.kept * q0 + pairs.shift)
            if total > best:
                best_first, best_second, best = first, second, total
    return best_first, best_second, best


def best_pair(problem: Reduced, horizon: int) -> tuple[tuple[int, int], float]:
    """Return the best one or two arms to play in turn, and what they earn.

    A lower bound on the optimum; above 0 whenever the optimum is.
    """
    first, second, value = _best_pair(problem.r, problem.b, problem.lam, problem.q0, horizon)
    return (first, second), value * (1 - rounding_of_value(problem.lam, horizon))


def rounding_of_value(lam: float, horizon: int) -> float:
    """Return a bound on the relative rounding error of ``Instance.value`` over ``horizon`` rounds.

    Only non-negative numbers are added and multiplied. What was rounded long before the
    state forgets it counts no more, hence 1/lam.
    """
    memory = horizon if lam * horizon <= 64 else 64 / lam
    return float(16 * UNIT_ROUNDOFF * (memory + 128))


def constant_plan(instance: bdes.Instance, problem: Reduced, horizon: int, method: str) -> Plan:
    """Return the plan that plays the first kept arm throughout; optimal where that is proven."""
    schedule = bdes.Schedule.cycle(problem.index[:1], horizon)
    value = instance.value(schedule)
    upper = value * (1 + 2 * rounding_of_value(instance.lam, horizon))
    return Plan(schedule, value, upper, {"method": method, "hull_arms": problem.n_arms})


def simply_bounded_plan(
    instance: bdes.Instance, schedule: bdes.Schedule, diagnostics: bdes.Diagnostics
) -> Plan:
    """Return the plan of a schedule with the cheapest of proven bounds."""
    value = instance.value(schedule)
    upper = max(potential_bound(instance, schedule.n_pulls), value)
    return Plan(schedule, value, upper, diagnostics)


def is_constant(problem: Reduced) -> bool:
    """Return whether playing the first kept arm throughout is optimal, at a glance.

    It is when one arm is the best in both r and b, when the state never moves (the first
    kept arm has the largest r), and when nothing can be earned, or nothing that a float holds.
    """
    nothing = problem.high == 0 or float(problem.r.max()) == 0 or problem.unit == 0
    return problem.n_arms == 1 or problem.lam == 0 or nothing


def potential_bound(instance: bdes.Instance, horizon: int) -> float:
    """Return an upper bound on what any schedule earns, in a few vector operations.

    For every price m >= 0 on the state, ``sum r·q`` equals
    ``sum [r·q + m·(q_next - q)] + m·(q_first - q_last)``, and each bracket is at most its
    largest value over arms and states: linear in q, so found at the ends of the states that
    can be reached. The least bound over some prices is returned. At worst a few tens of per
    cent above the optimum on usual instances; ``certified`` proves far better ones.
    """
    r, b, lam, q0 = instance.r, instance.b, instance.lam, instance.q0
    low, high = min(q0, float(b.min())), max(q0, float(b.max()))
    largest = float(r.max()) / lam if lam * horizon > 1 else float(r.max()) * horizon
    prices = np.linspace(0.0, largest, 257)[:, None]
    pulls = lam * prices * b
    brackets = np.maximum((r - lam * prices) * low, (r - lam * prices) * high) + pulls
    rounding = 16 * UNIT_ROUNDOFF * (float(r.max()) + lam * prices[:, 0]) * high
    per_round = brackets.max(axis=1) + rounding
    totals = (horizon * per_round + prices[:, 0] * (q0 - low)) * (1 + 8 * UNIT_ROUNDOFF)
    return float(totals.min())
