"""Names from config files: text everywhere, whatever is in them."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bdes_framework import load_experiment, run_experiment
from bdes_framework.cli import bdes
from bdes_framework.experiment.run import run_folder
from tests.support.command import bdes as command
from tests.support.experiments import write_experiment


def named(folder: Path, name: str) -> Path:
    escaped = name.encode("unicode_escape").decode().replace("\\x1b", "\\u001b").replace('"', '\\"')
    label = f'use = "mine"\nlabel = "{escaped}"'
    return write_experiment(folder, ('"demo"', f'"{escaped}"'), ('use = "mine"', label))


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(bdes, arguments, env={"COLUMNS": "400"})
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    "name",
    ["a'b\"c", "../../etc/passwd", "<script>alert(1)</script>", "x\ny", "\x1b[31mred", "[bold]"],
)
def test_names_stay_text_in_runs_and_exports(folder: Path, name: str) -> None:
    experiment = load_experiment(named(folder, name))
    assert (folder / run_folder(experiment)).resolve().parent == (folder / "runs").resolve()
    place = folder / "runs\x1b[2J"
    place.mkdir()
    with run_experiment(experiment, out=place / "\x1b]0;run", engine="serial") as opened:
        assert {cell.policy for cell in opened.cells()} == {name}
        assert opened.name == name
    run = str(opened.folder)
    for shown in (printed("runs", str(place)), printed("show", run), printed("compare", run, run)):
        assert "\x1b" not in shown
        assert name.encode("unicode_escape").decode() in shown
    rows = list(csv.DictReader(io.StringIO(printed("export", run))))
    assert {row["policy"] for row in rows} == {name}
    as_json = json.loads(printed("export", run, "--format", "json"))
    assert {row["policy"] for row in as_json} == {name}


def test_names_stay_text_in_the_terminal(folder: Path) -> None:
    named(folder, "\x1b[31mred[bold]\n")
    done = command("run", "demo.toml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert r"\x1b[31mred[bold]\n" in done.stdout
