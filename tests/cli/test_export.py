"""``bdes export``: cells and curves with columns for what varies, in forms others can read."""

import csv
import io
import json
import math
from pathlib import Path

import pyarrow.parquet
import pytest

from bdes_framework import Run, load_run, run_experiment
from tests.support.command import fails, prints
from tests.support.experiments import write_plugin

FILE = """
name = "study"
seed = 3
horizons = [20]
replications = 2
checkpoints = 3

[plugins]
modules = ["mine.py"]

[[environments]]
use = "bernoulli"
label = "ads"
arms = {generator = "click-bait", n = 3, seed = [1, 2]}
lam = [0.1, "1/T"]
q0 = [0.5, 1.0]

[[policies]]
use = "mine"
"""
NAN = """        pass
    def diagnostics(self):
        return {"x": float("nan"), "y": [1.0, -np.inf]}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    write_plugin(folder, ("        pass", NAN))
    (folder / "study.toml").write_text(FILE)
    run_experiment(folder / "study.toml", out=folder / "runs" / "study", engine="serial").close()
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return load_run(folder / "runs" / "study")


def test_json_has_nested_diagnostics_and_no_nan(folder: Path, run: Run) -> None:
    text = prints("export", "latest", "--format", "json", cwd=folder)
    assert text == prints("export", "latest", "--json", cwd=folder)
    rows = json.loads(text, parse_constant=pytest.fail)
    assert rows[0]["diagnostics"] == {"x": None, "y": [1.0, None]}
    assert rows[0]["told"] == ["lam"]
    assert (rows[0]["lam"], rows[0]["K"], rows[0]["instance"]) == (0.1, 3, "1")
    assert {row["lam"] for row in rows} == {0.1, 0.05}
    assert isinstance(run.to_pandas().diagnostics[0], str)  # frames stay flat


def test_curves_have_a_row_per_cell_and_checkpoint(folder: Path, run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(prints("export", "latest", "--curves", cwd=folder))))
    names = "environment lam K instance q0 policy told T replication seed round"
    totals = "total_reward total_mean regret total_state"
    assert list(rows[0]) == [*names.split(), *totals.split()]
    assert (rows[0]["told"], rows[0]["seed"]) == ("lam", str(run.resolved["config"]["seed"]))
    first = json.loads(prints("export", "latest", "--curves", "--json", cwd=folder))[0]
    assert first["told"] == ["lam"]
    cell = run.cells()[-1]
    curves = run.curves(cell.environment, cell.policy, cell.horizon)
    assert len(rows) == run.n_cells * len(curves.checkpoints)
    last = rows[-len(curves.checkpoints) :]
    assert [int(row["round"]) for row in last] == curves.checkpoints.tolist()
    assert curves.regret is not None
    assert curves.states is not None
    for name, values in (("total_mean", curves.means), ("regret", curves.regret)):
        assert [float(row[name]) for row in last] == values[-1].tolist()
    assert float(last[-1]["total_state"]) == curves.states[-1, -1]
    assert math.isclose(float(last[-1]["regret"]), cell.regret or 0.0)


def test_parquet_holds_cells_and_curves(folder: Path, run: Run) -> None:
    for curves in ([], ["--curves"]):
        out = folder / "x.parquet"
        prints("export", "latest", *curves, "--format", "parquet", "--out", str(out), cwd=folder)
        table = pyarrow.parquet.read_table(out)
        assert tuple(table.column_names) == (run.curve_columns if curves else run.columns)
        assert table.num_rows == sum(1 for _ in (run.curve_rows() if curves else run.rows()))
    assert "needs --out" in fails("export", "latest", "--format", "parquet", cwd=folder)


def test_the_name_of_the_file_decides_the_form(folder: Path, run: Run) -> None:
    for name in ("cells.csv", "cells.JSON", "cells.parquet", "cells.txt"):
        prints("export", "latest", "--out", name, cwd=folder)
    table = pyarrow.parquet.read_table(folder / "cells.parquet")
    assert table.num_rows == len(json.loads((folder / "cells.JSON").read_text())) == run.n_cells
    assert (folder / "cells.csv").read_text() == (folder / "cells.txt").read_text()
    prints("export", "latest", "--out", "cells.csv", "--format", "json", cwd=folder)
    assert (folder / "cells.csv").read_text() == (folder / "cells.JSON").read_text()
