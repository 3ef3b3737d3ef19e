"""The experiment file: checked whole, grids expanded, formulas computed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import ConfigError, Experiment, load_experiment
from tests.support.experiments import FILE

Good = Callable[[str], str]


def load(folder: Path, *changes: tuple[str, str]) -> Experiment:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "demo.toml").write_text(text)
    return load_experiment(folder / "demo.toml")


def test_every_combination_is_a_cell_with_a_key_of_its_own(folder: Path) -> None:
    cells = load(folder).cells
    assert [(c.horizon, c.replication) for c in cells] == [
        (horizon, replication) for horizon in (10, 50) for replication in range(3)
    ]
    assert len({c.key for c in cells}) == 6
    assert [c.key for c in cells] == [c.key for c in load(folder).cells]


def test_lists_expand_into_a_grid_and_formulas_follow_the_horizon(folder: Path) -> None:
    cells = load(folder, ("lam = 0.3", 'lam = [0.01, "1/T", "K/T"]\nq0 = [1, 0.5]')).cells
    assert len(cells) == 2 * 3 * 2 * 3
    rates = {(c.horizon, c.environment.label): c.environment.parameters["lam"] for c in cells}
    assert rates[10, "bernoulli (lam=0.01, q0=1)"] == 0.01
    assert rates[10, "bernoulli (lam=1/T, q0=0.5)"] == 0.1
    assert rates[50, "bernoulli (lam=1/T, q0=0.5)"] == 0.02
    assert rates[50, "bernoulli (lam=K/T, q0=1)"] == 0.04


def test_arms_may_come_from_a_file_or_a_generator(folder: Path) -> None:
    (folder / "arms.csv").write_text("r,b\n0.5,0.25\n0.75,1\n0,0\n")
    inline = "r = [0.9, 0.3]\nb = [0.1, 1.0]"
    (first, *_) = load(folder, (inline, 'arms = { file = "arms.csv" }')).cells
    assert list(first.environment.parameters["r"]) == [0.5, 0.75, 0]  # type: ignore[call-overload]
    drawn = 'arms = { generator = "click-bait", n = 4, seed = [1, 2] }'
    cells = load(folder, (inline, drawn)).cells
    assert {c.environment.label for c in cells} == {
        "bernoulli (arms.seed=1)", "bernoulli (arms.seed=2)"
    }  # fmt: skip


def test_everything_that_decides_numbers_changes_the_keys(folder: Path, good_plugin: Good) -> None:
    known = {c.key for c in load(folder).cells}
    for change in (
        ("seed = 1", "seed = 2"),
        ("lam = 0.3", "lam = 0.30001"),
        ("b = [0.1", "b = [0.2"),
        ("horizons = [10, 50]", "horizons = [11, 51]"),
        ("benchmark", "checkpoints = 20\nbenchmark"),
        ("benchmark", "reveal_lam = false\nbenchmark"),
        ("benchmark", "reveal_replenishing_arm = true\nbenchmark"),
    ):
        assert not known & {c.key for c in load(folder, change).cells}, change
    (folder / "mine.py").write_text(good_plugin("mine") + "\n# another version\n")
    assert not known & {c.key for c in load(folder).cells}


def test_names_labels_and_more_replications_change_no_key(folder: Path) -> None:
    known = {c.key for c in load(folder).cells}
    for change in (
        ('name = "demo"', 'name = "other"'),
        ('use = "mine"', 'use = "mine"\nlabel = "x"'),
        ("replications = 3", "replications = 4"),
        ("benchmark", 'engine = "serial"\nbenchmark'),
    ):
        assert known <= {c.key for c in load(folder, change).cells}, change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 1", "sed = 1"), "sed: is not a parameter. Did you mean 'seed'?"),
        (("seed = 1", "seed = 1\nseed = 2"), "is not valid TOML"),
        (("seed = 1", "seed = -1"), "seed: must be at least 0, got -1"),
        (("[10, 50]", "[10, 0]"), "horizons[1]: must be from 1 to"),
        (("[10, 50]", "[]"), "horizons: needs at least one entry"),
        (("[10, 50]", "[10, 10]"), "horizons: names a horizon twice"),
        (("replications = 3", "replications = 0"), "replications: must be at least 1"),
        (("replications = 3", "replications = 10_000_000"), "describes 20,000,000 cells"),
        (("benchmark", "checkpoints = 1\nbenchmark"), "checkpoints: must be at least 2"),
        (('name = "demo"', 'name = ""'), "name: must have 1 to 200 characters"),
        (
            ('"bernoulli"', '"bernouli"'),
            "environments[0]: no environment is called 'bernouli'. Did",
        ),
        (("lam = 0.3", "lam = 3"), "environments[0]: lam must be a number in [0, 1], got 3.0"),
        (("lam = 0.3", 'lam = "T"'), "environments[0]: lam must be a number in [0, 1], got 10.0"),
        (("lam = 0.3", 'lam = "1/t"'), "environments[0].lam: unknown name 't'"),
        (("lam = 0.3", "lam = []"), "environments[0].lam: is an empty list"),
        (("lam = 0.3", "lam = [0.1, true]"), "environments[0].lam: expected a number, got True"),
        (
            ("lam = 0.3", 'lam = 0.3\nnoise = "x"'),
            "environments[0].noise: no noise model is called",
        ),
        (("lam = 0.3", "gamma = 0.3"), "environments[0].gamma: is not a parameter"),
        (
            (
                "r = [0.9, 0.3]\nb = [0.1, 1.0]",
                'arms = { file = "x.csv" }',
            ),
            "environments[0].arms: cannot read x.csv",
        ),
        (("lam = 0.3", "lam = [0.3, 0.3]"), "environments[0].lam: has '0.3' twice in its grid"),
        (("lam = 0.3", 'lam = [0.3, "0.3"]'), "has '0.3' twice in its grid"),
        (
            ("r = [0.9, 0.3]", 'r = [0.9]\narms = { generator = "uniform", n = 2 }'),
            "arms: stands for r and b: give one or the other",
        ),
        (("benchmark", "checkpoints = 100000\nbenchmark"), "checkpoints: must be at most 10,000"),
        (
            ("r = [0.9, 0.3]\nb = [0.1, 1.0]", "arms = { n = 3 }"),
            "arms: arms need either 'file' or 'generator'",
        ),
        (
            ('use = "mine"', 'name = "mine"'),
            "policies[0]: expected the name of a policy or a table",
        ),
        (('use = "mine"', 'use = "mine"\nlabel = 3'), "policies[0].label: must be a string"),
        (('"mine.py"', '"yours.py"'), "no policy is called 'mine'"),
        (
            ("seed = 1", 'seed = 1\nengine = "seral"'),
            "engine: no engine is called 'seral'. Did you",
        ),
        (
            ("seed = 1", 'seed = 1\nengine = {use = "serial", n = 2}'),
            "engine.n: is not a parameter",
        ),
        (("benchmark = false", 'benchmark = "nope"'), "benchmark: no planner is called 'nope'"),
        (("benchmark = false", "benchmark = true"), "naming one, got True; or expected false, got"),
        (
            ('use = "bernoulli"\n', ""),
            "environments[0]: expected the name of an environment or a table",
        ),
        (("lam = 0.3", 'lam = [1, "1"]'), "environments[0].lam: has '1' twice in its grid"),
        (
            (
                "lam = 0.3",
                'lam = 1\nnoise = [{use = "gaussian", sigma = 1}, {sigma = 1.0, use = "gaussian"}]',
            ),
            "environments[0].noise: has 'gaussian sigma=1.0' twice in its grid",
        ),
        (
            (
                "r = [0.9, 0.3]\nb = [0.1, 1.0]",
                'arms = {file = ["x", "x, noise=y"]}\nnoise = ["y", "y, noise=y"]',
            ),
            "the label 'bernoulli (arms.file=x, noise=y, noise=y)' is that of two of its variants",
        ),
        (('use = "mine"', 'use = "mine"\n[[policies]]\nuse = "mine"'), "the label 'mine' is taken"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    folder: Path, change: tuple[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, change)
    assert message in str(caught.value)
    file = str(folder / "demo.toml")
    assert all(line.startswith(file) for line in str(caught.value).splitlines())


def test_misformed_keys_do_not_hide_the_other_mistakes(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            folder,
            ("seed = 1", 'seed = "x"\nsed = 1'),
            ("[10, 50]", "[0, 50]"),
            ("lam = 0.3", "lam = 3"),
            ('use = "mine"', 'use = "mine"\ngamma = 1'),
        )
    paths = [m.path for m in caught.value.mistakes]
    assert paths == ["seed", "sed", "horizons[0]", "environments[0]", "policies[0].gamma"]


def test_all_mistakes_of_a_file_are_reported_at_once(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            folder, ("seed = 1", "seed = -1"), ('"bernoulli"', '"x"'), ('use = "mine"', 'use = "y"')
        )
    assert [m.path for m in caught.value.mistakes] == ["seed", "environments[0]", "policies[0]"]


def test_a_label_that_a_grid_makes_is_taken_for_all_others(folder: Path) -> None:
    """Two things of one label would be averaged into one row."""
    ucb1 = "[[policies]]\nuse = 'ucb1'\nlabel = 'u'\nexploration = [1, 2, 3]"
    other = "lam = [0.3, 0.1]\nlabel = 'ads'\n\n[[environments]]\nuse = 'bernoulli'\nr = [0.5]\n"
    with pytest.raises(ConfigError) as caught:
        load(
            folder,
            ("lam = 0.3", other + "b = [1]\nlam = 0.3\nlabel = 'ads (lam=0.3)'"),
            ('use = "mine"', f"use = 'mine'\nlabel = 'u (exploration=2)'\n\n{ucb1}"),
        )
    first, second = map(str, caught.value.mistakes)
    assert first.startswith(
        "environments[1]: the label 'ads (lam=0.3)' is also that of environments"
    )
    assert second.startswith(
        "policies[1]: the label 'u (exploration=2)' is also that of policies[0]"
    )


def test_tables_in_a_grid_are_told_apart_by_what_they_set(folder: Path) -> None:
    grid = 'use = "auto"\nmiddle = [{use = "etc", samples = 1}, {use = "etc", epsilon = 1}]'
    labels = {c.policy.label for c in load(folder, ('use = "mine"', grid)).cells}
    assert labels == {"auto (middle=etc samples=1)", "auto (middle=etc epsilon=1)"}


def paths(error: ConfigError) -> list[str]:
    return [mistake.path for mistake in error.mistakes]


def test_a_mistake_hides_no_other_in_its_table_or_inside_it(folder: Path) -> None:
    etc = 'planner = {use = "certified", gapp = 1}\ntuning = "papper"\nexplore_at_most = 7'
    with pytest.raises(ConfigError) as caught:
        load(
            folder,
            ("seed = 1", 'seed = 1\nengine = {use = "dask", adress = "x", workers = 0}'),
            ("r = [0.9, 0.3]", "r = [1.3, 0.3]"),
            ("lam = 0.3", 'lamb = 3\nq0 = 2\nnoise = {use = "gaussian", sgma = 2}'),
            ('use = "mine"', f'use = "etc"\n{etc}\nsamples = 0'),
        )
    found = "\n".join(str(mistake) for mistake in caught.value.mistakes)
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
    assert len(caught.value.mistakes) == 12


def test_a_table_that_cannot_be_read_hides_no_other(folder: Path) -> None:
    nope = '[[policies]]\nuse = "nope"\nlabel = ""'
    bad = "lam = 3\n\n[[environments]]\nr = [1]\n\n[[environments]]\nuse = 'bernoulli'\nr = [0.1]"
    with pytest.raises(ConfigError) as caught:
        load(
            folder,
            ("[10, 50]", '["x", 0, 7, 7]'),
            ("lam = 0.3", bad),
            ('use = "mine"', 'use = "mine"\n\n[[policies]]\nuse = "mine"\nx = 1\n\n' + nope),
        )
    assert sorted(paths(caught.value)) == [
        "environments[0]",  # lam is no rate
        "environments[1]",  # no 'use'
        "environments[2]",  # the label is taken
        "environments[2].b",
        "environments[2].lam",
        "horizons",  # 7 twice
        "horizons[0]",
        "horizons[1]",
        "policies[1]",  # the label is taken
        "policies[1].x",
        "policies[2]",  # no such policy
        "policies[2].label",
    ]


def test_too_many_replications_or_no_horizon_hide_no_wrong_parameter(folder: Path) -> None:
    for change in (("replications = 3", "replications = 10_000_000"), ("[10, 50]", "[0]")):
        with pytest.raises(ConfigError) as caught:
            load(folder, change, ("lam = 0.3", "lam = 3"))
        assert paths(caught.value)[1:] == ["environments[0]"], change


def test_a_policy_that_is_told_too_little_is_refused_before_anything_runs(folder: Path) -> None:
    etc = ('use = "mine"', 'use = "etc"')
    with pytest.raises(ConfigError) as caught:
        load(folder, etc)
    (mistake,) = map(str, caught.value.mistakes)
    assert mistake.startswith("policies[0]: etc needs to know a replenishing arm; without one, use")
    assert mistake.endswith("; or set reveal_replenishing_arm to true")
    assert len(load(folder, etc, ("seed", "reveal_replenishing_arm = true\nseed")).cells) == 6


@pytest.mark.parametrize("raised", ["KeyError('x')", "SystemExit(3)", "InvalidValueError('x')"])
def test_what_else_a_factory_raises_is_left_to_the_cells(
    folder: Path, good_plugin: Good, raised: str
) -> None:
    source = good_plugin("mine").replace("return First()", f"raise {raised}")
    source = source.replace("import hookimpl", "import InvalidValueError, hookimpl")
    (folder / "mine.py").write_text(source)
    assert len(load(folder).cells) == 6
