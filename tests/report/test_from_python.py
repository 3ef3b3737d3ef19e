"""Charts and pages from Python: of runs, traces and plans; and what is said without them."""

import base64
import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.logs import ADS

PLUGINS = bdes.load_plugins()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> bdes.Run:
    tables = {
        "name": "from Python",
        "seed": 1,
        "horizons": [100, 200],
        "replications": 3,
        "environments": [{"use": "bernoulli", "r": ADS.r, "b": ADS.b, "lam": [0.1, 0.3]}],
        "policies": ["ucb1", "uniform"],
    }
    folder = tmp_path_factory.mktemp("run")
    return bdes.run_experiment(tables, out=folder / "run", engine="serial")


def trace(keep: bool = True) -> tuple[bdes.Trace, bdes.Benchmark | None]:
    parameters = {"r": ADS.r, "b": ADS.b, "lam": ADS.lam}
    environment = PLUGINS.environment("bernoulli", seed=1, **parameters)
    policy = PLUGINS.policy("ucb1", bdes.Problem(3, 500), seed=2)
    found = bdes.simulate(environment, policy, 500, keep=keep)
    return found, bdes.benchmark_of(environment, found.checkpoints, PLUGINS.planner("certified"))


def rows_of(chart: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of each panel."""
    spec = chart.to_dict()
    found = [panel.get("data", spec.get("data")) for panel in spec["vconcat"]]
    return [data.get("values") or spec["datasets"][data["name"]] for data in found]


def test_chart_of_a_run_is_that_of_the_command(run: bdes.Run, tmp_path: Path) -> None:
    from bdes_framework.report.data import RunData
    from bdes_framework.report.pictures import Choice, picture

    drawn = run.plot("regret", policies=["ucb1"], title="mine")
    expected = picture(RunData(run), "regret", Choice(policies=["ucb1"], title="mine"))
    assert drawn.to_dict() == expected.to_dict()
    one = run.plot("final", environments=["bernoulli (lam=0.1)"]).to_dict()
    assert one["title"] == "bernoulli, T = 200"
    run.plot().save(str(tmp_path / "final.svg"))
    assert (tmp_path / "final.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chart": "finale"}, "no chart 'finale'. Did you mean 'final'?"),
        ({"policy": "ucb1"}, "no option 'policy'. Did you mean 'policies'?"),
        ({"policies": ["ucb"]}, "no policy 'ucb'. Did you mean 'ucb1'?"),
    ],
)
def test_wrong_chart(run: bdes.Run, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bdes.InvalidValueError) as caught:
        run.plot(**options)
    assert message in str(caught.value)


def test_report_of_a_run(run: bdes.Run, tmp_path: Path) -> None:
    page = run.report(paths=1)
    assert page == run.folder / "report.html"
    assert "<title>" in page.read_text()
    note = tmp_path / "note.html"
    note.write_text("mine")
    with pytest.raises(bdes.InvalidValueError, match="is no report"):
        run.report(note)
    assert run.report(str(note), overwrite=True, paths=0) == note
    assert note.read_text() != "mine"


def test_trace_shows_reward_states_and_arms() -> None:
    found, benchmark = trace()
    curves, states, arms = rows_of(found.plot())
    last = [row for row in curves if row["what"] == "reward"][-1]
    assert (last["round"], last["value"]) == (500, found.total_reward)
    assert found.states is not None
    assert states[0]["lowest"] == found.states[:4].min()
    assert {row["arm"] for row in arms} == {"arm 0", "arm 1", "arm 2"}
    regret, *_ = rows_of(found.plot(benchmark))
    assert benchmark is not None
    assert [row["value"] for row in regret] == bdes.des_regret(found, benchmark).tolist()
    assert len(rows_of(trace(keep=False)[0].plot())) == 1


def test_plan_shows_states_and_arms_of_its_first_rounds() -> None:
    report = bdes.report_plan(PLUGINS, ADS, 10**9, "best-cycle")
    states, arms = rows_of(report.plot(rounds=50))
    assert states[-1]["round"] == 50
    expected = ADS.states(report.plan.schedule.slice(0, 50))
    assert np.allclose([row["state"] for row in states][:-1], expected)
    assert len(rows_of(report.plan.plot())) == 1
    first = report.plan.schedule.slice(0, 1)[0]
    assert next(row for row in arms if row["share"] == 1)["arm"] == f"arm {first}"
    strange = bdes.Schedule.of([10**12])
    with pytest.raises(bdes.InvalidValueError, match="arm 1,000,000,000,000 is not drawn"):
        strange.plot()
    assert "<img" not in strange._repr_html_()
    with pytest.raises(bdes.InvalidValueError, match="rounds must be"):
        report.plot(rounds=0)


def test_notebook_shows_the_chart_as_a_picture(run: bdes.Run) -> None:
    found, _ = trace()
    report = bdes.report_plan(PLUGINS, ADS, 100)
    for thing in (found, report, report.plan, report.plan.schedule, run):
        shown = thing._repr_html_()
        (content,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)
        assert base64.b64decode(content).decode().startswith("<svg")
        assert len(shown) < 100_000


def test_without_the_packages_tables_are_left(run: bdes.Run) -> None:
    found, _ = trace()
    with mock.patch("bdes_framework._internal.upwards.find_spec", return_value=None):
        assert "<img" not in found._repr_html_()
        for draw in (run.plot, run.report, found.plot):
            with pytest.raises(bdes.InvalidValueError, match="charts need altair and jinja2 and"):
                draw()
    assert json.dumps(run.plot().to_dict())
