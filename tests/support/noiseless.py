"""Playing the paper's policies on exact means instead of draws, and building them by name."""

from typing import Any

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from bdes_framework import Diagnostics, FloatArray, Instance, IntArray, Policy, Problem

PLUGINS = bdes.load_plugins()


@frozen(eq=False)
class Played:
    """What a policy did on exact means."""

    arms: IntArray
    means: FloatArray
    diagnostics: Diagnostics


def problem_of(
    instance: Instance, horizon: int, *, arm: int | None = None, lam_known: bool = True
) -> Problem:
    lam = instance.lam if lam_known else None
    return Problem(instance.n_arms, horizon, lam, arm, instance.q0)


def build(name: str, problem: Problem, seed: int = 7, **parameters: object) -> Policy:
    return PLUGINS.policy(name, problem, seed=seed, **parameters)


def diagnostics_of(policy: Policy) -> Diagnostics:
    assert isinstance(policy, bdes.HasDiagnostics)
    return policy.diagnostics()


def play(policy: Policy, instance: Instance, horizon: int, limit: int = 1 << 14) -> Played:
    """Tell the policy r·q for every pull, where a simulation would tell a draw of that mean."""
    arms: list[IntArray] = []
    means: list[FloatArray] = []
    q, done = instance.q0, 0
    while done < horizon:
        block = policy.ask(min(limit, horizon - done))
        here = instance.starting_at(q)
        arms.append(block)
        means.append(here.expected_rewards(block))
        policy.tell(means[-1])
        q, done = here.state_after(block), done + block.size
    return Played(np.concatenate(arms), np.concatenate(means), diagnostics_of(policy))


def play_named(
    name: str,
    instance: Instance,
    horizon: int,
    arm: int | None = None,
    *,
    lam_known: bool = True,
    seed: int = 7,
    **parameters: Any,
) -> Played:
    """Build a policy for an instance and let it play the whole horizon."""
    problem = problem_of(instance, horizon, arm=arm, lam_known=lam_known)
    return play(build(name, problem, seed, **parameters), instance, horizon)


def number(diagnostics: Diagnostics, name: str) -> float:
    value = diagnostics[name]
    assert isinstance(value, int | float)
    return value


def array(diagnostics: Diagnostics, name: str) -> FloatArray:
    value = diagnostics[name]
    assert isinstance(value, np.ndarray)
    return value.astype(np.float64)


def planned(diagnostics: Diagnostics, lam: float, rounds: int, planner: bdes.Reference) -> IntArray:
    """Return what a planner makes of the estimates that the policy shows."""
    estimate = Instance(
        array(diagnostics, "r_hat"), array(diagnostics, "b_hat"), lam, number(diagnostics, "state")
    )
    return PLUGINS.planner(planner).plan(estimate, rounds).arms


CLICK_BAIT = {
    2: ([0.9, 0.4], [0.2, 1.0]),
    3: ([0.9, 0.6, 0.3], [0.1, 0.5, 1.0]),
    5: ([0.85, 0.7, 0.55, 0.4, 0.3], [0.05, 0.25, 0.5, 0.75, 1.0]),
}
"""By number of arms: the better an arm pays now, the worse the state it leads to."""


def click_bait(n_arms: int, lam: float, q0: float = 1.0) -> Instance:
    r, b = CLICK_BAIT[n_arms]
    return Instance(r, b, lam, q0)
