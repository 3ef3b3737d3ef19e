"""The errata page's numbers: recurrence, brute force or arithmetic.

``printed`` is always what the paper says; what is right is asserted beside it.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import default_rng

import bdes_framework as bdes
from bdes_framework import FloatArray, Instance, settling_pulls, state_after_repeating
from bdes_policies import estimate_lam
from studies.regimes import drawn_instance
from tests.support import textbook


def random_instances(n: int, seed: int, largest_r: float = 1.0) -> Iterator[tuple[Instance, int]]:
    """Small enough for brute force: two or three arms, three to six rounds."""
    rng = default_rng(seed)
    for _ in range(n):
        k, horizon = int(rng.integers(2, 4)), int(rng.integers(3, 7))
        yield Instance(largest_r * rng.random(k), rng.random(k), float(rng.random())), horizon


def optimum(instance: Instance, horizon: int) -> float:
    return max(map(instance.value, itertools.product(range(instance.n_arms), repeat=horizon)))


# 1: EXP3.P.
def test_printed_exp3p_is_no_distribution() -> None:
    eta_gains, gamma = np.array([0.4, 0.1, 0.2]), 0.1
    printed = (1 - gamma) * np.exp(eta_gains) / eta_gains.sum() + gamma / 3
    right = (1 - gamma) * np.exp(eta_gains) / np.exp(eta_gains).sum() + gamma / 3
    assert printed.sum() > 4
    assert right.sum() == pytest.approx(1)


def test_exp3p_weights_overflow_unless_shifted() -> None:
    horizon = 2_000_000
    eta = 0.95 * math.sqrt(math.log(2) / (2 * horizon))
    gains = np.array([float(horizon), 0.0])  # at least this, when one arm always pays
    assert eta * gains[0] > 790
    with pytest.raises(OverflowError):
        math.exp(eta * gains[0])
    shifted = np.exp(eta * (gains - gains.max()))
    assert (shifted / shifted.sum()).tolist() == [1.0, 0.0]


# 2: the closed form of the state.
def closed_form(instance: Instance, history: list[int]) -> float:
    """The state after ``history``, by the lemma's sum with arms counted from the first pull."""
    t, lam = len(history), instance.lam
    weighted = sum((1 - lam) ** (t - 1 - s) * instance.b[history[s]] for s in range(t))
    return float((1 - lam) ** t + lam * weighted)


def test_closed_form_is_the_state_after_t_pulls() -> None:
    instance = Instance([0.9, 0.5, 0.2], [0.1, 0.6, 1.0], 0.3)
    history = [0, 2, 1, 1, 0]
    states = instance.states(history)
    for t in range(len(history)):
        assert closed_form(instance, history[:t]) == pytest.approx(states[t])
    # The proof about estimates pays round t at the next round's state:
    paid = [
        instance.r[arm] * closed_form(instance, history[: t + 1]) for t, arm in enumerate(history)
    ]
    assert sum(paid) != pytest.approx(instance.value(history), rel=0.1)


def test_repeating_an_arm_decays_by_the_nth_power() -> None:
    states = Instance([1.0], [0.15], 0.5).states([0] * 6)
    for n in range(6):
        assert state_after_repeating(1.0, 0.15, 0.5, n) == pytest.approx(states[n])
    printed_after_one_pull = 0.15 + 0.5**2 * (1 - 0.15)
    assert states[1] == pytest.approx(0.575)
    assert printed_after_one_pull == pytest.approx(0.3625)


def test_replenishing_ends_below_one_minus_eps() -> None:
    lam, eps = 0.5, 0.1
    pulls = settling_pulls(lam, eps)
    state = state_after_repeating(0.0, 1 - eps, lam, pulls)
    assert state < 1 - eps
    assert state >= (1 - eps) * (1 - lam * eps)


# 3: the FPTAS.
def fptas(instance: Instance, horizon: int, eps: float, *, may_skip: bool) -> tuple[int, ...]:
    """The algorithm as printed; ``may_skip`` is its line F_t <- F_{t-1}."""
    front: list[tuple[int, float, tuple[int, ...]]] = [(0, instance.q0, ())]
    for _ in range(horizon):
        grown = list(front) if may_skip else []
        for (units, q, arms), i in itertools.product(front, range(instance.n_arms)):
            paid = math.floor(instance.r[i] * q / eps)
            grown.append((units + paid, q + instance.lam * (instance.b[i] - q), (*arms, i)))
        grown.sort(key=lambda pair: (-pair[0], -pair[1], -len(pair[2])))
        front, highest = [], -1.0
        for pair in grown:
            if pair[1] > highest:
                front.append(pair)
                highest = pair[1]
    return front[0][2]


def test_printed_fptas_schedules_are_too_short() -> None:
    assert fptas(Instance([0.09], [0.5], 0.5), 5, 0.1, may_skip=True) == ()
    cases = list(random_instances(60, seed=1, largest_r=0.3))
    short = [len(fptas(case, horizon, 0.1, may_skip=True)) < horizon for case, horizon in cases]
    assert sum(short) == 16
    assert all(len(fptas(case, t, 0.1, may_skip=False)) == t for case, t in cases)


def test_fptas_may_earn_nothing_despite_the_lemma() -> None:
    instance, horizon, eps = Instance([0.09, 0.0], [0.9, 1.0], 0.5), 6, 0.1
    arms = fptas(instance, horizon, eps, may_skip=False)
    assert arms == (1,) * horizon
    assert instance.value(arms) == 0
    assert (1 - eps) * optimum(instance, horizon) > 0.45


@pytest.mark.parametrize("largest_r", [1.0, 0.3])
def test_fptas_loses_at_most_eps_per_round(largest_r: float) -> None:
    for instance, horizon in random_instances(60, seed=2, largest_r=largest_r):
        arms = fptas(instance, horizon, 0.1, may_skip=False)
        assert instance.value(arms) >= optimum(instance, horizon) - 0.1 * horizon - 1e-12


# 4: planning with estimates.
def test_estimates_can_cost_four_delta_per_round() -> None:
    delta, lam, horizon = 0.01, 0.5, 1000
    true = Instance([1.0, 0.9801], [1.0, 0.9801], lam)
    estimated = Instance([0.99, 0.9901], [0.99, 0.9901], lam)
    assert np.abs(true.r - estimated.r).max() <= delta + 1e-12
    # The worse arm is better in both respects under the estimates, so every planner plays it.
    assert estimated.r[1] > estimated.r[0]
    assert estimated.b[1] > estimated.b[0]
    loss = true.value([0] * horizon) - true.value([1] * horizon)
    assert true.value([0] * horizon) == horizon
    assert 3.9 < loss / (delta * horizon) < 4


def test_estimates_change_values_by_two_delta() -> None:
    rng = default_rng(3)
    for instance, horizon in random_instances(60, seed=3):
        delta = 0.05
        nudges = rng.uniform(-delta, delta, (2, instance.n_arms))
        r, b = np.clip(np.stack([instance.r, instance.b]) + nudges, 0, 1)
        moved = Instance(r, b, instance.lam)
        for arms in itertools.product(range(instance.n_arms), repeat=horizon):
            assert abs(instance.value(arms) - moved.value(arms)) <= 2 * delta * horizon


# 5 to 7: explore then commit.
def paper_eps(n_arms: int, horizon: float, lam: float) -> float:
    ratio = math.log(lam) / math.log1p(-lam)
    return float((n_arms * math.log(horizon) * ratio / horizon) ** (1 / 3))


def exploration(n_arms: int, horizon: int, lam: float, *, m_factor: int = 1) -> float:
    """Rounds before the plan starts, by the printed tuning, as a share of the horizon."""
    eps = paper_eps(n_arms, horizon, lam)
    samples = math.ceil(m_factor * math.log(horizon) / eps**2)
    settle = settling_pulls(lam, eps)
    for_r, for_b = n_arms * samples * (settle + 1), n_arms * (settle + samples)
    return (for_r + for_b + settle) / horizon


@pytest.mark.parametrize(
    ("lam", "known", "unknown"),
    [
        (100_000**-0.75, 6.8, None),
        (0.01, 0.74, 17.7),
        (0.1, 0.41, 10.1),
        (0.5, 0.58, 14.6),
        (0.9, 2.6, 65.0),
        (0.999, 90.5, None),
    ],
)
def test_share_explored_by_the_paper_tuning(
    lam: float, known: float, unknown: float | None
) -> None:
    assert exploration(5, 100_000, lam) == pytest.approx(known, rel=0.01)
    if unknown is not None:
        assert exploration(5, 100_000, lam, m_factor=25) == pytest.approx(unknown, rel=0.01)


def test_paper_tuning_near_one_samples_all_rounds() -> None:
    assert math.log(100_000) / paper_eps(5, 100_000, 0.99) ** 2 == pytest.approx(98_884, rel=1e-4)
    assert paper_eps(5, 100_000, 100_000**-0.75) > 3


def test_estimates_are_an_equivalent_instance() -> None:
    instance = Instance([0.9, 0.4, 0.6], [0.1, 0.5, 0.9], 0.4)
    mean_b = float(instance.b.mean())
    estimated = Instance(mean_b * instance.r, instance.b / mean_b, 0.4, q0=1 / mean_b)
    assert estimated.b.max() > 1
    for arms in itertools.product(range(3), repeat=5):
        assert estimated.value(arms) == pytest.approx(instance.value(arms))
    assert estimated == instance.scaled(mean_b)
    # Taking the state for 1, as if there were no scale, values the same arms differently.
    assert estimated.starting_at(1.0).value([0, 1, 2]) < 0.7 * instance.value([0, 1, 2])


def missing_share(seed: int, samples: int, r: float, v: float, delta: float) -> float:
    """How often estimates of v/r are off by delta or more; states are exactly where they lead."""
    rng, n = default_rng(seed), 100_000
    r_hat, v_hat = rng.binomial(samples, r, n) / samples, rng.binomial(samples, v, n) / samples
    return float(np.mean(np.abs(v_hat / r_hat - v / r) >= delta))


@pytest.mark.parametrize(("r", "failing"), [(0.8, 0.20), (0.2, 0.64), (0.05, 0.82)])
def test_end_state_estimate_misses_too_often(r: float, failing: float) -> None:
    eps = paper_eps(5, 100_000, 0.5)
    delta, samples = eps / 4, math.ceil(math.log(100_000) / eps**2)
    promised = 4 * math.exp(-2 * samples * (eps**2 - eps * delta))
    promised += 4 * math.exp(-2 * samples * (eps - delta) ** 2)
    assert promised < 1e-5
    # States of exactly 1 and b = 0.5 are kinder than the algorithm ever is.
    assert missing_share(4, samples, r, r * 0.5, delta) == pytest.approx(failing, abs=0.01)


@pytest.mark.parametrize(("r", "failing"), [(0.5, 0.03), (0.2, 0.20), (0.05, 0.53)])
def test_ratio_of_estimates_misses_too_often(r: float, failing: float) -> None:
    eps = paper_eps(5, 100_000, 0.5)
    samples = math.ceil(5**2 * math.log(100_000) / eps**2)
    assert 8 * math.exp(-2 * samples * eps**2) < 1e-240  # with delta = 2·eps
    # One arm of five leads to 1, the others to 0.
    assert missing_share(5, samples, r / 5, r, 2 * eps) == pytest.approx(failing, abs=0.005)


def test_tail_of_the_ratio_is_used_where_it_proves_nothing() -> None:
    rng = default_rng(9)
    for eps, scaled_r in rng.uniform(0, (0.5, 1), (200, 2)).tolist():
        delta = 2 * eps
        at = delta / 2 * abs(scaled_r - delta)
        assert at <= eps  # the tail lemma says something above eps only
        assert (at - eps) ** 2 >= eps**2 - eps * delta  # the algebra after it is right,
        assert math.exp(-2 * 100 * (eps**2 - eps * delta)) >= 1  # and what it leads to no bound


# 8: sticky arms.
def sticky_pulls(n_arms: int, horizon: int, *, true_cost: bool) -> int:
    """Pulls made before the last batch when nothing is eliminated (say, all arms equal)."""
    active, growth = n_arms * (n_arms + 1) // 2, math.sqrt(math.e)
    used = 0
    for batch in range(1, math.ceil(2 * math.log(horizon))):
        each = math.floor(growth**batch)
        cost = 2 * each * active + n_arms  # at most one switch per arm
        if (cost if true_cost else each * active) > horizon - used:
            break
        used += cost
    return used


def test_printed_sticky_runs_past_the_horizon() -> None:
    shares = [sticky_pulls(k, 100_000, true_cost=False) / 100_000 for k in range(2, 11)]
    table = [1.24, 0.91, 0.92, 0.83, 1.17, 0.94, 1.21, 0.92, 1.12]
    assert shares == pytest.approx(table, abs=0.0051)
    for n_arms in range(2, 11):
        assert sticky_pulls(n_arms, 100_000, true_cost=True) <= 100_000


def test_eliminating_a_tenth_exceeds_the_horizon() -> None:
    n_arms, horizon = 5, 100_000
    batches = 2 * math.log(horizon)
    pairs = 2 * math.log(2 * n_arms**2 * horizon * batches) / 0.1**2
    assert pairs == pytest.approx(3712, abs=1)
    assert 2 * pairs * 15 / horizon == pytest.approx(1.11, abs=0.01)
    # Two means, each off by its own Hoeffding radius, still differ by the radius printed.
    guaranteed = 14_850
    log = math.log(2 * n_arms**2 * horizon * batches)
    assert 8 * log / 0.1**2 == pytest.approx(14_849.25, abs=0.005)
    assert 0.1 - 2 * math.sqrt(log / (2 * guaranteed)) >= math.sqrt(2 * log / guaranteed)
    assert 0.1 - 2 * math.sqrt(log / (2 * 14_849)) < math.sqrt(2 * log / 14_849)
    assert 2 * guaranteed * 15 / horizon == pytest.approx(4.5, abs=0.05)


# 9 and 10: unknown lam.
@pytest.mark.parametrize("lam", [0.05, 0.3, 0.8, 1.0])
def test_printed_lam_estimate_is_always_one(lam: float) -> None:
    r_i, b_i, b_j = 0.8, 0.3, 0.9
    own, other = r_i * b_i, r_i * b_j
    alternating = r_i * bdes.alternating_limit(b_i, b_j, lam)
    printed = (own + alternating - 2 * alternating) / (own - alternating)
    right = 1 + (other - alternating) / (own - alternating)
    assert printed == pytest.approx(1)
    assert right == pytest.approx(lam)


def test_short_blocks_agree_on_a_wrong_lam() -> None:
    i, j, samples = 0, 1, 20_000
    instance = Instance([0.8, 0.8], [0.2, 0.9], 0.0003)
    estimates = []
    for settle in (12, 24, 48):
        blocks = [
            [j] * settle + [i],
            [j] * settle + [i] * settle + [i],
            [i] * settle + [i, j] * settle + [i],
        ]
        rewards = instance.expected_rewards(np.concatenate([np.tile(b, samples) for b in blocks]))
        lengths = [len(block) for block in blocks]
        loops = np.split(rewards, samples * np.cumsum(lengths)[:-1])
        means = [float(loop[n - 1 :: n].mean()) for loop, n in zip(loops, lengths, strict=True)]
        estimates.append(estimate_lam(*means).unclipped)
    assert estimates == pytest.approx([4.84, 4.96, 5.08], abs=0.005)


def test_box_for_unknown_lam_tests_half_the_rounds() -> None:
    n_arms, horizon = 5, 10_000
    block = (horizon / n_arms) ** (2 / 3)
    alone = n_arms * 2 * block
    pairs = (n_arms - 1) * (2 * block + 2 * 2 * block)
    assert (alone + pairs) / horizon == pytest.approx(0.54, abs=0.005)
    assert n_arms ** (1 / 3) * horizon ** (2 / 3) / horizon == pytest.approx(0.08, abs=0.005)


def test_threshold_is_out_of_reach_of_most_arms() -> None:
    def threshold(horizon: int) -> float:
        return 3 * math.sqrt(math.log(horizon)) / math.cbrt(horizon / 5)

    assert threshold(100_000) == pytest.approx(0.375, abs=0.001)
    lam = 0.1
    signal = abs(0.3 - bdes.alternating_limit(0.3, 0.9, lam))  # of an arm with r = 1
    assert signal == pytest.approx(0.6 / (2 - lam))
    assert signal < threshold(100_000)
    for apart, last in ((0.6, 180_513), (1.0, 30_760)):
        assert threshold(last + 1) < apart / (2 - lam) <= threshold(last)


# 11: external against DES regret.
def per_round(instance: Instance, cycle: list[int], horizon: int = 10_000) -> float:
    return instance.value((cycle * horizon)[:horizon]) / horizon


@pytest.mark.parametrize("eps", [0.01, 0.1])
def test_the_propositions_rewards_per_round(eps: float) -> None:
    instance = Instance([1 / 2, 3 / 4 - eps / 2], [1, 1 / 2 + 2 * eps], 1.0)
    first, second, both = (per_round(instance, cycle) for cycle in ([0], [1], [0, 1]))
    assert first == pytest.approx(1 / 2, abs=1e-3)
    assert second == pytest.approx(3 / 8 + 5 * eps / 4 - eps**2, abs=1e-3)
    assert both == pytest.approx(1 / 2 + eps / 4, abs=1e-3)
    assert both > first > second
    # A learner without external regret on its own states ends on the larger r, the second arm.
    assert both - second == pytest.approx(1 / 8 - eps + eps**2, abs=1e-3)


def test_best_arm_to_play_for_ever_changes_with_eps() -> None:
    root = (5 / 4 - math.sqrt(25 / 16 - 1 / 2)) / 2
    assert root == pytest.approx(0.1096, abs=1e-4)
    for eps in (root - 1e-6, root + 1e-6):
        alone = 3 / 8 + 5 * eps / 4 - eps**2
        assert (alone > 1 / 2) == (eps > root)
        assert alone == pytest.approx((3 / 4 - eps / 2) * (1 / 2 + 2 * eps))
    largest = (1 - math.sqrt(1 / 2)) / 2
    assert largest == pytest.approx(0.146, abs=1e-3)
    assert 1 / 8 - largest + largest**2 == pytest.approx(0)


def external(instance: Instance, arms: tuple[int, ...]) -> float:
    """External regret on the states that these arms lead to."""
    return float(instance.r.max() * instance.states(arms).sum() - instance.value(arms))


def test_no_des_regret_is_no_external_regret_against_an_arm_for_ever() -> None:
    eps, horizon = 0.05, 1_000_000
    instance = Instance([1 / 2, 3 / 4 - eps / 2], [1, 1 / 2 + 2 * eps], 1.0)
    for_ever = max(instance.value(np.full(horizon, arm)) for arm in range(2))
    best = instance.value(np.tile([0, 1], horizon // 2))
    plugins = bdes.load_plugins()
    environment = plugins.environment("bernoulli", seed=1, r=instance.r, b=instance.b, lam=1.0)
    policy = plugins.policy("sticky", bdes.Problem(2, horizon, 1.0, 0), seed=1)
    earned = bdes.simulate(environment, policy, horizon, keep=False).total_mean
    assert for_ever - earned == pytest.approx(-5989, abs=1)
    assert best - earned == pytest.approx(6512, abs=1)


def test_propositions_instance_is_a_witness_on_own_states() -> None:
    eps, horizon = 0.05, 10
    instance = Instance([1 / 2, 3 / 4 - eps / 2], [1, 1 / 2 + 2 * eps], 1.0)
    for arms in itertools.product(range(2), repeat=horizon):
        assert external(instance, arms) >= arms.count(0) * (1 / 4 - eps / 2) / 2 - 1e-12


def test_starker_pair_is_a_witness_below_one_only() -> None:
    alternating = (0, 1) * 5
    sticky = Instance([1.0, 0.0], [0.0, 1.0], 1.0)
    assert external(sticky, alternating) == 0
    assert sticky.value(alternating) == 5 == optimum(sticky, 10)
    lam, horizon = 0.5, 10
    instance = Instance([1.0, 0.0], [0.0, 1.0], lam)
    for arms in itertools.product(range(2), repeat=horizon):
        n = arms.count(1)
        if n > 1:
            at_least = (n - 1) * lam * (1 - lam) ** (horizon / (n - 1) - 1)
            assert external(instance, arms) >= at_least - 1e-12
        assert instance.value(arms) <= n + 1 / lam
    assert per_round(instance, [0, 1]) == pytest.approx(1 / (2 * (2 - lam)), abs=1e-3)


def test_two_arms_earn_only_together() -> None:
    instance = Instance([1.0, 0.0], [0.0, 1.0], 1.0)
    assert per_round(instance, [0]) == pytest.approx(0, abs=1e-3)
    assert per_round(instance, [1]) == 0
    assert per_round(instance, [0, 1]) == pytest.approx(0.5, abs=1e-3)


# 12 and 16: noise.
def test_noise_is_clipped_and_not_in_the_means() -> None:
    n, sigma = 200_000, 0.1
    noise = default_rng(5).normal(0, sigma, n)
    assert noise.max() > 0  # so that r (q + noise) exceeds 1 somewhere
    world = bdes.World(np.ones(1), np.ones(1), 0.5, np.ones(1), default_rng(6).random(n), noise)
    record = bdes.Record.empty(n, np.zeros(n, dtype=np.int64))
    assert bdes.sweep_block(world, record) == -1
    assert (record.means == 1).all()
    assert 0 <= record.probabilities.min() <= record.probabilities.max() <= 1
    lost = sigma / math.sqrt(2 * math.pi)  # E max(noise, 0)
    assert record.rewards.mean() == pytest.approx(1 - lost, abs=0.002)


def test_gaussian_breaks_the_printed_tail() -> None:
    def tail(tau: float) -> float:  # of a standard normal, which is 1-subGaussian
        return math.erfc(tau / math.sqrt(2))

    def printed(tau: float) -> float:
        return math.exp(-1 / tau**2)

    assert tail(0.5) > 0.6 > 0.02 > printed(0.5)
    assert printed(10) > 0.99 > 1e-20 > tail(10)
    assert all(tail(tau) <= 2 * math.exp(-(tau**2) / 2) for tau in np.linspace(0.01, 10, 200))
    assert tail(math.sqrt(math.log(1e6))) > 100 * 1e-6  # the threshold drawn from it


def test_benchmark_inside_the_noise_earns_more() -> None:
    noise = default_rng(7).normal(0, 1, 100_000)
    r = np.array([1.0, 0.5])
    inside = np.max(r[:, None] * (1 + noise), axis=0).mean()
    outside = np.max((r[:, None] * (1 + noise)).mean(axis=1))
    assert outside == pytest.approx(1, abs=0.01)  # the noiseless optimum of one round
    assert inside == pytest.approx(1 + 0.5 * 0.0833, abs=0.01)  # + E max(-(1 + noise), 0) / 2


# 13: at lam = 1.
def best_cycle(pays: FloatArray, lengths: range) -> float:
    """The best mean reward of a cycle of these lengths; ``pays[i, j]`` is for j after i."""
    arms = range(len(pays))
    return max(
        float(sum(pays[c[k - 1], c[k]] for k in range(length))) / length
        for length in lengths
        for c in itertools.permutations(arms, length)
        if c[0] == min(c)
    )


def test_no_longer_cycle_beats_the_best_pair() -> None:
    rng = default_rng(8)
    for _ in range(300):
        k = int(rng.integers(3, 6))
        pays = np.outer(rng.random(k), rng.random(k))
        assert best_cycle(pays, range(3, k + 1)) <= best_cycle(pays, range(1, 3)) + 1e-12


def test_best_finite_schedule_may_be_no_cycle() -> None:
    value = Instance([0.8, 1.0], [1.0, 0.0], 1.0).value
    assert max(itertools.product(range(2), repeat=4), key=value) == (0, 0, 0, 1)


# 14 and 15: rates.
@pytest.mark.parametrize("exponent", [1.25, 1.5, 1.75])
def test_slow_regime_loss_grows_as_lam_t_squared(exponent: float) -> None:
    def loss(horizon: int) -> float:
        return -math.expm1(horizon * math.log1p(-(horizon**-exponent))) * horizon

    assert slope(loss, 10**6, 10**8) == pytest.approx(2 - exponent, abs=0.01)
    assert 2 - exponent < 1 / exponent  # the printed exponent: valid, but loose


def test_sum_gives_the_share_at_one_over_t() -> None:
    horizon = 10_000
    lam = 1 / horizon
    by_the_lemma = (1 - lam) ** horizon
    by_the_sum = sum((1 - lam) ** t for t in range(horizon)) / horizon
    assert by_the_lemma == pytest.approx(1 / math.e, abs=1e-3)
    assert by_the_sum == pytest.approx(1 - 1 / math.e, abs=1e-3)
    worst = Instance([1.0, 0.99], [0.0, 1.0], lam)
    assert worst.value([0] * horizon) / horizon == pytest.approx(by_the_sum)
    best = bdes.load_plugins().planner("certified").plan(worst, horizon).value
    assert worst.value([0] * horizon) / best == pytest.approx(0.638, abs=0.001)


def test_middle_bound_grows_faster_than_printed() -> None:
    def bound(horizon: int) -> float:
        return paper_eps(5, horizon, horizon**-0.5) * horizon

    assert slope(bound, 10**5, 10**6) == pytest.approx(0.886, abs=0.002)
    without_logs = slope(lambda t: bound(t) / math.log(t) ** (2 / 3), 10**8, 10**10)
    assert without_logs == pytest.approx(5 / 6, abs=0.001)


def slope(curve: Callable[[int], float], low: int, high: int) -> float:
    return math.log(curve(high) / curve(low)) / math.log(high / low)


# 18: wider intervals.
def test_widening_all_intervals_alike_is_ucb1() -> None:
    horizon, lam = 600, 1e-3
    table = (default_rng(8).random((horizon, 3)) < [0.2, 0.5, 0.55]).astype(float)
    plain = textbook.ucb1(table)

    played: list[int] = []
    for t in range(horizon):
        seen = [[table[s, arm] for s in range(t) if played[s] == arm] for arm in range(3)]
        radii = [math.sqrt(2 * math.log(t) / len(x)) + lam * horizon if x else 0 for x in seen]
        indices = [sum(x) / len(x) + y if x else math.inf for x, y in zip(seen, radii, strict=True)]
        played.append(indices.index(max(indices)))
    assert played == plain

    policy = bdes.load_plugins().policy("wide-ucb", bdes.Problem(3, horizon, lam), seed=1)
    by_age = []
    for t in range(horizon):
        by_age += policy.ask(1).tolist()
        policy.tell(table[t, by_age[-1:]])
    assert by_age != plain


def test_ucb1_in_slow_states_is_bounded_without_lam() -> None:
    horizon, n_arms = 4000, 3
    lam = horizon**-1.5
    instance = Instance([0.9, 0.5, 0.4], [0.0, 1.0, 0.5], lam)
    plugins = bdes.load_plugins()
    best = plugins.planner("certified").plan(instance, horizon).value
    environment = plugins.environment("bernoulli", seed=2, r=instance.r, b=instance.b, lam=lam)
    policy = plugins.policy("ucb1", bdes.Problem(n_arms, horizon), seed=2)
    trace = bdes.simulate(environment, policy, horizon, keep=True)
    # Each step of the argument, on the arms played.
    arms, states = np.asarray(trace.arms), instance.states(np.asarray(trace.arms))
    assert np.abs(np.diff(states)).max() <= lam * (1 + 1e-9)
    assert states.min() >= 1 - lam * horizon
    radii = 0.0
    for arm in range(n_arms):
        n_plays = int((arms == arm).sum())
        radii += 1 + sum(math.sqrt(2 * math.log(horizon) / n) for n in range(1, n_plays))
    own_states = float((instance.r.max() * states - instance.expected_rewards(arms)).sum())
    assert own_states <= 2 * radii + 2 * lam * horizon**2
    assert best - instance.r.max() * states.sum() <= lam * horizon**2
    assert best - instance.value(arms) <= 2 * radii + 3 * lam * horizon**2


def test_ucb1_earns_more_than_exp3p_in_slow_states() -> None:
    horizon = 100_000
    lam = horizon**-1.5
    plugins = bdes.load_plugins()

    def earned(policy: str, index: int, rate: float | None) -> float:
        instance = drawn_instance(3, index, lam)
        environment = plugins.environment(
            "bernoulli", seed=index, r=instance.r, b=instance.b, lam=lam
        )
        player = plugins.policy(policy, bdes.Problem(3, horizon, rate), seed=index)
        return bdes.simulate(environment, player, horizon, keep=False).total_mean

    def mean(policy: str, rate: float | None = None) -> float:
        return float(np.mean([earned(policy, index, rate) for index in range(12)]))

    assert mean("ucb1") - mean("exp3p") == pytest.approx(1131, abs=1)
    assert mean("wide-ucb", lam) - mean("exp3p") == pytest.approx(1125, abs=1)


# 19: the bound of explore-then-commit at both ends.
def test_printed_bound_of_etc_vanishes_near_one() -> None:
    n_arms, horizon = 5, 100_000
    assert paper_eps(n_arms, horizon, 1 - 1e-12) * horizon < 1
    for lam in (0.1, 1 - 1e-12):  # a bandit: with all b = 1 the state does not move
        assert (Instance([0.5, 0.6], [1.0, 1.0], lam).states([0, 1, 1, 0]) == 1).all()
    # At least one pull restores the state, however close to 1 lam is.
    assert settling_pulls(1 - 1e-12, 0.01) == 1


def test_settling_pulls_grow_with_the_horizon() -> None:
    pulls = [settling_pulls(0.5, paper_eps(5, horizon, 0.5)) for horizon in (10**4, 10**8)]
    assert pulls == [4, 8]


def test_etc_is_sublinear_far_beyond_the_printed_condition() -> None:
    def bound(horizon: int) -> float:  # with log lam / log(1 - lam) = T^(1/2)
        return math.cbrt(5 * math.log(horizon) * math.sqrt(horizon)) * math.pow(horizon, 2 / 3)

    assert slope(bound, 10**8, 10**10) < 0.86


# 20: the proof of the two-cycle lemma.
Exact = Mapping[int, Fraction]
Successors = dict[int, int]


def cycles_of(n: int) -> Iterator[Successors]:
    for rest in itertools.permutations(range(1, n)):
        order = (0, *rest)
        yield dict(zip(order, (*rest, 0), strict=True))


def earned(successor: Successors, r: Exact, b: Exact) -> Fraction:
    return sum((b[i] * r[j] for i, j in successor.items()), Fraction(0))


def separate_cycles(successor: Successors) -> list[Successors]:
    found, left = [], dict(successor)
    while left:
        first = arm = next(iter(left))
        cycle: Successors = {}
        while not cycle or arm != first:
            after = left.pop(arm)
            cycle[arm] = after
            arm = after
        found.append(cycle)
    return found


def walk_through_the_proof(successor: Successors, r: Exact, b: Exact, used: Counter[str]) -> None:
    """Assert every inequality of the proof that this cycle earns at most n·g."""
    n, total = len(successor), earned(successor, r, b)
    twice_g = max(b[i] * r[j] + b[j] * r[i] for i in successor for j in successor)
    assert 2 * total <= n * twice_g
    if n <= 2:
        return
    for i, j in itertools.permutations(successor, 2):
        if b[i] > b[j] and r[successor[i]] < r[successor[j]]:
            used["exchange"] += 1
            split = separate_cycles(successor | {i: successor[j], j: successor[i]})
            assert len(split) == 2
            assert sum(earned(cycle, r, b) for cycle in split) >= total
            for cycle in split:
                walk_through_the_proof(cycle, r, b, used)
            return
    before = {after: arm for arm, after in successor.items()}
    p = max(successor, key=lambda arm: (b[arm], r[successor[arm]]))
    u, p2 = successor[p], before[p]
    s = successor[u]
    assert r[u] == max(r[arm] for arm in successor)
    rest = {arm: after for arm, after in successor.items() if arm != p}
    if b[u] >= b[p2]:
        used["close at u"] += 1
        cut = b[p2] * r[p] + b[p] * r[u]
        del rest[p2]
        rest[before[p2]] = u
    else:
        used["close at p"] += 1
        cut = b[p] * r[u] + b[u] * r[s]
        del rest[u]
        rest[p] = rest.pop(s)
    assert cut <= twice_g
    assert cut + earned(rest, r, b) >= total
    assert len(rest) == n - 2
    assert len(separate_cycles(rest)) == 1
    walk_through_the_proof(rest, r, b, used)


def test_proof_of_the_two_cycle_lemma_holds_step_by_step() -> None:
    rng, used = default_rng(20), Counter[str]()
    for n, instances in ((1, 3), (2, 10), (3, 60), (4, 40), (5, 8), (6, 2), (7, 1)):
        for _ in range(instances):
            top = int(rng.choice([2, 5, 100]))  # few values: many ties
            r, b = (
                {arm: Fraction(int(x), top) for arm, x in enumerate(rng.integers(0, top + 1, n))}
                for _ in range(2)
            )
            for successor in cycles_of(n):
                walk_through_the_proof(successor, r, b, used)
    assert min(used["exchange"], used["close at u"], used["close at p"]) > 20


def test_printed_proof_pairs_terms_of_one_order_only() -> None:
    def printed_order(n: int) -> Successors:  # arms 1 to n by r: 1, n, n - 1, ..., 2
        return {1: n, 2: 1} | {arm: arm - 1 for arm in range(3, n + 1)}

    def printed_pairs(n: int) -> list[set[tuple[int, int]]]:  # terms r_i b_j as (i, j)
        return [{(n, 1), (1, 2)}] + [{(i - 1, i), (i - 2, i - 1)} for i in range(3, n + 1)]

    for n in range(3, 8):
        terms = {(after, arm) for arm, after in printed_order(n).items()}
        assert len(separate_cycles(printed_order(n))) == 1
        covers = any(
            set().union(*chosen) == terms
            for chosen in itertools.combinations(printed_pairs(n), n // 2)
        )
        assert covers == (n % 2 == 0)  # n/2 pairs without overlap: for even n only
        assert sum(1 for _ in cycles_of(n)) == math.factorial(n - 1)


# 21: no lower bound.
def test_means_of_pairs_have_rank_one() -> None:
    rng = default_rng(21)
    instance = Instance(rng.random(6), rng.random(6), 1.0)
    pays = [[instance.expected_rewards([i, j])[1] for j in range(6)] for i in range(6)]
    assert np.allclose(pays, np.outer(instance.b, instance.r))
    assert np.linalg.matrix_rank(np.array(pays)) == 1


# 22: the test for unknown lam.
def chance_of_no_gap(r: list[float], b: list[float], *, own: bool) -> Fraction:
    """The chance that the drawn j shows no gap; ``own`` looks at j's rewards as well."""
    n, lam = len(r), 0.5

    def gap(i: int, other: int) -> float:
        return r[i] * abs(b[i] - bdes.alternating_limit(b[i], b[other], lam))

    largest = [
        max(max(gap(i, j), gap(j, i) if own else 0) for i in range(n) if i != j) for j in range(n)
    ]
    return Fraction(largest.count(0.0), n)


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_test_for_unknown_lam_may_see_no_gap(n: int) -> None:
    one_pays = [1.0] + [0.0] * (n - 1)
    others_restore = [0.0] + [1.0] * (n - 1)
    assert chance_of_no_gap(one_pays, others_restore, own=False) == Fraction(1, n)
    assert chance_of_no_gap(one_pays, others_restore, own=True) == 0
    one_restores = [0.0, 1.0] + [0.0] * (n - 2)
    assert chance_of_no_gap(one_pays, one_restores, own=False) == Fraction(n - 1, n)
    assert chance_of_no_gap(one_pays, one_restores, own=True) == Fraction(n - 2, n)


def test_arm_with_the_largest_r_always_shows_a_gap() -> None:
    for instance, _ in random_instances(200, seed=22):
        far = np.abs(instance.b[:, None] - instance.b)
        largest = float((instance.r[:, None] * far).max())
        arm = int(instance.r.argmax())
        assert instance.r[arm] * far[arm].max() >= largest / 2 - 1e-15
        assert instance.r[arm] * far.max() <= 2 * largest + 1e-15  # erratum 25 needs this


# 23: an error in lam.
@pytest.mark.parametrize("lam", [0.01, 0.001])
def test_value_moves_by_the_relative_error_of_lam(lam: float) -> None:
    block, off = round(1 / lam), 0.01 * lam
    arms = ([0] * block + [1] * block) * 20
    true, wrong = (Instance([1.0, 0.0], [0.0, 1.0], rate) for rate in (lam, lam + off))
    moved = abs(true.value(arms) - wrong.value(arms)) / len(arms)
    assert moved / (off / lam) == pytest.approx(0.041, abs=0.001)
    assert np.abs(true.states(arms) - wrong.states(arms)).max() <= off / lam


# 24: the first state.
def test_first_state_cannot_always_be_scaled_to_one() -> None:
    rising = Instance([1.0], [0.9], 0.3, q0=0.5)
    assert rising.scaled(0.5) == Instance([0.5], [1.8], 0.3, q0=1.0)
    first, second = rising.expected_rewards([0, 0])
    assert second > first
    for instance, horizon in random_instances(50, seed=24):  # b at most 1, q0 = 1
        for arm in range(instance.n_arms):
            rewards = instance.expected_rewards([arm] * horizon)
            assert rewards.max() == rewards[0]


# 27: smart switching.
def test_going_to_and_fro_costs_on_the_example() -> None:
    c = 1 / math.sqrt(2)
    instance = Instance([1.0, 0.0, c], [0.0, 1.0, c], 1.0)
    cycle = [0, 1, 0, 2, 2, 2]
    lost = 3 - 6 * per_round(instance, cycle)
    assert lost == pytest.approx(1 - c, abs=1e-2)
    assert 1 - c == pytest.approx(0.29, abs=0.005)
    assert per_round(instance, [0, 1]) == pytest.approx(0.5, abs=1e-3)


def test_switches_are_a_tenth_of_the_bound_at_most() -> None:
    said = 0
    for n_arms, exponent in itertools.product((1, 2, 5, 20, 100, 1000), range(2, 16)):
        horizon = 10.0**exponent
        batches, pairs = 2 * math.log(horizon), n_arms * (n_arms + 1) / 2
        log = math.log(2 * n_arms**2 * batches * horizon)
        explored = 2 * math.sqrt(math.e) * math.sqrt(2 * log * pairs * horizon)
        switches = batches * pairs
        if explored < horizon:
            said += 1
            assert switches < explored / (4 * math.e) < explored / 10
    assert said > 40


# Smaller misprints.
def test_state_after_the_test_at_one_over_t() -> None:
    n_arms, horizon = 5, 100_000
    state = (1 - 1 / horizon) ** (n_arms ** (1 / 3) * horizon ** (2 / 3))
    assert 1 - (n_arms / horizon) ** (1 / 3) < state < 1 - horizon ** (-1 / 3)


def test_means_of_the_test_decay_as_the_lemmas_say() -> None:
    r, b_i, b_j, lam, q, n = 0.8, 0.2, 0.9, 0.05, 1.0, 40  # n is (T/K)^(2/3)
    decay = (1 - lam) ** n
    alone = Instance([r], [b_i], lam, q).expected_rewards([0] * (2 * n))[n:].mean()
    assert alone == pytest.approx(r * (decay * (1 - decay) / (n * lam) * (q - b_i) + b_i))
    both = Instance([r, r], [b_i, b_j], lam, q).expected_rewards([0, 1] * (2 * n))[2 * n :: 2]
    limit = bdes.alternating_limit(b_i, b_j, lam)
    twice = decay**2
    moving = twice / n * (1 - twice) / (1 - (1 - lam) ** 2)
    assert both.mean() == pytest.approx(r * (moving * (q - limit) + limit))
    assert abs(both.mean() - r * (moving * (q + limit) + limit)) > 1e-4  # the sign printed


def test_states_of_an_alternation_at_odd_times() -> None:
    b_i, b_j, lam, q, t = 0.2, 0.9, 0.3, 1.0, 5
    state = Instance([1, 1], [b_i, b_j], lam, q).state_after([0, 1, 0, 1, 0])
    old = (1 - lam) ** t * q
    right = old + (1 - lam) * (1 - (1 - lam) ** (t - 1)) / (2 - lam) * b_j
    right += (1 - (1 - lam) ** (t + 1)) / (2 - lam) * b_i
    printed = old + (1 - (1 - lam) ** (t - 2)) / (2 - lam) * ((1 - lam) * b_j + b_i)
    assert state == pytest.approx(right)
    assert abs(state - printed) > 0.05


def test_the_sticky_example_turns_at_x_above_zero() -> None:
    for x in (-0.1, 0.1):
        both = (1 + x) / math.sqrt(2)
        instance = Instance([1.0, 0.0, both], [0.0, 1.0, both], 1.0)
        assert (per_round(instance, [2]) > per_round(instance, [0, 1])) == (x > 0)
