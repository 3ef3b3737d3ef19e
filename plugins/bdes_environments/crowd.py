"""Many users of one B-DES instance: who comes, for how long, and what they click."""

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from attrs import cmp_using, field, frozen
from attrs.validators import and_, ge, gt, in_, le, lt, optional
from numpy.random import Generator

import bdes_framework as bdes
from bdes_environments.bernoulli import check_unit_interval, draw_noise
from bdes_framework import (
    BuildContext,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    NoiseModel,
    NoiseModelRef,
    Outcome,
    compiled,
)

_NO_NOISE = np.empty(0)
_COHORT = 100
_LAST_VISIT = 2.0**53
"""No heavy tail is longer than this: integers that floats hold exactly."""

_same_array = cmp_using(eq=np.array_equal)


@frozen(unsafe_hash=False)
class CrowdConfig:
    """Users who share r, b and lam, each with a state of their own, come one after another.

    Clicks are drawn from Bern(r·q), q the state of the user who came; what a user is shown moves
    that user's state only. Who comes does not depend on what is shown.

    Parameters
    ----------
    r : list[float]
        What each arm pays at state 1, in [0, 1].
    b : list[float]
        The state that showing each arm for ever leads to, in [0, 1].
    lam : float
        How far one visit moves the user's state towards the arm's end state, in [0, 1].
    users : int
        How many users there are. With a file, the file says.
    visits_per_user : float | None
        How many visits a user makes, on average; then they leave. Nobody leaves by default. With
        a file, the file says.
    lifetimes : "fixed" | "geometric" | "heavy-tailed"
        How the number of a user's visits is drawn: always the same (a whole number), with the
        same chance of leaving after every visit, or with P(more than k) = (1 + k/s)^-tail.
    tail : float
        The exponent of heavy tails, above 1 and at most 20: up to 2 the variance is infinite, and
        from 20 on lifetimes are nearly geometric.
    arrivals : "uniform" | "round-robin" | "cohorts" | "file"
        Who comes next: anybody who has not left, with equal chances; one after another, in turns;
        anybody of a cohort, and the next cohort when all of it have left; or what a file says.
    cohort : int
        How many users a cohort has; the last may have fewer.
    file : path | None
        With ``arrivals = "file"``: a text file with a user's name on each line, in order of
        visits. It ends when the file does. Relative to the experiment file.
    spread : float
        How much users differ, in [0, 1]: each has a factor on r of their own, drawn evenly from
        1 - spread to 1 + spread. Means are at most 1. Then there is no benchmark.
    q0 : float
        The state of every user at their first visit, in [0, 1].
    noise : noise model | None
        Noise on the state a reward is drawn from: Bern(clip(r·(q + noise), 0, 1)).
    """

    r: FloatArray = field(eq=_same_array, validator=check_unit_interval)
    b: FloatArray = field(eq=_same_array, validator=check_unit_interval)
    lam: float = field(validator=check_unit_interval)
    users: int = field(default=1000, validator=[bdes.validate_integer, ge(1)])
    visits_per_user: float | None = field(
        default=None, validator=optional(and_(bdes.validate_number, ge(1), lt(math.inf)))
    )
    lifetimes: Literal["fixed", "geometric", "heavy-tailed"] = field(
        default="fixed", validator=in_(("fixed", "geometric", "heavy-tailed"))
    )
    tail: float = field(default=1.5, validator=[bdes.validate_number, gt(1), le(20)])
    arrivals: Literal["uniform", "round-robin", "cohorts", "file"] = field(
        default="uniform", validator=in_(("uniform", "round-robin", "cohorts", "file"))
    )
    cohort: int = field(default=_COHORT, validator=[bdes.validate_integer, ge(1)])
    file: Path | None = None
    spread: float = field(default=0.0, validator=[bdes.validate_number, ge(0), le(1)])
    q0: float = field(default=1.0, validator=check_unit_interval)
    noise: NoiseModelRef | None = None

    def __attrs_post_init__(self) -> None:
        instance = self.instance
        object.__setattr__(self, "r", instance.r)
        object.__setattr__(self, "b", instance.b)
        per_user = self.visits_per_user
        if (self.file is not None) != (self.arrivals == "file"):
            raise InvalidValueError("a file and arrivals = 'file' belong together")
        if self.file is not None and per_user is not None:
            raise InvalidValueError("the file says how often a user comes, not visits_per_user")
        if self.arrivals == "cohorts" and per_user is None:
            raise InvalidValueError("cohorts need visits_per_user: nobody would ever leave")
        if self.arrivals != "cohorts" and self.cohort != _COHORT:
            raise InvalidValueError(
                f"cohort = {self.cohort} has no effect: users come by arrivals = {self.arrivals!r},"
                " not 'cohorts'"
            )
        if self.lifetimes != "fixed" and per_user is None:
            why = (
                "nobody ever leaves"
                if self.file is None
                else "the file says how often a user comes"
            )
            raise InvalidValueError(
                f"lifetimes = {self.lifetimes!r} have no effect without visits_per_user: {why}"
            )
        if per_user is not None and self.lifetimes == "fixed" and per_user != int(per_user):
            raise InvalidValueError(
                f"visits_per_user must be a whole number if all are alike, got {per_user}"
            )

    @property
    def instance(self) -> Instance:
        """The instance that all users share."""
        return Instance(self.r, self.b, self.lam, self.q0)


# -- lifetimes ------------------------------------------------------------------------------


def draw_lifetimes(config: CrowdConfig, rng: Generator) -> IntArray:
    """Return how many visits each user makes: shape (users,), or (0,) if nobody leaves."""
    mean, n = config.visits_per_user, config.users
    if mean is None:
        return np.empty(0, dtype=np.int64)
    if config.lifetimes == "fixed":
        return np.full(n, int(mean))
    if config.lifetimes == "geometric":
        return rng.geometric(1.0 / mean, n).astype(np.int64)
    uniforms = 1.0 - rng.random(n)
    longest = heavy_scale(mean, config.tail) * (uniforms ** (-1.0 / config.tail) - 1.0)
    return 1 + np.minimum(longest, _LAST_VISIT).astype(np.int64)


def heavy_scale(mean: float, tail: float) -> float:
    """Return s such that P(N > k) = (1 + k/s)^-tail has this mean, by bisection."""
    from scipy.special import zeta  # Hurwitz's: the mean is s^tail · zeta(tail, s)

    low, high = -60.0, math.log(2.0 * mean * tail)
    for _ in range(200):
        middle = (low + high) / 2
        scale = math.exp(middle)
        if scale**tail * zeta(tail, scale) < mean:
            low = middle
        else:
            high = middle
    return math.exp(low)


# -- arrivals -------------------------------------------------------------------------------


class _Present(NamedTuple):
    """Users who may come, as the compiled loops see them."""

    waiting: IntArray
    """Shape (users,): users in the order of their turns."""
    left: IntArray
    """Shape (users,): visits that each still makes; shape (0,) if nobody leaves."""
    numbers: IntArray
    """Shape (users,): each user's number by first visit, or -1."""
    clock: IntArray
    """Shape (4,): first and end of those present, whose turn it is, and users numbered so far."""


@compiled
def _number(present: _Present, user: int) -> int:
    """Return a user's number by first visit, given now if there is none yet."""
    if present.numbers[user] < 0:
        present.numbers[user] = present.clock[3]
        present.clock[3] += 1
    return int(present.numbers[user])


@compiled
def _uniform_arrivals(present: _Present, cohort: int, uniforms: FloatArray, users: IntArray) -> int:
    """Draw users from those present, cohort after cohort; return how many came."""
    waiting, left, _, clock = present
    if left.size == 0:
        n = waiting.size
        for v in range(users.size):
            users[v] = _number(present, min(int(uniforms[v] * n), n - 1))
        return int(users.size)
    for v in range(users.size):
        if clock[0] == clock[1]:
            if clock[1] == waiting.size:
                return v
            clock[1] = min(clock[1] + cohort, waiting.size)
        n = clock[1] - clock[0]
        place = clock[0] + min(int(uniforms[v] * n), n - 1)
        user = waiting[place]
        users[v] = _number(present, user)
        left[user] -= 1
        if left[user] == 0:
            waiting[place] = waiting[clock[0]]
            clock[0] += 1
    return int(users.size)


@compiled
def _round_robin_arrivals(present: _Present, users: IntArray) -> int:
    """Let users come in turns; return how many came. ``waiting`` is compacted as it is walked."""
    waiting, left, _, clock = present
    # clock[1]: the end of this lap; clock[2]: whose turn it is; clock[0]: who stays for the next.
    for v in range(users.size):
        if clock[2] == clock[1]:
            clock[1], clock[0], clock[2] = clock[0], 0, 0
            if clock[1] == 0:
                return v
        user = waiting[clock[2]]
        clock[2] += 1
        users[v] = _number(present, user)
        if left.size:
            left[user] -= 1
        if left.size == 0 or left[user] > 0:
            waiting[clock[0]] = user
            clock[0] += 1
    return int(users.size)


class _Arrivals:
    """Who comes next, drawn from lifetimes and an order."""

    def __init__(self, config: CrowdConfig, rng: Generator, lifetimes: IntArray) -> None:
        n = config.users
        self._rng = rng
        self._in_turns = config.arrivals == "round-robin"
        self._cohort = config.cohort if config.arrivals == "cohorts" else n
        clock = np.array([0, n if self._in_turns else 0, 0, 0])
        self._present = _Present(np.arange(n), lifetimes, np.full(n, -1), clock)

    @property
    def came(self) -> int:
        """How many users have come."""
        return int(self._present.clock[3])

    def __call__(self, n: int) -> IntArray:
        users = np.empty(n, dtype=np.int64)
        if self._in_turns:
            return users[: _round_robin_arrivals(self._present, users)]
        came = _uniform_arrivals(self._present, self._cohort, self._rng.random(n), users)
        return users[:came]


class _FileArrivals:
    """Who comes next, as a file says."""

    def __init__(self, file: Path) -> None:
        self._numbers = read_visits(file)
        self._done = 0
        self.came = 0
        """How many users have come."""

    @property
    def n_users(self) -> int:
        return int(self._numbers.max()) + 1

    @property
    def visits_per_user(self) -> float:
        return float(self._numbers.size / self.n_users)

    def __call__(self, n: int) -> IntArray:
        users = self._numbers[self._done : self._done + n].copy()
        self._done += users.size
        if users.size:
            self.came = max(self.came, int(users.max()) + 1)
        return users


def read_visits(file: Path) -> IntArray:
    """Return the users of a text file with a name on each line, numbered by first visit."""
    numbers: dict[str, int] = {}
    try:
        with file.open(encoding="utf-8-sig") as lines:
            names = (line.strip() for line in lines)
            visits = [numbers.setdefault(name, len(numbers)) for name in names if name]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"the visits in {str(file)!r} cannot be read: {error}") from None
    if not visits:
        raise InvalidValueError(f"there are no visits in {str(file)!r}")
    return np.array(visits, dtype=np.int64)


# -- the environment ------------------------------------------------------------------------


class _Pay(NamedTuple):
    """What the compiled sweep reads: the instance, and one draw per visit."""

    r: FloatArray
    b: FloatArray
    lam: float
    factors: FloatArray
    """Shape (users,), or (0,) where all users are alike."""
    uniforms: FloatArray
    noise: FloatArray
    """Shape (n,), or (0,) without noise."""


@compiled
def _sweep_visits(
    pay: _Pay,
    states: FloatArray,
    users: IntArray,
    arms: IntArray,
    record: bdes.Record,
) -> None:
    """Play visits in order; the state of each user is moved in place."""
    for v in range(users.size):
        user, arm = users[v], arms[v]
        q = states[user]
        paid = pay.r[arm]
        if pay.factors.size:
            paid *= pay.factors[user]
        mean = paid * q
        if pay.factors.size:
            mean = min(mean, 1.0)
        probability = mean
        if pay.noise.size:
            probability = min(max(paid * (q + pay.noise[v]), 0.0), 1.0)
            record.probabilities[v] = probability
        record.rewards[v] = 1.0 if pay.uniforms[v] < probability else 0.0
        record.means[v] = mean
        record.states[v] = q
        states[user] = q + pay.lam * (pay.b[arm] - q)


class Crowd:
    """Users with a state each; visits are played in one compiled sweep."""

    def __init__(self, config: CrowdConfig, context: BuildContext) -> None:
        self._config = config
        self._instance = config.instance
        self._rng = context.rng
        self._noise: NoiseModel | None = None
        if config.noise is not None:
            self._noise = context.noise_model(config.noise)
        self._noise_rng = context.stream("noise")
        self._arrivals: _Arrivals | _FileArrivals
        n = config.users
        if config.file is not None:
            self._arrivals = _FileArrivals(config.file)
            n = self._arrivals.n_users
        else:
            lifetimes = draw_lifetimes(config, context.stream("lifetimes"))
            self._arrivals = _Arrivals(config, context.stream("arrivals"), lifetimes)
        self._states = np.full(n, float(config.q0))
        self._factors = np.empty(0)
        if config.spread:
            uniforms = context.stream("factors").random(n)
            self._factors = 1.0 + config.spread * (2.0 * uniforms - 1.0)
        self._came = 0
        self._visits_per_user = config.visits_per_user
        if isinstance(self._arrivals, _FileArrivals):
            self._visits_per_user = self._arrivals.visits_per_user

    def __repr__(self) -> str:
        users, noise = self._states.size, self._noise
        return f"{type(self).__name__}(n_arms={self.n_arms}, users={users}, noise={noise!r})"

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self._instance.n_arms

    @property
    def visits_per_user(self) -> float | None:
        """How often a user comes on average; None if nobody ever leaves."""
        return self._visits_per_user

    @property
    def lam(self) -> float:
        """How far one visit moves a user's state; users do not differ in it."""
        return self._instance.lam

    @property
    def q0(self) -> float:
        """The state of every user at their first visit."""
        return self._instance.q0

    def arrivals(self, n: int) -> IntArray:
        """Return the users of the next visits."""
        users = self._arrivals(bdes.as_integer(n, "n", 1))
        self._came = self._arrivals.came
        return users

    def pull(self, users: IntArray, arms: IntArray) -> Outcome:
        """Show ``arms`` to ``users``, in order."""
        users = as_block(users, "user", self._came)
        arms = as_block(arms, "arm", self.n_arms)
        n = users.size
        if arms.size != n:
            raise InvalidValueError(f"each visit needs an arm: got {n} users, {arms.size} arms")
        record = bdes.Record.empty(n, arms)
        noise = _NO_NOISE if self._noise is None else draw_noise(self._noise, n, self._noise_rng)
        instance = self._instance
        uniforms = self._rng.random(n)
        pay = _Pay(instance.r, instance.b, instance.lam, self._factors, uniforms, noise)
        _sweep_visits(pay, self._states, users, arms, record)
        probabilities = None if self._noise is None else record.probabilities
        return Outcome(record.rewards, record.means, probabilities, record.states)


class CrowdOfEquals(Crowd):
    """Users who do not differ: all play one instance."""

    @property
    def instance(self) -> Instance:
        """The instance that every user plays, from its ``q0`` on."""
        return self._instance


@compiled
def _first_outside(block: IntArray, n: int) -> int:
    """Return the first place of a number that is negative or not below ``n``; -1 if none is."""
    for v in range(block.size):
        if block[v] < 0 or block[v] >= n:
            return v
    return -1


def as_block(values: Any, what: str, n: int) -> IntArray:
    """Return users or arms as a contiguous array of int64 below ``n``, or raise."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidValueError(f"{what}s must be a one-dimensional array of integers")
    block = np.ascontiguousarray(values, dtype=np.int64)
    first = _first_outside(block, n)
    if first >= 0:
        allowed = f"{what}s go from 0 to {n - 1}" if n else "nobody has come yet"
        raise InvalidValueError(f"visit {first} of this block has {what} {block[first]}; {allowed}")
    return block


def build(config: CrowdConfig, context: BuildContext) -> Crowd:
    """Build the environment; only where users do not differ has it an instance."""
    return Crowd(config, context) if config.spread else CrowdOfEquals(config, context)
