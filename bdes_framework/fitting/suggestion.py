"""An experiment for when a log cannot tell: which arms, to how many users, and how sure then.

The Fisher information of rows depends on the arms shown and on the parameters, not on the rewards;
so what an experiment will tell is known before it is made, as far as the estimates are right. Users
are independent and alike in this, so their information adds up.
"""

from collections.abc import Callable, Sequence

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.numbers import as_integer, is_number
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.text import counted, one_line, quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.likelihood import sweep_likelihood
from bdes_framework.fitting.result import MAX_NAME_LENGTH, Fit
from bdes_framework.model.hull import hull_of_arms

_RUNS = (1, 2, 5, 10, 20, 50, 100)
_SAMPLED_ROWS = 20_000
_MIN_SAMPLED_USERS = 20
_DRAWS = 200
_WORTH_A_LOOK = 0.05
MAX_USERS = 10_000_000


@frozen(eq=False)
class SuggestedExperiment:
    """What to show to whom, and how sure one will be then: made by :func:`suggest_experiment`.

    Parameters
    ----------
    arms : IntArray, shape (k,)
        The arms to show.
    names : tuple[str, ...]
        What they are called.
    run : int
        An arm is drawn with equal chances and shown so many times in a row; then the next is.
    users, visits : int
        To how many users, and how often each.
    r_errors, b_errors : FloatArray, shape (k,)
        The expected standard errors of their r and b, after the experiment.
    lam_error : float
        That of lam; 0 if it is known.
    precision : float
        What the largest error of b was to be at most.
    """

    arms: IntArray
    names: tuple[str, ...]
    run: int
    users: int
    visits: int
    r_errors: FloatArray = field(repr=False)
    b_errors: FloatArray = field(repr=False)
    lam_error: float
    precision: float

    @property
    def reaches_precision(self) -> bool:
        """Whether every b will be known as precisely as was asked for."""
        return bool(self.b_errors.max() <= self.precision)

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Return what to show to each user at each visit: shape (users, visits)."""
        return _drawn(self.arms, self.users, self.visits, self.run, rng)

    def __str__(self) -> str:
        names = ", ".join(one_line(name, MAX_NAME_LENGTH) for name in self.names)
        runs = f" in runs of {self.run}" if self.run > 1 else ""
        rate = 1.96 * self.lam_error
        known = f"b known to ±{1.96 * self.b_errors.max():.2g}"
        known += f", lam to ±{rate:.2g}" if rate < 1 else ", lam to nothing"
        missed = "" if self.reaches_precision else "; that is less than was asked for"
        return (
            f"show {names}{runs}, drawn evenly, to {counted(self.users, 'user')} for"
            f" {counted(self.visits, 'visit')}:"
            f" {known}{missed}"
        )

    def __repr__(self) -> str:
        return shown_fields(
            "SuggestedExperiment",
            names=", ".join(self.names[:5]),
            run=self.run,
            users=self.users,
            visits=self.visits,
            b_error=f"{self.b_errors.max():.3g}",
            lam_error=f"{self.lam_error:.3g}",
        )


@one_thread()
def suggest_experiment(
    found: Fit,
    *,
    visits: int,
    users: int | None = None,
    precision: float = 0.05,
    arms: Sequence[int] | IntArray | None = None,
    with_log: bool = True,
    seed: Seed = 0,
) -> SuggestedExperiment:
    """Return the experiment that tells most about the b of a fit's arms, from the information.

    Arms are drawn at random, not in answer to rewards. What is chosen is how often the same arm is
    shown in a row: short runs mix arms so evenly that every state is alike, long ones show few.

    Parameters
    ----------
    found : Fit
        What is believed now.
    visits : int
        How often a user will come.
    users : int | None
        To how many users; by default as many as the precision takes, ten million at most.
    precision : float
        The standard error that no b shall exceed.
    arms : Sequence[int] | IntArray | None
        What to show. By default the arms that a plan may need: those on the upper right hull of
        (r, b) in one of twenty draws of the posterior, or more.
    with_log : bool
        Whether what the fit's log told counts too, or the experiment alone.
    seed : Seed
        What the designs that are compared are drawn from.

    Examples
    --------
    >>> from bdes_framework import Instance, Log, fit
    >>> ads = Instance(r=[0.8, 0.3], b=[0.2, 1.0], lam=0.1)
    >>> rng = np.random.default_rng(1)
    >>> shown = np.repeat(rng.integers(0, 2, 40), 5)
    >>> little = fit(Log(shown, rng.random(200) < ads.expected_rewards(shown)))
    >>> suggested = suggest_experiment(little, visits=50, precision=0.03)
    >>> suggested.reaches_precision, suggested.draw(rng).shape == (suggested.users, 50)
    (True, True)
    """
    as_integer(visits, "visits", 2)
    if users is not None:
        as_integer(users, "users", 1)
    if not is_number(precision) or not 0 < precision < 1:
        raise InvalidValueError(f"precision must lie between 0 and 1, got {quoted(precision)}")
    rng = generator(branch(seed, "suggested experiment"))
    chosen = _arms_that_matter(found, rng) if arms is None else _checked(arms, found)
    size = found.centre.size
    known = found.coordinates.prior_precision(found.centre)
    base = np.linalg.pinv(found.deviations @ found.deviations.T) if with_log else np.diag(known)
    best: tuple[float, int, FloatArray] | None = None
    sample = max(_MIN_SAMPLED_USERS, _SAMPLED_ROWS // visits)
    for run in [run for run in _RUNS if run < visits]:
        information = _information(found, _drawn(chosen, sample, visits, run, rng)) / sample
        errors = _errors(found, base + (users or 1000) * information)
        worst = float(errors[found.coordinates.n_arms :][chosen].max())
        if best is None or worst < best[0]:
            best = worst, run, information
    assert best is not None
    _, run, information = best

    def worst_of(n: int) -> float:
        errors = _errors(found, base + n * information)
        return float(errors[found.coordinates.n_arms :][chosen].max())

    needed = users or _least(worst_of, precision)
    errors = _errors(found, base + needed * information)
    n = found.coordinates.n_arms
    return SuggestedExperiment(
        arms=chosen,
        names=tuple(found.names[arm] for arm in chosen.tolist()),
        run=run,
        users=needed,
        visits=visits,
        r_errors=errors[:n][chosen],
        b_errors=errors[n : 2 * n][chosen],
        lam_error=float(errors[-1]) if size > 2 * n else 0.0,
        precision=precision,
    )


def _checked(arms: Sequence[int] | IntArray, found: Fit) -> IntArray:
    chosen = np.unique(np.asarray(arms))
    inside = chosen.dtype.kind in "iu" and ((chosen >= 0) & (chosen < len(found.names))).all()
    if chosen.size < 2 or not inside:
        raise InvalidValueError(
            f"arms must be two or more of 0 to {len(found.names) - 1}, got {quoted(arms)}"
        )
    return chosen.astype(np.int64)


def _arms_that_matter(found: Fit, rng: np.random.Generator) -> IntArray:
    """Return the arms that a plan may need, in the posterior; two at least."""
    counts = np.zeros(len(found.names), np.int64)
    for draw in found.draws(_DRAWS, rng):
        counts[hull_of_arms(draw.r, draw.b)] += 1
    often = np.flatnonzero(counts >= _WORTH_A_LOOK * _DRAWS)
    if often.size < 2:
        often = np.sort(np.argsort(-counts, kind="stable")[:2])
    if often.size < 2:
        raise InvalidValueError("an experiment needs at least two arms")
    return often


def _drawn(arms: IntArray, users: int, visits: int, run: int, rng: np.random.Generator) -> IntArray:
    """Return runs of arms drawn evenly; the first run of a user begins somewhere inside."""
    n_runs = -(-visits // run) + 1
    shown = np.repeat(arms[rng.integers(0, arms.size, (users, n_runs))], run, axis=1)
    offsets = rng.integers(0, run, users)
    places = offsets[:, None] + np.arange(visits)
    return np.take_along_axis(shown, places, axis=1)


def _information(found: Fit, shown: IntArray) -> FloatArray:
    """Return the information of what is shown, by the coordinates of a fit."""
    users, visits = shown.shape
    at, size = found.instance, found.centre.size
    starts = np.arange(0, users * visits, visits)
    rewards = np.zeros(shown.size, np.int8)  # whatever they are: the information is expected
    rows = shown.ravel().astype(np.int32), rewards, starts
    natural = sweep_likelihood(*rows, at.r, at.b, at.lam, at.q0).information[:size, :size]
    slopes = found.coordinates.jacobian(found.centre)
    pulled: FloatArray = slopes.T @ natural @ slopes
    return pulled


def _errors(found: Fit, precision: FloatArray) -> FloatArray:
    """Return standard errors of r, b and a free lam."""
    slopes = found.coordinates.jacobian(found.centre)
    covariance = slopes @ np.linalg.inv(precision) @ slopes.T
    errors: FloatArray = np.sqrt(np.diag(covariance))
    return errors


def _least(worst_of: Callable[[int], float], precision: float) -> int:
    """Return the least number of users that reaches a precision, or the largest allowed."""
    if worst_of(MAX_USERS) > precision:
        return MAX_USERS
    low, high = 0, MAX_USERS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if worst_of(middle) <= precision else (middle, high)
    return high
