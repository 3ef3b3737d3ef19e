"""A local plugin: instances with a large or a small largest r_i |b_i - b_j|."""

from typing import Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import in_
from numpy.random import default_rng

from bdes_framework import BuildContext, Environment, Registrar, hookimpl, validate_number

BDES_API_VERSION = 1


@frozen
class GapConfig:
    """Three arms drawn uniformly, with large gaps or small ones.

    A gap is r_i |b_i - b_j|. The largest one is at least 0.3, or all are at most 0.02: for three
    arms Theorem E.2 draws the line at sqrt(log T)·(3/T)^(1/3), which is 0.2 at T = 10^4 and 0.05
    at T = 10^6.

    Parameters
    ----------
    gaps : Literal["large", "small"]
        Which.
    draw : int
        Seed of the arms.
    lam : float
        The evolution rate.
    """

    gaps: Literal["large", "small"] = field(validator=in_(("large", "small")))
    draw: int
    lam: float = field(default=0.5, validator=validate_number)


def build(config: GapConfig, context: BuildContext) -> Environment:
    """Draw the arms, again if their gaps are not large enough."""
    rng = default_rng(config.draw)
    while True:
        r, b = rng.random((2, 3))
        if config.gaps == "small":
            b = 0.98 + 0.02 * b
        elif (r[:, None] * np.abs(b[:, None] - b)).max() < 0.3:
            continue
        parameters = {"r": r.tolist(), "b": b.tolist(), "lam": config.lam}
        return context.environment({"use": "bernoulli"} | parameters)


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register the environment ``gaps``."""
    registrar.environment("gaps", GapConfig, build)
