"""A fit as the prior of a learner: what it says of r, b and lam, normal in logits.

Policies import this to be built, so it imports nothing of fits, which would take a while.
"""

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.errors import InvalidValueError


@frozen
class FitPrior:
    """What a fit says of r, b and lam, as a prior: a normal distribution of their logits.

    A policy that takes one may be given the file of a fit instead; :meth:`Fit.as_prior` makes one.

    Parameters
    ----------
    centre : list[float]
        The logits of the estimates: of r, one per arm, then of b, then of lam, unless it is known.
    deviations : list[list[float]]
        The triangular root of their covariance, row by row: the first has one number.
    q0 : float
        The first state, in the same scale as b.
    lam : float | None
        The evolution rate where the fit was told it.
    """

    centre: list[float]
    deviations: list[list[float]]
    q0: float = 1.0
    lam: float | None = None

    def __attrs_post_init__(self) -> None:
        if not self.centre or len(self.centre) % 2 != (self.lam is None):
            raise InvalidValueError(
                "'centre' needs two numbers per arm, and one more unless 'lam' is given, got"
                f" {len(self.centre)}"
            )
        if [len(row) for row in self.deviations] != list(range(1, len(self.centre) + 1)):
            raise InvalidValueError("'deviations' must be a triangle as high as 'centre' is long")
        if not np.isfinite(np.concatenate([self.centre, *self.deviations])).all():
            raise InvalidValueError("'centre' and 'deviations' must be finite numbers")
        if not all(row[-1] > 0 for row in self.deviations):
            raise InvalidValueError("the last number of each row of 'deviations' must be above 0")

    @property
    def n_arms(self) -> int:
        """How many arms were fitted."""
        return len(self.centre) // 2

    @property
    def covariance(self) -> FloatArray:
        """Shape of ``centre``, squared: the covariance of the logits."""
        root = np.zeros((len(self.centre), len(self.centre)))
        for place, row in enumerate(self.deviations):
            root[place, : place + 1] = row
        covariance: FloatArray = root @ root.T
        return covariance
