"""Decision tables: which arm to show at which state, when a user may leave after every visit.

After every visit a user comes back with a probability g, the continuation, or has left for good.
The best expected total from state q then solves
``V(q) = max_i r[i]*q + g*V((1-lam)*q + lam*b[i])``, and the best arm depends on q alone.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray, as_arms, holds_booleans
from bdes_framework._internal.display import MAX_NUMBERS, html_facts, html_table, shown_fields
from bdes_framework._internal.files import invalid_file, read_json, replace_text
from bdes_framework._internal.numbers import as_integer, is_number
from bdes_framework._internal.text import did_you_mean, one_line, quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.compiling import compiled
from bdes_framework.model.instance import Instance

_ROUNDING = 16 * 2.0**-53
"""What evaluating one visit can be off by, relative to the largest number in it."""
_NEGLIGIBLE = 2.0**-60
_MOST_VISITS = 10_000_000
_MAX_NAME = 40
_FORMAT = "bdes decision table, version 1"
_NUMBERS = ("value", "upper_bound")
_LISTS = ("r", "b", "starts", "arms", "bound_states", "bound_values")
_KEYS = ("format", "lam", "q0", "continuation", *_LISTS, *_NUMBERS)


@compiled
def _interval(starts: FloatArray, first: IntArray, scale: float, q: float) -> int:
    """Return which interval holds ``q``, by an even grid over the states, then a few steps."""
    last = first.size - 1
    k = first[int(min(q * scale, last))]
    while k > 0 and starts[k] > q:
        k -= 1
    while k + 1 < starts.size and starts[k + 1] <= q:
        k += 1
    return int(k)


@compiled
def _look_up(
    starts: FloatArray, arms: IntArray, first: IntArray, scale: float, q: FloatArray, out: IntArray
) -> int:
    """Write the arm of each state; return the first state that is none, or -1."""
    wrong = -1
    for i in range(q.size):
        if q[i] >= 0.0:
            out[i] = arms[_interval(starts, first, scale, q[i])]
        elif wrong < 0:
            wrong = i
    return wrong


@compiled
def _follow(
    starts: FloatArray,
    arms: IntArray,
    first: IntArray,
    scale: float,
    b: FloatArray,
    lam: float,
    q: float,
    shown: IntArray,
) -> None:
    """Write the arms that a user at state ``q`` is shown, one visit after the other."""
    for t in range(shown.size):
        shown[t] = arms[_interval(starts, first, scale, q)]
        q += lam * (b[shown[t]] - q)


@compiled
def _earned(
    starts: FloatArray,
    arms: IntArray,
    first: IntArray,
    scale: float,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    g: float,
    q: float,
) -> float:
    """Return what following the table earns from ``q`` on.

    The state soon runs in a circle, to the last bit where lam is not tiny; what a circle earns
    for ever is a geometric series. Whether a state has come back is seen by comparing with one
    noted after 1, 2, 4, ... visits.
    """
    highest_r, highest_q = 0.0, q
    for k in range(r.size):
        highest_r, highest_q = max(highest_r, r[k]), max(highest_q, b[k])
    most = highest_r * highest_q / (1.0 - g)
    total, weight = 0.0, 1.0
    noted_q, noted_total, lap, next_note = q, 0.0, 0, 1
    for _ in range(_MOST_VISITS):
        arm = arms[_interval(starts, first, scale, q)]
        total += weight * r[arm] * q
        q += lam * (b[arm] - q)
        weight *= g
        lap += 1
        if weight * most <= _NEGLIGIBLE * total:
            break
        if q == noted_q:
            whole = -math.expm1(lap * math.log(g))
            return float(total + (total - noted_total) * (1.0 - whole) / whole)
        if lap == next_note:
            noted_q, noted_total, lap, next_note = q, total, 0, 2 * next_note
    return float(total)


@compiled
def _height(knots: FloatArray, heights: FloatArray, k: int, q: float) -> float:
    """Return the height at ``q`` of the line between knots k and k + 1."""
    share = min(max((q - knots[k]) / (knots[k + 1] - knots[k]), 0.0), 1.0)
    return float(heights[k] + share * (heights[k + 1] - heights[k]))


@compiled
def _greatest_excess(
    r: FloatArray, b: FloatArray, lam: float, g: float, knots: FloatArray, heights: FloatArray
) -> float:
    """Return how far one more visit rises above a function that is linear between knots.

    With one arm both are linear between the knots and the states that the arm moves to a knot,
    so these are the only places to look.
    """
    last = knots.size - 2
    keep = 1.0 - lam
    worst = -np.inf
    for arm in range(r.size):
        shift = lam * b[arm]
        k = 0
        for at in range(knots.size):
            q = knots[at]
            moved = keep * q + shift
            while k < last and knots[k + 1] <= moved:
                k += 1
            worst = max(worst, r[arm] * q + g * _height(knots, heights, k, moved) - heights[at])
        if keep > 0.0:
            k = 0
            for at in range(knots.size):
                q = (knots[at] - shift) / keep
                if knots[0] <= q <= knots[-1]:
                    while k < last and knots[k + 1] <= q:
                        k += 1
                    rise = r[arm] * q + g * heights[at] - _height(knots, heights, k, q)
                    worst = max(worst, rise)
    return float(worst)


def _as_continuation(value: float) -> float:
    if not is_number(value) or not 0 <= value < 1:
        raise InvalidValueError(
            f"continuation must be a number in [0, 1), got {quoted(value)}: the probability that"
            " a user comes back after a visit"
        )
    return float(value)


def _as_numbers(name: str, values: Sequence[float] | FloatArray) -> FloatArray:
    """Return finite numbers of at least 0 as a read-only array of its own, or raise."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"{name} must be numbers, got {quoted(values)}") from None
    if array.ndim != 1 or array.size == 0 or holds_booleans(values):
        raise InvalidValueError(f"{name} must be a list of numbers, got {quoted(values)}")
    if not np.isfinite(array).all() or array.min() < 0:
        where = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0)))[0])
        raise InvalidValueError(
            f"{name} must be finite numbers of at least 0, got {array[where]} at place {where}"
        )
    array.flags.writeable = False
    return array


def _as_states(name: str, values: Sequence[float] | FloatArray) -> FloatArray:
    array = _as_numbers(name, values)
    if array[0] != 0 or (np.diff(array) <= 0).any():
        raise InvalidValueError(f"{name} must begin with 0 and rise, got {quoted(array.tolist())}")
    return array


def _as_starts(values: Sequence[float] | FloatArray) -> FloatArray:
    return _as_states("starts", values)


def _as_bound_states(values: Sequence[float] | FloatArray) -> FloatArray:
    return _as_states("bound_states", values)


def _as_bound_values(values: Sequence[float] | FloatArray) -> FloatArray:
    return _as_numbers("bound_values", values)


def _as_names(values: Sequence[str]) -> tuple[str, ...]:
    names = tuple(values)
    if not all(isinstance(name, str) for name in names):
        raise InvalidValueError(f"names must be texts, got {quoted(values)}")
    return names


@frozen(eq=False)
class DecisionTable:
    """Which arm to show at which state, when a user may leave after every visit.

    What is said of it is not believed but computed: values by following the table, and the upper
    bound by proving that one more visit does not lift it, or by how much at most.

    Parameters
    ----------
    instance : Instance
        The arms, the rate and the first state it is for.
    continuation : float
        In [0, 1): the probability that a user comes back after a visit.
    starts : FloatArray, shape (n,)
        States at which another arm begins to be the one to show: 0 first, rising.
    arms : IntArray, shape (n,)
        The arm from each start to the next; the last has no end.
    bound_states : FloatArray, shape (m,)
        States from 0 to :attr:`highest_state`, rising; at least two.
    bound_values : FloatArray, shape (m,)
        About the most that can be earned from each of them. In between, straight lines. The
        nearer to one more visit's fixed point, the less has to be added to prove it.
    names : tuple[str, ...]
        A name for each arm, or none.

    Examples
    --------
    >>> ads = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
    >>> always = [0.0, 1.0], [0.0, 45.0]  # no state above 1, no visit above 0.9, 50 visits
    >>> table = DecisionTable(ads, 0.98, [0.0, 0.5], [1, 0], *always)
    >>> table.arms_at([0.2, 0.5, 0.9]).tolist(), round(table.value, 2)
    ([1, 0, 0], 18.46)
    """

    instance: Instance
    continuation: float = field(converter=_as_continuation)
    starts: FloatArray = field(converter=_as_starts)
    arms: IntArray = field(converter=as_arms)
    bound_states: FloatArray = field(converter=_as_bound_states)
    bound_values: FloatArray = field(converter=_as_bound_values)
    names: tuple[str, ...] = field(default=(), converter=_as_names)
    _first: IntArray = field(init=False)
    _scale: float = field(init=False)
    _lift: float = field(init=False)
    """To be added to the lines between ``bound_values``."""

    def __attrs_post_init__(self) -> None:
        n_arms, highest = self.instance.n_arms, self.highest_state
        if self.starts.shape != self.arms.shape:
            raise InvalidValueError(
                f"need one arm for each start, got {self.arms.size} and {self.starts.size}"
            )
        if self.arms.max() >= n_arms:
            raise InvalidValueError(
                f"arm {int(self.arms.max())} does not exist: there are {n_arms}"
            )
        if self.starts[-1] > highest:
            raise InvalidValueError(
                f"no state is above {highest:g}, but an interval starts at {self.starts[-1]:g}"
            )
        if self.bound_states.shape != self.bound_values.shape or self.bound_states.size < 2:
            raise InvalidValueError(
                "need one bound value for each of at least two bound states, got"
                f" {self.bound_values.size} and {self.bound_states.size}"
            )
        if self.bound_states[-1] < highest:
            raise InvalidValueError(
                f"bound_states must reach the highest state, {highest:g}; the last is"
                f" {self.bound_states[-1]:g}"
            )
        if self.names and len(self.names) != n_arms:
            raise InvalidValueError(f"need {n_arms} names or none, got {len(self.names)}")
        size = 1 << max(8, (4 * self.starts.size).bit_length())
        scale = size / highest if highest > size / sys.float_info.max else 1.0
        places = np.searchsorted(self.starts, np.arange(size) / scale, side="right") - 1
        object.__setattr__(self, "_first", places.astype(np.int64))
        object.__setattr__(self, "_scale", scale)
        object.__setattr__(self, "_lift", self._proven_lift())

    def _proven_lift(self) -> float:
        """Return what makes the bound one: if one more visit adds at most e, all add e/(1-g)."""
        at, g = self.instance, self.continuation
        excess = _greatest_excess(at.r, at.b, at.lam, g, self.bound_states, self.bound_values)
        # Evaluating a visit rounds the state as well, which counts where lines are steep.
        with np.errstate(over="ignore"):
            steepest = np.max(np.abs(np.diff(self.bound_values) / np.diff(self.bound_states)))
        largest = float(self.bound_values.max()) + float(at.r.max()) * self.highest_state
        largest += float(steepest) * float(self.bound_states[-1])
        return max(excess + _ROUNDING * largest, 0.0) / (1.0 - g)

    @property
    def highest_state(self) -> float:
        """The highest state that a user can be in."""
        return max(self.instance.q0, float(self.instance.b.max()))

    @property
    def visits(self) -> float:
        """How often a user comes on average: 1 / (1 - continuation)."""
        return 1.0 / (1.0 - self.continuation)

    @property
    def value(self) -> float:
        """What a user who follows the table from the first state on brings on average."""
        return float(self.values_at([self.instance.q0])[0])

    @property
    def upper_bound(self) -> float:
        """Proven: no way to choose arms brings more from the first state on."""
        return float(self.upper_bounds_at([self.instance.q0])[0])

    @property
    def gap(self) -> float:
        """Upper bound on the table's loss against the optimum, relative to the bound."""
        bound = self.upper_bound
        if bound in (0, math.inf):
            return 1.0 if bound else 0.0
        return max(bound - self.value, 0.0) / bound

    def arms_at(self, states: Sequence[float] | FloatArray) -> IntArray:
        """Return the arm to show at each state of at least 0: shape (n,), as ``states``."""
        q = np.ascontiguousarray(states, dtype=np.float64)
        out = np.empty(q.shape, dtype=np.int64)
        if q.ndim != 1:
            raise InvalidValueError(f"states must be one-dimensional, got shape {q.shape}")
        wrong = _look_up(self.starts, self.arms, self._first, self._scale, q, out)
        if wrong >= 0:
            raise InvalidValueError(f"states must be at least 0, got {q[wrong]} at place {wrong}")
        return out

    def values_at(self, states: Sequence[float] | FloatArray) -> FloatArray:
        """Return what following the table brings on average from each state on: shape (n,).

        Visits that come after 10 million others are left out.
        """
        at, g = self.instance, self.continuation
        table = self.starts, self.arms, self._first, self._scale
        totals = [_earned(*table, at.r, at.b, at.lam, g, q) for q in self._checked(states)]
        return np.array(totals)

    def first_arms(self, n_visits: int) -> IntArray:
        """Return the arms that a user is shown at the first visits: shape (n_visits,)."""
        shown = np.empty(as_integer(n_visits, "n_visits", 1), dtype=np.int64)
        at = self.instance
        table = self.starts, self.arms, self._first, self._scale
        _follow(*table, at.b, at.lam, at.q0, shown)
        return shown

    def upper_bounds_at(self, states: Sequence[float] | FloatArray) -> FloatArray:
        """Return what no way to choose arms can exceed from each state on: shape (n,)."""
        lines = np.interp(self._checked(states), self.bound_states, self.bound_values)
        lifted: FloatArray = (lines + self._lift) * (1 + _ROUNDING)
        return lifted

    def _checked(self, states: Sequence[float] | FloatArray) -> FloatArray:
        checked = _as_numbers("states", states)
        if checked.max() > self.highest_state * (1 + 1e-9):
            raise InvalidValueError(
                f"states must be at most {self.highest_state:g}, the highest of q0 and b,"
                f" got {checked.max():g}"
            )
        return checked

    def arm_name(self, arm: int) -> str:
        """Return an arm's name, or ``arm 3`` where there are none; safe to print."""
        return one_line(self.names[arm], _MAX_NAME) if self.names else f"arm {arm}"

    def intervals(self) -> list[tuple[float, float, int]]:
        """Return start, end and arm of each interval; the last ends at the highest state."""
        ends = [*self.starts.tolist()[1:], self.highest_state]
        return list(zip(self.starts.tolist(), ends, self.arms.tolist(), strict=True))

    def __repr__(self) -> str:
        shown = [
            f"{self.arm_name(arm)} from {start:.4g}"
            for start, _, arm in self.intervals()[:MAX_NUMBERS]
        ]
        if self.starts.size > MAX_NUMBERS:
            shown.append("…")
        return shown_fields(
            "DecisionTable",
            visits=self.visits,
            value=self.value,
            upper_bound=self.upper_bound,
            gap=f"{self.gap:.2g}",
            intervals=self.starts.size,
            show=" · ".join(shown),
        )

    def _repr_html_(self) -> str:
        facts = [
            ("visits of a user, on average", self.visits),
            ("expected reward of a user", self.value),
            ("at most possible", self.upper_bound),
            ("gap", f"{100 * self.gap:.2g} %"),
        ]
        rows = [(start, end, self.arm_name(arm)) for start, end, arm in self.intervals()]
        return html_facts("Decision table", facts) + html_table(["from", "to", "show"], rows)

    def as_json(self) -> dict[str, object]:
        """Return what a JSON file of the table holds."""
        at = self.instance
        content: dict[str, object] = {
            "format": _FORMAT,
            "r": at.r.tolist(),
            "b": at.b.tolist(),
            "lam": at.lam,
            "q0": at.q0,
            "continuation": self.continuation,
            "value": self.value,
            "upper_bound": self.upper_bound,
            "starts": self.starts.tolist(),
            "arms": self.arms.tolist(),
            "bound_states": self.bound_states.tolist(),
            "bound_values": self.bound_values.tolist(),
        }
        if self.names:
            content["names"] = list(self.names)
        return content

    def write(self, path: str | Path) -> None:
        """Write the table to a JSON file, whole or not at all."""
        replace_text(Path(path), json.dumps(self.as_json()) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> "DecisionTable":
        """Return the table that a JSON file holds; its values and its bound are computed anew.

        Raises
        ------
        ConfigError
            If the file cannot be read, or holds anything but a sound table.
        """
        file = Path(path)
        try:
            return _from_members(read_json(file))
        except InvalidValueError as error:
            raise invalid_file(file, str(error)) from None


def _from_members(found: Mapping[str, object]) -> DecisionTable:
    """Return the table of a JSON object's members; raise InvalidValueError if it is none."""
    if found.get("format") != _FORMAT:
        raise InvalidValueError(f"is no decision table: its 'format' is not {_FORMAT!r}")
    for key in found:
        if key not in (*_KEYS, "names"):
            raise InvalidValueError(f"unknown key {quoted(key)}.{did_you_mean(key, _KEYS)}")
    for key in _KEYS:
        if key not in found:
            raise InvalidValueError(f"the key {key!r} is missing")
    lists = {key: _json_list(found, key) for key in _LISTS}
    instance = Instance(lists["r"], lists["b"], *(_json_number(found, k) for k in ("lam", "q0")))
    names = found.get("names", [])
    if not isinstance(names, list):
        raise InvalidValueError(f"names must be a list, got {quoted(names)}")
    table = DecisionTable(
        instance,
        _json_number(found, "continuation"),
        lists["starts"],
        _json_integers(lists["arms"]),
        lists["bound_states"],
        lists["bound_values"],
        tuple(names),
    )
    for key in _NUMBERS:
        said, computed = _json_number(found, key), getattr(table, key)
        if not math.isclose(said, computed, rel_tol=1e-9, abs_tol=1e-300):
            raise InvalidValueError(
                f"says its {key} is {said}, but it is {computed}: was the file changed by hand?"
            )
    return table


def _json_number(found: Mapping[str, object], key: str) -> float:
    value = found[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValueError(f"{key} must be a number, got {quoted(value)}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidValueError(f"{key} is too large: {quoted(value)}") from None


def _json_list(found: Mapping[str, object], key: str) -> list[float]:
    value = found[key]
    if not isinstance(value, list) or not all(map(is_number, value)):
        raise InvalidValueError(f"{key} must be a list of numbers, got {quoted(value)}")
    return value


def _json_integers(values: list[float]) -> list[int]:
    if not all(isinstance(value, int) for value in values):
        raise InvalidValueError(f"arms must be integers, got {quoted(values)}")
    return [int(value) for value in values]
