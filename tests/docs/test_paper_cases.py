"""Lemmas and cases of the appendix on exact means: what the boxes would decide."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from bdes_framework import FloatArray, Instance, alternating_limit, load_plugins, settling_pulls
from bdes_policies import estimate_lam

PLUGINS = load_plugins()
HORIZON, N_ARMS = 1_000_000, 2
BLOCK = round((HORIZON / N_ARMS) ** (2 / 3))
THRESHOLD = 3 * math.sqrt(math.log(HORIZON)) / (HORIZON / N_ARMS) ** (1 / 3)
LARGE_GAP = math.sqrt(math.log(HORIZON)) * (N_ARMS / HORIZON) ** (1 / 3)
WIDE, NARROW = Instance([1, 0], [0, 1], 0), Instance([0.9, 0.5], [0.5, 0.52], 0)


def gap_seen(instance: Instance) -> float:
    """Return |mu_i - mu_(i,j)| of Algorithm 8 for i = 0 and j = 1, on expected rewards."""
    alone = [arm for arm in (0, 1) for _ in range(2 * BLOCK)]
    rewards = instance.expected_rewards([*alone, *([0, 1] * (3 * BLOCK))])
    own, both = rewards[BLOCK : 2 * BLOCK], rewards[6 * BLOCK :: 2]
    return float(abs(own.mean() - both.mean()))


def largest_gap(instance: Instance) -> float:
    """Return the largest r_i |b_i - b_j|."""
    return float((instance.r[:, None] * np.abs(instance.b[:, None] - instance.b)).max())


def at_rate(instance: Instance, lam: float) -> Instance:
    return Instance(instance.r, instance.b, lam)


def lost_without_states(instance: Instance) -> float:
    """Return what the largest r, played for ever, loses to a bound on the optimum, per round."""
    best = instance.r.max() * max(1.0, instance.b.max())
    return float(best - instance.value(np.full(HORIZON, instance.r.argmax())) / HORIZON)


@pytest.mark.parametrize(
    ("exponent", "lost"), [(2.0, 1e-6), (1.5, 6e-4), (1.25, 0.016), (1.0, 1 / math.e)]
)
def test_theorem_e2_slow_states_go_to_exp3p(exponent: float, lost: float) -> None:
    """Cases 1 to 3: lam up to T^-2, T^(-a/b), and 1/T, however wide the gaps are."""
    instance = at_rate(WIDE, HORIZON**-exponent)
    assert largest_gap(instance) > LARGE_GAP
    assert gap_seen(instance) <= THRESHOLD
    assert lost_without_states(instance) <= lost


def test_best_pair_of_rate_one_is_nearly_best_near_it() -> None:
    """Lemma 5.4: a state is off by at most 1 - lam, so a value by as much a round, twice."""
    rng, horizon = np.random.default_rng(54), 12
    for off, n_arms in itertools.product((0.0, 0.01, 0.1), (2, 3)):
        r, b = rng.random((2, n_arms))
        sticky, near = Instance(r, b, 1.0), Instance(r, b, 1 - off)
        pairs = list(itertools.combinations_with_replacement(range(n_arms), 2))
        pair = max(pairs, key=lambda p: r[p[0]] * b[p[1]] + r[p[1]] * b[p[0]])
        played = near.value(list(pair) * (horizon // 2))
        best = exact_value(near, horizon)
        for arms in ([*pair] * (horizon // 2), rng.integers(n_arms, size=horizon).tolist()):
            assert abs(near.value(arms) - sticky.value(arms)) <= off * horizon + 1e-12
        # The first and the last round may differ from the cycle: at most 1 each.
        assert best - played <= 2 * off * horizon + 2


def exact_value(instance: Instance, horizon: int) -> float:
    return PLUGINS.planner("exact").plan(instance, horizon).value


@pytest.mark.parametrize("lam", [HORIZON**-0.5, 0.1, 1.0])
def test_theorem_e2_narrow_gaps_go_to_exp3p(lam: float) -> None:
    """Case 4, at T^-0.5 with both assumptions false: the states are worth little."""
    instance = at_rate(NARROW, lam)
    assert largest_gap(instance) <= LARGE_GAP
    assert gap_seen(instance) <= THRESHOLD
    spread = np.ptp(instance.b)
    assert instance.r.max() * spread <= 2 * largest_gap(instance)
    for arms in itertools.product(range(2), repeat=6):  # states differ by the spread at most
        assert np.abs(instance.states(arms) - instance.states([0] * 6)).max() <= spread + 1e-15


def settled_means(instance: Instance, pulls: int) -> FloatArray:
    """Return the three means of Algorithm 7 for i = 0 and j = 1, after many blocks of each."""
    loops = ([1] * pulls + [0], [1] * pulls + [0] * (pulls + 1), [0] * pulls + [0, 1] * pulls + [0])
    return np.array([instance.expected_rewards(np.tile(loop, 20))[-1] for loop in loops])


@pytest.mark.parametrize("lam", [0.02, 0.1, 0.5, 1.0])
def test_theorem_e2_wide_gaps_give_lam(lam: float) -> None:
    """Case 5, lam above (K/T)^(1/3): the gap shows, and doubling the pulls ends near lam."""
    assert lam > (N_ARMS / HORIZON) ** (1 / 3)
    instance = at_rate(WIDE, lam)
    seen = gap_seen(instance)
    assert seen > THRESHOLD
    assert seen == pytest.approx(abs(0 - alternating_limit(0, 1, lam)), abs=0.01)
    pulls, found = 13, [math.inf]  # log T
    while True:
        found.append(estimate_lam(*settled_means(instance, pulls)).unclipped)
        if abs(found[-1] - found[-2]) < 1e-3:
            break
        pulls *= 2
    assert pulls <= 4 * max(13, settling_pulls(lam, 1e-3))
    assert found[-1] == pytest.approx(lam, abs=1e-3)


# Rates as exponents, K constant: lam = T^-x.
def cases_of_theorem_e2(x: float, *, wide: bool) -> list[float]:
    """Return the exponents of regret that Theorem E.2 promises; 1 is linear."""
    cases = [
        (x >= 2, 2 / 3),
        (1 < x < 2 and wide, 1 / x),
        (x == 1 and wide, 1.0),
        (x < 2 and not wide, 2 / 3),
        (x < 1 / 3 and wide, 2 / 3 + x / 3),  # with its factor log lam / log(1 - lam)
    ]
    return [exponent for holds, exponent in cases if holds]


def test_theorem_6_2_promises_more_than_theorem_e2() -> None:
    def promised(x: float, *, wide: bool) -> bool:  # (A1) or (A2)
        return wide or not 1 / 3 <= x < 1

    assert promised(0.5, wide=True)
    assert cases_of_theorem_e2(0.5, wide=True) == []  # no case at all
    assert promised(1, wide=True)
    assert cases_of_theorem_e2(1, wide=True) == [1.0]  # linear
    assert promised(1.25, wide=True)
    assert cases_of_theorem_e2(1.25, wide=True) == [0.8]  # above 2/3
    assert promised(0.3, wide=True)
    assert cases_of_theorem_e2(0.3, wide=True) == [pytest.approx(0.767, abs=0.001)]
    assert not promised(0.5, wide=False)
    assert cases_of_theorem_e2(0.5, wide=False) == [2 / 3]  # although both assumptions fail


# Appendix B.
def test_scaling_makes_a_replenishing_arm() -> None:
    for b in ([0.1, 0.3], [0.9, 0.2], [1.0, 1.0]):
        for eps in (0.5, 0.1, 0.001):
            scaled = Instance([0.5, 0.4], b, 0.3).scaled((1 + eps) * max(b))
            assert 1 - eps <= scaled.b.max() <= 1


# Noise.
def chance(rewards: tuple[int, ...], sizes: tuple[Fraction, ...]) -> Fraction:
    """Return the probability of these rewards; every round's noise is one of sizes, uniformly."""
    r, b = (Fraction(1, 2), Fraction(3, 4)), (Fraction(1, 4), Fraction(3, 4))
    lam, q, arm, total = Fraction(1, 3), Fraction(1, 2), 0, Fraction(1)
    for reward in rewards:
        pays = sum((r[arm] * (q + size) for size in sizes), Fraction(0)) / len(sizes)
        assert all(0 <= r[arm] * (q + size) <= 1 for size in sizes)  # nothing is clipped
        total *= pays if reward else 1 - pays
        q += lam * (b[arm] - q)
        arm = arm if reward else 1 - arm  # a learner that reacts: stay if it paid
    return total


def test_noise_without_clipping_changes_no_law() -> None:
    noise = (Fraction(-1, 5), Fraction(0), Fraction(1, 5))
    every = list(itertools.product((0, 1), repeat=6))
    assert sum(chance(rewards, noise) for rewards in every) == 1
    for rewards in every:
        assert chance(rewards, noise) == chance(rewards, (Fraction(0),))


def test_lemma_e1_needs_delta_above_eps() -> None:
    """Settled to within eps only, r_hat stays off by eps·r: more samples do not help."""
    eps, delta, samples, r = 0.1, 0.02, 10_000, 1.0
    mean = r * (1 - eps)  # what the lemma's own settling guarantees, and no more
    # Chebyshev: r_hat is within delta of its mean, so 2·delta and more away from r.
    missed = 1 - mean * (1 - mean) / (samples * delta**2)
    assert r - mean - delta >= 2 * delta
    assert missed > 0.97
    assert 4 * math.exp(-2 * samples * delta**2) < 0.002  # the bound stated
    assert 4 * math.exp(-2 * samples * (delta - eps) ** 2) < 0.002  # and the proof's, below eps


def noisy_estimates(r: float, eps: float, samples: int, runs: int, seed: int) -> FloatArray:
    """Return r_hat of many blocks, each reward drawn from Bern(r (1 - eps + noise))."""
    noise = {"use": "gaussian", "sigma": 0.05}  # r·q is five sigma and more from 0 and 1
    world = PLUGINS.environment("bernoulli", seed=seed, r=[r], b=[1 - eps], lam=1.0, noise=noise)
    world.pull(np.zeros(1, dtype=np.int64))  # from now on the state is 1 - eps
    rewards = world.pull(np.zeros(runs * samples, dtype=np.int64)).rewards
    return np.asarray(rewards.reshape(runs, samples).mean(axis=1))


def test_lemma_e1_holds_on_noisy_draws_for_delta_above_eps() -> None:
    r, eps, samples = 0.6, 0.01, 400
    off = np.abs(noisy_estimates(r, eps, samples, runs=2_000, seed=7400) - r)
    assert off.std() == pytest.approx(0.015, abs=0.002)  # of a mean of 400 draws: noise adds none
    for delta in (0.06, 0.07, 0.08):
        bound = 4 * math.exp(-2 * samples * (delta - eps) ** 2)
        assert bound < 1
        assert (off >= 2 * delta).mean() <= bound
    for distance in (0.05, 0.06, 0.07):  # so loose that it can be had without the union bound
        seen = (off >= distance).mean()
        assert 0 < seen <= 2 * math.exp(-2 * samples * (distance - eps * r) ** 2)
    # As printed, for any delta, it fails on draws too.
    eps, delta, samples = 0.1, 0.02, 10_000
    off = np.abs(noisy_estimates(r, eps, samples, runs=100, seed=7401) - r)
    assert (off >= 2 * delta).mean() > 0.97 > 4 * math.exp(-2 * samples * delta**2)
