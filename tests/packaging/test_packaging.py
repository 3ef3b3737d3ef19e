"""The built wheel in a clean environment: what users get, and what type checkers tell them."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import REPOSITORY
from tests.support.mypy_snippets import SNIPPETS, expected_errors, reported_errors

pytestmark = pytest.mark.packaging

TEMPLATE = REPOSITORY / "examples" / "bdes-plugin-template"
PLUGIN_FILES = (
    "examples/bdes-plugin-template/bdes_plugin_template/crowd_epsilon_greedy.py",
    "examples/bdes-plugin-template/bdes_plugin_template/epsilon_greedy.py",
    "examples/rebounding/rebounding.py",
    "plugins/bdes_engines/serial.py",
    "plugins/bdes_environments/bernoulli.py",
    "plugins/bdes_noise/simple.py",
    "plugins/bdes_planners/single_arm.py",
)
"""Something of every kind, as strangers would write it: without a fault."""
TYPED = (*SNIPPETS.glob("*.py"), *(REPOSITORY / file for file in PLUGIN_FILES))


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)


def must(*command: object, cwd: Path | None = None) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheels")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out)
    for project in (REPOSITORY, TEMPLATE):
        must(*build, project)
    return out


@pytest.fixture(scope="module")
def clean(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment with the wheel, the template and pytest only."""
    home = tmp_path_factory.mktemp("clean")
    must(sys.executable, "-m", "venv", "--without-pip", home)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin/python")
    # Bytecode is compiled for the few modules that are imported, not for all of scipy and numba.
    must(*pip, "install", "--quiet", "--no-compile", *wheels.iterdir(), "pytest")
    return home / "bin"


def test_wheel_holds_core_and_plugins_only(wheels: Path) -> None:
    (wheel,) = wheels.glob("bdes_framework-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    plugins = {path.name for path in (REPOSITORY / "plugins").iterdir() if path.is_dir()}
    assert packages == {"bdes_framework", *plugins}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assets = {path.name for path in (REPOSITORY / "bdes_framework/report/assets").iterdir()}
    assert {f"bdes_framework/report/assets/{name}" for name in assets} <= set(names)
    assert {f"{package}/py.typed" for package in packages} <= set(names)


def test_plugins_load_and_run_from_the_wheel(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiling the planner's loops takes 14 s; the template's tests, below, compile others.
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    listing = must(clean / "bdes", "plugins", cwd=tmp_path)
    assert "failed" not in listing
    plugins = [path.name for path in (REPOSITORY / "plugins").iterdir()]
    assert all(name in listing for name in [*plugins, "bdes-plugin-template"])
    shutil.copy(TEMPLATE / "experiment.toml", tmp_path)
    assert "epsilon-greedy" in must(clean / "bdes", "run", "experiment.toml", cwd=tmp_path)


def test_report_names_its_missing_extra(clean: Path, tmp_path: Path) -> None:
    done = run(clean / "bdes", "report", "anything", cwd=tmp_path)
    assert done.returncode == 2
    assert "install 'bdes-framework[report]'" in done.stderr


def test_template_tests_pass(clean: Path, tmp_path: Path) -> None:
    output = must(clean / "python", "-m", "pytest", "-q", TEMPLATE / "tests", cwd=tmp_path)
    assert "passed" in output


@pytest.fixture(scope="module")
def reported(
    clean: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[tuple[int, str]]]:
    """Return what mypy reports, by file: run outside the repository, against the wheel."""
    elsewhere = tmp_path_factory.mktemp("typed")
    for file in TYPED:
        shutil.copy(file, elsewhere)
    return reported_errors(elsewhere, str(clean / "python"))


@pytest.mark.parametrize("file", TYPED, ids=lambda file: file.name)
def test_mypy_reports_the_marked_lines_only(
    file: Path, reported: dict[str, set[tuple[int, str]]]
) -> None:
    assert reported[file.name] == expected_errors(file)
