"""Laplace approximations of the posterior of (r, b, lam) at its modes, and draws from them.

Around each of its modes (see :mod:`modes`) the posterior is taken to be normal in (log r, log b,
logit lam), the coordinates in which a change of scale (c·r, b/c) is a straight line. As long as the
first state has hardly moved there is no doubt about the scale, and logit r is taken instead, whose
tails are about those of the Beta distribution that r then has.
"""

import math
from typing import NamedTuple

import numpy as np
from attrs import frozen
from numpy.random import Generator
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, PosteriorPoint
from bdes_policies.posterior.backtracking import (
    Instances,
    Observations,
    Shrinkage,
    Steps,
    backtrack,
    from_logit,
    room_for,
    unpack,
)
from bdes_policies.posterior.modes import NO_PULLS, Belief, Mode, ModeSearch, Pulls, RatePrior

_PRIOR_PRECISION = 2.0
"""Of log r and log b, in draws: a little tighter than of a uniform r or b, which is 1."""
_HARDLY_MOVED = 1.0
"""Below this many times 1/lam pulls more than a third of the first state is left."""
_WORTH_LEARNING = 16.0
"""End states are explored in full if at least this many times 1/lam rounds are left."""
_EARLY_SHARE = 0.25
"""And no more than to this share while the state has hardly moved: a rate that was fitted to so
few pulls may be a whim of chance."""
_LEARNING_TIME = 4.0
"""Times 1/lam: learning an end state and using it takes about this many rounds."""
_MIN_OPTIMISM = 1.96
"""Deviations from the mode: the least of an optimistic candidate."""
_TARGET_PRICE = 0.1
"""Of an optimistic candidate, where that puts it farther away than the least."""
_SAFETY = 9.0
"""How many times its expected cost of trials an optimistic candidate has to be worth."""


class Draw(NamedTuple):
    """One instance that the log allows for."""

    r: FloatArray
    b: FloatArray
    lam: float


@frozen(eq=False)
class LaplaceApproximation:
    """The posterior around one of its modes, taken to be normal."""

    mode: PosteriorPoint
    """In logits of r, b and lam, in this order; that of a known lam is not used."""
    evidence: float
    """The logarithm of the posterior's mass around the mode, up to a constant."""
    scale_is_known: bool
    """Whether ``centre`` holds logit r, not log r."""
    centre: FloatArray
    """Shape (2K+1,): the mode as log r (or logit r), log b and logit lam."""
    deviations: FloatArray
    """Shape (2K+1, 2K+1): what standard normal deviates of b, lam and r, in this order, are
    multiplied by to get a step from the centre."""


class Posterior:
    """The posterior given all pulls observed so far; fitted anew when asked to."""

    def __init__(
        self, n_arms: int, q0: float, prior: RatePrior, belief: Belief | None = None
    ) -> None:
        self._n_arms = n_arms
        self._q0 = q0
        self._prior = prior
        self._search = ModeSearch(n_arms, q0, prior, belief)
        self._order = np.roll(np.arange(2 * n_arms + 1), -n_arms)
        self._peaks: list[LaplaceApproximation] = []
        self._pulls = NO_PULLS
        self._rows_compared = 0

    # -- fitting ----------------------------------------------------------------------------

    def fit(self, arms: IntArray, rewards: NDArray[np.float32]) -> None:
        """Move all modes to where these pulls put them, and compute their weights."""
        self._pulls = Pulls(arms, rewards)
        self._peaks = [self._approximate(mode) for mode in self._search.update(self._pulls)]

    @property
    def rows_swept(self) -> int:
        """How many rows of the log were read so far."""
        return self._search.rows_swept + self._rows_compared

    def _approximate(self, mode: Mode) -> LaplaceApproximation:
        """Take the posterior around a mode as normal in the coordinates above."""
        k = self._n_arms
        r, b, lam = self._search.values(mode.point.theta)
        scale_is_known = lam * self.n_pulls < _HARDLY_MOVED
        slopes = np.concatenate([r, b, [0.0 if self._prior.known else lam * (1 - lam)]])
        per_log = np.full(2 * k + 1, _PRIOR_PRECISION)
        per_log[-1] = 1.0 / self._prior.deviation**2
        centre = np.concatenate([np.log(r), np.log(b), mode.point.theta[-1:]])
        if scale_is_known:
            slopes[:k] *= 1 - r
            per_log[:k] = 2 * r * (1 - r)
            centre[:k] = mode.point.theta[:k]
        prior = np.diag(per_log)
        if self._search.belief is not None:
            places = self._search.believed
            per_logit = np.append(slopes[:-1] / np.concatenate([r * (1 - r), b * (1 - b)]), 1.0)
            believed = self._search.belief.precision * np.outer(
                per_logit[places], per_logit[places]
            )
            prior[np.ix_(places, places)] = believed
        precision = mode.point.information * np.outer(slopes, slopes) + prior
        root = np.linalg.cholesky(precision[np.ix_(self._order, self._order)])
        deviations = np.empty_like(root)
        deviations[self._order] = np.linalg.inv(root).T
        return LaplaceApproximation(mode.point, mode.evidence, scale_is_known, centre, deviations)

    # -- estimates and draws -----------------------------------------------------------------

    @property
    def n_pulls(self) -> int:
        """How many pulls were fitted."""
        return self._pulls.arms.size

    @property
    def best(self) -> Draw:
        """The most likely instance."""
        return Draw(*self._search.values(self._peaks[0].mode.theta))

    @property
    def has_moved(self) -> bool:
        """Whether the state has moved much since the first pull, most likely."""
        return not self._peaks[0].scale_is_known

    @property
    def may_have_moved(self) -> bool:
        """Whether there is any mode in which the state has moved much."""
        return not all(peak.scale_is_known for peak in self._peaks)

    @property
    def rate_of_change(self) -> float:
        """The most likely rate among those at which the state has moved; any, if none has."""
        moved = (peak for peak in self._peaks if not peak.scale_is_known)
        return self._search.values(next(moved, self._peaks[0]).mode.theta)[2]

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of 95 % intervals of r, b and lam: shape (2K+1,) each."""
        peak = self._peaks[0]
        deviations = np.sqrt(np.square(peak.deviations).sum(axis=1))
        k, ends = self._n_arms, np.empty((2, 2 * self._n_arms + 1))
        for end, step in zip(ends, (-1.96 * deviations, 1.96 * deviations), strict=True):
            unpack(peak.centre + step, peak.scale_is_known, end[:k], end[k : 2 * k])
            end[-1] = self._rate(peak, float(step[-1]))
        return ends[0], np.minimum(ends[1], 1.0)

    def draws(self, deviates: FloatArray, rng: Generator, width: float, left: int) -> Instances:
        """Return draws, each around a mode picked by its weight, and the state each implies.

        ``deviates``, shape (n, 3K+1), are standard normal ones of b, of lam, of r, and of r again,
        to be used instead where the state has hardly moved. For ``width`` see :meth:`_width`;
        ``left`` rounds are left to use what is learned.
        """
        evidence = np.array([peak.evidence for peak in self._peaks])
        weights = np.cumsum(np.exp(evidence - evidence[0]))
        picks = np.searchsorted(weights, rng.random(len(deviates)) * weights[-1], side="right")
        scaled = np.empty((len(deviates), 2 * self._n_arms + 1))
        steps = np.empty_like(scaled)
        for pick, peak in enumerate(self._peaks):
            of_peak = picks == pick
            wide = self._width(peak, width, left)
            scaled[of_peak] = self._scaled(peak, deviates[of_peak], wide, left)
            steps[of_peak] = scaled[of_peak] @ peak.deviations.T
        peaks = [self._peaks[pick] for pick in picks.tolist()]
        return self._backtracked(peaks, steps, 0.5 * np.square(scaled).sum(axis=1))

    def _backtracked(
        self,
        peaks: list[LaplaceApproximation],
        steps: FloatArray,
        expected_loss: FloatArray,
        *,
        loss_shrinks: bool = True,
        factor: float = 0.5,
    ) -> Instances:
        """Return instances some steps from modes, shorter ones where the log contradicts."""
        found = room_for(len(peaks), self._n_arms)
        known_lam = self._prior.lam if self._prior.known else -1.0
        around = Steps(
            np.array([peak.centre for peak in peaks]),
            steps,
            np.array([peak.scale_is_known for peak in peaks]),
            np.array([peak.mode.log_likelihood for peak in peaks]),
            expected_loss,
        )
        self._rows_compared += backtrack(
            Observations(*self._pulls[:2], self._q0, known_lam),
            around,
            Shrinkage(factor, loss_shrinks),
            found,
        )
        return found

    def optimistic_candidates(self, left: int) -> tuple[Instances, float]:
        """Return per arm the likeliest instance of a far larger end state, and their price.

        None where the state has not moved, or where trials do not pay. The price is the share of
        what the rounds left may pay that trials in vain will cost. A trial takes some 2 / sqrt(lam)
        pulls, and exp(-z²/2) is about the chance of an end state z deviations away: so the cheaper
        trials are, and the more rounds are left to profit, the farther away are the candidates.
        """
        k = self._n_arms
        peak = self._peaks[0]
        if peak.scale_is_known:
            return room_for(0, k), 1.0
        price_at_0 = _SAFETY * 2.0 / math.sqrt(self._search.values(peak.mode.theta)[2]) / left
        affordable = math.log(max(_TARGET_PRICE / price_at_0, 1.0))
        far = max(_MIN_OPTIMISM, math.sqrt(2 * affordable))
        price = price_at_0 * math.exp(0.5 * far**2)
        if price >= 1.0:
            return room_for(0, k), 1.0
        towards = peak.deviations[k : 2 * k]
        # Everything else is where it is most likely to be, given that end state.
        steps = towards @ peak.deviations.T * (far / np.linalg.norm(towards, axis=1))[:, None]
        # As far as the log allows for: where it says little the posterior is not normal.
        expected = np.full(k, 0.5 * far**2)
        found = self._backtracked([peak] * k, steps, expected, loss_shrinks=False, factor=0.7)
        return found, price

    def _scaled(
        self, peak: LaplaceApproximation, deviates: FloatArray, width: float, left: int
    ) -> FloatArray:
        """Return deviates as wide as it pays to explore, of b, lam and r in this order.

        An end state takes about 1/lam rounds to learn: the fewer are left, the less it counts.
        """
        k = self._n_arms
        scaled = width * deviates[:, : 2 * k + 1]
        if peak.scale_is_known:
            scaled[:, :k] *= _EARLY_SHARE
            scaled[:, k + 1 :] = deviates[:, 2 * k + 1 :]
        for one, step in zip(scaled, scaled[:, k:] @ peak.deviations[-1, k:], strict=True):
            one[:k] *= min(1.0, self._rate(peak, float(step)) * left / _WORTH_LEARNING)
        return scaled

    def _width(self, peak: LaplaceApproximation, width: float, left: int) -> float:
        """Return what deviations are multiplied by: less and less as the end comes nearer.

        As in confidence bounds for a known horizon, the logarithm of the rounds left over those
        played counts; what is learned of a slow state takes longer to pay.
        """
        spent = self.n_pulls + _LEARNING_TIME / max(self._search.values(peak.mode.theta)[2], 1e-12)
        return width * math.sqrt(math.log1p(left / spent))

    def _rate(self, peak: LaplaceApproximation, step: float) -> float:
        if self._prior.known:
            return self._prior.lam
        return from_logit(float(peak.centre[-1]) + step)
