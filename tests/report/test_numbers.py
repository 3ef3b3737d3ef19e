"""What a report counts, against the same counted by hand."""

import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from bdes_framework import load_run
from bdes_framework.experiment.summary import CellSummary
from bdes_framework.report.data import (
    RunData,
    curve_rows,
    gap_rows,
    lam_rows,
    loglog_rows,
    standings,
)
from bdes_framework.report.labels import spread
from bdes_framework.report.pictures import Choice, picture
from bdes_framework.report.slopes import fit_slopes, table_1
from bdes_framework.report.trajectories import first_cells, replay_trajectories
from tests.support.reports import (
    PLAIN,
    totals,
)

T_4 = 2.776445
"""The 97.5 % point of Student's t with 4 degrees of freedom, from a table."""


def test_curves_are_means_with_student_s_intervals(data: RunData) -> None:
    panel = data.panels()[0]
    assert (panel.horizon, panel.measure) == (4000, "regret")
    curves = data.run.curves("bernoulli", "ucb1", 4000)
    assert curves.regret is not None
    rows = [row for row in curve_rows(data, panel) if row["policy"] == "ucb1"]
    assert [row["round"] for row in rows] == curves.checkpoints.tolist()
    for row, column in zip(rows, curves.regret.T, strict=True):
        half = T_4 * np.std(column, ddof=1) / math.sqrt(5)
        assert row["value"] == pytest.approx(np.mean(column))
        assert row["high"] - row["value"] == pytest.approx(half, rel=1e-4, abs=1e-9)


def test_long_curves_keep_their_ends_and_few_points(data: RunData) -> None:
    rows = [r for r in curve_rows(data, data.panels()[0], points=12) if r["policy"] == "etc"]
    assert len(rows) == 12
    assert (rows[0]["round"], rows[-1]["round"]) == (1, 4000)


def test_who_is_behind_is_paired_by_replication(data: RunData) -> None:
    best, other = standings(data, data.panels()[0])
    assert (best.result.policy, best.is_best, best.behind) == ("etc", True, None)
    assert other.behind is not None
    gaps = np.subtract(totals(data, "etc", 4000), totals(data, "ucb1", 4000))
    assert other.behind.mean == pytest.approx(gaps.mean())
    half = T_4 * gaps.std(ddof=1) / math.sqrt(5)
    assert other.behind.half_width == pytest.approx(half, rel=1e-4)
    assert other.is_tied == (abs(gaps.mean()) <= half)


def test_slopes_are_those_of_least_squares_with_an_interval_around_them(data: RunData) -> None:
    fits = fit_slopes(data.records)
    for policy in ("ucb1", "etc"):
        means = [
            statistics.fmean(r.regret or 0 for r in data.records
                             if r.policy == policy and r.horizon == horizon)
            for horizon in data.horizons
        ]  # fmt: skip
        slope, intercept = np.polyfit(np.log(data.horizons), np.log(means), 1)
        fit = fits["bernoulli", policy]
        assert fit.slope == pytest.approx(slope)
        assert fit.at(500) == pytest.approx(math.exp(intercept) * 500**slope)
        assert fit.low is not None
        assert fit.high is not None
        assert fit.low <= fit.slope <= fit.high


def test_the_slope_of_a_power_is_its_exponent_and_needs_two_horizons() -> None:
    records = [
        CellSummary("e", "p", horizon, k, 1.0, 1.0, regret=3 * horizon**0.6)
        for horizon in (100, 1000, 10_000)
        for k in range(4)
    ]
    fit = fit_slopes(records)["e", "p"]
    assert (fit.slope, fit.low, fit.high) == pytest.approx((0.6, 0.6, 0.6))
    assert fit_slopes(records[:4]) == {}
    negative = [CellSummary("e", "p", t, 0, 1.0, 1.0, regret=-1.0) for t in (100, 1000)]
    assert fit_slopes(negative) == {}


def test_a_slope_s_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        records = [
            CellSummary("e", "p", t, k, 1.0, 1.0, regret=float(t**0.6 * rng.gamma(4, 1 / 4)))
            for t in (100, 1000, 10_000)
            for k in range(30)
        ]
        fit = fit_slopes(records)["e", "p"]
        assert fit.low is not None
        assert fit.high is not None
        covered += fit.low <= 0.6 <= fit.high
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize(
    ("lam", "exponent"),
    [
        (0.0, 1 / 2),
        (1e-8, 1 / 2),
        (1e-6, 2 / 3),  # T^-1.5: the paper's T^(b/a)
        (1e-4, 1.0),
        (0.01, 2 / 3),
        (0.98, 2 / 3),
        (0.995, 1 / 2),
        (1.0, 1 / 2),
    ],
)
def test_table_1_s_exponents_by_regime(lam: float, exponent: float) -> None:
    assert table_1(lam, 10_000).exponent == pytest.approx(exponent)


def test_the_gap_is_what_the_planner_proved(data: RunData) -> None:
    from bdes_framework import Instance, load_plugins

    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.3)
    for row in gap_rows(data):
        plan = load_plugins().planner("certified").plan(instance, row["T"])
        assert row["value"] == pytest.approx(plan.value)
        assert row["gap"] == pytest.approx(plan.upper_bound - plan.value, abs=1e-6)


def test_a_path_is_the_cell_s_own_states_and_arms(data: RunData) -> None:
    paths = replay_trajectories(data, first_cells(4), experiment=None, seconds=60)
    assert paths.reasons == []
    assert [(p.policy, p.horizon, p.replication) for p in paths.found] == [
        ("ucb1", 4000, 0), ("etc", 4000, 0), ("ucb1", 1000, 0), ("etc", 1000, 0),
    ]  # fmt: skip
    for path in paths.found:
        lengths = [row["until"] - row["round"] + 1 for row in path.states[:-1]]
        assert sum(lengths) == path.horizon
        # A state is the running mean of b over arms: with b = 0.1 and 1 it stays between them.
        assert all(0.1 <= row["lowest"] <= row["state"] + 1e-9 for row in path.states)
        assert all(row["state"] <= row["highest"] + 1e-9 <= 1 + 2e-9 for row in path.states)
        pulls = dict.fromkeys(path.arm_names, 0.0)
        for name in path.arm_names:
            shares = [row["share"] for row in path.arms if row["arm"] == name][:-1]
            pulls[name] = float(np.dot(shares, lengths))
        assert sum(pulls.values()) == pytest.approx(path.horizon)
        if path.policy == "etc":
            assert pulls["arm 1"] > pulls["arm 0"]


def test_a_cell_that_earns_something_else_when_played_again_is_not_shown(
    data: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.records = [evolve(record, total_mean=-1.0) for record in data.records]
    paths = replay_trajectories(data, first_cells(1), experiment=None, seconds=60)
    assert paths.found == []
    assert "earned something else" in paths.reasons[0]


def test_a_run_of_another_experiment_file_is_not_played_again(
    data: RunData, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(PLAIN.replace("lam = 0.3", "lam = 0.4"))
    paths = replay_trajectories(data, first_cells(1), experiment=changed, seconds=60)
    assert paths.found == []
    assert "no longer what this run was made with" in paths.reasons[0]


def test_local_modules_of_a_run_are_not_run_unasked(hostile: Path, tmp_path: Path) -> None:
    run = load_run(hostile)
    found = RunData(run)
    alone = replay_trajectories(found, first_cells(1), experiment=None, seconds=60)
    assert alone.found == []
    assert "--experiment" in alone.reasons[0]
    named = replay_trajectories(
        found, first_cells(1), experiment=hostile.parent / "experiment.toml", seconds=60
    )
    assert len(named.found) == 1
    run.close()


def test_labels_never_cover_each_other_and_stay_on_the_axis() -> None:
    places = spread([1.0, 1.0, 1.1, 9.9, 10.0], 0.0, 10.0)
    gaps = np.diff(sorted(places))
    assert gaps.min() >= 0.5 - 1e-9
    assert min(places) >= 0
    assert max(places) <= 10
    assert spread([2.0, 8.0], 0.0, 10.0) == pytest.approx([2.0, 8.0])
    logs = np.log(spread([1.0, 1.01, 100.0], 1.0, 1000.0, log=True))
    assert np.diff(logs).min() >= math.log(1000) * 0.05 - 1e-9


def test_slopes_beside_log_axes_never_cover_each_other_nor_get_cut_off(hostile: Path) -> None:
    run = load_run(hostile)
    found = RunData(run)
    label = next(iter(found.environment_names))
    rows = loglog_rows(found, label, fit_slopes(found.records), found.policies)
    run.close()
    bars = [row[end] for row in rows if row["kind"] == "mean" for end in ("drawn_low", "high")]
    decades = math.ceil(math.log10(max(bars))) - math.floor(math.log10(min(bars)))
    places = sorted({math.log10(row["label_at"]) for row in rows if "label_at" in row})
    assert len(places) == 4
    assert np.diff(places).min() >= decades * 0.05 - 1e-9
    slopes = [row["label"] for row in rows if row["kind"] == "fit"]
    assert all(re.fullmatch(r".{1,16}: \d\.\d\d", slope) for slope in slopes)


def test_what_shares_an_axis_across_lam_is_measured_alike(hostile: Path) -> None:
    run = load_run(hostile)
    found = RunData(run)
    assert {row["measure"] for row in lam_rows(found)} == {"regret"}
    # As if the benchmark of one lam had failed at the longer horizon.
    place = "two ads (lam=0.3)", 2000
    found._records[place] = [evolve(record, regret=None) for record in found._records[place]]
    rows = lam_rows(found)
    assert {row["measure"] for row in rows if row["horizon"] == 2000} == {"reward"}
    assert {row["measure"] for row in rows if row["horizon"] == 200} == {"regret"}
    assert all(0 <= row["value"] <= 1 for row in rows if row["horizon"] == 2000)
    drawn = picture(found, "lam", Choice()).to_json()
    run.close()
    assert "two ads, T = 2,000" in drawn
    assert "mean expected reward per round" in drawn
