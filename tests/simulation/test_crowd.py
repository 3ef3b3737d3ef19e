"""Many users: the same numbers however visits are grouped, rewards late, unordered or lost."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework import ContractError, CrowdProblem, Feedback, InvalidValueError, simulate_crowd
from bdes_framework.simulation.loop import CHUNK
from bdes_framework.testing import ReferenceCrowd
from tests.support.players import PLUGINS

INSTANCE = bdes.Instance([0.9, 0.3, 0.6], [0.1, 1.0, 0.5], lam=0.3)


def visits(n: int, n_users: int = 5, seed: int = 0) -> bdes.IntArray:
    numbers: dict[int, int] = {}
    drawn = np.random.default_rng(seed).integers(n_users, size=n).tolist()
    return np.array([numbers.setdefault(user, len(numbers)) for user in drawn])


class Noting:
    """Shows arms in turns and notes what it is asked and told."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.told: list[tuple[int, int, float]] = []

    def ask(self, users: bdes.IntArray) -> Any:
        start = len(self.asked)
        self.asked += users.tolist()
        return np.arange(start, start + users.size) % 3

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        now = len(self.asked)
        self.told += [(now, *pair) for pair in zip(visits.tolist(), rewards.tolist(), strict=True)]


def crowd(n: int, **of: Any) -> ReferenceCrowd:
    return ReferenceCrowd(INSTANCE, visits(n, **of), seed=1)


@pytest.mark.parametrize("every", [1, 7, 100, 10**6])
def test_trace_does_not_depend_on_grouping(every: int) -> None:
    n, reference = 250, crowd(250)
    arms = np.arange(n) % 3
    expected = reference.pull(reference.arrivals(n), arms)
    policy, users = Noting(), visits(n)
    checkpoints = [1, 6, 8, 100]
    trace = simulate_crowd(
        crowd(n), policy, n, feedback=Feedback(every=every), checkpoints=checkpoints, keep=True
    )
    assert (trace.visits, trace.n_users, trace.n_arms) == (n, 5, 3)
    np.testing.assert_array_equal(trace.users, users)
    np.testing.assert_array_equal(trace.arms, arms)
    for name in ("rewards", "means", "states"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(expected, name))
    assert trace.checkpoints.tolist() == [*checkpoints, n]
    index = trace.checkpoints - 1
    np.testing.assert_array_equal(trace.cumulative_rewards, np.cumsum(expected.rewards)[index])
    np.testing.assert_allclose(trace.cumulative_means, np.cumsum(expected.means)[index])
    assert trace.cumulative_states is not None
    assert expected.states is not None
    np.testing.assert_allclose(trace.cumulative_states, np.cumsum(expected.states)[index])
    np.testing.assert_array_equal(trace.user_visits, np.bincount(users))
    np.testing.assert_allclose(trace.user_means, np.bincount(users, expected.means))
    np.testing.assert_array_equal(trace.user_rewards, np.bincount(users, expected.rewards))
    assert trace.cumulative_user_rewards[-1] == trace.total_reward == expected.rewards.sum()
    assert trace.cumulative_user_means[-1] == pytest.approx(trace.total_mean)
    assert trace.told == n // every * every == len(policy.told)
    assert [visit for _, visit, _ in policy.told] == list(range(trace.told))
    assert [reward for _, _, reward in policy.told] == expected.rewards[: trace.told].tolist()
    curves = simulate_crowd(crowd(n), Noting(), n, feedback=Feedback(every=every))
    assert (curves.users, curves.arms, curves.rewards, curves.states) == (None,) * 4
    assert curves.total_mean == trace.total_mean


def test_long_gaps_between_rewards_are_cut_into_chunks() -> None:
    n = 2 * CHUNK + 10
    policy = Noting()
    trace = simulate_crowd(crowd(n), policy, n, feedback=Feedback(every=n))
    assert trace.told == n
    assert {now for now, _, _ in policy.told} == {n}


def test_late_rewards_come_after_their_delay() -> None:
    policy = Noting()
    simulate_crowd(crowd(200), policy, 200, feedback=Feedback(every=10, delay=25))
    assert [visit for _, visit, _ in policy.told] == list(range(200 - 25))
    assert all(visit + 1 + 25 <= now for now, visit, _ in policy.told)
    assert all(now < visit + 1 + 25 + 10 for now, visit, _ in policy.told)


def test_rewards_are_unordered_and_lost_as_asked() -> None:
    n, policy = 20_000, Noting()
    feedback = Feedback(every=10, delay=50, delays="geometric", lost=0.1, seed=3)
    trace = simulate_crowd(crowd(n), policy, n, feedback=feedback)
    told = [visit for _, visit, _ in policy.told]
    assert len(set(told)) == len(told) == trace.told
    assert told != sorted(told)
    assert len(told) / n == pytest.approx(0.9, abs=0.02)
    # Handed over at the next multiple of 10: 4.5 visits later, on average.
    late = np.mean([now - visit - 1 for now, visit, _ in policy.told])
    assert late == pytest.approx(50 + 4.5, abs=3)
    other = Noting()
    simulate_crowd(crowd(n), other, n, feedback=evolve(feedback, seed=4))
    assert other.told != policy.told


@pytest.mark.parametrize("checkpoints", [[50, 90, 500], [50, 91], [50, 89, 500]])
def test_it_ends_when_nobody_comes(checkpoints: list[int]) -> None:
    trace = simulate_crowd(crowd(90), Noting(), 1000, checkpoints=checkpoints)
    assert trace.visits == 90
    assert trace.checkpoints.tolist() == [*(mark for mark in checkpoints if mark < 90), 90]
    assert trace.total_reward == trace.user_rewards.sum() > 0


@pytest.mark.parametrize("policy", ["ucb1", "thompson", "posterior", "exp3p"])
@pytest.mark.parametrize("use", ["each", "pooled"])
def test_one_user_is_one_audience(use: str, policy: str) -> None:
    n, arms = 300, {"r": INSTANCE.r, "b": INSTANCE.b, "lam": INSTANCE.lam}
    environment = PLUGINS.crowd_environment("crowd", seed=1, users=1, **arms)
    chosen = PLUGINS.crowd_policy(use, CrowdProblem(3, n, visits_per_user=n), seed=1, policy=policy)
    trace = simulate_crowd(environment, chosen, n, feedback=Feedback(every=1), keep=True)
    assert trace.arms is not None
    alone = PLUGINS.environment("bernoulli", seed=1, **arms)
    played = bdes.simulate(alone, Replay(trace.arms), n)
    for name in ("means", "states"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(played, name))
    np.testing.assert_array_equal(trace.cumulative_means, played.cumulative_means)


class Replay:
    """Plays given arms."""

    def __init__(self, arms: bdes.IntArray) -> None:
        self.arms, self.done = arms, 0

    def ask(self, limit: int) -> bdes.IntArray:
        block = self.arms[self.done : self.done + limit]
        self.done += block.size
        return block

    def tell(self, rewards: bdes.FloatArray) -> None:
        pass


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.integers(0, 3),
)
def test_states_are_those_of_a_plain_loop(drawn: list[int], lam: float, seed: int) -> None:
    numbers: dict[int, int] = {}
    users = [numbers.setdefault(user, len(numbers)) for user in drawn]
    arms = np.random.default_rng(seed).integers(3, size=len(users))
    environment = PLUGINS.crowd_environment(
        "crowd", seed=seed, r=INSTANCE.r, b=INSTANCE.b, lam=lam, users=5, q0=0.8
    )
    environment.arrivals(10_000)  # everybody has come
    states = dict.fromkeys(range(5), 0.8)
    found = environment.pull(np.array(users), arms).states
    assert found is not None
    for user, arm, state in zip(users, arms.tolist(), found.tolist(), strict=True):
        assert state == states[user]
        states[user] += lam * (float(INSTANCE.b[arm]) - states[user])


def test_memory_does_not_grow_with_visits() -> None:
    def peak(n: int) -> int:
        gc.collect()  # what earlier tests left behind is not ours
        tracemalloc.start()
        problem = CrowdProblem(2, n)
        environment = PLUGINS.crowd_environment(
            "crowd", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3, users=1000
        )
        policy = PLUGINS.crowd_policy("crowd-greedy", problem, seed=1)
        simulate_crowd(environment, policy, n, feedback=Feedback(every=5000, delay=300))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(50_000)  # compiles, and grows what is kept between games
    # A few blocks of 40 kB come and go with garbage collection; a byte a visit would be 350 kB.
    assert peak(400_000) < peak(50_000) + 200_000


# -- broken sides ---------------------------------------------------------------------------


class Broken(ReferenceCrowd):
    """An environment with something replaced."""

    def __init__(self, **replaced: Any) -> None:
        super().__init__(INSTANCE, visits(300), seed=1)
        self._replaced = replaced

    def arrivals(self, n: int) -> Any:
        users = super().arrivals(n)
        return self._replaced.get("arrivals", lambda users: users)(users)

    def pull(self, users: bdes.IntArray, arms: bdes.IntArray) -> Any:
        outcome = super().pull(np.minimum(users, 4), arms)
        return self._replaced.get("pull", lambda outcome: outcome)(outcome)


def put(values: Any, at: int, value: float) -> Any:
    values = values.copy()
    values[at] = value
    return values


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"arrivals": lambda u: u.astype(np.int32)}, "visit 0 .*1-d array of int64, got array of"),
        ({"arrivals": lambda u: np.append(u, 0)}, r"arrivals\(100\) returned 101 users"),
        ({"arrivals": lambda u: put(u, 7, 9)}, "visit 7 .*user 9; users are numbered by first"),
        ({"arrivals": lambda u: put(u, 7, -1)}, "visit 7 .*user -1; users"),
        ({"arrivals": lambda u: u[:0]}, "visit 0 .*arrivals returned nobody"),
        ({"pull": lambda o: None}, "pull must return an Outcome"),
        ({"pull": lambda o: evolve(o, means=o.means[1:])}, r"bring means as array .*got array"),
        ({"pull": lambda o: evolve(o, rewards=put(o.rewards, 8, 1.5))}, "visit 8 .*got 1.5"),
        ({"pull": lambda o: evolve(o, means=put(o.means, 8, np.nan))}, "visit 8 .*got nan"),
        ({"pull": lambda o: evolve(o, states=put(o.states, 8, np.inf))}, "visit 8 .*not finite"),
    ],
)
def test_broken_environment_is_named(replaced: Any, message: str) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        simulate_crowd(Broken(**replaced), Noting(), 300)
    assert "crowd environment tests.simulation.test_crowd.Broken" in str(caught.value)


def test_environment_that_brings_states_only_sometimes() -> None:
    calls: list[int] = []

    def forget(outcome: bdes.Outcome) -> bdes.Outcome:
        calls.append(1)
        return evolve(outcome, states=None) if len(calls) == 2 else outcome

    with pytest.raises(ContractError, match=r"visit 100 .*brought no states, but some before"):
        simulate_crowd(Broken(pull=forget), Noting(), 300)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda arms: arms.tolist(), r"ask of 100 visits must return an array of int64"),
        (lambda arms: arms[:-1], r"shape \(100,\), got array of int64, shape \(99,\)"),
        (lambda arms: put(arms, 5, 3), "visit 5 .*ask returned arm 3; arms go from 0 to 2"),
        (lambda arms: put(arms, 5, -1), "visit 5 .*ask returned arm -1"),
    ],
)
def test_broken_policy_is_named(answer: Any, message: str) -> None:
    class Wrong(Noting):
        def ask(self, users: bdes.IntArray) -> Any:
            return answer(super().ask(users))

    with pytest.raises(ContractError, match=message) as caught:
        simulate_crowd(crowd(300), Wrong(), 300)
    assert "crowd policy tests.simulation.test_crowd" in str(caught.value)


def test_what_a_policy_raises_says_when() -> None:
    class Fails(Noting):
        def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone") as caught:
        simulate_crowd(crowd(300), Fails(), 300)
    assert caught.value.__notes__ == ["in visit 100 of the simulation (counted from 0)"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": 0},
        {"delay": -1},
        {"lost": 1.5},
        {"lost": True},
        {"delays": "normal"},
        {"every": 1.5},
    ],
)
def test_feedback_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidValueError, ValueError)):
        Feedback(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"n_arms": 0}, {"visits": 0}, {"visits_per_user": 0.5}, {"lam": 2.0}, {"q0": -1.0}]
)
def test_crowd_problem_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        CrowdProblem(**({"n_arms": 2, "visits": 10} | wrong))
