"""Errors clustered by user: the sandwich covariance, from the score sums of users.

The rewards of one user go together if users differ in ways that the model leaves out, such as how
much they respond. Arms shown at random leave the estimates right all the same, as the model of a
mean is; but they are surer than the curvature of the likelihood says only if rows are independent.
What users' scores vary by is what the sum of them varies by, whatever makes them vary.
"""

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.blocks import Rows, of_blocks
from bdes_framework.fitting.fisher_scoring import PosteriorPoint
from bdes_framework.fitting.likelihood import (
    AnyIntArray,
    move_slopes,
    paying_probability,
    restart_slopes,
)
from bdes_framework.fitting.log import Log
from bdes_framework.fitting.parametrisation import Coordinates
from bdes_framework.model.compiling import compiled

MIN_CLUSTERS = 20
"""Of fewer users, nobody can say how much they vary."""


def clustered_covariance(
    log: Log, coordinates: Coordinates, mode: PosteriorPoint, covariance: FloatArray
) -> FloatArray:
    """Return the covariance of a fit's coordinates if the rows of a user go together.

    ``covariance`` is that of independent rows, the inverse of the precision. Priors count as they
    do there: they are no user's.
    """
    users = log.n_sequences
    if users < MIN_CLUSTERS:
        raise InvalidValueError(
            f"errors clustered by user need at least {MIN_CLUSTERS} users, the log has {users}"
        )
    at, size = coordinates.instance(mode.theta), coordinates.size

    def one(block: Rows) -> FloatArray:
        found = np.zeros((2 * at.n_arms + 1, 2 * at.n_arms + 1))
        _sum_products(*block, at.r, at.b, at.lam, at.q0, found)
        return found

    products = sum(of_blocks(log, one), np.zeros((2 * at.n_arms + 1, 2 * at.n_arms + 1)))
    slopes = coordinates.jacobian(mode.theta)
    varied = slopes.T @ products[:size, :size] @ slopes
    varied -= np.outer(mode.slope, mode.slope) / users
    middle = users / (users - 1) * varied + np.diag(coordinates.prior_precision(mode.theta))
    found: FloatArray = covariance @ middle @ covariance
    return found


@compiled
def _sum_products(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    products: FloatArray,
) -> None:
    """Add up the outer products of users' scores, by r, b and lam; unknown rewards are below 0."""
    n_arms, size = r.size, products.shape[0]
    score, d = np.zeros(size), np.zeros(n_arms + 2)
    for user in range(starts.size):
        end = starts[user + 1] if user + 1 < starts.size else arms.size
        score[:] = 0.0
        restart_slopes(d)
        q = q0
        for t in range(starts[user], end):
            arm = arms[t]
            if rewards[t] >= 0:
                mu = paying_probability(r[arm], q)
                pull = (rewards[t] - mu) / (mu * (1.0 - mu))
                score[arm] += pull * q
                for j in range(n_arms + 1):
                    score[n_arms + j] += pull * r[arm] * d[j]
            change = b[arm] - q
            move_slopes(d, arm, lam, change)
            q = q + lam * change
        for i in range(size):
            if score[i] != 0.0:
                for j in range(size):
                    products[i, j] += score[i] * score[j]
