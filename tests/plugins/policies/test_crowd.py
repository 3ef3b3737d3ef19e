"""Policies for many users: copies of one-audience policies, and the greedy one."""

from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import BdesError, CrowdProblem, Feedback
from bdes_policies.crowd import open_visits
from bdes_policies.crowd.open_visits import OpenVisits
from tests.support.players import PLUGINS

ARMS: dict[str, Any] = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.6], "lam": 0.3}


def policy(use: str, problem: CrowdProblem, **parameters: Any) -> bdes.CrowdPolicy:
    return PLUGINS.crowd_policy(use, problem, seed=1, **parameters)


def simulated(use: str, n: int, feedback: Feedback, **parameters: Any) -> bdes.CrowdTrace:
    environment = PLUGINS.crowd_environment("crowd", seed=1, users=8, **ARMS)
    chosen = policy(use, CrowdProblem(3, n, visits_per_user=n / 8), **parameters)
    return bdes.simulate_crowd(environment, chosen, n, feedback=feedback, keep=True)


def test_each_user_has_a_copy_of_their_own() -> None:
    """With rewards known at once, each user sees what a copy alone would show them."""
    trace = simulated("each", 400, Feedback(every=1), policy="ucb1", horizon=1000)
    assert trace.users is not None
    assert trace.arms is not None
    assert trace.rewards is not None
    for user in range(8):
        mine = trace.users == user
        alone = PLUGINS.policy("ucb1", bdes.Problem(3, 1000), seed=1)
        for arm, reward in zip(trace.arms[mine], trace.rewards[mine], strict=True):
            assert alone.ask(1).tolist() == [arm]
            alone.tell(np.array([reward]))


def test_copies_of_users_differ_in_their_random_numbers() -> None:
    chosen = policy("each", CrowdProblem(3, 1000, visits_per_user=50), policy="thompson")
    first = chosen.ask(np.arange(200))
    assert set(first.tolist()) == {0, 1, 2}


def test_pooled_is_blind_to_users() -> None:
    trace = simulated("pooled", 300, Feedback(every=1), policy="ucb1")
    assert trace.arms is not None
    assert trace.rewards is not None
    alone = PLUGINS.policy("ucb1", bdes.Problem(3, 300), seed=1)
    for arm, reward in zip(trace.arms, trace.rewards, strict=True):
        assert alone.ask(1).tolist() == [arm]
        alone.tell(np.array([reward]))


def test_copy_waits_for_the_reward_of_its_arm() -> None:
    """Without the reward the same arm is shown; what came twice is used the next time."""
    chosen = policy("pooled", CrowdProblem(3, 100), policy="ucb1")
    assert chosen.ask(np.zeros(4, dtype=np.int64)).tolist() == [0, 0, 0, 0]
    chosen.tell(np.array([2, 1]), np.array([1.0, 1.0]))  # the second waits until 0 is wanted again
    assert chosen.ask(np.zeros(2, dtype=np.int64)).tolist() == [1, 1]
    chosen.tell(np.array([5]), np.array([0.0]))
    assert chosen.ask(np.zeros(1, dtype=np.int64)).tolist() == [2]
    chosen.tell(np.array([6]), np.array([0.0]))
    # ucb1 wants 0 next, has the kept reward for it, and wants another arm or 0 again.
    alone = PLUGINS.policy("ucb1", bdes.Problem(3, 100), seed=1)
    for arm, reward in ((0, 1.0), (1, 0.0), (2, 0.0), (0, 1.0)):
        assert alone.ask(1).tolist() == [arm]
        alone.tell(np.array([reward]))
    assert chosen.ask(np.zeros(1, dtype=np.int64)).tolist() == alone.ask(1).tolist()


def test_copy_shows_a_block_again_from_what_is_not_paid() -> None:
    class Blocks:
        def __init__(self, config: object, context: bdes.PolicyContext) -> None:
            self.told: list[float] = []

        def ask(self, limit: int) -> bdes.IntArray:
            return np.array([0, 1, 2] if not self.told else [2])

        def tell(self, rewards: bdes.FloatArray) -> None:
            self.told += rewards.tolist()

    plugins = bdes.load_plugins(objects=[plugin_of(Blocks)])
    chosen = plugins.crowd_policy("pooled", CrowdProblem(3, 100), seed=1, policy="counts")

    def ask(n: int) -> list[int]:
        arms: list[int] = chosen.ask(np.zeros(n, dtype=np.int64)).tolist()
        return arms

    assert ask(4) == [0, 1, 2, 0]
    chosen.tell(np.array([0]), np.array([0.5]))
    assert ask(4) == [1, 2, 1, 2]
    chosen.tell(np.array([2]), np.array([0.25]))  # arm 2, but arm 1 comes first
    assert ask(3) == [1, 2, 1]
    chosen.tell(np.array([1]), np.array([0.75]))
    assert ask(2) == [2, 2]


def test_user_who_outlives_the_horizon_gets_a_new_copy() -> None:
    horizons: list[int] = []

    class Counts:
        def __init__(self, config: object, context: bdes.PolicyContext) -> None:
            self.left = context.problem.horizon
            horizons.append(self.left)

        def ask(self, limit: int) -> bdes.IntArray:
            assert limit == self.left
            return np.zeros(min(limit, 2), dtype=np.int64)

        def tell(self, rewards: bdes.FloatArray) -> None:
            self.left -= rewards.size

    plugins = bdes.load_plugins(objects=[plugin_of(Counts)])
    chosen = plugins.crowd_policy(
        "each", CrowdProblem(1, 1000, visits_per_user=4.5), seed=1, policy="counts"
    )
    for visit in range(20):
        chosen.ask(np.zeros(1, dtype=np.int64))
        chosen.tell(np.array([visit]), np.zeros(1))
    assert horizons == [5, 10, 20]


def plugin_of(make: Any) -> Any:
    from attrs import frozen

    @frozen
    class Config:
        """Counts."""

    class Plugin:
        BDES_API_VERSION = 1
        __name__ = "counting"

        @bdes.hookimpl
        def bdes_register(self, registrar: bdes.Registrar) -> None:
            registrar.policy("counts", Config, make)

    return Plugin()


def test_greedy_shows_what_paid_best() -> None:
    chosen = policy("crowd-greedy", CrowdProblem(3, 1000), explore=2)
    assert chosen.ask(np.arange(6)).tolist() == [0, 1, 2, 0, 1, 2]
    chosen.tell(np.arange(6)[::-1].copy(), np.array([1.0, 0, 1, 1, 1, 0]))
    assert chosen.ask(np.arange(2)).tolist() == [2, 2]
    chosen.tell(np.array([6, 7]), np.zeros(2))
    assert chosen.ask(np.arange(2)).tolist() == [0, 0]
    assert isinstance(chosen, bdes.HasDiagnostics)
    found = chosen.diagnostics()
    assert np.asarray(found["means"]).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "use",
    [{"use": "crowd-greedy"}, {"use": "pooled", "policy": "ucb1"}, {"use": "crowd-posterior"}],
)
@pytest.mark.parametrize(
    ("visits", "rewards", "message"),
    [
        ([3], [0.0], "visit 3 was not asked for: there were 3"),
        ([-1], [0.0], "visit -1 was not asked for"),
        ([1, 1], [0.0, 0.0], "told twice"),
        ([0], [0.0], "told twice"),
        ([1], [1.5], r"must lie in \[0, 1\]"),
        ([1], [np.nan], r"must lie in \[0, 1\]"),
        ([1, 2], [0.0], "2 visits and 1 rewards"),
    ],
)
def test_wrong_rewards_are_rejected(
    use: dict[str, Any], visits: list[int], rewards: list[float], message: str
) -> None:
    chosen = PLUGINS.crowd_policy(use, CrowdProblem(3, 100), seed=1)
    chosen.ask(np.zeros(3, dtype=np.int64))
    chosen.tell(np.array([0]), np.array([1.0]))
    with pytest.raises(BdesError, match=message):
        chosen.tell(np.array(visits), np.array(rewards))


def test_rewards_of_long_ago_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_visits, "WINDOW", 2048)
    kept = OpenVisits()
    for start in range(0, 6000, 300):
        kept.open(np.arange(start, start + 300), np.arange(start, start + 300) % 2)
    users, arms, rewards = kept.close(np.array([3, 5999, 3953, 3951]), np.linspace(0, 0.3, 4))
    assert users.tolist() == [5999, 3953]
    assert arms.tolist() == [1, 1]
    np.testing.assert_allclose(rewards, [0.1, 0.2])
    kept.open(np.arange(10_000), np.zeros(10_000, dtype=np.int64))
    assert kept.close(np.array([15_999]), np.array([1.0]))[0].tolist() == [9999]


@pytest.mark.parametrize(
    "use",
    [
        "crowd-greedy",
        {"use": "each", "policy": "ucb1"},
        {"use": "pooled", "policy": "ucb1"},
    ],
    ids=["greedy", "each", "pooled"],
)
def test_ignored_rewards_are_counted(
    monkeypatch: pytest.MonkeyPatch, use: str | dict[str, Any]
) -> None:
    monkeypatch.setattr(open_visits, "WINDOW", 2048)
    policy = PLUGINS.crowd_policy(use, CrowdProblem(2, 10_000), seed=1)
    assert isinstance(policy, bdes.HasDiagnostics)
    for _ in range(10):
        policy.ask(np.arange(300) % 7)
    policy.tell(np.array([2999, 2500]), np.ones(2))
    assert policy.diagnostics()["ignored"] == 0
    policy.tell(np.array([3, 900, 2998, 5]), np.ones(4))
    assert policy.diagnostics()["ignored"] == 3
    policy.tell(np.array([6]), np.ones(1))
    assert policy.diagnostics()["ignored"] == 4


def test_visits_are_kept_while_rewards_are_late() -> None:
    """Against a dictionary: growing moves open visits to other places, and loses none."""
    kept = OpenVisits()
    expected: dict[int, tuple[int, int]] = {}
    rng, n = np.random.default_rng(1), 0
    for size in rng.integers(1, 700, size=60).tolist():
        users, arms = rng.integers(1000, size=size), rng.integers(5, size=size)
        kept.open(users, arms)
        expected |= dict(zip(range(n, n + size), zip(users, arms, strict=True), strict=True))
        n += size
        told = rng.permutation(list(expected))[: rng.integers(len(expected))]
        closed = kept.close(told, np.zeros(told.size))
        assert [*zip(*closed[:2], strict=True)] == [expected.pop(visit) for visit in told.tolist()]


def test_rejected_rewards_close_no_visit() -> None:
    kept = OpenVisits()
    kept.open(np.arange(3), np.arange(3))
    for wrong in ([0, 1, 1], [0, 1, 7]):
        with pytest.raises(BdesError):
            kept.close(np.array(wrong), np.zeros(3))
    assert kept.close(np.arange(3), np.zeros(3))[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("use", [{"use": "crowd-greedy"}, {"use": "each", "policy": "ucb1"}])
def test_losing_rewards_is_survived(use: dict[str, Any]) -> None:
    feedback = Feedback(every=20, delay=30, delays="geometric", lost=0.3)
    name = use["use"]
    trace = simulated(name, 2000, feedback, **{k: v for k, v in use.items() if k != "use"})
    assert trace.total_mean / trace.visits > 0.2
