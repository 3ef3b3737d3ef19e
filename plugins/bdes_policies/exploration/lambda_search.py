"""Estimate lam by playing: test whether the state moves, then estimate how fast.

Generators for a script to go through: they yield phases and return what was found.
"""

import math
from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.random import Generator as RandomGenerator

from bdes_framework import FloatArray, Problem
from bdes_policies.exploration.lambda_estimate import (
    RateEstimate,
    estimate_lam,
    estimate_lam_by_blocks,
)
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
        # Whether to look for the arm that pays most first; of two, either one meets the other.
        self._sweeps = not self._paper and problem.n_arms > 2
        self._budget = budget
        self._diagnostics = diagnostics
        # What "balanced" allows the test, and half of what it allows all estimates together.
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
        """Return the pair whose two means differ most, if beyond their threshold.

        Of each two arms that alternate, both are looked at: either may hardly pay. One of them is
        the arm that pays most after any other, or drawn at random.
        """
        n_arms, n = self._n_arms, self._n
        if n_arms == 1 or n == 0:
            return None
        if self._sweeps:
            j = int(np.argmax((yield from self._play(sweep_phase(n_arms, n, rng)))))
        else:
            j = int(rng.integers(n_arms))
        sums = yield from self._play(_test_phase(n_arms, j, n))
        mu = sums[:n_arms] / n
        # Row 0: arm i alone, and alternating with j. Row 1: arm j alone, and alternating with i.
        alone = np.stack([mu, np.full(n_arms, mu[j])])
        alternating = sums[n_arms:].reshape(2, n_arms) / (2 * n)
        alternating[:, j] = mu[j]
        thresholds = self._thresholds(alone, alternating, n)
        self._diagnostics.update(
            mu=mu,
            mu_alternating=alternating[0],
            mu_alternating_other=alternating[1],
            other_arm=j,
            thresholds=thresholds[0],
            thresholds_other=thresholds[1],
        )
        gaps = np.abs(alone - alternating)
        row, i = divmod(int(np.argmax(np.where(gaps > thresholds, gaps, 0.0))), n_arms)
        if gaps[row, i] <= thresholds[row, i]:
            return None
        first, second = (i, j) if row == 0 else (j, i)
        return Pair(first, second, float(alone[row, i]), float(alternating[row, i]))

    def _test_length(self) -> int:
        """Return the n that the paper has as (T/K)^(2/3), cut to fit."""
        whole = int(math.cbrt(self._horizon / self._n_arms) ** 2)
        most = self._budget // 2 if self._paper else min(self._budget // 2, self._allowance)
        n = min(whole, most // ((9 if self._sweeps else 8) * self._n_arms - 6))
        self._diagnostics.update(test_length=n, test_length_asked=whole)
        return n

    def _thresholds(self, alone: FloatArray, alternating: FloatArray, n: int) -> FloatArray:
        if self._paper:
            return np.full(alone.shape, 3 * math.sqrt(self._log_horizon / n))
        # The + 1/n keeps a mean of exactly 0 or 1 from passing for certain.
        spread = (_variance(alone) + 1 / n) / n + (_variance(alternating) + 1 / n) / (2 * n)
        return np.sqrt(self._log_horizon * spread)

    # -- how fast does it move? -------------------------------------------------------------

    def rate(self, pair: Pair) -> Search[float | None]:
        """Return lam as estimated by doubling, or None if there was no room for an estimate."""
        found = yield from self._by_settling(pair) if self._paper else self._by_blocks(pair)
        return None if found is None else max(found, 1 / self._n)

    def _by_blocks(self, pair: Pair) -> Search[float | None]:
        """Play blocks of both arms in turn, twice as long each time, until the state follows them.

        That is when two estimates in a row say that it settles within a block, and agree.
        """
        i, j, n = pair.first, pair.second, self._n
        samples = self._allowance // _SHARES
        last_pull = min(self._budget, self.n_pulls + 2 * self._allowance)
        first = Phase.of(
            [
                (1, [one_arm(i, n), one_arm(i, samples, 0)]),
                (1, [PhaseStep(i, j, 2 * n), PhaseStep(i, j, 2 * samples, 1, NOT_SAMPLED)]),
            ],
            n_slots=2,
        )
        room = last_pull - self.n_pulls - first.n_pulls
        if samples < self._log_horizon or room < 2 * samples:
            return None
        sums = yield from self._play(first)
        alone = (float(sums[0]) + n * pair.alone) / (samples + n)
        alternating = (float(sums[1]) + 2 * n * pair.alternating) / (samples + 2 * n)
        estimates: list[RateEstimate] = []
        length, fastest = 2, 1.0
        while True:
            blocks = max(1, samples // length)
            if self.n_pulls + 2 * blocks * length > last_pull:
                break
            phase = Phase.of([(blocks, [one_arm(j, length), one_arm(i, length, 0)])], n_slots=1)
            (total,) = yield from self._play(phase)
            counts = (samples + n, samples + 2 * n, blocks * length)
            mean = float(total) / counts[2]
            estimates.append(estimate_lam_by_blocks(alone, alternating, mean, length, counts))
            self._show(estimates, lam_block=length)
            last = estimates[-2:]
            if len(last) == 2 and _settled_alike(last, length, fastest):
                self._diagnostics["lam_agreed"] = True
                return _combined(last)
            if last[-1].lam * length < _SETTLES:
                # A longer block that seems to settle at once says that the arm had not, alone.
                fastest = min(fastest, 2 * _SETTLES / length)
            length *= 2
        self._diagnostics["lam_agreed"] = False
        possible = [each for each in estimates if 0 < each.lam <= fastest]
        return min(possible, key=_relative_error).lam if possible else 0.0

    def _by_settling(self, pair: Pair) -> Search[float | None]:
        """Estimate as printed, with twice as many settling pulls each time, until two agree."""
        settle = math.ceil(self._log_horizon)
        estimates: list[RateEstimate] = []
        while (samples := self._samples(settle)) >= self._log_horizon:
            sums = yield from self._play(estimation_phase(pair, settle, samples))
            after_other, settled, alternating = (sums / samples).tolist()
            estimates.append(estimate_lam(after_other, settled, alternating, samples))
            self._show(estimates, lam_settle=settle)
            delta = self._epsilon(settle) / 4
            last = estimates[-2:]
            near = len(last) == 2 and abs(last[0].unclipped - last[1].unclipped) <= delta
            if near and all(_plausible(each, pair, delta) for each in last):
                self._diagnostics["lam_agreed"] = True
                return last[0].lam
            settle *= 2
        if not estimates:
            return None
        self._diagnostics["lam_agreed"] = False
        tolerance = self._epsilon(settle // 2) / 4
        return estimates[-1].lam if _plausible(estimates[-1], pair, tolerance) else 0.0

    def _show(self, estimates: list[RateEstimate], **lengths: int) -> None:
        self._diagnostics.update(
            lam_estimates=np.array([each.unclipped for each in estimates]),
            lam_denominator=estimates[-1].denominator,
            lam_standard_error=estimates[-1].standard_error,
            **lengths,
        )

    def _epsilon(self, settle: int) -> float:
        """Return the paper's epsilon with the pulls to settle in place of their formula."""
        return math.cbrt(self._n_arms * self._log_horizon * settle / self._horizon)

    def _samples(self, settle: int) -> int:
        """Return the M that the paper has as log(T)/epsilon², cut to fit."""
        whole = math.ceil(self._log_horizon / self._epsilon(settle) ** 2)
        return min(whole, (self._budget - self.n_pulls) // 2 // (6 * settle + 3))


_SHARES = 20
"""Into how many parts "balanced" divides its allowance: each level of doubling samples one."""

_MOST_STEPS = 100_000
"""Of the sweeps, before they repeat, so that memory stays flat."""

_SETTLES = 2.5
"""From this lam·N on the state settles within a block of N pulls: it forgets 92 % of the other."""

_GOOD = 0.4
"""Standard error, as a share of lam, that an estimate may have."""


def sweep_phase(n_arms: int, n: int, rng: RandomGenerator) -> Phase:
    """Return about n sweeps over all arms in random orders; slot i sums the rewards of i.

    The arm before is any other one alike, so what an arm pays is r times the same mean state.
    """
    orders = min(n, max(1, _MOST_STEPS // n_arms))
    arms = rng.permuted(np.tile(np.arange(n_arms), (orders, 1)), axis=1).reshape(-1)
    steps = np.column_stack([arms, arms, np.ones_like(arms), arms, arms])
    loops = np.array([[0, arms.size, n // orders]])
    return Phase.from_tables(steps, loops, n_arms)


def _test_phase(n_arms: int, other: int, n: int) -> Phase:
    """Return the test: slot i sums n rewards of i alone; K + i and 2K + i those of a pair.

    While i and the other arm alternate, 2n rewards of i and 2n of the other are summed.
    """
    alone = [(1, [one_arm(i, n), one_arm(i, n, i)]) for i in range(n_arms)]
    alternating = [
        (1, [PhaseStep(i, other, 2 * n), PhaseStep(i, other, 4 * n, n_arms + i, 2 * n_arms + i)])
        for i in range(n_arms)
        if i != other
    ]
    return Phase.of(alone + alternating, n_slots=3 * n_arms)


def estimation_phase(pair: Pair, settle: int, samples: int) -> Phase:
    """Return the pulls of one estimate as printed: slots 0, 1, 2 for its three means."""
    i, j, n, m = pair.first, pair.second, settle, samples
    loops = [
        (m, [one_arm(j, n), one_arm(i, 1, 0)]),
        (m, [one_arm(j, n), one_arm(i, n), one_arm(i, 1, 1)]),
        (m, [one_arm(i, n), PhaseStep(i, j, 2 * n), one_arm(i, 1, 2)]),
    ]
    return Phase.of(loops, n_slots=3)


def _variance(means: FloatArray) -> FloatArray:
    return np.maximum(means * (1 - means), 0.0)


def _plausible(estimate: RateEstimate, pair: Pair, tolerance: float) -> bool:
    """Return whether an estimate may come from a settled state: its denominator is then the gap."""
    same_sign = estimate.denominator * (pair.alone - pair.alternating) > 0
    return same_sign and -tolerance <= estimate.unclipped <= 1 + tolerance


def _settled_alike(last: list[RateEstimate], length: int, fastest: float) -> bool:
    """Return whether two estimates say that the state settles within a block, and agree.

    They do if they differ by less than a factor of 2 and are not faster than ``fastest``, and
    if together they are good to ``_GOOD`` of lam.
    """
    shorter, longer = sorted(each.lam for each in last)
    settled = last[0].lam * (length // 2) >= _SETTLES and last[1].lam * length >= _SETTLES
    precision = math.hypot(*(1 / _relative_error(each) for each in last))
    return settled and longer < 2 * shorter and longer <= fastest and precision * _GOOD >= 1


def _relative_error(estimate: RateEstimate) -> float:
    """Return the standard error as a share of lam; above 0 for exact means too."""
    return max(estimate.standard_error / estimate.lam, 1e-9) if estimate.lam else math.inf


def _combined(last: list[RateEstimate]) -> float:
    """Return the geometric mean, each estimate weighted by its relative precision."""
    weights = [_relative_error(each) ** -2 for each in last]
    logs = sum(w * math.log(each.lam) for w, each in zip(weights, last, strict=True))
    return math.exp(logs / sum(weights))
