"""A log of pulls: which arms were played in which order, and what each of them paid.

One sequence, or many independent ones (users), each with a state of its own that begins at
the same ``q0``.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray, holds_booleans
from bdes_framework._internal.display import shown_fields, shown_names
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.fitting.log_sources import Reading, read_frame_rows
from bdes_framework.fitting.row_store import freeze, with_bases
from bdes_framework.fitting.rows import MAX_LOG_ARMS, Columns, warn_of_bad_rows
from bdes_framework.model.compiling import compiled

if TYPE_CHECKING:
    import pandas
    import polars


UNKNOWN_REWARD = -128
"""How a :class:`Log` keeps a reward that is not known: no file means something else by it."""
_MAX_STRATUM = np.iinfo(np.int32).max

Rows: TypeAlias = Sequence[int] | NDArray[Any]
Numbers: TypeAlias = Sequence[float] | NDArray[Any]
_Number = TypeVar("_Number", bound=np.generic)


def _as_array(values: Any) -> NDArray[Any]:
    """Return an array, of dtype object where no other can be made."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        return np.array(None)


def checked_rows(
    what: str, values: object, kinds: str, largest: float, whole: bool = False
) -> NDArray[Any]:
    """Return one number per row, from 0 to ``largest``, or raise, naming the first bad row.

    ``kinds`` are the kinds of numpy dtypes allowed; ``whole`` allows floats that are whole.
    """
    array = _as_array(values)
    if array.ndim == 1 and array.size == 0:
        return array.astype(np.int64)  # an empty list is one of floats to numpy
    mixed = "b" not in kinds and holds_booleans(values)
    if array.ndim != 1 or array.dtype.kind not in kinds or mixed:
        number = "whole number" if kinds == "iu" else "number"
        raise InvalidValueError(f"{what}: expected one {number} per row, got {quoted(values)}")
    broken = whole and array.dtype.kind == "f" and not (array == np.floor(array)).all()
    if broken or not 0 <= array.min() <= array.max() <= largest:  # nor is it with NaN
        good = (array >= 0) & (array <= largest)
        row = int(np.argmin(good & (array == np.floor(array)) if broken else good))
        number = "a whole number" if whole else "a number"
        allowed = f"{number} from 0 to {largest}" if largest >= 0 else "nothing, without rows"
        raise InvalidValueError(
            f"{what}, row {row}: expected {allowed}, got {quoted(array[row].item())}"
        )
    return array


def checked_rewards(values: object, whole: bool = False) -> NDArray[Any]:
    """Return one reward per row, from 0 to 1, or raise, naming the first bad row.

    Rewards that are not known, NaN or :data:`UNKNOWN_REWARD` as int8, stay what they are.
    """
    array = _as_array(values)
    if array.ndim == 1 and array.dtype.kind == "f":
        unknown = np.isnan(array)
    elif array.ndim == 1 and array.dtype == np.int8:
        unknown = array == UNKNOWN_REWARD
    else:
        return checked_rows("rewards", values, "biuf", 1, whole)
    if not unknown.any():
        return checked_rows("rewards", values, "biuf", 1, whole)
    checked_rows("rewards", np.where(unknown, np.zeros(1, array.dtype), array), "if", 1, whole)
    return array


def _own(array: NDArray[Any], dtype: type[_Number]) -> NDArray[_Number]:
    """Return rows that nobody can change any more: sweeps do not check them again.

    What nobody can write to, as the parts of another log, is taken as it is.
    """
    writeable = any(part.flags.writeable for part in with_bases(array))
    own: NDArray[_Number] = array.astype(dtype, copy=writeable)
    freeze(own)
    return own


# Rows are kept small, and always alike, so that sweeps are compiled once.
def _as_arms(values: Rows) -> NDArray[np.int32]:
    what = f"arms (at most {MAX_LOG_ARMS:,}, as every row costs their square)"
    return _own(checked_rows(what, values, "biuf", MAX_LOG_ARMS - 1, whole=True), np.int32)


def _as_rewards(values: Numbers) -> NDArray[np.int8]:
    array = checked_rewards(values, whole=True)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), UNKNOWN_REWARD, array)
    return _own(array, np.int8)


def _as_propensities(values: Numbers | None) -> FloatArray | None:
    if values is None:
        return None
    array = checked_rows("propensities", values, "iuf", 1)
    if array.size and array.min() == 0:
        row = int(np.argmin(array))
        raise InvalidValueError(f"propensities, row {row}: expected a number above 0, got 0")
    return _own(array, np.float64)


def _as_strata(values: Rows | None) -> NDArray[np.int32] | None:
    if values is None:
        return None
    return _own(checked_rows("strata", values, "biuf", _MAX_STRATUM, whole=True), np.int32)


def _as_starts(values: Rows | None) -> IntArray:
    starts, largest = [0] if values is None else values, np.iinfo(np.int64).max
    return _own(checked_rows("starts", starts, "biuf", largest, whole=True), np.int64)


def _as_names(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return names, or none of them: then arms are called by their numbers."""
    if values is None:
        return ()
    names = () if isinstance(values, str) else tuple(str(value) for value in values)
    if not names:
        got = quoted(values) if isinstance(values, str) else "none"
        raise InvalidValueError(f"names: expected one text per arm, got {got}")
    return names


@frozen(eq=False)
class Log:
    """Arms and 0-or-1 rewards, in the order they happened; some rewards may not be known.

    Parameters
    ----------
    arms : IntArray, shape (n,)
        The arm of each row, counted from 0.
    rewards : NDArray, shape (n,)
        What it paid: 0 or 1, or NaN where that is not known; then the row still moves the state.
        Kept as int8, with ``UNKNOWN_REWARD``, which is -128, for NaN.
    starts : IntArray | None
        The rows at which sequences begin: the first is 0, and they increase. By default the
        whole log is one sequence.
    names : Iterable[str] | None
        What the arms are called; by default their numbers. There may be arms that were
        never played.
    propensities : FloatArray | None, shape (n,)
        How probable it was that the arm of each row was chosen: above 0, and at most 1.
    strata : NDArray | None, shape (n,)
        Groups of rows, as whole numbers from 0, within which any arm might have been chosen as
        well: times of day, for example.

    Examples
    --------
    >>> log = Log([0, 1, 0, 0], [1, 0, 0, 1], starts=[0, 2], names=["loud", "calm"])
    >>> log.n_rows, log.n_sequences, log.n_arms
    (4, 2, 2)
    >>> log
    Log(n_rows=4, n_sequences=2, n_arms=2, names=[loud, calm])
    >>> Log([0, 1, 0], [1, float("nan"), 0]).known.tolist()
    [True, False, True]
    """

    arms: NDArray[np.int32] = field(converter=_as_arms)
    rewards: NDArray[np.int8] = field(converter=_as_rewards)
    starts: IntArray = field(default=None, converter=_as_starts)
    names: tuple[str, ...] = field(default=None, converter=_as_names)
    propensities: FloatArray | None = field(default=None, converter=_as_propensities)
    strata: NDArray[np.int32] | None = field(default=None, converter=_as_strata)

    def __attrs_post_init__(self) -> None:
        if not self.arms.size:
            raise InvalidValueError("the log has no rows")
        of_rows = {"reward": self.rewards, "propensity": self.propensities, "stratum": self.strata}
        for what, values in of_rows.items():
            if values is not None and self.arms.size != values.size:
                raise InvalidValueError(
                    f"need one {what} per row, got {values.size} for {self.arms.size}"
                )
        last = int(self.arms.max())
        if not self.names:
            object.__setattr__(self, "names", tuple(map(str, range(last + 1))))
        if last >= len(self.names):
            raise InvalidValueError(f"arm {last} has no name: there are {len(self.names)} names")
        if len(set(self.names)) < len(self.names):
            raise InvalidValueError("two arms have the same name")
        starts = self.starts
        if not starts.size or starts[0] != 0:
            raise InvalidValueError("starts must begin with row 0")
        if (np.diff(starts) <= 0).any() or starts[-1] >= self.n_rows:
            raise InvalidValueError(f"starts must increase and lie below {self.n_rows}")

    @classmethod
    def of_users(
        cls,
        users: ArrayLike,
        arms: Rows,
        rewards: Numbers,
        names: Iterable[str] | None = None,
        propensities: Numbers | None = None,
        strata: Rows | None = None,
    ) -> "Log":
        """Return the log of several users, whose rows stand together and in order.

        >>> Log.of_users(["ann", "ann", "bob"], [0, 1, 0], [1, 1, 0]).starts.tolist()
        [0, 2]
        """
        column, played = _as_array(users), _as_arms(arms)
        if column.shape != played.shape:
            raise InvalidValueError(f"need one user per row, got {column.size} for {played.size}")
        try:
            changes = np.asarray(column[1:] != column[:-1], dtype=np.bool_)
            starts = np.flatnonzero(np.append(True, changes)[: column.size])
            seen: set[object] = set()
            for row, user in zip(starts.tolist(), column[starts].tolist(), strict=True):
                if user is None or user != user:
                    raise InvalidValueError(f"users, row {row}: has no user")
                if user in seen:
                    raise InvalidValueError(
                        f"users, row {row}: a user's rows must stand together: sort by user, then"
                        " by time"
                    )
                seen.add(user)
        except TypeError:
            raise InvalidValueError("users must be numbers or text") from None
        return cls(played, rewards, starts, names, propensities, strata)

    @classmethod
    def from_frame(
        cls,
        frame: "pandas.DataFrame | polars.DataFrame",
        columns: Columns | None = None,
        *,
        strict: bool = False,
    ) -> "Log":
        """Return the log that a frame of pandas or polars holds, with the checks of ``read_log``.

        Rows are sorted by user and order; without an order, those of a user are taken as they
        come. Bad rows are a warning, and an error that names the first, counted from 0, where
        they are more than 1 %. It needs the extra ``logs``.

        Parameters
        ----------
        frame : pandas.DataFrame | polars.DataFrame
            One row per pull.
        columns : Columns | None
            What its columns are called; ``arm`` and ``reward`` by default, and one sequence.
        strict : bool
            Whether a single bad row is an error.

        Examples
        --------
        >>> import pandas
        >>> shown = pandas.DataFrame(
        ...     {
        ...         "who": ["ann", "bob", "ann", "bob"],
        ...         "ad": ["loud", "calm", "calm", "calm"],
        ...         "click": [1, 0, 1, 1],
        ...     }
        ... )
        >>> log = Log.from_frame(shown, Columns(arm="ad", reward="click", user="who"))
        >>> log.names, log.arms.tolist(), log.starts.tolist()
        (('calm', 'loud'), [1, 0, 0, 0], [0, 2])
        """
        named = columns or Columns()
        rows = read_frame_rows(frame, Reading(named, strict=strict))
        warn_of_bad_rows(rows.bad)
        return cls(*rows[:-1])

    def __reduce__(self) -> tuple[type["Log"], tuple[object, ...]]:
        """Go through the checks again: arrays from a pickle can be written to."""
        rows = (self.arms, self.rewards, self.starts, self.names)
        return Log, (*rows, self.propensities, self.strata)

    def __repr__(self) -> str:
        shown = {"n_rows": self.n_rows, "n_sequences": self.n_sequences, "n_arms": self.n_arms}
        if unknown := self.n_unknown:
            shown["n_unknown"] = unknown
        return shown_fields("Log", **shown, names=shown_names(self.names))

    @property
    def n_arms(self) -> int:
        """How many arms there are, played or not."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """How many pulls there are."""
        return self.arms.size

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a reward that is known, shape (n,)."""
        return self.rewards >= 0

    @property
    def n_unknown(self) -> int:
        """How many rewards are not known."""
        return int(self._counts[:, 2].sum())

    @property
    def n_sequences(self) -> int:
        """How many independent sequences there are."""
        return self.starts.size

    @property
    def longest(self) -> int:
        """How many rows the longest sequence has."""
        return int(np.diff(self.starts, append=self.n_rows).max())

    def plays(self) -> IntArray:
        """Return how often each arm was played, whether its reward is known or not: shape (K,)."""
        return np.asarray(self._counts.sum(axis=1))

    def totals(self) -> tuple[IntArray, IntArray]:
        """Return how often each arm was played, and how often it paid: shape (K,) each.

        Rows whose reward is not known do not count.
        """
        failed, paid, _ = self._counts.T
        return failed + paid, paid.copy()

    @cached_property
    def _counts(self) -> IntArray:
        """Rows by arm that paid nothing, that paid, and whose reward is not known: (K, 3)."""
        counts = np.zeros((self.n_arms, 3), np.int64)
        _count_rewards(self.arms, self.rewards, counts)
        return counts

    def first(self, n_rows: int) -> "Log":
        """Return the first rows as a log of its own, all arms kept."""
        if n_rows >= self.n_rows:
            return self
        starts = self.starts[: int(np.searchsorted(self.starts, n_rows))]
        optional = [
            None if values is None else values[:n_rows]
            for values in (self.propensities, self.strata)
        ]
        return Log(self.arms[:n_rows], self.rewards[:n_rows], starts, self.names, *optional)


@compiled
def _count_rewards(arms: NDArray[np.int32], rewards: NDArray[np.int8], counts: IntArray) -> None:
    """Count rows by arm and by reward: 0, 1, or not known."""
    for t in range(arms.size):
        counts[arms[t], rewards[t] if rewards[t] >= 0 else 2] += 1
