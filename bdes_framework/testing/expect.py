"""What checks expect: conditions, arrays, rounds, diagnostics, global random state."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from attrs import define, fields, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework.interfaces import Outcome
from bdes_framework.model.rounds import Record, World

Array: TypeAlias = FloatArray | IntArray
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@define
class PromiseBrokenError(Exception):
    """What a check met instead of what it expected; the runner says where and in what."""

    expected: str
    came: str


class ScenarioRejectedError(Exception):
    """The subject rejected a scenario that it is free to reject."""


def that(holds: bool | np.bool_, expected: str, came: str) -> None:
    """Raise unless ``holds``."""
    if not holds:
        raise PromiseBrokenError(expected, came)


def array(value: object, dtype: type[np.generic], expected: str, size: int | None = None) -> None:
    """Raise unless ``value`` is a one-dimensional array of exactly this type, and size."""
    if not isinstance(value, np.ndarray):
        raise PromiseBrokenError(expected, f"{type(value).__name__}: {quoted(value)}")
    that(
        value.dtype == np.dtype(dtype) and value.ndim == 1 and size in (None, value.size),
        expected,
        f"an array of {value.dtype}, shape {value.shape}",
    )


def same(
    first: Array, second: Array, expected: str, what: str, place: str = "round", rtol: float = 0.0
) -> None:
    """Raise unless two arrays are equal, bit for bit by default; say at which place they part."""
    if first.shape != second.shape:
        raise PromiseBrokenError(expected, f"{first.size} and then {second.size} {what}s")
    close = np.isclose(first, second, rtol=rtol, atol=rtol / 1000, equal_nan=True)
    if not close.all():
        at = int(np.argmin(close))
        came = f"{place} {at}: {what} {first[at]} and then {second[at]}"
        raise PromiseBrokenError(expected, came)


def all_allowed(values: Array, allowed: BoolArray, expected: str) -> None:
    """Raise unless every value is allowed; show the first that is not."""
    that(allowed.all(), expected, f"{np.asarray(values)[~allowed][:1]}")


@frozen(eq=False)
class Rounds:
    """What was played and what it brought, round by round: arrays of shape (T,)."""

    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    probabilities: FloatArray
    """The means, where the environment gives no probabilities of its own."""

    @classmethod
    def of(cls, arms: IntArray, outcome: Outcome) -> "Rounds":
        """Copy at once what an environment may overwrite when it is pulled again."""
        drawn_from = outcome.means if outcome.probabilities is None else outcome.probabilities
        columns = (outcome.rewards, outcome.means, drawn_from)
        return cls(arms, *(np.array(column, dtype=np.float64).ravel() for column in columns))

    @classmethod
    def fused(
        cls, world: World, arms: IntArray, play: Callable[[World, Record], object]
    ) -> "Rounds":
        """Return what a fused loop writes down, over what no round can bring."""
        record = Record(arms, *np.full((4, arms.size), -1.0))
        play(world, record)
        probabilities = record.probabilities if world.noise.size else record.means
        return cls(record.arms, record.rewards, record.means, probabilities)

    @classmethod
    def joined(cls, parts: Sequence["Rounds"]) -> "Rounds":
        """Put together what came block by block."""
        columns = [[getattr(part, field.name) for part in parts] for field in fields(cls)]
        return cls(*map(np.concatenate, columns))


def same_rounds(first: Rounds, second: Rounds, how: str) -> None:
    """Raise unless two games are equal bit for bit."""
    singular = {"arms": "arm", "rewards": "reward", "means": "mean", "probabilities": "probability"}
    for name, what in singular.items():
        same(getattr(first, name), getattr(second, name), f"the same {name} {how}", what)


def flat(diagnostics: object) -> None:
    """Raise unless these are diagnostics: names and scalars, strings or small arrays."""
    expected = "a flat mapping from names to bool, int, float, str or arrays of float64 or int64"
    if not isinstance(diagnostics, Mapping):
        raise PromiseBrokenError(expected, f"{type(diagnostics).__name__}: {quoted(diagnostics)}")
    for name, value in diagnostics.items():
        if not isinstance(name, str):
            raise PromiseBrokenError(expected, f"a name that is no string: {quoted(name)}")
        array = isinstance(value, np.ndarray)
        if not isinstance(value, bool | int | float | str) and not (
            array and value.dtype in (np.float64, np.int64)
        ):
            kind = f"array of {value.dtype}" if array else type(value).__name__
            came = f"{quoted(name)} is {quoted(value)}, of type {kind}"
            raise PromiseBrokenError(expected, came)


def global_random_state_unused(
    run: Callable[[int], tuple[Array, ...]], what: str, place: str = "round"
) -> None:
    """Raise unless ``run`` neither moves nor reads the global random states.

    ``run`` is given the seed to set them to, and returns its results.
    """
    results = []
    for global_seed in (1, 2):
        seed_global_random_state(global_seed)
        before = _global_random_state()
        results.append(run(global_seed))
        that(
            _global_random_state() == before,
            "all randomness from the generator given; np.random and random left alone",
            "the state of np.random or random moved",
        )
    expected = "the same results whatever np.random.seed was called with"
    for first, second in zip(*results, strict=True):
        same(first, second, expected, what, place)


def seed_global_random_state(seed: int) -> None:
    """Seed numpy's and the standard library's global generators."""
    np.random.seed(seed)  # noqa: NPY002 (the legacy state is what is being watched)
    random.seed(seed)


@contextmanager
def global_random_state_restored() -> Iterator[None]:
    """Leave the global random states as they were found."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _global_random_state() -> tuple[str, object]:
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    inner = state["state"]
    return f"{inner['key'].tobytes()!r} {inner['pos']} {state['has_gauss']}", random.getstate()
