"""The paper reproduced: pages say what was measured, and one command still makes them."""

import math
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from studies.pages import slope_of
from studies.paper import charts, reproduce
from studies.paper.measure import CASES, HERE, growth, lam_of, measure, play, table_row
from studies.regimes import PLUGINS, drawn_instance, middle
from tests.support import REPOSITORY

MEASURED = reproduce.from_json(reproduce.MEASURED.read_text())


def test_the_page_shows_what_was_measured() -> None:
    assert (REPOSITORY / "docs" / "paper.md").read_text() == reproduce.page(MEASURED)


@pytest.mark.parametrize("name", reproduce.pictures(MEASURED))
def test_every_picture_is_there_and_shown(name: str) -> None:
    picture = REPOSITORY / "docs" / "img" / f"{name}.svg"
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert f"img/{name}.svg" in (REPOSITORY / "docs" / "paper.md").read_text()


def test_every_case_was_measured_in_full() -> None:
    rows = [(row.lam, row.policy) for row in MEASURED.table_1]
    assert rows == [(case.lam, case.policy) for case in CASES]
    for row in MEASURED.table_1:
        assert (row.instances, row.replications, row.horizons[-1]) == (90, 2, 1_000_000)
        assert row.low <= row.slope <= row.high
        assert row.last_low <= row.last_slope <= row.last_high
        ends = np.array([row.regret_low, row.regret, row.regret_high])
        assert (np.diff(ends, axis=0) > 0).all()


def test_exploring_grows_and_is_most_of_what_etc_loses() -> None:
    lam, explored, shares = 0.5, list[int](), list[float]()
    for horizon in (10_000, 40_000):
        for index in range(4):
            instance = drawn_instance(3, index, lam)
            problem = bdes.Problem(3, horizon, lam, int(instance.b.argmax()))
            world = PLUGINS.environment(
                "bernoulli", seed=index, r=instance.r, b=instance.b, lam=lam
            )
            trace = bdes.simulate(world, PLUGINS.policy("etc", problem, seed=index), horizon)
            rounds = trace.diagnostics["exploration"]
            assert isinstance(rounds, int)
            explored.append(rounds)
            best = PLUGINS.planner("certified").plan(instance, horizon).value
            assert trace.arms is not None
            lost = best * rounds / horizon - instance.value(trace.arms[:rounds])
            shares.append(lost / (best - trace.total_mean))
    assert math.log(explored[-1] / explored[0], 4) == pytest.approx(0.7, abs=0.05)
    assert np.median(shares) > 0.6


def test_bound_of_etc_counts_the_pulls_that_settle() -> None:
    horizons = [100_000, 316_228, 1_000_000]
    bounds = np.array([middle(horizon, 3, 0.5) for horizon in horizons])
    assert slope_of(horizons, bounds) == pytest.approx(0.746, abs=0.001)
    logarithms = np.array(
        [math.log(horizon) ** (1 / 3) * horizon ** (2 / 3) for horizon in horizons]
    )
    assert slope_of(horizons, logarithms) == pytest.approx(0.693, abs=0.001)  # as printed


def test_figure_1_is_the_recurrence() -> None:
    picture = charts.figure_1(b=0.15, lam=0.5, pulls=4).to_dict()
    (dots,) = (one["data"] for one in picture["layer"] if one["data"].get("name") == "dots")
    assert [dot["state"] for dot in dots["values"]] == pytest.approx([1.0, 0.575, 0.3625, 0.25625])


def test_labels_and_growth() -> None:
    assert lam_of("five ads (arms.seed=1, lam=1-1/sqrt(T))") == "1-1/sqrt(T)"
    assert lam_of("click-bait (lam=1-1/sqrt(T), arms.seed=3001)") == "1-1/sqrt(T)"
    assert lam_of("opposites (lam=0.5)") == "0.5"
    assert growth([1, 10, 100], [7.0, 5.0, 50.0]) == pytest.approx(1.0)
    assert np.isnan(growth([1, 10], [0.0, 5.0]))
    assert growth([1, 10, 100, 1000], [1.0, 1.0, 2.0, 2.0 * 10**0.5]) == pytest.approx(0.5)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the experiments with horizons and replications that take no time."""
    folder = tmp_path_factory.mktemp("small") / "configs"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py", "*.json", "__pycache__"))
    for file in folder.glob("*.toml"):
        text = re.sub(r"(?m)^horizons = \[.+,.+\]$", "horizons = [50, 200]", file.read_text())
        text = re.sub(r"horizons = \[\d+_\d+\]", "horizons = [500]", text)
        text = re.sub(r"replications = \d+", "replications = 2", text)
        text = text.replace("instances = 90", "instances = 2")
        file.write_text('engine = "serial"\n' + text)
    return folder


def test_whole_command_at_a_small_scale(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = small.parent
    monkeypatch.chdir(folder)
    measured = measure(small)
    reproduce.write(measured, folder)
    assert reproduce.from_json(reproduce.as_json(measured)) == measured
    assert [row.horizons for row in measured.table_1] == [[50, 200]] * len(CASES)
    assert reproduce.table_1(measured) in (folder / "docs" / "paper.md").read_text()
    drawn = {file.stem for file in (folder / "docs" / "img").iterdir()}
    assert drawn == set(reproduce.pictures(measured))


def test_external_regret_of_a_run(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)  # what the test above played is not played again
    played = play("figure-2", small)
    label = "click-bait (lam=0.25)"
    curves = played.run.curves(label, "AAE", 500)
    assert curves.states is not None
    assert curves.states.shape == curves.means.shape
    external = 0.9 * curves.states - curves.means
    # AAE plays both arms in turn until it drops one: the state can be worked out by hand.
    instance = bdes.Instance([0.9, 0.3], [0.1, 1.0], 0.25)
    first = int(np.searchsorted(curves.checkpoints, 2))
    states = instance.states([0, 1])
    expected = states[1] * (0.9 - 0.3) if curves.checkpoints[first] == 2 else None
    assert external[:, first].tolist() == pytest.approx([expected] * 2)


@pytest.mark.slow
def test_numbers_on_the_page_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "configs"
    shutil.copytree(HERE, folder)
    for file in folder.glob("table-1-*.toml"):
        text = re.sub(r"(?m)^horizons = .+$", "horizons = [10_000, 31_623]", file.read_text())
        file.write_text(text)
    played = {name: play(name, folder) for name in {case.experiment for case in CASES}}
    for case, row in zip(CASES, MEASURED.table_1, strict=True):
        at = row.horizons.index(10_000)
        again = table_row(case, played[case.experiment])
        assert again.regret == pytest.approx(row.regret[at : at + 2], rel=1e-6), case
