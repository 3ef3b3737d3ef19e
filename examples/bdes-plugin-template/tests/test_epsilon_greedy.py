"""Tests of epsilon-greedy: the conformance kit, and what the policy itself promises."""

import numpy as np
import pytest
from bdes_plugin_template.epsilon_greedy import EpsilonGreedyConfig

from bdes_framework import ConfigError, Policy, Problem, load_plugins
from bdes_framework.testing import Check, parametrize_with_checks, policy_checks


@parametrize_with_checks(
    [
        *policy_checks("epsilon-greedy"),
        *policy_checks(EpsilonGreedyConfig(epsilon=1.0)),
    ]
)
def test_conformance(check: Check) -> None:
    check()


def new_policy(epsilon: float, n_arms: int = 4, seed: int = 1) -> Policy:
    problem = Problem(n_arms=n_arms, horizon=1000)
    return load_plugins().policy("epsilon-greedy", problem, seed=seed, epsilon=epsilon)


def play(policy: Policy, pays: list[float], rounds: int) -> list[int]:
    arms = []
    for _ in range(rounds):
        (arm,) = policy.ask(1).tolist()
        policy.tell(np.array([pays[arm]]))
        arms.append(arm)
    return arms


def test_every_arm_is_tried_first() -> None:
    arms = play(new_policy(epsilon=0.0), [1.0, 0.0, 0.0, 0.5], rounds=4)
    assert sorted(arms) == [0, 1, 2, 3]


def test_epsilon_0_plays_the_best_average() -> None:
    arms = play(new_policy(epsilon=0.0), [0.2, 0.9, 0.4, 0.1], rounds=50)
    assert set(arms[4:]) == {1}


def test_ties_are_broken_at_random() -> None:
    arms = play(new_policy(epsilon=0.0), [0.0, 0.0, 0.0, 0.0], rounds=400)
    assert np.bincount(arms, minlength=4).min() > 60


def test_epsilon_is_the_rate_of_random_arms() -> None:
    arms = play(new_policy(epsilon=0.2), [1.0, 0.0, 0.0, 0.0], rounds=1000)
    others = sum(arm != 0 for arm in arms[4:])
    assert 0.10 < others / 996 < 0.20  # 0.2 · 3/4 = 0.15, give or take four deviations


def test_epsilon_outside_0_1_raises() -> None:
    with pytest.raises(ConfigError, match=r"epsilon must lie in \[0, 1\]"):
        new_policy(epsilon=1.5)
