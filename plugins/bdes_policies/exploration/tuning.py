"""Lengths of exploration: the paper's formulas cut to the horizon, or balanced errors.

Both kinds of explore-then-commit make the same numbers of pulls: K·M·(R + 1) for the
samples of r, with R pulls to restore the state before each; K·(N + M) for those of r·b,
with N pulls for each arm to settle; and N once more.
"""

import math
from typing import Literal, TypeAlias

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, Problem, settling_pulls, state_decay
from bdes_policies.exploration.phased_policy import DiagnosticsDict

Tuning: TypeAlias = Literal["paper", "balanced"]


@frozen
class Lengths:
    """How long to explore, and what the formulas or the overrides asked for."""

    epsilon: float
    """The error that the paper's formulas aim at; NaN where errors were balanced instead."""
    samples: int
    """Of each mean (the paper's M); 0 if the horizon has no room to explore."""
    settle: int
    """Pulls of an arm before its first sample of r·b (the paper's N(lam))."""
    restore: int
    """Pulls that restore the state before each sample of r (the paper's N_R)."""
    samples_asked: float
    settle_asked: float

    @property
    def clipped(self) -> bool:
        """Whether the horizon allowed less than was asked for."""
        return self.samples < self.samples_asked or self.settle < self.settle_asked

    def diagnostics(self) -> DiagnosticsDict:
        """Return the lengths chosen and asked for."""
        names = ("epsilon", "samples", "samples_asked", "settle", "settle_asked", "restore")
        return {name: getattr(self, name) for name in names} | {"clipped": self.clipped}


def exploration_budget(problem: Problem, share: float) -> int:
    """Return how many rounds may go into exploring, so that at least one is left."""
    return min(int(share * problem.horizon), problem.horizon - 1)


def lengths(
    problem: Problem,
    lam: float,
    tuning: Tuning,
    budget: int,
    *,
    epsilon: float | None = None,
    samples: int | None = None,
    factor: float = 1.0,
) -> Lengths:
    """Choose lengths that fit into ``budget`` rounds.

    ``epsilon`` and ``samples`` replace what the tuning says; ``factor`` multiplies the paper's
    M: it is K² without a known replenishing arm.
    """
    if budget < 2 * problem.n_arms:  # not even one sample of each mean: whatever is asked is cut
        return Lengths(math.nan, 0, 0, 0, float(samples or 1), 0.0)
    if tuning == "balanced":
        return _balanced(problem, lam, budget, epsilon, samples)
    n_arms, horizon = problem.n_arms, problem.horizon
    aim = paper_epsilon(n_arms, horizon, lam) if epsilon is None else epsilon
    asked = _paper_samples(horizon, aim, factor) if samples is None else float(samples)
    settle = _settle_asked(lam, aim, horizon)
    m, n = _fit(n_arms, budget, asked, settle, math.ceil(math.log(horizon)))
    return Lengths(aim, m, n, n, asked, settle)


def paper_epsilon(n_arms: int, horizon: int, lam: float) -> float:
    """Return the epsilon of the paper's theorem, but at most 1: an error above 1 says nothing."""
    if lam in (0.0, 1.0):
        return 1.0 - lam
    ratio = math.log(lam) / math.log1p(-lam)
    return min(1.0, math.cbrt(n_arms * math.log(horizon) * ratio / horizon))


def _paper_samples(horizon: int, epsilon: float, factor: float) -> float:
    if epsilon == 0:
        return math.inf
    # Divided twice: the square of a tiny number is 0, and dividing by that an error.
    samples = factor * math.log(horizon) / epsilon / epsilon
    return float(math.ceil(samples)) if samples < math.inf else samples


def _settle_asked(lam: float, epsilon: float, horizon: int) -> float:
    """Return N(lam); 0 at lam = 0, where no number of pulls would move the state."""
    if lam == 0:
        return 0.0
    if lam == 1:
        return 1.0
    pulls = (math.log(lam) + math.log(epsilon)) / math.log1p(-lam)
    return float(settling_pulls(lam, epsilon)) if pulls <= horizon else pulls


def _fit(n_arms: int, budget: int, samples: float, settle: float, fewest: int) -> tuple[int, int]:
    """Cut samples to what fits; below ``fewest`` of them, cut the settling pulls instead."""
    kept_settle = int(min(settle, budget))
    kept = min(samples, (budget - (n_arms + 1) * kept_settle) // (n_arms * (kept_settle + 2)))
    if kept >= min(samples, fewest):
        return int(kept), kept_settle
    kept = int(min(samples, fewest, budget // (2 * n_arms)))
    longest = (budget - 2 * n_arms * kept) // (n_arms * kept + n_arms + 1)
    return kept, min(kept_settle, longest)


def _balanced(
    problem: Problem, lam: float, budget: int, epsilon: float | None, samples: int | None
) -> Lengths:
    """Minimise exploring pulls plus horizon times errors, over restoring and settling pulls.

    With M samples a mean is off by about 1/sqrt(M). R restoring pulls leave the state off by
    :func:`restoring_error`, N settling pulls by (1 - lam)^N. Errors in b only count as far
    as b does: a state that takes longer than the horizon to move never shows it.
    """
    n_arms, horizon = problem.n_arms, problem.horizon
    settle_asked = math.nan
    if epsilon is not None:
        settle_asked = _settle_asked(lam, epsilon, horizon)
        steps = np.array([min(settle_asked, (budget - 2 * n_arms) // (2 * n_arms + 1))])
    elif lam in (0.0, 1.0):
        steps = np.arange(1 + lam)  # no pull, or one, does all that pulls can do
    else:
        steps = np.unique(np.concatenate([[0.0], np.rint(np.geomspace(1, budget, 48))]))
    restore, settle = np.meshgrid(steps, steps, indexing="ij")
    of_b = state_decay(lam, horizon)[1]
    each = n_arms * (restore + 2)
    fitting = (budget - (n_arms + 1) * settle) // each
    best = np.ceil((horizon * (1 + of_b) / (2 * each)) ** (2 / 3)) if samples is None else samples
    kept = np.minimum(best, fitting)
    some = np.maximum(kept, 1)
    loss = loss_bound(problem, lam, some, settle, restore)
    at = np.unravel_index(int(np.argmin(np.where(kept >= 1, loss, math.inf))), loss.shape)
    m, n, r = int(kept[at]), int(settle[at]), int(restore[at])
    return Lengths(
        epsilon=math.nan if epsilon is None else epsilon,
        samples=m,
        settle=n,
        restore=r,
        samples_asked=float(np.broadcast_to(best, loss.shape)[at]),
        settle_asked=float(n) if epsilon is None else settle_asked,
    )


def loss_bound(
    problem: Problem, lam: float, samples: FloatArray, settle: FloatArray, restore: FloatArray
) -> FloatArray:
    """Return the rounds explored plus the horizon times the errors left, as arrays of lengths."""
    n_arms, horizon = problem.n_arms, problem.horizon
    of_b = state_decay(lam, horizon)[1]
    each = n_arms * (restore + 2)
    errors = restoring_error(lam, restore, n_arms * samples) + of_b * (1 - lam) ** settle
    spread: FloatArray = (1 + of_b) / np.sqrt(samples)
    return samples * each + (n_arms + 1) * settle + horizon * (errors + spread)


def restoring_error(lam: float, restore: FloatArray, blocks: FloatArray) -> FloatArray:
    """Return how far from 1 the state is at the last of many samples, at most.

    Each block is ``restore`` pulls of an arm with end state 1 and one of an arm with end state 0.
    What one pull takes away, all later ones give back in part: a geometric sum.
    """
    if lam == 0:
        return np.zeros_like(restore)
    if lam == 1:
        return np.where(restore > 0, 0.0, 1.0)
    log_keep = math.log1p(-lam)
    once = -np.expm1((restore + 1) * log_keep)
    after: FloatArray = -np.expm1((restore + 1) * np.maximum(blocks - 1, 0) * log_keep)
    return lam * np.exp(restore * log_keep) * after / once
