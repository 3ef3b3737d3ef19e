"""The B-DES model: instances, what a learner may know of them, and the paper's closed forms.

The recurrence is the definition, here and everywhere else: the first pull is made at
state ``q0``; arm ``i`` pays ``r[i] * q`` on average, and then ``q += lam * (b[i] - q)``.
"""

import math
import sys
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext

import numpy as np
from attrs import cmp_using, field, frozen
from attrs.converters import optional

from bdes_framework._internal.arrays import FloatArray, IntArray, as_arms, holds_booleans
from bdes_framework._internal.display import html_table, shown_fields, shown_numbers
from bdes_framework._internal.numbers import as_integer, is_number
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.affine import effect_of_arms, repeat_effect, state_decay
from bdes_framework.model.rounds import sweep_states
from bdes_framework.model.schedule import Schedule


def as_parameters(values: Sequence[float] | FloatArray) -> FloatArray:
    """Return one number per arm as a read-only array of its own, or raise."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"expected one number per arm, got {quoted(values)}") from None
    if holds_booleans(values):
        raise InvalidValueError(f"expected numbers, not true or false, got {quoted(values)}")
    if array.ndim != 1 or array.size == 0:
        raise InvalidValueError(
            f"expected one number per arm and at least one arm, got shape {array.shape}"
        )
    if not np.isfinite(array).all() or array.min() < 0:
        where = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0)))[0])
        raise InvalidValueError(
            f"arm {where}: expected a finite number of at least 0, got {array[where]}"
        )
    array.flags.writeable = False
    return array


def as_rate(value: float) -> float:
    """Return an evolution rate as a float in [0, 1], or raise."""
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidValueError(f"lam must be a number in [0, 1], got {quoted(value)}")
    return float(value)


def as_state(value: float) -> float:
    """Return a state as a finite float of at least 0, or raise."""
    if not is_number(value) or not 0 <= value <= sys.float_info.max:
        raise InvalidValueError(f"q0 must be a finite number of at least 0, got {quoted(value)}")
    return float(value)


_same_array = cmp_using(eq=np.array_equal)


@frozen(hash=False)
class Instance:
    """One B-DES problem: everything the learner does not know.

    Any non-negative ``r``, ``b`` and ``q0`` are allowed, because ``(c*r, b/c, q0/c)`` is the
    same problem for every c > 0; environments that draw rewards ask for [0, 1] themselves.

    Parameters
    ----------
    r : FloatArray, shape (K,)
        What each arm pays at state 1 (the paper's in-the-vacuum reward).
    b : FloatArray, shape (K,)
        The state that pulling each arm for ever leads to (the paper's end state).
    lam : float
        In [0, 1]: how far one pull moves the state towards the arm's end state.
    q0 : float
        The state at the first pull.

    Examples
    --------
    >>> instance = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.5)
    >>> instance.states([0, 0, 1]).tolist()
    [1.0, 0.55, 0.325]
    >>> instance
    Instance(r=[0.9, 0.3], b=[0.1, 1], lam=0.5, q0=1)
    """

    r: FloatArray = field(converter=as_parameters, eq=_same_array)
    b: FloatArray = field(converter=as_parameters, eq=_same_array)
    lam: float = field(converter=as_rate)
    q0: float = field(default=1.0, converter=as_state)

    def __attrs_post_init__(self) -> None:
        if self.r.shape != self.b.shape:
            raise InvalidValueError(
                f"r and b need one number per arm each, got {self.r.size} and {self.b.size}"
            )

    def __repr__(self) -> str:
        r, b = shown_numbers(self.r), shown_numbers(self.b)
        return shown_fields("Instance", r=r, b=b, lam=self.lam, q0=self.q0)

    def _repr_html_(self) -> str:
        caption = f"Instance: {self.n_arms:,} arms, lam = {self.lam:.6g}, q0 = {self.q0:.6g}"
        rows = zip(range(self.n_arms), self.r.tolist(), self.b.tolist(), strict=True)
        return html_table(["arm", "r", "b"], list(rows), caption)

    @property
    def n_arms(self) -> int:
        """How many arms there are (the paper's K)."""
        return self.r.size

    def states(self, arms: Sequence[int] | IntArray) -> FloatArray:
        """Return the state at which each pull of ``arms`` is made: shape (n,)."""
        return self._sweep(self._checked(arms))[0]

    def state_after(self, arms: Sequence[int] | IntArray | Schedule) -> float:
        """Return the state that playing ``arms``, or a whole schedule, leaves behind."""
        return self._play(arms)[1]

    def expected_rewards(self, arms: Sequence[int] | IntArray) -> FloatArray:
        """Return the expected reward r·q of each pull of ``arms``: shape (n,)."""
        checked = self._checked(arms)
        rewards: FloatArray = self.r[checked] * self._sweep(checked)[0]
        return rewards

    def value(self, arms: Sequence[int] | IntArray | Schedule) -> float:
        """Return the total expected reward of ``arms``, or of a schedule.

        A schedule costs the length of its segments, not of its repeats.
        """
        return self._play(arms)[0]

    def scaled(self, c: float) -> "Instance":
        """Return the equivalent instance ``(c*r, b/c, q0/c)``: every schedule keeps its value."""
        if not is_number(c) or not 0 < c < math.inf:
            raise InvalidValueError(f"c must be a finite number above 0, got {quoted(c)}")
        return Instance(self.r * c, self.b / c, self.lam, self.q0 / c)

    def starting_at(self, q0: float) -> "Instance":
        """Return the same arms and rate with another first state."""
        return Instance(self.r, self.b, self.lam, q0)

    def _checked(self, arms: Sequence[int] | IntArray) -> IntArray:
        checked = as_arms(arms)
        if checked.max() >= self.n_arms:
            raise InvalidValueError(
                f"arm {int(checked.max())} does not exist: there are {self.n_arms} arms,"
                " counted from 0"
            )
        return checked

    def _sweep(self, arms: IntArray, q: float | None = None) -> tuple[FloatArray, float]:
        states = np.empty(arms.size)
        last = sweep_states(self.b, self.lam, self.q0 if q is None else q, arms, states)
        return states, last

    def _play(self, arms: Sequence[int] | IntArray | Schedule) -> tuple[float, float]:
        """Return total expected reward and final state."""
        schedule = arms if isinstance(arms, Schedule) else Schedule.of(arms)
        total, q = 0.0, self.q0
        for segment in schedule.segments:
            checked = self._checked(segment.arms)
            if segment.repeats == 1:
                states, last = self._sweep(checked, q)
                total += float(np.sum(self.r[checked] * states))
                q = last
            else:
                once = effect_of_arms(self.r, self.b, self.lam, checked)
                effect = repeat_effect(once, segment.repeats)
                total += effect.slope * q + effect.base
                q = effect.kept * q + effect.shift
        return total, q


def _as_n_arms(value: int) -> int:
    return as_integer(value, "n_arms", 1)


def _as_horizon(value: int) -> int:
    return as_integer(value, "horizon", 1)


def _as_replenishing_arm(value: int) -> int:
    return as_integer(value, "replenishing_arm", 0)


@frozen
class Problem:
    """What a learner may know before it starts.

    Parameters
    ----------
    n_arms : int
        How many arms there are (the paper's K).
    horizon : int
        How many rounds will be played (the paper's T).
    lam : float | None
        The evolution rate; None when the learner does not know it.
    replenishing_arm : int | None
        An arm whose end state is (nearly) 1; None when none is known.
    q0 : float
        The state at the first pull.
    """

    n_arms: int = field(converter=_as_n_arms)
    horizon: int = field(converter=_as_horizon)
    lam: float | None = field(default=None, converter=optional(as_rate))
    replenishing_arm: int | None = field(default=None, converter=optional(_as_replenishing_arm))
    q0: float = field(default=1.0, converter=as_state)

    def __attrs_post_init__(self) -> None:
        arm = self.replenishing_arm
        if arm is not None and arm >= self.n_arms:
            raise InvalidValueError(
                f"replenishing_arm must be an arm from 0 to {self.n_arms - 1}, got {arm}"
            )


def _as_visits(value: int) -> int:
    return as_integer(value, "visits", 1)


def _as_visits_per_user(value: float) -> float:
    if not is_number(value) or not 1 <= value <= sys.float_info.max:
        raise InvalidValueError(
            f"visits_per_user must be a finite number of at least 1, got {quoted(value)}"
        )
    return float(value)


@frozen
class CrowdProblem:
    """What a learner may know of many users before it starts.

    Parameters
    ----------
    n_arms : int
        How many arms there are.
    visits : int
        How many visits all users will make together, at most.
    visits_per_user : float | None
        How many visits one user is expected to make; None when the learner does not know it.
    lam : float | None
        The evolution rate; None when the learner does not know it.
    q0 : float
        The state of every user at their first visit.
    """

    n_arms: int = field(converter=_as_n_arms)
    visits: int = field(converter=_as_visits)
    visits_per_user: float | None = field(default=None, converter=optional(_as_visits_per_user))
    lam: float | None = field(default=None, converter=optional(as_rate))
    q0: float = field(default=1.0, converter=as_state)


def state_after_repeating(q: float, b: float, lam: float, n: int) -> float:
    """Return the state after ``n`` pulls of one arm with end state ``b``, from state ``q``.

    The paper's closed form, ``b - (1 - lam)**n * (b - q)``, with its index corrected
    (see the errata page): after no pull the state is still ``q``.

    >>> state_after_repeating(1.0, 0.15, 0.5, 1)
    0.575
    """
    if n < 0:
        raise InvalidValueError(f"n must be at least 0, got {n}")
    return b - state_decay(as_rate(lam), n)[0] * (b - q)


def settling_pulls(lam: float, eps: float) -> int:
    """Return N(lam): the fewest pulls of one arm after which the state's old part is lam·eps.

    The paper's ``log(lam * eps) / log(1 - lam)``, rounded up. From any state in [0, 1]
    the state is then within ``lam * eps <= eps`` of the arm's end state.

    >>> settling_pulls(0.5, 0.1)
    5
    """
    rate = as_rate(lam)
    if rate == 0:
        raise InvalidValueError("the state never moves at lam = 0: N(lam) is infinite")
    if not is_number(eps) or not 0 < eps <= sys.float_info.max:
        raise InvalidValueError(f"eps must be a finite number above 0, got {quoted(eps)}")
    # For small lam, floats know neither 1 - lam nor all the digits of N(lam), which is about
    # log(1/lam)/lam; twice the digits of 1/lam, and some to spare, do.
    digits = 40 - 2 * math.floor(math.log10(rate))
    with localcontext(Context(prec=digits)):
        target = Decimal(rate) * Decimal(float(eps))
        if target >= 1:
            return 0
        if rate == 1:
            return 1
        pulls = target.ln() / (1 - Decimal(rate)).ln()
        # Where N(lam) is a whole number to begin with, rounding may leave it just above.
        whole = pulls.to_integral_value()
        is_whole = abs(pulls - whole) < Decimal("1e-20")
        return int(whole) if is_whole else math.ceil(pulls)


def alternating_limit(b_i: float, b_j: float, lam: float) -> float:
    """Return the state just before pulling i, when i and j have alternated for ever.

    ``(b_j + (1 - lam) * b_i) / (2 - lam)``. At lam = 0 the state never moves and there is
    no limit to return.
    """
    if as_rate(lam) == 0:
        raise InvalidValueError("the state never moves at lam = 0: alternating has no limit")
    return (b_j + (1.0 - lam) * b_i) / (2.0 - lam)
