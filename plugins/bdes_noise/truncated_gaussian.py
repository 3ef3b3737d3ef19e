"""Truncated Gaussian noise, drawn by inverting its distribution function.

One uniform draw makes one value and nothing is rejected, so block sizes never change a
result. The inverse is compiled, and the same code runs interpreted without numba.
"""

import math

from attrs import field, frozen
from attrs.validators import and_, gt, lt
from numpy.random import Generator

from bdes_framework import FloatArray, compiled, validate_number
from bdes_noise.simple import centred_uniforms

_ROOT_TWO = math.sqrt(2.0)


def _coefficients(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.split())


# Of Wichura's AS 241, highest power first.
_CENTRAL_NUMERATOR = _coefficients(
    "2509.0809287301226727 33430.575583588128105 67265.770927008700853 45921.953931549871457"
    " 13731.693765509461125 1971.5909503065514427 133.14166789178437745 3.3871328727963666080"
)
_CENTRAL_DENOMINATOR = _coefficients(
    "5226.4952788528545610 28729.085735721942674 39307.895800092710610 21213.794301586595867"
    " 5394.1960214247511077 687.18700749205790830 42.313330701600911252 1.0"
)
_MIDDLE_NUMERATOR = _coefficients(
    "7.7454501427834140764e-4 2.27238449892691845833e-2 0.24178072517745061177"
    " 1.27045825245236838258 3.64784832476320460504 5.7694972214606914055"
    " 4.6303378461565452959 1.42343711074968357734"
)
_MIDDLE_DENOMINATOR = _coefficients(
    "1.05075007164441684324e-9 5.4759380849953449460e-4 1.51986665636164571966e-2"
    " 0.14810397642748007459 0.68976733498510000455 1.6763848301838038494"
    " 2.05319162663775882187 1.0"
)
_FAR_NUMERATOR = _coefficients(
    "2.01033439929228813265e-7 2.71155556874348757815e-5 1.2426609473880784386e-3"
    " 2.65321895265761230930e-2 0.29656057182850489123 1.7848265399172913358"
    " 5.4637849111641143699 6.6579046435011037772"
)
_FAR_DENOMINATOR = _coefficients(
    "2.04426310338993978564e-15 1.4215117583164458887e-7 1.8463183175100546818e-5"
    " 7.868691311456132591e-4 1.48753612908506148525e-2 0.13692988092273580531"
    " 0.59983220655588793769 1.0"
)


@frozen
class TruncatedGaussian:
    """Gaussian noise conditioned to lie in [-bound, bound].

    The subGaussian parameter is its standard deviation (which is below both scale and
    bound/sqrt(3)): a Gaussian truncated symmetrically about its mean is strictly
    subGaussian (Barreto, Marchal, Arbel: Optimal sub-Gaussian variance proxy for truncated
    Gaussian and exponential random variables, Statistics & Probability Letters, 2025).

    Parameters
    ----------
    scale : float
        Standard deviation of the Gaussian before it is cut off, finite and above 0.
    bound : float
        The largest absolute value, finite and above 0.
    """

    scale: float = field(validator=and_(validate_number, gt(0.0), lt(math.inf)))
    bound: float = field(validator=and_(validate_number, gt(0.0), lt(math.inf)))

    @property
    def sigma(self) -> float:
        """The standard deviation, which is also the subGaussian parameter."""
        return truncated_deviation(*self._cut())

    def sample(self, size: int, rng: Generator) -> FloatArray:
        """Draw ``size`` values, one uniform draw each."""
        values, (scale, bound) = centred_uniforms(size, rng), self._cut()
        to_truncated_gaussian(values, math.erf(bound / scale / _ROOT_TWO), scale, bound)
        return values

    def _cut(self) -> tuple[float, float]:
        """Return scale and bound; beyond 10^8 bounds the Gaussian is flat to the last bit."""
        return min(float(self.scale), 1e8 * self.bound), float(self.bound)


def truncated_deviation(scale: float, bound: float) -> float:
    """Return the standard deviation of a Gaussian truncated to [-bound, bound].

    With c = bound/scale, phi the normal density and m = erf(c/sqrt(2)), the variance is
    scale²·(1 - 2·c·phi(c)/m). For small c that difference loses all its digits, but the
    same ratio of incomplete gamma functions is (bound²/3)·M(1, 5/2, c²/2)/M(1, 3/2, c²/2),
    where Kummer's M(1, d, x) = 1 + x/d + x²/(d(d+1)) + ... has only positive terms.
    """
    c = min(bound / scale, 40.0)  # what is beyond 40 deviations is below the last bit
    if c < 1.0:
        x = 0.5 * c * c
        return bound * math.sqrt(_kummer(2.5, x) / _kummer(1.5, x) / 3.0)
    phi = math.exp(-0.5 * c * c) / math.sqrt(2.0 * math.pi)
    return scale * math.sqrt(1.0 - 2.0 * c * phi / math.erf(c / _ROOT_TWO))


def _kummer(d: float, x: float) -> float:
    """Return M(1, d, x) for x in [0, 1/2] and d >= 3/2, where 20 terms leave no error."""
    total, term = 1.0, 1.0
    for n in range(20):
        term *= x / (d + n)
        total += term
    return total


@compiled
def to_truncated_gaussian(values: FloatArray, mass: float, scale: float, bound: float) -> None:
    """Turn centred uniforms, in place, into Gaussians given that they lie in [-bound, bound].

    ``mass`` is the probability of that. The last step only catches rounding at the ends.
    """
    for i in range(values.size):
        value = scale * centred_normal_quantile(values[i] * mass)
        values[i] = min(max(value, -bound), bound)


@compiled
def centred_normal_quantile(centred: float) -> float:
    """Return the standard normal's quantile at probability 1/2 + ``centred``.

    Wichura (1988), Algorithm AS 241, PPND16: exact to about 1 part in 10^16. Taking the
    distance from 1/2 keeps full accuracy around the middle. |centred| must be below 1/2.
    """
    if abs(centred) <= 0.425:
        r = 0.180625 - centred * centred
        return centred * _polynomial(_CENTRAL_NUMERATOR, r) / _polynomial(_CENTRAL_DENOMINATOR, r)
    r = math.sqrt(-math.log(0.5 - abs(centred)))
    if r <= 5.0:
        size = _polynomial(_MIDDLE_NUMERATOR, r - 1.6) / _polynomial(_MIDDLE_DENOMINATOR, r - 1.6)
    else:
        size = _polynomial(_FAR_NUMERATOR, r - 5.0) / _polynomial(_FAR_DENOMINATOR, r - 5.0)
    return size if centred > 0.0 else -size


@compiled
def _polynomial(coefficients: tuple[float, ...], x: float) -> float:
    """Evaluate a polynomial by Horner's rule, highest power first."""
    value = coefficients[0]
    for k in range(1, len(coefficients)):
        value = value * x + coefficients[k]
    return value
