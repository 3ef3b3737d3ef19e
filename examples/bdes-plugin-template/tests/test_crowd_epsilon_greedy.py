"""Tests of epsilon-greedy for many users: the conformance kit, and what it promises."""

import numpy as np
import pytest
from bdes_plugin_template.crowd_epsilon_greedy import CrowdEpsilonGreedyConfig

from bdes_framework import ConfigError, CrowdPolicy, CrowdProblem, load_plugins
from bdes_framework.testing import Check, crowd_policy_checks, parametrize_with_checks


@parametrize_with_checks(
    [
        *crowd_policy_checks("crowd-epsilon-greedy"),
        *crowd_policy_checks(CrowdEpsilonGreedyConfig(epsilon=1.0)),
    ]
)
def test_conformance(check: Check) -> None:
    check()


def new_policy(epsilon: float) -> CrowdPolicy:
    problem = CrowdProblem(n_arms=3, visits=1000)
    return load_plugins().crowd_policy("crowd-epsilon-greedy", problem, seed=1, epsilon=epsilon)


def test_every_arm_is_tried_before_an_average_decides() -> None:
    policy, shown = new_policy(epsilon=0.0), []
    for visit in range(5):
        (arm,) = policy.ask(np.array([visit])).tolist()
        policy.tell(np.array([visit]), np.array([[0.2, 0.7, 0.4][arm]]))
        shown.append(arm)
    assert shown == [0, 1, 2, 1, 1]


def test_rewards_may_come_late_and_unordered() -> None:
    policy = new_policy(epsilon=1.0)
    arms = policy.ask(np.arange(100))
    order = np.arange(99, -1, -1)
    policy.tell(order, np.where(arms[order] == 2, 1.0, 0.0))
    share = np.mean(policy.ask(np.arange(100)) == 2)
    assert 0.1 < share < 0.6  # epsilon 1: still any arm


def test_epsilon_outside_0_1_raises() -> None:
    with pytest.raises(ConfigError, match=r"epsilon must lie in \[0, 1\]"):
        new_policy(epsilon=1.5)
