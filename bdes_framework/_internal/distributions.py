"""Quantiles and tail probabilities, by scipy.special.

scipy imports ``special`` when it is first used.
"""

import scipy


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return float(scipy.special.ndtri(probability))


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution.

    >>> round(student_quantile(0.975, 10), 4)
    2.2281
    """
    return float(scipy.special.stdtrit(freedom, probability))


def fisher_quantile(probability: float, numerator: float, denominator: float) -> float:
    """Return the quantile of Fisher's F distribution with these degrees of freedom.

    >>> round(fisher_quantile(0.95, 2, 5), 4)
    5.7861
    """
    return float(scipy.special.fdtri(numerator, denominator, probability))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``; 1 if it is 0.

    >>> round(chi_square_tail(3.841, 1), 4), round(chi_square_tail(18.307, 10), 4)
    (0.05, 0.05)
    >>> round(chi_square_tail(6.635, 1), 4), round(chi_square_tail(23.209, 10), 4)
    (0.01, 0.01)
    """
    none = freedom == 0 or statistic <= 0
    return 1.0 if none else float(scipy.special.chdtrc(freedom, statistic))


def chi_square_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of the chi-square distribution.

    >>> round(chi_square_quantile(0.95, 10), 3)
    18.307
    """
    return float(scipy.special.chdtri(freedom, 1 - probability))
