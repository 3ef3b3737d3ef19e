"""A randomisation test of whether what was shown earlier matters: :func:`randomisation_test`.

**Null hypothesis.** A reward depends on who the user is, on how often the user came before, on the
stratum (such as the hour) and on the arm shown *now*; what was shown *earlier* moves nothing. A
drift of responsiveness towards one common end state is a case of it.

**Residuals.** The null's mean is a product of one factor per user, arm, visit number (in classes)
and stratum, fitted so that its sums over each of them are those of the rewards (iterative
proportional fitting; the estimate of a Poisson regression, which is consistent for any rewards with
such a mean). Users' factors are drawn towards 1 by as much as they seem to be alike. What is left,
reward less mean, is what earlier arms might explain.

**Statistic.** Under B-DES, the logarithm of a mean moves with the exposures: ``w[j]``, the share of
arm j in what the user was shown before, discounted by ``1 - lam`` a visit. So residuals are
multiplied with exposures and summed: the score of B-DES with unequal end states. The covariance of
these sums is estimated from their parts, user by user, after exposures have been regressed on all
that the null allows; the statistic is the mean of the quadratic forms over a range of rates, which
found more than the largest of them (Andrews and Ploberger, Econometrica 62, 1994, with c = 0).

**Reference distribution.** If arms were assigned at random within a user (and stratum), any other
order of them was as likely. So arms are permuted there, and exposures computed anew, while rewards,
residuals and the arms that they belong to stay where they are: a permutation of the arms together
with the rewards' own arms would take the null to be that arms pay alike. Where propensities are
known, they say which visits can be exchanged, see :mod:`exchange`. Residuals depend on the arm
shown at the same time by their variance, so the test is not exact, but right in large samples; as
the statistic is studentised, that also holds approximately where arms come in runs.

**Power.** That some users were shown an arm more often than others is the same in all orders, and
moves the scores of the log and of every permutation alike. It cannot raise an alarm, but where it
moves them as the order of arms does, it tells in which direction to look.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.blocks import map_on_threads, sweeping_threads
from bdes_framework.fitting.exchange import (
    ExchangeBlocks,
    blocks_of_users,
    exchange_blocks,
    in_blocks,
)
from bdes_framework.fitting.log import Log, checked_rows
from bdes_framework.fitting.null_scores import TestedRows, make_frame, statistics
from bdes_framework.model.compiling import compiled

MAX_TESTED_ROWS = 200_000
"""Of a longer log, users are drawn until there are as many rows, the last cut to its first ones."""


@frozen(eq=False)
class RandomisationTest:
    """Whether what was shown earlier matters: made by :func:`randomisation_test`.

    Parameters
    ----------
    statistic : float
        How much of the rewards the exposures explain: about a chi-square, averaged over rates.
    null_statistics : FloatArray, shape (permutations,)
        The same where arms were permuted: what it is if earlier arms move nothing.
    lam : float
        The rate at which they explain most; a rough one.
    n_rows, n_users : int
        What was tested.
    n_strata : int
        Into how many strata rows were put, within users; 1 if into none.
    exchanged : float
        The share of rows that could be exchanged with some that show another arm, of those that
        could be if propensities were not known: less than 1 where they change from row to row.
    between_users : bool
        Whether arms were permuted between users too, as propensities were the same for all.
    """

    statistic: float
    null_statistics: FloatArray
    lam: float
    n_rows: int
    n_users: int
    n_strata: int
    exchanged: float = 1.0
    between_users: bool = False

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
        where = "among visits of the same chances" if self.between_users else "within users"
        return f"p = {self.p_value:.2g} ({error}{size:,} permutations {where}{strata})"

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
    threads: int = 1,
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
    threads : int
        On how many threads. The numbers are the same, to the last bit.
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
    root = branch(seed, "randomisation test")
    rows, exchanged = _tested_rows(log, _as_strata(log, strata), generator(root))
    frame, n = make_frame(rows), rows.arms.size
    observed, blocks = statistics(frame, frame.groups), in_blocks(exchanged.blocks)

    def one(draw: int) -> float:
        uniforms = generator(branch(root, draw)).random(n)
        return float(statistics(frame, _permuted(frame.groups, *blocks, uniforms)).mean())

    null = np.empty(permutations)
    with sweeping_threads(as_integer(threads, "threads", 1)):
        for draw, found in enumerate(map_on_threads(one, range(permutations))):
            null[draw] = found
            if on_progress is not None:
                on_progress((draw + 1) / permutations)
    rate = float(frame.rates[observed.argmax()])
    n_strata = int(np.unique(rows.strata).size)
    sizes = n, rows.starts.size, n_strata
    how = exchanged.share(frame.groups), exchanged.between_users
    return RandomisationTest(float(observed.mean()), null, rate, *sizes, *how)


# -- rows -----------------------------------------------------------------------------------


def _as_strata(log: Log, strata: Sequence[int] | NDArray[np.signedinteger[Any]] | None) -> IntArray:
    if strata is None:
        strata = np.zeros(log.n_rows, np.int64) if log.strata is None else log.strata
    found = checked_rows("strata", strata, "iu", np.iinfo(np.int64).max)
    if found.size != log.n_rows:
        raise InvalidValueError(f"need one stratum per row, got {found.size} for {log.n_rows}")
    _, numbers = np.unique(found, return_inverse=True)
    return numbers.astype(np.int64)


def _tested_rows(
    log: Log, strata: IntArray, rng: np.random.Generator
) -> tuple[TestedRows, ExchangeBlocks]:
    """Return rows, and the blocks within which they may be exchanged.

    All rows, or those of users drawn until there are enough, the last one cut.
    """
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
    rewards, strata = np.where(seen, log.rewards[chosen], 0.0), strata[chosen]
    users = np.repeat(np.arange(starts.size), np.diff(starts, append=arms.size))
    if log.propensities is None:
        exchanged = blocks_of_users(users, strata)
    else:
        exchanged = exchange_blocks(arms, log.propensities[chosen], users, strata)
    return TestedRows(arms, rewards, seen, starts, strata, exchanged.levels), exchanged


# -- permutations ---------------------------------------------------------------------------


@compiled
def _permuted(
    values: IntArray, order: IntArray, blocks: IntArray, uniforms: FloatArray
) -> IntArray:
    """Return values that are shuffled within blocks of rows (Fisher and Yates)."""
    found = values.copy()
    for block in range(blocks.size - 1):
        first = blocks[block]
        for last in range(blocks[block + 1] - 1, first, -1):
            other = first + int(uniforms[last] * (last - first + 1))
            here, there = order[last], order[other]
            found[here], found[there] = found[there], found[here]
    return found
