"""Users who differ by a multiplier: a random effect, fitted by marginal likelihood.

User u is paid with the probability ``f[u] * r[arm] * q``, kept below 1 smoothly, where log f[u] is
normal with deviation sigma and f has the mean 1, so that r means what it meant: what an arm pays on
average over users.
The likelihood of a user is an integral over f, taken by Gauss-Hermite quadrature around its
highest point (adaptive; of nine nodes it is exact to many digits). Its gradient is the
expected gradient under the user's posterior of f; the information is the sum of the products of
users' gradients, which covered better than measured curvature where users were few.
"""

import math
from typing import NamedTuple

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.distributions import normal_quantile
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.blocks import Rows, of_blocks, summed_likelihood
from bdes_framework.fitting.clustered import MIN_CLUSTERS
from bdes_framework.fitting.fisher_scoring import PosteriorPoint, ScoringRules, fisher_scoring
from bdes_framework.fitting.likelihood import (
    MIN_PROBABILITY,
    AnyIntArray,
    Likelihood,
    move_slopes,
    restart_slopes,
)
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import Coordinates
from bdes_framework.model.compiling import compiled

_N_NODES = 9
_EXACT = 0.25
"""Means below it are probabilities as they are, to ten digits."""
_MAX_MEAN = 5.0
"""Beyond it a float could not tell the probability from 1."""
_NEWTON_STEPS = 30
_START = 0.3
_DEVIATION = 2.0
"""The prior of log(sigma): normal around log(0.3), so that sigma is from 0.006 to 16 in 95 of 100
cases."""
_MAX_MOVE = 2.0
_RULES = ScoringRules(max_steps=60, tolerance=1e-5)


class MultiplierFit(NamedTuple):
    """Estimates where users differ by a multiplier."""

    theta: FloatArray
    """The coordinates of r, b and lam."""
    precision: FloatArray
    """Of these coordinates and log(sigma)."""
    sigma: float
    """The standard deviation of log f."""
    sigma_interval: tuple[float, float]


def fit_multiplier(log: Log, coordinates: Coordinates, mode: PosteriorPoint) -> MultiplierFit:
    """Fit r, b, lam and sigma, from the mode of a fit to users who are alike."""
    users = log.n_sequences
    if users < MIN_CLUSTERS:
        raise InvalidValueError(
            f"a multiplier per user needs at least {MIN_CLUSTERS} users, the log has {users}"
        )

    def evaluate(theta: FloatArray) -> PosteriorPoint:
        return _point_at(log, coordinates, theta)

    def move(theta: FloatArray, step: FloatArray) -> FloatArray:
        step *= min(1.0, _MAX_MOVE / max(float(np.abs(step).max()), 1e-300))
        return np.append(coordinates.moved(theta[:-1], step[:-1]), theta[-1] + step[-1])

    start = evaluate(np.append(mode.theta, np.log(_START)))
    found = fisher_scoring(start, evaluate, move, _RULES)
    precision = found.precision
    variance = float(np.linalg.pinv(precision, hermitian=True)[-1, -1])
    # Where the spread is next to 0 its logarithm has no bottom: no surer than the prior.
    error = np.sqrt(variance) if 0 < variance < _DEVIATION**2 else _DEVIATION
    reach = normal_quantile(0.975) * float(error)
    low, sigma, high = np.exp(found.theta[-1] + np.array([-reach, 0.0, reach]))
    return MultiplierFit(found.theta[:-1], precision, float(sigma), (float(low), float(high)))


def _point_at(log: Log, coordinates: Coordinates, theta: FloatArray) -> PosteriorPoint:
    at, size = coordinates.instance(theta[:-1]), coordinates.size
    sigma = float(np.exp(theta[-1]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    log_weights = np.log(weights) + nodes**2 / 2 - np.log(2 * np.pi) / 2
    n, longest = 2 * at.n_arms + 2, log.longest

    def one(block: Rows) -> Likelihood:
        own, squares = np.zeros(n), np.zeros((n, n))
        r, b, means = at.r, at.b, np.empty(longest)
        at_sigma = sigma, nodes, log_weights
        found = _sweep_users(*block, r, b, at.lam, at.q0, *at_sigma, means, own, squares)
        return Likelihood(found, own, squares)

    value, score, products = summed_likelihood(of_blocks(log, one))
    slopes = np.zeros((score.size, size + 1))
    slopes[:size, :size] = coordinates.jacobian(theta[:-1])
    slopes[-1, -1] = sigma
    kept = [*range(size), score.size - 1]
    slope = score[kept] @ slopes[kept]
    information = slopes[kept].T @ products[np.ix_(kept, kept)] @ slopes[kept]
    away = (theta[-1] - np.log(_START)) / _DEVIATION
    prior_score = np.append(coordinates.prior_score(theta[:-1]), -away / _DEVIATION)
    prior_precision = np.append(coordinates.prior_precision(theta[:-1]), _DEVIATION**-2)
    return PosteriorPoint(
        theta=theta,
        log_likelihood=value,
        objective=value + coordinates.log_prior(theta[:-1]) - away**2 / 2,
        slope=slope,
        score=slope + prior_score,
        precision=information + np.diag(prior_precision),
        information=information,
    )


@compiled
def saturated(mean: float) -> tuple[float, float]:
    """Return a probability for a mean that may exceed 1, and d log(probability) / d log(mean).

    It is ``mean * (1 + mean**16) ** (-1/16)``: the mean itself below 0.7, and smoothly below 1.
    """
    if mean < _EXACT:
        return mean, 1.0
    square = mean * mean
    fourth = square * square
    eighth = fourth * fourth
    over = 1.0 + eighth * eighth
    return mean / math.sqrt(math.sqrt(math.sqrt(math.sqrt(over)))), 1.0 / over


@compiled
def _user_value(
    means: FloatArray, paid: FloatArray, n: int, sigma: float, z: float
) -> tuple[float, float, float]:
    """Return the log-likelihood of a user's rows at f = exp(sigma z - sigma²/2).

    The standard normal density of z included, but for its constant; with the derivative of the
    likelihood by log f, and minus the curvature of it all by z.
    """
    f = math.exp(sigma * z - sigma * sigma / 2.0)
    value, slope, curvature = -z * z / 2.0, 0.0, 0.0
    for t in range(n):
        mean, free = saturated(min(f * means[t], _MAX_MEAN))
        if paid[t] > 0.0:
            value += math.log(mean)
            slope += free
            curvature += 16.0 * free * (1.0 - free)
        else:
            value += math.log(1.0 - mean)
            odds = mean / (1.0 - mean)
            slope -= odds * free
            curvature += odds * free * (free * (1.0 + odds) - 16.0 * (1.0 - free))
    return value, slope, 1.0 + sigma * sigma * max(curvature, 0.0)


@compiled
def _likeliest(means: FloatArray, paid: FloatArray, n: int, sigma: float) -> tuple[float, float]:
    """Return the z at which a user's rows are likeliest, and the deviation of z around it."""
    z = 0.0
    value, slope, curvature = _user_value(means, paid, n, sigma, z)
    for _ in range(_NEWTON_STEPS):
        step = (sigma * slope - z) / curvature
        further = z + min(max(step, -1.0), 1.0)
        found = _user_value(means, paid, n, sigma, further)
        while found[0] < value - 1e-12 and abs(further - z) > 1e-9:
            further = (z + further) / 2.0
            found = _user_value(means, paid, n, sigma, further)
        moved = abs(further - z)
        z, value, slope, curvature = further, found[0], found[1], found[2]
        if moved < 1e-8:
            break
    return z, 1.0 / math.sqrt(curvature)


@compiled
def _row_factor(mean: float, paid: float, factors: FloatArray, shares: FloatArray) -> float:
    """Return the expected derivative of a row's log-likelihood by its mean at f = 1."""
    total = 0.0
    for k in range(factors.size):
        scaled, free = saturated(min(factors[k] * mean, _MAX_MEAN))
        pull = 1.0 if paid > 0.0 else -scaled / (1.0 - scaled)
        total += shares[k] * pull * free / mean
    return total


@compiled
def _sweep_users(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    sigma: float,
    nodes: FloatArray,
    log_weights: FloatArray,
    means: FloatArray,
    score: FloatArray,
    products: FloatArray,
) -> float:
    """Add users' scores, by r, b, lam and sigma, and their products; return the log-likelihood.

    ``means`` is room for the rows of one user. Unknown rewards are below 0.
    """
    paid, own, d = np.empty(means.size), np.empty(score.size), np.zeros(r.size + 2)
    factors, shares, slopes = np.empty(nodes.size), np.empty(nodes.size), np.empty(nodes.size)
    total = 0.0
    for user in range(starts.size):
        first = starts[user]
        end = starts[user + 1] if user + 1 < starts.size else arms.size
        q, n = q0, 0
        for t in range(first, end):
            if rewards[t] >= 0:
                means[n] = max(r[arms[t]] * q, MIN_PROBABILITY)
                paid[n] = rewards[t]
                n += 1
            q += lam * (b[arms[t]] - q)
        own[:] = 0.0
        total += _add_spread(
            means, paid, n, sigma, nodes, log_weights, factors, shares, slopes, own
        )
        _add_rows(arms, rewards, first, end, r, b, lam, q0, means, factors, shares, d, own)
        for i in range(own.size):
            score[i] += own[i]
            for j in range(own.size):
                products[i, j] += own[i] * own[j]
    return total


@compiled
def _add_spread(
    means: FloatArray,
    paid: FloatArray,
    n: int,
    sigma: float,
    nodes: FloatArray,
    log_weights: FloatArray,
    factors: FloatArray,
    shares: FloatArray,
    slopes: FloatArray,
    own: FloatArray,
) -> float:
    """Return a user's log-likelihood; fill in f and its posterior, and the derivative by sigma."""
    z, deviation = _likeliest(means, paid, n, sigma)
    highest = -math.inf
    for k in range(nodes.size):
        at = z + deviation * nodes[k]
        factors[k] = math.exp(sigma * at - sigma * sigma / 2.0)
        found = _user_value(means, paid, n, sigma, at)
        shares[k] = found[0] + log_weights[k]
        slopes[k] = found[1] * (at - sigma)
        highest = max(highest, shares[k])
    total = 0.0
    for k in range(nodes.size):
        shares[k] = math.exp(shares[k] - highest)
        total += shares[k]
    for k in range(nodes.size):
        shares[k] /= total
        own[own.size - 1] += shares[k] * slopes[k]
    return highest + math.log(total * deviation)


@compiled
def _add_rows(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    first: int,
    end: int,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    means: FloatArray,
    factors: FloatArray,
    shares: FloatArray,
    d: FloatArray,
    own: FloatArray,
) -> None:
    """Add the derivatives of a user's log-likelihood by r, b and lam."""
    restart_slopes(d)
    q, n, n_arms = q0, 0, r.size
    for t in range(first, end):
        arm = arms[t]
        if rewards[t] >= 0:
            by_mean = _row_factor(means[n], float(rewards[t]), factors, shares)
            own[arm] += by_mean * q
            for j in range(n_arms + 1):
                own[n_arms + j] += by_mean * r[arm] * d[j]
            n += 1
        change = b[arm] - q
        move_slopes(d, arm, lam, change)
        q += lam * change
