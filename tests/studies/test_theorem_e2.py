"""Theorem E.2's cases: instances are what they should be, and what was measured holds the gates."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from studies.theorem_e2 import measure as module
from studies.theorem_e2.measure import (
    CASES,
    HERE,
    OURS,
    PAPERS,
    CaseRow,
    measure,
    saved,
)

PLUGINS = bdes.load_plugins(modules=[str(HERE / "cases.py")])
ROWS = saved()


def line_of_the_theorem(horizon: float) -> float:
    return math.sqrt(math.log(horizon)) * math.cbrt(3 / horizon)


@pytest.mark.parametrize("draw", [*range(7200, 7220), *range(7300, 7320)])
def test_gaps_are_on_their_side_of_the_line(draw: int) -> None:
    largest = {}
    for gaps in ("large", "small"):
        world = PLUGINS.environment("gaps", seed=1, gaps=gaps, draw=draw, lam=0.3)
        assert isinstance(world, bdes.HasInstance)
        r, b = world.instance.r, world.instance.b
        largest[gaps] = float((r[:, None] * np.abs(b[:, None] - b)).max())
    for horizon in (1e4, 1e6):
        assert largest["small"] <= line_of_the_theorem(horizon) < largest["large"]


def test_every_case_was_played_on_the_instances_fixed_beforehand() -> None:
    text = (HERE / "cases.toml").read_text(encoding="utf-8")
    drawn = [re.findall(r"\b7\d\d\d\b", part) for part in re.findall(r"draw = \[.*?\]", text, re.S)]
    first, fresh = ([str(start + k) for k in range(20)] for start in (7200, 7300))
    assert drawn == [first] * 7 + [fresh]
    found = re.findall(r'label = "(.*)"\ngaps = "(.*)"\nlam = "?([^"\n]*)', text)
    assert found == [(name, case.gaps, case.lam) for name, case in CASES.items()]
    assert {(row.instances, row.horizon) for row in ROWS} == {(20, 1_000_000)}


@pytest.mark.parametrize("row", [row for row in ROWS if row.policy == OURS], ids=lambda r: r.case)
def test_every_case_of_theorem_e2_holds_its_gate(row: CaseRow) -> None:
    assert row.held is (None if row.case == "no case" else True)
    goes_on = row.case in ("case 1", "case 2", "case 3", "case 4", "both fail")
    assert row.to_exp3p == 1 if goes_on else True
    assert row.to_exp3p == 0 if row.case.startswith("case 5") else True


@pytest.mark.parametrize(
    ("case", "high", "lost", "held"),
    [
        ("case 1", 0.71, 0.9, True),
        ("case 1", 0.72, 0.1, False),
        ("case 3", 1.0, 0.36, True),
        ("case 3", 0.5, 0.37, False),
        ("no case", 1.0, 1.0, None),
    ],
)
def test_a_gate_can_be_missed(case: str, high: float, lost: float, held: bool | None) -> None:
    row = CaseRow(case, OURS, 20, 1_000_000, 1.0, 0.5, 0.4, high, lost, 0.0)
    assert row.held is held


def test_measuring_cases_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "CASES", {"case 1": CASES["case 1"]})
    shutil.copy(HERE / "cases.py", tmp_path)
    text = (HERE / "cases.toml").read_text(encoding="utf-8")
    text = re.sub("horizons = .*", 'horizons = [300, 1_000]\\nengine = "serial"', text)
    text = re.sub(r" 7202.*?\]", "]", text, flags=re.DOTALL)
    head, first, *_ = re.split(r"(?=\[\[environments)", text)
    policies = text[text.index("[[policies]]") :]
    (tmp_path / "cases.toml").write_text(head + first + policies, encoding="utf-8")
    rows = measure(tmp_path)
    assert [(row.case, row.instances, row.horizon) for row in rows] == [("case 1", 2, 1_000)] * 2
    assert [row.policy for row in rows] == [OURS, PAPERS]
    assert all(0 < row.most_lost < 1 and row.low <= row.slope <= row.high for row in rows)


@pytest.mark.slow
def test_cases_at_a_million_rounds_are_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "cases.py", tmp_path)
    text = (HERE / "cases.toml").read_text(encoding="utf-8")
    text = re.sub("horizons = .*", "horizons = [1_000_000]", text)
    ours = text[: text.rindex("[[policies]]")]
    (tmp_path / "cases.toml").write_text(ours, encoding="utf-8")
    with bdes.run_experiment(tmp_path / "cases.toml") as run:
        cells = run.to_pandas()
    for row in (row for row in ROWS if row.policy == OURS):
        mine = cells[cells.environment == row.case]
        assert len(mine) == row.instances
        assert mine.regret.mean() == pytest.approx(row.regret, abs=0.1), row
        assert (mine.regret / mine.OPT).max() <= row.most_lost + 1e-4, row
        chosen = [json.loads(text)["chosen"] for text in mine.diagnostics]
        assert chosen.count("exp3p") == row.to_exp3p * row.instances, row
