"""Plugin of the paper's policies, and the public estimators of lam."""

from bdes_framework import Registrar, hookimpl
from bdes_policies.exploration.lambda_estimate import (
    RateEstimate,
    estimate_lam,
    estimate_lam_by_blocks,
)

__all__ = [
    "BDES_API_VERSION",
    "RateEstimate",
    "bdes_register",
    "estimate_lam",
    "estimate_lam_by_blocks",
]

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register the paper's algorithms, a choice among them, and ``posterior``."""
    from bdes_policies import auto, etc, etc_unknown_arm, exp3p, sticky, unknown_lambda
    from bdes_policies.posterior.policy import PosteriorConfig, PosteriorPolicy

    registrar.policy("auto", auto.AutoConfig, auto.build)
    registrar.policy("etc", etc.EtcConfig, etc.build)
    registrar.policy("etc-unknown-arm", etc_unknown_arm.EtcUnknownArmConfig, etc_unknown_arm.build)
    registrar.policy("exp3p", exp3p.Exp3pConfig, exp3p.build)
    registrar.policy("posterior", PosteriorConfig, PosteriorPolicy)
    registrar.policy("sticky", sticky.StickyConfig, sticky.build)
    registrar.policy("unknown-lambda", unknown_lambda.UnknownLambdaConfig, unknown_lambda.build)
