"""Reports of many users: their words, their charts, and that numbers agree with the run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import load_run, run_experiment
from bdes_framework.report.data import (
    COHORT_SHARE,
    REGRET,
    USER_REGRET,
    VISIT_REWARD,
    RunData,
    curve_rows,
)
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.pictures import Choice, NothingToShowError, picture, save
from bdes_framework.report.trajectories import STATE_BINS, by_state_rows, user_state_rows
from bdes_framework.simulation.crowd import CrowdTrace

TABLES = {
    "name": "users",
    "seed": 1,
    "horizons": [900],
    "replications": 3,
    "environments": [
        {
            "use": "crowd",
            "arms": {"generator": "click-bait", "n": 3, "seed": [1, 2]},
            "lam": 0.3,
            "users": 40,
            "visits_per_user": 15,
            "lifetimes": "geometric",
        }
    ],
    "policies": [
        {"use": "crowd-greedy", "explore": 3},
        {"use": "pooled", "policy": "ucb1", "label": "blind"},
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("users")
    run_experiment(TABLES, out=base / "run", engine="serial").close()
    return base / "run"


@pytest.fixture
def data(folder: Path) -> Iterator[RunData]:
    with load_run(folder) as run:
        yield RunData(run)


def test_page_speaks_of_visits_and_users(data: RunData) -> None:
    page = report_page(data, Settings(2))
    visible = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    for words in ("Over users", "T = 900 visits", "Clairvoyant", "best decision table"):
        assert words in visible
    assert not re.search(r"\brounds?\b", visible)
    (found,) = re.findall(r'id="report-data">(.*?)</script>', page, flags=re.DOTALL)
    figures = json.loads(found)["figures"]
    assert len(figures["users"]) == len(figures["cohorts"]) == 1
    assert [len(option["parts"]) for option in figures["path"]] == [3, 3]


def test_curves_end_where_the_table_does(data: RunData) -> None:
    (setting,) = data.settings()
    for policy, pooled in data.pooled(setting).items():
        name = data.policy_names[policy]
        assert pooled.regret is not None
        for measure in (USER_REGRET, REGRET):
            rows = [r for r in curve_rows(data, setting, measure) if r["policy"] == name]
            whole = max(rows, key=lambda row: row["round"])
            # The last checkpoint may be one that not all instances reach.
            assert whole["value"] == pytest.approx(pooled.regret.mean, rel=0.2)
    reward = curve_rows(data, setting, VISIT_REWARD)
    assert all(0 < row["value"] < 1 for row in reward)


def test_cohorts_make_up_the_whole(data: RunData) -> None:
    with load_run(data.run.folder) as run:
        label = run.cells()[0].environment
        curves = run.curves(label, "crowd-greedy", 900)
    assert curves.over_users is not None
    assert curves.over_users.regret is not None
    (setting,) = data.settings()
    rows = [
        row for row in curve_rows(data, setting, COHORT_SHARE) if row["policy"] == "crowd-greedy"
    ]
    ends = [row["round"] for row in rows]
    assert ends == sorted(set(ends))
    assert set(ends) <= set(curves.over_users.users.tolist()) | {40}
    assert all(0 < row["value"] < 1.5 for row in rows)


def trace_of(states: list[float], arms: list[int]) -> CrowdTrace:
    n = len(states)
    zeros = np.zeros(1)
    return CrowdTrace(
        visits=n,
        n_users=1,
        n_arms=3,
        checkpoints=np.array([n]),
        cumulative_rewards=zeros,
        cumulative_means=zeros,
        cumulative_states=np.array([sum(states)]),
        counts=np.bincount(arms, minlength=3),
        user_visits=np.array([n]),
        user_rewards=zeros,
        user_means=zeros,
        told=0,
        arms=np.array(arms),
        states=np.array(states),
    )


def test_shares_by_state_are_those_of_the_second_half() -> None:
    trace = trace_of([0.9, 0.9, 0.2, 1.0, 1.0, 1.0], [2, 2, 0, 0, 1, 1])
    rows = by_state_rows(trace, ["arm 0", "arm 1", "arm 2"])
    last = [row for row in rows if row["to"] == 1.0]
    assert [(row["arm"], row["visits"]) for row in last] == [("arm 0", 3), ("arm 1", 3)]
    assert [row["share"] for row in last] == pytest.approx([1 / 3, 2 / 3])
    assert last[0]["above"] == last[1]["below"]
    assert len({row["from"] for row in rows}) == 1 <= STATE_BINS


def test_states_are_quantiles_of_their_bin() -> None:
    trace = trace_of(np.linspace(0, 1, 1200).tolist(), [0] * 1200)
    first = user_state_rows(trace)[0]
    assert (first["round"], first["until"]) == (1, 10)
    assert first["state"] == pytest.approx(np.linspace(0, 1, 1200)[:10].mean())
    assert first["lowest"] < first["low"] < first["state"] < first["high"] < first["highest"]


@pytest.mark.parametrize("chart", ["share", "final", "regret", "users", "cohorts", "path", "gap"])
def test_pictures_speak_of_visits(data: RunData, chart: str, tmp_path: Path) -> None:
    choice = Choice(policies=["blind"] if chart == "path" else [])
    save(picture(data, chart, choice), tmp_path / "x.svg", "svg")
    text = re.sub(r"<[^>]*>", " ", (tmp_path / "x.svg").read_text())
    assert not re.search(r"\brounds?\b", text)
    words = {"regret": "visit", "users": "users", "cohorts": "up to user", "path": "state q of who"}
    assert words.get(chart, "") in text


def test_one_audience_has_no_users(plain: Path) -> None:
    with load_run(plain) as run, pytest.raises(NothingToShowError, match="one audience"):
        picture(RunData(run), "users", Choice())
