"""Policy for unknown lam: estimate it, or detect a slow state; then explore and commit."""

import math

import numpy as np
from attrs import evolve, field, frozen
from attrs.validators import ge, gt, lt, optional

from bdes_framework import PlannerRef, Policy, PolicyContext, Problem, validate_number
from bdes_policies import etc, etc_unknown_arm
from bdes_policies.exploration.commitment import Task
from bdes_policies.exploration.lambda_search import LambdaSearch
from bdes_policies.exploration.phased_policy import DiagnosticsDict, PhasedPolicy, PhaseGenerator
from bdes_policies.exploration.phases import StateWeights
from bdes_policies.exploration.tuning import Tuning, exploration_budget


@frozen
class UnknownLambdaConfig:
    """Detects slow states, else estimates lam by doubling, then explores and commits.

    The paper's Algorithms 7 and 8, "B-DES Unknown General lam" and "B-DES Unknown lam".

    Test, with n = (T/K)^(2/3): for each arm i, 2n pulls, whose last n give mu_i; for a random
    arm j and each other arm i, 3n pairs i, j, whose last 2n give mu_ij, the mean reward of
    i. If no mu_i and mu_ij differ by more than 3·sqrt(ln T/n), ``exp3p`` plays the rest.
    Otherwise lam is estimated from the pair that differs most, with ln T settling pulls,
    then 2·ln T, 4·ln T ... until two estimates in a row agree; with the first of the two,
    explore-then-commit plays the rest.

    Where it departs from the printed text, and why:

    - Each mean is over its own number of samples; the pair handed on is the one with the
      largest gap; the estimator's formula is corrected (see ``estimate_lam``).
    - While i and j alternate, rewards of j are sampled too, and the gap may be that of either
      arm. As printed only i is looked at, and where only j pays no gap shows.
    - With ``tuning = "balanced"`` and more than two arms, j is not drawn: all arms are played n
      times in random orders, and j is the one that paid most, which has the largest r. An
      arm drawn may hardly pay itself and meet arms that hardly do.
    - Finding out lam takes at most ``explore_at_most`` of the horizon, the test at most half
      of that, and each estimate at most half of what is then left: n and M are cut to fit.
      With no room for ln T samples, doubling ends, and the last estimate is used; if there
      is none, ``exp3p`` plays.
    - Estimates are compared before they are cut to [0, 1], and agree only if both lie in it,
      give or take the tolerance, with denominators of the sign that the test has found.
      While the state does not settle, the printed blocks give estimates near 5; cut to 1,
      they would all agree. If the last estimate is of that kind, lam is taken to be 1/n.
    - lam is taken to be at least 1/n: the test has seen the state move.
    - With a known replenishing arm ``etc`` commits, without one ``etc-unknown-arm``, from the
      state that all arms pulled so far have led to. Near 1 ``sticky`` may play instead.
    - With ``tuning = "balanced"`` the test takes at most 2·K^(1/3)·T^(2/3) rounds, all estimates
      together at most twice that, and a gap counts from sqrt(ln T) of its standard errors.
      Lam is estimated from blocks of both arms in turn (see ``estimate_lam_by_blocks``), twice
      as long each time, until two estimates in a row say that the state settles within a
      block and differ by less than a factor of 2: then by their mean. Printed estimates are
      off by a share of 1, not of lam, so that small lam drown in them. With no room for
      longer blocks, the estimate with the least relative error is used.

    Parameters
    ----------
    planner : planner
        What plans for the estimates.
    tuning : Literal["paper", "balanced"]
        The paper's lengths and thresholds, cut to what fits; or shorter and sharper ones.
    explore_at_most : float
        The share of the horizon that finding out lam may take, and the share of the rest
        that exploring may take, between 0 and 1.
    fast : float | None
        Hand over to ``sticky`` if (1 - lam)·sqrt(T) is at most this, for lam as estimated. By
        default 1 with the paper's tuning, as Table 1 has it, and never with the balanced
        one, which does better on its own.
    """

    planner: PlannerRef = "certified"
    tuning: Tuning = "balanced"
    explore_at_most: float = field(default=0.5, validator=[validate_number, gt(0), lt(1)])
    fast: float | None = field(default=None, validator=optional([validate_number, ge(0)]))

    @property
    def fast_threshold(self) -> float:
        """``fast``, or its default for the tuning."""
        if self.fast is not None:
            return self.fast
        return 1.0 if self.tuning == "paper" else -1.0


def _script(
    config: UnknownLambdaConfig, context: PolicyContext, diagnostics: DiagnosticsDict
) -> PhaseGenerator:
    problem, tuning, share = context.problem, config.tuning, config.explore_at_most
    search = LambdaSearch(problem, tuning, exploration_budget(problem, share), diagnostics)

    def rest() -> Problem:
        return evolve(problem, horizon=problem.horizon - search.n_pulls)

    def hand_over(name: str, why: str) -> Policy:
        diagnostics.update(chosen=name, because=why)
        return context.policy(name, rest())

    pair = yield from search.gap(context.rng)
    diagnostics["test_ends"] = search.n_pulls
    if pair is None:
        return hand_over("exp3p", "no gap shows that the state moves")
    diagnostics["pair"] = np.array(pair[:2])
    lam = yield from search.rate(pair)
    diagnostics["estimation_ends"] = search.n_pulls
    if lam is None:
        return hand_over("exp3p", "no room to estimate lam")
    diagnostics["lam_hat"] = lam
    if (1 - lam) * math.sqrt(problem.horizon) <= config.fast_threshold:
        return hand_over("sticky", "lam is near 1")
    weights = StateWeights(problem.n_arms, lam)
    for phase in search.played:
        weights.add(phase)
    task = Task(rest(), lam, context.planner(config.planner), weights, diagnostics)
    arm = problem.replenishing_arm
    diagnostics["because"] = "lam was estimated"
    if arm is None:
        diagnostics["chosen"] = "etc-unknown-arm"
        unknown = etc_unknown_arm.EtcUnknownArmConfig(tuning=tuning, explore_at_most=share)
        return (yield from etc_unknown_arm.explore_unknown_arm(task, unknown, context.rng))
    diagnostics["chosen"] = "etc"
    known = etc.EtcConfig(tuning=tuning, explore_at_most=share)
    return (yield from etc.explore_known_arm(task, arm, known, at_one=False))


def build(config: UnknownLambdaConfig, context: PolicyContext) -> PhasedPolicy:
    """Build the policy."""
    diagnostics: DiagnosticsDict = {"tuning": config.tuning}
    return PhasedPolicy(_script(config, context, diagnostics), diagnostics)
