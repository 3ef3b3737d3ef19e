"""Table 1 as a policy: what it picks where, what it says, and that it then plays just that."""

import numpy as np
import pytest

from bdes_framework import Diagnostics, FloatArray, IntArray, Problem
from bdes_framework.errors import ConfigError
from bdes_policies.exploration.phased_policy import PhasedPolicy, PhaseGenerator
from tests.support.noiseless import build, click_bait, diagnostics_of, play, problem_of

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
def test_it_picks_as_the_table_says(
    n_arms: int, lam: float | None, arm: int | None, regime: str, chosen: str
) -> None:
    shown = diagnostics_of(build("auto", Problem(n_arms, T, lam, arm)))
    assert (shown["regime"], shown["auto_chosen"]) == (regime, chosen)
    assert shown["auto_because"]


def test_thresholds_and_policies_can_be_given() -> None:
    problem = Problem(3, T, 0.01, 2)
    slow = build("auto", problem, slow_below=200.0, slow={"use": "wide-ucb", "exploration": 1.0})
    assert diagnostics_of(slow)["auto_chosen"] == "wide-ucb"
    fast = build("auto", problem, fast_above=1000.0)
    assert diagnostics_of(fast)["auto_chosen"] == "sticky"
    few = build("auto", problem, fast_above=1000.0, most_sticky_arms=2.0)
    assert diagnostics_of(few)["auto_chosen"] == "etc"
    with pytest.raises(ConfigError, match="no policy is called"):
        build("auto", problem, middle="ect")


@pytest.mark.parametrize(("lam", "name"), [(0.3, "etc"), (1.0, "sticky")])
def test_it_plays_just_what_it_picked(lam: float, name: str) -> None:
    instance = click_bait(3, lam)
    problem = problem_of(instance, T, arm=2)
    auto, alone = play(build("auto", problem), instance, T), play(build(name, problem), instance, T)
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


def test_what_the_picked_policy_shows_hides_nothing() -> None:
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
