"""Compiled sweeps over pulls, shared by the core and by plugins.

Everything here runs the same, bit for bit, with numba and without it (or with
``NUMBA_DISABLE_JIT=1``), only slower: plain loops over arrays, scalar ``math``
functions, no fastmath. Plugins compile their own loops with :func:`compiled`.
"""

import dis
import hashlib
import linecache
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., object])

try:
    import numba
except ImportError:  # no wheels for this Python: the same code, interpreted

    def compiled(function: F) -> F:
        """Return ``function`` itself: numba is not installed."""
        return function
else:

    def compiled(function: F) -> F:
        """Compile ``function`` with numba, cached on disk; without numba it stays as it is.

        What is cached goes stale with the source of every compiled function it calls, in
        whatever file. Where nothing can be cached (no source file, nowhere to write), it is
        compiled anew in every process.
        """
        try:
            dispatcher: Any = numba.njit(cache=True)(function)
            if dispatcher is not function:  # as it is under NUMBA_DISABLE_JIT
                dispatcher._cache = _Cache(dispatcher)
        # RuntimeError: numba found no place for a cache; OSError: it cannot read the source;
        # AttributeError: its cache is built differently. No cache is slow, a stale one wrong.
        except (RuntimeError, OSError, AttributeError):
            dispatcher = numba.njit(function)
        return cast(F, dispatcher)


class _Cache:
    """numba's disk cache of one function, stamped with all sources that were compiled into it.

    numba stamps what it caches with the function's own file only, but compiles the functions
    it calls right into it. The stamp is made when first needed: by then everything the
    function calls has been defined.
    """

    def __init__(self, dispatcher: Any) -> None:
        self._function: FunctionType = dispatcher.py_func
        self._inner = dispatcher._cache
        self._file = self._inner._cache_file
        self._own_stamp = self._file._source_stamp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load_overload(self, *arguments: Any) -> Any:
        """Return what is cached for a signature, or None."""
        if not self._stamp():
            return None
        try:
            return self._inner.load_overload(*arguments)
        # A damaged file, or one that names a class of some package that is not here.
        except Exception:
            with suppress(OSError):
                self._inner.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Cache what was compiled for a signature; a full or locked disk is no reason to fail."""
        if self._stamp():
            with suppress(Exception):
                self._inner.save_overload(*arguments)

    def _stamp(self) -> bool:
        sources = _sources_stamp(self._function)
        self._file._source_stamp = (self._own_stamp, sources)
        return sources is not None


def _sources_stamp(function: FunctionType) -> str | None:
    """Hash all that is compiled into ``function``; None if some source cannot be read.

    That is the files of every compiled function it reaches, and the values of the global
    constants they use.
    """
    files: dict[str, str] = {}
    constants: set[str] = set()
    reached, waiting = {function}, [function]
    while waiting:
        current = waiting.pop()
        file = current.__code__.co_filename
        linecache.checkcache(file)
        files[file] = "".join(linecache.getlines(file, current.__globals__))
        for name, value in _used_values(current):
            inner = getattr(value, "py_func", None)
            if isinstance(inner, FunctionType) and inner not in reached:
                reached.add(inner)
                waiting.append(inner)
            elif isinstance(value, bool | int | float | complex | str | tuple | np.generic):
                constants.add(f"{current.__module__}.{name} {value!r}")
            elif isinstance(value, np.ndarray):
                content = hashlib.sha256(value.tobytes()).hexdigest()
                constants.add(f"{current.__module__}.{name} {value.dtype}{value.shape} {content}")
    if not all(files.values()):
        return None
    # Contents, not paths: a package that is moved is still the same.
    parts = [*sorted(files.values()), *sorted(constants)]
    digests = [hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest() for part in parts]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _used_values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the names a function uses from outside itself, and what they stand for."""
    known = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            known[name] = cell.cell_contents
    for code in _with_inner(function.__code__):
        value: object = None
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
                value = known.get(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
                value = getattr(value, step.argval, None)
            else:
                value = None
            yield str(step.argval), value


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


class World(NamedTuple):
    """A B-DES environment laid open for a fused policy: n rounds of its luck, pre-drawn.

    Only the environment makes one; only :func:`play_round` should touch what is in it.
    """

    r: FloatArray
    """Shape (K,): pay-off of each arm."""
    b: FloatArray
    """Shape (K,): end state of each arm."""
    lam: float
    """Evolution rate."""
    q: FloatArray
    """Shape (1,): the state before the next round; moved in place."""
    uniforms: FloatArray
    """Shape (n,): one uniform draw per round."""
    noise: FloatArray
    """Shape (n,): one draw of the noise per round, or shape (0,) without noise."""


class Record(NamedTuple):
    """Where n rounds are written down: all arrays of shape (n,)."""

    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    """Expected reward r·q, before noise."""
    probabilities: FloatArray
    """Under noise, what the reward was drawn from: clip(r·(q + noise), 0, 1). Else untouched."""
    states: FloatArray
    """The state each pull was made at."""

    @classmethod
    def empty(cls, n: int, arms: IntArray | None = None) -> "Record":
        """Return room for n rounds, for given arms or for arms yet to be chosen."""
        chosen = np.empty(n, dtype=np.int64) if arms is None else arms
        return cls(chosen, np.empty(n), np.empty(n), np.empty(n), np.empty(n))

    def rounds(self, start: int, stop: int) -> "Record":
        """Return the part of this record that rounds ``start`` to ``stop - 1`` are in."""
        return Record(
            self.arms[start:stop],
            self.rewards[start:stop],
            self.means[start:stop],
            self.probabilities[start:stop],
            self.states[start:stop],
        )


@compiled
def play_round(world: World, record: Record, t: int, arm: int) -> float:
    """Play ``arm`` in round ``t`` of this block; write it down; return the reward.

    An arm that does not exist is written down as it is, for :func:`simulate` to refuse, and
    pays like arm 0; a round outside the block is not played. Neither reads or writes outside
    the arrays.
    """
    if t < 0 or t >= record.arms.size:
        return 0.0
    known = arm if 0 <= arm < world.r.size else 0
    q = world.q[0]
    mean = world.r[known] * q
    probability = mean
    if world.noise.size:
        probability = min(max(world.r[known] * (q + world.noise[t]), 0.0), 1.0)
        record.probabilities[t] = probability
    reward = 1.0 if world.uniforms[t] < probability else 0.0
    record.arms[t] = arm
    record.rewards[t] = reward
    record.means[t] = mean
    record.states[t] = q
    world.q[0] = q + world.lam * (world.b[known] - q)
    return reward


@compiled
def sweep_states(b: FloatArray, lam: float, q0: float, arms: IntArray, states: FloatArray) -> float:
    """Write the state before each pull into ``states``; return the state after the last one.

    ``q += lam * (b - q)`` rather than ``(1 - lam) * q + lam * b``: it drifts less.
    """
    q = q0
    for t in range(arms.size):
        states[t] = q
        q = q + lam * (b[arms[t]] - q)
    return q


@compiled
def sweep_block(world: World, record: Record) -> int:
    """Play ``record.arms`` in order; return -1, or the first round whose arm is out of range.

    If an arm is out of range, nothing is played.
    """
    n_arms = world.r.size
    for t in range(record.arms.size):
        if record.arms[t] < 0 or record.arms[t] >= n_arms:
            return t
    lam = world.lam
    q = world.q[0]
    noisy = world.noise.size > 0
    for t in range(record.arms.size):
        arm = record.arms[t]
        mean = world.r[arm] * q
        probability = mean
        if noisy:
            probability = min(max(world.r[arm] * (q + world.noise[t]), 0.0), 1.0)
            record.probabilities[t] = probability
        record.rewards[t] = 1.0 if world.uniforms[t] < probability else 0.0
        record.means[t] = mean
        record.states[t] = q
        q = q + lam * (world.b[arm] - q)
    world.q[0] = q
    return -1
