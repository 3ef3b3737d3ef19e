"""Files of fits and decision tables in an experiment: what they hold decides the cell's key."""

from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import ConfigError, Instance, Log, fit, load_experiment, save_fit

EXPERIMENT = """
name = "warm"
seed = 1
horizons = [60]
replications = 1

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = 0.3

[[policies]]
use = "posterior"
prior = "fit.toml"
"""


def write_fit(folder: Path, seed: int) -> None:
    ads = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
    rng = np.random.default_rng(seed)
    arms = np.repeat(rng.integers(0, 2, 200), 4)
    rewards = (rng.random(arms.size) < ads.expected_rewards(arms)).astype(np.int64)
    save_fit(fit(Log(arms, rewards)), folder / "fit.toml")


def test_content_of_a_fit_decides_the_key(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    keys = []
    for seed in (1, 1, 2):
        write_fit(tmp_path, seed)
        keys.append(load_experiment(tmp_path / "experiment.toml").cells[0].key)
    assert keys[0] == keys[1] != keys[2]


def test_run_needs_the_file_no_more(tmp_path: Path) -> None:
    """The prior of the file is what the policy starts from, also where the file is gone."""
    write_fit(tmp_path, 1)
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    cell = load_experiment(tmp_path / "experiment.toml").cells[0]
    plugins, problem = bdes.load_plugins(), bdes.Problem(2, 60)
    prior = bdes.load_prior(tmp_path / "fit.toml")
    (tmp_path / "fit.toml").unlink()
    first, second = (
        plugins.policy({"use": "posterior", "prior": given}, problem, seed=1)
        for given in (cell.policy.parameters["prior"], prior)
    )
    for _ in range(5):
        arms = first.ask(9)
        assert arms.tolist() == second.ask(9).tolist()
        for each in (first, second):
            each.tell(np.zeros(arms.size))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "fit.toml"),
        ("r = [0.5, 0.5]\nb = [0.5, 0.5]\n", "holds arms, but no fit of them"),
    ],
)
def test_files_that_hold_no_fit_are_reported(
    tmp_path: Path, content: str | None, message: str
) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    if content is not None:
        (tmp_path / "fit.toml").write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_experiment(tmp_path / "experiment.toml")
    assert caught.value.mistakes[0].path == "policies[0].prior"


def test_table_from_its_content_is_the_table(tmp_path: Path) -> None:
    """What stands in for the file of a decision table builds the same policy."""
    from bdes_framework.experiment.contents import content_reader
    from bdes_framework.plugin.config_types import field_types

    plugins = bdes.load_plugins()
    planner = plugins.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    table = planner.plan_stationary(Instance([0.9, 0.3], [0.1, 1.0], 0.3), 0.9)
    table.write(tmp_path / "table.json")
    entry = plugins.entry(bdes.Kind.CROWD_POLICY, "crowd-table")
    read = content_reader(field_types(entry.config)["table"])
    assert read is not None
    given = (read(tmp_path / "table.json"), str(tmp_path / "table.json"), table)
    shown = [
        plugins.crowd_policy("crowd-table", bdes.CrowdProblem(2, 90), seed=1, table=each)
        .ask(np.arange(90) % 7)
        .tolist()
        for each in given
    ]
    assert shown[0] == shown[1] == shown[2]
