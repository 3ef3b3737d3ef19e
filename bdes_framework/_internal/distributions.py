"""Quantiles and tail probabilities, by scipy.special.

scipy is imported where it is used: ``bdes --help`` does not pay for it.
"""


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    from scipy.special import ndtri

    return float(ndtri(probability))


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution.

    >>> round(student_quantile(0.975, 10), 4)
    2.2281
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def fisher_quantile(probability: float, numerator: float, denominator: float) -> float:
    """Return the quantile of Fisher's F distribution with these degrees of freedom.

    >>> round(fisher_quantile(0.95, 2, 5), 4)
    5.7861
    """
    from scipy.special import fdtri

    return float(fdtri(numerator, denominator, probability))


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``; 1 if it is 0.

    >>> round(chi_square_tail(3.841, 1), 4), round(chi_square_tail(18.307, 10), 4)
    (0.05, 0.05)
    """
    from scipy.special import chdtrc

    return 1.0 if freedom == 0 or statistic <= 0 else float(chdtrc(freedom, statistic))


def chi_square_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of the chi-square distribution.

    >>> round(chi_square_quantile(0.95, 10), 3)
    18.307
    """
    from scipy.special import chdtri

    return float(chdtri(freedom, 1 - probability))
