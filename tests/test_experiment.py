"""Experiments: files are checked whole, cells share luck, failures stay in their cell."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import CellRecord, ConfigError
from bdes_framework.experiment import load_experiment, run_experiment
from bdes_framework.summary import student_t, summarise

Good = Callable[[str], str]

FILE = """
name = "demo"
seed = 1
horizons = [10, 50]
replications = 3

[plugins]
modules = ["mine.py"]

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = 0.3

[[policies]]
use = "mine"
"""

LISTENER = """
calls = []

@hookimpl
def bdes_run_started(run):
    calls.append(("started", run.name, run.n_cells))

@hookimpl
def bdes_cell_finished(run, cell):
    calls.append(("cell", cell.policy, run.n_finished, run.n_failed))

@hookimpl
def bdes_run_finished(run):
    calls.append(("finished", run.n_finished, run.n_failed))
"""


@pytest.fixture
def folder(tmp_path: Path, good_plugin: Good) -> Path:
    (tmp_path / "mine.py").write_text(good_plugin("mine"))
    (tmp_path / "demo.toml").write_text(FILE)
    return tmp_path


def run(folder: Path) -> list[CellRecord]:
    return run_experiment(load_experiment(folder / "demo.toml"))


def test_every_cell_is_run_once_in_order(folder: Path) -> None:
    records = run(folder)
    assert [(r.horizon, r.replication) for r in records] == [
        (horizon, replication) for horizon in (10, 50) for replication in range(3)
    ]
    assert all(r.error is None and r.total_reward is not None for r in records)
    assert records == run(folder)


def test_adding_a_policy_changes_no_other_policy_s_numbers(folder: Path) -> None:
    alone = run(folder)
    file = folder / "demo.toml"
    file.write_text(
        FILE.replace("[[policies]]", '[[policies]]\nuse = "mine"\nlabel = "z"\n[[policies]]')
    )
    together = run(folder)
    assert [r for r in together if r.policy == "mine"] == alone
    # Two policies that do the same meet the same luck.
    rewards = [r.total_reward for r in alone]
    assert [r.total_reward for r in together if r.policy == "z"] == rewards


def test_a_policy_that_raises_fails_its_own_cell_only(folder: Path, good_plugin: Good) -> None:
    (folder / "mine.py").write_text(
        good_plugin("mine").replace("        pass", "        raise OSError('no more')")
    )
    (folder / "other.py").write_text(good_plugin("other"))
    file = folder / "demo.toml"
    file.write_text(
        FILE.replace('["mine.py"]', '["mine.py", "other.py"]') + '[[policies]]\nuse = "other"\n'
    )
    records = run(folder)
    assert {r.error for r in records if r.policy == "mine"} == {"OSError: no more"}
    assert all(r.error is None for r in records if r.policy == "other")
    failed = next(result for result in summarise(records) if result.policy == "mine")
    assert (failed.reward, failed.n_failed) == (None, 3)


def test_run_boundary_hooks_are_told_and_none_is_called_while_a_cell_runs(
    folder: Path, good_plugin: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = good_plugin("mine") + LISTENER
    (folder / "mine.py").write_text(
        source.replace("return np.zeros", "calls.append('ask'); return np.zeros").replace(
            "        pass", "        calls.append('tell')"
        )
    )
    experiment = load_experiment(folder / "demo.toml")
    hooks = experiment.plugins._hooks
    (plugin,) = [p for name, p in hooks.list_name_plugin() if name == "mine"]
    fired: list[str] = []
    calls: list[object] = vars(plugin)["calls"]
    undo = hooks.add_hookcall_monitoring(
        lambda name, *_: calls.append(f"before {name}"),
        lambda _, name, *__: calls.append(f"after {name}"),
    )
    run_experiment(experiment)
    undo()
    assert calls[:3] == [
        "before bdes_run_started",
        ("started", "demo", 6),
        "after bdes_run_started",
    ]
    assert ("finished", 6, 0) in calls
    assert [c for c in calls if isinstance(c, tuple) and c[0] == "cell"] == [
        ("cell", "mine", done, 0) for done in range(1, 7)
    ]
    inside = False
    for call in calls:
        if isinstance(call, str) and call.startswith(("before", "after")):
            inside = call.startswith("before")
            fired.append(call)
        elif call in ("ask", "tell"):
            assert not inside, "a hook was running while the policy was asked"
    # One call a cell and two a run: nothing fires per round, however many rounds there are.
    assert len([name for name in fired if name.startswith("before")]) == 6 + 2


def test_a_listener_that_raises_is_only_a_warning(folder: Path, good_plugin: Good) -> None:
    source = good_plugin("mine") + LISTENER.replace('calls.append(("started"', 'raise OSError(("s"')
    (folder / "mine.py").write_text(source)
    with pytest.warns(RuntimeWarning, match=r"plugin 'mine': bdes_run_started raised OSError"):
        records = run(folder)
    assert len(records) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("seed = 1", "sed = 1"), "sed: is not a parameter. Did you mean 'seed'?"),
        (("seed = 1", "seed = 1\nseed = 2"), "is not valid TOML"),
        (("seed = 1", "seed = -1"), "seed: must be at least 0, got -1"),
        (("[10, 50]", "[10, 0]"), "horizons[1]: must be at least 1, got 0"),
        (("[10, 50]", "[]"), "horizons: needs at least one entry"),
        (("replications = 3", "replications = 0"), "replications: must be at least 1"),
        (('name = "demo"', 'name = ""'), "name: must have 1 to 100 characters"),
        (
            ('"bernoulli"', '"bernouli"'),
            "environments[0]: no environment is called 'bernouli'. Did",
        ),
        (("lam = 0.3", "lam = 3"), "environments[0]: lam must be a number in [0, 1], got 3.0"),
        (
            ("lam = 0.3", 'lam = 0.3\nnoise = "x"'),
            "environments[0].noise: no noise model is called",
        ),
        (("lam = 0.3", "gamma = 0.3"), "environments[0].gamma: is not a parameter"),
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
        (("seed = 1", 'seed = 1\nbenchmark = "none"'), "benchmark: no planner is called 'none'"),
        (('use = "mine"', 'use = "mine"\n[[policies]]\nuse = "mine"'), "the label 'mine' is taken"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    folder: Path, change: tuple[str, str], message: str
) -> None:
    file = folder / "demo.toml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    assert message in str(caught.value)
    assert all(line.startswith(str(file)) for line in str(caught.value).splitlines())


def test_all_mistakes_of_a_file_are_reported_at_once(folder: Path) -> None:
    file = folder / "demo.toml"
    file.write_text(
        FILE.replace("seed = 1", "seed = -1").replace('"bernoulli"', '"x"').replace('"mine"', '"y"')
    )
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    assert [m.path for m in caught.value.mistakes] == ["seed", "environments[0]", "policies[0]"]


def test_intervals_use_student_s_t() -> None:
    published = {1: 12.706, 5: 2.571, 10: 2.228, 11: 2.201, 20: 2.086, 29: 2.045, 120: 1.980}
    for freedom, quantile in published.items():
        assert student_t(freedom) == pytest.approx(quantile, abs=6e-4)
