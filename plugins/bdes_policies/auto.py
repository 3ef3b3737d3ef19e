"""Policy that picks another by lam, T and K, as the paper's Table 1 does."""

import math

from attrs import field, frozen
from attrs.validators import ge, optional

from bdes_framework import PolicyContext, PolicyRef, Problem, validate_number
from bdes_policies.exploration.phased_policy import DiagnosticsDict, PhasedPolicy, PhaseGenerator


@frozen
class AutoConfig:
    """Picks a policy by lam, T and K, as the paper's Table 1 has it.

    - lam unknown: ``unknown``.
    - lam = 0: ``still``, an ordinary bandit policy.
    - lam·T at most ``slow_below``: ``slow``.
    - (1 - lam)·sqrt(T) at most ``fast_above``, and K at most ``most_sticky_arms``: ``fast``.
      Its regret grows as K·sqrt(T), that of ``middle`` as K^(1/3)·T^(2/3), which is less
      for K above T^(1/4).
    - Otherwise ``middle``, or ``middle_unknown_arm`` if no replenishing arm is known.

    The table's thresholds are orders of magnitude; the factors are ours.

    Parameters
    ----------
    slow_below : float
        At lam·T up to this, states are slow.
    fast_above : float
        At (1 - lam)·sqrt(T) up to this, states are fast.
    most_sticky_arms : float | None
        With more arms than this, fast states are left to ``middle``; by default T^(1/4).
    unknown, still, slow, middle, middle_unknown_arm, fast : policy
        What plays.
    """

    slow_below: float = field(default=1.0, validator=[validate_number, ge(0)])
    fast_above: float = field(default=1.0, validator=[validate_number, ge(0)])
    most_sticky_arms: float | None = field(
        default=None, validator=optional([validate_number, ge(0)])
    )
    unknown: PolicyRef = "unknown-lambda"
    still: PolicyRef = "ucb1"
    slow: PolicyRef = "exp3p"
    middle: PolicyRef = "etc"
    middle_unknown_arm: PolicyRef = "etc-unknown-arm"
    fast: PolicyRef = "sticky"


def choose(config: AutoConfig, problem: Problem) -> tuple[PolicyRef, str, str]:
    """Return the policy for a problem, the regime's name, and why."""
    lam, horizon = problem.lam, problem.horizon
    if lam is None:
        return config.unknown, "unknown", "lam is not known"
    if lam == 0:
        return config.still, "still", "the state never moves at lam = 0"
    if lam * horizon <= config.slow_below:
        why = f"lam·T = {lam * horizon:.3g} is at most {config.slow_below:g}"
        return config.slow, "slow", why
    nearness = (1 - lam) * math.sqrt(horizon)
    most_arms = config.most_sticky_arms
    if most_arms is None:
        most_arms = horizon**0.25
    why = f"(1 - lam)·sqrt(T) = {nearness:.3g}"
    if nearness <= config.fast_above and problem.n_arms <= most_arms:
        why += f" is at most {config.fast_above:g}, and K at most {most_arms:.3g}"
        return config.fast, "fast", why
    if nearness <= config.fast_above:
        why = f"states are fast, but K is above {most_arms:.3g}"
    else:
        why = f"lam·T is above {config.slow_below:g} and {why} above {config.fast_above:g}"
    if problem.replenishing_arm is None:
        return config.middle_unknown_arm, "middle", f"{why}; no replenishing arm is known"
    return config.middle, "middle", why


def _script(
    config: AutoConfig, context: PolicyContext, diagnostics: DiagnosticsDict
) -> PhaseGenerator:
    ref, regime, why = choose(config, context.problem)
    policy = context.policy(ref)
    named = ref["use"] if isinstance(ref, dict) else type(ref).__name__
    name = ref if isinstance(ref, str) else str(named)
    diagnostics.update(regime=regime, auto_chosen=name, auto_because=why)
    return policy
    yield  # a script without phases


def build(config: AutoConfig, context: PolicyContext) -> PhasedPolicy:
    """Build the policy."""
    diagnostics: DiagnosticsDict = {}
    return PhasedPolicy(_script(config, context, diagnostics), diagnostics)
