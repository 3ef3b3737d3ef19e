"""Which cells are run again: counted by the policies that play them, installed and local ones."""

import ast
import importlib
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from stat import ST_UID
from typing import Any
from unittest import mock

import pytest

import bdes_framework
from bdes_framework import (
    Kind,
    PluginError,
    Run,
    load_experiment,
    load_plugins,
    load_run,
)
from bdes_framework.experiment.cell import execute
from bdes_framework.plugin import fingerprint, local_files
from tests.support.command import bdes, prints
from tests.support.experiments import (
    GOOD,
    Install,
    changed,
    good_plugin,
    run_demo,
    write_experiment,
    write_plugin,
)

SECOND = "\n[[policies]]\nuse = '{0}'\n"
HEADER = GOOD[: GOOD.index("class First")]
ROOT = Path(bdes_framework.__file__).parent


class Played:
    """A file to which policies and planners add their name, a line for each cell played."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "played"

    def noted(self, name: str) -> str:
        return f"with open({str(self._file)!r}, 'a') as file: file.write('{name}\\n')"

    def count(self) -> dict[str, int]:
        """Return how often each was played since the last call."""
        names = self._file.read_text().split() if self._file.exists() else []
        self._file.unlink(missing_ok=True)
        return {name: names.count(name) for name in names}


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """Count the cells of ``mine``, in the folder ``runs`` below the experiment's."""
    monkeypatch.chdir(folder)
    found = Played(folder)
    write_plugin(folder, ("pass", found.noted("mine")))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(local_files, "_helper_folders", set())
    monkeypatch.setattr(local_files, "_helper_versions", {})
    yield found
    sys.modules.pop("helper_of_reuse", None)


def run(**options: Any) -> Run:
    return run_demo(Path(), out="runs/one", **{"reuse": True} | options)


def notes(run: Run) -> tuple[str, ...]:
    assert run.progress is not None
    return run.progress.notes


def reinstalled(install: Install, source: str, version: str) -> None:
    site = install("bdes-acme", source, version=version + ".new")
    for info in site.glob("*.dist-info"):
        shutil.rmtree(info)
    install("bdes-acme", source, version=version)
    sys.modules.pop("bdes_acme", None)
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("version", "note"),
    [("0.4", "bdes-acme 0.3 -> 0.4"), ("0.3", "bdes-acme 0.3 changed (same version)")],
)
def test_changed_install_runs_its_cells_again(
    folder: Path, played: Played, install: Install, version: str, note: str
) -> None:
    source = changed(good_plugin("acme"), ("pass", played.noted("acme")))
    reinstalled(install, source, "0.3")
    (folder / "demo.toml").write_text((folder / "demo.toml").read_text() + SECOND.format("acme"))
    run()
    assert played.count() == {"mine": 6, "acme": 6}
    reinstalled(install, changed(source, ("np.zeros(", "np.ones(")), version)
    again = run()
    assert played.count() == {"acme": 6}
    assert notes(again) == (f"{note}: 6 cells to run again, 6 reused",)
    means = {cell.policy: cell.total_mean for cell in again.cells() if cell.horizon == 10}
    assert means["acme"] == pytest.approx(3.0)  # of arm 1, at last
    assert notes(run()) == ()
    assert played.count() == {}
    assert "computed, 12 reused, 0 failed" in prints(
        "run", "demo.toml", "--out", "runs/one", cwd=folder
    )


def test_unused_plugin_leaves_a_half_done_run(
    folder: Path, played: Played, install: Install
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(on_cell=stop)
    assert played.count() == {"mine": 1}
    reinstalled(install, good_plugin("acme"), "0.3")
    done = run()
    assert played.count() == {"mine": 5}
    assert notes(done) == ()
    assert done.progress is not None
    assert (done.progress.n_reused, done.progress.n_finished) == (1, 6)


def test_a_fixed_policy_runs_alone(folder: Path, played: Played) -> None:
    write_plugin(folder, ("pass", f"{played.noted('other')}; raise OSError"), name="other")
    text = (folder / "demo.toml").read_text() + SECOND.format("other")
    (folder / "demo.toml").write_text(changed(text, ('["mine.py"]', '["mine.py", "other.py"]')))
    assert bdes("run", "demo.toml", cwd=folder).returncode == 1
    assert played.count() == {"mine": 6, "other": 6}
    write_plugin(folder, ("pass", played.noted("other")), name="other")
    done = bdes("run", "demo.toml", "--retry-failed", cwd=folder)
    assert played.count() == {"other": 6}
    assert "local file other changed: 6 cells to run again, 6 reused\n" in done.stderr
    assert ": 6 computed, 6 reused, 0 failed\n" in done.stdout


def planner(played: Played) -> str:
    return f"""{HEADER}
from bdes_framework import Plan, Schedule

class Zero:
    def plan(self, instance, horizon):
        {played.noted("plan")}
        schedule = Schedule.cycle([0], horizon)
        return Plan(schedule, instance.value(schedule), float(horizon))

@hookimpl
def bdes_register(registrar):
    registrar.planner("zero", Config, lambda config, context: Zero())
"""


WITH_PLANNER = ('["mine.py"]', '["mine.py", "planner.py"]'), ("= false", '= "zero"')


def test_cells_are_reused_across_folders(folder: Path, played: Played) -> None:
    (folder / "planner.py").write_text(planner(played))
    write_experiment(folder, *WITH_PLANNER)
    run()
    assert played.count() == {"mine": 6, "plan": 2}
    longer = ("[10, 50]", "[10, 20, 50]")
    write_experiment(folder, *WITH_PLANNER, longer)
    damaged = folder / "runs" / "damaged"
    damaged.mkdir()
    (damaged / "results.sqlite").write_text("no database")
    done = bdes("run", "demo.toml", cwd=folder)
    assert played.count() == {"mine": 3, "plan": 1}
    assert ": 3 computed, 6 reused, 0 failed\n" in done.stdout
    assert "6 cells reused from one\n" in done.stderr
    assert "nothing is reused of 'damaged': " in done.stderr
    write_experiment(folder, *WITH_PLANNER, longer, ('"demo"', '"another"'))
    prints("run", "demo.toml", cwd=folder)
    assert played.count() == {"mine": 9, "plan": 3}
    write_experiment(folder, *WITH_PLANNER)
    prints("run", "demo.toml", "--out", "runs/anew", "--no-reuse", cwd=folder)
    assert played.count() == {"mine": 6, "plan": 2}


def test_cells_of_another_user_are_not_reused(
    folder: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_experiment(folder, ("[10, 50]", "[10]"))
    run()
    assert played.count() == {"mine": 3}
    stat = Path.stat

    def as_of_another(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        if path.name != "one":
            return found
        fields = list(found)
        fields[ST_UID] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "stat", as_of_another)
    run_demo(folder, "runs/two", reuse=True)
    assert played.count() == {"mine": 3}


def test_changed_planner_plans_again(folder: Path, played: Played) -> None:
    (folder / "planner.py").write_text(planner(played))
    write_experiment(folder, *WITH_PLANNER)
    run()
    (folder / "planner.py").write_text(planner(played) + "# another\n")
    write_experiment(folder, *WITH_PLANNER, ("[10, 50]", "[10]"))
    run_demo(folder, "runs/two", reuse=True)
    assert played.count() == {"mine": 6, "plan": 3}
    write_experiment(folder, *WITH_PLANNER)
    run()
    assert played.count() == {"plan": 2}


def test_referenced_plugins_belong_to_a_key() -> None:
    plugins = load_plugins()
    policy = plugins.code_of(*plugins.resolve(Kind.POLICY, "etc"))
    assert {name.partition("/")[2] for name in policy} == {"bdes_policies", "bdes_planners"}
    table = {"r": [1, 0], "b": [0, 1], "lam": 0.1, "noise": {"use": "uniform", "half_width": 0.1}}
    noisy = plugins.resolve(Kind.ENVIRONMENT, {"use": "bernoulli", **table})
    found = {name.partition("/")[2] for name in plugins.code_of(*noisy)}
    assert found == {"bdes_environments", "bdes_noise"}


def test_another_numpy_runs_all_again(
    folder: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: "9.9" if name == "numpy" else version(name)
    )
    fingerprint.framework_code.cache_clear()
    try:
        (note,) = notes(run())
    finally:
        fingerprint.framework_code.cache_clear()
    assert note == f"numpy {version('numpy')} -> 9.9: 6 cells to run again, 0 reused"
    assert played.count() == {"mine": 12}
    assert load_run("runs/one").resolved["versions"]["numpy"] == "9.9"


def test_bytecode_of_local_files_is_not_trusted(
    folder: Path, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    arm = ("np.zeros(", "helper_of_reuse.ARM + np.zeros(")
    write_plugin(folder, arm, ("import numpy", "import helper_of_reuse\nimport numpy"))
    (folder / "helper_of_reuse.py").write_text("ARM = 0")
    before = (folder / "helper_of_reuse.py").stat()
    first = run().cells()
    sys.modules.pop("helper_of_reuse")  # as in a new process
    local_files._helper_versions.clear()
    (folder / "helper_of_reuse.py").write_text("ARM = 1")
    os.utime(folder / "helper_of_reuse.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    second = run().cells()
    assert first[0].total_mean != second[0].total_mean
    assert second[0].total_mean == pytest.approx(3.0)


@pytest.mark.parametrize("module", ["bdes_acme", "helper_of_reuse"])
def test_bytecode_of_installed_plugins_is_not_trusted(
    install: Install, monkeypatch: pytest.MonkeyPatch, played: Played, module: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    source = good_plugin("acme", ("import numpy", "import helper_of_reuse\nimport numpy"))
    file = install("bdes-acme", source + "# ARM = 0\n") / f"{module}.py"
    file.with_name("helper_of_reuse.py").write_text("ARM = 0\n")
    if module == "bdes_acme":
        file.write_text(source + "ARM = 0\n")
    before = file.stat()
    importlib.import_module(module)  # by somebody else, who leaves bytecode behind
    file.write_text(file.read_text().replace("ARM = 0", "ARM = 1"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    for name in ("bdes_acme", "helper_of_reuse"):
        sys.modules.pop(name, None)
    load_plugins()
    assert sys.modules[module].ARM == 1


@pytest.mark.parametrize("name", ["mine.py", "helper_of_reuse.py"])
def test_worker_refuses_code_changed_since(folder: Path, played: Played, name: str) -> None:
    write_plugin(folder, ("pass", f"{played.noted('mine')}\n        import helper_of_reuse"))
    (folder / "helper_of_reuse.py").write_text("")
    experiment = load_experiment("demo.toml")
    job = pickle.dumps((partial(execute, experiment.plugins), experiment.cells[0]))
    with (folder / name).open("a") as file:
        file.write("# edited")
    if name != "mine.py":  # imported late, in the process that has the plugin already
        with pytest.raises(PluginError, match="changed after its plugin was loaded"):
            execute(experiment.plugins, experiment.cells[0])
    played.count()
    do, cell = pickle.loads(job)  # as in a worker, which loads plugins anew
    with pytest.raises(PluginError, match="other code than the run began with: local file mine"):
        do(cell)
    assert played.count() == {}


def test_edit_while_a_run_goes_on_stops_it(folder: Path, played: Played) -> None:
    experiment = load_experiment("demo.toml")
    write_plugin(folder, ("pass", played.noted("new")))
    with mock.patch("bdes_framework.cli.run.load_experiment", return_value=experiment):
        done = bdes("run", "demo.toml", "--out", "run", "--workers", "2", cwd=folder)
    assert done.returncode == 1
    assert "bdes: error: a worker has other code" in done.stderr
    assert "new" not in played.count()
    assert load_run("run").cells() == []


def test_installed_files_are_hashed(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python files by content, others by what the installer recorded; commands do not count."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    record = "bdes_acme.py,sha256=a,1\ndata.bin,sha256={},1\n../../bin/x,sha256={},1\nno.py,,\n"

    def code(source: str, *hashes: str) -> str:
        reinstalled(install, source, "0.3")
        (info,) = Path(sys.path[0]).glob("*.dist-info")
        (info / "RECORD").write_text(record.format(*hashes))
        (info.parent / "data.bin").touch()
        plugins = load_plugins()
        return plugins.code_of(*plugins.resolve(Kind.POLICY, "acme"))["bdes-acme"]

    source = good_plugin("acme")
    first = code(source, "b", "c")
    assert code(source, "b", "d") == first
    assert len({first, code(source, "e", "c"), code(source + "# edited", "b", "c")}) == 3


def test_report_names_code_that_changed(folder: Path, played: Played) -> None:
    run_demo(folder)
    write_plugin(folder, ("zeros", "ones"))
    prints("report", "run", "--experiment", "demo.toml", cwd=folder)
    page = (folder / "run" / "report.html").read_text()
    assert "code has changed (local file mine changed) since this run was made: 6 cells" in page


def test_every_numeric_module_is_in_the_key() -> None:
    """What playing a cell imports is hashed, or cannot change a number."""
    not_numeric = {
        "_internal/display", "_internal/files", "_internal/interrupts", "_internal/text",
        "_internal/upwards", "_version", "errors", "experiment/failures",
        "plugin/error_places", "plugin/shared_functions", "plugin/fingerprint",
        "plugin/hookspecs", "plugin/validators",
    }  # fmt: skip
    homes = {name: home for home, names in bdes_framework._HOMES.items() for name in names.split()}
    left = [ROOT / "experiment/cell.py", *(ROOT.parent / "plugins").rglob("*.py")]
    left = [file for file in left if "bdes_engines" not in file.parts]
    seen: set[Path] = set()
    while left:
        file = left.pop()
        seen.add(file)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "bdes_framework"
            ):
                modules = [str(node.module).partition(".")[2]]
                if modules == [""]:
                    modules = [homes[alias.name] for alias in node.names]
                paths = (ROOT / (module.replace(".", "/") + ".py") for module in modules)
                left += [path for path in paths if path.is_file() and path not in seen]
    names = {f.relative_to(ROOT).with_suffix("").as_posix() for f in seen if ROOT in f.parents}
    hashed = {name.removesuffix(".py") for name in fingerprint.NUMERIC_CODE}
    outside = {name for name in names if not {name, name.split("/")[0]} & hashed}
    assert outside <= not_numeric
