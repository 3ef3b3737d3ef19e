"""A randomisation test of whether what was shown earlier matters: :func:`randomisation_test`.

**Null hypothesis.** A reward depends on who the user is, on how often the user came before, on the
stratum (such as the hour) and on the arm shown *now*; what was shown *earlier* moves nothing. A
drift of responsiveness towards one common end state is a case of it.

**Residuals.** The null's mean is a product of one factor per user, arm, visit number (in classes)
and stratum, fitted so that its sums over each of them are those of the rewards (iterative
proportional fitting; the estimate of a Poisson regression, which is consistent for any rewards with
such a mean). What is left, reward less mean, is what earlier arms might explain.

**Statistic.** Under B-DES, the logarithm of a mean moves with the exposures: ``w[j]``, the share of
arm j in what the user was shown before, discounted by ``1 - lam`` a visit. So residuals are
multiplied with exposures and summed: the score of B-DES with unequal end states. The covariance of
these sums is estimated from their parts, user by user, after exposures have been regressed on all
that the null allows; the statistic is the largest of the quadratic forms over a range of rates.

**Reference distribution.** If arms were assigned at random within a user (and stratum), any other
order of them was as likely. So arms are permuted there, and exposures computed anew, while rewards,
residuals and the arms that they belong to stay where they are: a permutation of the arms together
with the rewards' own arms would take the null to be that arms pay alike. Residuals depend on the
arm shown at the same time by their variance, so the test is not exact, but right in large samples;
as the statistic is studentised, that also holds approximately where arms come in runs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log import Log, checked_rows
from bdes_framework.model.compiling import compiled

MAX_TESTED_ARMS = 10
"""So many of the arms shown most have an exposure each; the others have one together."""
MAX_TESTED_ROWS = 200_000
"""Of a longer log, users are drawn until there are as many rows, the last cut to its first ones."""
_MIN_SHARE = 0.01
_VISIT_CLASSES = 20
_MIN_CLUSTERS = 50
_HIGHEST_RATE = 0.8
_MAX_RATES = 8
_MAX_SWEEPS = 200
_MARGIN_TOLERANCE = 1e-9


@frozen(eq=False)
class RandomisationTest:
    """Whether what was shown earlier matters: made by :func:`randomisation_test`.

    Parameters
    ----------
    statistic : float
        How much of the rewards the exposures explain: about a chi-square, the largest over rates.
    null_statistics : FloatArray, shape (permutations,)
        The same where arms were permuted: what it is if earlier arms move nothing.
    lam : float
        The rate at which the statistic is largest; a rough one.
    n_rows, n_users : int
        What was tested.
    n_strata : int
        Into how many strata rows were put, within users; 1 if into none.
    """

    statistic: float
    null_statistics: FloatArray
    lam: float
    n_rows: int
    n_users: int
    n_strata: int

    @property
    def p_value(self) -> float:
        """The share of orders that explain rewards as well, the log's own among them."""
        exceeded = int((self.null_statistics >= self.statistic).sum())
        return (1 + exceeded) / (1 + self.null_statistics.size)

    @property
    def p_value_error(self) -> float:
        """The standard error of the p-value, as permutations are a sample of all of them."""
        p = self.p_value
        return float(np.sqrt(p * (1 - p) / (1 + self.null_statistics.size)))

    def __str__(self) -> str:
        size = self.null_statistics.size
        strata = f" and {self.n_strata} strata" if self.n_strata > 1 else ""
        known = self.p_value > 1 / (1 + size) and self.p_value_error > 0
        error = f"±{self.p_value_error:.1g}, " if known else ""
        return f"p = {self.p_value:.2g} ({error}{size:,} permutations within users{strata})"

    def __repr__(self) -> str:
        error = f" (±{self.p_value_error:.1g})" if self.p_value_error > 0 else ""
        return shown_fields(
            "RandomisationTest",
            p_value=f"{self.p_value:.3g}{error}",
            statistic=f"{self.statistic:.4g}",
            permutations=self.null_statistics.size,
            lam=f"{self.lam:.3g}",
            n_rows=self.n_rows,
            n_users=self.n_users,
            n_strata=self.n_strata,
        )


@one_thread()
def randomisation_test(
    log: Log,
    *,
    permutations: int = 400,
    strata: Sequence[int] | NDArray[np.signedinteger[Any]] | None = None,
    seed: Seed = 0,
    on_progress: Callable[[float], None] | None = None,
) -> RandomisationTest:
    """Test whether what was shown earlier matters, by permuting arms within users.

    Under the null hypothesis arms may pay differently, users may differ, and responsiveness may
    change with visits and strata; but no reward depends on what was shown before. The test needs
    arms that were assigned at random: within a user (and stratum) independently of the rewards so
    far. A learner's log is none.

    Parameters
    ----------
    log : Log
        Arms and rewards of users. Of more than 200,000 rows, as many are tested: those of users
        drawn at random, the last of whom is cut to its first rows, as one long sequence is.
    permutations : int
        How many orders to draw. The smallest p-value is 1 over one more.
    strata : Sequence[int] | IntArray | None
        A number per row: arms are permuted among the rows of a user that have the same one, such
        as the hour or the day of the week, if shares of arms or rewards depend on it. By default
        the strata of the log, if it has them.
    seed : Seed
        What permutations are drawn from.
    on_progress : Callable | None
        Called after each permutation with the part of them that is done, from 0 to 1.

    Examples
    --------
    >>> from bdes_framework import Instance
    >>> ads = Instance(r=[0.8, 0.3], b=[0.2, 1.0], lam=0.1)
    >>> rng = np.random.default_rng(1)
    >>> arms = rng.integers(0, 2, (100, 50))
    >>> clicks = np.concatenate([rng.random(50) < ads.expected_rewards(shown) for shown in arms])
    >>> log = Log(arms.ravel(), clicks, starts=range(0, 5000, 50))
    >>> print(randomisation_test(log, permutations=200))
    p = 0.005 (200 permutations within users)
    """
    as_integer(permutations, "permutations", 1)
    rng = generator(branch(seed, "randomisation test"))
    rows = _tested_rows(log, _as_strata(log, strata), rng)
    frame = _frame(rows)
    rates = _rates(rows.starts, rows.arms.size)
    observed = _statistics(frame, frame.groups, rates)
    null = np.empty(permutations)
    for draw in range(permutations):
        shuffled = frame.groups[frame.order]
        _shuffle(shuffled, frame.blocks, rng.random(shuffled.size))
        groups = np.empty_like(shuffled)
        groups[frame.order] = shuffled
        null[draw] = _statistics(frame, groups, rates).max()
        if on_progress is not None:
            on_progress((draw + 1) / permutations)
    best = int(observed.argmax())
    n_strata = int(np.unique(rows.strata).size)
    sizes = rows.arms.size, rows.starts.size, n_strata
    return RandomisationTest(float(observed[best]), null, float(rates[best]), *sizes)


# -- rows -----------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """What is tested: shape (n,) each, but for ``starts``."""

    arms: IntArray
    rewards: FloatArray
    seen: NDArray[np.bool_]
    """Whether the reward is known."""
    starts: IntArray
    strata: IntArray


def _as_strata(log: Log, strata: Sequence[int] | NDArray[np.signedinteger[Any]] | None) -> IntArray:
    if strata is None:
        strata = np.zeros(log.n_rows, np.int64) if log.strata is None else log.strata
    found = checked_rows("strata", strata, "iu", np.iinfo(np.int64).max)
    if found.size != log.n_rows:
        raise InvalidValueError(f"need one stratum per row, got {found.size} for {log.n_rows}")
    _, numbers = np.unique(found, return_inverse=True)
    return numbers.astype(np.int64)


def _tested_rows(log: Log, strata: IntArray, rng: np.random.Generator) -> _Rows:
    """Return all rows, or those of users drawn until there are enough, the last one cut."""
    chosen: slice | IntArray = slice(None)
    starts = log.starts
    lengths = np.diff(starts, append=log.n_rows)
    if log.n_rows > MAX_TESTED_ROWS:
        users = rng.permutation(starts.size)
        ends = np.cumsum(lengths[users])
        n = 1 + int(np.searchsorted(ends, MAX_TESTED_ROWS))
        lengths[users[n - 1]] -= ends[n - 1] - MAX_TESTED_ROWS
        users = np.sort(users[:n])
        lengths = lengths[users]
        chosen = np.concatenate(
            [
                np.arange(starts[user], starts[user] + length)
                for user, length in zip(users, lengths, strict=True)
            ]
        )
        starts = np.cumsum(lengths) - lengths
    seen, arms = log.known[chosen], log.arms[chosen].astype(np.int64)
    rewards = np.where(seen, log.rewards[chosen], 0.0)
    return _Rows(arms, rewards, seen, starts, strata[chosen])


# -- the null's residuals -------------------------------------------------------------------


class _Frame(NamedTuple):
    """What all permutations have in common."""

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
    """Shape (n, 3): the indicators that are 1: of arm, class of visits and stratum; or -1."""
    user_means: FloatArray
    """Shape (U, Z): sums of the means by user and indicator."""
    cluster_scores: FloatArray
    """Shape (C, Z): sums of residuals times indicators less their user's average."""
    inverse: FloatArray
    """Shape (Z, Z): of the indicators' moments within users."""
    order: IntArray
    blocks: IntArray
    """Rows by user and stratum, and where each such block begins, with the end."""


def _frame(rows: _Rows) -> _Frame:
    n = rows.arms.size
    lengths = np.diff(rows.starts, append=n)
    users = np.repeat(np.arange(rows.starts.size), lengths)
    visits = np.arange(n) - rows.starts[users]
    classes = _visit_classes(visits, int(lengths.max()))
    factors = [users, _numbered(rows.arms), classes, _numbered(rows.strata)]
    means = _product_means(factors, rows.rewards, rows.seen)
    residuals = np.where(rows.seen, rows.rewards - means, 0.0)
    codes, n_codes = _codes(factors[1:])
    length = n if rows.starts.size >= _MIN_CLUSTERS else max(1, n // _MIN_CLUSTERS)
    _, clusters = np.unique(users * n + visits // length, return_inverse=True)
    n_clusters = int(clusters.max()) + 1
    cluster_users = np.zeros(n_clusters, np.int64)
    cluster_users[clusters] = users
    user_means = _table(users, codes, means, rows.starts.size, n_codes)
    totals = np.maximum(np.bincount(users, means), 1e-300)
    cluster_residuals: FloatArray = np.bincount(clusters, residuals).astype(np.float64)
    averages = user_means / totals[:, None]
    cluster_scores = _table(clusters, codes, residuals, n_clusters, n_codes)
    cluster_scores -= averages[cluster_users] * cluster_residuals[:, None]
    moments = _moments(codes, means, n_codes) - averages.T @ user_means
    groups = _groups(rows.arms)
    order = np.lexsort((rows.strata, users))
    block = users[order] * (int(rows.strata.max()) + 1) + rows.strata[order]
    blocks = np.append(np.flatnonzero(np.diff(block, prepend=-1)), n)
    return _Frame(
        groups=groups,
        shares=np.bincount(groups) / n,
        residuals=residuals,
        means=means,
        starts=rows.starts,
        clusters=clusters.astype(np.int64),
        cluster_users=cluster_users,
        cluster_residuals=cluster_residuals,
        codes=codes,
        user_means=user_means,
        cluster_scores=cluster_scores,
        inverse=np.linalg.pinv(moments, rcond=1e-9, hermitian=True).astype(np.float64),
        order=order,
        blocks=blocks,
    )


def _numbered(values: IntArray) -> IntArray:
    _, numbers = np.unique(values, return_inverse=True)
    return numbers.astype(np.int64)


def _visit_classes(visits: IntArray, longest: int) -> IntArray:
    """Return classes of visit numbers: fine at first, where a drift is fast."""
    edges = np.unique(np.geomspace(1, max(longest, 2), _VISIT_CLASSES).astype(np.int64))
    return _numbered(np.searchsorted(edges, visits + 1, side="right"))


def _product_means(
    factors: list[IntArray], rewards: FloatArray, seen: NDArray[np.bool_]
) -> FloatArray:
    """Return means that are products of factors, with the rewards' sums over each of them."""
    means: FloatArray = np.where(seen, float(rewards.sum()) / max(1, int(seen.sum())), 0.0)
    wanted = [np.bincount(factor, rewards) for factor in factors]
    for _ in range(_MAX_SWEEPS):
        worst = 0.0
        for factor, sums in zip(factors, wanted, strict=True):
            have = np.bincount(factor, means)
            ratio = np.divide(sums, have, out=np.zeros_like(sums), where=have > 0)
            worst = max(worst, float(np.abs(sums - have).max()))
            means = means * ratio[factor]
        if worst <= _MARGIN_TOLERANCE * max(1.0, float(rewards.sum())):
            break
    return means


def _codes(factors: list[IntArray]) -> tuple[IntArray, int]:
    """Return the indicators of each row; the first value of every factor has none."""
    codes, used = np.empty((factors[0].size, len(factors)), np.int64), 0
    for place, factor in enumerate(factors):
        codes[:, place] = np.where(factor > 0, factor - 1 + used, -1)
        used += int(factor.max())
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


def _statistics(frame: _Frame, groups: IntArray, rates: FloatArray) -> FloatArray:
    """Return the studentised quadratic form of the scores at every rate."""
    n_tested = frame.shares.size - 1
    found = np.zeros(rates.size)
    if n_tested == 0:
        return found
    scores = np.empty((frame.cluster_users.size, n_tested))
    for place, rate in enumerate(rates.tolist()):
        _score_clusters(
            groups,
            frame.shares,
            frame.residuals,
            frame.means,
            frame.starts,
            frame.clusters,
            frame.cluster_users,
            frame.cluster_residuals,
            frame.codes,
            frame.user_means,
            frame.cluster_scores,
            frame.inverse,
            rate,
            scores,
        )
        total, covariance = scores.sum(axis=0), scores.T @ scores
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        inverse = np.linalg.pinv(covariance / np.outer(scale, scale), rcond=1e-8, hermitian=True)
        found[place] = (total / scale) @ inverse @ (total / scale)
    return found


@compiled
def _shuffle(values: IntArray, blocks: IntArray, uniforms: FloatArray) -> None:
    """Shuffle the values of every block (Fisher and Yates)."""
    for block in range(blocks.size - 1):
        first = blocks[block]
        for last in range(blocks[block + 1] - 1, first, -1):
            other = first + int(uniforms[last] * (last - first + 1))
            values[last], values[other] = values[other], values[last]


@compiled
def _sum_user(
    first: int,
    end: int,
    rate: float,
    groups: IntArray,
    residuals: FloatArray,
    means: FloatArray,
    clusters: IntArray,
    codes: IntArray,
    exposures: FloatArray,
    average: FloatArray,
    crossed: FloatArray,
    scores: FloatArray,
) -> None:
    """Sum a user's exposures, times residuals and means; ``average`` is their weighted mean."""
    n_tested, weight = exposures.size, 0.0
    weighted = np.empty(n_tested)
    for t in range(first, end):
        residual, mean = residuals[t], means[t]
        weight += mean
        score = scores[clusters[t]]
        for j in range(n_tested):
            score[j] += residual * exposures[j]
            weighted[j] = mean * exposures[j]
            average[j] += weighted[j]
            exposures[j] *= 1.0 - rate
        for place in range(codes.shape[1]):
            if codes[t, place] >= 0:
                row = crossed[codes[t, place]]
                for j in range(n_tested):
                    row[j] += weighted[j]
        if groups[t] < n_tested:
            exposures[groups[t]] += rate
    for j in range(n_tested):
        average[j] /= max(weight, 1e-300)


@compiled
def _subtract_explained(
    crossed: FloatArray,
    inverse: FloatArray,
    averages: FloatArray,
    cluster_users: IntArray,
    cluster_residuals: FloatArray,
    cluster_scores: FloatArray,
    scores: FloatArray,
) -> None:
    """Take from each cluster's score what users' averages and the indicators explain."""
    n_codes, n_tested = crossed.shape
    slopes = np.zeros((n_codes, n_tested))
    for code in range(n_codes):
        for other in range(n_codes):
            for j in range(n_tested):
                slopes[code, j] += inverse[code, other] * crossed[other, j]
    for cluster in range(cluster_users.size):
        average = averages[cluster_users[cluster]]
        for j in range(n_tested):
            explained = average[j] * cluster_residuals[cluster]
            for code in range(n_codes):
                explained += slopes[code, j] * cluster_scores[cluster, code]
            scores[cluster, j] -= explained


@compiled
def _score_clusters(
    groups: IntArray,
    shares: FloatArray,
    residuals: FloatArray,
    means: FloatArray,
    starts: IntArray,
    clusters: IntArray,
    cluster_users: IntArray,
    cluster_residuals: FloatArray,
    codes: IntArray,
    user_means: FloatArray,
    cluster_scores: FloatArray,
    inverse: FloatArray,
    rate: float,
    scores: FloatArray,
) -> None:
    """Fill in each cluster's sum of residuals times exposures, less what the null explains."""
    n_users, n_tested, n_codes = starts.size, shares.size - 1, inverse.shape[0]
    averages, crossed = np.zeros((n_users, n_tested)), np.zeros((n_codes, n_tested))
    exposures = np.empty(n_tested)
    scores[:] = 0.0
    for user in range(n_users):
        end = starts[user + 1] if user + 1 < n_users else groups.size
        for j in range(n_tested):
            exposures[j] = shares[j]
        average = averages[user]
        _sum_user(
            starts[user],
            end,
            rate,
            groups,
            residuals,
            means,
            clusters,
            codes,
            exposures,
            average,
            crossed,
            scores,
        )
        for code in range(n_codes):
            for j in range(n_tested):
                crossed[code, j] -= average[j] * user_means[user, code]
    _subtract_explained(
        crossed, inverse, averages, cluster_users, cluster_residuals, cluster_scores, scores
    )
