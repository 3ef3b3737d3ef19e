"""Explore-then-commit with a known replenishing arm."""

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, InvalidValueError, PolicyContext
from bdes_policies.exploration.commitment import (
    ExploreThenCommitConfig,
    Task,
    follow_plan,
    ratio,
    round_robin,
)
from bdes_policies.exploration.phased_policy import DiagnosticsDict, PhasedPolicy, PhaseGenerator
from bdes_policies.exploration.phases import Phase, one_arm


@frozen
class EtcConfig(ExploreThenCommitConfig):
    """Explore then commit, for a known replenishing arm.

    The paper's Algorithm 2, "B-DES general lam, known i_R", with Theorem 3.1.
    For each arm i, M times: N_R pulls of the replenishing arm, then one of i; their mean is
    r_hat. For each arm i: N pulls of it, then M more, whose mean is v_hat; b_hat =
    v_hat/r_hat. Then a plan for the estimates is played to the end.

    Where it departs from the printed text, and why:

    - Exploring is cut to ``explore_at_most`` of the horizon: by the paper's formulas it may
      take many times the horizon. Samples are cut first, down to log T of them, and then
      settling pulls. Diagnostics say what was asked for and what was done.
    - The paper's epsilon is used up to 1, and at lam = 1, where the formula gives 0, M is
      what fits. At lam = 0 no pull moves the state, and none is spent on it.
    - The plan is made for the state that the arms really pulled have led to, under the
      estimates, and for the rounds really left; any planner makes it.
    - b_hat is cut to [0, 1]. That of the replenishing arm is 1, as the problem says: it may
      never pay, and then 0/0 says nothing. Any other arm that did not pay in M samples gets
      r_hat = b_hat = 0 and is not planned with: the replenishing arm is as good or better.
    - The replenishing arm is trusted, but looked at: ``restoring_ratio`` in the diagnostics is
      how much better the best arm restores the state, ``best_restoring`` which one that is,
      and ``restoring_doubt`` by how many standard errors the ratio is above 1.
    - If no arm has paid, or the horizon has no room for one sample of each mean, all arms
      are played in turn.
    - With ``tuning = "balanced"`` the pulls that restore and those that settle are chosen
      so that the sum of errors is least (see the documentation); the state is not restored
      once more at the end, because the plan starts from wherever it is; but it is before
      the first sample, unless the first round begins at state 1.
    """


def explore_known_arm(task: Task, arm: int, config: EtcConfig, *, at_one: bool) -> PhaseGenerator:
    """Explore with a known arm, then commit; ``at_one``: the state is 1 to begin with."""
    n_arms, horizon, diagnostics = task.problem.n_arms, task.problem.horizon, task.diagnostics
    chosen = task.choose_lengths(config)
    if chosen.samples == 0:
        return round_robin(n_arms, horizon)
    m, n, r = chosen.samples, chosen.settle, chosen.restore
    settled = [(1, [one_arm(arm, n)])]
    # Slot i sums the samples of r_i, slot K + i those of r_i·b_i.
    loops = [
        *(settled if config.tuning == "balanced" and not at_one else []),
        *((m, [one_arm(arm, r), one_arm(i, 1, i)]) for i in range(n_arms)),
        *((1, [one_arm(i, n), one_arm(i, m, n_arms + i)]) for i in range(n_arms)),
        *(settled if config.tuning == "paper" else []),
    ]
    phase = Phase.of(loops, 2 * n_arms)
    diagnostics["exploration"] = phase.n_pulls
    sums = yield phase
    task.weights.add(phase)
    r_hat = np.maximum(sums[:n_arms], 0.0) / chosen.samples
    v_hat = np.maximum(sums[n_arms:], 0.0) / chosen.samples
    _compare_restoring(diagnostics, r_hat, v_hat, chosen.samples)
    b_hat = ratio(v_hat, r_hat, highest=1.0)
    b_hat[arm] = 1.0
    diagnostics.update(r_hat=r_hat, v_hat=v_hat, b_hat=b_hat, never_paid=np.flatnonzero(r_hat == 0))
    state = task.weights.state(b_hat, task.problem.q0)
    return follow_plan(task, r_hat, b_hat, state, horizon - phase.n_pulls)


def _compare_restoring(
    diagnostics: DiagnosticsDict, r_hat: FloatArray, v_hat: FloatArray, samples: int
) -> None:
    """Write down how much better than the replenishing arm the best arm restores the state."""
    if not r_hat.any():
        return
    # For rewards of 0 or 1; 1/M keeps means of exactly 0 and 1 from passing for certain.
    spread = r_hat * (1 - r_hat) + v_hat * (1 - v_hat)
    excess = (v_hat - r_hat) / np.sqrt((np.maximum(spread, 0.0) + 1 / samples) / samples)
    best = int(np.argmax(np.where(r_hat > 0, excess, -np.inf)))
    diagnostics.update(
        best_restoring=best,
        restoring_ratio=float(v_hat[best] / r_hat[best]),
        restoring_doubt=float(excess[best]),
    )


def build(config: EtcConfig, context: PolicyContext) -> PhasedPolicy:
    """Build the policy."""
    task = Task.with_known_lam("etc", config, context)
    arm = context.problem.replenishing_arm
    if arm is None:
        raise InvalidValueError(
            "etc needs to know a replenishing arm; without one, use etc-unknown-arm"
        )
    at_one = context.problem.q0 == 1
    return PhasedPolicy(explore_known_arm(task, arm, config, at_one=at_one), task.diagnostics)
