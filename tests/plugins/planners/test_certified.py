"""``certified``: the bound holds and the gap is reached, at horizons short and long."""

import math

import pytest

from bdes_framework import Instance, Plan, Schedule, Segment, load_plugins
from bdes_planners.certified import Certified
from bdes_planners.exact import Exact
from tests.support.planner_oracles import (
    arc_of_arms,
    clickbait_arms,
    random_arms,
    table_for_rate_one,
)

MAKERS = {"random": random_arms, "clickbait": clickbait_arms}

PLUGINS = load_plugins()


def check(instance: Instance, horizon: int, gap: float = 1e-4, **limits: int) -> Plan:
    """Plan, and assert what every plan must satisfy."""
    plan = Certified(gap, **limits).plan(instance, horizon)
    assert plan.schedule.n_pulls == horizon == plan.schedule.counts(instance.n_arms).sum()
    assert math.isclose(instance.value(plan.schedule), plan.value, rel_tol=1e-9)
    assert plan.value <= plan.upper_bound
    assert plan.gap <= gap
    return plan


def check_against_exact(instance: Instance, horizon: int, gap: float = 1e-4) -> None:
    plan, best = check(instance, horizon, gap), Exact().plan(instance, horizon).value
    assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)


@pytest.mark.parametrize("lam", [0.9, 0.3, 0.1, 0.02, 1e-3, 1e-5])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-7])
def test_gap_and_bound_hold_against_exact(lam: float, gap: float) -> None:
    for seed in range(3):
        for horizon in (30, 400):
            check_against_exact(Instance(*clickbait_arms(seed, 20), lam, q0=0.7), horizon, gap)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("lam", [1.0, 0.6, 0.1])
def test_a_repeated_cycle_agrees_with_exact(maker: str, lam: float) -> None:
    for seed in range(4):
        check_against_exact(Instance(*MAKERS[maker](seed, 30), lam), 3000)


@pytest.mark.parametrize("horizon", [8192, 20_001])
@pytest.mark.parametrize("lam", [1e-9, 1e-5])
def test_blocks_agree_with_exact(horizon: int, lam: float) -> None:
    check_against_exact(Instance(*random_arms(7, 30), lam), horizon)


@pytest.mark.parametrize(
    ("lam", "q0"), [(1e-18, 0.0), (1e-18, 1e-3), (1e-10, 1e-7), (1e-6, 0.0), (1e-6, 1e-3)]
)
def test_a_first_state_near_0_agrees_with_exact(lam: float, q0: float) -> None:
    check_against_exact(Instance(*clickbait_arms(4, 10), lam, q0), 5000)


def test_a_long_horizon_agrees_with_the_table() -> None:
    instance = Instance(*clickbait_arms(3, 40), 1.0, q0=0.2)
    plan, best = check(instance, 20_000), table_for_rate_one(instance, 20_000)
    assert plan.value <= best * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("lam", [0.9, 0.5, 0.1, 0.03, 0.01])
def test_a_million_rounds_reach_the_gap(maker: str, lam: float) -> None:
    for seed in range(3):
        instance = Instance(*MAKERS[maker](seed, 50), lam)
        check(instance, 10**6)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_billion_slow_rounds_reach_the_gap(maker: str) -> None:
    plan = check(Instance(*MAKERS[maker](1, 50), 1e-9), 10**9 + 7)
    assert sum(segment.arms.size for segment in plan.schedule.segments) < 10**6


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("lam", [0.9, 0.1, 0.01])
def test_the_work_does_not_grow_with_the_horizon(maker: str, lam: float) -> None:
    instance = Instance(*MAKERS[maker](8, 50), lam)
    short = Certified().plan(instance, 10**5).diagnostics["work"]
    for horizon in (10**6, 10**9):
        plan = check(instance, horizon)
        assert plan.diagnostics["work"] <= 1.5 * short  # type: ignore[operator]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("horizon", "seed"),
    [(10**4, 1), *(pytest.param(10**5, seed, marks=pytest.mark.slow) for seed in range(5))],
)
def test_slow_states_reach_the_gap(maker: str, horizon: int, seed: int) -> None:
    for lam in (horizon**-2.0, 1 / horizon, 3 / horizon, horizon**-0.75):
        instance = Instance(*MAKERS[maker](seed, 50), lam)
        check(instance, horizon)


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(10))
def test_every_scale_reaches_the_gap(maker: str, seed: int) -> None:
    for lam in (0.9, 0.5, 0.1, 0.03, 0.01, 0.001):
        for horizon in (1, 10, 1000, 30_000, 10**6, 10**9):
            instance = Instance(*MAKERS[maker](seed, 50), lam, q0=seed / 5)
            check(instance, horizon)


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [50, 200])
@pytest.mark.parametrize("lam", [1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-8, 1e-12])
def test_arcs_never_stall(n_arms: int, lam: float) -> None:
    """All arms are on the hull: the work is counted in lines, 10 to 500 ns each."""
    plan = check(Instance(*arc_of_arms(5, n_arms), lam), 10**6)
    assert plan.diagnostics["work"] < 5 * 10**6  # type: ignore[operator]


def test_a_billion_rounds_make_a_small_schedule() -> None:
    instance = Instance(*clickbait_arms(0, 50), 0.05)
    plan = check(instance, 10**9)
    assert sum(segment.arms.size for segment in plan.schedule.segments) < 10_000
    assert plan.diagnostics["method"] == "cycle"
    assert plan.diagnostics["period"] in [s.arms.size for s in plan.schedule.segments]


def test_out_of_work_the_bound_holds() -> None:
    instance = Instance(*clickbait_arms(0, 50), 0.02)
    best = Exact().plan(instance, 2000)
    for work in (1, 1000, 30_000):
        plan = Certified(gap=1e-9, work=work).plan(instance, 2000)
        assert plan.schedule.n_pulls == 2000
        assert plan.value <= best.value * (1 + 1e-12) <= plan.upper_bound * (1 + 2e-12)
        assert plan.diagnostics["gap_reached"] is False
        assert plan.gap > 1e-9
        again = Certified(gap=1e-9, work=work).plan(instance, 2000)
        assert again.value == plan.value
        assert again.upper_bound == plan.upper_bound


@pytest.mark.parametrize("lam", [1e-18, 1e-12, 1e-10])
@pytest.mark.parametrize("horizon", [10**5, 10**9])
def test_a_slow_state_from_0_costs_little(lam: float, horizon: int) -> None:
    """To first order in lam the best is to raise the state for a while, then to cash in."""
    instance = Instance([0.9, 0.3], [0.1, 1.0], lam, 0.0)
    plan = check(instance, horizon, work=2 * 10**7)
    raising = [Segment([1], k * horizon // 1000) for k in range(1, 1000)]
    best = max(instance.value(Schedule([up, Segment([0], horizon - up.n_pulls)])) for up in raising)
    assert best <= plan.upper_bound
    assert plan.value >= best * (1 - 1e-4)


SLOW_FROM_0 = Instance([0.9, 0.3], [0.1, 1.0], 1e-18, 0.0)


@pytest.mark.parametrize(
    ("instance", "horizon", "share"),
    [
        (Instance(*clickbait_arms(0, 10), 1e-4), 20_000, 0.0),
        *((SLOW_FROM_0, horizon, 0.5 if horizon == 4000 else 0.9) for horizon in (4000, 10**9)),
    ],
)
def test_out_of_work_slow_states_are_bounded(
    instance: Instance, horizon: int, share: float
) -> None:
    full = Certified().plan(instance, horizon)
    for work in (1, 5000):
        plan = Certified(work=work).plan(instance, horizon)
        assert plan.schedule.n_pulls == horizon
        # Few rounds are swept roughly whatever the work: that is enough for the gap.
        assert plan.diagnostics["gap_reached"] is (horizon == 4000)
        assert full.value <= plan.upper_bound
        assert share * full.value <= plan.value <= full.upper_bound


@pytest.mark.parametrize("horizon", [10, 5000, 10**6])
def test_a_rate_without_a_float_inverse_is_planned(horizon: int) -> None:
    """The state never moves by anything a float can show, so the largest r is best."""
    plan = Certified().plan(Instance([0.9, 0.3], [0.1, 1.0], 1e-309, 1.0), horizon)
    assert plan.value == pytest.approx(0.9 * horizon, rel=1e-12)
    assert plan.gap <= 1e-4


def test_refining_stops_when_rounding_forbids_more() -> None:
    instance = Instance(*clickbait_arms(0, 10), 1e-4)
    within_reach = Certified(gap=1e-7).plan(instance, 5000)
    beyond = Certified(gap=1e-16).plan(instance, 5000)
    faster = Certified(gap=1e-17).plan(Instance(*clickbait_arms(0, 10), 0.3), 200)
    assert beyond.diagnostics["gap_reached"] is faster.diagnostics["gap_reached"] is False
    assert beyond.gap < 1e-7
    assert faster.gap < 1e-9
    assert within_reach.gap < 1e-7
    assert beyond.diagnostics["work"] < 4 * 5000  # type: ignore[operator]


@pytest.mark.parametrize(("lam", "horizon"), [(0.3, 500), (0.02, 2000), (1e-4, 20_000)])
def test_the_gap_survives_the_equivalence_scaling(lam: float, horizon: int) -> None:
    instance = Instance(*clickbait_arms(2, 20), lam)
    plans = [Certified().plan(i, horizon) for i in (instance, instance.scaled(300.0))]
    for plan in plans:
        assert plan.gap <= 1e-4
    assert plans[0].value <= plans[1].upper_bound
    assert plans[1].value <= plans[0].upper_bound


def test_improving_plans_ends_at_the_work() -> None:
    instance = Instance([0.9, 0.3, 0.6], [0.1, 1.0, 0.65], 0.001)
    for work in (10_000, 6_000_000):
        planner = Certified(gap=1e-12, work=work)
        *_, last = planner.improving_plans(instance, 20_000)
        assert last.value == planner.plan(instance, 20_000).value


@pytest.mark.parametrize("horizon", [2 * 10**9, 2 * 10**10])
def test_very_slow_states_over_very_long_horizons(horizon: int) -> None:
    """Steps of millions of rounds: whatever is offered has as many pulls as were asked for."""
    ads = Instance(
        [1.0, 0.8, 0.5, 0.2], [0.1, 0.5, 0.8, 1.0], 1e-9 if horizon > 1e10 else 1e-8, 0.5
    )
    plan = PLUGINS.planner("certified", gap=1e-2).plan(ads, horizon)
    assert plan.schedule.n_pulls == horizon
    assert plan.gap <= 1e-2


@pytest.mark.parametrize(("lam", "horizon"), [(1e-3, 1_000), (1e-5, 100_000), (1e-2, 100_000)])
@pytest.mark.parametrize("gap", [1e-3, 1e-4])
def test_there_is_a_bound_without_work(lam: float, horizon: int, gap: float) -> None:
    ads = Instance([0.9, 0.3], [0.1, 1.0], lam, 0.5)
    plan = PLUGINS.planner("certified", gap=gap, work=1).plan(ads, horizon)
    assert plan.gap < 0.5


def test_differences_too_small_for_a_product() -> None:
    ads = Instance([1.0, 0.5], [0.0, 5e-324], 1e-3, 1.0)
    plan = PLUGINS.planner("certified", gap=1e-3).plan(ads, 10_000)
    assert plan.gap <= 1e-3
