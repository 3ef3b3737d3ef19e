"""Whatever is in a run's files, commands end with an exit code and a sentence, in finite time."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bdes_framework.experiment.store import DATABASE
from tests.support.command import bdes
from tests.support.damage import flip_bits, forge_json, forge_values
from tests.support.experiments import changed, run_demo, write_experiment, write_plugin
from tests.support.reports import SMALL

CHARTS = ("final", "regret", "loglog", "lam", "gap", "path")
TWO_OF_EACH = changed(
    SMALL,
    ("lam = 0.3", "lam = [0.1, 0.3]"),
    ("[[policies]]", '[[policies]]\nuse = "uniform"\n\n[[policies]]'),
)
DAMAGES: dict[str, Callable[[Path, Random], str]] = {
    "values": forge_values,
    "database": lambda run, rng: flip_bits(run / DATABASE, rng),
    "json": lambda run, rng: forge_json(run / "resolved.json", rng),
    "text": lambda run, rng: flip_bits(run / rng.choice(["resolved.json", "experiment.toml"]), rng),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    write_experiment(folder, text=TWO_OF_EACH)
    with run_demo(folder, "good") as run:
        return run.folder


def check_commands(good: Path, rng: Random, damage: str, n_commands: int) -> None:
    """Damage a copy of a run; check that commands which read it end as commands should."""
    run = good.parent / "damaged"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(good, run)
    what = DAMAGES[damage](run, rng)
    commands = [
        *(["show", "damaged"], ["show", "damaged", "--traceback"], ["verify", "damaged"]),
        *(["export", "damaged"], ["export", "damaged", "--format", "json"], ["runs", "."]),
        *(["compare", "damaged", "good"], ["compare", "good", "damaged"], ["compare", "damaged"]),
        *(["show", "damaged", "--all", "--json"], ["show", "damaged", "--format", "latex"]),
        *(["export", "damaged", "--curves"], ["compare", "good", "damaged", "--all", "--json"]),
        ["report", "damaged", "--paths", str(rng.randrange(2))],
        ["plot", "damaged", "--chart", rng.choice(CHARTS), "-o", "x.svg"],
    ]
    for command in rng.sample(commands, n_commands):
        done = bdes(*command, cwd=run.parent)
        assert done.returncode in (0, 1, 2), (what, command)
        assert "Traceback" not in done.stderr, (what, command, done.stderr)
        assert done.returncode == 0 or command[0] != "runs", (what, done.stderr)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_runs_end_in_a_sentence(good: Path, damage: str) -> None:
    for seed in range(5):
        check_commands(good, Random(f"{damage}{seed}"), damage, n_commands=2)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_many_damaged_runs_end_in_a_sentence(good: Path, damage: str) -> None:
    for seed in range(100, 200):
        check_commands(good, Random(f"{damage}{seed}"), damage, n_commands=15)


def test_names_of_parameters_stay_text(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    write_experiment(tmp_path, ("lam = 0.3", "lam = [0.3, 0.4]"), ("benchmark = false\n", ""))
    folder = run_demo(tmp_path).folder
    evil = "\x1b[31mred[bold]\n"
    resolved = json.loads((folder / "resolved.json").read_text())
    for part in resolved["config"]["environments"]:
        part["varies"] = {evil: part["label"], "lam": 0.3}
    (folder / "resolved.json").write_text(json.dumps(resolved))
    for command in ("show run", "show run --all", "compare run run --all", "export run --json"):
        done = bdes(*command.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "red[bold]" in done.stdout


@pytest.mark.parametrize(("n_without", "status"), [(1, 0), (2, 2)])
def test_lam_is_drawn_of_environments_that_have_one(
    tmp_path: Path, n_without: int, status: int
) -> None:
    write_plugin(tmp_path)
    write_experiment(tmp_path, ("lam = 0.3", "lam = [0.3, 0.4, 0.5]"), ("[10, 50]", "[10]"))
    folder = run_demo(tmp_path).folder
    resolved = json.loads((folder / "resolved.json").read_text())
    for part in resolved["config"]["environments"][:n_without]:
        del part["table"]["lam"]
        part["varies"] = {}
    (folder / "resolved.json").write_text(json.dumps(resolved))
    done = bdes("plot", "run", "--chart", "lam", "-o", "x.svg", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
