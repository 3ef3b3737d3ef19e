"""The policy ``posterior``: its plans, its estimates, what it shows, and what it loses."""

import itertools
import math
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from attrs import define, field
from numpy.random import Generator

from bdes_framework import (
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    Policy,
    Problem,
    likelihood_of,
    simulate,
)
from bdes_framework.experiment.arms import ArmsConfig, make_arms
from bdes_policies.posterior.deviates import CorrelatedDeviates
from bdes_policies.posterior.estimating import Posterior
from bdes_policies.posterior.information_gain import plan_roughly
from bdes_policies.posterior.lookahead import follow, look_ahead
from bdes_policies.posterior.modes import Draw, RatePrior
from tests.support.noiseless import PLUGINS, array, build, click_bait, diagnostics_of, number, play

# -- plans ----------------------------------------------------------------------------------


def drawn_instances(n: int, n_arms: int) -> list[Instance]:
    rng = np.random.default_rng(3)
    rates = itertools.cycle([0.0, 0.002, 0.05, 0.4, 0.95, 1.0])
    return [
        Instance(rng.random(n_arms), rng.random(n_arms), lam, rng.random())
        for lam in itertools.islice(rates, n)
    ]


def followed(instance: Instance, rounds: int, left: int) -> tuple[float, IntArray]:
    value, plan = look_ahead(instance.r, instance.b, instance.lam, instance.q0, left)
    arms = np.empty(rounds, dtype=np.int64)
    follow(plan, instance.q0, arms)
    return value, arms


@pytest.mark.parametrize("rounds", [1, 2, 17, 90, 400])
def test_a_plan_that_is_made_anew_half_way_to_the_end_is_nearly_the_best(rounds: int) -> None:
    for instance in drawn_instances(12, 4):
        best = PLUGINS.planner("exact").plan(instance, rounds).value
        promised, _ = followed(instance, 1, rounds)
        assert promised * rounds == pytest.approx(best, rel=0.005)
        earned, here, left = 0.0, instance, rounds
        while left:
            _, arms = followed(here, (left + 1) // 2, left)
            earned, left = earned + here.value(arms), left - arms.size
            here = here.starting_at(here.state_after(arms))
        assert earned >= 0.998 * best


def test_a_plan_for_part_of_the_rounds_left_earns_what_the_best_earns_in_the_long_run() -> None:
    for instance in drawn_instances(12, 4)[1:]:
        left = 60_000
        best = PLUGINS.planner("certified").plan(instance, left)
        promised, arms = followed(instance, left, left)
        assert instance.value(arms) >= 0.995 * best.value
        assert promised * left == pytest.approx(best.value, rel=0.02)


@pytest.mark.parametrize("left", [1, 17, 60, 90, 200, 60_000])
def test_a_rough_plan_promises_nearly_what_a_careful_one_does(left: int) -> None:
    for instance in drawn_instances(30, 4):
        r, b, lam, q = instance.r, instance.b, instance.lam, instance.q0
        rough = plan_roughly(Draw(r, b, lam), q, left).value
        assert rough == pytest.approx(look_ahead(r, b, lam, q, left)[0], rel=0.005)


# -- estimates ------------------------------------------------------------------------------


def fitted(instance: Instance, arms: IntArray, rewards: FloatArray, known: bool) -> Posterior:
    lam = instance.lam if known else 1e-4
    prior = RatePrior(lam, 4.0, known, (lam,) if known else (1e-4, 0.01, 0.5))
    posterior = Posterior(instance.n_arms, instance.q0, prior)
    for _ in range(3):  # a policy fits again and again, from where it was
        posterior.fit(arms, rewards.astype(np.float32))
    return posterior


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lam", [0.0003, 0.03, 0.6, 1.0])
def test_exact_means_lead_to_the_true_parameters(lam: float, known: bool) -> None:
    instance = click_bait(3, lam)
    rng = np.random.default_rng(1)
    length = max(10, int(1 / lam))
    arms = np.repeat(rng.integers(0, 3, max(60, 20_000 // length)), length)
    found = fitted(instance, arms, instance.expected_rewards(arms), known).best
    assert found.lam == pytest.approx(lam, rel=0.05)
    # Only the first few pulls fix the scale (c·r, b/c) where states are fast.
    scale = found.r[0] / instance.r[0]
    assert scale == pytest.approx(1, abs=0.2)
    np.testing.assert_allclose(found.r / scale, instance.r, rtol=0.03)
    np.testing.assert_allclose(found.b * scale, instance.b, rtol=0.04, atol=0.01)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    # Long stretches from a state that is not forgotten at once: everything is identified.
    instance = Instance([0.8, 0.5], [0.3, 0.7], 0.002)
    truth = np.concatenate([instance.r, instance.b, [instance.lam]])
    rng = np.random.default_rng(2)
    inside = np.zeros(truth.size)
    runs = 200
    arms = np.tile(np.repeat([0, 1], 700), 6)
    means = instance.expected_rewards(arms)
    for _ in range(runs):
        rewards = (rng.random(arms.size) < means).astype(float)
        low, high = fitted(instance, arms, rewards, known=False).intervals()
        inside += (low <= truth) & (truth <= high)
    assert (inside / runs >= 0.91).all(), inside / runs
    assert (inside / runs <= 0.99).all(), inside / runs


def width_of_draws(posterior: Posterior, left: int) -> float:
    """Return what deviations are multiplied by, before what is not worth learning is left out."""
    return math.sqrt(math.log(1 + left / (posterior.n_pulls + 4 / posterior.best.lam)))


def test_draws_scatter_no_wider_than_the_intervals_say_and_little_less() -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], 0.001)
    rng = np.random.default_rng(4)
    arms = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], 800)
    rewards = (rng.random(arms.size) < instance.expected_rewards(arms)).astype(float)
    posterior = fitted(instance, arms, rewards, known=False)
    left = 18_000
    normal = rng.standard_normal((400, 7))
    draws = posterior.draws(normal, rng, 1 / width_of_draws(posterior, left), left)
    low, high = posterior.intervals()
    assert (high < 1).all()  # draws are kept below 1
    said = np.log(high / low) / (2 * 1.96)
    drawn = np.log([[*draw.r, *draw.b, draw.lam] for draw, _ in draws]).std(axis=0)
    assert (drawn < 1.1 * said).all()
    assert (drawn > 0.7 * said).all()  # the log contradicts some of the farthest


@pytest.mark.parametrize("lam", [0.0, 0.003, 1.0])
def test_with_a_draw_comes_the_state_that_the_pulls_have_led_to_under_it(lam: float) -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], lam, 0.9)
    rng = np.random.default_rng(4)
    arms = rng.integers(0, 2, 300)
    posterior = fitted(instance, arms, instance.expected_rewards(arms), known=True)
    for draw, state in posterior.draws(rng.standard_normal((5, 7)), rng, 0.5, 10_000):
        drawn = Instance(draw.r, draw.b, draw.lam, instance.q0)
        assert state == pytest.approx(drawn.state_after(arms), rel=1e-12)


def test_end_states_that_cannot_be_of_use_any_more_are_not_explored() -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], 0.001)
    rng = np.random.default_rng(4)
    arms = np.repeat([0, 1], 200)
    rewards = (rng.random(arms.size) < instance.expected_rewards(arms)).astype(float)
    posterior = fitted(instance, arms, rewards, known=True)
    normal = rng.standard_normal((300, 7))
    normal[:, 2:] = 0.0  # only b is drawn

    def scatter(left: int) -> FloatArray:
        draws = posterior.draws(normal, rng, 0.5, left)
        return np.asarray(np.log([draw.b for draw, _ in draws]).std(axis=0))

    many, few = int(16 / instance.lam), int(2 / instance.lam)
    in_full = scatter(many) / width_of_draws(posterior, many)
    assert (in_full > 0.05).all()
    in_part = scatter(few) / width_of_draws(posterior, few)
    np.testing.assert_allclose(in_part, in_full / 8, rtol=0.1)
    assert (scatter(1) < 1e-3).all()


def test_draws_come_ever_closer_to_the_mode_as_the_end_comes_nearer() -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], 0.01)
    rng = np.random.default_rng(4)
    arms = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], 400)
    rewards = (rng.random(arms.size) < instance.expected_rewards(arms)).astype(float)
    posterior = fitted(instance, arms, rewards, known=False)
    normal = rng.standard_normal((300, 7))

    def scatter(left: int) -> FloatArray:
        draws = posterior.draws(normal, rng, 0.5, left)
        return np.asarray(np.log([[*draw.r, draw.lam] for draw, _ in draws]).std(axis=0))

    early, late, last = scatter(100_000), scatter(3_000), scatter(1)
    assert (late < 0.7 * early).all()
    assert (last < 0.05 * late).all()


def test_while_the_state_has_hardly_moved_pay_offs_are_drawn_as_their_beta_posterior_says() -> None:
    plays, paid = (4, 12, 40), (0, 5, 20)
    arms = np.repeat([0, 1, 2], plays)
    rewards = np.concatenate([np.arange(n) < k for n, k in zip(plays, paid, strict=True)])
    posterior = fitted(Instance([0.5] * 3, [0.5] * 3, 1e-9), arms, rewards.astype(float), True)
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(9000, 7))
    draws = posterior.draws(np.hstack([normal, normal[:, 4:]]), rng, 1.0, 9)
    drawn = np.array([draw.r for draw, _ in draws])
    for arm, (n, k) in enumerate(zip(plays, paid, strict=True)):
        low, middle, high = np.quantile(rng.beta(k + 1, n - k + 1, 100_000), (0.05, 0.5, 0.95))
        below, above = drawn[:, arm] < low, drawn[:, arm] > high
        # The normal distribution of logit r has tails like those of the Beta, not the same.
        assert 0.025 < float(above.mean()) < 0.11
        if k > 0:
            assert 0.025 < float(below.mean()) < 0.11
            assert float((drawn[:, arm] < middle).mean()) == pytest.approx(0.5, abs=0.06)


def test_a_draw_that_the_log_contradicts_is_brought_back() -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], 0.01)
    rng = np.random.default_rng(4)
    arms = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], 400)
    rewards = (rng.random(arms.size) < instance.expected_rewards(arms)).astype(float)
    posterior = fitted(instance, arms, rewards, known=False)
    best = posterior.best
    most = likelihood_of(Instance(best.r, best.b, best.lam), arms, rewards).value
    normal = rng.standard_normal((200, 7))
    left = 3_000
    for width in (1.0, 5.0):
        draws = posterior.draws(normal, rng, width / width_of_draws(posterior, left), left)
        for (draw, _), deviates in zip(draws, normal, strict=True):
            value = likelihood_of(Instance(draw.r, draw.b, draw.lam), arms, rewards).value
            assert most - value <= 0.5 * width**2 * float(deviates @ deviates) + 2.1


def test_draws_however_wild_are_instances() -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], 0.01)
    rng = np.random.default_rng(4)
    arms = np.repeat([0, 1, 0, 1], 100)
    rewards = (rng.random(arms.size) < instance.expected_rewards(arms)).astype(float)
    posterior = fitted(instance, arms, rewards, known=False)
    for draw, state in posterior.draws(rng.standard_normal((50, 7)), rng, 1e4, 3_000):
        Instance(draw.r, draw.b, draw.lam, state)
        assert max(draw.r.max(), draw.b.max()) <= 1


@pytest.mark.parametrize(("rounds", "kept"), [(0, 1.0), (20, math.exp(-1)), (2000, 0.0)])
def test_luck_changes_as_fast_as_the_state_forgets_but_afresh_where_it_has_not_moved(
    rounds: int, kept: float
) -> None:
    n_arms = 6000
    deviates = CorrelatedDeviates(8, n_arms, np.random.default_rng(6))
    before, after = deviates.after(10, 0.1), deviates.after(10 + rounds, 0.1)
    of_b, of_lam, of_r, of_r_afresh = np.split(
        np.arange(3 * n_arms + 1), [n_arms, n_arms + 1, 2 * n_arms + 1]
    )
    for part, expected in ((of_b, kept), (of_r, kept), (of_r_afresh, 0.0)):
        same = np.corrcoef(before[:, part].ravel(), after[:, part].ravel())[0, 1]
        assert same == pytest.approx(expected, abs=0.05)
        assert after[:, part].std() == pytest.approx(1.0, abs=0.05)
    assert (before[:, of_lam] != after[:, of_lam]).all()
    assert (after[:, of_r_afresh] == after[0, of_r_afresh]).all()  # one draw of r
    assert np.unique(after[:, of_b]).size == np.unique(after[:, of_r]).size == 8 * n_arms


# -- the policy -----------------------------------------------------------------------------


def arms_asked(policy: Policy, instance: Instance, horizon: int, limits: list[int]) -> IntArray:
    """Ask with limits in turn; rewards are a fixed function of round and arm."""
    uniforms = np.random.default_rng(9).random(horizon)
    arms: list[int] = []
    for limit in itertools.cycle(limits):
        if len(arms) == horizon:
            return np.array(arms)
        block = policy.ask(min(limit, horizon - len(arms)))
        arms += block.tolist()
        means = instance.expected_rewards(np.array(arms))[-block.size :]
        policy.tell((uniforms[len(arms) - block.size : len(arms)] < means).astype(float))
    raise AssertionError


@pytest.mark.parametrize("lam", [1e-6, 0.02, 1.0])
def test_arms_depend_neither_on_limits_nor_on_whether_an_untrusted_lam_is_told(lam: float) -> None:
    instance, horizon = click_bait(3, lam), 900
    unknown = Problem(3, horizon)
    together = arms_asked(build("posterior", unknown), instance, horizon, [horizon])
    apart = arms_asked(build("posterior", unknown), instance, horizon, [1, 2, 31, 4])
    untrusted = build("posterior", Problem(3, horizon, 0.123), trust_lam=False)
    np.testing.assert_array_equal(together, apart)
    np.testing.assert_array_equal(together, arms_asked(untrusted, instance, horizon, [horizon]))


@define
class Offered:
    """What the posterior offered to follow, last."""

    draws: list[Draw] = field(factory=list)
    shots: list[tuple[Draw, float]] = field(factory=list)
    moved: bool = False


def watch(monkeypatch: pytest.MonkeyPatch) -> Offered:
    offered = Offered()
    really_draw, really_shoot = Posterior.draws, Posterior.optimistic_candidates

    def draws(
        self: Posterior, normal: FloatArray, rng: Generator, width: float, left: int
    ) -> list[tuple[Draw, float]]:
        found = really_draw(self, normal, rng, width, left)
        offered.draws = [draw for draw, _ in found]
        offered.shots = []
        offered.moved = self.may_have_moved
        return found

    def optimistic_candidates(self: Posterior, left: int) -> list[tuple[Draw, float, float]]:
        found = really_shoot(self, left)
        offered.shots = [(draw, price) for draw, _, price in found]
        return found

    monkeypatch.setattr(Posterior, "draws", draws)
    monkeypatch.setattr(Posterior, "optimistic_candidates", optimistic_candidates)
    return offered


@pytest.mark.parametrize("lam", [1e-6, 0.05])
def test_it_follows_what_it_says_from_the_state_its_own_pulls_led_to(
    lam: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = watch(monkeypatch)
    instance, horizon, rng = click_bait(3, lam), 20_000, np.random.default_rng(8)
    policy = build("posterior", Problem(3, horizon))
    arms = policy.ask(horizon)
    policy.tell(np.ones(arms.size))
    followed: Counter[str] = Counter()
    while arms.size < 1_500:
        block = policy.ask(horizon - arms.size)
        shown = diagnostics_of(policy)
        if "plan" not in shown:  # an arm that was hardly ever played
            assert (block == np.bincount(arms, minlength=3).argmin()).all()
        else:
            drawn = Instance(
                array(shown, "drawn_r"), array(shown, "drawn_b"), number(shown, "drawn_lam")
            )
            state = drawn.state_after(arms)
            assert number(shown, "state") == pytest.approx(state, rel=1e-9)
            followed[kind_of(offered, drawn, arms, horizon)] += 1
        arms = np.concatenate([arms, block])
        means = instance.expected_rewards(arms)[-block.size :]
        policy.tell((rng.random(block.size) < means).astype(float))
    assert followed["draw"] > 50
    assert (followed["shot"] > 3) == (lam > 0.01)


def kind_of(offered: Offered, drawn: Instance, arms: IntArray, horizon: int) -> str:
    """Say what is followed, and check that it may be."""

    def promised(draw: Draw) -> float:
        state = Instance(draw.r, draw.b, draw.lam).state_after(arms)
        return look_ahead(draw.r, draw.b, draw.lam, state, horizon - arms.size)[0]

    def same(draw: Draw) -> bool:
        return bool((draw.b == drawn.b).all() and (draw.r == drawn.r).all())

    of_draws = [promised(draw) for draw in offered.draws]
    after_price = [(1 - price) * promised(draw) for draw, price in offered.shots]
    if any(same(draw) for draw in offered.draws):
        followed = next(promised(draw) for draw in offered.draws if same(draw))
        # Rough plans decide: they may be a little wrong.
        if not offered.moved:
            assert followed > 0.995 * max(of_draws)
        assert all(value < 1.01 * np.mean(of_draws) for value in after_price)
        return "draw"
    (shot,) = [
        value for value, (draw, _) in zip(after_price, offered.shots, strict=True) if same(draw)
    ]
    assert shot > 0.995 * max(after_price)
    assert shot > 0.99 * np.mean(of_draws)
    return "shot"


def plays_after(rounds: int, lam: float, horizon: int) -> IntArray:
    """Play arms of which two pay, best in turn where the state moves, and the others nothing."""
    instance = Instance([0.9, 0.5, 0.0, 0.0], [0.2, 0.9, 0.2, 0.2], lam)
    played = play(build("posterior", Problem(4, horizon)), instance, rounds)
    return np.bincount(played.arms, minlength=4)


def test_where_the_state_moves_no_arm_is_given_up_after_a_few_plays() -> None:
    horizon = 20_000
    assert plays_after(1_000, 0.3, horizon).min() >= 2 * math.log(horizon)
    assert plays_after(40, 0.3, horizon).min() <= 10  # but not all at once


def test_where_the_state_does_not_move_arms_are_given_up_as_thompson_sampling_does() -> None:
    assert plays_after(1_000, 1e-9, 20_000).min() < 10


def test_it_shows_estimates_over_time_and_the_cycle_it_means_to_play() -> None:
    instance = Instance([1.0, 0.1], [0.0, 1.0], 1.0)
    played = play(build("posterior", Problem(2, 3_000)), instance, 2_900)
    shown = played.diagnostics
    assert sorted(array(shown, "cycle").tolist()) == [0, 1]
    assert number(shown, "lam_hat") == pytest.approx(1, abs=0.05)
    assert number(shown, "lam_low") <= number(shown, "lam_hat") <= number(shown, "lam_high")
    times = array(shown, "fitted_after")
    assert (np.diff(times) > 0).all()
    assert array(shown, "r_hat_over_time").shape == (times.size, 2)
    assert array(shown, "lam_low_over_time").shape == times.shape
    widths = array(shown, "r_high_over_time") - array(shown, "r_low_over_time")
    assert (widths[-1] < widths[0]).all()
    assert number(shown, "plans") >= number(shown, "fits") > 20


def test_the_plan_it_shows_ends_with_the_rounds_that_are_left() -> None:
    instance = Instance([1.0, 0.1], [0.0, 1.0], 1.0)
    shown = play(build("posterior", Problem(2, 3_000)), instance, 2_990).diagnostics
    stints = str(shown["plan"]).split()
    pulls = sum(int(stint.partition("×")[2]) for stint in stints)
    assert 10 <= pulls <= 10 + 0.04 * 3_000  # the last plan was made an epoch ago at most
    assert stints[-1] == "0×1"  # what pays most comes last
    assert sorted(array(shown, "cycle").tolist()) == [0, 1]


def test_the_log_is_swept_no_more_often_at_longer_horizons() -> None:
    sweeps = []
    for horizon in (2_000, 20_000):
        policy = build("posterior", Problem(3, horizon))
        world = PLUGINS.environment(
            "bernoulli", seed=2, r=[0.9, 0.6, 0.3], b=[0.1, 0.5, 1.0], lam=0.1
        )
        simulate(world, policy, horizon, keep=False)
        sweeps.append(number(diagnostics_of(policy), "rows_swept") / horizon)
    assert sweeps[1] < sweeps[0]


def test_a_first_state_above_one_is_the_same_problem_in_another_scale() -> None:
    instance, horizon, unit = click_bait(3, 0.05), 1_500, 8.0
    scaled = Instance(instance.r / unit, instance.b * unit, instance.lam, unit)
    plain = build("posterior", Problem(3, horizon))
    other = build("posterior", Problem(3, horizon, q0=unit))
    arms = arms_asked(plain, instance, horizon, [horizon])
    np.testing.assert_array_equal(arms, arms_asked(other, scaled, horizon, [horizon]))
    shown, same = diagnostics_of(other), diagnostics_of(plain)
    for name, factor in (("r_hat", 1 / unit), ("b_high_over_time", unit), ("drawn_b", unit)):
        np.testing.assert_allclose(array(shown, name), factor * array(same, name), rtol=1e-12)
    assert number(shown, "state") == pytest.approx(unit * number(same, "state"), rel=1e-12)


def test_rewards_that_are_no_probabilities_are_refused() -> None:
    for wrong in (-0.1, 1.5, float("nan")):
        policy = build("posterior", Problem(2, 10))
        policy.ask(1)
        with pytest.raises(InvalidValueError, match="rewards must"):
            policy.tell(np.array([wrong]))


# -- what it loses --------------------------------------------------------------------------


@cache
def best_value(seed: int, lam: float, horizon: int) -> tuple[Instance, float]:
    r, b = make_arms(ArmsConfig(generator="click-bait", n=5, seed=seed), Path())
    instance = Instance(r, b, lam)
    return instance, PLUGINS.planner("certified").plan(instance, horizon).value


def mean_regret(name: str, lam: float, horizon: int, seeds: range) -> float:
    lost = []
    for seed in seeds:
        instance, best = best_value(seed, lam, horizon)
        world = PLUGINS.environment("bernoulli", seed=seed, r=instance.r, b=instance.b, lam=lam)
        known_lam = None if name == "posterior" else lam
        problem = Problem(5, horizon, known_lam, int(instance.b.argmax()))
        policy = PLUGINS.policy(name, problem, seed=seed)
        lost.append(best - simulate(world, policy, horizon, keep=False).total_mean)
    return float(np.mean(lost))


@pytest.mark.parametrize("lam", [0.05, 0.9])
def test_it_loses_less_than_half_of_what_the_paper_s_policy_for_unknown_lam_loses(
    lam: float,
) -> None:
    seeds = range(200, 205)
    ours = mean_regret("posterior", lam, 5_000, seeds)
    assert ours < mean_regret("unknown-lambda", lam, 5_000, seeds) / 2


def test_where_the_state_never_moves_it_is_not_far_behind_thompson_sampling() -> None:
    seeds = range(200, 206)
    ours = mean_regret("posterior", 0.0, 5_000, seeds)
    assert ours < 3 * mean_regret("thompson", 0.0, 5_000, seeds)
