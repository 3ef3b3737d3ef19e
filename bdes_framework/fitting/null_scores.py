"""Scores of what was shown earlier against a null in which it does not matter.

The null's mean is a product of one factor per user, arm, class of visits and stratum. Its residuals
are multiplied with exposures, the discounted shares of arms in what a user was shown before, and
summed by user: the scores of B-DES with unequal end states, as :mod:`randomisation` has it.

All rates and arms are taken through the rows side by side, as neighbours in memory: a row costs
little more than a single rate would.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.model.compiling import compiled

MAX_TESTED_ARMS = 10
"""So many of the arms shown most have an exposure each; the others have one together."""
_MIN_SHARE = 0.01
_VISIT_CLASSES = 20
_MIN_CLUSTERS = 50
_HIGHEST_RATE = 0.8
_MAX_RATES = 8
_MAX_SWEEPS = 200
_MARGIN_TOLERANCE = 1e-9


class TestedRows(NamedTuple):
    """What is tested: shape (n,) each, but for ``starts``."""

    arms: IntArray
    rewards: FloatArray
    seen: NDArray[np.bool_]
    """Whether the reward is known."""
    starts: IntArray
    strata: IntArray
    levels: IntArray
    """As strata, but rewards alone may depend on them."""


# -- the null's residuals -------------------------------------------------------------------


class Frame(NamedTuple):
    """What all orders of the arms have in common."""

    groups: IntArray
    """Shape (n,): the arm shown, as one of those that have an exposure; the last is the rest."""
    shares: FloatArray
    """Shape (G,): how often each was shown."""
    residuals: FloatArray
    means: FloatArray
    """Shape (n,) each; 0 where the reward is not known."""
    starts: IntArray
    clusters: IntArray
    """Shape (n,): the user, or a part of a user where there are few."""
    cluster_users: IntArray
    cluster_residuals: FloatArray
    """Shape (C,) each."""
    codes: IntArray
    """Shape (n, 4) or less: the indicators that are 1, of arm, class of visits, stratum and level.

    From Z on, a number per column, where none is.
    """
    user_ends: IntArray
    user_codes: IntArray
    user_means: FloatArray
    """Sums of the means by user and indicator: where those of each user begin, with the end, which
    indicators they are of, and the sums."""
    user_priors: FloatArray
    """Shape (U,): how much the prior adds to the information on a user's factor."""
    cluster_scores: FloatArray
    """Shape (C, Z): sums of residuals times indicators less their user's average."""
    inverse: FloatArray
    """Shape (Z, Z): of the indicators' moments within users."""
    rates: FloatArray
    """At which states may move."""


def make_frame(rows: TestedRows) -> Frame:
    """Fit the null to rows, and return its residuals and what its estimation costs."""
    n = rows.arms.size
    lengths = np.diff(rows.starts, append=n)
    users = np.repeat(np.arange(rows.starts.size), lengths)
    visits = np.arange(n) - rows.starts[users]
    classes = _visit_classes(visits, int(lengths.max()))
    factors = [_numbered(rows.arms), classes, _numbered(rows.strata), _numbered(rows.levels)]
    means, priors = _fitted_means(users, factors, rows)
    residuals = np.where(rows.seen, rows.rewards - means, 0.0)
    codes, n_codes = _codes(factors)
    length = n if rows.starts.size >= _MIN_CLUSTERS else max(1, n // _MIN_CLUSTERS)
    _, clusters = np.unique(users * n + visits // length, return_inverse=True)
    n_clusters = int(clusters.max()) + 1
    cluster_users = np.zeros(n_clusters, np.int64)
    cluster_users[clusters] = users
    user_means = _table(users, codes, means, rows.starts.size, n_codes)
    totals = np.maximum(np.bincount(users, means) + priors, 1e-300)
    cluster_residuals: FloatArray = np.bincount(clusters, residuals).astype(np.float64)
    averages = user_means / totals[:, None]
    cluster_scores = _table(clusters, codes, residuals, n_clusters, n_codes)
    cluster_scores -= averages[cluster_users] * cluster_residuals[:, None]
    moments = _moments(codes, means, n_codes) - averages.T @ user_means
    groups = _groups(rows.arms)
    of_user, user_codes = np.nonzero(user_means)
    codes = codes[:, (codes >= 0).any(axis=0)]
    return Frame(
        groups=groups,
        shares=np.bincount(groups) / n,
        residuals=residuals,
        means=means,
        starts=rows.starts,
        clusters=clusters.astype(np.int64),
        cluster_users=cluster_users,
        cluster_residuals=cluster_residuals,
        codes=np.where(codes < 0, n_codes + np.arange(codes.shape[1]), codes),
        user_ends=np.searchsorted(of_user, np.arange(rows.starts.size + 1)),
        user_codes=user_codes,
        user_means=user_means[of_user, user_codes],
        user_priors=priors,
        cluster_scores=cluster_scores,
        inverse=np.linalg.pinv(moments, rcond=1e-9, hermitian=True).astype(np.float64),
        rates=_rates(rows.starts, n),
    )


def _numbered(values: IntArray) -> IntArray:
    _, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64)


def _visit_classes(visits: IntArray, longest: int) -> IntArray:
    """Return classes of visit numbers: fine at first, where a drift is fast."""
    edges = np.unique(np.geomspace(1, max(longest, 2), _VISIT_CLASSES).astype(np.int64))
    return _numbered(np.searchsorted(edges, visits + 1, side="right"))


def _fitted_means(
    users: IntArray, factors: list[IntArray], rows: TestedRows
) -> tuple[FloatArray, FloatArray]:
    """Return the null's means, and the information that the prior adds on each user's factor.

    Users' factors are taken to be drawn from a gamma distribution of mean 1 (Poisson-gamma), whose
    variance is estimated: by what is more than chance explains, two standard deviations included.
    Were factors free, what some users were shown more than others would tell nothing; it tells in
    which direction to look.
    """
    means, own = _product_means(users, factors, rows, np.inf)
    sums, expected = np.bincount(users, rows.rewards), np.bincount(users, means)
    by_chance = np.bincount(users, means * (1.0 - means))
    largest = by_chance.sum() + 2.0 * np.sqrt(2.0 * (by_chance**2).sum())
    excess = float(((sums - expected) ** 2).sum() - largest)
    if excess <= 0:
        return means, np.full(own.size, np.inf)
    prior = float((expected**2).sum()) / excess
    means, own = _product_means(users, factors, rows, prior)
    return means, prior * own


def _product_means(
    users: IntArray, factors: list[IntArray], rows: TestedRows, prior: float
) -> tuple[FloatArray, FloatArray]:
    """Return means that are products of factors, with the rewards' sums over each; and users'.

    Users' factors are drawn towards 1 by a prior: a number of expected rewards.
    """
    rewards, seen = rows.rewards, rows.seen
    level = float(rewards.sum()) / max(1, int(seen.sum()))
    means: FloatArray = np.where(seen, level, 0.0)
    wanted = [np.bincount(factor, rewards) for factor in factors]
    of_users = np.bincount(users, rewards)
    own: FloatArray = np.ones(of_users.size, np.float64)
    for _ in range(_MAX_SWEEPS):
        worst = 0.0
        if prior < np.inf:
            expected = np.bincount(users, means) + prior * own
            wanted_sums = of_users + prior
            ratio = np.divide(wanted_sums, expected, out=np.zeros_like(own), where=expected > 0)
            worst = float(np.abs(wanted_sums - expected).max())
            own = own * ratio
            means = means * ratio[users]
        for factor, sums in zip(factors, wanted, strict=True):
            have = np.bincount(factor, means)
            ratio = np.divide(sums, have, out=np.zeros_like(sums), where=have > 0)
            worst = max(worst, float(np.abs(sums - have).max()))
            means = means * ratio[factor]
        if worst <= _MARGIN_TOLERANCE * max(1.0, float(rewards.sum())):
            break
    return means, own


def _codes(factors: list[IntArray]) -> tuple[IntArray, int]:
    """Return the indicators of each row; all of the first factor.

    The first value of every other has none.
    """
    codes, used = np.empty((factors[0].size, len(factors)), np.int64), 0
    for place, factor in enumerate(factors):
        first = int(place > 0)
        codes[:, place] = np.where(factor >= first, factor - first + used, -1)
        used += int(factor.max()) + 1 - first
    return codes, used


def _table(
    rows: IntArray, codes: IntArray, values: FloatArray, n_rows: int, n_codes: int
) -> FloatArray:
    """Return sums of values by one number of each row and by its indicators."""
    found = np.zeros(n_rows * n_codes)
    for column in codes.T:
        some = column >= 0
        places = rows[some] * n_codes + column[some]
        found += np.bincount(places, values[some], minlength=found.size)
    return found.reshape(n_rows, n_codes)


def _moments(codes: IntArray, means: FloatArray, n_codes: int) -> FloatArray:
    found = np.zeros((n_codes, n_codes))
    for column in codes.T:
        some = column >= 0
        found += _table(column[some], codes[some], means[some], n_codes, n_codes)
    return found


def _groups(arms: IntArray) -> IntArray:
    """Number the arms shown most; the last number is that of all others, or of one of them."""
    counts = np.bincount(arms)
    often = [
        arm
        for arm in np.argsort(-counts, kind="stable").tolist()
        if counts[arm] >= max(1.0, _MIN_SHARE * arms.size)
    ][:MAX_TESTED_ARMS]
    if len(often) == int((counts > 0).sum()):
        often.pop()
    numbers = np.full(counts.size, len(often), np.int64)
    numbers[often] = np.arange(len(often))
    return numbers[arms]


def _rates(starts: IntArray, n_rows: int) -> FloatArray:
    """Return rates at which a state moves within the longest sequence."""
    longest = int(np.diff(starts, append=n_rows).max())
    least = min(max(1.0 / longest, 1e-4), _HIGHEST_RATE)
    n = min(_MAX_RATES, 1 + round(np.log2(_HIGHEST_RATE / least)))
    return np.geomspace(_HIGHEST_RATE, least, max(1, n))


# -- the statistic --------------------------------------------------------------------------


def statistics(frame: Frame, groups: IntArray) -> FloatArray:
    """Return the studentised quadratic form of the scores at every rate."""
    n_rates, n_tested = frame.rates.size, frame.shares.size - 1
    if n_tested == 0:
        return np.zeros(n_rates)
    lanes = n_rates * n_tested
    scores = np.zeros((frame.cluster_residuals.size, lanes))
    crossed = np.zeros((frame.inverse.shape[0] + frame.codes.shape[1], lanes))
    _sum_exposures(
        groups,
        np.repeat(frame.shares[:n_tested], n_rates),
        np.tile(1.0 - frame.rates, n_tested),
        frame.rates,
        frame.residuals,
        frame.means,
        frame.starts,
        frame.clusters,
        frame.cluster_residuals,
        frame.codes,
        frame.user_ends,
        frame.user_codes,
        frame.user_means,
        frame.user_priors,
        scores,
        crossed,
    )
    slopes = frame.inverse @ crossed[: frame.inverse.shape[0]]
    scores -= frame.cluster_scores @ slopes
    found = np.empty(n_rates)
    for rate in range(n_rates):
        one = np.ascontiguousarray(scores[:, rate::n_rates])
        total, covariance = one.sum(axis=0), one.T @ one
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        inverse = np.linalg.pinv(covariance / np.outer(scale, scale), rcond=1e-8, hermitian=True)
        found[rate] = (total / scale) @ inverse @ (total / scale)
    return found


@compiled
def _add(values: FloatArray, total: FloatArray) -> None:
    for j in range(values.size):
        total[j] += values[j]


@compiled
def _subtract(values: FloatArray, factor: float, total: FloatArray) -> None:
    for j in range(values.size):
        total[j] -= values[j] * factor


@compiled
def _sum_exposures(
    groups: IntArray,
    begins: FloatArray,
    kept: FloatArray,
    rates: FloatArray,
    residuals: FloatArray,
    means: FloatArray,
    starts: IntArray,
    clusters: IntArray,
    cluster_residuals: FloatArray,
    codes: IntArray,
    user_ends: IntArray,
    user_codes: IntArray,
    user_means: FloatArray,
    user_priors: FloatArray,
    scores: FloatArray,
    crossed: FloatArray,
) -> None:
    """Add up exposures times residuals, by cluster, and times means, by indicator.

    Less the user's mean of the exposures, weighted by means and drawn towards 0 by the prior.
    ``begins`` and ``kept`` have a number per lane: an arm at a rate, rates next to each other. The
    last rows of ``crossed`` take what has no indicator.
    """
    n_rates, lanes = rates.size, begins.size
    n_arms, places = lanes // n_rates, codes.shape[1]
    exposures, average, weighted = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    for user in range(starts.size):
        first = starts[user]
        end = starts[user + 1] if user + 1 < starts.size else groups.size
        weight = user_priors[user]
        for j in range(lanes):
            exposures[j], average[j] = begins[j], 0.0
        for t in range(first, end):
            residual, mean, score = residuals[t], means[t], scores[clusters[t]]
            weight += mean
            for j in range(lanes):
                exposure = exposures[j]
                score[j] += residual * exposure
                weighted[j] = mean * exposure
                exposures[j] = exposure * kept[j]
            _add(weighted, average)
            for place in range(places):
                _add(weighted, crossed[codes[t, place]])
            if groups[t] < n_arms:
                at = groups[t] * n_rates
                _add(rates, exposures[at : at + n_rates])
        for j in range(lanes):
            average[j] /= max(weight, 1e-300)
        for cluster in range(clusters[first], clusters[end - 1] + 1):
            _subtract(average, cluster_residuals[cluster], scores[cluster])
        for at in range(user_ends[user], user_ends[user + 1]):
            _subtract(average, user_means[at], crossed[user_codes[at]])
