"""Experiments given in Python: a mapping or a config object goes the way of a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import bdes_framework as bdes
from bdes_framework.experiment.replay import experiment_of, replay_cell
from tests.support import command
from tests.support.experiments import dump, write_plugin

FILE = """
name = "given"
seed = 1
horizons = [20, 50]
replications = 2
reveal_replenishing_arm = true
benchmark = {use = "certified", gap = 0.01}
engine = "serial"

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = [0.1, 0.3]

[[policies]]
use = "etc"
planner = "exact"

[[policies]]
use = "ucb1"
label = "theirs"
"""


def tables(**changes: object) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "given",
        "seed": np.int64(1),
        "horizons": (20, 50),
        "replications": 2,
        "reveal_replenishing_arm": True,
        "benchmark": {"use": "certified", "gap": 0.01},
        "engine": "serial",
        "environments": [
            {
                "use": "bernoulli",
                "r": np.array([0.9, 0.3]),
                "b": [0.1, 1.0],
                "lam": np.array([0.1, 0.3]),
            }
        ],
        "policies": [{"use": "etc", "planner": "exact"}, {"use": "ucb1", "label": "theirs"}],
    }
    return given | changes


def with_objects() -> bdes.ExperimentConfig:
    """The same experiment, of config objects where they can say it."""
    plugins = bdes.load_plugins()
    planner = plugins.entry(bdes.Kind.PLANNER, "certified").config
    policy = plugins.entry(bdes.Kind.POLICY, "etc").config
    exact = plugins.entry(bdes.Kind.PLANNER, "exact").config
    return bdes.ExperimentConfig(
        name="given",
        seed=1,
        horizons=(20, 50),
        environments=tuple(tables()["environments"]),
        policies=(policy(planner=exact()), {"use": "ucb1", "label": "theirs"}),  # type: ignore[call-arg]
        replications=2,
        reveal_replenishing_arm=True,
        benchmark=planner(gap=0.01),  # type: ignore[call-arg]
        engine="serial",
    )


def results(folder: Path) -> list[tuple[object, ...]]:
    """What a run stored, but for keys: a table that names a default has a key of its own."""
    with bdes.load_run(folder) as run:
        return [(c.environment, c.policy, c.horizon, c.total_reward) for c in run.cells()]


def test_file_and_mapping_are_the_same_experiment(tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.write_text(FILE)
    bdes.run_experiment(file, out=tmp_path / "file").close()
    with bdes.run_experiment(tables(), out=tmp_path / "dict", reuse=False) as run:
        assert run.progress is not None
        assert (run.n_cells, run.progress.n_finished) == (16, 16)
    assert dump(tmp_path / "dict") == dump(tmp_path / "file")
    bdes.run_experiment(with_objects(), out=tmp_path / "config", reuse=False).close()
    assert results(tmp_path / "config") == results(tmp_path / "file")
    with bdes.run_experiment(evolve(with_objects(), replications=3), out=tmp_path / "more") as more:
        assert more.n_cells == 24


def test_the_runs_folder_can_be_run_again(tmp_path: Path) -> None:
    bdes.run_experiment(tables(), out=tmp_path / "run").close()
    copy = tmp_path / "run" / "experiment.toml"
    given = bdes.load_experiment(tables()).cells
    assert [c.key for c in bdes.load_experiment(copy).cells] == [c.key for c in given]
    again = command.bdes("run", str(copy), "--out", str(tmp_path / "run"))
    assert again.returncode == 0, again.stderr
    assert "0 computed" in again.stdout + again.stderr
    with bdes.load_run(tmp_path / "run") as run:
        experiment = experiment_of(run)
        rounds = bdes.log_checkpoints(20, 50)
        trace = replay_cell(experiment, experiment.cells[0], run.cells()[0], rounds)
    assert isinstance(trace, bdes.Trace)
    assert trace.horizon == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sed": 1}, "experiment given as a dict: sed: is not a parameter. Did you mean 'seed'?"),
        ({"timeout": None}, "timeout: is None, which TOML does not have: leave the key out"),
        ({"policies": [{"use": "etc", "x": {1, 2}}]}, "policies[0].x: is {1, 2}, which TOML"),
        ({"policies": [{"use": "etc", 1: 2}]}, "policies[0]: has the key 1, which is no text"),
        ({"policies": ["ect"]}, "policies[0]: no policy is called 'ect'. Did you mean 'etc'?"),
        ({"name": "\udc80"}, "has text that is not Unicode"),
        ({"plugins": {"disabled": ["nobody"]}}, "no plugin is called 'nobody'"),
        ({"plugins": {"modules": ["gone.py"]}}, "plugins.modules[0]: 'gone.py' failed to load"),
        ({"horizons": []}, "horizons: needs at least one entry"),
    ],
)
def test_mistakes_name_what_was_given(changes: dict[str, object], message: str) -> None:
    with pytest.raises(bdes.ConfigError) as caught:
        bdes.load_experiment(tables(**changes))
    assert caught.value.source == "experiment given as a dict"
    assert message in str(caught.value)


def test_values_without_end_and_other_things() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(bdes.ConfigError, match="is nested more than 100 deep"):
        bdes.load_experiment(tables(environments=endless))
    with pytest.raises(bdes.InvalidValueError, match="an experiment is a file, a mapping"):
        bdes.load_experiment(3)  # type: ignore[arg-type]
    with pytest.raises(bdes.ConfigError) as caught:
        bdes.load_experiment(evolve(with_objects(), seed=-1))
    assert str(caught.value).startswith("experiment given as an ExperimentConfig: seed: must be")


def test_relative_paths_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plugin(tmp_path)
    monkeypatch.chdir(tmp_path)
    given = tables(plugins={"modules": [Path("mine.py")]}, policies=["mine"])
    assert len(bdes.load_experiment(given).cells) == 8
