"""A local plugin of noise models: good ones, and for every check of the kit one that breaks it.

Each broken one is registered under the name of the one check it fails, with hyphens; what
follows a dot tells several for the same check apart.
"""

import random
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from attrs import AttrsInstance
from numpy.random import Generator

from bdes_framework import BuildContext, FloatArray, NoiseModel, Registrar, hookimpl
from tests.support.kit_subjects import SpeechlessConfig, UnexplainedConfig, config_for

BDES_API_VERSION = 1

N = TypeVar("N", bound=NoiseModel)
SUBJECTS: dict[str, Any] = {}


def subject(name: str) -> Callable[[type[N]], type[N]]:
    """Register the class below under a name."""

    def add(cls: type[N]) -> type[N]:
        SUBJECTS[name] = cls
        return cls

    return add


@subject("good")
class Good:
    """Uniform between -0.3 and 0.3; its deviation is also its subGaussian parameter."""

    def __init__(self, own: Generator) -> None:
        self.own = own

    @property
    def sigma(self) -> Any:
        return 0.3 / 3**0.5

    def sample(self, size: int, rng: Generator) -> Any:
        return 0.6 * rng.random(size) - 0.3


@subject("good.gaussian")
class Gaussian(Good):
    """The bound on the tails holds with equality."""

    @property
    def sigma(self) -> float:
        return 2.0

    def sample(self, size: int, rng: Generator) -> FloatArray:
        return 2.0 * rng.standard_normal(size)


@subject("good.none")
class Nothing(Good):
    @property
    def sigma(self) -> float:
        return 0.0

    def sample(self, size: int, rng: Generator) -> FloatArray:
        return np.zeros(size)


@subject("sigma-is-finite-and-not-negative")
class WholeSigma(Good):
    @property
    def sigma(self) -> int:
        return 1


@subject("samples-are-float64-of-the-size-asked.32-bits")
class Narrow(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, rng).astype(np.float32)


@subject("samples-are-float64-of-the-size-asked.scalar")
class Scalar(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, rng) if size > 1 else float(super().sample(1, rng)[0])


@subject("samples-are-float64-of-the-size-asked.not-finite")
class Infinite(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, rng) if size != 7 else np.full(7, np.inf)


@subject("drawing-in-parts-changes-nothing.centred")
class Centred(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        drawn = super().sample(size, rng)
        return drawn - drawn.mean()


@subject("drawing-in-parts-changes-nothing.reversed")
class Reversed(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, rng)[::-1].copy()


@subject("same-generator-gives-the-same-sample")
class LateLuck(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, rng if size < 2000 else np.random.default_rng())


@subject("randomness-comes-from-the-generator-given")
class OwnLuck(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return super().sample(size, self.own)


@subject("uses-no-global-random-state.moves-numpy")
class MovesNumpy(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        np.random.random()  # noqa: NPY002
        return super().sample(size, rng)


@subject("uses-no-global-random-state.moves-random")
class MovesRandom(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        random.random()
        return super().sample(size, rng)


@subject("mean-is-zero")
class Biased(Good):
    def sample(self, size: int, rng: Generator) -> Any:
        return 0.8 * super().sample(size, rng) + 0.01


@subject("tails-are-those-sigma-promises.upper")
class Modest(Gaussian):
    @property
    def sigma(self) -> float:
        return 1.9


@subject("tails-are-those-sigma-promises.lower")
class Skewed(Good):
    """Mean 0 and deviation sigma, but below it falls further than above it rises."""

    @property
    def sigma(self) -> float:
        return 0.3

    def sample(self, size: int, rng: Generator) -> FloatArray:
        return np.where(rng.random(size) < 0.1, -0.9, 0.1)


# -- the plugin -----------------------------------------------------------------------------


def factory(make: Callable[[Generator], NoiseModel]) -> Callable[..., NoiseModel]:
    def build(config: AttrsInstance, context: BuildContext) -> NoiseModel:
        return make(context.rng)

    return build


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    for name, make in SUBJECTS.items():
        registrar.noise_model(name, config_for(name), factory(make))
    registrar.noise_model("parameters-are-documented.one-not", UnexplainedConfig, factory(Good))
    registrar.noise_model("parameters-are-documented.none-at-all", SpeechlessConfig, factory(Good))
