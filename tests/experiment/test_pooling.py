"""Pooled results: intervals over instances, paired differences, ranks, and the answer."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bdes_framework import (
    Cell,
    InvalidValueError,
    ResultTable,
    Run,
    load_experiment,
    load_run,
    run_experiment,
)
from bdes_framework.experiment.pooling import (
    Observations,
    Sample,
    Unit,
    Variant,
    differences,
    estimate_of,
    pool,
)
from bdes_framework.experiment.result_table import interval_words
from bdes_framework.experiment.summary import CellSummary
from tests.support import experiments as support
from tests.support.experiments import changed

STUDY = changed(
    support.STUDY,
    ("[20, 40]", "[40, 100]"),
    ("[1, 2, 3]", "[1, 2, 3, 4, 5]"),
    ("[0.1, 0.5, 0.9]", "[0.1, 0.9]"),
    ('\n[[policies]]\nuse = "exp3"\n', ""),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(STUDY)
    return run_experiment(folder / "study.toml", out=folder / "run", engine="serial")


def unit(instance: str, environment: str = "e", horizon: int = 100, variant: str = "") -> Unit:
    return Unit(variant or f"{environment}{instance}", horizon, environment, instance)


def cell(
    environment: str, policy: str, share: float | None, replication: int = 0, horizon: int = 100
) -> CellSummary:
    if share is None:
        return CellSummary(environment, policy, horizon, replication, None, None, "it broke")
    mean = share * horizon
    return CellSummary(environment, policy, horizon, replication, mean, mean, None, horizon - mean)


def table_of(cells: list[CellSummary]) -> ResultTable:
    places = {(c.environment, c.horizon): Variant("e", instance=c.environment) for c in cells}
    return pool(Observations("test", places, {}, cells))


def test_table_equals_a_pandas_computation(run: Run) -> None:
    frame = run.to_pandas()
    frame = frame[frame["T"] == 100].copy()
    frame["share"] = frame.total_mean / frame.OPT
    by_instance = frame.groupby(["policy", "lam", "instance"])[["share", "regret"]].mean()
    groups = by_instance.groupby(["policy", "lam"])
    mean, error = groups.mean(), groups.sem()
    table = run.table()
    assert table.groups == ((0.1,), (0.9,))
    for row in table.rows:
        for (lam,), found in zip(table.groups, row.groups, strict=True):
            assert found is not None
            for name in ("share", "regret"):
                estimate = getattr(found, name)
                assert estimate.mean == pytest.approx(mean.loc[row.policy, lam][name])
                half = stats.t.ppf(0.975, 4) * error.loc[row.policy, lam][name]
                assert estimate.half_width == pytest.approx(half)


def test_overall_interval_averages_settings_first(run: Run) -> None:
    frame = run.to_pandas()
    frame = frame[frame["T"] == 100].copy()
    by_instance = frame.groupby(["policy", "instance"]).share.mean().unstack(0)
    for row in run.table().rows:
        own = by_instance[row.policy]
        assert row.overall is not None
        assert row.overall.share is not None
        assert row.overall.share.mean == pytest.approx(own.mean())
        assert row.overall.share.half_width == pytest.approx(stats.t.ppf(0.975, 4) * own.sem())


def test_every_environment_counts_the_same(tmp_path: Path) -> None:
    second = """
[[environments]]
use = "bernoulli"
label = "few"
arms = {generator = "click-bait", n = 2, seed = [7, 8]}
lam = 0.1
"""
    text = STUDY.replace("lam = [0.1, 0.9]", "lam = [0.1, 0.5, 0.9]" + second)
    (tmp_path / "study.toml").write_text(text.replace("[40, 100]", "[40]"))
    with run_experiment(tmp_path / "study.toml", out=tmp_path / "run", engine="serial") as run:
        table = run.table()
        frame = run.to_pandas()
    means = frame.groupby(["policy", "environment", "lam", "instance"]).share.mean()
    of_environments = means.groupby(["policy", "environment"]).mean()
    expected = of_environments.groupby("policy").mean()
    assert not np.allclose(expected, means.groupby("policy").mean())  # settings count otherwise
    for row in table.rows:
        assert row.overall is not None
        assert row.overall.share is not None
        assert np.isclose(row.overall.share.mean, expected[row.policy])
    line = "all: every environment counts the same, however many settings it has"
    assert line in table.legend
    assert "each number is a mean over environments" in table.legend
    assert any(own.endswith("; 17: 7 instances at all their settings") for own in table.legend)


def test_legend_says_what_is_counted(run: Run) -> None:
    legend = run.table().legend
    assert "first on: how often it earns the most; 10: 5 instances at 2 values of lam" in legend
    assert not any("every environment" in line for line in legend)
    words = interval_words("both", 3, 4)
    assert words == "instances; in environments with only one, over 4 replications"


def test_intervals_over_instances_cover_the_truth() -> None:
    rng, n_held, n_trials, truth = np.random.default_rng(11), 0, 2_000, 0.8
    for _ in range(n_trials):
        of_instances = rng.normal(truth, 0.05, 12)
        sample = {
            unit(str(i)): dict(enumerate(rng.normal(mean, 0.1, 3)))
            for i, mean in enumerate(of_instances)
        }
        found = estimate_of(sample)
        assert found.half_width is not None
        n_held += abs(found.mean - truth) <= found.half_width
    assert 0.93 <= n_held / n_trials <= 0.97


def test_intervals_cover_with_settings_that_share_arms() -> None:
    rng, n_held, n_trials = np.random.default_rng(12), 0, 2_000
    for _ in range(n_trials):
        sample: Sample = {}
        for i, mean in enumerate(rng.normal(0.5, 0.05, 10)):
            for lam in (0.1, 0.5, 0.9):
                one = unit(str(i), variant=f"{i} {lam}")
                sample[one] = {0: mean + lam + rng.normal(0, 0.02)}
        found = estimate_of(sample)
        assert found.half_width is not None
        n_held += abs(found.mean - 1.0) <= found.half_width
    assert 0.93 <= n_held / n_trials <= 0.97


def test_several_environments_have_welchs_interval() -> None:
    rng = np.random.default_rng(5)
    one, other = rng.normal(0, 1, 6), rng.normal(0, 3, 11)
    sample = {unit(str(i), "a"): {0: x} for i, x in enumerate(one)}
    sample |= {unit(str(i), "b"): {0: -x} for i, x in enumerate(other)}
    found = estimate_of(sample)
    welch = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert found.half_width is not None
    assert 2 * (found.mean - found.half_width) == pytest.approx(welch.low)
    assert 2 * (found.mean + found.half_width) == pytest.approx(welch.high)


def test_one_instance_has_intervals_over_replications() -> None:
    sample = {unit(""): {0: 1.0, 1: 3.0}}
    found = estimate_of(sample)
    assert found.mean == 2
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 1))
    assert estimate_of({unit(""): {0: 1.0}}).half_width is None


def test_differences_are_of_what_both_have() -> None:
    one = {unit("1"): {0: 3.0, 1: 5.0}, unit("2"): {0: 1.0}}
    other = {unit("1"): {1: 1.0, 2: 9.0}, unit("3"): {0: 1.0}}
    assert differences(one, other) == {unit("1"): {1: 4.0}}


def test_policies_are_ranked_and_the_tied_are_marked() -> None:
    spread = [0.0, 0.02, -0.03, 0.01]
    cells = [cell(str(i), "b", 0.9 + x) for i, x in enumerate(spread)]
    cells += [cell(str(i), "a", 0.9 + x + (-1) ** i * 0.001) for i, x in enumerate(spread)]
    cells += [cell(str(i), "c", 0.5 + x) for i, x in enumerate(spread)]
    table = table_of(cells)
    assert [row.policy for row in table.rows] == ["b", "a", "c"]
    marks = [row.overall and (row.overall.is_best, row.overall.is_tied) for row in table.rows]
    assert marks == [(True, False), (False, True), (False, False)]
    last = table.rows[-1].overall
    assert last is not None
    assert last.behind is not None
    assert last.behind.mean == pytest.approx(0.4)
    assert last.behind.half_width == pytest.approx(0, abs=1e-12)  # paired: the spread cancels out


def test_sentence_says_who_wins_and_how_far_ahead() -> None:
    cells = [cell(str(i), "good", 0.9 + i / 100) for i in range(3)]
    cells += [cell(str(i), "bad", 0.8 + i / 100 - (i == 2) * 0.01) for i in range(3)]
    assert table_of(cells).sentence == (
        "good earns 91.0 ± 2.5 % of the best sequence, 10.3 ± 1.4 points ahead of bad; on 3 of 3"
        " instances it is first."
    )
    # The lead over a tied policy is none: it is said over the next that is not tied.
    cells += [cell(str(i), "near", 0.9 + (i == 2) * 0.02) for i in range(3)]
    assert "tied with near, 10.3 ± 1.4 points ahead of bad" in table_of(cells).sentence
    cells += [cell(str(i), f"also {k}", 0.9 + (i == 2) * 0.02) for i in range(3) for k in range(4)]
    assert "tied with near, also 0, also 1 and 2 others" in table_of(cells).sentence


def test_worst_instance_and_wins_are_counted() -> None:
    cells = [cell(str(i), "a", 0.9 - 0.1 * i) for i in range(3)]
    cells += [cell(str(i), "b", 0.75) for i in range(3)]
    first = {row.policy: row.overall for row in table_of(cells).rows}
    assert first["a"] is not None
    assert first["b"] is not None
    assert (first["a"].n_first, first["b"].n_first) == (2, 1)
    assert first["a"].worst_instance == "instance 2"
    assert first["a"].worst == pytest.approx(0.7)


def test_failed_cells_are_counted_and_last() -> None:
    cells = [cell("1", "a", 0.5), cell("2", "a", None), cell("1", "b", None), cell("2", "b", None)]
    table = table_of(cells)
    assert [row.policy for row in table.rows] == ["a", "b"]
    assert table.rows[1].overall is None
    assert next(iter(table.texts()))[0] == "a (1 failed)"


def test_an_answer_of_some_cells_says_so() -> None:
    cells = [cell(str(i), "a", 0.9) for i in range(2)] + [cell(str(i), "b", 0.8) for i in range(3)]
    table = table_of(cells)
    assert table.sentence.startswith("So far, a earns 90.0")
    assert table.sentence.endswith("; on 2 of 2 instances it is first.")
    said = "not every policy has finished on all instances, so means are of different ones"
    assert said in table.legend
    table = table_of([*cells, cell("2", "a", 0.9)])
    assert table.sentence.startswith("a earns")
    assert said not in table.legend


def test_reward_is_measured_where_a_benchmark_is_missing() -> None:
    bare = CellSummary("1", "a", 100, 0, 40.0, 40.0, None, None)
    table = table_of([bare, cell("1", "b", 0.3)])
    assert table.measure == "reward"
    assert table.headings[:2] == ["policy", "reward per round"]
    assert table.sentence.startswith("a earns 0.4000 per round, 0.1000 ahead of b")


def cells_of(folder: Path, arms: str) -> tuple[Cell, ...]:
    text = STUDY.replace('{generator = "click-bait", n = 3, seed = [1, 2, 3, 4, 5]}', arms)
    assert text != STUDY
    (folder / "some.toml").write_text(text)
    return load_experiment(folder / "some.toml").cells


def test_instances_count_seeds(tmp_path: Path) -> None:
    spelled = cells_of(tmp_path, '{generator = "click-bait", n = 3, seed = [7, 8, 9]}')
    counted = cells_of(tmp_path, '{generator = "click-bait", n = 3, seed = 7, instances = 3}')
    assert [cell.key for cell in counted] == [cell.key for cell in spelled]
    assert {cell.environment.instance for cell in counted} == {"7", "8", "9"}


def test_a_list_of_arms_makes_instances(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("r,b\n0.5,0.5\n0.6,0.4\n")
    cells = cells_of(tmp_path, '[{r = [0.9], b = [0.1]}, {file = "b.csv", name = "shop"}]')
    places = {cell.environment.instance: cell.environment for cell in cells}
    assert list(places) == ["1", "shop"]
    assert places["1"].parameters["r"] == [0.9]
    assert list(places["shop"].parameters["b"]) == [0.5, 0.4]  # type: ignore[call-overload]
    assert {part.source for part in places.values()} == {"ads"}
    assert {tuple(part.varies) for part in places.values()} == {("lam",)}


def test_told_is_what_is_revealed_and_used(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        STUDY.replace("seed = 3", "seed = 3\nreveal_replenishing_arm = true", 1)
        + '[[policies]]\nuse = "etc"\n[[policies]]\nuse = "posterior"\ntrust_lam = false\n'
        + '[[policies]]\nuse = "wide-ucb"\n'
    )
    with run_experiment(tmp_path / "study.toml", out=tmp_path / "run", engine="serial") as found:
        told = {row.policy: row.told for row in found.table().rows}
    assert told["etc"] == ("lam", "replenishing_arm")
    assert told["wide-ucb"] == ("lam",)
    assert told["posterior"] == told["ucb1"] == ()


def test_wrong_names_are_refused_with_the_nearest(run: Run) -> None:
    with pytest.raises(InvalidValueError, match=r"no dimension 'lamb'\. Did you mean 'lam'"):
        run.table(by=["lamb"])
    with pytest.raises(InvalidValueError, match=r"no policy 'ucb'\. Did you mean 'ucb1'"):
        run.table(policies=["ucb"])
    with pytest.raises(InvalidValueError, match="no horizon '7'"):
        run.table(horizon=7)


def test_split_by_horizon_and_by_nothing(run: Run) -> None:
    assert run.table(by=["T"]).groups == ((40,), (100,))
    assert run.table(by=["lam", "T"]).groups == ((0.1, 40), (0.1, 100), (0.9, 40), (0.9, 100))
    assert run.table(by=[]).groups == ()
    assert run.table(horizon=40).horizon == 40


def test_values_are_ordered_numbers_first() -> None:
    rates: list[float | str] = [0.5, "1/T", 0.01, 1]
    places = {(str(i), 100): Variant("e", {"lam": rate}) for i, rate in enumerate(rates)}
    cells = [cell(str(i), "a", 0.5) for i in range(len(rates))]
    table = pool(Observations("test", places, {}, cells))
    assert table.dimensions["lam"] == (0.01, 0.5, 1, "1/T")
    assert table.groups == ((0.01,), (0.5,), (1,), ("1/T",))


def test_labels_are_safe_in_every_format() -> None:
    evil = "<b>|\x1b[1m_%&\\"
    table = table_of([cell("1", evil, 0.5), cell("1", "b", 0.4)])
    assert "\x1b" not in str(table) + table.to_markdown() + table.to_latex()
    assert "<b>" not in table._repr_html_()
    assert r"\<b\>\|" in table.to_markdown()
    assert r"$<$b$>$$|$" in table.to_latex()
    assert r"\_\%\&" in table.to_latex()


def test_table_survives_closing_and_reading_again(run: Run, tmp_path: Path) -> None:
    with load_run(run.folder) as again:
        assert again.table() == run.table()
    assert len(list(run.table().to_records())) == 3 * 3
    assert all(math.isfinite(value) for value in run.table().to_pandas().share)
