"""What both kinds of explore-then-commit start with, and what they end with."""

import numpy as np
from attrs import frozen

from bdes_framework import (
    ContractError,
    FloatArray,
    Instance,
    Planner,
    Policy,
    Problem,
    Schedule,
)
from bdes_policies.exploration.phases import Memory
from bdes_policies.exploration.scripted import FollowSchedule, Notes

_LONGEST_TEXT = 200


@frozen(eq=False)
class Task:
    """A problem to explore and commit to, possibly after other pulls.

    Parameters
    ----------
    problem : Problem
        Its horizon is the rounds that are left.
    lam : float
        The evolution rate, known or estimated.
    planner : Planner
        What plans for the estimates.
    memory : Memory
        Of the arms pulled before, if any; exploring adds to it.
    notes : dict
        Where estimates, lengths and decisions are written down.
    """

    problem: Problem
    lam: float
    planner: Planner
    memory: Memory
    notes: Notes


def in_turn(n_arms: int, rounds: int) -> Policy:
    """Return the policy that plays all arms in turn: what to do when nothing is known."""
    return FollowSchedule(Schedule.cycle(np.arange(n_arms), rounds))


def follow_plan(
    task: Task, r_hat: FloatArray, b_hat: FloatArray, state: float, rounds: int
) -> Policy:
    """Return the policy that plays the best schedule for the estimates.

    Parameters
    ----------
    task : Task
        Its planner plans.
    r_hat, b_hat : arrays of float, shape (K,)
        The arms as estimated.
    state : float
        The state that the arms really pulled have led to, under the estimates.
    rounds : int
        How many are really left.
    """
    notes = task.notes
    notes["state"] = state
    if not r_hat.any():
        notes["plan"] = "all arms in turn: none has paid"
        return in_turn(r_hat.size, rounds)
    plan = task.planner.plan(Instance(r_hat, b_hat, task.lam, state), rounds)
    if plan.schedule.n_pulls != rounds:
        raise ContractError(
            f"the planner was asked for {rounds} pulls and returned {plan.schedule.n_pulls}"
        )
    text = str(plan.schedule)
    notes["plan"] = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    notes["plan_value"] = plan.value
    notes["plan_gap"] = plan.gap
    return FollowSchedule(plan.schedule)


def ratio(numerators: FloatArray, denominators: FloatArray, highest: float) -> FloatArray:
    """Return quotients, at most ``highest``; 0 where the denominator is 0."""
    whole = np.where(denominators > 0, denominators, 1.0)
    return np.where(denominators > 0, np.minimum(numerators / whole, highest), 0.0)
