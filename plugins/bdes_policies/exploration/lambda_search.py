"""Estimate lam by playing: test whether the state moves, then estimate how fast.

Generators for a script to go through: they yield phases and return what was found.
"""

import math
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.random import Generator as RandomGenerator

from bdes_framework import FloatArray, Problem
from bdes_policies.exploration.lambda_estimate import RateEstimate, estimate_lam
from bdes_policies.exploration.phased_policy import DiagnosticsDict
from bdes_policies.exploration.phases import NOT_SAMPLED, Phase, PhaseStep, one_arm
from bdes_policies.exploration.tuning import Tuning

Found = TypeVar("Found")
Search: TypeAlias = Generator[Phase, FloatArray, Found]


class Pair(NamedTuple):
    """Two arms; lam is estimated from rewards of the first."""

    first: int
    second: int
    alone: float
    """Mean reward of the first when played alone, in the test: over n samples."""
    alternating: float
    """Mean reward of the first when they alternate, in the test: over 2n samples."""


class LambdaSearch:
    """Estimates lam in at most ``budget`` rounds; keeps the phases it played."""

    def __init__(
        self, problem: Problem, tuning: Tuning, budget: int, diagnostics: DiagnosticsDict
    ) -> None:
        self.played: list[Phase] = []
        self._n_arms = problem.n_arms
        self._horizon = problem.horizon
        self._log_horizon = math.log(problem.horizon)
        self._paper = tuning == "paper"
        self._budget = budget
        self._diagnostics = diagnostics
        # What "balanced" allows the test, and all estimates together: the regret to expect.
        self._allowance = int(2 * math.cbrt(problem.n_arms * float(problem.horizon) ** 2))
        self._n = self._test_length()

    @property
    def n_pulls(self) -> int:
        """How many pulls it has taken so far."""
        return sum(phase.n_pulls for phase in self.played)

    def _play(self, phase: Phase) -> Search[FloatArray]:
        sums = yield phase
        self.played.append(phase)
        return sums

    # -- does the state move? ---------------------------------------------------------------

    def gap(self, rng: RandomGenerator) -> Search[Pair | None]:
        """Return the pair whose two means differ most, if beyond their threshold."""
        n_arms, n = self._n_arms, self._n
        if n_arms == 1 or n == 0:
            return None
        other = int(rng.integers(n_arms))
        sums = yield from self._play(_test_phase(n_arms, other, n))
        alone, alternating = sums[:n_arms] / n, sums[n_arms:] / (2 * n)
        alternating[other] = alone[other]
        thresholds = self._thresholds(alone, alternating, n)
        gaps = alone - alternating
        self._diagnostics.update(
            mu=alone, mu_alternating=alternating, other_arm=other, thresholds=thresholds
        )
        beyond = np.where(np.abs(gaps) > thresholds, np.abs(gaps), 0.0)
        first = int(np.argmax(beyond))
        if beyond[first] == 0:
            return None
        return Pair(first, other, float(alone[first]), float(alternating[first]))

    def _test_length(self) -> int:
        """Return the n that the paper has as (T/K)^(2/3), cut to fit."""
        whole = int(math.cbrt(self._horizon / self._n_arms) ** 2)
        most = self._budget // 2 if self._paper else min(self._budget // 2, self._allowance)
        n = min(whole, most // (8 * self._n_arms - 6))
        self._diagnostics.update(test_length=n, test_length_asked=whole)
        return n

    def _thresholds(self, alone: FloatArray, alternating: FloatArray, n: int) -> FloatArray:
        if self._paper:
            return np.full(alone.size, 3 * math.sqrt(self._log_horizon / n))
        # The + 1/n keeps a mean of exactly 0 or 1 from passing for certain.
        spread = (_variance(alone) + 1 / n) / n + (_variance(alternating) + 1 / n) / (2 * n)
        return np.sqrt(self._log_horizon * spread)

    # -- how fast does it move? -------------------------------------------------------------

    def rate(self, pair: Pair) -> Search[float | None]:
        """Return lam as estimated by doubling, or None if there was no room for an estimate."""
        before, settle = None, math.ceil(self._log_horizon)
        unclipped: list[float] = []
        taken: list[int] = []
        slowest = 1 / self._n
        while (samples := self._samples(settle)) >= self._log_horizon:
            phase = estimation_phase(pair, settle, samples, in_blocks=self._paper)
            now = self._estimate((yield from self._play(phase)), samples, pair)
            unclipped.append(now.unclipped)
            taken.append(samples)
            self._diagnostics.update(
                lam_estimates=np.array(unclipped),
                lam_samples=np.array(taken),
                lam_denominator=now.denominator,
                lam_standard_error=now.standard_error,
                lam_settle=settle,
            )
            if before is not None and self._agree(before, now, pair, settle):
                self._diagnostics["lam_agreed"] = True
                return max(before.lam, slowest)
            before, settle = now, 2 * settle
        if before is None:
            return None
        self._diagnostics["lam_agreed"] = False
        tolerance = self._tolerance(settle // 2, before)
        return max(before.lam, slowest) if _plausible(before, pair, tolerance) else slowest

    def _estimate(self, sums: FloatArray, samples: int, pair: Pair) -> RateEstimate:
        """Estimate from one phase's sums; if balanced, with the test's samples as well."""
        n = 0 if self._paper else self._n
        counts = (samples, samples + n, samples + 2 * n)
        after_other, settled, alternating = sums.tolist()
        return estimate_lam(
            after_other / counts[0],
            (settled + n * pair.alone) / counts[1],
            (alternating + 2 * n * pair.alternating) / counts[2],
            counts,
        )

    def _epsilon(self, settle: int) -> float:
        """Return the paper's epsilon with the pulls to settle in place of their formula."""
        return math.cbrt(self._n_arms * self._log_horizon * settle / self._horizon)

    def _samples(self, settle: int) -> int:
        """Return the M that the paper has as log(T)/epsilon², cut to fit."""
        whole = math.ceil(self._log_horizon / self._epsilon(settle) ** 2)
        left = self._budget - self.n_pulls
        if self._paper:
            return min(whole, left // 2 // (6 * settle + 3))
        left = min(left, self._allowance - self.n_pulls + self.played[0].n_pulls)
        return min(whole, (left // 2 - 4 * settle) // (settle + 4))

    def _tolerance(self, settle: int, *estimates: RateEstimate) -> float:
        """Return the paper's delta, a quarter of epsilon; or the standard errors, if larger."""
        delta = self._epsilon(settle) / 4
        if self._paper:
            return delta
        return max(delta, sum(estimate.standard_error for estimate in estimates))

    def _agree(self, first: RateEstimate, second: RateEstimate, pair: Pair, settle: int) -> bool:
        tolerance = self._tolerance(settle, first, second)
        near = abs(first.unclipped - second.unclipped) <= tolerance
        return near and all(_plausible(each, pair, tolerance) for each in (first, second))


def _test_phase(n_arms: int, other: int, n: int) -> Phase:
    """Return the test: slot i sums n rewards of i alone, slot K + i the 2n before the other."""
    alone = [(1, [one_arm(i, n), one_arm(i, n, i)]) for i in range(n_arms)]
    alternating = [
        (1, [PhaseStep(i, other, 2 * n), PhaseStep(i, other, 4 * n, n_arms + i)])
        for i in range(n_arms)
        if i != other
    ]
    return Phase.of(alone + alternating, n_slots=2 * n_arms)


def estimation_phase(pair: Pair, settle: int, samples: int, *, in_blocks: bool) -> Phase:
    """Return the pulls that one estimate takes: slots 0, 1, 2 for its three means.

    In blocks, as printed, the state settles anew before each sample; otherwise once per mean.
    """
    i, j, n, m = pair.first, pair.second, settle, samples
    if in_blocks:
        loops = [
            (m, [one_arm(j, n), one_arm(i, 1, 0)]),
            (m, [one_arm(j, n), one_arm(i, n), one_arm(i, 1, 1)]),
            (m, [one_arm(i, n), PhaseStep(i, j, 2 * n), one_arm(i, 1, 2)]),
        ]
    else:
        loops = [
            (1, [one_arm(j, n)]),
            (m, [one_arm(j, n), one_arm(i, 1, 0)]),
            (1, [one_arm(i, n), one_arm(i, m, 1)]),
            (1, [PhaseStep(i, j, 2 * n), PhaseStep(i, j, 2 * m, 2, NOT_SAMPLED)]),
        ]
    return Phase.of(loops, n_slots=3)


def _variance(means: FloatArray) -> FloatArray:
    return np.maximum(means * (1 - means), 0.0)


def _plausible(estimate: RateEstimate, pair: Pair, tolerance: float) -> bool:
    """Return whether an estimate may come from a settled state: its denominator is then the gap."""
    same_sign = estimate.denominator * (pair.alone - pair.alternating) > 0
    return same_sign and -tolerance <= estimate.unclipped <= 1 + tolerance
