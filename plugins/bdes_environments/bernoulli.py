"""The paper's environment: rewards drawn from Bern(r·q), a state that follows the arms pulled."""

from typing import Any, NoReturn

import numpy as np
from attrs import cmp_using, field, frozen
from numpy.random import Generator

from bdes_framework import (
    BuildContext,
    ContractError,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    NoiseModel,
    NoiseModelRef,
    Outcome,
    Record,
    World,
    sweep_block,
)

_NO_NOISE = np.empty(0)
_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_FULL_CHECKS = 3

_same_array = cmp_using(eq=np.array_equal)

_SWEEP = 1 << 14
"""Pulls per sweep: longer blocks are cut, so that draws and results stay in a core's cache."""


def check_unit_interval(_: object, attribute: Any, value: Any) -> None:
    """Raise for a parameter that no instance has, or that is no probability."""
    name = attribute.name
    arms = value if name in ("r", "b") else [1.0]
    Instance(arms, arms, value if name == "lam" else 1.0, value if name == "q0" else 1.0)
    if np.max(value) > 1:
        raise InvalidValueError(
            f"{name} must lie in [0, 1] to be simulated, got {np.max(value)};"
            " Instance.scaled gives an equivalent instance"
        )


@frozen(unsafe_hash=False)
class BernoulliConfig:
    """Clicks drawn from Bern(r·q); pulling an arm moves q towards its end state.

    Parameters
    ----------
    r : list[float]
        What each arm pays at state 1, in [0, 1].
    b : list[float]
        The state that pulling each arm for ever leads to, in [0, 1].
    lam : float
        How far one pull moves the state towards the arm's end state, in [0, 1].
    q0 : float
        The state at the first pull, in [0, 1].
    noise : noise model | None
        Noise on the state a reward is drawn from: Bern(clip(r·(q + noise), 0, 1)). The
        state itself stays deterministic.
    """

    r: FloatArray = field(eq=_same_array, validator=check_unit_interval)
    b: FloatArray = field(eq=_same_array, validator=check_unit_interval)
    lam: float = field(validator=check_unit_interval)
    q0: float = field(default=1.0, validator=check_unit_interval)
    noise: NoiseModelRef | None = None

    def __attrs_post_init__(self) -> None:
        instance = self.instance
        # Copies that nobody can change: what was checked is what will be played.
        object.__setattr__(self, "r", instance.r)
        object.__setattr__(self, "b", instance.b)

    @property
    def instance(self) -> Instance:
        """The instance these parameters describe."""
        return Instance(self.r, self.b, self.lam, self.q0)


class Bernoulli:
    """Plays a B-DES instance, a block of pulls in one compiled sweep."""

    def __init__(
        self, instance: Instance, rng: Generator, noise: NoiseModel | None, noise_rng: Generator
    ) -> None:
        self._instance = instance
        self._rng = rng
        self._noise = noise
        self._noise_rng = noise_rng
        self._q = np.array([instance.q0])
        self._uniforms = np.empty(0)
        self._full_checks_left = _FULL_CHECKS

    def __repr__(self) -> str:
        lam, noise = self._instance.lam, self._noise
        return f"Bernoulli(n_arms={self.n_arms}, lam={lam:.4g}, noise={noise!r})"

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self._instance.n_arms

    @property
    def instance(self) -> Instance:
        """The instance that is played."""
        return self._instance

    def pull(self, arms: IntArray) -> Outcome:
        """Play ``arms`` in order: shape (n,)."""
        if (
            type(arms) is not np.ndarray
            or arms.dtype is not _INT64
            or arms.ndim != 1
            or (arms.size > 1 and not arms.flags.c_contiguous)
        ):
            arms = _as_block(arms)
        n = arms.size
        whole = Record.empty(n, arms)
        if n <= _SWEEP:
            self._sweep(whole)
        else:
            if arms.min() < 0 or arms.max() >= self.n_arms:
                self._raise_missing_arm(arms)
            for start in range(0, n, _SWEEP):
                self._sweep(whole.rounds(start, start + _SWEEP))
        probabilities = None if self._noise is None else whole.probabilities
        return Outcome(whole.rewards, whole.means, probabilities, whole.states)

    def _sweep(self, block: Record) -> None:
        if sweep_block(self.open_rounds(block.arms.size), block) >= 0:
            self._raise_missing_arm(block.arms)

    def _raise_missing_arm(self, arms: IntArray) -> NoReturn:
        first = int(np.flatnonzero((arms < 0) | (arms >= self.n_arms))[0])
        raise InvalidValueError(
            f"pull {first} of this block plays arm {arms[first]}; arms go from 0 to"
            f" {self.n_arms - 1}"
        )

    def open_rounds(self, n: int) -> World:
        """Draw the random numbers of the next n rounds."""
        if self._uniforms.size < n:
            self._uniforms = np.empty(n)
        uniforms = self._rng.random(out=self._uniforms[:n])
        noise = _NO_NOISE if self._noise is None else self._draw_noise(self._noise, n)
        return World(
            self._instance.r, self._instance.b, self._instance.lam, self._q, uniforms, noise
        )

    def _draw_noise(self, model: NoiseModel, n: int) -> FloatArray:
        noise = draw_noise(model, n, self._noise_rng, self._full_checks_left > 0)
        self._full_checks_left = max(self._full_checks_left - 1, 0)
        return noise


def draw_noise(model: NoiseModel, n: int, rng: Generator, check_values: bool = True) -> FloatArray:
    """Draw noise, always of the right form: compiled code would read past a short array."""
    noise = model.sample(n, rng)
    if type(noise) is np.ndarray and noise.dtype == _FLOAT64 and noise.shape == (n,):
        if not check_values or np.isfinite(noise).all():
            return noise
        what = "numbers that are not finite"
    else:
        is_array = isinstance(noise, np.ndarray)
        what = f"{noise.dtype}, shape {noise.shape}" if is_array else type(noise).__name__
    name = f"{type(model).__module__}.{type(model).__qualname__}"
    raise ContractError(
        f"noise model {name}: sample({n}, rng) must return an array of {n} finite float64,"
        f" got {what}"
    )


def _as_block(arms: IntArray) -> IntArray:
    """Return arms as a contiguous array of int64, which the sweep is compiled for."""
    if not isinstance(arms, np.ndarray):
        raise InvalidValueError(f"arms must be an array of integers, got {type(arms).__name__}")
    if arms.ndim != 1 or not np.issubdtype(arms.dtype, np.integer):
        raise InvalidValueError(
            f"arms must be a one-dimensional array of integers, got {arms.dtype}, shape"
            f" {arms.shape}"
        )
    return np.ascontiguousarray(arms, dtype=np.int64)


def build(config: BernoulliConfig, context: BuildContext) -> Bernoulli:
    """Build the environment, with rewards and noise on separate random streams."""
    noise = None if config.noise is None else context.noise_model(config.noise)
    return Bernoulli(config.instance, context.rng, noise, context.stream("noise"))
