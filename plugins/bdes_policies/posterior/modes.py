"""The modes of the posterior of (r, b, lam), given all pulls: Fisher scoring in logits.

The likelihood of every pull is explicit once (b, lam) are given, so all of them count, also those
made while the state was moving. It may have several modes in lam: scoring starts anew from several
rates as the log grows.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

import bdes_framework as bdes
from bdes_framework import (
    FitPrior,
    FloatArray,
    IntArray,
    InvalidValueError,
    PosteriorPoint,
    ScoringRules,
    fisher_scoring,
    sweep_likelihood,
)
from bdes_policies.posterior.backtracking import MAX_LOGIT

_RULES = ScoringRules(
    max_steps=8,
    tolerance=0.02,
    stop_damped=True,
    max_quiet_steps=None,
    min_damping=0.3,
    undamped_below=0.0,
    rounding=0.0,
)
_MAX_MOVE = 2.0
_MAX_EVIDENCE_GAP = 12.0
"""Modes whose evidence is this far below the best, on a log scale, are dropped."""
_RESTART_GROWTH = 4.0
_POINT_ARRAYS = ("theta", "slope", "score", "precision", "information")
_NO_STARTS: IntArray = np.empty(0, dtype=np.int64)


@frozen
class RatePrior:
    """A normal prior of logit lam, or a known lam."""

    lam: float
    """The rate itself if ``known``; otherwise the most likely one, neither 0 nor 1."""
    deviation: float
    known: bool
    starts: Sequence[float]
    """Rates to start looking for modes from."""


class Pulls(NamedTuple):
    """What is fitted: pulls of one audience, or those of many users, one after another."""

    arms: NDArray[np.signedinteger]
    rewards: NDArray[np.float32]
    starts: IntArray = _NO_STARTS
    """Where a user's pulls begin; the first pull begins anyway."""


NO_PULLS = Pulls(_NO_STARTS, np.empty(0, dtype=np.float32))


class Belief(NamedTuple):
    """What an earlier fit says of the first arms and of lam: normal in logits."""

    n_arms: int
    centre: FloatArray
    """Logits of r, b and, unless it is known, lam."""
    precision: FloatArray
    """The inverse of their covariance."""


def prior_from_fit(
    given: Path | FitPrior, n_arms: int, q0: float, lam: float | None
) -> tuple[RatePrior, Belief]:
    """Return what a fit, or the file of one, says of an instance whose first state is ``q0``.

    The fit's arms are the first of the instance. ``lam`` is the rate where it is known.

    Raises
    ------
    InvalidValueError
        If the fit has more arms, or begins at another state.
    """
    fitted = given if isinstance(given, FitPrior) else bdes.load_prior(given)
    precision: FloatArray
    k, centre, covariance = fitted.n_arms, np.array(fitted.centre), fitted.covariance
    if k > n_arms:
        raise InvalidValueError(f"the fit has {k} arms, but there are only {n_arms}")
    if not math.isclose(fitted.q0, q0, rel_tol=1e-6):
        raise InvalidValueError(
            f"the fit begins at state {fitted.q0:g}, where no number exceeds 1, but the problem at"
            f" {q0:g}: give the fit q0"
        )
    known = fitted.lam if lam is None else lam
    if known is not None:
        # A fitted rate is left out, not corrected for: if it contradicts the known one, so do r, b.
        precision = np.linalg.inv(covariance[: 2 * k, : 2 * k]).astype(np.float64)
        belief = Belief(k, centre[: 2 * k], precision)
        return RatePrior(known, 1.0, known=True, starts=(known,)), belief
    rate = 1.0 / (1.0 + math.exp(-centre[-1]))
    deviation = math.sqrt(covariance[-1, -1])
    prior = RatePrior(rate, deviation, known=False, starts=(rate,))
    precision = np.linalg.inv(covariance).astype(np.float64)
    return prior, Belief(k, centre, precision)


class Mode(NamedTuple):
    """A mode of the posterior."""

    point: PosteriorPoint
    """In logits of r, b and lam, in this order; that of a known lam is not used."""
    evidence: float
    """The logarithm of the posterior's mass around the mode, up to a constant."""


# Not by scipy.special, whose last bits are others: the arms that are played depend on them.
def logit(p: float) -> float:
    """Return the logit of a probability, at most ``MAX_LOGIT`` from 0."""
    return min(max(math.log(p) - math.log1p(-p), -MAX_LOGIT), MAX_LOGIT)


def _is_same_mode(one: PosteriorPoint, other: PosteriorPoint) -> bool:
    apart = one.theta - other.theta
    return float(apart @ other.precision @ apart) < 0.1


def _with_arm(point: PosteriorPoint, k: int) -> PosteriorPoint:
    """Return a point of ``k`` arms with one more, at logits of 0, of which nothing is known."""
    places = [k, 2 * k]

    def wide(matrix: FloatArray, own: float) -> FloatArray:
        wider = np.insert(np.insert(matrix, places, 0.0, axis=0), places, 0.0, axis=1)
        for place in (k, 2 * k + 1):
            wider[place, place] = own
        return wider

    return evolve(
        point,
        theta=np.insert(point.theta, places, 0.0),
        slope=np.insert(point.slope, places, 0.0),
        score=np.insert(point.score, places, 0.0),
        precision=wide(point.precision, 0.5),  # of uniform priors at one half: 2 p (1 - p)
        information=wide(point.information, 0.0),
    )


def _move(logits: FloatArray, step: FloatArray) -> FloatArray:
    moved = logits + np.clip(step, -_MAX_MOVE, _MAX_MOVE)
    return np.asarray(np.clip(moved, -MAX_LOGIT, MAX_LOGIT))


class ModeSearch:
    """Keeps the modes of the posterior up to date as pulls are added."""

    def __init__(
        self, n_arms: int, q0: float, prior: RatePrior, belief: Belief | None = None
    ) -> None:
        self._n_arms = n_arms
        self._q0 = q0
        self._prior = prior
        self.belief = belief
        self._centre = 0.0 if prior.known else logit(prior.lam)
        self._restart_at = 0.0
        self._pulls = NO_PULLS
        self.modes: list[Mode] = []
        """The best first."""
        self.rows_swept = 0

    def saved(self) -> tuple[dict[str, object], dict[str, FloatArray]]:
        """Return what :meth:`restore` needs, beside what this was made with."""
        numbers = {"restart_at": self._restart_at, "rows_swept": self.rows_swept}
        scalars = [(m.evidence, m.point.objective, m.point.log_likelihood) for m in self.modes]
        arrays = {"mode_scalars": np.array(scalars).reshape(-1, 3)}
        for name in _POINT_ARRAYS:
            arrays[f"mode_{name}"] = np.array([getattr(m.point, name) for m in self.modes])
        return dict(numbers), arrays

    def restore(
        self, values: Mapping[str, object], arrays: Mapping[str, NDArray[np.generic]]
    ) -> None:
        """Go on as the search that was saved; raise InvalidValueError if it was another's."""
        size = 2 * self._n_arms + 1
        restored = []
        for at, scalars in enumerate(arrays["mode_scalars"].tolist()):
            point = {name: np.array(arrays[f"mode_{name}"][at]) for name in _POINT_ARRAYS}
            if point["theta"].shape != (size,):
                raise InvalidValueError(f"the model is not one of {self._n_arms} arms")
            evidence, objective, likelihood = scalars
            restored.append(
                Mode(
                    PosteriorPoint(log_likelihood=likelihood, objective=objective, **point),
                    evidence,
                )
            )
        restart_at, rows_swept = (float(str(values[n])) for n in ("restart_at", "rows_swept"))
        self.modes, self._restart_at, self.rows_swept = restored, restart_at, int(rows_swept)

    def update(self, pulls: Pulls) -> list[Mode]:
        """Move all modes to where these pulls put them, compute their weights, and return them."""
        self._pulls = pulls
        starts = [one.point.theta for one in self.modes]
        if pulls.arms.size >= self._restart_at:
            self._restart_at = max(16.0, _RESTART_GROWTH * pulls.arms.size)
            starts += self._first_starts()
        found = sorted(map(self._climb, starts), key=lambda one: -one.evidence)
        self.modes = []
        for one in found:
            repeated = any(_is_same_mode(one.point, other.point) for other in self.modes)
            if not repeated and one.evidence > found[0].evidence - _MAX_EVIDENCE_GAP:
                self.modes.append(one)
        self._pulls = NO_PULLS  # they may be many, and are given anew the next time
        return self.modes

    def add_arm(self) -> None:
        """Look for the modes of one more arm from now on; the next update finds them.

        Until then the arm's r and b are one half, as sure as their uniform priors are.
        """
        k = self._n_arms
        self._n_arms += 1
        self.modes = [Mode(_with_arm(point, k), evidence) for point, evidence in self.modes]

    def _first_starts(self) -> list[FloatArray]:
        zeros = np.zeros(2 * self._n_arms)
        rates = [0.0 if self._prior.known else logit(lam) for lam in self._prior.starts]
        starts = [np.append(zeros, rate) for rate in rates]
        if self.belief is not None:
            starts = [np.append(zeros, self._centre)]
            starts[0][self.believed] = self.belief.centre
        return starts

    def values(self, logits: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return r, b and lam at some logits."""
        values = 1.0 / (1.0 + np.exp(-logits))
        k = self._n_arms
        lam = self._prior.lam if self._prior.known else float(values[-1])
        return values[:k], values[k : 2 * k], lam

    def _climb(self, logits: FloatArray) -> Mode:
        point = fisher_scoring(self._evaluate(logits), self._evaluate, _move, _RULES)
        _, log_volume = np.linalg.slogdet(point.precision)
        return Mode(point, point.objective - 0.5 * float(log_volume))

    def _evaluate(self, logits: FloatArray) -> PosteriorPoint:
        """Sweep the pulls once, and add the prior."""
        known = self._prior.known
        r, b, lam = self.values(logits)
        found = sweep_likelihood(*self._pulls, r, b, lam, self._q0)
        self.rows_swept += self._pulls.arms.size
        both = np.concatenate([r, b])
        slopes = np.append(both * (1 - both), 0.0 if known else lam * (1 - lam))
        information = found.information[:-1, :-1]
        slope = found.score[:-1] * slopes
        prior, score, precision = self._flat_prior(logits, both)
        if self.belief is not None:
            prior = self._replace_by_belief(self.belief, logits, score, precision)
        return PosteriorPoint(
            theta=logits,
            log_likelihood=found.value,
            objective=found.value + prior,
            slope=slope,
            score=slope + score,
            precision=information * np.outer(slopes, slopes) + precision,
            information=information,
        )

    def _flat_prior(
        self, logits: FloatArray, both: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return log-density, gradient and curvature of uniform priors of r and b.

        They keep the logits finite. That of logit lam is normal.
        """
        off = 0.0 if self._prior.known else logits[-1] - self._centre
        per_logit = 1.0 / self._prior.deviation**2
        score = np.append(1 - 2 * both, -off * per_logit)
        precision = np.diag(np.append(2 * both * (1 - both), per_logit))
        prior = float(np.log(both).sum() + np.log1p(-both).sum()) - 0.5 * off**2 * per_logit
        return prior, score, precision

    @property
    def believed(self) -> IntArray:
        """The places of what is believed among the logits."""
        assert self.belief is not None
        arms = np.arange(self.belief.n_arms)
        lam = [2 * self._n_arms] * (self.belief.centre.size % 2)
        return np.concatenate([arms, self._n_arms + arms, np.array(lam, dtype=np.int64)])

    def _replace_by_belief(
        self, belief: Belief, logits: FloatArray, score: FloatArray, precision: FloatArray
    ) -> float:
        """Put what is believed in the place of the flat prior; return the log-density."""
        places = self.believed
        off = logits[places] - belief.centre
        pull = belief.precision @ off
        score[places] = -pull
        precision[np.ix_(places, places)] = belief.precision
        others = np.setdiff1d(np.arange(logits.size - 1), places)
        flat = float(
            -np.logaddexp(0.0, logits[others]).sum() - np.logaddexp(0.0, -logits[others]).sum()
        )
        return flat - 0.5 * float(off @ pull)
