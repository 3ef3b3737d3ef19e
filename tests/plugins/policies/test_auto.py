"""A choice among policies: what it picks where, what it says, and that it then plays just that.

What the choice costs is measured in tests/studies/test_auto_loss.py.
"""

from itertools import pairwise

import numpy as np
import pytest

from bdes_framework import Diagnostics, FloatArray, IntArray, Problem
from bdes_framework.errors import ConfigError
from bdes_policies.auto import expected_losses
from bdes_policies.exploration.phased_policy import PhasedPolicy, PhaseGenerator
from tests.support.noiseless import PLUGINS, build, click_bait, diagnostics_of, play_named

T = 10_000


@pytest.mark.parametrize(
    ("n_arms", "lam", "arm", "regime", "chosen"),
    [
        (3, None, None, "unknown", "unknown-lambda"),
        (3, 0.0, None, "still", "ucb1"),
        (3, 1e-8, None, "slow", "exp3p"),
        (3, 1e-4, 2, "slow", "exp3p"),
        (3, 1.01e-4, 2, "middle", "etc"),
        (3, 0.5, 2, "middle", "etc"),
        (3, 0.5, None, "middle", "etc-unknown-arm"),
        (3, 0.989, 2, "middle", "etc"),
        (3, 0.991, 2, "fast", "sticky"),
        (3, 1.0, None, "fast", "sticky"),
        (10, 1.0, None, "fast", "sticky"),
        (11, 1.0, None, "middle", "etc-unknown-arm"),
    ],
)
def test_auto_picks_as_table_1_says(
    n_arms: int, lam: float | None, arm: int | None, regime: str, chosen: str
) -> None:
    policy = build("auto", Problem(n_arms, T, lam, arm), thresholds="paper")
    shown = diagnostics_of(policy)
    assert (shown["regime"], shown["auto_chosen"]) == (regime, chosen)
    assert shown["auto_because"]


@pytest.mark.parametrize(
    ("n_arms", "horizon", "lam", "arm", "regime", "chosen"),
    [
        (3, T, None, None, "unknown", "unknown-lambda"),
        (3, T, 0.0, None, "still", "ucb1"),
        (3, T, 1e-4, 2, "slow", "ucb1"),  # Table 1: exp3p, which is worst there
        (17, 100_000, 0.99, 2, "middle", "etc"),
        (17, 100_000, 1.0, 2, "middle", "etc"),  # no cliff: sticky lost ten times as much
        (2, 10_000, 1.0, None, "middle", "etc-unknown-arm"),
        (2, 10**6, 1.0, None, "fast", "sticky"),
        (2, 10**8, 1.0, 1, "fast", "sticky"),
        (17, 10**6, 0.1, 2, "slow", "ucb1"),  # etc lost 1.3 times as much as wide-ucb
        (5, 10**6, 0.1, 2, "middle", "etc"),
        (17, 10_000, 0.01, 2, "slow", "ucb1"),  # exploring takes longer than the horizon is
        (1, T, 0.5, 0, "middle", "etc"),
        (50, 60, 0.5, 0, "slow", "ucb1"),  # no room to explore
        (1, 1, 1.0, None, "slow", "ucb1"),
    ],
)
def test_auto_picks_what_should_lose_least(
    n_arms: int, horizon: int, lam: float | None, arm: int | None, regime: str, chosen: str
) -> None:
    shown = diagnostics_of(build("auto", Problem(n_arms, horizon, lam, arm)))
    assert (shown["regime"], shown["auto_chosen"]) == (regime, chosen)


def test_expected_losses_fall_as_horizons_grow() -> None:
    losses = [expected_losses(Problem(5, t, 0.5, 0), 0.5) for t in (10**4, 10**5, 10**6)]
    for earlier, later in pairwise(losses):
        assert np.less(later, earlier).all()
    told, untold = (expected_losses(Problem(5, T, 0.5, arm), 0.5) for arm in (0, None))
    assert told.middle < untold.middle
    assert told[1:] == untold[1:]


def test_auto_takes_thresholds_and_policies() -> None:
    problem = Problem(3, T, 0.01, 2)
    wide: dict[str, object] = {"use": "wide-ucb", "exploration": 1.0}
    paper = {"thresholds": "paper"}
    for chosen, given in (
        ("wide-ucb", {"slow_below": 200.0, "slow": wide}),
        ("sticky", {"fast_above": 1000.0} | paper),
        ("etc", {"fast_above": 1000.0, "most_sticky_arms": 2.0} | paper),
    ):
        policy = PLUGINS.policy({"use": "auto", **given}, problem, seed=7)
        assert diagnostics_of(policy)["auto_chosen"] == chosen
    with pytest.raises(ConfigError, match="'fast_above' needs thresholds = \"paper\""):
        build("auto", problem, fast_above=1.0)
    with pytest.raises(ConfigError, match="no policy is called"):
        build("auto", problem, middle="ect")


@pytest.mark.parametrize(("lam", "name"), [(0.3, "etc"), (1.0, "sticky")])
def test_auto_plays_what_it_picked(lam: float, name: str) -> None:
    auto = play_named("auto", click_bait(3, lam), T, 2, thresholds="paper")
    alone = play_named(name, click_bait(3, lam), T, 2)
    assert auto.diagnostics.keys() >= alone.diagnostics.keys()
    if name == "etc":  # nothing random in it
        np.testing.assert_array_equal(auto.arms, alone.arms)


class Talkative:
    """Shows names that others use."""

    def ask(self, limit: int) -> IntArray:
        return np.zeros(limit, dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        pass

    def diagnostics(self) -> Diagnostics:
        return {"regime": "mine", "inner_regime": "mine too", "other": 1}


def test_diagnostics_of_the_pick_hide_nothing() -> None:
    def script() -> PhaseGenerator:
        return Talkative()
        yield

    shown = PhasedPolicy(script(), {"regime": "slow"}).diagnostics()
    assert shown == {
        "regime": "slow",
        "inner_regime": "mine",
        "inner_inner_regime": "mine too",
        "other": 1,
    }
