"""Plan reports: time limits, rounds, shares and lift."""

from collections.abc import Iterator

import pytest

import bdes_framework as bdes

INSTANCE = bdes.Instance([0.9, 0.3], [0.1, 1.0], 0.3)


@pytest.mark.parametrize(
    ("seconds", "n_plans", "gap"), [(1e-9, 1, 0.5), (100.0, 3, 0.1), (None, 0, 0.1)]
)
def test_report_plan_stops_at_seconds(
    monkeypatch: pytest.MonkeyPatch, seconds: float | None, n_plans: int, gap: float
) -> None:
    yielded = []

    class Improving:
        def plan(self, instance: bdes.Instance, horizon: int, gap: float = 0.1) -> bdes.Plan:
            value = instance.value([0] * horizon)
            return bdes.Plan(bdes.Schedule.cycle([0], horizon), value, value / (1 - gap))

        def improving_plans(self, instance: bdes.Instance, horizon: int) -> Iterator[bdes.Plan]:
            for gap in (0.5, 0.1, 0.2):
                yielded.append(gap)
                yield self.plan(instance, horizon, gap)

    plugins = bdes.load_plugins()
    monkeypatch.setattr(type(plugins), "planner", lambda *_: Improving())
    report = bdes.report_plan(plugins, bdes.Instance([0.5], [1.0], 0.5), 5, seconds=seconds)
    assert report.plan.gap == pytest.approx(gap)
    assert len(yielded) == n_plans


def test_report_plan_names_planners_that_stop() -> None:
    message = r"planner 'greedy' cannot stop early, so takes no time limit; .*: certified"
    with pytest.raises(bdes.InvalidValueError, match=message):
        bdes.report_plan(bdes.load_plugins(), INSTANCE, 5, {"use": "greedy"}, seconds=1)


def test_rounds_of_a_report_are_those_of_the_plan() -> None:
    report = bdes.report_plan(bdes.load_plugins(), INSTANCE, 10_000)
    arms, states, rewards = report.rounds(9_000, 9_050)
    assert arms.tolist() == report.plan.arms[9_000:9_050].tolist()
    assert states == pytest.approx(INSTANCE.states(report.plan.arms)[9_000:9_050], abs=1e-12)
    assert rewards == pytest.approx(INSTANCE.r[arms] * states)
    assert report.shares.sum() == pytest.approx(1)
    nothing = bdes.report_plan(bdes.load_plugins(), bdes.Instance([0.0], [1.0], 0.5), 5)
    assert nothing.lift("greedy") is None
