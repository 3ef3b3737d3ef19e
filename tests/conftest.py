"""Shared fixtures: plugins that are really installed or really local, never mocked."""

import importlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.experiments import FILE, SLOW, Install, changed, write_experiment, write_plugin

# Compiling on first use breaks any deadline; the same examples every time keep CI steady.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

# Signals as in a terminal: commands in the background and under nohup ignore some of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a distribution with one plugin module.

    Writes the module and its ``.dist-info`` into a folder on ``sys.path``, which is what an
    installer does.
    """
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    modules: list[str] = []

    def install(
        distribution: str,
        source: str,
        *,
        version: str = "1.0",
        group: str = "bdes_framework",
        target: str = "",
    ) -> Path:
        module = distribution.replace("-", "_")
        modules.append(module)
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{module} = {target or module}\n")
        importlib.invalidate_caches()
        return site

    yield install
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with an experiment of 6 cells, ``demo.toml``, and the plugin it uses."""
    write_plugin(tmp_path)
    write_experiment(tmp_path)
    return tmp_path


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Return an experiment of 120 cells, some with noise of their own, some grids."""
    (tmp_path / "slow.py").write_text(SLOW)
    lams = ("lam = 0.3", 'lam = [0.0, 0.3, "1/T", 1.0]')
    text = changed(FILE, ("mine", "slow"), lams, ("replications = 3", "replications = 15"))
    (tmp_path / "sweep.toml").write_text(text)
    return tmp_path / "sweep.toml"
