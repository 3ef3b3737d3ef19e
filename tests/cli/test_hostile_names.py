"""Names from config files: text everywhere, whatever is in them."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bdes_framework import ConfigError, load_experiment, run_experiment
from bdes_framework.cli import bdes
from bdes_framework.experiment.run import run_folder
from tests.support.experiments import FILE

HOSTILE = [
    "a'b\"c",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "x\ny",
    "\x1b[31mred",
    "[bold]",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_the_database(folder: Path, name: str) -> None:
    experiment = load_experiment(_named(folder, name))
    out = run_folder(experiment)
    assert (folder / out).resolve().parent == (folder / "runs").resolve()
    run = run_experiment(experiment, out=folder / "run", engine="serial")
    assert {cell.policy for cell in run.cells()} == {name}
    assert run.name == name


def test_a_hostile_name_stays_text_in_the_terminal(folder: Path) -> None:
    _named(folder, "\x1b[31mred[bold]\n")
    done = subprocess.run(
        [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run", "demo.toml"],
        capture_output=True, text=True, cwd=folder, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert r"\x1b[31mred[bold]\n" in done.stdout


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_listings_and_exports(folder: Path, name: str) -> None:
    place = folder / "runs\x1b[2J"
    place.mkdir()
    out = place / "\x1b]0;run"
    run = str(run_experiment(_named(folder, name), out=out, engine="serial").folder)

    def bdes_prints(*arguments: str) -> str:
        done = CliRunner().invoke(bdes, arguments, env={"COLUMNS": "400"})
        assert done.exit_code == 0, done.output
        return done.output

    escaped = name.encode("unicode_escape").decode()
    for command in (("runs", str(place)), ("show", run), ("compare", run, run)):
        shown = bdes_prints(*command)
        assert "\x1b" not in shown
        assert escaped in shown
    rows = list(csv.DictReader(io.StringIO(bdes_prints("export", run))))
    assert {row["policy"] for row in rows} == {name}
    as_json = json.loads(bdes_prints("export", run, "--format", "json"))
    assert {row["policy"] for row in as_json} == {name}


def test_a_very_long_label_is_refused(folder: Path) -> None:
    (folder / "demo.toml").write_text(
        FILE.replace('use = "mine"', f'use = "mine"\nlabel = "{"x" * 10_000}"')
    )
    with pytest.raises(ConfigError, match=r"policies\[0\]\.label: must be a string of 1 to 200"):
        load_experiment(folder / "demo.toml")


def _named(folder: Path, name: str) -> Path:
    escaped = name.encode("unicode_escape").decode().replace("\\x1b", "\\u001b").replace('"', '\\"')
    text = FILE.replace('name = "demo"', f'name = "{escaped}"')
    text = text.replace('use = "mine"', f'use = "mine"\nlabel = "{escaped}"')
    (folder / "demo.toml").write_text(text)
    return folder / "demo.toml"


def test_a_very_long_name_is_refused(folder: Path) -> None:
    (folder / "demo.toml").write_text(FILE.replace('"demo"', f'"{"x" * 10_000}"'))
    with pytest.raises(ConfigError, match="name: must have 1 to 200 characters"):
        load_experiment(folder / "demo.toml")
