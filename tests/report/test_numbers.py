"""The numbers of a report, against the same computed by hand."""

import io
import math
import re
from collections.abc import Hashable
from pathlib import Path

import altair as alt
import numpy as np
import pytest
from attrs import evolve

from bdes_framework import Instance, InvalidValueError, load_plugins, load_run
from bdes_framework.experiment.result_table import Pooled
from bdes_framework.experiment.summary import Estimate
from bdes_framework.report import charts
from bdes_framework.report.data import (
    SHARE,
    RunData,
    Setting,
    across_rows,
    axis_of,
    curve_rows,
    final_rows,
    gap_rows,
    loglog_rows,
)
from bdes_framework.report.labels import drawn_range, spread
from bdes_framework.report.pictures import Choice, picture
from bdes_framework.report.slopes import SlopeFit, fit_slopes, table_1
from bdes_framework.report.trajectories import Trajectories, first_cells, replay_trajectories
from tests.support.reports import PLAIN

T_2 = 4.302653
T_4 = 2.776445
"""The 97.5 % points of Student's t with 2 and 4 degrees of freedom, from a table."""


def fit_regret(regret: dict[int, list[float]]) -> SlopeFit | None:
    """Return the fit of one policy by its regret at each horizon, a value per replication."""
    draws: dict[int, dict[Hashable, float]] = {
        t: dict(enumerate(values)) for t, values in regret.items()
    }
    return fit_slopes({"p": draws}).get("p")


def replay(data: RunData, n: int = 1, experiment: Path | None = None) -> Trajectories:
    return replay_trajectories(data, first_cells(data, n), experiment=experiment, seconds=60)


def longest(data: RunData) -> Setting:
    return data.settings()[0]


def test_curves_have_student_intervals(data: RunData) -> None:
    setting = longest(data)
    assert (setting.horizon, data.has_regret(setting)) == (4000, True)
    curves = data.run.curves("bernoulli", "ucb1", 4000)
    assert curves.regret is not None
    rows = [row for row in curve_rows(data, setting, "regret") if row["policy"] == "ucb1"]
    assert [row["round"] for row in rows] == curves.checkpoints.tolist()
    half = T_4 * curves.regret.std(axis=0, ddof=1) / math.sqrt(5)
    assert [row["value"] for row in rows] == pytest.approx(curves.regret.mean(axis=0))
    halves = [row["high"] - row["value"] for row in rows]
    assert halves == pytest.approx(half, rel=1e-4, abs=1e-9)


def test_curves_of_a_study_are_over_instances(study_data: RunData) -> None:
    setting = longest(study_data)
    assert study_data.name_of(setting) == "bernoulli, lam = 0.05, T = 200"
    assert len(study_data.settings()) == 4
    assert len(setting.variants) == 3
    means = []
    for label in setting.variants:
        regret = study_data.run.curves(label, "etc", 200).regret
        assert regret is not None
        means.append(regret.mean(axis=0))
    rows = [row for row in curve_rows(study_data, setting, "regret") if row["policy"] == "etc"]
    half = T_2 * np.std(means, axis=0, ddof=1) / math.sqrt(3)
    assert [row["value"] for row in rows] == pytest.approx(np.mean(means, axis=0))
    assert [row["high"] for row in rows] == pytest.approx(np.mean(means, axis=0) + half, rel=1e-4)
    # The curve ends where the tables say.
    (final,) = [r for r in final_rows(study_data, setting, "regret") if r["policy"] == "etc"]
    assert (rows[-1]["value"], rows[-1]["low"]) == pytest.approx((final["value"], final["low"]))


def test_share_chart_has_the_table_s_numbers(study_data: RunData) -> None:
    assert axis_of(study_data) == "lam"
    settings = [setting for setting in study_data.settings() if setting.horizon == 200]
    rows = across_rows(study_data, settings, "lam", "share")
    assert {row["panel"] for row in rows} == {"bernoulli, T = 200"}
    table = study_data.table
    assert (table.by, table.groups, table.horizon) == (("lam",), ((0.05,), (0.3,)), 200)
    drawn = {(row["policy"], row["lam"]): (row["value"], row["high"]) for row in rows}
    for row in table.rows:
        for (lam,), own in zip(table.groups, row.groups, strict=True):
            assert own is not None
            assert own.share is not None
            assert own.share.half_width is not None
            ends = (own.share.mean, own.share.mean + own.share.half_width)
            assert drawn[row.policy, lam] == pytest.approx(ends)
    # Bars stand beside each other, where they belong.
    places = [row["drawn_at"] for row in rows]
    assert len(set(places)) == 4
    assert places == pytest.approx([row["lam"] for row in rows], abs=0.05 * (0.3 - 0.05))


def test_thinned_curves_keep_their_ends(data: RunData) -> None:
    found = curve_rows(data, longest(data), "regret", points=12)
    rows = [row for row in found if row["policy"] == "etc"]
    assert len(rows) == 12
    assert (rows[0]["round"], rows[-1]["round"]) == (1, 4000)


def test_only_the_environments_asked_for_are_read(study: Path) -> None:
    with load_run(study) as run:
        whole, one = RunData(run), RunData(run, ["bernoulli (arms.seed=1, lam=0.3)"])
        assert RunData(run, ["bernoulli"]).cells == whole.cells
        with pytest.raises(InvalidValueError, match="Did you mean 'bernoulli'"):
            RunData(run, ["bernouli"])
    assert [len(setting.variants) for setting in one.settings()] == [1, 1]
    assert {cell.environment for cell in one.cells} == {"bernoulli (arms.seed=1, lam=0.3)"}


def test_slopes_are_least_squares_lines(data: RunData) -> None:
    fits = fit_slopes(data.regret_draws())
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


def axis_of_picture(data: RunData, chart: str, letter: str) -> tuple[float, float]:
    """Return where an axis of a picture starts and ends."""
    svg = io.StringIO()
    picture(data, chart, Choice()).save(svg, format="svg")
    found = re.search(f'{letter}-axis titled .* values from (\\S+?)%? to ([^%"]+)', svg.getvalue())
    assert found is not None
    start, end = (float(number.replace("\N{MINUS SIGN}", "-")) for number in found.groups())
    return start, end


def test_gaps_axis_starts_a_decade_below_them(data: RunData) -> None:
    least = min(row["drawn_gap"] for row in gap_rows(data))
    assert axis_of_picture(data, "gap", "X")[0] == pytest.approx(least / 10, rel=0.5)


def test_intervals_of_shares_are_cut_at_the_axis(
    study_data: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooled = study_data.pooled

    def wide(setting: Setting) -> dict[str, Pooled]:
        """Return results that three instances tell next to nothing of."""
        return {k: evolve(v, share=Estimate(0.8, 5.0)) for k, v in pooled(setting).items()}

    monkeypatch.setattr(study_data, "pooled", wide)
    (row, *_) = final_rows(study_data, study_data.settings()[0], SHARE)
    assert (row["low"], row["high"]) == (pytest.approx(-4.2), pytest.approx(5.8))
    assert (row["drawn_low"], row["drawn_high"]) == (0, 1)
    start, end = axis_of_picture(study_data, "share", "Y")
    assert -10 < start <= 0
    assert 100 <= end < 110


def test_each_panel_has_the_whole_axis(study_data: RunData) -> None:
    lams, names = [0.05, 0.3], list(study_data.policies)
    rows = across_rows(study_data, study_data.settings(), "lam", SHARE)
    drawn = [row["drawn_at"] for row in rows]
    assert drawn_range(lams, len(names)) == (min(drawn), max(drawn))
    few = [row for row in rows if row["lam"] == 0.3]
    chart = charts.across(study_data.policies, SHARE, "lam", lams).properties(width=400)
    chart.data = alt.InlineData(values=few)
    drawing = io.StringIO()
    chart.save(drawing, format="svg")
    points = re.findall(r'<path[^>]*roledescription="point"[^>]*>', drawing.getvalue())
    dots = [place[1] for dot in points if (place := re.search(r"translate\(([\d.]+)", dot))]
    assert len(dots) == len(few)
    assert min(map(float, dots)) > 350  # at the end of an axis from 0.05 to 0.3


def test_numbers_beside_dots_stand_at_the_edge(data: RunData) -> None:
    drawing = io.StringIO()
    picture(data, "final", Choice(width=400)).save(drawing, format="svg")
    numbers = re.findall(r"<text[^>]*translate\(([\d.]+)[^>]*>[^<]* ± ", drawing.getvalue())
    assert set(map(float, numbers)) == {409}  # where the plot ends: beside bars they may be cut
    assert len(numbers) == 2


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
    label = hostile_data.name_of(longest(hostile_data), ("T",))
    fits = fit_slopes(hostile_data.regret_draws())
    rows = loglog_rows(hostile_data, label, fits, hostile_data.policies)
    bars = [row[end] for row in rows if row["kind"] == "mean" for end in ("drawn_low", "high")]
    decades = math.ceil(math.log10(max(bars))) - math.floor(math.log10(min(bars)))
    places = sorted({math.log10(row["label_at"]) for row in rows if "label_at" in row})
    assert len(places) == 4
    assert np.diff(places).min() >= decades * 0.05 - 1e-9
    slopes = [row["label"] for row in rows if row["kind"] == "fit"]
    assert all(re.fullmatch(r".{1,16}: \d\.\d\d", slope) for slope in slopes)


def test_slopes_of_a_study_are_over_instances(study_data: RunData) -> None:
    draws = study_data.regret_draws()["bernoulli, lam = 0.3", "etc"]
    assert {horizon: len(own) for horizon, own in draws.items()} == {50: 3, 200: 3}
    cells = [
        cell.regret
        for cell in study_data.cells
        if (cell.policy, cell.horizon) == ("etc", 200) and "lam=0.3" in cell.environment
    ]
    assert len(cells) == 6
    assert np.mean(list(draws[200].values())) == pytest.approx(np.mean(cells))  # type: ignore[arg-type]


def test_lam_chart_shares_one_measure(hostile_data: RunData) -> None:
    drawn = picture(hostile_data, "lam", Choice()).to_json()
    assert "mean DES regret" in drawn
    # As if the benchmark of one lam had failed at the longer horizon.
    cells = hostile_data._cells[longest(hostile_data).variants[0], 2000]
    cells[:] = [evolve(cell, regret=None) for cell in cells]
    drawn = picture(hostile_data, "lam", Choice()).to_json()
    assert "two ads, T = 2,000" in drawn
    assert "mean expected reward per round" in drawn
    assert "mean DES regret" in picture(hostile_data, "lam", Choice(horizon=200)).to_json()
