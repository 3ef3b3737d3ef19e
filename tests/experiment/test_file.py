"""The experiment file: checked whole, grids expanded, formulas computed."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bdes_framework import ConfigError, Experiment, Kind, Plugins, load_experiment
from tests.support.experiments import write_experiment, write_plugin

Change = tuple[str, str]
ARMS = "r = [0.9, 0.3]\nb = [0.1, 1.0]"
MINE = 'use = "mine"'


def load(folder: Path, *changes: Change) -> Experiment:
    return load_experiment(write_experiment(folder, *changes))


def keys(folder: Path, *changes: Change) -> set[str]:
    return {cell.key for cell in load(folder, *changes).cells}


def mistakes(folder: Path, *changes: Change) -> list[Any]:
    with pytest.raises(ConfigError) as caught:
        load(folder, *changes)
    return list(caught.value.mistakes)


def test_each_combination_is_a_cell_with_its_key(folder: Path) -> None:
    cells = load(folder).cells
    assert [(c.horizon, c.replication) for c in cells] == [
        (horizon, replication) for horizon in (10, 50) for replication in range(3)
    ]
    assert len({c.key for c in cells}) == 6
    assert [c.key for c in cells] == [c.key for c in load(folder).cells]


def test_lists_are_grids_and_strings_are_formulas(folder: Path) -> None:
    cells = load(folder, ("lam = 0.3", 'lam = [0.01, "1/T", "K/T"]\nq0 = [1, 0.5]')).cells
    assert len(cells) == 2 * 3 * 2 * 3
    rates = {(c.horizon, c.environment.label): c.environment.parameters["lam"] for c in cells}
    assert rates[10, "bernoulli (lam=0.01, q0=1)"] == 0.01
    assert rates[10, "bernoulli (lam=1/T, q0=0.5)"] == 0.1
    assert rates[50, "bernoulli (lam=1/T, q0=0.5)"] == 0.02
    assert rates[50, "bernoulli (lam=K/T, q0=1)"] == 0.04


def test_arms_come_from_a_file_or_a_generator(folder: Path) -> None:
    (folder / "arms.csv").write_text("r,b\n0.5,0.25\n0.75,1\n0,0\n")
    (first, *_) = load(folder, (ARMS, 'arms = { file = "arms.csv" }')).cells
    assert list(first.environment.parameters["r"]) == [0.5, 0.75, 0]  # type: ignore[call-overload]
    cells = load(folder, (ARMS, 'arms = { generator = "click-bait", n = 4, seed = [1, 2] }')).cells
    labels = {cell.environment.label for cell in cells}
    assert labels == {"bernoulli (arms.seed=1)", "bernoulli (arms.seed=2)"}


def test_what_decides_numbers_changes_the_keys(folder: Path) -> None:
    known = keys(folder)
    for change in (
        ("seed = 1", "seed = 2"),
        ("lam = 0.3", "lam = 0.30001"),
        ("b = [0.1", "b = [0.2"),
        ("horizons = [10, 50]", "horizons = [11, 51]"),
        ("benchmark", "checkpoints = 20\nbenchmark"),
        ("benchmark", "reveal_lam = false\nbenchmark"),
        ("benchmark", "reveal_replenishing_arm = true\nbenchmark"),
    ):
        assert not known & keys(folder, change), change
    write_plugin(folder, ("import numpy", "# another version\nimport numpy"))
    assert not known & keys(folder)


def test_names_and_replications_change_no_key(folder: Path) -> None:
    known = keys(folder)
    for change in (
        ('name = "demo"', 'name = "other"'),
        (MINE, f'{MINE}\nlabel = "x"'),
        ("replications = 3", "replications = 4"),
        ("benchmark", 'engine = "serial"\nbenchmark'),
    ):
        assert known <= keys(folder, change), change


NOISES = '[{use = "gaussian", sigma = 1}, {sigma = 1.0, use = "gaussian"}]'
CLASHING = 'arms = {file = ["x", "x, noise=y"]}\nnoise = ["y", "y, noise=y"]'

WRONG = {
    "seed = 1": {
        f"seed = {2**128}": "seed: must be from 0 to 2^128 - 1",
        "sed = 1": "sed: is not a parameter. Did you mean 'seed'?",
        "seed = 1\nseed = 2": "is not valid TOML",
        "seed = -1": "seed: must be at least 0, got -1",
        'seed = 1\nengine = "seral"': "engine: no engine is called 'seral'. Did you",
        'seed = 1\nengine = {use = "serial", n = 2}': "engine.n: is not a parameter",
        "seed = 1\ncheckpoints = 1": "checkpoints: must be at least 2",
        "seed = 1\ncheckpoints = 100000": "checkpoints: must be at most 10,000",
    },
    "[10, 50]": {
        "[10, 0]": "horizons[1]: must be from 1 to",
        "[]": "horizons: needs at least one entry",
        "[10, 10]": "horizons: names a horizon twice",
        str([*range(1, 1_002)]): "horizons: has 1,001 entries; the maximum is 1,000",
    },
    "replications = 3": {
        "replications = 0": "replications: must be at least 1",
        "replications = 10_000_000": "describes 20,000,000 cells",
    },
    'name = "demo"': {
        'name = ""': "name: must have 1 to 200 characters",
        f'name = "{"x" * 10_000}"': "name: must have 1 to 200 characters",
    },
    "benchmark = false": {
        'benchmark = "nope"': "benchmark: no planner is called 'nope'",
        "benchmark = true": "naming one, got True; or expected false, got",
    },
    'use = "bernoulli"\n': {
        'use = "bernouli"\n': "environments[0]: no environment is called 'bernouli'. Did",
        "": "environments[0]: expected the name of an environment or a table",
    },
    "lam = 0.3": {
        "lam = 3": "environments[0]: lam must be a number in [0, 1], got 3.0",
        'lam = "T"': "environments[0]: lam must be a number in [0, 1], got 10.0",
        'lam = "1/t"': "environments[0].lam: unknown name 't'",
        f"lam = {[i / 20_000 for i in range(10_001)]}": "environments: has 10,001 variants; the",
        "lam = []": "environments[0].lam: is an empty list",
        "lam = [0.1, true]": "environments[0].lam: expected a number, got True",
        'lam = 0.3\nnoise = "x"': "environments[0].noise: no noise model is called",
        "gamma = 0.3": "environments[0].gamma: is not a parameter",
        "lam = [0.3, 0.3]": "environments[0].lam: has '0.3' twice in its grid",
        'lam = [0.3, "0.3"]': "has '0.3' twice in its grid",
        'lam = [1, "1"]': "environments[0].lam: has '1' twice in its grid",
        f"lam = 1\nnoise = {NOISES}": "[0].noise: has 'gaussian sigma=1.0' twice in its grid",
    },
    ARMS: {
        f"r = [{'1,' * 100_001}]\nb = [1]": "environments[0].r: has 100,001 arms; the maximum is",
        'arms = { file = "x.csv" }': "/x.csv: No such file",
        'arms = { file = "x.toml" }': "/x.toml: No such file",
        'arms = { file = "a\\u0000b.toml" }': "embedded null",
        f'arms = {{ generator = "uniform", n = 2, seed = {2**128} }}': "'seed' must be <",
        'r = [0.9]\narms = { generator = "uniform", n = 2 }': "arms: stands for r and b: give one",
        'arms = { generator = "uniform", n = 2, instances = 0 }': "'instances' must be >= 1",
        'arms = { generator = "uniform", n = 2, instances = [2, 3] }': "must be one number",
        'arms = { generator = "uniform", n = 2, seed = [1], instances = 2 }': "counts seeds from",
        'arms = { file = "x.csv", instances = 2 }': "'instances' needs a 'generator'",
        "arms = { r = [1] }": "arms: arms need both 'r' and 'b'",
        "arms = [{ r = [1], b = [1] }, { n = 3 }]": "arms: arms need one of",
        "arms = { n = 3 }": "arms: arms need one of 'file', 'generator' and 'r' with 'b'",
        CLASHING: "'bernoulli (arms.file=x, noise=y, noise=y)' is that of two of its variants",
    },
    MINE: {
        'name = "mine"': "policies[0]: expected the name of a policy or a table",
        f"{MINE}\nlabel = 3": "policies[0].label: must be a string",
        f'{MINE}\nlabel = "{"x" * 10_000}"': "policies[0].label: must be a string of 1 to 200",
        f"{MINE}\n[[policies]]\n{MINE}": "the label 'mine' is taken",
    },
    '"mine.py"': {'"yours.py"': "no policy is called 'mine'"},
}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [(old, new, message) for old, rows in WRONG.items() for new, message in rows.items()],
)
def test_a_wrong_file_raises_with_the_place(folder: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, (old, new))
    assert message in str(caught.value)
    file = str(folder / "demo.toml")
    assert all(line.startswith(file) for line in str(caught.value).splitlines())


# A wrong lam; no 'use'; a taken label. Then a taken label; no such policy.
ENVIRONMENTS = " ".join(f"environments[{place}" for place in ("0]", "1]", "2]", "2].b", "2].lam"))
POLICIES = "policies[1] policies[1].x policies[2] policies[2].label"
NOPE = '[[policies]]\nuse = "nope"\nlabel = ""'
BAD = "lam = 3\n\n[[environments]]\nr = [1]\n\n[[environments]]\nuse = 'bernoulli'\nr = [0.1]"


@pytest.mark.parametrize(
    "change",
    [("[10, 50]", str([*range(1, 1_002)])), ("replications = 3", "replications = 1_000_000")],
)
def test_too_many_cells_are_checked_at_one_horizon(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    resolved = mock.Mock(side_effect=Plugins.resolve)
    monkeypatch.setattr(Plugins, "resolve", lambda *a, **k: resolved(*a, **k))
    assert len(mistakes(folder, change)) == 1
    kinds = [call.args[1] for call in resolved.call_args_list]
    assert kinds.count(Kind.POLICY) == 1


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        (
            [
                ("seed = 1", 'seed = "x"\nsed = 1'),
                ("[10, 50]", "[0, 50]"),
                ("lam = 0.3", "lam = 3"),
                (MINE, f"{MINE}\ngamma = 1"),
            ],
            "environments[0] horizons[0] policies[0].gamma sed seed",
        ),
        (
            [("seed = 1", "seed = -1"), ('"bernoulli"', '"x"'), (MINE, 'use = "y"')],
            "environments[0] policies[0] seed",
        ),
        (
            [
                ("[10, 50]", '["x", 0, 7, 7]'),
                ("lam = 0.3", BAD),
                (MINE, f"{MINE}\n\n[[policies]]\n{MINE}\nx = 1\n\n{NOPE}"),
            ],
            f"{ENVIRONMENTS} horizons horizons[0] horizons[1] {POLICIES}",
        ),
        (
            [("replications = 3", "replications = 10_000_000"), ("lam = 0.3", "lam = 3")],
            " environments[0]",
        ),
        ([("[10, 50]", "[0]"), ("lam = 0.3", "lam = 3")], "environments[0] horizons[0]"),
    ],
)
def test_no_mistake_hides_another(folder: Path, changes: list[Change], places: str) -> None:
    assert sorted(mistake.path for mistake in mistakes(folder, *changes)) == places.split(" ")


def test_no_mistake_hides_one_inside_its_table(folder: Path) -> None:
    etc = 'planner = {use = "certified", gapp = 1}\ntuning = "papper"\nexplore_at_most = 7'
    caught = mistakes(
        folder,
        ("seed = 1", 'seed = 1\nengine = {use = "dask", adress = "x", workers = 0}'),
        ("r = [0.9, 0.3]", "r = [1.3, 0.3]"),
        ("lam = 0.3", 'lamb = 3\nq0 = 2\nnoise = {use = "gaussian", sgma = 2}'),
        (MINE, f'use = "etc"\n{etc}\nsamples = 0'),
    )
    found = "\n".join(map(str, caught))
    for message in (
        "engine.adress: is not a parameter",
        "engine: 'workers' must be >= 1",
        "environments[0].lam: is required but missing",
        "environments[0].lamb: is not a parameter",
        "environments[0]: r must lie in [0, 1] to be simulated, got 1.3",
        "environments[0]: q0 must lie in [0, 1] to be simulated, got 2.0",
        "environments[0].noise.sgma: is not a parameter",
        "environments[0].noise.sigma: is required but missing",
        "policies[0].planner.gapp: is not a parameter",
        "policies[0].tuning: expected one of",
        "policies[0]: 'explore_at_most' must be",
        "policies[0]: 'samples' must be",
    ):
        assert message in found
    assert len(caught) == 12


def test_a_label_made_by_a_grid_is_taken(folder: Path) -> None:
    """Two things of one label would be averaged into one row."""
    ucb1 = "[[policies]]\nuse = 'ucb1'\nlabel = 'u'\nexploration = [1, 2, 3]"
    other = "lam = [0.3, 0.1]\nlabel = 'ads'\n\n[[environments]]\nuse = 'bernoulli'\nr = [0.5]\n"
    first, second = map(
        str,
        mistakes(
            folder,
            ("lam = 0.3", other + "b = [1]\nlam = 0.3\nlabel = 'ads (lam=0.3)'"),
            (MINE, f"use = 'mine'\nlabel = 'u (exploration=2)'\n\n{ucb1}"),
        ),
    )
    assert first.startswith("environments[1]: the label 'ads (lam=0.3)' is also that of environ")
    assert second.startswith(
        "policies[1]: the label 'u (exploration=2)' is also that of policies[0]"
    )


def test_labels_of_tables_in_a_grid_differ(folder: Path) -> None:
    grid = 'use = "auto"\nmiddle = [{use = "etc", samples = 1}, {use = "etc", epsilon = 1}]'
    labels = {c.policy.label for c in load(folder, (MINE, grid)).cells}
    assert labels == {"auto (middle=etc samples=1)", "auto (middle=etc epsilon=1)"}


def test_a_policy_that_lacks_knowledge_raises(folder: Path) -> None:
    etc = (MINE, 'use = "etc"')
    (mistake,) = map(str, mistakes(folder, etc))
    assert mistake.startswith("policies[0]: etc needs to know a replenishing arm; without one, use")
    assert mistake.endswith("; or set reveal_replenishing_arm to true")
    assert len(load(folder, etc, ("seed", "reveal_replenishing_arm = true\nseed")).cells) == 6


@pytest.mark.parametrize("raised", ["KeyError('x')", "SystemExit(3)", "InvalidValueError('x')"])
def test_other_errors_of_a_factory_are_left(folder: Path, raised: str) -> None:
    imported = ("import hookimpl", "import InvalidValueError, hookimpl")
    write_plugin(folder, ("return First()", f"raise {raised}"), imported)
    assert len(load(folder).cells) == 6


def test_modules_that_fail_and_unknown_disabled_names_are_mistakes(folder: Path) -> None:
    """An error of the file, whether or not it uses what failed; told with all other mistakes."""
    (folder / "broken.py").write_text("import a_library_nobody_has")
    plugins = 'modules = ["mine.py", "broken.py", "./none.py"]\ndisabled = ["bdes_noise", "nobody"]'
    found = mistakes(folder, ('modules = ["mine.py"]', plugins), ("lam = 0.3", "lam = 3"))
    assert [mistake.path for mistake in found] == [
        "plugins.disabled[1]",
        "plugins.modules[1]",
        "plugins.modules[2]",
        "environments[0]",
    ]
    assert "'broken.py' failed to load: ModuleNotFoundError: No module named" in str(found[1])
    assert "'./none.py' failed to load: cannot read './none.py': No such file" in str(found[2])


def test_policies_are_checked_once_for_all_environments_alike(folder: Path) -> None:
    with mock.patch.object(Plugins, "resolve", autospec=True, side_effect=Plugins.resolve) as found:
        load(folder, ("lam = 0.3", f"lam = {[i / 100 for i in range(100)]}"))
    policies = [call for call in found.call_args_list if call.args[1] is Kind.POLICY]
    assert len(policies) < 20
