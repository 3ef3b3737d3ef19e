"""The paper's protocol: clicks drawn from Bern(r·q), a state that follows the arms pulled."""

from typing import NoReturn

import numpy as np
from attrs import field, frozen
from numpy.random import Generator

from bdes_framework import (
    BuildContext,
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

_SWEEP = 1 << 14
"""Pulls per sweep: longer blocks are cut, so that luck and results stay in a core's cache."""


@frozen
class BernoulliConfig:
    """Clicks drawn from Bern(r·q); pulling an arm moves q towards its end state.

    Parameters
    ----------
    r : list of float in [0, 1]
        What each arm pays at state 1.
    b : list of float in [0, 1]
        The state that pulling each arm for ever leads to.
    lam : float in [0, 1]
        How far one pull moves the state towards the arm's end state.
    q0 : float in [0, 1]
        The state at the first pull.
    noise : noise model or nothing
        Noise on the state a reward is drawn from: Bern(clip(r·(q + noise), 0, 1)). The
        state itself stays deterministic.
    """

    r: FloatArray = field(eq=False)
    b: FloatArray = field(eq=False)
    lam: float
    q0: float = 1.0
    noise: NoiseModelRef | None = None

    def __attrs_post_init__(self) -> None:
        instance = self.instance
        for name, highest in (("r", instance.r.max()), ("b", instance.b.max()), ("q0", self.q0)):
            if highest > 1:
                raise InvalidValueError(
                    f"{name} must lie in [0, 1] to be simulated, got {highest};"
                    " Instance.scaled gives an equivalent instance"
                )

    @property
    def instance(self) -> Instance:
        """The instance these parameters describe."""
        return Instance(self.r, self.b, self.lam, self.q0)


class Bernoulli:
    """Plays a B-DES instance, a block of pulls in one compiled sweep."""

    def __init__(
        self, instance: Instance, luck: Generator, noise: NoiseModel | None, noise_luck: Generator
    ) -> None:
        self._instance = instance
        self._luck = luck
        self._noise = noise
        self._noise_luck = noise_luck
        self._q = np.array([instance.q0])
        self._uniforms = np.empty(0)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self._instance.n_arms

    @property
    def instance(self) -> Instance:
        """What is being played."""
        return self._instance

    def pull(self, arms: IntArray) -> Outcome:
        """Play ``arms`` in order: shape (n,)."""
        n = arms.size
        whole = Record.empty(n, arms)
        if n <= _SWEEP:
            self._sweep(whole)
        else:
            if arms.min() < 0 or arms.max() >= self.n_arms:
                self._refuse_outside(arms)
            for start in range(0, n, _SWEEP):
                self._sweep(whole.rounds(start, start + _SWEEP))
        probabilities = None if self._noise is None else whole.probabilities
        return Outcome(whole.rewards, whole.means, probabilities, whole.states)

    def _sweep(self, block: Record) -> None:
        if sweep_block(self.open_rounds(block.arms.size), block) >= 0:
            self._refuse_outside(block.arms)

    def _refuse_outside(self, arms: IntArray) -> NoReturn:
        first = int(np.flatnonzero((arms < 0) | (arms >= self.n_arms))[0])
        raise InvalidValueError(
            f"pull {first} of this block plays arm {arms[first]}; arms go from 0 to"
            f" {self.n_arms - 1}"
        )

    def open_rounds(self, n: int) -> World:
        """Draw the luck of the next n rounds."""
        if self._uniforms.size < n:
            self._uniforms = np.empty(n)
        uniforms = self._luck.random(out=self._uniforms[:n])
        noise = _NO_NOISE if self._noise is None else self._noise.sample(n, self._noise_luck)
        return World(
            self._instance.r, self._instance.b, self._instance.lam, self._q, uniforms, noise
        )


def build(config: BernoulliConfig, context: BuildContext) -> Bernoulli:
    """Build the environment, its luck and its noise on separate streams."""
    noise = None if config.noise is None else context.noise_model(config.noise)
    return Bernoulli(config.instance, context.rng, noise, context.stream("noise"))
