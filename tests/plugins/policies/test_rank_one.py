"""Rows and columns: what is counted, fitted and bounded, and the pair that is played in the end."""

import math

import numpy as np
import pytest

from bdes_framework import FloatArray, Instance, InvalidValueError, Problem, simulate
from bdes_policies.exploration.phases import PhaseReader
from bdes_policies.rank_one import (
    Transitions,
    fit,
    log_term,
    pair_bounds,
    transition_bounds,
)
from tests.support.noiseless import PLUGINS, array, build, number, play_named, problem_of
from tests.support.work import n_lines


def values_of_pairs(instance: Instance) -> FloatArray:
    means = np.outer(instance.b, instance.r)
    return (means + means.T) / 2


def random_instance(n_arms: int, seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    return Instance(rng.random(n_arms), rng.random(n_arms), 1.0)


@pytest.mark.parametrize("n_arms", [2, 3, 5, 8])
@pytest.mark.parametrize("q0", [1.0, 0.0, 3.0])
def test_exact_means_give_the_factors_and_the_best_pair(n_arms: int, q0: float) -> None:
    for seed in range(8):
        arms = random_instance(n_arms, seed)
        instance = Instance(arms.r, arms.b, 1.0, q0)
        shown = play_named("rank-one", instance, 5_000, seed=seed).diagnostics
        fitted = np.outer(array(shown, "b_hat"), array(shown, "r_hat"))
        np.testing.assert_allclose(fitted, np.outer(instance.b, instance.r), atol=1e-6)
        values = values_of_pairs(instance)
        first, second = array(shown, "committed").astype(int)
        assert values[first, second] == values.max()
        left = array(shown, "active_first"), array(shown, "active_second")
        assert (first, second) in zip(*left, strict=True)


@pytest.mark.parametrize(
    ("r", "b", "best"),
    [
        ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0, 1]),  # either alone earns nothing
        ([0.9, 0.2, 0.0], [0.8, 1.0, 0.0], [0, 0]),  # one arm alone
        ([0.6, 0.5], [0.5, 0.5], [0, 0]),
        ([0.5, 0.4], [0.2, 1.0], [1, 1]),
    ],
)
def test_zeros_and_single_arms_are_found(r: list[float], b: list[float], best: list[int]) -> None:
    instance = Instance(r, b, 1.0)
    for seed in range(4):
        shown = play_named("rank-one", instance, 20_000, seed=seed).diagnostics
        assert array(shown, "committed").tolist() == best


def test_every_reward_is_added_to_its_transition() -> None:
    transitions, rng = Transitions(3), np.random.default_rng(1)
    phases = [([[2, 0, 1], [1, 0, 2]], 1), ([[0, 0, 2], [0, 1, 2]], 5), ([[0, 1], [1, 1]], 4)]
    sums, counts, before = np.zeros((3, 3)), np.zeros((3, 3)), None
    for cycles, times in phases:
        phase = transitions.phase(np.array(cycles), times)
        reader = PhaseReader(phase)
        arms, rewards = reader.arms(phase.n_pulls), rng.random(phase.n_pulls)
        assert arms.tolist() == [arm for cycle in cycles for arm in cycle * times]
        reader.take(rewards)
        transitions.add(reader.sums)
        for arm, reward in zip(arms, rewards, strict=True):
            if before is not None:
                sums[before, arm] += reward
                counts[before, arm] += 1
            before = arm
    np.testing.assert_allclose(transitions.sums, sums)
    assert transitions.counts.tolist() == counts.tolist()
    of_b, of_r = fit(transitions)
    fitted = counts * np.outer(of_b.values, of_r.values)
    for axis in (0, 1):  # the likelihood is largest where rows and columns add up
        np.testing.assert_allclose(fitted.sum(axis=axis), sums.sum(axis=axis), rtol=1e-6)


@pytest.mark.parametrize(
    ("n_arms", "horizon", "delta"), [(1, 1, 0.5), (2, 10, 0.9), (50, 10**6, 0.05)]
)
def test_the_logarithm_is_the_least_that_proves_delta(
    n_arms: int, horizon: int, delta: float
) -> None:
    def chance(level: float) -> float:
        slices = math.ceil(level * math.log(max(horizon, 2)))
        return 2 * n_arms**2 * math.e * slices * math.exp(-level)

    level = log_term(n_arms, horizon, delta)
    assert chance(level) == pytest.approx(delta)
    assert chance(level - 0.1) > delta


def drawn(instance: Instance, seed: int) -> Transitions:
    """Return transitions after some of the policy's kinds of phases."""
    n_arms, rng = instance.n_arms, np.random.default_rng(seed)
    transitions = Transitions(n_arms)
    giver, payer = (int(x) for x in rng.integers(n_arms, size=2))
    hubs = np.array([[giver, j, payer] for j in range(n_arms)])
    transitions.phase(np.array([rng.permutation(n_arms) for _ in range(4)]), 1)
    transitions.phase(hubs, int(rng.integers(1, 300)))
    means = np.outer(instance.b, instance.r)
    transitions.sums[:] = rng.binomial(transitions.counts.astype(int), means)
    return transitions


def covered(level: float) -> tuple[float, float]:
    """Return in which share of draws bounds hold for all transitions, and for all pairs."""
    own, pairs = [], []
    for seed in range(300):
        instance = random_instance(4, seed)
        transitions, means = drawn(instance, seed), np.outer(instance.b, instance.r)
        lower, upper = transition_bounds(transitions, level)
        own.append(bool(np.all((lower <= means) & (means <= upper))))
        values = values_of_pairs(instance)
        held = []
        for giver in range(4):  # whichever arms are giver and payer
            lower, upper = pair_bounds(transitions, level, giver, (giver + 1) % 4)
            held.append(np.all((lower <= values + 1e-12) & (values <= upper + 1e-12)))
        pairs.append(bool(np.all(held)))
        assert pairs[-1] or not own[-1]  # bounds of pairs follow from those of transitions
    return float(np.mean(own)), float(np.mean(pairs))


def test_bounds_hold_as_often_as_they_should() -> None:
    own, pairs = covered(log_term(4, 1_000, 0.05))
    assert min(own, pairs) >= 0.95
    assert covered(0.5)[0] < 0.5  # with too small a logarithm they would not


@pytest.mark.parametrize("seed", range(6))
def test_the_best_pair_is_not_eliminated_and_others_are(seed: int) -> None:
    instance = Instance([1.0, 0.1, 0.5], [0.0, 1.0, 0.3], 1.0)
    world = PLUGINS.environment("bernoulli", seed=seed, r=instance.r, b=instance.b, lam=1.0)
    policy = build("rank-one", problem_of(instance, 10**6), seed)
    shown = simulate(world, policy, 10**6, keep=False).diagnostics
    left = list(zip(array(shown, "active_first"), array(shown, "active_second"), strict=True))
    assert (0, 1) in left
    assert len(left) < 6
    assert array(shown, "pairs_after")[-1] == len(left)
    assert array(shown, "committed").tolist() == [0, 1]


def loss(name: str, instance: Instance, horizon: int, seed: int) -> float:
    world = PLUGINS.environment("bernoulli", seed=seed, r=instance.r, b=instance.b, lam=1.0)
    problem = problem_of(instance, horizon, arm=int(instance.b.argmax()))
    trace = simulate(world, build(name, problem, seed), horizon, keep=False)
    return 1 - trace.total_mean / (horizon * float(values_of_pairs(instance).max()))


def test_loses_less_than_half_of_what_others_lose() -> None:
    lost = {
        name: np.mean([loss(name, random_instance(10, seed), 10**5, seed) for seed in range(6)])
        for name in ("rank-one", "sticky", "etc")
    }
    assert lost["rank-one"] < min(lost["sticky"], lost["etc"]) / 2
    assert lost["rank-one"] < 0.03


@pytest.mark.parametrize(("n_arms", "horizon"), [(1, 500), (2, 15), (3, 23), (5, 1), (50, 399)])
def test_without_room_all_arms_are_played_in_turn(n_arms: int, horizon: int) -> None:
    played = play_named("rank-one", random_instance(n_arms, 0), horizon)
    assert played.arms.tolist() == [k % n_arms for k in range(horizon)]
    assert "no room" in str(played.diagnostics["plan"])


@pytest.mark.parametrize("horizon", [16, 17, 40, 100])
def test_little_room_is_enough(horizon: int) -> None:
    played = play_named("rank-one", random_instance(2, 1), horizon)
    shown = played.diagnostics
    at = int(number(shown, "committed_at"))
    assert at < horizon
    pair = array(shown, "committed").astype(int).tolist()
    assert played.arms[at:].tolist() == [pair[k % 2] for k in range(horizon - at)]


@pytest.mark.parametrize(("r", "b"), [([0.0, 0.0], [1.0, 0.5]), ([0.5, 1.0], [0.0, 0.0])])
def test_if_none_pays_all_arms_are_played_in_turn(r: list[float], b: list[float]) -> None:
    played = play_named("rank-one", Instance(r, b, 1.0), 1_000)
    assert "none has paid" in str(played.diagnostics["plan"])
    assert played.arms[-200:].tolist() in ([0, 1] * 100, [1, 0] * 100)


def test_other_rates_are_played_as_if_they_were_one() -> None:
    for lam in (None, 0.3, 1.0):
        first = build("rank-one", Problem(4, 1_000, lam)).ask(16)
        assert sorted(first.tolist()) == sorted([0, 1, 2, 3] * 4)
    assert play_named("rank-one", Instance([0.9, 0.3], [0.1, 1.0], 0.3), 2_000).arms.size == 2_000


def test_too_many_arms_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"at most 1,000 arms.*etc-unknown-arm"):
        build("rank-one", Problem(1_001, 10**6, 1.0))


def test_no_python_runs_for_a_pull() -> None:
    instance = random_instance(60, 3)
    loss("rank-one", instance, 200_000, 1)  # compiles
    assert n_lines(lambda: loss("rank-one", instance, 200_000, 1)) < 200_000 / 5
