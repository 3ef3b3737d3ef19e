"""Plugin of reference policies: textbook bandits, a fixed schedule, random arms."""

from bdes_framework import Registrar, hookimpl

BDES_API_VERSION = 1


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    """Register the textbook bandits, a fixed schedule, and random arms."""
    from bdes_baselines import (
        aae,
        discounted_ucb,
        exp3,
        non_adaptive,
        sliding_window_ucb,
        thompson,
        ucb1,
    )

    registrar.policy("aae", aae.AaeConfig, aae.build)
    registrar.policy("discounted-ucb", discounted_ucb.DiscountedUcbConfig, discounted_ucb.build)
    registrar.policy("exp3", exp3.Exp3Config, exp3.build)
    registrar.policy(
        "fixed-schedule", non_adaptive.FixedScheduleConfig, non_adaptive.build_fixed_schedule
    )
    registrar.policy(
        "sliding-window-ucb", sliding_window_ucb.SlidingWindowUcbConfig, sliding_window_ucb.build
    )
    registrar.policy("thompson", thompson.ThompsonConfig, thompson.build)
    registrar.policy("ucb1", ucb1.Ucb1Config, ucb1.build_ucb1)
    registrar.policy("uniform", non_adaptive.UniformConfig, non_adaptive.build_uniform)
    registrar.policy("wide-ucb", ucb1.WideUcbConfig, ucb1.build_wide_ucb)
