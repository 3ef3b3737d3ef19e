"""Noise models drawn directly from the generator: none, Gaussian, uniform, Rademacher.

Every model here is *strictly* subGaussian: its parameter ``sigma`` is its standard
deviation, and since no smaller number can bound the moment generating function near 0,
it is also the best one.
"""

import math

import numpy as np
from attrs import field, frozen
from attrs.validators import and_, ge, lt
from numpy.random import Generator

from bdes_framework import FloatArray, validate_number

HALF_STEP = 2.0**-54
"""Half the distance between two uniform draws of numpy, which are multiples of 2^-53."""

_is_size = and_(validate_number, ge(0.0), lt(math.inf))


def centred_uniforms(size: int, rng: Generator) -> FloatArray:
    """Draw uniforms on (-1/2, 1/2), one draw per value, exactly symmetric about 0.

    numpy draws from [0, 1), 0 included; moved to the middle of its step, a draw can be
    neither end, and u and -u are equally likely. No rounding occurs: 53 bits suffice.
    """
    uniforms = rng.random(size)
    uniforms -= 0.5
    uniforms += HALF_STEP
    return uniforms


@frozen
class NoNoise:
    """No noise at all: every value is 0."""

    sigma = 0.0

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Return zeros: shape (size,)."""
        return np.zeros(size)


@frozen
class Gaussian:
    """Gaussian noise.

    Parameters
    ----------
    sigma : float
        Standard deviation, finite and at least 0. Also the subGaussian parameter:
        E exp(s·noise) equals exp(sigma²·s²/2).
    """

    sigma: float = field(validator=_is_size)

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Draw ``size`` values.

        numpy's ziggurat rejects inside one value, never across values, and keeps nothing
        back: m values and then n are the same as m + n.
        """
        return float(self.sigma) * rng.standard_normal(size)


@frozen
class UniformNoise:
    """Noise uniform on (-half_width, half_width).

    With h the half-width, the subGaussian parameter is h/sqrt(3), the standard deviation:
    E exp(s·noise) = sinh(sh)/(sh) is the sum of (sh)^(2n)/(2n+1)!, and as (2n+1)! >= 6^n·n!
    it is, term by term, at most exp(s²h²/6).

    Parameters
    ----------
    half_width : float
        The largest absolute value, finite and at least 0.
    """

    half_width: float = field(validator=_is_size)

    @property
    def sigma(self) -> float:
        """The standard deviation, which is also the subGaussian parameter."""
        return self.half_width / math.sqrt(3.0)

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Draw ``size`` values, one uniform draw each."""
        values = centred_uniforms(size, rng)
        values *= 2.0
        values *= float(self.half_width)
        return values


@frozen
class Rademacher:
    """Noise that is size or -size, each with probability 1/2.

    The subGaussian parameter is the size: E exp(s·noise) = cosh(s·size) is, term by term,
    at most exp(size²·s²/2), as (2n)! >= 2^n·n!.

    Parameters
    ----------
    size : float
        The absolute value, finite and at least 0.
    """

    size: float = field(validator=_is_size)

    @property
    def sigma(self) -> float:
        """The size, which is also the subGaussian parameter."""
        return float(self.size)

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Draw ``size`` values, one uniform draw each."""
        return np.where(rng.random(size) < 0.5, -self.sigma, self.sigma)
