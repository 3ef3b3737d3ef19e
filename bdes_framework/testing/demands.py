"""The words checks are written in: demand something, compare arrays, watch global luck."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted

Array: TypeAlias = FloatArray | IntArray


class BrokenPromiseError(Exception):
    """What a check met instead of what it expected; the runner says where and in what."""

    def __init__(self, expected: str, came: str) -> None:
        self.expected = expected
        self.came = came
        super().__init__(expected, came)


class RefusedError(Exception):
    """The subject refused a scenario that it is free to refuse."""


def demand(holds: bool | np.bool_, expected: str, came: str) -> None:
    """Raise unless ``holds``."""
    if not holds:
        raise BrokenPromiseError(expected, came)


def demand_array(
    value: object, dtype: type[np.generic], expected: str, size: int | None = None
) -> None:
    """Raise unless ``value`` is a one-dimensional array of exactly this type, and size."""
    if not isinstance(value, np.ndarray):
        raise BrokenPromiseError(expected, f"{type(value).__name__}: {quoted(value)}")
    demand(
        value.dtype == np.dtype(dtype) and value.ndim == 1 and size in (None, value.size),
        expected,
        f"an array of {value.dtype}, shape {value.shape}",
    )


def demand_same(
    first: Array, second: Array, expected: str, what: str, place: str = "round"
) -> None:
    """Raise unless two arrays are equal bit for bit; say at which place they part."""
    if first.shape != second.shape:
        raise BrokenPromiseError(expected, f"{first.size} and then {second.size} {what}s")
    differs = np.flatnonzero((first != second) & ~(np.isnan(first) & np.isnan(second)))
    if differs.size:
        at = int(differs[0])
        came = f"{place} {at}: {what} {first[at]} and then {second[at]}"
        raise BrokenPromiseError(expected, came)


def demand_flat(diagnostics: object) -> None:
    """Raise unless these are diagnostics: names and scalars, strings or small arrays."""
    expected = "a flat mapping from names to bool, int, float, str or arrays of float64 or int64"
    if not isinstance(diagnostics, Mapping):
        raise BrokenPromiseError(expected, f"{type(diagnostics).__name__}: {quoted(diagnostics)}")
    for name, value in diagnostics.items():
        demand(isinstance(name, str), expected, f"a name that is no string: {quoted(name)}")
        allowed = isinstance(value, bool | int | float | str) or (
            isinstance(value, np.ndarray) and value.dtype in (np.float64, np.int64)
        )
        kind = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        demand(allowed, expected, f"{quoted(name)} is {quoted(value)}, of type {kind}")


def demand_no_global_luck(
    run: Callable[[int], tuple[Array, ...]], what: str, place: str = "round"
) -> None:
    """Raise unless ``run`` neither moves nor reads the global random states.

    ``run`` is given the seed to set them to, and returns its results.
    """
    results = []
    for global_seed in (1, 2):
        set_global_luck(global_seed)
        before = _global_luck()
        results.append(run(global_seed))
        demand(
            _global_luck() == before,
            "all luck from the generator given; np.random and random left alone",
            "the state of np.random or random moved",
        )
    expected = "the same results whatever np.random.seed was called with"
    for first, second in zip(*results, strict=True):
        demand_same(first, second, expected, what, place)


def set_global_luck(seed: int) -> None:
    """Seed numpy's and the standard library's global generators."""
    np.random.seed(seed)  # noqa: NPY002 (the legacy state is what is being watched)
    random.seed(seed)


@contextmanager
def global_luck_kept() -> Iterator[None]:
    """Leave the global random states as they were found."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _global_luck() -> tuple[str, object]:
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    inner = state["state"]
    return f"{inner['key'].tobytes()!r} {inner['pos']} {state['has_gauss']}", random.getstate()
