"""The built wheel in clean environments: what a stranger gets, and what type checkers say."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import REPOSITORY

pytestmark = pytest.mark.packaging

TEMPLATE = REPOSITORY / "examples" / "bdes-plugin-template"
TYPING = REPOSITORY / "tests" / "typing"


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)


def must(*command: object, cwd: Path | None = None) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    must(sys.executable, "-m", "build", "--wheel", "--outdir", out, REPOSITORY)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def stranger(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a clean environment with the wheel, the template and mypy."""
    home = tmp_path_factory.mktemp("stranger")
    must(sys.executable, "-m", "venv", home)
    must(home / "bin/python", "-m", "pip", "install", "--quiet", wheel, TEMPLATE, "mypy", "pytest")
    return home / "bin"


def test_the_wheel_has_core_and_plugins_typed_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    plugins = {path.name for path in (REPOSITORY / "plugins").iterdir() if path.is_dir()}
    assert packages == {"bdes_framework", *plugins}
    for package in packages:
        assert f"{package}/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for asset in (REPOSITORY / "bdes_framework" / "report" / "assets").iterdir():
        assert f"bdes_framework/report/assets/{asset.name}" in names


def test_every_first_party_plugin_loads_from_the_wheel(stranger: Path, tmp_path: Path) -> None:
    listing = must(stranger / "bdes", "plugins", cwd=tmp_path)
    assert "failed" not in listing
    for plugin in (REPOSITORY / "plugins").iterdir():
        assert plugin.name in listing
    assert "bdes-plugin-template" in listing


def test_the_template_s_policy_runs_by_name_from_a_config(stranger: Path, tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text((TEMPLATE / "experiment.toml").read_text())
    table = must(stranger / "bdes", "run", "experiment.toml", cwd=tmp_path)
    assert "epsilon-greedy" in table


def test_without_the_report_extra_charts_are_refused_and_it_is_named(
    stranger: Path, tmp_path: Path
) -> None:
    done = run(stranger / "bdes", "report", "anything", cwd=tmp_path)
    assert done.returncode == 2
    assert "install 'bdes-framework[report]'" in done.stderr


def test_the_template_s_own_tests_pass(stranger: Path, tmp_path: Path) -> None:
    output = must(stranger / "python", "-m", "pytest", "-q", TEMPLATE / "tests", cwd=tmp_path)
    assert "passed" in output


def test_a_stranger_s_plugin_type_checks_outside_the_repository(
    stranger: Path, tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text((TYPING / "good_plugin.py").read_text())
    must(stranger / "mypy", "--strict", "plugin.py", cwd=tmp_path)


@pytest.mark.parametrize("name", ["policy_without_tell", "wrong_config_type"])
def test_a_wrong_plugin_is_refused_outside_the_repository(
    stranger: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "plugin.py").write_text((TYPING / f"{name}.py").read_text())
    done = run(stranger / "mypy", "--strict", "plugin.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "arg-type" in done.stdout
