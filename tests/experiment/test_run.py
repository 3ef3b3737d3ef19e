"""Runs: going on where one stopped, nothing mixed; faults stay in their cell."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import StoreError, load_experiment, run_experiment
from bdes_framework.cli.run import show_run
from bdes_framework.experiment.store import locked, open_store
from tests.support.experiments import FILE, dump

Good = Callable[[str], str]

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


def test_finished_cells_are_never_run_again(folder: Path) -> None:
    experiment = load_experiment(folder / "demo.toml")
    played: list[str] = []
    starts: list[tuple[int, int]] = []

    def go() -> None:
        run_experiment(
            experiment,
            out=folder / "run",
            engine="serial",
            on_start=lambda total, done: starts.append((total, done)),
            on_cell=lambda cell, _: played.append(cell.key),
        )

    go()
    go()
    assert starts == [(6, 0), (6, 6)]
    assert played == [cell.key for cell in experiment.cells]


def test_another_experiment_s_folder_is_refused(folder: Path) -> None:
    run_experiment(folder / "demo.toml", out=folder / "run")
    before = dump(folder / "run")
    (folder / "demo.toml").write_text(FILE.replace("seed = 1", "seed = 2"))
    with pytest.raises(StoreError, match="holds another experiment"):
        run_experiment(folder / "demo.toml", out=folder / "run")
    assert dump(folder / "run") == before


def test_another_version_of_a_plugin_gets_a_folder_of_its_own(
    folder: Path, good_plugin: Good, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    first = run_experiment("demo.toml").folder
    assert first == run_experiment("demo.toml").folder
    (folder / "mine.py").write_text(good_plugin("mine").replace("zeros", "ones"))
    second = run_experiment("demo.toml").folder
    assert second != first
    assert not {row[0] for row in dump(first)} & {row[0] for row in dump(second)}


def test_a_folder_with_somebody_s_files_is_refused(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "experiment.toml").write_text("dear to me")
    with pytest.raises(StoreError, match=r"is not a run but has 'experiment\.toml' in it"):
        run_experiment(folder / "demo.toml", out=folder / "mine")
    assert (folder / "mine" / "experiment.toml").read_text() == "dear to me"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()", "Odd, which cannot"),
        ("raise OSError('\\udc80')", "OSError"),
    ],
)
def test_however_a_policy_fails_the_others_go_on(
    folder: Path, good_plugin: Good, fault: str, error: str
) -> None:
    failing(folder, good_plugin)
    source = good_plugin("mine").replace("        pass", f"        {fault}")
    (folder / "mine.py").write_text(source)
    run = run_experiment(folder / "demo.toml", out=folder / "run", engine="serial")
    by_policy = {cell.policy: cell.error or "" for cell in run.cells()}
    assert by_policy["mine"].startswith(error)
    assert by_policy["other"] == ""


def test_diagnostics_that_cannot_be_written_fail_their_own_cell(
    folder: Path, good_plugin: Good
) -> None:
    source = good_plugin("mine").replace(
        "        pass", "        pass\n    def diagnostics(self):\n"
        "        d = {}\n        d['x'] = d\n        return d",
    )  # fmt: skip
    (folder / "mine.py").write_text(source)
    run = run_experiment(folder / "demo.toml", out=folder / "run", engine="serial")
    assert all("ValueError" in (cell.error or "") for cell in run.cells())


def test_a_second_process_on_one_folder_is_refused(folder: Path) -> None:
    (folder / "run").mkdir()
    with locked(folder / "run"):
        done = subprocess.run(
            [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run",
             str(folder / "demo.toml"), "--out", str(folder / "run")],
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert "in use by another process" in done.stderr


def failing(folder: Path, good_plugin: Good) -> None:
    source = good_plugin("mine").replace(
        "        pass", "        import pathlib\n"
        f"        if pathlib.Path({str(folder / 'broken')!r}).exists():\n"
        "            raise OSError('no more')"
    )  # fmt: skip
    (folder / "mine.py").write_text(source)
    (folder / "other.py").write_text(good_plugin("other"))
    (folder / "demo.toml").write_text(
        FILE.replace('["mine.py"]', '["mine.py", "other.py"]') + '[[policies]]\nuse = "other"\n'
    )
    (folder / "broken").touch()


def test_a_policy_that_raises_fails_its_own_cells_and_can_be_tried_again(
    folder: Path, good_plugin: Good
) -> None:
    failing(folder, good_plugin)
    run = run_experiment(folder / "demo.toml", out=folder / "run")
    errors = {cell.policy: cell.error for cell in run.cells()}
    assert errors == {"mine": "OSError: no more", "other": None}
    store = open_store(folder / "run", create=False)
    (key, *_) = store.finished(failed=True)
    result = store.result(key)
    assert result is not None
    assert "Traceback" in result.details
    assert "mine.py" in result.details
    (folder / "broken").unlink()
    run_experiment(folder / "demo.toml", out=folder / "run")
    assert len(store.finished(failed=True)) == 6
    run_experiment(folder / "demo.toml", out=folder / "run", retry_failed=True)
    assert store.finished(failed=True) == set()
    assert len(store.finished(failed=False)) == 12


def test_hooks_are_told_and_none_is_called_while_a_cell_runs(
    folder: Path, good_plugin: Good
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
    calls: list[object] = vars(plugin)["calls"]
    undo = hooks.add_hookcall_monitoring(
        lambda name, *_: calls.append(f"before {name}"),
        lambda _, name, *__: calls.append(f"after {name}"),
    )
    run_experiment(experiment, out=folder / "run", engine="serial")
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
        elif call in ("ask", "tell"):
            assert not inside, "a hook was running while the policy was asked"
    # One call a cell and two a run: nothing fires per round, however many rounds there are.
    assert len([c for c in calls if isinstance(c, str) and c.startswith("before")]) == 6 + 2


def test_cells_that_differ_in_their_label_alone_are_played_once_and_all_finished(
    folder: Path, good_plugin: Good
) -> None:
    source = good_plugin("mine") + LISTENER
    (folder / "mine.py").write_text(source)
    twin = '[[policies]]\nuse = "mine"\nlabel = "twin"\n'
    (folder / "demo.toml").write_text(FILE + twin)
    experiment = load_experiment(folder / "demo.toml")
    hooks = experiment.plugins._hooks
    (plugin,) = [p for name, p in hooks.list_name_plugin() if name == "mine"]
    calls: list[tuple[object, ...]] = vars(plugin)["calls"]
    starts: list[tuple[int, int]] = []
    for _ in range(2):
        run_experiment(
            experiment,
            out=folder / "run",
            engine="serial",
            on_start=lambda total, done: starts.append((total, done)),
        )
    assert starts == [(12, 0), (12, 12)]
    cells = [call for call in calls if call[0] == "cell"]
    assert sorted(str(call[1]) for call in cells) == ["mine"] * 6 + ["twin"] * 6
    assert [call[2] for call in cells] == list(range(1, 13))
    assert [call for call in calls if call[0] == "finished"] == [("finished", 12, 0)] * 2
    assert len(dump(folder / "run")) == 6


def test_a_listener_that_raises_is_only_a_warning(folder: Path, good_plugin: Good) -> None:
    broken = LISTENER.replace('calls.append(("started"', 'raise OSError(("s"')
    (folder / "mine.py").write_text(good_plugin("mine") + broken)
    with pytest.warns(RuntimeWarning, match=r"plugin 'mine': bdes_run_started raised OSError"):
        run = run_experiment(folder / "demo.toml", out=folder / "run")
    assert len(run.cells()) == 6


def test_a_run_is_read_as_rows_and_frames(folder: Path) -> None:
    run = run_experiment(folder / "demo.toml", out=folder / "run")
    rows = list(run.rows())
    assert len(rows) == 6
    frame = run.to_pandas()
    assert frame["total_reward"].tolist() == [row["total_reward"] for row in rows]
    assert run.to_polars()["horizon"].to_list() == [row["horizon"] for row in rows]
    assert run.name == "demo"
    assert "bdes-framework" in run.resolved["versions"]
    with pytest.raises(KeyError, match="no finished cell"):
        run.curves("x", "y", 1)


def test_failures_that_are_not_shown_are_counted(
    folder: Path, good_plugin: Good, capsys: pytest.CaptureFixture[str]
) -> None:
    source = good_plugin("mine").replace("        pass", "        raise OSError(next(numbers))")
    (folder / "mine.py").write_text(source.replace(
        "BDES_API_VERSION", "import itertools\nnumbers = itertools.count()\nBDES_API_VERSION", 1
    ))  # fmt: skip
    (folder / "demo.toml").write_text(FILE.replace("replications = 3", "replications = 6"))
    assert show_run(run_experiment(folder / "demo.toml", out=folder / "run", engine="serial")) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 10 + 2
    assert told[-2] == "failed: and 2 more cells otherwise"
    assert told[-1].startswith("bdes: 12 of 12 cells failed")
