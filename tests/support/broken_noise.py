"""A local plugin of noise models: good ones, and for every check of the kit one that breaks it."""

import random
from typing import Any

import numpy as np
from numpy.random import Generator

from bdes_framework import FloatArray, Registrar, hookimpl
from tests.support.kit_subjects import Subjects

BDES_API_VERSION = 1

subject = Subjects()


@subject("good")
class Good:
    """Uniform between -0.3 and 0.3; its deviation is also its subGaussian parameter."""

    sigma: Any = 0.3 / 3**0.5

    def __init__(self, own: Generator) -> None:
        self.own = own

    def sample(self, size: int, rng: Generator) -> Any:
        return 0.6 * rng.random(size) - 0.3


@subject("good.gaussian")
class Gaussian(Good):
    """The bound on the tails holds with equality."""

    sigma = 2.0

    def sample(self, size: int, rng: Generator) -> FloatArray:
        return 2.0 * rng.standard_normal(size)


def broken(name: str, sample: Any) -> None:
    """Add a noise model whose sample is a function of the model, the size and the generator."""
    subject.variant(name, Good, sample=sample)


def drawn(size: int, rng: Generator) -> FloatArray:
    return 0.6 * rng.random(size) - 0.3


def centred(self: Good, size: int, rng: Generator) -> FloatArray:
    values = drawn(size, rng)
    return values - float(values.mean())


def moves_numpy(self: Good, size: int, rng: Generator) -> FloatArray:
    np.random.random()  # noqa: NPY002
    return drawn(size, rng)


def moves_random(self: Good, size: int, rng: Generator) -> FloatArray:
    random.random()
    return drawn(size, rng)


SIZED = "samples-are-float64-of-the-size-asked"

subject.variant("good.none", Good, sigma=0.0, sample=lambda self, size, rng: np.zeros(size))
subject.variant("sigma-is-finite-and-not-negative", Good, sigma=1)
broken(f"{SIZED}.32-bits", lambda self, size, rng: drawn(size, rng).astype(np.float32))
broken(
    f"{SIZED}.scalar",
    lambda self, size, rng: drawn(size, rng) if size > 1 else float(drawn(1, rng)[0]),
)
broken(
    f"{SIZED}.not-finite",
    lambda self, size, rng: drawn(size, rng) if size != 7 else np.full(7, np.inf),
)
broken("drawing-in-parts-changes-nothing.centred", centred)
broken(
    "drawing-in-parts-changes-nothing.reversed",
    lambda self, size, rng: drawn(size, rng)[::-1].copy(),
)
broken(
    "same-generator-gives-the-same-sample",
    lambda self, size, rng: drawn(size, rng if size < 2000 else np.random.default_rng()),
)
broken("randomness-comes-from-the-generator-given", lambda self, size, rng: drawn(size, self.own))
broken("uses-no-global-random-state.moves-numpy", moves_numpy)
broken("uses-no-global-random-state.moves-random", moves_random)
broken("mean-is-zero", lambda self, size, rng: 0.8 * drawn(size, rng) + 0.01)
subject.variant("tails-are-those-sigma-promises.upper", Gaussian, sigma=1.9)
# Mean 0 and deviation sigma, but below it falls further than above it rises:
subject.variant(
    "tails-are-those-sigma-promises.lower",
    Good,
    sigma=0.3,
    sample=lambda self, size, rng: np.where(rng.random(size) < 0.1, -0.9, 0.1),
)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.noise_model, lambda make, context: make(context.rng))
