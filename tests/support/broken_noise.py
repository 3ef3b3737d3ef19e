"""A local plugin of noise models: good ones, and for every check of the kit one that breaks it."""

from typing import Any

import numpy as np
from numpy.random import Generator

from bdes_framework import Registrar, hookimpl
from tests.support.kit_subjects import Subjects

BDES_API_VERSION = 1

subject = Subjects()


@subject("good")
class Good:
    """Uniform between -0.3 and 0.3; its deviation is also its subGaussian parameter."""

    sigma = 0.3 / 3**0.5

    def __init__(self, own: Generator) -> None:
        self.own = own

    def sample(self, size: int, rng: Generator) -> Any:
        return 0.6 * rng.random(size) - 0.3


def changed(name: str, change: Any) -> None:
    """Add a noise model that changes good samples."""
    subject.after(name, "sample", lambda values, self, size, rng: change(values))


def drawn_from(name: str, generator: Any) -> None:
    """Add a noise model that draws from another generator than the one given."""
    subject.variant(
        name, sample=lambda self, size, rng: Good.sample(self, size, generator(self, size, rng))
    )


SIZED = "samples-are-float64-of-the-size-asked"
PARTS = "drawing-in-parts-changes-nothing"
TAILS = "tails-are-those-sigma-promises"

subject.variant("good.none", sigma=0.0, sample=lambda self, size, rng: np.zeros(size))
# The bound on the tails holds with equality:
gaussian = {"sample": lambda self, size, rng: 2.0 * rng.standard_normal(size)}
subject.variant("good.gaussian", sigma=2.0, **gaussian)
subject.variant(f"{TAILS}.upper", sigma=1.9, **gaussian)
# Mean 0 and deviation sigma, but below it falls further than above it rises:
lower = {"sample": lambda self, size, rng: np.where(rng.random(size) < 0.1, -0.9, 0.1)}
subject.variant(f"{TAILS}.lower", sigma=0.3, **lower)
subject.variant("sigma-is-finite-and-not-negative", sigma=1)
changed("mean-is-zero", lambda values: 0.8 * values + 0.01)
changed(f"{SIZED}.32-bits", lambda values: values.astype(np.float32))
changed(f"{SIZED}.scalar", lambda values: values if values.size > 1 else float(values[0]))
changed(f"{SIZED}.not-finite", lambda values: values if values.size != 7 else np.full(7, np.inf))
changed(f"{PARTS}.centred", lambda values: values - float(values.mean()))
changed(f"{PARTS}.reversed", lambda values: values[::-1].copy())
drawn_from("randomness-comes-from-the-generator-given", lambda self, size, rng: self.own)
drawn_from(
    "same-generator-gives-the-same-sample",
    lambda self, size, rng: rng if size < 2000 else np.random.default_rng(),
)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.noise_model, "sample", lambda make, context: make(context.rng))
