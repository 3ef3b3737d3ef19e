"""The numbers of a report, against the same computed by hand."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from bdes_framework import Instance, load_plugins
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
from bdes_framework.report.slopes import SlopeFit, fit_slopes, table_1
from bdes_framework.report.trajectories import Trajectories, first_cells, replay_trajectories
from tests.support.reports import PLAIN, totals

T_4 = 2.776445
"""The 97.5 % point of Student's t with 4 degrees of freedom, from a table."""


def fit_regret(regret: dict[int, list[float]]) -> SlopeFit | None:
    """Return the fit of one policy by its regret at each horizon, a value per replication."""
    cells = [
        CellSummary("e", "p", t, k, 1.0, 1.0, regret=value)
        for t, values in regret.items()
        for k, value in enumerate(values)
    ]
    return fit_slopes(cells).get(("e", "p"))


def replay(data: RunData, n: int = 1, experiment: Path | None = None) -> Trajectories:
    return replay_trajectories(data, first_cells(n), experiment=experiment, seconds=60)


def test_curves_have_student_intervals(data: RunData) -> None:
    panel = data.panels()[0]
    assert (panel.horizon, panel.measure) == (4000, "regret")
    curves = data.run.curves("bernoulli", "ucb1", 4000)
    assert curves.regret is not None
    rows = [row for row in curve_rows(data, panel) if row["policy"] == "ucb1"]
    assert [row["round"] for row in rows] == curves.checkpoints.tolist()
    half = T_4 * curves.regret.std(axis=0, ddof=1) / math.sqrt(5)
    assert [row["value"] for row in rows] == pytest.approx(curves.regret.mean(axis=0))
    halves = [row["high"] - row["value"] for row in rows]
    assert halves == pytest.approx(half, rel=1e-4, abs=1e-9)


def test_thinned_curves_keep_their_ends(data: RunData) -> None:
    rows = [r for r in curve_rows(data, data.panels()[0], points=12) if r["policy"] == "etc"]
    assert len(rows) == 12
    assert (rows[0]["round"], rows[-1]["round"]) == (1, 4000)


def test_standings_are_paired_by_replication(data: RunData) -> None:
    best, other = standings(data, data.panels()[0])
    assert (best.result.policy, best.is_best, best.behind) == ("etc", True, None)
    assert other.behind is not None
    gaps = np.subtract(totals(data, "etc", 4000), totals(data, "ucb1", 4000))
    assert other.behind.mean == pytest.approx(gaps.mean())
    half = T_4 * gaps.std(ddof=1) / math.sqrt(5)
    assert other.behind.half_width == pytest.approx(half, rel=1e-4)
    assert other.is_tied == (abs(gaps.mean()) <= half)


def test_slopes_are_least_squares_lines(data: RunData) -> None:
    fits = fit_slopes(data.cells)
    for policy in ("ucb1", "etc"):
        cells = [r for r in data.cells if r.policy == policy]
        means = [np.mean([r.regret for r in cells if r.horizon == t]) for t in data.horizons]
        slope, intercept = np.polyfit(np.log(data.horizons), np.log(means), 1)
        fit = fits["bernoulli", policy]
        assert fit.slope == pytest.approx(slope)
        assert fit.at(500) == pytest.approx(math.exp(intercept) * 500**slope)
        assert fit.low is not None
        assert fit.high is not None
        assert fit.low <= fit.slope <= fit.high


def test_slope_of_a_power_is_its_exponent() -> None:
    fit = fit_regret({t: [3 * t**0.6] * 4 for t in (100, 1000, 10_000)})
    assert fit is not None
    assert (fit.slope, fit.low, fit.high) == pytest.approx((0.6, 0.6, 0.6))
    assert fit_regret({100: [1.0] * 4}) is None
    assert fit_regret({100: [-1.0], 1000: [-1.0]}) is None


def test_slope_interval_covers_95_percent() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        fit = fit_regret(
            {t: (t**0.6 * rng.gamma(4, 1 / 4, 30)).tolist() for t in (100, 1000, 10_000)}
        )
        assert fit is not None
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
def test_table_1_exponents_by_regime(lam: float, exponent: float) -> None:
    assert table_1(lam, 10_000).exponent == pytest.approx(exponent)


def test_gap_is_the_one_the_planner_proved(data: RunData) -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.3)
    for row in gap_rows(data):
        plan = load_plugins().planner("certified").plan(instance, row["T"])
        assert row["value"] == pytest.approx(plan.value)
        assert row["gap"] == pytest.approx(plan.gap, abs=1e-9)
        assert row["difference"] == pytest.approx(plan.upper_bound - plan.value, abs=1e-6)


def test_trajectory_bins_sum_to_the_cell(data: RunData) -> None:
    paths = replay(data, 4)
    assert paths.reasons == []
    cells = [(path.policy, path.horizon, path.replication) for path in paths.found]
    assert cells == [(policy, t, 0) for t in (4000, 1000) for policy in ("ucb1", "etc")]
    for path in paths.found:
        lengths = [row["until"] - row["round"] + 1 for row in path.states[:-1]]
        assert sum(lengths) == path.horizon
        # A state is the running mean of b over arms: with b = 0.1 and 1 it stays between them.
        assert all(0.1 <= row["lowest"] <= row["state"] + 1e-9 for row in path.states)
        assert all(row["state"] <= row["highest"] + 1e-9 <= 1 + 2e-9 for row in path.states)
        pulls = {
            name: np.dot([row["share"] for row in path.arms if row["arm"] == name][:-1], lengths)
            for name in path.arm_names
        }
        assert sum(pulls.values()) == pytest.approx(path.horizon)
        if path.policy == "etc":
            assert pulls["arm 1"] > pulls["arm 0"]


def test_replay_shows_only_what_is_the_run_s(
    data: RunData, hostile_data: RunData, hostile: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(PLAIN.replace("lam = 0.3", "lam = 0.4"))
    other_file = replay(data, experiment=changed)
    data.cells = [evolve(cell, total_mean=-1.0) for cell in data.cells]
    local_modules = replay(hostile_data)
    for paths, reason in (
        (other_file, "the experiment file has changed since this run was made"),
        (replay(data), "earned something else"),
        (local_modules, "--experiment"),
    ):
        assert paths.found == []
        assert reason in paths.reasons[0]
    assert len(replay(hostile_data, experiment=hostile.parent / "experiment.toml").found) == 1


def test_spread_labels_stay_apart_and_on_axis() -> None:
    places = spread([1.0, 1.0, 1.1, 9.9, 10.0], 0.0, 10.0)
    assert np.diff(sorted(places)).min() >= 0.5 - 1e-9
    assert min(places) >= 0
    assert max(places) <= 10
    assert spread([2.0, 8.0], 0.0, 10.0) == pytest.approx([2.0, 8.0])
    logs = np.log(spread([1.0, 1.01, 100.0], 1.0, 1000.0, log=True))
    assert np.diff(logs).min() >= math.log(1000) * 0.05 - 1e-9


def test_slope_labels_stay_apart_and_whole(hostile_data: RunData) -> None:
    label = next(iter(hostile_data.environment_names))
    fits = fit_slopes(hostile_data.cells)
    rows = loglog_rows(hostile_data, label, fits, hostile_data.policies)
    bars = [row[end] for row in rows if row["kind"] == "mean" for end in ("drawn_low", "high")]
    decades = math.ceil(math.log10(max(bars))) - math.floor(math.log10(min(bars)))
    places = sorted({math.log10(row["label_at"]) for row in rows if "label_at" in row})
    assert len(places) == 4
    assert np.diff(places).min() >= decades * 0.05 - 1e-9
    slopes = [row["label"] for row in rows if row["kind"] == "fit"]
    assert all(re.fullmatch(r".{1,16}: \d\.\d\d", slope) for slope in slopes)


def test_lam_rows_share_one_measure_per_axis(hostile_data: RunData) -> None:
    assert {row["measure"] for row in lam_rows(hostile_data)} == {"regret"}
    # As if the benchmark of one lam had failed at the longer horizon.
    cells = hostile_data.cells_of(hostile_data.panels()[0])
    assert cells[0].horizon == 2000
    cells[:] = [evolve(cell, regret=None) for cell in cells]
    rows = lam_rows(hostile_data)
    measures = {(row["horizon"], row["measure"]) for row in rows}
    assert measures == {(2000, "reward"), (200, "regret")}
    assert all(0 <= row["value"] <= 1 for row in rows if row["horizon"] == 2000)
    drawn = picture(hostile_data, "lam", Choice()).to_json()
    assert "two ads, T = 2,000" in drawn
    assert "mean expected reward per round" in drawn
