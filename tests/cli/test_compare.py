"""``bdes compare``: only what is the same environment at the same horizon is set side by side."""

import json
import statistics
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bdes_framework import load_run
from bdes_framework.cli import bdes
from bdes_framework.cli.runs import runs
from tests.support.experiments import run_demo, write_experiment

UNIFORM = 'use = "uniform"'


def run(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    two = ('use = "mine"', f'use = "mine"\n[[policies]]\n{UNIFORM}')
    write_experiment(folder, two, *changes)
    return run_demo(folder, name).folder


def compared(first: Path, second: Path, columns: int = 160) -> Result:
    environment = {"COLUMNS": str(columns)}
    return CliRunner().invoke(bdes, ["compare", str(first), str(second)], env=environment)


def rows(done: Result) -> list[tuple[str, str, str]]:
    """Return environment, horizon and policy of each line."""
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    return [(words[0], words[1], words[2]) for words in lines]


def test_equal_environments_are_paired(folder: Path) -> None:
    first = run(folder, "one", (UNIFORM, f'{UNIFORM}\nlabel = "x"'))
    swap = (UNIFORM, 'use = "fixed-schedule"\nlabel = "x"\ncycle = [1, 0]')
    second = run(folder, "two", swap)
    done = compared(first, second)
    assert rows(done) == [("bernoulli", t, p) for t in ("10", "50") for p in ("mine", "x")]
    means = [
        [c.total_mean for c in load_run(path).cells() if (c.policy, c.horizon) == ("x", 50)]
        for path in (first, second)
    ]
    difference = statistics.fmean(b - a for a, b in zip(*means, strict=True) if a and b)
    (line,) = [line for line in done.stdout.splitlines() if " 50 " in line and " x " in line]
    assert f"{difference:,.1f} ±" in line
    assert "policy 'x' has other parameters in the second run" in done.stderr
    assert "policy 'mine'" not in done.stderr
    assert "left out" not in done.stderr


def test_labels_are_whole_at_80_columns(folder: Path) -> None:
    changes = ("[10, 50]", "[100000]"), (UNIFORM, f'{UNIFORM}\nlabel = "uniform-on-all-arms"')
    one, two = (run(folder, name, *changes) for name in ("one", "two"))
    done = compared(one, two, columns=80)
    for words in ("Environment", "bernoulli", "uniform-on-all-arms", "Difference"):
        assert words in done.stdout
    assert done.stdout.split().count("±") == 7  # of the heading, and of three means in two rows
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    "change",
    [
        ("lam = 0.3", "lam = 0.2"),
        ("r = [0.9", "r = [0.8"),
        ("lam = 0.3", "lam = 0.3\nq0 = 0.5"),
        ("lam = 0.3", 'lam = 0.3\nnoise = {use = "gaussian", sigma = 0.2}'),
    ],
)
def test_different_environments_are_not_paired(folder: Path, change: tuple[str, str]) -> None:
    done = compared(run(folder, "one"), run(folder, "two", change))
    assert done.exit_code == 1
    assert "the runs have no cells in common" in done.stdout
    assert "left out: 'bernoulli' is not the same environment in both runs" in done.stderr


def test_formulas_are_compared_by_their_values(folder: Path) -> None:
    first = run(folder, "one", ("lam = 0.3", "lam = 0.1"))
    second = run(folder, "two", ("lam = 0.3", 'lam = "1/T"'))  # 0.1 at T = 10, 0.02 at T = 50
    done = compared(first, second)
    assert done.exit_code == 0
    assert {(t, p) for _, t, p in rows(done)} == {("10", "mine"), ("10", "uniform")}
    assert "left out: 'bernoulli'" in done.stderr


def test_other_horizons_and_labels_are_not_paired(folder: Path) -> None:
    first = run(folder, "one")
    longer = compared(first, run(folder, "a", ("[10, 50]", "[10, 51]")))
    assert {t for _, t, _ in rows(longer)} == {"10"}
    renamed = run(folder, "b", ("lam = 0.3", 'lam = 0.3\nlabel = "other"'))
    assert compared(first, renamed).exit_code == 1
    other_policy = compared(first, run(folder, "c", (UNIFORM, 'use = "ucb1"')))
    assert {p for _, _, p in rows(other_policy)} == {"mine"}


def test_differences_of_the_setup_are_reported(folder: Path) -> None:
    first = run(folder, "one")
    changes = ("seed = 1", "seed = 2"), ("benchmark", "reveal_lam = false\nbenchmark")
    second = run(folder, "two", *changes)
    resolved = json.loads((second / "resolved.json").read_text())
    resolved["versions"]["bdes-framework"] = "0.0.1"
    (second / "resolved.json").write_text(json.dumps(resolved))
    done = compared(first, second)
    assert done.exit_code == 0
    assert "different seeds, so replications are not paired" in done.stderr
    assert "the runs differ in reveal_lam" in done.stderr
    assert "other code in the second run: bdes-framework 0.1.0 -> 0.0.1" in done.stderr
    assert all(line.rstrip().endswith(" -") for line in done.stdout.splitlines()[1:])


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_run_without_resolved_json_raises(folder: Path, damage: str) -> None:
    first = run(folder, "one")
    (first / "resolved.json").unlink()
    if damage == "damaged":
        (first / "resolved.json").write_text("{")
    assert "cannot read" in str(compared(first, first).exception)
    assert CliRunner().invoke(runs, [str(folder)]).exit_code == 0
