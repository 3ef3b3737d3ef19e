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
    """Register the paper's algorithms, ``posterior``, and policies for many users."""
    from bdes_policies import auto, etc, etc_unknown_arm, exp3p, rank_one, sticky, unknown_lambda
    from bdes_policies.crowd import copies, greedy, posterior, table
    from bdes_policies.posterior.policy import PosteriorConfig, PosteriorPolicy

    registrar.policy("auto", auto.AutoConfig, auto.build, uses=("lam", "replenishing_arm"))
    registrar.policy("etc", etc.EtcConfig, etc.build, uses=("lam", "replenishing_arm"))
    registrar.policy(
        "etc-unknown-arm",
        etc_unknown_arm.EtcUnknownArmConfig,
        etc_unknown_arm.build,
        uses=("lam",),
    )
    registrar.policy("exp3p", exp3p.Exp3pConfig, exp3p.build, uses=())
    registrar.policy(
        "posterior",
        PosteriorConfig,
        PosteriorPolicy,
        uses=lambda config: ("lam",) if config.trust_lam else (),
    )
    registrar.policy("rank-one", rank_one.RankOneConfig, rank_one.build, uses=())
    registrar.policy("sticky", sticky.StickyConfig, sticky.build, uses=())
    registrar.policy(
        "unknown-lambda",
        unknown_lambda.UnknownLambdaConfig,
        unknown_lambda.build,
        uses=("replenishing_arm",),
    )
    registrar.crowd_policy("crowd-greedy", greedy.CrowdGreedyConfig, greedy.CrowdGreedy, uses=())
    registrar.crowd_policy(
        "crowd-posterior", posterior.CrowdPosteriorConfig, posterior.CrowdPosterior
    )
    registrar.crowd_policy("crowd-table", table.CrowdTableConfig, table.CrowdTable)
    registrar.crowd_policy("each", copies.EachConfig, copies.build_each)
    registrar.crowd_policy("pooled", copies.PooledConfig, copies.build_pooled, uses=("lam",))
