"""How ``posterior`` chooses a plan: information-directed sampling, optimistic candidates."""

import math
from collections import Counter

import numpy as np
import pytest

from bdes_framework import FloatArray, Instance, IntArray, Problem, likelihood_of
from bdes_policies.posterior.backtracking import Instances, room_for
from bdes_policies.posterior.information_gain import (
    ROUGH_STATES,
    ROUGH_STEPS,
    choose_plan,
    evaluate_plans,
    information_gain,
    plan_roughly,
)
from bdes_policies.posterior.laplace import Draw, Posterior
from bdes_policies.posterior.lookahead import MAX_STEPS, STATES, Lookahead, look_ahead
from bdes_policies.posterior.modes import RatePrior
from tests.support.noiseless import PLUGINS, build, diagnostics_of, number, play

# -- totals and information gain --------------------------------------------------------------


def evaluated(
    instance: Instance, candidates: IntArray, rounds: int, left: int
) -> tuple[FloatArray, FloatArray]:
    # Copies can be written to, as in the policy: loops are not compiled for read-only arrays too.
    one = instances([Draw(instance.r.copy(), instance.b.copy(), instance.lam)], instance.q0)
    n, steps = candidates.shape
    _, _, futures = plan_roughly(one, left, rounds * steps)
    totals, means = np.empty((1, n)), np.empty((1, n, steps))
    evaluate_plans(one, futures, np.repeat(candidates, rounds, axis=1), rounds, totals, means)
    return totals[0], means[0]


def instances(draws: list[Draw], state: float) -> Instances:
    found = room_for(len(draws), draws[0].r.size)
    for i, draw in enumerate(draws):
        found.r[i], found.b[i], found.lam[i], found.state[i] = *draw, state
    return found


@pytest.mark.parametrize("lam", [0.0, 0.004, 0.3, 1.0])
@pytest.mark.parametrize("rounds", [1, 5])
def test_totals_are_the_plan_s_and_the_best_after(lam: float, rounds: int) -> None:
    rng = np.random.default_rng(2)
    instance = Instance(rng.random(3), rng.random(3), lam, 0.7)
    candidates = rng.integers(0, 3, (4, 6))
    left = 80
    totals, means = evaluated(instance, candidates, rounds, left)
    for steps, total, mean in zip(candidates, totals, means, strict=True):
        arms = np.repeat(steps, rounds)
        rewards = instance.expected_rewards(arms)
        np.testing.assert_allclose(mean, rewards.reshape(-1, rounds).mean(axis=1), rtol=1e-9)
        after = instance.starting_at(instance.state_after(arms))
        best = PLUGINS.planner("exact").plan(after, left - arms.size).value
        assert total == pytest.approx(rewards.sum() + best, rel=0.003)


def exact_totals(instance: Instance, plans: IntArray, left: int) -> FloatArray:
    """Return what plans earn, and the best of the rounds after."""
    planner = PLUGINS.planner("certified", gap=1e-7)
    totals = np.empty(len(plans))
    for index, arms in enumerate(plans):
        after = instance.starting_at(instance.state_after(arms))
        totals[index] = instance.value(arms) + planner.plan(after, left - arms.size).value
    return totals


@pytest.mark.parametrize("lam", [0.05, 0.6])
def test_totals_differ_as_the_planner_says(lam: float) -> None:
    instance = Instance([0.9, 0.5, 0.2], [0.1, 0.6, 1.0], lam, 0.5)
    candidates = np.repeat(np.arange(3)[:, None], 30, axis=1)
    left = 20_000
    totals, _ = evaluated(instance, candidates, 1, left)
    exact = exact_totals(instance, candidates, left)
    np.testing.assert_allclose(totals - totals[0], exact - exact[0], atol=0.05)


@pytest.mark.parametrize(("lam", "left"), [(0.01, 90), (0.01, 20_000), (0.6, 100), (1.0, 130)])
def test_totals_of_arms_outside_the_own_plan(lam: float, left: int) -> None:
    instance = Instance([0.8, 0.6, 0.5], [0.9, 0.1, 0.05], lam, 0.9)
    plans = np.repeat(np.arange(3)[:, None], 80, axis=1)
    totals, _ = evaluated(instance, plans, 1, left)
    exact = exact_totals(instance, plans, left)
    np.testing.assert_allclose(totals - totals[0], exact - exact[0], atol=0.2, rtol=0.02)


def mutual_information(means: FloatArray) -> float:
    """Return the mutual information, in nats, of which draw is true and of one reward."""

    def entropy(p: FloatArray) -> FloatArray:
        return np.asarray(-p * np.log(p) - (1 - p) * np.log1p(-p))

    return float(entropy(means.mean(keepdims=True))[0] - entropy(means).mean())


def test_information_gain_is_mutual_information() -> None:
    rng = np.random.default_rng(3)
    for centre in (0.1, 0.5, 0.8):
        means = centre + 0.05 * rng.uniform(-1, 1, 6)
        gain = gained(means.reshape(6, 1, 1))
        assert gain == pytest.approx(mutual_information(means), rel=0.05)
    assert gained(np.full((6, 1, 4), 0.3)) == pytest.approx(0.0, abs=1e-30)
    two_rounds = gained(np.stack([means, means], axis=1).reshape(6, 1, 2))
    assert two_rounds == pytest.approx(2 * gain)


def gained(means: FloatArray) -> float:
    gains = np.empty(1)
    information_gain(means, gains)
    return float(gains[0])


# -- choosing a plan --------------------------------------------------------------------------


def chosen(draws: list[Draw], state: float, lam: float, left: int) -> int:
    """Return the index of the draw whose plan is followed if nothing else is offered."""
    return choose_plan(instances(draws, state), room_for(0, draws[0].r.size), 1.0, lam, left)


def followed(draws: list[Draw], left: int) -> set[int]:
    """Return the arms that the plan which is followed can need at all."""
    best = draws[chosen(draws, 1.0, draws[0].lam, left)]
    _, plan = look_ahead(best, 1.0, left, ROUGH_STATES, ROUGH_STEPS)
    return set(Lookahead(*plan).arms.tolist())


def pay(*rs: float) -> Draw:
    return Draw(np.array(rs), np.ones(len(rs)), 0.5)


@pytest.mark.parametrize(
    ("draws", "arm"),
    [
        # What cannot be learned otherwise is tried.
        ([pay(0.5, 0.9), pay(0.5, 0.1), pay(0.5, 0.1)], 1),
        # Of plans that reveal as much, the one that costs less.
        ([pay(0.5, 0.6, 0.1), pay(0.6, 0.5, 0.1), pay(0.7, 0.5, 0.1)], 0),
        # Of plans that cost as much, the one that reveals more; means are 0.517, 0.467, 0.483.
        ([pay(0.55, 0.3, 0.45), pay(0.45, 0.9, 0.55), pay(0.55, 0.2, 0.45)], 1),
    ],
)
def test_choose_plan_trades_regret_for_information(draws: list[Draw], arm: int) -> None:
    assert followed(draws, 1_000) == {arm}


def test_choose_plan_where_the_state_stays() -> None:
    """With all end states at 1 a plan is one arm, and everything has a closed form."""
    rng = np.random.default_rng(5)
    other = Counter[str]()
    for _ in range(200):
        rs = rng.uniform(0.3, 0.7, (4, 3))
        arms = rs.argmax(axis=1)
        earned = rs[:, arms]
        regrets = (rs.max(axis=1, keepdims=True) - earned).mean(axis=0)
        information = 0.5 * earned.var(axis=0) / (earned.mean(axis=0) * (1 - earned.mean(axis=0)))
        assert followed([pay(*r) for r in rs], 1_000) == {
            int(arms[(regrets**2 / information).argmin()])
        }
        best = regrets**2 / information
        other["not squared"] += arms[(regrets / information).argmin()] != arms[best.argmin()]
        other["greedy"] += arms[regrets.argmin()] != arms[best.argmin()]
        other["what tells most"] += arms[information.argmax()] != arms[best.argmin()]
        other["first"] += arms[0] != arms[best.argmin()]
    assert min(other.values()) > 3, other  # it does matter which rule is followed
    assert len(other) == 4


STATE = 0.4


def best_value(instance: Instance, rounds: int) -> float:
    if instance.lam > 0.01:
        return PLUGINS.planner("certified", gap=1e-5).plan(instance, rounds).value
    # Slow states take planners long, and make for large differences: a careful plan is enough.
    draw = Draw(instance.r.copy(), instance.b.copy(), instance.lam)
    return rounds * look_ahead(draw, instance.q0, rounds, STATES, MAX_STEPS)[0]


def by_hand(draws: list[Draw], left: int, span: int) -> FloatArray:
    """Return squared regret for information of every plan, round by round."""
    _, plans, _ = plan_roughly(instances(draws, STATE), left, span)
    totals = np.empty((len(draws), len(draws)))
    means = np.empty((len(draws), len(draws), span))
    for j, draw in enumerate(draws):
        instance = Instance(draw.r, draw.b, draw.lam, STATE)
        for c, arms in enumerate(plans):
            means[j, c] = instance.expected_rewards(arms)
            after = instance.starting_at(instance.state_after(arms))
            totals[j, c] = means[j, c].sum() + best_value(after, left - span)
    regrets = (totals.max(axis=1, keepdims=True) - totals).mean(axis=0)
    average = means.mean(axis=0)
    information = 0.5 * (means.var(axis=0) / (average * (1 - average))).sum(axis=1)
    return np.asarray(regrets**2 / information)


@pytest.mark.parametrize(("lam", "left"), [(5e-5, 60_000), (0.3, 3_000)])
def test_choose_plan_looks_ahead_by_1_over_lam(lam: float, left: int) -> None:
    rng = np.random.default_rng(6)
    span = max(96, int(0.25 / lam))
    right = as_if_short = 0
    for _ in range(12):
        draws = [Draw(rng.uniform(0.3, 0.7, 3), rng.random(3), lam) for _ in range(4)]
        best = chosen(draws, STATE, lam, left)
        scores = by_hand(draws, left, span)
        right += scores[best] <= 1.1 * scores.min()
        short = by_hand(draws, left, 96)
        as_if_short += short[best] <= 1.1 * short.min()
    assert right >= 11
    assert (as_if_short >= 11) == (span == 96)


def test_plans_are_compared_if_any_mode_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the likeliest one does not."""
    rates = [0.0]

    def store_rate(draws: Instances, others: Instances, price: float, lam: float, left: int) -> int:
        rates.append(lam)
        return 0

    monkeypatch.setattr("bdes_policies.posterior.policy.choose_plan", store_rate)
    policy = build("posterior", Problem(4, 20_000))
    play(policy, Instance([0.9, 0.0, 0.0, 0.0], [0.5, 0.2, 0.2, 0.2], 0.3), 1_000)
    shown = diagnostics_of(policy)
    assert number(shown, "lam_hat") * 1_000 < 1
    assert rates[-1] * 1_000 > 1


# -- optimistic candidates --------------------------------------------------------------------


def fitted(lam: float, pulls: int) -> tuple[Posterior, IntArray, FloatArray]:
    """Fit to a log in which the last arm was hardly played."""
    instance = Instance([0.7, 0.5, 0.3], [0.3, 0.5, 0.9], lam)
    rng = np.random.default_rng(4)
    stretch = max(10, int(0.5 / lam))
    arms = np.resize(np.repeat([0, 1, 0, 1, 0, 2], [stretch] * 5 + [8]), pulls)
    rewards = (rng.random(pulls) < instance.expected_rewards(arms)).astype(float)
    posterior = Posterior(3, 1.0, RatePrior(lam, 1.0, known=True, starts=(lam,)))
    posterior.fit(arms, rewards.astype(np.float32))
    return posterior, arms, rewards


def raised(b: FloatArray, best: FloatArray, arm: int) -> float:
    """Return by what an end state is larger, next to the others: whatever the scale."""
    by = b / best
    return float(by[arm] / np.delete(by, arm).mean())


@pytest.mark.parametrize(
    ("lam", "left"), [(0.002, 100_000), (0.002, 9_000), (0.1, 9_000), (1, 900)]
)
def test_optimistic_candidates_raise_one_end_state(lam: float, left: int) -> None:
    posterior, arms, rewards = fitted(lam, 3_000)
    best = posterior.best
    most = likelihood_of(Instance(best.r, best.b, best.lam), arms, rewards).value
    candidates, price = posterior.optimistic_candidates(left)
    assert candidates.lam.size == 3
    for arm, (r, b, rate, state) in enumerate(zip(*candidates, strict=True)):
        drawn = Instance(r, b, rate)
        assert state == pytest.approx(drawn.state_after(arms), rel=1e-9)
        assert (b / best.b).argmax() == arm
        nearest = 18 / math.sqrt(lam) / left  # the price of no deviations
        assert price == pytest.approx(max(0.1, nearest * math.exp(1.96**2 / 2)), rel=1e-9)
        far = math.sqrt(2 * math.log(price / nearest))
        lost = most - likelihood_of(drawn, arms, rewards).value
        assert lost <= far**2 / 2 + 2.1
        assert raised(b, best.b, arm) > 1.02


def test_optimistic_candidates_reach_as_trials_pay() -> None:
    fast, _, _ = fitted(1.0, 3_000)
    slow, _, _ = fitted(0.002, 3_000)

    def length(posterior: Posterior, left: int) -> float:
        found, _ = posterior.optimistic_candidates(left)
        return raised(found.b[0], posterior.best.b, 0) if found.lam.size else 1.0

    assert length(fast, 1_000_000) > length(fast, 1_000) > 1.02
    assert length(fast, 20) == 1.0
    assert length(slow, 1_000) == 1.0 < 1.02 < length(slow, 100_000)
    unmoved, _, _ = fitted(1e-6, 3_000)
    assert not unmoved.may_have_moved
    assert unmoved.optimistic_candidates(100_000)[0].lam.size == 0


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("lam_known", [True, False])
def test_a_single_draw_is_enough_to_play(lam: float, lam_known: bool) -> None:
    policy = build("posterior", Problem(3, 400, lam if lam_known else None), draws=1)
    assert play(policy, Instance([0.7, 0.5, 0.3], [0.2, 0.5, 0.9], lam), 400).arms.size == 400
