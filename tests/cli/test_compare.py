"""``bdes compare``: only what is the same environment at the same horizon is set side by side."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from scipy import stats

from bdes_framework import load_run, run_experiment
from bdes_framework.cli import bdes
from bdes_framework.cli.runs import runs
from bdes_framework.experiment.summary import estimate
from tests.support.command import bdes as command
from tests.support.command import fails, prints
from tests.support.experiments import STUDY, changed, run_demo, write_experiment

UNIFORM = 'use = "uniform"'


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run over three instances."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "study.toml").write_text(STUDY.replace("[20, 40]", "[40]"))
    run_experiment(folder / "study.toml", out=folder / "one", engine="serial").close()
    return folder


def run(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    two = ('use = "mine"', f'use = "mine"\n[[policies]]\n{UNIFORM}')
    write_experiment(folder, two, *changes)
    return run_demo(folder, name).folder


TERMINAL = {"TTY_COMPATIBLE": "1", "TERM": "dumb"}
"""A terminal of 80 columns, as rich sees it."""


def compared(*arguments: Path | str, columns: int = 160) -> Result:
    environment = {"COLUMNS": str(columns)}
    return CliRunner().invoke(bdes, ["compare", *map(str, arguments)], env=environment)


def rows(done: Result) -> list[tuple[str, str, str]]:
    """Return environment, horizon and policy of each line of a table of all rows."""
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(words[1], words[2], words[0]) for words in lines if words[1:2] == ["bernoulli"]]


def test_equal_environments_are_paired(folder: Path) -> None:
    first = run(folder, "one", (UNIFORM, f'{UNIFORM}\nlabel = "x"'))
    swap = (UNIFORM, 'use = "fixed-schedule"\nlabel = "x"\ncycle = [1, 0]')
    second = run(folder, "two", swap)
    done = compared(first, second, "--all")
    assert rows(done) == [("bernoulli", t, p) for p in ("mine", "x") for t in ("10", "50")]
    means = [
        [c.total_mean for c in load_run(path).cells() if (c.policy, c.horizon) == ("x", 50)]
        for path in (first, second)
    ]
    changes = [(b - a) / 50 for a, b in zip(*means, strict=True) if a and b]
    found = estimate(changes)
    assert found is not None
    assert found.half_width is not None
    (line,) = [line for line in done.stdout.splitlines() if " 50 " in line and "x " in line]
    assert f"{found.mean:.4f} ± {found.half_width:.4f}" in line
    assert "differs: policy 'x' has other parameters in B: use 'uniform' -> 'fixed" in done.stdout
    assert "cycle default -> [1, 0]" in done.stdout
    assert "policy 'mine'" not in done.stdout
    assert "left out" not in done.stderr


def test_what_is_pooled_is_compared_at_80_columns(study: Path) -> None:
    text = (study / "study.toml").read_text()
    (study / "other.toml").write_text(
        text.replace('use = "ucb1"', 'use = "ucb1"\nexploration = 0.5')
    )
    second = run_experiment(study / "other.toml", out=study / "two", engine="serial", reuse=False)
    for width in (80, 140):
        settings = {"COLUMNS": str(width), "FORCE_COLOR": "1"}
        done = command("compare", "one", "two", "one", cwd=study, settings=settings)
        assert done.returncode == 0, done.stderr
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", x)) for x in done.stdout.splitlines()) <= width
    shown = prints("compare", "one", "two", cwd=study).splitlines()
    assert re.fullmatch(r"A  study, \d{4}-\d\d-\d\d \d\d:\d\d, one", shown[0])
    assert shown[1].endswith(", two")
    assert [line for line in shown if line.startswith("differs")] == [
        "differs: policy 'ucb1' has other parameters in B: exploration default -> 0.5"
    ]
    # By hand: the mean over the instances of the mean difference, in points of share.
    frames = [load_run(study / "one").to_pandas(), second.to_pandas()]
    by_instance = [
        frame[frame.policy == "ucb1"].groupby(["lam", "instance"]).share.mean() for frame in frames
    ]
    change = (by_instance[1] - by_instance[0]).groupby("instance").mean()
    half = stats.t.ppf(0.975, 2) * change.sem()
    (line,) = [line for line in shown if line.startswith("ucb1")]
    assert f"{100 * change.mean():.1f} ± {100 * half:.1f}" in line
    (line,) = [line for line in shown if line.startswith("uniform")]
    assert " same " in line
    found = json.loads(prints("compare", "one", "two", "--by", "lam", "--json", cwd=study))
    assert [own["letter"] for own in found["runs"]] == ["A", "B"]
    assert found["rows"][0]["group"] == {"lam": 0.1}
    row = found["rows"][0]
    assert {"first", "second", "difference", "reward_difference", "n_ahead", "n_units"} <= {*row}
    assert "reward" not in row


def test_policies_of_one_run_are_compared_with_the_best_or_the_first_named(study: Path) -> None:
    table = load_run(study / "one").table()
    shown = prints("compare", "one", cwd=study)
    best, last = table.rows[0], table.rows[-1].overall
    assert f"less {best.policy}" in shown
    assert last is not None
    assert last.behind is not None
    assert last.behind.half_width is not None
    behind = f"{-100 * last.behind.mean:.1f} ± {100 * last.behind.half_width:.1f}"
    (line,) = [x for x in shown.splitlines() if x.startswith(table.rows[-1].policy)]
    assert behind in line
    named = prints("compare", "one", "--policy", "uniform", "--policy", "ucb1", cwd=study)
    assert "less uniform" in named
    (line,) = [x for x in named.splitlines() if x.startswith("uniform")]
    assert re.fullmatch(r"uniform +\d+\.\d ± \d+\.\d", line)  # nothing is said of itself
    assert "thompson" not in named
    assert "no policy 'ucb'. Did you mean 'ucb1'" in fails(
        "compare", "one", "--policy", "ucb", cwd=study
    )


def test_a_long_label_leaves_numbers_their_room(tmp_path: Path) -> None:
    label = "ucb1, with a long label that says what is different about it, which is a lot"
    text = changed(STUDY, ("[20, 40]", "[20]"), ('"ucb1"', f'"ucb1"\nlabel = "{label}"'))
    (tmp_path / "long.toml").write_text(text)
    run_experiment(tmp_path / "long.toml", out=tmp_path / "long", engine="serial").close()
    choice = ("compare", "long", "--policy", label, "--policy", "exp3")
    shown = command(*choice, cwd=tmp_path, settings=TERMINAL | {"COLUMNS": "80"}).stdout
    assert "less ucb1, with a…ch is a lot" in shown
    (line,) = [row for row in shown.splitlines() if row.startswith("exp3")]
    assert line.count(" ± ") >= 1
    assert max(map(len, shown.splitlines())) <= 80


def test_runs_without_anything_in_common_are_told_apart_in_words(folder: Path) -> None:
    arms = 'arms = {generator = "click-bait", n = 3, seed = [1, 2]}'
    text = f'name = "x"\nseed = 1\nhorizons = [10]\n[[environments]]\nuse = "bernoulli"\n{arms}\n'
    for name, rates in {"one": "[0.1, 0.5]", "two": "[0.2]", "three": "0.3"}.items():
        (folder / f"{name}.toml").write_text(f'{text}lam = {rates}\n[[policies]]\nuse = "ucb1"\n')
        run_experiment(folder / f"{name}.toml", out=folder / name, engine="serial").close()
    done = command("compare", "one", "two", cwd=folder)
    assert done.returncode == 1
    assert "differs: environments only in A: 'bernoulli' with lam = 0.1, 0.5\n" in done.stdout
    done = command("compare", "two", "three", cwd=folder)
    assert "left out, for they differ in A and B: 2 of 'bernoulli': lam 0.2 -> 0.3\n" in done.stderr
    told = fails("compare", "one", "two", "--policy", "ucb", cwd=folder)
    assert "the runs have no policy 'ucb'. Did you mean 'ucb1'? They have: ucb1" in told


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
    assert "left out, for they differ in A and B: 'bernoulli': " in done.stderr


def test_formulas_are_compared_by_their_values(folder: Path) -> None:
    first = run(folder, "one", ("lam = 0.3", "lam = 0.1"))
    second = run(folder, "two", ("lam = 0.3", 'lam = "1/T"'))  # 0.1 at T = 10, 0.02 at T = 50
    done = compared(first, second, "--all")
    assert done.exit_code == 0
    assert {(t, p) for _, t, p in rows(done)} == {("10", "mine"), ("10", "uniform")}
    assert "left out, for they differ in A and B: 'bernoulli': lam 0.1 -> 0.02\n" in done.stderr


def test_other_horizons_and_labels_are_not_paired(folder: Path) -> None:
    first = run(folder, "one")
    longer = compared(first, run(folder, "a", ("[10, 50]", "[10, 51]")), "--all")
    assert {t for _, t, _ in rows(longer)} == {"10"}
    renamed = run(folder, "b", ("lam = 0.3", 'lam = 0.3\nlabel = "other"'))
    assert compared(first, renamed).exit_code == 1
    other_policy = compared(first, run(folder, "c", (UNIFORM, 'use = "ucb1"')), "--all")
    assert {p for _, _, p in rows(other_policy)} == {"mine"}


def test_differences_of_the_setup_are_reported(folder: Path) -> None:
    first = run(folder, "one")
    changes = ("seed = 1", "seed = 2"), ("benchmark", "reveal_lam = false\nbenchmark")
    second = run(folder, "two", *changes)
    resolved = json.loads((second / "resolved.json").read_text())
    resolved["versions"]["bdes-framework"] = "0.0.1"
    (second / "resolved.json").write_text(json.dumps(resolved))
    done = compared(first, second, "--all")
    assert done.exit_code == 0
    assert "different seeds, so replications are not paired" in done.stderr
    assert "differs: reveal_lam: True -> False in B\n" in done.stdout
    assert "differs: seed: 1 -> 2 in B\n" in done.stdout
    assert "other code in B: bdes-framework 0.1.0 -> 0.0.1" in done.stderr
    # Of one instance there is no interval without pairs.
    assert re.search(r"(?m)^uniform .* ± .* ± \S+ +-?0\.\d+$", done.stdout)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_run_without_resolved_json_raises(folder: Path, damage: str) -> None:
    first = run(folder, "one")
    (first / "resolved.json").unlink()
    if damage == "damaged":
        (first / "resolved.json").write_text("{")
    assert "cannot read" in str(compared(first, first).exception)
    assert CliRunner().invoke(runs, [str(folder)]).exit_code == 0


def test_each_run_is_compared_at_the_longest_horizon_in_common(folder: Path) -> None:
    first = run(folder, "one")
    short = run(folder, "two", ("[10, 50]", "[10]"))
    done = compared(first, short, first)
    found = json.loads(compared(first, short, first, "--json").stdout)
    assert done.exit_code == 0
    assert [(row["policy"], row["run"]) for row in found["rows"]] == [
        (policy, letter) for policy in ("mine", "uniform") for letter in ("B", "C")
    ]
    assert "differs: horizons: [10, 50] -> [10] in B" in done.stdout
