"""Plugin of reference policies: textbook bandits, a fixed schedule, random arms."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register the textbook bandits, a fixed schedule, and random arms."""
    from bdes_baselines import aae, exp3, forgetting_ucb, non_adaptive, thompson, ucb1

    registrar.policy("aae", aae.AaeConfig, aae.build, uses=())
    registrar.policy(
        "discounted-ucb",
        forgetting_ucb.DiscountedUcbConfig,
        forgetting_ucb.build_discounted_ucb,
        uses=(),
    )
    registrar.policy("exp3", exp3.Exp3Config, exp3.build, uses=())
    registrar.policy(
        "fixed-schedule",
        non_adaptive.FixedScheduleConfig,
        non_adaptive.build_fixed_schedule,
        uses=(),
    )
    registrar.policy(
        "sliding-window-ucb",
        forgetting_ucb.SlidingWindowUcbConfig,
        forgetting_ucb.build_sliding_window_ucb,
        uses=(),
    )
    registrar.policy("thompson", thompson.ThompsonConfig, thompson.build, uses=())
    registrar.policy("ucb1", ucb1.Ucb1Config, ucb1.build_ucb1, uses=())
    registrar.policy(
        "uniform", non_adaptive.UniformPolicyConfig, non_adaptive.build_uniform_policy, uses=()
    )
    registrar.policy("wide-ucb", ucb1.WideUcbConfig, ucb1.build_wide_ucb, uses=("lam",))
