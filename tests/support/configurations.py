"""Configurations of first-party policies that are tried in more than one test."""

from typing import Any

Configuration = tuple[str, dict[str, Any]]
"""The name of a policy and its parameters."""

PAPER_POLICIES: list[Configuration] = [
    ("auto", {}),
    ("auto", {"thresholds": "paper"}),
    ("etc", {}),
    ("etc", {"tuning": "paper", "planner": "exact"}),
    ("etc", {"samples": 3, "epsilon": 0.5}),
    ("etc-unknown-arm", {}),
    ("etc-unknown-arm", {"tuning": "paper"}),
    ("etc-unknown-arm", {"samples": 2, "explore_at_most": 0.9}),
    ("exp3p", {}),
    ("exp3p", {"bound": "expected"}),
    ("posterior", {}),
    ("posterior", {"lam_prior": 0.2, "trust_lam": False, "draws": 1, "growth": 0.3}),
    ("rank-one", {}),
    ("rank-one", {"delta": 0.9, "draws": 1}),
    ("sticky", {}),
    ("sticky", {"width": 0.01}),
    ("unknown-lambda", {}),
    ("unknown-lambda", {"tuning": "paper", "explore_at_most": 0.95}),
    ("unknown-lambda", {"fast": 1000.0}),
    ("wide-ucb", {}),
]
CONFIGURATIONS: list[Configuration] = [
    ("aae", {}),
    ("discounted-ucb", {}),
    ("exp3", {}),
    ("fixed-schedule", {"cycle": [0]}),
    ("sliding-window-ucb", {}),
    ("thompson", {}),
    ("ucb1", {}),
    ("uniform", {}),
    *PAPER_POLICIES,
]
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "etc": {
        "plays_without_knowing_lam": "needs lam",
        "plays_without_knowing_a_replenishing_arm": "needs a replenishing arm",
    },
    "etc-unknown-arm": {"plays_without_knowing_lam": "needs lam"},
    "wide-ucb": {"plays_without_knowing_lam": "needs lam"},
}
"""By policy: checks of the kit it is expected to fail, and why."""
