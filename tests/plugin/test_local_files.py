"""Plugins that are not installed: which files their version covers, and how they are imported."""

import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import attrs
import pytest

from bdes_framework import load_experiment, load_plugins, load_run, run_experiment
from bdes_framework.plugin import local_files
from bdes_framework.plugin.fingerprint import source_files
from bdes_framework.plugin.local_files import source_version
from tests.support.command import bdes
from tests.support.experiments import FILE, good_plugin


@pytest.fixture
def helped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the experiment's folder; its plugin plays the arm that a module beside it names."""
    source = good_plugin("mine").replace(
        "return np.zeros(limit, dtype=np.int64)", "return np.full(limit, helper_of_mine.ARM)"
    )
    (folder / "mine.py").write_text("import helper_of_mine\n" + source)
    (folder / "helper_of_mine.py").write_text("ARM = 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(local_files, "_helper_folders", set())
    monkeypatch.setattr(local_files, "_helper_versions", {})
    yield folder
    sys.modules.pop("helper_of_mine", None)


def keys(folder: Path) -> set[str]:
    return {cell.key for cell in load_experiment(folder / "demo.toml").cells}


def test_changed_helper_needs_a_new_process(helped: Path) -> None:
    run_experiment(helped / "demo.toml", out=helped / "run", engine="serial").close()
    (helped / "helper_of_mine.py").write_text("ARM = 1  # another one\n")
    reason = load_plugins(helped / "demo.toml").statuses[-1].reason
    assert "'helper_of_mine' from beside it, which changed after this process" in reason
    del sys.modules["helper_of_mine"]  # as in a new process
    done = bdes("run", "demo.toml", "--out", "run", cwd=helped)
    assert "local file mine changed: 6 cells to run again, 0 reused\n" in done.stderr
    # Arm 0 pays 0.9 q and wears the state down to 0.1, arm 1 pays 0.3 q and keeps it at 1.
    means = [c.total_mean for c in load_run(helped / "run").cells() if c.horizon == 10]
    assert means == pytest.approx([3.0] * 3)


def test_changed_package_makes_new_cells(folder: Path) -> None:
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


def test_late_import_of_a_helper_in_workers(helped: Path) -> None:
    source = (helped / "mine.py").read_text().replace("import helper_of_mine\n", "")
    late = f"""import helper_of_mine, os, pathlib, time
        here = pathlib.Path({str(helped)!r})
        (here / f'{{os.getpid()}}.pid').touch()
        for _ in range(6000):  # until another worker plays the other cell
            if len(list(here.glob('*.pid'))) == 2: break
            time.sleep(0.01)
        return np.full"""
    (helped / "mine.py").write_text(source.replace("return np.full", late))
    text = FILE.replace("[10, 50]", "[10]").replace("replications = 3", "replications = 2")
    (helped / "demo.toml").write_text(text)
    done = bdes("run", "demo.toml", "--out", "run", "--workers", "2", cwd=helped)
    assert done.returncode == 0, done.stderr
    assert [cell.error for cell in load_run(helped / "run").cells()] == [None] * 2
    assert len(list(helped.glob("*.pid"))) == 2


def test_helpers_of_one_name_in_two_folders(helped: Path) -> None:
    other = helped / "other"
    other.mkdir()
    for name in ("mine.py", "helper_of_mine.py"):
        (other / name).write_text((helped / name).read_text())
    assert load_plugins(modules=[str(helped / "mine.py")]).statuses[-1].state == "loaded"
    status = load_plugins(modules=[str(other / "mine.py")]).statuses[-1]
    assert status.state == "failed"
    assert "another plugin's helper has that name" in status.reason


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_source_files_follow_imports(tmp_path: Path) -> None:
    own = {
        "plugin.py": "import numpy, first\ndef f():\n    from second.inner import x\n    import no",
        "first.py": "from third import *\nimport plugin\n",
        "third.py": "not python (",
        "second/__init__.py": "",
        "second/inner.py": "",
        "second/other.py": "",
    }
    write(tmp_path, own | {"stranger.py": "import first\n"})
    found = {file.relative_to(tmp_path).as_posix() for file in source_files(tmp_path / "plugin.py")}
    assert found == set(own)


def test_source_files_of_a_package(tmp_path: Path) -> None:
    write(tmp_path, {"p/__init__.py": "", "p/deep/far.py": "import helper\n", "helper.py": ""})
    found = source_files(tmp_path / "p" / "__init__.py")
    assert [file.name for file in found] == ["helper.py", "__init__.py", "far.py"]


@pytest.mark.parametrize("suffix", EXTENSION_SUFFIXES)
def test_compiled_extensions_are_hashed(tmp_path: Path, suffix: str) -> None:
    package = tmp_path / "p" / "__init__.py"
    package.parent.mkdir()
    package.write_text("import beside_p")
    versions = {source_version(package)}
    for file in (package.parent / f"fast{suffix}", tmp_path / f"beside_p{suffix}"):
        for content in (b"\x7fELF\0one", b"\x7fELF\0two"):
            file.write_bytes(content)
            versions.add(source_version(package))
    assert len(versions) == 5


def test_source_files_leave_out_what_is_installed() -> None:
    assert attrs.__file__ is not None  # beside it stand numpy, rich and all the rest
    files = source_files(Path(attrs.__file__).resolve())
    assert {file.parent.name for file in files} == {"attrs"}
