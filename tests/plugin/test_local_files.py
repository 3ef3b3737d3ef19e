"""What the version of a plugin that is not installed covers: all the code it consists of."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bdes_framework import load_experiment, load_plugins, load_run, run_experiment
from bdes_framework.plugin import discovery
from bdes_framework.plugin.local_files import source_files
from tests.support.experiments import FILE

Good = Callable[[str], str]


@pytest.fixture
def helped(folder: Path, good_plugin: Good) -> Iterator[Path]:
    """Return the experiment's folder; its plugin plays the arm that a module beside it names."""
    source = good_plugin("mine").replace(
        "return np.zeros(limit, dtype=np.int64)", "return np.full(limit, helper_of_mine.ARM)"
    )
    (folder / "mine.py").write_text("import helper_of_mine\n" + source)
    (folder / "helper_of_mine.py").write_text("ARM = 0\n")
    before = list(sys.path), set(discovery._helper_folders)
    yield folder
    sys.path[:], discovery._helper_folders = before
    sys.modules.pop("helper_of_mine", None)


def keys(folder: Path) -> set[str]:
    return {cell.key for cell in load_experiment(folder / "demo.toml").cells}


def test_a_changed_helper_makes_new_cells_that_are_played_with_it(helped: Path) -> None:
    first = run_experiment(helped / "demo.toml", out=helped / "one", engine="serial")
    before = keys(helped)
    (helped / "helper_of_mine.py").write_text("ARM = 1  # another one\n")
    assert not before & keys(helped)
    second = run_experiment(helped / "demo.toml", out=helped / "two", engine="serial")
    # Arm 0 pays 0.9 q and wears the state down to 0.1, arm 1 pays 0.3 q and keeps it at 1.
    means = [c.total_mean for c in second.cells() if c.horizon == 10]
    assert means == pytest.approx([3.0] * 3)
    assert not {c.total_mean for c in first.cells()} & {c.total_mean for c in second.cells()}


def test_a_file_beside_that_is_not_imported_changes_nothing(helped: Path) -> None:
    before = keys(helped)
    (helped / "stranger.py").write_text("x = 1\n")
    assert keys(helped) == before
    (helped / "helper_of_mine.py").write_text("ARM = 0\n\n")
    assert not before & keys(helped)


def test_a_changed_module_of_a_local_package_makes_new_cells_that_are_played_with_it(
    folder: Path, good_plugin: Good
) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import bdes_register, BDES_API_VERSION\n")
    (package / "inner.py").write_text(good_plugin("mine"))
    (folder / "demo.toml").write_text(FILE.replace("mine.py", "./package"))
    before = keys(folder)
    (package / "inner.py").write_text(good_plugin("mine").replace("np.zeros", "0 + np.ones"))
    assert not before & keys(folder)
    run = run_experiment(folder / "demo.toml", out=folder / "run", engine="serial")
    means = [c.total_mean for c in run.cells() if c.horizon == 10]
    assert means == pytest.approx([3.0] * 3)


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_a_helper_beside_a_plugin_is_found_by_the_command_line(helped: Path, engine: str) -> None:
    """Imported late, too, and in workers, which two plays longer than 2 s are handed to."""
    source = (helped / "mine.py").read_text().replace("import helper_of_mine\n", "")
    late = "import helper_of_mine, os, pathlib, time"
    waits = f"time.sleep(2.5); pathlib.Path({str(helped)!r}, f'{{os.getpid()}}.pid').touch()"
    source = source.replace(
        "return np.full", f"{late}; {waits if engine == 'processes' else 'pass'}; return np.full"
    )
    (helped / "mine.py").write_text(source)
    text = FILE.replace("[10, 50]", "[10]").replace("replications = 3", "replications = 2")
    (helped / "demo.toml").write_text(text)
    subprocess.run(
        [sys.executable, "-c", "from bdes_framework.cli import main; main()", "run",
         str(helped / "demo.toml"), "--out", str(helped / "run"), "--engine", engine,
         "--workers", "2"][: None if engine == "processes" else -2],
        check=True,
    )  # fmt: skip
    assert [cell.error for cell in load_run(helped / "run").cells()] == [None] * 2
    assert len(list(helped.glob("*.pid"))) == (2 if engine == "processes" else 0)


def test_helpers_of_one_name_in_two_folders_are_not_mixed_up(helped: Path) -> None:
    other = helped / "other"
    other.mkdir()
    for name in ("mine.py", "helper_of_mine.py"):
        (other / name).write_text((helped / name).read_text())
    assert load_plugins(modules=[str(helped / "mine.py")]).records[-1].state == "loaded"
    record = load_plugins(modules=[str(other / "mine.py")]).records[-1]
    assert record.state == "failed"
    assert "another plugin's helper has that name" in record.reason


def test_helpers_are_followed_wherever_they_are_imported(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(
        "import numpy, first\ndef build():\n    from second.inner import x\n    import missing\n"
    )
    (tmp_path / "first.py").write_text("from third import *\nimport plugin\n")
    (tmp_path / "third.py").write_text("not python (")
    (tmp_path / "stranger.py").write_text("import first\n")
    (tmp_path / "second").mkdir()
    for name in ("__init__.py", "inner.py", "other.py"):
        (tmp_path / "second" / name).write_text("")
    found = {file.relative_to(tmp_path).as_posix() for file in source_files(tmp_path / "plugin.py")}
    assert found == {
        "plugin.py", "first.py", "third.py",
        "second/__init__.py", "second/inner.py", "second/other.py",
    }  # fmt: skip


def test_a_package_is_all_its_modules_and_what_they_import_from_beside_it(tmp_path: Path) -> None:
    (tmp_path / "package" / "deep").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "deep" / "far.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("")
    found = source_files(tmp_path / "package" / "__init__.py")
    assert [file.name for file in found] == ["helper.py", "__init__.py", "far.py"]


def test_what_is_installed_beside_a_module_has_a_version_of_its_own() -> None:
    import attrs

    # Beside it stand numpy, rich and all the rest.
    assert attrs.__file__ is not None
    files = source_files(Path(attrs.__file__).resolve())
    assert {file.parent.name for file in files} == {"attrs"}
