"""The policy ``posterior``: its plans, its estimates, what it shows, and what it loses."""

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from attrs import define, field
from numpy.random import Generator

from bdes_framework import FloatArray, Instance, IntArray, Problem, likelihood_of, simulate
from bdes_framework.experiment.arms import ArmsConfig, generate_arms
from bdes_policies.posterior.backtracking import Instances, move_states
from bdes_policies.posterior.deviates import CorrelatedDeviates
from bdes_policies.posterior.information_gain import ROUGH_STATES, ROUGH_STEPS
from bdes_policies.posterior.laplace import Draw, Posterior
from bdes_policies.posterior.lookahead import MAX_STEPS, STATES, follow, look_ahead
from bdes_policies.posterior.modes import RatePrior
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
    draw = Draw(instance.r.copy(), instance.b.copy(), instance.lam)
    value, plan = look_ahead(draw, instance.q0, left, STATES, MAX_STEPS)
    arms = np.empty(rounds, dtype=np.int64)
    follow(plan, instance.q0, arms)
    return value, arms


@pytest.mark.parametrize("rounds", [1, 2, 17, 90, 400])
def test_plans_made_anew_half_way_are_nearly_best(rounds: int) -> None:
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


def test_plans_of_part_of_the_rounds_earn_the_best() -> None:
    for instance in drawn_instances(12, 4)[1:]:
        left = 60_000
        best = PLUGINS.planner("certified").plan(instance, left)
        promised, arms = followed(instance, left, left)
        assert instance.value(arms) >= 0.995 * best.value
        assert promised * left == pytest.approx(best.value, rel=0.02)


@pytest.mark.parametrize("left", [1, 17, 60, 90, 200, 60_000])
def test_rough_plans_promise_nearly_the_same(left: int) -> None:
    for instance in drawn_instances(30, 4):
        draw, q = Draw(instance.r.copy(), instance.b.copy(), instance.lam), instance.q0
        rough, _ = look_ahead(draw, q, left, ROUGH_STATES, ROUGH_STEPS)
        assert rough == pytest.approx(look_ahead(draw, q, left, STATES, MAX_STEPS)[0], rel=0.005)


# -- estimates ------------------------------------------------------------------------------


def fitted(instance: Instance, arms: IntArray, rewards: FloatArray, known: bool) -> Posterior:
    lam = instance.lam if known else 1e-4
    prior = RatePrior(lam, 4.0, known, (lam,) if known else (1e-4, 0.01, 0.5))
    posterior = Posterior(instance.n_arms, instance.q0, prior)
    for _ in range(3):  # a policy fits again and again, from where it was
        posterior.fit(arms, rewards.astype(np.float32))
    return posterior


def as_draws(instances: Instances) -> list[Draw]:
    r, b, rates, _ = instances
    return [Draw(*each) for each in zip(r, b, rates.tolist(), strict=True)]


@define
class Sampled:
    """A posterior fitted to binary rewards of two arms, played in turn for long stretches."""

    lam: float
    stretches: int
    length: int
    known: bool = False
    rng: Generator = field(init=False, factory=lambda: np.random.default_rng(4))
    arms: IntArray = field(init=False)
    rewards: FloatArray = field(init=False)
    posterior: Posterior = field(init=False)

    def __attrs_post_init__(self) -> None:
        instance = Instance([0.6, 0.4], [0.2, 0.7], self.lam)
        self.arms = np.repeat(np.arange(self.stretches) % 2, self.length)
        means = instance.expected_rewards(self.arms)
        self.rewards = (self.rng.random(self.arms.size) < means).astype(float)
        self.posterior = fitted(instance, self.arms, self.rewards, self.known)

    def draws(self, normal: FloatArray, width: float, left: int) -> list[Draw]:
        return as_draws(self.posterior.draws(normal, self.rng, width, left))

    def width(self, left: int) -> float:
        """Return what deviations are multiplied by, as long as all is worth learning."""
        posterior = self.posterior
        return math.sqrt(math.log(1 + left / (posterior.n_pulls + 4 / posterior.best.lam)))

    def log_likelihood(self, draw: Draw) -> float:
        return likelihood_of(Instance(draw.r, draw.b, draw.lam), self.arms, self.rewards).value


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


def test_intervals_cover_the_truth_as_stated() -> None:
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


def test_draws_scatter_about_as_intervals_say() -> None:
    log, left = Sampled(0.001, 8, 800), 18_000
    draws = log.draws(log.rng.standard_normal((400, 7)), 1 / log.width(left), left)
    low, high = log.posterior.intervals()
    assert (high < 1).all()  # draws are kept below 1
    said = np.log(high / low) / (2 * 1.96)
    drawn = np.log([[*draw.r, *draw.b, draw.lam] for draw in draws]).std(axis=0)
    assert (drawn < 1.1 * said).all()
    assert (drawn > 0.7 * said).all()  # the log contradicts some of the farthest


@pytest.mark.parametrize("lam", [0.0, 0.003, 1.0])
def test_draws_come_with_the_state_they_imply(lam: float) -> None:
    instance = Instance([0.6, 0.4], [0.2, 0.7], lam, 0.9)
    rng = np.random.default_rng(4)
    arms = rng.integers(0, 2, 300)
    posterior = fitted(instance, arms, instance.expected_rewards(arms), known=True)
    draws = posterior.draws(rng.standard_normal((5, 7)), rng, 0.5, 10_000)
    for r, b, rate, state in zip(*draws, strict=True):
        drawn = Instance(r, b, rate, instance.q0)
        assert state == pytest.approx(drawn.state_after(arms), rel=1e-12)


def test_states_move_on_with_pulls_that_were_not_fitted() -> None:
    rng = np.random.default_rng(7)
    arms = rng.integers(0, 3, 40)
    found = Instances(rng.random((2, 3)), rng.random((2, 3)), np.array([0.3, 1.0]), rng.random(2))
    after = [
        Instance(r, b, rate, state).state_after(arms)
        for r, b, rate, state in zip(*found, strict=True)
    ]
    move_states(found, arms)
    np.testing.assert_allclose(found.state, after, rtol=1e-12)


def test_end_states_of_no_use_are_not_explored() -> None:
    log = Sampled(0.001, 2, 200, known=True)
    normal = log.rng.standard_normal((300, 7))
    normal[:, 2:] = 0.0  # only b is drawn

    def scatter(left: int) -> FloatArray:
        return np.asarray(np.log([draw.b for draw in log.draws(normal, 0.5, left)]).std(axis=0))

    many, few = int(16 / log.lam), int(2 / log.lam)
    in_full = scatter(many) / log.width(many)
    assert (in_full > 0.05).all()
    np.testing.assert_allclose(scatter(few) / log.width(few), in_full / 8, rtol=0.1)
    assert (scatter(1) < 1e-3).all()


def test_draws_narrow_as_the_end_comes_nearer() -> None:
    log = Sampled(0.01, 8, 400)
    normal = log.rng.standard_normal((300, 7))
    early, late, last = (
        np.log([[*draw.r, draw.lam] for draw in log.draws(normal, 0.5, left)]).std(axis=0)
        for left in (100_000, 3_000, 1)
    )
    assert (late < 0.7 * early).all()
    assert (last < 0.05 * late).all()


def test_before_the_state_moves_r_is_drawn_as_beta() -> None:
    plays, paid = (4, 12, 40), (0, 5, 20)
    arms = np.repeat([0, 1, 2], plays)
    rewards = np.concatenate([np.arange(n) < k for n, k in zip(plays, paid, strict=True)])
    posterior = fitted(Instance([0.5] * 3, [0.5] * 3, 1e-9), arms, rewards.astype(float), True)
    rng = np.random.default_rng(1)
    normal = rng.normal(size=(9000, 7))
    draws = posterior.draws(np.hstack([normal, normal[:, 4:]]), rng, 1.0, 9)
    drawn = draws.r
    for arm, (n, k) in enumerate(zip(plays, paid, strict=True)):
        low, middle, high = np.quantile(rng.beta(k + 1, n - k + 1, 100_000), (0.05, 0.5, 0.95))
        below, above = drawn[:, arm] < low, drawn[:, arm] > high
        # The normal distribution of logit r has tails like those of the Beta, not the same.
        assert 0.025 < float(above.mean()) < 0.11
        if k > 0:
            assert 0.025 < float(below.mean()) < 0.11
            assert float((drawn[:, arm] < middle).mean()) == pytest.approx(0.5, abs=0.06)


def test_implausible_draws_are_backtracked() -> None:
    log, left = Sampled(0.01, 8, 400), 3_000
    highest = log.log_likelihood(log.posterior.best)
    normal = log.rng.standard_normal((200, 7))
    for width in (1.0, 5.0):
        for draw, deviates in zip(
            log.draws(normal, width / log.width(left), left), normal, strict=True
        ):
            lost = highest - log.log_likelihood(draw)
            assert lost <= 0.5 * width**2 * float(deviates @ deviates) + 2.1


def test_wild_draws_are_instances() -> None:
    log = Sampled(0.01, 4, 100)
    normal = log.rng.standard_normal((50, 7))
    for r, b, rate, state in zip(*log.posterior.draws(normal, log.rng, 1e4, 3_000), strict=True):
        Instance(r, b, rate, state)
        assert max(r.max(), b.max()) <= 1


@pytest.mark.parametrize(("rounds", "kept"), [(0, 1.0), (20, math.exp(-1)), (2000, 0.0)])
def test_deviates_change_as_the_state_forgets(rounds: int, kept: float) -> None:
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


@pytest.mark.parametrize("lam", [1e-6, 0.5])
def test_an_untrusted_lam_changes_nothing(lam: float) -> None:
    untrusted = build("posterior", Problem(3, 900, 0.123), trust_lam=False)
    plain = build("posterior", Problem(3, 900))
    arms = [play(policy, click_bait(3, lam), 900).arms for policy in (plain, untrusted)]
    np.testing.assert_array_equal(arms[0], arms[1])


@define
class Offered:
    """What the posterior offered to follow, last."""

    draws: list[Draw] = field(factory=list)
    optimistic: list[tuple[Draw, float]] = field(factory=list)
    moved: bool = False


def watch(monkeypatch: pytest.MonkeyPatch) -> Offered:
    offered = Offered()
    draw_all, find_candidates = Posterior.draws, Posterior.optimistic_candidates

    def draws(
        self: Posterior, normal: FloatArray, rng: Generator, width: float, left: int
    ) -> Instances:
        found = draw_all(self, normal, rng, width, left)
        offered.draws = as_draws(found)
        offered.optimistic = []
        offered.moved = self.may_have_moved
        return found

    def optimistic_candidates(self: Posterior, left: int) -> tuple[Instances, float]:
        found, price = find_candidates(self, left)
        offered.optimistic = [(draw, price) for draw in as_draws(found)]
        return found, price

    monkeypatch.setattr(Posterior, "draws", draws)
    monkeypatch.setattr(Posterior, "optimistic_candidates", optimistic_candidates)
    return offered


@pytest.mark.parametrize("lam", [1e-6, 0.05])
def test_it_follows_what_it_shows(lam: float, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (followed["optimistic"] > 3) == (lam > 0.01)


def kind_of(offered: Offered, drawn: Instance, arms: IntArray, horizon: int) -> str:
    """Return what is followed, and check that it may be."""

    def promised(draw: Draw) -> float:
        state = Instance(draw.r, draw.b, draw.lam).state_after(arms)
        return look_ahead(draw, state, horizon - arms.size, STATES, MAX_STEPS)[0]

    def same(draw: Draw) -> bool:
        return bool((draw.b == drawn.b).all() and (draw.r == drawn.r).all())

    of_draws = [promised(draw) for draw in offered.draws]
    after_price = [(1 - price) * promised(draw) for draw, price in offered.optimistic]
    if any(same(draw) for draw in offered.draws):
        followed = next(promised(draw) for draw in offered.draws if same(draw))
        # Rough plans decide: they may be a little wrong.
        if not offered.moved:
            assert followed > 0.995 * max(of_draws)
        assert all(value < 1.01 * np.mean(of_draws) for value in after_price)
        return "draw"
    (optimistic,) = [
        value
        for value, (draw, _) in zip(after_price, offered.optimistic, strict=True)
        if same(draw)
    ]
    assert optimistic > 0.995 * max(after_price)
    assert optimistic > 0.99 * np.mean(of_draws)
    return "optimistic"


def plays_after(rounds: int, lam: float, horizon: int) -> IntArray:
    """Play arms of which two pay, best in turn where the state moves, and the others nothing."""
    instance = Instance([0.9, 0.5, 0.0, 0.0], [0.2, 0.9, 0.2, 0.2], lam)
    played = play(build("posterior", Problem(4, horizon)), instance, rounds)
    return np.bincount(played.arms, minlength=4)


def test_moving_states_keep_all_arms_in_play() -> None:
    assert plays_after(1_000, 0.3, 20_000).min() >= 2 * math.log(20_000)
    assert plays_after(40, 0.3, 20_000).min() <= 10  # but not all at once
    assert plays_after(1_000, 1e-9, 20_000).min() < 10  # as Thompson sampling does


def test_it_shows_estimates_a_cycle_and_the_plan() -> None:
    instance = Instance([1.0, 0.1], [0.0, 1.0], 1.0)
    shown = play(build("posterior", Problem(2, 3_000)), instance, 2_990).diagnostics
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
    stints = str(shown["plan"]).split()  # of a plan that ends with the last round
    pulls = sum(int(stint.partition("×")[2]) for stint in stints)
    assert 10 <= pulls <= 10 + 0.04 * 3_000  # the last plan was made an epoch ago at most
    assert stints[-1] == "0×1"  # what pays most comes last


def test_sweeps_per_round_do_not_grow() -> None:
    sweeps = []
    for horizon in (2_000, 20_000):
        policy = build("posterior", Problem(3, horizon))
        world = PLUGINS.environment(
            "bernoulli", seed=2, r=[0.9, 0.6, 0.3], b=[0.1, 0.5, 1.0], lam=0.1
        )
        simulate(world, policy, horizon, keep=False)
        sweeps.append(number(diagnostics_of(policy), "rows_swept") / horizon)
    assert sweeps[1] < sweeps[0]


def test_a_first_state_above_1_is_another_scale() -> None:
    instance, unit = click_bait(3, 0.05), 8.0
    scaled = Instance(instance.r / unit, instance.b * unit, instance.lam, unit)
    plain = play(build("posterior", Problem(3, 1_500)), instance, 1_500)
    other = play(build("posterior", Problem(3, 1_500, q0=unit)), scaled, 1_500)
    np.testing.assert_array_equal(plain.arms, other.arms)
    shown, same = other.diagnostics, plain.diagnostics
    for name, factor in (("r_hat", 1 / unit), ("b_high_over_time", unit), ("drawn_b", unit)):
        np.testing.assert_allclose(array(shown, name), factor * array(same, name), rtol=1e-12)
    assert number(shown, "state") == pytest.approx(unit * number(same, "state"), rel=1e-12)


# -- what it loses --------------------------------------------------------------------------


@cache
def best_value(seed: int, lam: float, horizon: int) -> tuple[Instance, float]:
    r, b = generate_arms(ArmsConfig(generator="click-bait", n=5, seed=seed))
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


@pytest.mark.parametrize(
    ("other", "factor", "lam"),
    [
        ("unknown-lambda", 0.5, 0.9),
        pytest.param("unknown-lambda", 0.5, 0.05, marks=pytest.mark.slow),
        pytest.param("thompson", 3.0, 0.0, marks=pytest.mark.slow),
    ],
)
def test_regret_against_other_policies(other: str, factor: float, lam: float) -> None:
    seeds = range(200, 204)
    ours = mean_regret("posterior", lam, 5_000, seeds)
    assert ours < factor * mean_regret(other, lam, 5_000, seeds)
