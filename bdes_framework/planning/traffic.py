"""What arms earn on the visits of users, under many instances at once: compiled sums."""

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.likelihood import AnyIntArray
from bdes_framework.fitting.log import Log
from bdes_framework.model.compiling import compiled
from bdes_framework.model.instance import Instance

MAX_VISITS = 1_000_000
"""Visits of one user beyond so many are left out."""
_NEGLIGIBLE = 1e-9
_MOST_BEYOND = 10
"""No more visits per user are concluded than so many times those of the longest user."""
_MAX_WORK = 2e9
"""Visits times instances, of which a core plays about a thousand million a second."""


@frozen(eq=False)
class Instances:
    """Several instances of the same arms, as arrays that a sweep reads; all begin at one state.

    Parameters
    ----------
    r, b : FloatArray, shape (K, n)
        A column per instance.
    lam : FloatArray, shape (n,)
        Their rates.
    q0 : float
        The state at the first visit.
    """

    r: FloatArray
    b: FloatArray
    lam: FloatArray
    q0: float

    @classmethod
    def of(cls, instances: Sequence[Instance]) -> "Instances":
        """Return instances as arrays."""
        r = np.ascontiguousarray(np.array([one.r for one in instances]).T)
        b = np.ascontiguousarray(np.array([one.b for one in instances]).T)
        return cls(r, b, np.array([one.lam for one in instances]), instances[0].q0)

    def totals(self, arms: AnyIntArray, weights: FloatArray) -> FloatArray:
        """Return what a user who is shown these arms brings under each: shape (n,).

        ``weights`` say how much each visit counts.
        """
        found = np.zeros(self.lam.size)
        _sum_weighted(arms, weights, self.r, self.b, self.lam, self.q0, found)
        return found


def visit_weights(log: Log, most: int) -> FloatArray:
    """Return how many users made a first, a second, ... visit: at most ``most`` of them."""
    lengths = np.minimum(visits_of(log), min(most, MAX_VISITS))
    made = np.bincount(lengths)
    weights: FloatArray = np.cumsum(made[::-1])[::-1][1:].astype(np.float64)
    return weights


def visits_of(log: Log) -> IntArray:
    """Return how many visits each user of a log made: shape (users,)."""
    lengths: IntArray = np.diff(log.starts, append=log.n_rows)
    return lengths


def leaving_weights(continuation: float) -> FloatArray:
    """Return how probable a first, a second, ... visit is, down to next to nothing."""
    if continuation <= 0:
        return np.ones(1)
    n = min(np.log(_NEGLIGIBLE) / np.log(continuation), MAX_VISITS)
    return np.power(continuation, np.arange(max(int(n), 1), dtype=np.float64))


def today_totals(log: Log, instances: Instances, centre: Instance, most: int) -> FloatArray:
    """Return what the users of a log are expected to bring under each instance: shape (n,).

    Of each user, the first ``most`` visits count. Of a log that is too large to be played under
    every instance, a part is, evenly spread over the users; how much it brings beside ``centre``
    is taken for all, of whom centre alone is played on every row.
    """
    most = min(most, MAX_VISITS)
    n_rows = float(np.minimum(visits_of(log), most).sum())
    size = instances.lam.size
    if n_rows * size <= _MAX_WORK:
        return _today(log, instances, most, 1)
    every = int(np.ceil(n_rows * size / _MAX_WORK))
    one = Instances.of([centre])
    here = _today(log, one, most, 1)[0]
    if log.n_sequences < 2 * every:  # a few long ones: their beginnings
        log, every = log.first(int(_MAX_WORK / size)), 1
    part = _today(log, one, most, every)[0]
    return _today(log, instances, most, every) * (here / part if part > 0 else 0.0)


def _today(log: Log, instances: Instances, most: int, every: int) -> FloatArray:
    at = instances
    found = np.zeros(at.lam.size)
    _sum_shown(log.arms, log.starts, most, every, at.r, at.b, at.lam, at.q0, found)
    return found


def estimate_continuation(log: Log) -> float:
    """Return the probability that a user comes back after a visit, as a log shows it.

    Users with the most visits of all say nothing of when they leave: the log may just end there.
    So with ``m`` visits at most, it is the largest likelihood of leaving after every visit with
    the same probability, of visits that were cut at ``m``.

    Raises
    ------
    InvalidValueError
        If all users have equally many visits, or nearly all: then nobody is seen to leave.

    Examples
    --------
    >>> estimate_continuation(Log([0] * 7, [0] * 7, starts=[0, 1, 4]))
    0.8
    """
    lengths = visits_of(log)
    longest = int(lengths.max())
    stayed = int((lengths == longest).sum())
    if stayed == lengths.size:
        what = "it is one sequence" if stayed == 1 else f"all have {longest:,} visits"
        raise InvalidValueError(f"the log does not show when users leave: {what}")
    leave = (lengths.size - stayed) / (log.n_rows - stayed)
    if leave * _MOST_BEYOND * longest < 1:
        raise InvalidValueError(
            f"the log hardly shows when users leave: {stayed:,} of {lengths.size:,} have"
            f" {longest:,} visits, the most there are"
        )
    return 1.0 - leave


@compiled
def _sum_weighted(
    arms: AnyIntArray,
    weights: FloatArray,
    r: FloatArray,
    b: FloatArray,
    lam: FloatArray,
    q0: float,
    totals: FloatArray,
) -> None:
    q = np.full(lam.size, q0)
    for t in range(weights.size):
        arm, weight = arms[t], weights[t]
        for i in range(lam.size):
            totals[i] += weight * r[arm, i] * q[i]
            q[i] += lam[i] * (b[arm, i] - q[i])


@compiled
def _sum_shown(
    arms: AnyIntArray,
    starts: IntArray,
    most: int,
    every: int,
    r: FloatArray,
    b: FloatArray,
    lam: FloatArray,
    q0: float,
    totals: FloatArray,
) -> None:
    """Add what every so-manieth user of a log was shown, under each instance."""
    q = np.empty(lam.size)
    for user in range(0, starts.size, every):
        begin = starts[user]
        end = starts[user + 1] if user + 1 < starts.size else arms.size
        q[:] = q0
        for t in range(begin, min(end, begin + most)):
            arm = arms[t]
            for i in range(lam.size):
                totals[i] += r[arm, i] * q[i]
                q[i] += lam[i] * (b[arm, i] - q[i])
