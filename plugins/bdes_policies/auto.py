"""Policy that picks another by lam, T and K: by what each would lose, or as Table 1 does."""

import math
from typing import Literal, NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, in_, optional

from bdes_framework import (
    InvalidValueError,
    PolicyContext,
    PolicyRef,
    Problem,
    validate_number,
)
from bdes_policies.exploration.phased_policy import DiagnosticsDict, PhasedPolicy, PhaseGenerator
from bdes_policies.exploration.tuning import exploration_budget, lengths, loss_bound
from bdes_policies.sticky import default_batches


@frozen
class AutoConfig:
    """Picks a policy by lam, T and K: the one that should lose least.

    - lam unknown: ``unknown``. lam = 0: ``still``.
    - lam·T at most ``slow_below``: ``slow``. So slow a state hardly shows where it leads.
    - Otherwise what loses least of ``slow``, ``middle`` (``middle_unknown_arm`` if no
      replenishing arm is known) and ``fast``. Losses are expected by the finite-T expressions of
      the bounds, N(lam) and logarithms included, with factors fitted to measured losses (see
      the documentation): no factor is proven.

    With ``thresholds = "paper"`` the letter of the paper's Table 1 decides instead: ``slow`` up to
    lam·T = ``slow_below``; ``fast`` if (1 - lam)·sqrt(T) is at most ``fast_above`` and K at
    most ``most_sticky_arms``; ``middle`` in between. The table's thresholds are orders of
    magnitude; the factors are ours.

    Parameters
    ----------
    thresholds : Literal["finite", "paper"]
        Losses expected at the horizon given, or Table 1.
    slow_below : float | None
        At lam·T up to this, states are slow; by default 4, and 1 with the paper's thresholds.
    fast_above : float | None
        At (1 - lam)·sqrt(T) up to this, states are fast: only with the paper's thresholds, 1 by
        default.
    most_sticky_arms : float | None
        With more arms than this, fast states are left to ``middle``: only with the paper's
        thresholds, T^(1/4) by default. The regret of ``fast`` grows as K·sqrt(T), that of
        ``middle`` as K^(1/3)·T^(2/3), which is less for K above T^(1/4).
    still, slow : policy | None
        What plays if the state does not move, or slowly. By default ``ucb1`` with
        ``exploration = 0.5``, the factor of Hoeffding's inequality; with the paper's thresholds
        ``ucb1`` and ``exp3p``.
    unknown, middle, middle_unknown_arm, fast : policy
        What plays otherwise.
    """

    thresholds: Literal["finite", "paper"] = field(
        default="finite", validator=in_(("finite", "paper"))
    )
    slow_below: float | None = field(default=None, validator=optional([validate_number, ge(0)]))
    fast_above: float | None = field(default=None, validator=optional([validate_number, ge(0)]))
    most_sticky_arms: float | None = field(
        default=None, validator=optional([validate_number, ge(0)])
    )
    unknown: PolicyRef = "unknown-lambda"
    still: PolicyRef | None = None
    slow: PolicyRef | None = None
    middle: PolicyRef = "etc"
    middle_unknown_arm: PolicyRef = "etc-unknown-arm"
    fast: PolicyRef = "sticky"

    def __attrs_post_init__(self) -> None:
        for name in ("fast_above", "most_sticky_arms"):
            if self.thresholds != "paper" and getattr(self, name) is not None:
                raise InvalidValueError(f"'{name}' needs thresholds = \"paper\"")

    def for_regime(self, regime: str, problem: Problem) -> PolicyRef:
        """Return the policy that plays in a regime."""
        if regime == "still":
            return self.still or ("ucb1" if self.thresholds == "paper" else _UCB)
        if regime == "slow":
            return self.slow or ("exp3p" if self.thresholds == "paper" else _UCB)
        if regime == "middle" and problem.replenishing_arm is None:
            return self.middle_unknown_arm
        others = {"unknown": self.unknown, "middle": self.middle, "fast": self.fast}
        return others[regime]


_UCB: PolicyRef = {"use": "ucb1", "exploration": 0.5}


class ExpectedLosses(NamedTuple):
    """Shares of the horizon that policies are expected to lose, by regime."""

    middle: float
    slow: float
    fast: float


def expected_losses(problem: Problem, lam: float) -> ExpectedLosses:
    """Return what explore-then-commit, UCB and ``sticky`` should lose, for lam·T above 1.

    - Explore-then-commit: the rounds it explores plus T times the errors left, as
      ``tuning = "balanced"`` has them, times 0.35; without a replenishing arm times
      1 + 1.7·lam^0.33 as well.
    - UCB: 0.12·sqrt(K·ln(T)/T), and what it loses because it sees no state: 0.07, and 5/K of
      that with more than 5 arms, of which one is more often good by itself; 0.17·lam²; and the
      lag 0.8·(lam·T)^-0.26, by which states come after arms.
    - ``sticky``: 2.4 times the 1.3th power of K·sqrt(2·ln(2·K²·T·B)/T), its bound; and
      (1 - lam) times the lag and 0.04, because states are not those of the last arm.

    An arm picked blindly is the best one with chance 1/K: all but elimination counts only as
    far as it is not, 1 - 1/K, and once more where pairs of arms are compared.
    """
    n_arms, horizon, not_best = problem.n_arms, problem.horizon, 1 - 1 / problem.n_arms
    lag = 0.8 * (lam * horizon) ** -0.26
    of_arm = 1.0 if problem.replenishing_arm is not None else 1 + 1.7 * lam**0.33
    blind = 0.07 * min(1.0, 5 / n_arms) + 0.17 * lam**2
    radius = math.sqrt(n_arms * math.log(horizon) / horizon)
    log_term = math.log(2 * n_arms**2 * horizon * default_batches(horizon))
    elimination = n_arms * math.sqrt(2 * log_term / horizon)
    return ExpectedLosses(
        middle=0.35 * not_best**2 * of_arm * _exploration_bound(problem, lam),
        slow=0.12 * radius + not_best * (blind + lag),
        fast=2.4 * elimination**1.3 + not_best**2 * (1 - lam) * (0.04 + lag),
    )


def _exploration_bound(problem: Problem, lam: float) -> float:
    """Return the bound that the balanced tuning makes least, per round; inf without room."""
    chosen = lengths(problem, lam, "balanced", exploration_budget(problem, 0.5))
    if chosen.samples == 0:
        return math.inf
    numbers = (chosen.samples, chosen.settle, chosen.restore)
    samples, settle, restore = (np.array(float(number)) for number in numbers)
    return float(loss_bound(problem, lam, samples, settle, restore)) / problem.horizon


def choose(config: AutoConfig, problem: Problem) -> tuple[str, str]:
    """Return the regime's name, and why."""
    lam, horizon = problem.lam, problem.horizon
    if lam is None:
        return "unknown", "lam is not known"
    if lam == 0:
        return "still", "the state never moves at lam = 0"
    slow_below = config.slow_below
    if slow_below is None:
        slow_below = 1.0 if config.thresholds == "paper" else 4.0
    if lam * horizon <= slow_below:
        return "slow", f"lam·T = {lam * horizon:.3g} is at most {slow_below:g}"
    if config.thresholds == "paper":
        return _choose_by_table_1(config, problem, lam, slow_below)
    losses = expected_losses(problem, lam)._asdict()
    regime = min(losses, key=losses.__getitem__)
    shown = ", ".join(f"{name} {100 * loss:.2g} %" for name, loss in losses.items())
    return regime, f"expected losses are {shown}"


def _choose_by_table_1(
    config: AutoConfig, problem: Problem, lam: float, slow_below: float
) -> tuple[str, str]:
    nearness = (1 - lam) * math.sqrt(problem.horizon)
    fast_above = 1.0 if config.fast_above is None else config.fast_above
    most_arms = config.most_sticky_arms
    if most_arms is None:
        most_arms = problem.horizon**0.25
    why = f"(1 - lam)·sqrt(T) = {nearness:.3g}"
    if nearness > fast_above:
        why = f"lam·T is above {slow_below:g} and {why} above {fast_above:g}"
    elif problem.n_arms > most_arms:
        why = f"states are fast, but K is above {most_arms:.3g}"
    else:
        return "fast", f"{why} is at most {fast_above:g}, and K at most {most_arms:.3g}"
    told = problem.replenishing_arm is not None
    return "middle", why if told else f"{why}; no replenishing arm is known"


def _script(
    config: AutoConfig, context: PolicyContext, diagnostics: DiagnosticsDict
) -> PhaseGenerator:
    regime, why = choose(config, context.problem)
    ref = config.for_regime(regime, context.problem)
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
