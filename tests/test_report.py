"""Reports and charts without a browser: their numbers, their words, and what they refuse."""

import itertools
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from bdes_framework import load_run
from bdes_framework.cli import main
from bdes_framework.records import CellRecord
from bdes_framework.report.charts import spread
from bdes_framework.report.data import (
    RunData,
    curve_rows,
    final_rows,
    gap_rows,
    lam_rows,
    standings,
)
from bdes_framework.report.diagnostics import _typical
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.paths import first_cells, replay
from bdes_framework.report.pictures import Choice, picture, save
from bdes_framework.report.rows import loglog_rows
from bdes_framework.report.slopes import fit_slopes, table_1
from tests.reports import (
    EXPERIMENT,
    HOSTILE_ERROR,
    HOSTILE_NAME,
    HOSTILE_POLICY,
    PLAIN,
    make_run,
)

T_4 = 2.776445
"""The 97.5 % point of Student's t with 4 degrees of freedom, from a table."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("hostile"), EXPERIMENT)


@pytest.fixture
def data(plain: Path) -> Iterator[RunData]:
    run = load_run(plain)
    yield RunData(run)
    run.close()


class Page(HTMLParser):
    """Collects a page's tags, its visible text and the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._inside: list[str] = []
        self._rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "img"):
            self._inside.append(tag)
        if tag == "table":
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, f"{tag} closes what it did not open"
        if tag == "caption":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] in ("script", "style"):
            return
        self.text += data
        if "caption" in self._inside:
            self._caption = data
        elif self._rows and self._inside and {"td", "th"} & set(self._inside):
            self._rows[-1][-1] += data


@pytest.fixture(scope="module")
def plain_page(plain: Path) -> Page:
    run = load_run(plain)
    page = report_page(RunData(run), Settings(paths=2))
    run.close()
    return Page(page)


# -- numbers --------------------------------------------------------------------------------


def totals(data: RunData, policy: str, horizon: int) -> list[float]:
    return [
        record.total_mean or 0.0
        for record in data.records
        if record.policy == policy and record.horizon == horizon
    ]


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
        CellRecord("e", "p", horizon, k, 1.0, 1.0, 3 * horizon**0.6)
        for horizon in (100, 1000, 10_000)
        for k in range(4)
    ]
    fit = fit_slopes(records)["e", "p"]
    assert (fit.slope, fit.low, fit.high) == pytest.approx((0.6, 0.6, 0.6))
    assert fit_slopes(records[:4]) == {}
    negative = [CellRecord("e", "p", t, 0, 1.0, 1.0, -1.0) for t in (100, 1000)]
    assert fit_slopes(negative) == {}


def test_a_slope_s_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        records = [
            CellRecord("e", "p", t, k, 1.0, 1.0, float(t**0.6 * rng.gamma(4, 1 / 4)))
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
    paths = replay(data, first_cells(4), experiment=None, seconds=60)
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
    paths = replay(data, first_cells(1), experiment=None, seconds=60)
    assert paths.found == []
    assert "earned something else" in paths.reasons[0]


def test_a_run_of_another_experiment_file_is_not_played_again(
    data: RunData, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(PLAIN.replace("lam = 0.3", "lam = 0.4"))
    paths = replay(data, first_cells(1), experiment=changed, seconds=60)
    assert paths.found == []
    assert "no longer what this run was made with" in paths.reasons[0]


def test_local_modules_of_a_run_are_not_run_unasked(hostile: Path, tmp_path: Path) -> None:
    run = load_run(hostile)
    found = RunData(run)
    alone = replay(found, first_cells(1), experiment=None, seconds=60)
    assert alone.found == []
    assert "--experiment" in alone.reasons[0]
    named = replay(found, first_cells(1), experiment=hostile.parent / "experiment.toml", seconds=60)
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
    assert "mean expected reward a round" in drawn


# -- the page -------------------------------------------------------------------------------


def test_the_page_s_tables_say_what_was_measured(plain_page: Page, data: RunData) -> None:
    rows = plain_page.tables["Results by environment, horizon and policy"][1:]
    assert len(rows) == 6
    top = rows[0]
    assert top[:3] == ["bernoulli", "4,000", "etc"]
    (result,) = [r for r in data.results if (r.policy, r.horizon) == ("etc", 4000)]
    assert result.regret is not None
    assert top[3].startswith(f"{result.regret.mean:,.1f} ± ")
    assert top[-1] == "best"
    slopes = plain_page.tables["Log-log slopes of mean regret over horizons"][1:]
    fits = fit_slopes(data.records)
    assert [float(row[2]) for row in slopes] == [
        pytest.approx(fits["bernoulli", row[1]].slope, abs=0.005) for row in slopes
    ]
    assert {row[4] for row in slopes} == {"0.67"}


def test_the_page_s_sections_stand_in_the_order_of_the_questions(plain_page: Page) -> None:
    ids = [attributes["id"] for tag, attributes in plain_page.tags if tag == "section"]
    assert ids == ["run", "won", "growth", "lam", "paths", "gap", "diagnostics", "failures"]
    levels = [int(tag[1]) for tag, _ in plain_page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_the_headline_names_who_won_at_the_longest_horizon(plain_page: Page) -> None:
    assert "30 cells: 2 policies, 1 environment, 3 horizons." in plain_page.text
    assert "At T = 4,000, etc earned the most." in plain_page.text


def test_diagnostics_read_as_words_and_short_numbers() -> None:
    assert _typical(["0 · (0 1) × 3", "0 · (0 1) × 3"]) == "0 · (0 1) × 3"
    assert _typical([[0.1234567, 2.0], [1.0]]) == "[0.1235, 2] (1 of 2 replications)"
    assert _typical([2.5, "none", 2.5]) == "2.5 (2 of 3 replications)"
    assert _typical([1000.0, 3000.0]) == "2,000 (1,000 to 3,000)"
    assert _typical([True, True]) == "true"


def test_nothing_on_the_page_comes_from_elsewhere(plain: Path) -> None:
    run = load_run(plain)
    text = report_page(RunData(run), Settings(paths=0))
    run.close()
    page = Page(text)
    (policy,) = [a["content"] for t, a in page.tags if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        if "href" in attributes:
            assert (attributes["href"] or "").startswith("#"), tag


def test_hostile_text_stays_text(hostile: Path) -> None:
    run = load_run(hostile)
    settings = Settings(paths=2, experiment=hostile.parent / "experiment.toml")
    text = report_page(RunData(run), settings)
    run.close()
    page = Page(text)
    assert "64 cells (16 failed): 3 policies, 2 environments, 2 horizons." in page.text
    assert "policies are toldlam, replenishing arm" in page.text
    for words in (HOSTILE_NAME, HOSTILE_POLICY, HOSTILE_ERROR):
        assert words in page.text
        assert words not in text
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "report-data"}, {}, {}]
    assert "img" not in [tag for tag, _ in page.tags]
    block = text.partition('id="report-data">')[2].partition("</script>")[0]
    assert HOSTILE_POLICY[:39] in "".join(json.loads(block)["policies"])


def test_without_a_benchmark_rewards_are_shown_and_never_regret(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path, PLAIN.replace("seed = 3", "seed = 3\nbenchmark = false")))
    found = RunData(run)
    (panel, *_) = found.panels()
    assert panel.measure == "reward"
    (first, *_) = final_rows(found, panel)
    assert first["value"] == pytest.approx(np.mean(totals(found, "ucb1", 4000)) / 4000)
    page = Page(report_page(found, Settings(paths=0)))
    run.close()
    assert "DES regret" not in page.tables["Results by environment, horizon and policy"][0]
    assert "This run has no benchmark" in page.text
    assert "no slope is fitted" in page.text
    assert "Reward over time" in page.text
    assert "Regret before the horizon" not in page.text


def test_a_run_in_which_everything_failed_has_a_page_all_the_same(tmp_path: Path) -> None:
    begin, _, end = EXPERIMENT.partition("[[policies]]")
    text = begin + "[[policies]]" + end.rpartition("[[policies]]")[2]
    run = load_run(make_run(tmp_path, text))
    page = Page(report_page(RunData(run), Settings()))
    run.close()
    assert "No cell has finished well yet." in page.text
    assert "16 of 16 cells failed" in page.text


def test_one_horizon_has_curves_but_no_slope(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path, PLAIN.replace("[100, 1000, 4000]", "[50]")))
    page = Page(report_page(RunData(run), Settings(paths=1)))
    run.close()
    assert "This run has one horizon, so no slope is fitted." in page.text
    # A chart with nothing to pick says all the same what it shows.
    assert "Environment and horizon: bernoulli, T = 50" in page.text
    assert "Cell: ucb1 on bernoulli, T = 50" in page.text


def test_a_page_that_cannot_show_every_curve_says_so(
    data: RunData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bdes_framework.report.figures.MOST_CURVE_POINTS", 48)
    page = Page(report_page(data, Settings(paths=0)))
    assert "1 more environments and horizons are left out" in page.text


# -- commands -------------------------------------------------------------------------------


Bdes = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bdes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bdes:
    """Return the command line, in this process: exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bdes", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return run


def test_report_prints_its_path_and_may_be_written_again(
    bdes: Bdes, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plain.parent)
    for _ in range(2):
        assert bdes("report", "run", "--paths", 1) == (0, "run/report.html\n", "")
    assert "<title>plain</title>" in (plain / "report.html").read_text()
    assert not list(plain.glob("*.tmp"))


def test_report_overwrites_nothing_but_reports_unless_asked(
    bdes: Bdes, plain: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("my own page")
    code, _, error = bdes("report", plain, "--out", mine, "--paths", 0)
    assert code == 2
    assert "is no report; --overwrite replaces it" in error
    assert mine.read_text() == "my own page"
    assert bdes("report", plain, "--out", mine, "--paths", 0, "--overwrite")[0] == 0
    assert "<title>plain</title>" in mine.read_text()


@pytest.mark.parametrize("command", [["report"], ["plot", "--chart", "regret", "-o", "x.svg"]])
def test_what_is_no_run_exits_2(bdes: Bdes, command: list[str], tmp_path: Path) -> None:
    code, _, error = bdes(*command, tmp_path / "nowhere")
    assert code == 2
    assert "is no run" in error
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_exits_2_and_leaves_the_old_one(
    bdes: Bdes, plain: Path, tmp_path: Path
) -> None:
    code, _, error = bdes("report", plain, "--out", tmp_path / "no/where.html", "--paths", 0)
    assert code == 2
    assert "cannot write" in error


@pytest.mark.parametrize("command", [["report"], ["plot", "--chart", "regret", "-o", "x.svg"]])
@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_error_names_it(
    bdes: Bdes, command: list[str], missing: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bdes_framework.cli.report.find_spec", lambda name: None if name == missing else name
    )
    code, _, error = bdes(*command, plain)
    assert code == 2
    assert f"charts need {missing}: install 'bdes-framework[report]'" in error


@pytest.mark.parametrize("chart", ["final", "regret", "loglog", "path", "gap"])
def test_every_chart_is_saved_as_svg_with_its_axes_named(
    chart: str, plain: Path, tmp_path: Path
) -> None:
    run = load_run(plain)
    drawn = picture(RunData(run), chart, Choice())
    run.close()
    save(drawn, tmp_path / "x.svg", "svg")
    text = (tmp_path / "x.svg").read_text()
    axis = {
        "final": "mean DES regret (expected reward lost)",
        "regret": "round",
        "loglog": "horizon T (rounds)",
        "path": "share of pulls",
        "gap": "proven gap / benchmark",
    }[chart]
    assert axis in text
    if chart in ("final", "regret", "loglog"):
        assert "etc" in text
    if chart == "final":
        assert "bernoulli, T = 4,000" in text


def test_plot_draws_across_lam_as_png(bdes: Bdes, hostile: Path, tmp_path: Path) -> None:
    out = tmp_path / "lam.png"
    assert bdes("plot", hostile, "--chart", "lam", "-o", out)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("which", "arguments", "words"),
    [
        ("plain", ["lam", "-o", "x.svg"], "differ in lam alone"),
        ("plain", ["regret", "-o", "x.pdf"], "must end in .svg or .png"),
        ("plain", ["regret", "-o", "x.svg", "--policy", "ucb"], "Did you mean 'ucb1'?"),
        ("plain", ["regret", "-o", "x.svg", "--horizon", "5"], "It has: 100, 1000, 4000"),
        ("hostile", ["path", "-o", "x.svg"], "--experiment"),
        ("hostile", ["regret", "-o", "x.svg", "--policy", "failing"], "have no figure"),
    ],
)
def test_plot_refuses_what_cannot_be_drawn(
    bdes: Bdes, which: str, arguments: list[str], words: str, request: pytest.FixtureRequest
) -> None:
    code, _, error = bdes("plot", request.getfixturevalue(which), "--chart", *arguments)
    assert code == 2
    assert words in error
    assert not Path("x.svg").exists()
