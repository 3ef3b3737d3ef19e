"""Lift: values under draws, today's traffic, what is compared with what, coverage of intervals."""

import math
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import bdes_framework as bdes
from bdes_framework.planning import traffic
from tests.support.logs import ADS, simulated_log


@frozen
class Known:
    """A posterior whose draws are given."""

    instance: bdes.Instance
    given: tuple[bdes.Instance, ...]
    names: tuple[str, ...] = ("loud", "calm", "dull")

    def draws(self, n: int, rng: np.random.Generator) -> list[bdes.Instance]:
        assert isinstance(rng, np.random.Generator)
        return list(self.given[:n])


OTHER = bdes.Instance([0.5, 0.45, 0.3], [0.3, 0.6, 0.7], 0.2)
KNOWN = Known(ADS, (ADS, OTHER))


@pytest.fixture(scope="module")
def table() -> bdes.DecisionTable:
    return bdes.plan_for_leavers(bdes.load_plugins(), ADS, 0.9)


@pytest.fixture(scope="module")
def log() -> bdes.Log:
    """Return a log of users with 1 to 30 visits."""
    rng = np.random.default_rng(3)
    starts = np.cumsum([0, *rng.integers(1, 31, 50)])
    arms = rng.integers(0, 3, starts[-1])
    return bdes.Log(arms, np.zeros(arms.size), starts[:-1], ["loud", "calm", "dull"])


def by_hand(at: bdes.Instance, arms: Any, weights: Any = None) -> float:
    """Return what arms earn, by the recurrence of the model."""
    q, total = at.q0, 0.0
    for t, arm in enumerate(arms):
        total += (1.0 if weights is None else weights[t]) * at.r[arm] * q
        q = (1 - at.lam) * q + at.lam * at.b[arm]
    return total


def users_of(log: bdes.Log) -> list[bdes.IntArray]:
    return [part.astype(np.int64) for part in np.split(log.arms, log.starts[1:])]


def test_schedule_is_valued_under_every_draw(log: bdes.Log) -> None:
    arms = [0, 2, 1, 0, 1, 2, 0, 0]
    found = bdes.lift(KNOWN, bdes.Schedule.of(arms), log, n_draws=2)
    ours = [by_hand(at, arms) for at in (ADS, OTHER)]
    assert found.visits == 8
    assert found.value.mean == pytest.approx(np.mean(ours))
    today = found.over("today")
    users = users_of(log)
    # Each user gets the first arms of the schedule, on as many visits as they made of its 8.
    planned = [sum(by_hand(at, arms[: u.size]) for u in users) for at in (ADS, OTHER)]
    shown = [sum(by_hand(at, u[:8]) for u in users) for at in (ADS, OTHER)]
    assert today.visits == pytest.approx(np.mean([min(u.size, 8) for u in users]))
    assert today.plan.mean == pytest.approx(np.mean(planned) / len(users))
    assert today.other.mean == pytest.approx(np.mean(shown) / len(users))
    assert today.samples == pytest.approx(np.array(planned) / shown - 1)
    assert today.lift is not None
    assert today.lift.mean == pytest.approx(today.samples.mean())
    best = found.over("best-fixed")
    values = [by_hand(ADS, [arm] * 8) for arm in range(3)]
    assert best.arm == KNOWN.names[int(np.argmax(values))]
    assert best.other.mean == pytest.approx(
        np.mean([by_hand(at, [int(np.argmax(values))] * 8) for at in (ADS, OTHER)])
    )
    assert found.over("greedy").arm == "loud"


def test_table_shows_what_the_estimates_say(table: bdes.DecisionTable, log: bdes.Log) -> None:
    found = bdes.lift(KNOWN, table, log, n_draws=2)
    # The platform follows the estimated state, whatever the draw: one sequence of arms.
    q, arms = ADS.q0, []
    for _ in range(400):
        arms.append(int(table.arms_at([q])[0]))
        q = (1 - ADS.lam) * q + ADS.lam * ADS.b[arms[-1]]
    assert table.first_arms(400).tolist() == arms
    weights = 0.9 ** np.arange(400)
    values = [by_hand(at, arms, weights) for at in (ADS, OTHER)]
    assert values[0] == pytest.approx(table.value, rel=1e-8)
    assert found.value.mean == pytest.approx(np.mean(values), rel=1e-8)
    users = users_of(log)
    planned = sum(by_hand(ADS, arms[: u.size]) for u in users)
    shown = sum(by_hand(ADS, u) for u in users)
    assert found.over("today").samples[0] == pytest.approx(planned / shown - 1)
    # One arm for ever, at a chance of 0.9 to come back: a geometric series.
    for arm in range(3):
        end, kept = ADS.b[arm], 1 - ADS.lam
        series = ADS.r[arm] * (end / 0.1 + (1 - end) / (1 - 0.9 * kept))
        assert by_hand(ADS, [arm] * 400, weights) == pytest.approx(series, rel=1e-8)
    best = max(range(3), key=lambda arm: by_hand(ADS, [arm] * 400, weights))
    assert found.over("best-fixed").arm == KNOWN.names[best]


@pytest.mark.parametrize(("users", "rows"), [(1500, 20), (2, 3000)])
def test_large_logs_are_played_in_part(
    monkeypatch: pytest.MonkeyPatch, users: int, rows: int
) -> None:
    log = simulated_log(ADS, users, rows)
    fit = bdes.fit(log)
    plan = bdes.Schedule.cycle([0], rows)
    whole = bdes.lift(fit, plan, log, n_draws=50).over("today")
    monkeypatch.setattr(traffic, "_MAX_WORK", 50 * log.n_rows / 4)
    part = bdes.lift(fit, plan, log, n_draws=50).over("today")
    assert not np.array_equal(part.samples, whole.samples)
    deviation = whole.samples.std()
    assert part.samples == pytest.approx(whole.samples, abs=0.3 * deviation)
    assert part.samples.mean() == pytest.approx(whole.samples.mean(), abs=0.1 * deviation)


def test_seed_gives_the_draws(log: bdes.Log) -> None:
    fit = bdes.fit(simulated_log(ADS, 50, 20))
    plan = bdes.Schedule.cycle([0, 1], 10)
    first, again, other = (bdes.lift(fit, plan, n_draws=20, seed=s) for s in (1, 1, 2))
    assert first.value == again.value != other.value
    assert [one.name for one in first.comparisons] == ["best-fixed", "greedy"]


def test_plan_that_beats_nothing_has_no_lift(log: bdes.Log) -> None:
    nothing = bdes.Instance([0.0] * 3, [0.0] * 3, 0.5)
    known = Known(nothing, (nothing,))
    found = bdes.lift(known, bdes.Schedule.of([0, 1]), log, n_draws=1)
    assert {one.lift for one in found.comparisons} == {None}
    assert "that earns nothing" in repr(found)
    assert [row[3] for row in found.rows()] == ["it earns nothing"] * 2  # equal rules on one line
    over: Any = found.as_json()["over"]
    assert over["today"]["lift"] is None


def test_unknown_comparisons_and_arms_are_errors(log: bdes.Log) -> None:
    found = bdes.lift(KNOWN, bdes.Schedule.of([0]), n_draws=1)
    with pytest.raises(bdes.InvalidValueError, match="there are: best-fixed, greedy"):
        found.over("today")
    with pytest.raises(bdes.InvalidValueError, match="shows arm 3; the fit has 3 arms"):
        bdes.lift(KNOWN, bdes.Schedule.of([3]))
    with pytest.raises(bdes.InvalidValueError, match="the log has 1 arms"):
        bdes.lift(KNOWN, bdes.Schedule.of([0]), bdes.Log([0], [1]))
    with pytest.raises(bdes.InvalidValueError, match="n_draws"):
        bdes.lift(KNOWN, bdes.Schedule.of([0]), n_draws=0)


def test_shown_in_words(table: bdes.DecisionTable, log: bdes.Log) -> None:
    hostile = Known(ADS, (ADS, OTHER), ("<b>loud\x1b", "calm", "dull"))
    found = bdes.lift(hostile, bdes.Schedule.of([1, 1, 1]), log, n_draws=2)
    shown = found._repr_html_()
    assert "<b>" not in shown
    assert "\x1b" not in shown
    assert "&lt;b&gt;loud\\x1b always" in shown
    assert repr(found).startswith("Lift(")
    assert max(map(len, repr(found).splitlines())) <= 80


@pytest.mark.parametrize("mean", [1.5, 4, 30])
def test_continuation_is_estimated(mean: float) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.geometric(1 / mean, 4000)
    for cut in (lengths, np.minimum(lengths, math.ceil(mean))):  # as it is, and a log that ends
        starts = np.cumsum([0, *cut])
        log = bdes.Log(np.zeros(starts[-1]), np.zeros(starts[-1]), starts[:-1])
        found = 1 / (1 - bdes.estimate_continuation(log))
        assert found == pytest.approx(mean, rel=0.06)


@pytest.mark.parametrize(
    ("starts", "problem"),
    [
        ([0], "it is one sequence"),
        (range(0, 1000, 10), "all have 10 visits"),
        ([0, *range(2, 1000, 2), 999], "499 of 501 have 2 visits, the most there are"),
    ],
)
def test_logs_that_show_no_leaving_are_errors(starts: Any, problem: str) -> None:
    log = bdes.Log([0] * 1000, [0] * 1000, starts)
    with pytest.raises(bdes.InvalidValueError, match=problem):
        bdes.estimate_continuation(log)


def covered(n_logs: int, spread: float, seed: int) -> dict[str, float]:
    """Return how often the interval of each lift held the truth, of a schedule and of a table."""
    planner, plugins = bdes.load_plugins().planner("certified"), bdes.load_plugins()
    hits: dict[str, list[bool]] = {}
    for index in range(n_logs):
        log = simulated_log(ADS, 400, 50, seed=seed + index, spread=spread)
        fit = bdes.fit(log, users="clustered" if spread else "alike")
        for plan in (
            planner.plan(fit.instance, 50),
            bdes.plan_for_leavers(plugins, fit.instance, 0.98),
        ):
            found = bdes.lift(fit, plan, log, n_draws=1000, seed=index)
            truth = bdes.lift(Known(fit.instance, (ADS,)), plan, log, n_draws=1)
            for one, real in zip(found.comparisons, truth.comparisons, strict=True):
                assert one.lift is not None
                assert real.lift is not None
                name = f"{type(plan).__name__} over {one.name}"
                hits.setdefault(name, []).append(one.lift.low <= real.lift.mean <= one.lift.high)
    return {name: float(np.mean(held)) for name, held in hits.items()}


def test_intervals_hold_the_truth() -> None:
    assert min(covered(30, 0.0, seed=900).values()) >= 0.8


@pytest.mark.slow
def test_intervals_cover_95_percent() -> None:
    found = covered(500, 0.0, seed=2000)
    print(found)
    assert 0.93 <= min(found.values()) <= max(found.values()) <= 0.97


@pytest.mark.slow
def test_intervals_cover_with_users_effects() -> None:
    found = covered(400, 0.3, seed=6000)
    print(found)
    assert min(found.values()) >= 0.90
