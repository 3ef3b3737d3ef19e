"""Learning from many users: likelihood, states, tables, leaving, draws, and what it all loses."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import (
    BdesError,
    ChangesArms,
    CrowdProblem,
    Feedback,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
)
from bdes_framework.testing.reference import best_value
from bdes_policies.crowd.deciding import Decider
from bdes_policies.crowd.learning import Learner, LearningRules
from bdes_policies.crowd.leaving import chances_of_return
from bdes_policies.crowd.models import Model
from bdes_policies.crowd.tables import STATES, Tables, plan_tables
from bdes_policies.crowd.visit_log import VisitLog
from bdes_policies.posterior.modes import ModeSearch, Pulls, RatePrior
from tests.support.players import PLUGINS

ADS = Instance(r=[0.9, 0.3, 0.5], b=[0.1, 1.0, 0.6], lam=0.3)
UNKNOWN = RatePrior(0.5, 4.0, known=False, starts=(0.003, 0.05, 0.5))
RULES = LearningRules(growth=0.1, draws=16)


def visits_of(instance: Instance, n_users: int, n: int, seed: int) -> VisitLog:
    """Return a log of users who come at random and are shown arms at random."""
    rng = np.random.default_rng(seed)
    log, states = VisitLog(), np.full(n_users, instance.q0)
    numbers: dict[int, int] = {}
    drawn = rng.integers(n_users, size=n).tolist()
    users = np.array([numbers.setdefault(user, len(numbers)) for user in drawn])
    arms = rng.integers(instance.n_arms, size=n)
    rewards = np.empty(n)
    for v, (user, arm) in enumerate(zip(users, arms, strict=True)):
        rewards[v] = rng.random() < instance.r[arm] * states[user]
        states[user] += instance.lam * (instance.b[arm] - states[user])
    log.add(users, arms)
    log.tell(np.arange(n), rewards)
    return log


def learner(instance: Instance, prior: RatePrior = UNKNOWN, draws: int = 16) -> Learner:
    problem = CrowdProblem(instance.n_arms, 10_000, q0=instance.q0)
    rules = LearningRules(growth=0.1, draws=draws)
    return Learner(problem, prior, None, rules, np.random.default_rng(1))


def deciding_by(model: Model) -> Decider:
    decider = Decider(model.b.shape[1])
    decider.use(model)
    return decider


def lost(
    instance: Instance, users: int, visits: int, seed: int = 1, **parameters: Any
) -> tuple[float, bdes.CrowdTrace]:
    """Return the share of the optimum that is lost on users who leave at random."""
    crowd = {"users": users, "visits_per_user": visits, "lifetimes": "geometric"}
    crowd |= {"arrivals": "cohorts", "cohort": 50}
    arms: dict[str, Any] = {"r": instance.r, "b": instance.b, "lam": instance.lam}
    environment = PLUGINS.crowd_environment("crowd", seed=seed, **arms, **crowd)
    problem = CrowdProblem(instance.n_arms, 4 * users * visits, lam=parameters.pop("lam", None))
    feedback = parameters.pop("feedback", Feedback())
    policy = PLUGINS.crowd_policy(
        parameters.pop("use", "crowd-posterior"), problem, seed=seed, **parameters
    )
    trace = bdes.simulate_crowd(environment, policy, problem.visits, feedback=feedback)
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    table = planner.plan_stationary(instance, 1 - 1 / visits)
    totals, q = [0.0], instance.q0
    for _ in range(int(trace.user_visits.max())):
        arm = int(table.arms_at([q])[0])
        totals.append(totals[-1] + float(instance.r[arm]) * q)
        q += instance.lam * (float(instance.b[arm]) - q)
    best = float(np.array(totals)[trace.user_visits].sum())
    return 1 - trace.total_mean / best, trace


# -- the log and its likelihood -------------------------------------------------------------


def test_log_groups_visits_by_user() -> None:
    log = VisitLog()
    users, arms = np.array([0, 1, 0, 2, 1, 0]), np.array([0, 1, 2, 0, 1, 1])
    log.add(users, arms)
    log.tell(np.array([4, 0]), np.array([1.0, 0.5]))
    grouped = log.by_user()
    assert grouped.visits.tolist() == [0, 2, 5, 1, 4, 3]
    assert grouped.starts.tolist() == [0, 3, 5, 6]
    assert grouped.arms.tolist() == arms[grouped.visits].tolist()
    assert grouped.rewards.tolist() == [0.5, -1, -1, -1, 1, -1]


def test_pooled_likelihood_adds_up_over_users() -> None:
    """Of all users together it is the sum of what each alone says, as one audience."""
    log = visits_of(ADS, 7, 400, 1).by_user()
    search = ModeSearch(3, 1.0, UNKNOWN)
    point = search.update(Pulls(log.arms, log.rewards, log.starts[:-1]))[0].point
    r, b, lam = search.values(point.theta)
    parts = [
        bdes.likelihood_of(Instance(r, b, lam), log.arms[start:stop], log.rewards[start:stop])
        for start, stop in zip(log.starts, log.starts[1:], strict=False)
    ]
    assert point.log_likelihood == pytest.approx(sum(part.value for part in parts), rel=1e-12)
    information = np.sum([part.information for part in parts], axis=0)[:-1, :-1]
    np.testing.assert_allclose(point.information, information, rtol=1e-9, atol=1e-9)


def test_one_user_is_one_audience() -> None:
    log = visits_of(ADS, 1, 300, 2).by_user()
    many, one = ModeSearch(3, 1.0, UNKNOWN), ModeSearch(3, 1.0, UNKNOWN)
    found = many.update(Pulls(log.arms, log.rewards, log.starts[:-1]))
    alone = one.update(Pulls(log.arms, log.rewards))
    assert found[0].point.theta.tolist() == alone[0].point.theta.tolist()


# -- deciding -------------------------------------------------------------------------------


def test_states_are_those_of_the_recurrence() -> None:
    """A model brings every user's state under their own draw; deciding moves it on."""
    taught = learner(ADS)
    log = visits_of(ADS, 40, 900, 3)
    taught.log = log
    model = taught.model()
    decider = deciding_by(model)
    rng = np.random.default_rng(4)
    later = rng.integers(45, size=200)  # five of them were never seen
    arms = decider.decide(later)
    decider.show(np.array([44, 0, 44]), np.array([2, 1, 0]))
    shown: dict[int, list[int]] = {user: [] for user in range(45)}
    grouped = log.by_user()
    for user in range(grouped.starts.size - 1):
        shown[user] += grouped.arms[grouped.starts[user] : grouped.starts[user + 1]].tolist()
    for user, arm in zip([*later.tolist(), 44, 0, 44], [*arms.tolist(), 2, 1, 0], strict=True):
        shown[user].append(arm)
    for user, its in shown.items():
        own = user % model.lam.size
        instance = Instance(ADS.r, model.b[own], float(model.lam[own]))
        state = instance.state_after(its) if its else 1.0
        assert decider.states[user] == pytest.approx(state, rel=1e-12)


def test_arms_are_those_of_the_users_own_table() -> None:
    taught = learner(ADS)
    taught.log = visits_of(ADS, 40, 900, 3)
    model = taught.model()
    decider = deciding_by(model)
    before = np.append(decider.states, 1.0)
    for user, arm in enumerate(decider.decide(np.arange(41)).tolist()):
        own = user % model.lam.size
        place = (before[user] - model.tables.low[own]) * model.tables.per_state[own]
        count = int(model.counts[user]) if user < 40 else 0
        row = min(count, model.tables.arms.shape[1] - 1)
        assert arm == model.tables.arms[own, row, round(float(place))]


def test_decider_changes_no_model() -> None:
    """What is published may be adopted by several, one after another."""
    taught = learner(ADS)
    taught.log = visits_of(ADS, 40, 900, 3)
    model = taught.model()
    users = np.arange(60) % 43
    states = model.states.tolist()
    first, again = (deciding_by(model).decide(users).tolist() for _ in range(2))
    assert first == again
    assert model.states.tolist() == states


# -- tables ---------------------------------------------------------------------------------


def table_for(instance: Instance, chances: FloatArray) -> Tables:
    out = Tables(np.empty((1, chances.size, STATES), np.int16), np.empty(1), np.empty(1))
    rates = np.array([instance.lam])
    plan_tables(instance.r[None], instance.b[None], rates, instance.q0, chances, out)
    return out


def followed(instance: Instance, tables: Tables, n: int) -> FloatArray:
    """Return the expected reward of each of a user's first visits."""
    q, rewards = instance.q0, np.empty(n)
    for visit in range(n):
        place = round((q - tables.low[0]) * tables.per_state[0])
        arm = int(tables.arms[0, min(visit, tables.arms.shape[1] - 1), place])
        rewards[visit] = instance.r[arm] * q
        q += instance.lam * (float(instance.b[arm]) - q)
    return rewards


def drawn_instance(seed: int) -> Instance:
    rng = np.random.default_rng(seed)
    lam = float(rng.choice([0.0, 0.03, 0.3, 0.8, 1.0]))
    return Instance(rng.random(4), rng.random(4), lam)


@pytest.mark.parametrize("seed", range(20))
def test_tables_earn_what_certified_ones_do(seed: int) -> None:
    instance, chance = drawn_instance(seed), 0.96
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    best = planner.plan_stationary(instance, chance)
    rewards = followed(instance, table_for(instance, np.array([chance])), 600)
    value = float(rewards @ chance ** np.arange(600))
    assert 0.998 * best.value <= value <= best.upper_bound


@pytest.mark.parametrize("seed", range(10))
def test_tables_plan_for_a_known_last_visit(seed: int) -> None:
    """Where everybody leaves after six visits, they earn what the best of all sequences does."""
    instance = drawn_instance(100 + seed)
    chances = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    value = float(followed(instance, table_for(instance, chances), 6).sum())
    best = best_value(instance, 6)
    assert 0.99 * best <= value <= best * (1 + 1e-12)


def test_tables_look_past_the_end_of_a_cycle() -> None:
    """The best plan here is a cycle: of 48 visits ahead, the last ones decide its phase."""
    r = [0.385, 0.059, 0.459, 0.787, 0.573]
    instance = Instance(r, [0.432, 0.868, 0.53, 0.067, 0.367], 0.5)
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    best = planner.plan_stationary(instance, 0.98).value
    rewards = followed(instance, table_for(instance, np.array([0.98])), 1200)
    assert float(rewards @ 0.98 ** np.arange(1200)) > 0.9999 * best


def test_table_of_a_state_that_cannot_move() -> None:
    still = Instance([0.2, 0.7], [1.0, 1.0], 0.5)
    assert set(table_for(still, np.array([0.9])).arms.ravel().tolist()) == {1}


# -- who comes back -------------------------------------------------------------------------


def log_of_visits(users: list[int]) -> VisitLog:
    log = VisitLog()
    log.add(np.array(users), np.zeros(len(users), dtype=np.int64))
    return log


def test_everybody_leaving_after_three_visits_is_seen() -> None:
    visits = [user for start in range(0, 3000, 10) for user in [*range(start, start + 10)] * 3]
    chances = chances_of_return(log_of_visits(visits).by_user(), None)
    assert chances[0] > 0.99
    assert chances[1] > 0.99
    assert chances[2] < 0.1


def test_equal_chances_of_leaving_are_seen() -> None:
    rng = np.random.default_rng(1)
    present, visits, n = list(range(20)), [], 20
    numbers: dict[int, int] = {}
    for _ in range(20_000):
        place = int(rng.integers(20))
        visits.append(numbers.setdefault(present[place], len(numbers)))
        if rng.random() < 0.1:
            present[place], n = n, n + 1
    chances = chances_of_return(log_of_visits(visits).by_user(), None)
    np.testing.assert_allclose(chances[:15], 0.9, atol=0.03)


@pytest.mark.parametrize("told", [None, 1.0, 50.0])
def test_users_who_never_return(told: float | None) -> None:
    chances = chances_of_return(log_of_visits(list(range(500))).by_user(), told)
    assert ((chances >= 0) & (chances <= 1)).all()


def test_nothing_seen_is_what_is_expected() -> None:
    assert chances_of_return(VisitLog().by_user(), 50.0).tolist() == [0.98]
    assert chances_of_return(VisitLog().by_user(), None).tolist() == [0.95]


def expected_visits(chances: FloatArray) -> float:
    """Return how often a user comes, the last chance holding for all further visits."""
    left = np.concatenate([[1.0], np.cumprod(chances)])
    return float(left[:-1].sum() + left[-1] / (1.0 - chances[-1]))


@pytest.mark.parametrize("laps", [3, 12, 40])
@pytest.mark.parametrize("told", [60.0, 200.0])
def test_nobody_left_but_the_average_is_told(laps: int, told: float) -> None:
    """All users come in turns: whatever is known, they come as often as was told on average."""
    log = log_of_visits(list(range(1000)) * laps).by_user()
    chances = chances_of_return(log, told)
    assert expected_visits(chances) == pytest.approx(told, rel=1e-9)
    if laps > 8:  # only then has it been long since the first visits
        assert chances[: laps - 9].min() > 0.998
        assert 1 - 1 / (told - laps) <= chances[-1] <= 1 - 1 / (told - laps + 10)


@pytest.mark.parametrize("laps", [12, 40, 100])
def test_nobody_left_and_nothing_is_told(laps: int) -> None:
    """They are expected to come about as often again as they came so far, and 20 times more."""
    chances = chances_of_return(log_of_visits(list(range(1000)) * laps).by_user(), None)
    assert chances[: laps - 9].min() > 0.997
    assert chances[-1] == pytest.approx(1 - 1 / (20 + laps), abs=1e-12)


def test_an_average_that_is_wrong_is_not_believed() -> None:
    """Told that users come five times, while all came sixty times."""
    chances = chances_of_return(log_of_visits(list(range(1000)) * 60).by_user(), 5.0)
    assert chances[:50].min() > 0.95
    assert chances[-1] > 0.97


def test_a_true_average_changes_little() -> None:
    """Where enough users were seen to leave, it matters little what was told."""
    rng = np.random.default_rng(2)
    lifetimes = rng.geometric(0.05, size=2000)
    visits = np.repeat(np.arange(2000), lifetimes).tolist()
    log = log_of_visits(visits + list(range(2000, 2500))).by_user()
    untold, told = chances_of_return(log, None), chances_of_return(log, 20.0)
    np.testing.assert_allclose(told[:40], untold[:40], atol=0.02)
    np.testing.assert_allclose(untold[1:40], 0.95, atol=0.03)


# -- draws ----------------------------------------------------------------------------------


def test_draws_are_of_the_posterior() -> None:
    """Against the posterior of r and b on a grid: one arm, a known rate, 300 visits."""
    instance = Instance([0.6], [0.4], 0.4)
    log = visits_of(instance, 30, 300, 5)
    taught = learner(instance, RatePrior(0.4, 1.0, known=True, starts=(0.4,)), draws=4000)
    taught.log = log
    drawn = taught.draws(log.by_user())
    grouped = log.by_user()
    grid = (np.arange(80) + 0.5) / 80
    ends = [slice(*ends) for ends in zip(grouped.starts, grouped.starts[1:], strict=False)]
    logs = np.array(
        [
            [
                sum(plain_log_likelihood(r, b, 0.4, grouped.rewards[its]) for its in ends)
                for b in grid.tolist()
            ]
            for r in grid.tolist()
        ]
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    for values, marginal in ((drawn.r[:, 0], weights.sum(axis=1)), (drawn.b[:, 0], weights.sum(0))):
        mean = float(grid @ marginal)
        deviation = math.sqrt(float((grid - mean) ** 2 @ marginal))
        assert abs(float(values.mean()) - mean) < 0.25 * deviation
        assert 0.8 * deviation < float(values.std()) < 1.25 * deviation


def plain_log_likelihood(r: float, b: float, lam: float, rewards: Any) -> float:
    q, total = 1.0, 0.0
    for reward in rewards.tolist():
        total += math.log(r * q if reward else 1 - r * q)
        q += lam * (b - q)
    return total


def test_draws_stay_near_a_rate_of_one() -> None:
    """The log tells lam = 1 from 0.9, and so do the draws: normal logits would be wide of it."""
    fast = Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.6], 1.0)
    taught = learner(fast, draws=200)
    taught.log = visits_of(fast, 100, 5000, 6)
    assert taught.draws(taught.log.by_user()).lam.min() > 0.9


def test_every_other_table_is_for_the_most_likely() -> None:
    """Once rewards are known; before, nothing is more likely than anything else."""
    taught = learner(ADS)
    none = taught.draws(taught.log.by_user(), explorers_only=True)
    assert np.unique(none.r[:, 0]).size == 16
    taught.log = visits_of(ADS, 100, 5000, 6)
    model = taught.model()
    search = taught._search
    centres = {tuple(search.values(mode.point.theta)[1].tolist()) for mode in search.modes}
    assert np.unique(model.b[0::2, 0]).size == 8
    assert {tuple(b) for b in model.b[1::2].tolist()} <= centres
    assert not {tuple(b) for b in model.b[0::2].tolist()} & centres


# -- the policy -----------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_order_of_rewards_changes_no_arm(together: bool) -> None:
    """The same rewards known at the same visits, told in any order, at once or one by one."""
    games = []
    for shuffled in (False, True):
        rng = np.random.default_rng(7)
        policy = PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 2000), seed=1, draws=3)
        shown: list[IntArray] = []
        for start in range(0, 600, 40):
            users = rng.integers(min(start + 1, 30), size=40)
            users[0] = min(start // 40, 29)
            shown.append(policy.ask(np.sort(users)))
            told = start + np.flatnonzero(rng.random(40) < 0.8)
            rewards = (rng.random(told.size) < 0.5).astype(np.float64)
            order = np.random.default_rng(start).permutation(told.size) if shuffled else ...
            told, rewards = told[order], rewards[order]
            if shuffled and not together:
                for visit, reward in zip(told, rewards, strict=True):
                    policy.tell(np.array([visit]), np.array([reward]))
            else:
                policy.tell(told, rewards)
        games.append(np.concatenate(shown).tolist())
    assert games[0] == games[1]


@pytest.mark.parametrize("lam", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("is_told", [True, False])
def test_little_is_lost_at_any_rate(lam: float, is_told: bool) -> None:
    instance = Instance(ADS.r, ADS.b, lam)
    share, _ = lost(instance, 600, 30, draws=8, lam=lam if is_told else None)
    assert share < 0.06


def test_late_and_lost_rewards_cost_little() -> None:
    late = Feedback(delay=300, delays="geometric", lost=0.1)
    share, trace = lost(ADS, 600, 30, draws=8, feedback=late)
    assert trace.told < 0.92 * trace.visits
    assert share < 0.06


def test_users_who_come_once_are_shown_what_pays() -> None:
    instance = Instance([0.2, 0.8, 0.5], [1.0, 0.0, 0.5], 0.5)
    share, trace = lost(instance, 3000, 1, draws=8)
    assert trace.counts.argmax() == 1
    assert share < 0.1


def test_one_user_who_comes_for_ever() -> None:
    environment = PLUGINS.crowd_environment("crowd", seed=1, users=1, r=ADS.r, b=ADS.b, lam=ADS.lam)
    policy = PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 20_000), seed=1)
    trace = bdes.simulate_crowd(environment, policy, 20_000)
    best = PLUGINS.planner("certified").plan(ADS, 20_000).value
    assert trace.total_mean > 0.94 * best
    assert float(np.asarray(trace.diagnostics["models"])) > 20


@pytest.mark.slow
def test_one_user_comes_a_million_times_and_others_once(tmp_path: Path) -> None:
    names = ["regular" if visit % 1000 else f"guest {visit}" for visit in range(10**6)]
    (tmp_path / "visits.txt").write_text("\n".join(names))
    arms: dict[str, Any] = {"r": ADS.r, "b": ADS.b, "lam": ADS.lam}
    arms |= {"arrivals": "file", "file": str(tmp_path / "visits.txt")}
    environment = PLUGINS.crowd_environment("crowd", seed=1, **arms)
    policy = PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 10**6), seed=1)
    trace = bdes.simulate_crowd(environment, policy, 10**6)
    assert sorted(trace.user_visits.tolist()) == [1] * 1000 + [999_000]
    regular = int(trace.user_visits.argmax())
    best = PLUGINS.planner("certified").plan(ADS, 999_000).value
    assert trace.user_means[regular] > 0.99 * best
    guests = np.delete(trace.user_means, regular)
    assert guests[-500:].mean() > 0.9 * ADS.r.max()  # who may not come again is shown what pays


def test_a_state_above_one_is_the_same_problem() -> None:
    """(c·r, b/c, q0/c) shows the same arms; only what is reported has another scale."""
    shown = []
    for q0 in (1.0, 4.0):
        policy = PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 500, q0=q0), seed=1)
        for start in range(0, 300, 50):
            shown.append(policy.ask(np.arange(50)).tolist())
            policy.tell(np.arange(start, start + 50), (np.arange(50) % 3 == 0).astype(np.float64))
        assert isinstance(policy, bdes.HasDiagnostics)
        shown.append([float(np.asarray(policy.diagnostics()["r_hat"])[0]) * q0])
    np.testing.assert_allclose(shown[6], shown[13])
    assert shown[:6] == shown[7:13]


@pytest.mark.parametrize("wrong", [{"growth": 0.0}, {"growth": 1.0}, {"draws": 0}, {"draws": 1.5}])
def test_wrong_parameters_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(BdesError):
        PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 100), seed=1, **wrong)


# -- warm starts ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> bdes.Fit:
    """A fit of 20,000 rows of users who were shown arms at random."""
    rng = np.random.default_rng(8)
    arms = rng.integers(3, size=(800, 25))
    means = np.array([ADS.expected_rewards(own) for own in arms])
    rewards = (rng.random(arms.shape) < means).astype(np.int64)
    return bdes.fit(bdes.Log(arms.ravel(), rewards.ravel(), np.arange(800) * 25))


def test_warm_start_cuts_the_loss(fitted: bdes.Fit, tmp_path: Path) -> None:
    bdes.save_fit(fitted, tmp_path / "fit.toml")
    cold, _ = lost(ADS, 200, 30, draws=8)
    warm, _ = lost(ADS, 200, 30, draws=8, prior=str(tmp_path / "fit.toml"))
    assert warm < 0.2 * cold


def test_draws_of_a_warm_start_are_those_of_the_fit(fitted: bdes.Fit) -> None:
    policy = PLUGINS.crowd_policy(
        "crowd-posterior", CrowdProblem(3, 100), seed=1, prior=fitted.as_prior()
    )
    assert isinstance(policy, bdes.HasDiagnostics)
    found = policy.diagnostics()
    np.testing.assert_allclose(np.asarray(found["r_hat"]), fitted.instance.r, rtol=1e-3)
    np.testing.assert_allclose(np.asarray(found["b_hat"]), fitted.instance.b, rtol=1e-3, atol=1e-3)
    assert found["lam_hat"] == pytest.approx(fitted.instance.lam, rel=1e-3)


def test_fit_of_fewer_arms_leaves_the_others_open(fitted: bdes.Fit) -> None:
    policy = PLUGINS.crowd_policy(
        "crowd-posterior", CrowdProblem(5, 100), seed=1, prior=fitted.as_prior()
    )
    assert isinstance(policy, bdes.HasDiagnostics)
    low, high = (np.asarray(policy.diagnostics()[f"r_{end}"]) for end in ("low", "high"))
    assert (high[:3] - low[:3] < 0.1).all()
    assert (high[3:] - low[3:] > 0.7).all()


def test_fits_that_do_not_fit_are_rejected(fitted: bdes.Fit) -> None:
    prior = fitted.as_prior()
    with pytest.raises(InvalidValueError, match="the fit has 3 arms, but there are only 2"):
        PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(2, 100), seed=1, prior=prior)
    with pytest.raises(InvalidValueError, match="begins at state 1"):
        PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(3, 100, q0=0.5), seed=1, prior=prior)


def test_warm_start_of_one_audience(fitted: bdes.Fit) -> None:
    def regret(**parameters: Any) -> float:
        arms: dict[str, Any] = {"r": ADS.r, "b": ADS.b, "lam": ADS.lam}
        environment = PLUGINS.environment("bernoulli", seed=2, **arms)
        policy = PLUGINS.policy("posterior", bdes.Problem(3, 2000), seed=3, **parameters)
        earned = bdes.simulate(environment, policy, 2000).total_mean
        return PLUGINS.planner("certified").plan(ADS, 2000).value - earned

    assert regret(prior=fitted.as_prior()) < 0.3 * regret()
    with pytest.raises(BdesError, match="not both"):
        regret(prior=fitted.as_prior(), lam_prior=0.3)


# -- arms that change -----------------------------------------------------------------------


@pytest.mark.parametrize("use", ["crowd-posterior", "crowd-greedy"])
def test_a_better_arm_takes_over(use: str) -> None:
    pays = np.array([0.3, 0.2, 0.9])
    rng = np.random.default_rng(9)
    policy = PLUGINS.crowd_policy(use, CrowdProblem(2, 5000), seed=1)
    assert isinstance(policy, ChangesArms)
    done, last = 0, np.empty(0, dtype=np.int64)
    for block in range(50):
        if block == 20:
            assert policy.add_arm() == 2
        if block == 40:
            policy.retire_arm(2)
        last = policy.ask(np.arange(100))
        policy.tell(np.arange(done, done + 100), (rng.random(100) < pays[last]).astype(np.float64))
        done += 100
        if block == 39:
            assert (last == 2).mean() > 0.9
    assert (last != 2).all()


def test_greedy_goes_on_with_its_turns() -> None:
    policy = PLUGINS.crowd_policy("crowd-greedy", CrowdProblem(3, 100), seed=1, explore=2)
    assert isinstance(policy, ChangesArms)
    assert policy.ask(np.arange(2)).tolist() == [0, 1]
    policy.retire_arm(1)
    assert policy.add_arm() == 3
    assert policy.ask(np.arange(6)).tolist() == [2, 0, 3, 3, 0, 0]


@pytest.mark.parametrize("lam", [None, 0.3])
def test_new_arms_are_uniform_in_diagnostics(lam: float | None) -> None:
    policy = PLUGINS.crowd_policy("crowd-posterior", CrowdProblem(2, 5000, lam=lam), seed=1)
    assert isinstance(policy, ChangesArms)
    assert isinstance(policy, bdes.HasDiagnostics)
    policy.ask(np.arange(100))
    policy.tell(np.arange(100), np.ones(100))
    policy.ask(np.arange(100))
    before = policy.diagnostics()
    policy.add_arm()
    after = policy.diagnostics()
    assert after["lam_high"] == before["lam_high"]
    end = 1.96 * np.sqrt(2.0)  # 2 is one over the curvature of a uniform prior, in logits
    logistic = 1.0 / (1.0 + np.exp(-np.array([-end, 0.0, end])))
    for name in ("r", "b"):
        shown = [np.asarray(after[f"{name}_{at}"]) for at in ("low", "hat", "high")]
        assert [values[2] for values in shown] == pytest.approx(logistic)
        first = [np.asarray(before[f"{name}_{at}"]) for at in ("low", "hat", "high")]
        assert np.array(shown)[:, :2] == pytest.approx(np.array(first))


def test_log_takes_10_to_12_bytes_a_visit() -> None:
    log, sizes = VisitLog(), []
    for _ in range(300):
        log.add(np.arange(100), np.zeros(100, dtype=np.int64))
        held = sum(part.nbytes for part in vars(log).values() if isinstance(part, np.ndarray))
        sizes.append(held / log.n_visits)
    after = np.array(sizes)[11:]  # its first arrays have room for 1,024
    assert after.min() == pytest.approx(10.0, rel=0.01)
    assert 11.0 < after.max() <= 11.25
