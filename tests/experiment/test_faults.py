"""What plugins must not do to a run: leave it by any exception, move it, lose its folder."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

from bdes_framework import (
    BuildContext,
    ConfigError,
    CrowdProblem,
    Engine,
    EngineRef,
    Kind,
    PluginError,
    Problem,
    Registrar,
    StoreError,
    load_plugins,
)
from bdes_framework.plugin.registry import Entry
from tests.support.experiments import run_demo, write_experiment, write_plugin

NO_EXCEPTIONS = [
    "import asyncio; raise asyncio.CancelledError",
    "raise GeneratorExit",
    "raise BaseExceptionGroup('several', [KeyboardInterrupt()])",
    "raise type('PanicException', (BaseException,), {})('a panic in Rust')",
    "raise SystemExit(0)",
]

ENVIRONMENT = """
class World:
    n_arms = 2
    def pull(self, arms):
        from bdes_framework import Outcome
        return Outcome(np.zeros(arms.size), np.zeros(arms.size))
    def benchmark(self, checkpoints):
        {fault}

@frozen
class WorldConfig:
    '''Brings a benchmark.'''

@hookimpl
def bdes_register(registrar):
    registrar.environment("world", WorldConfig, lambda config, context: World())
"""

HOOK = """
@hookimpl
def bdes_cell_finished(run, cell):
    {fault}
"""


@pytest.mark.parametrize("fault", NO_EXCEPTIONS)
def test_exceptions_that_are_none_end_a_cell_only(folder: Path, fault: str) -> None:
    write_plugin(folder, ("        pass", f"        {fault}"))
    errors = {cell.error for cell in run_demo(folder).cells()}
    assert len(errors) == 1
    assert None not in errors


@pytest.mark.parametrize("fault", NO_EXCEPTIONS)
def test_exceptions_that_are_none_end_a_benchmark_only(folder: Path, fault: str) -> None:
    write_plugin(folder, ("@hookimpl", ENVIRONMENT.format(fault=fault) + "\n@hookimpl"))
    source = (folder / "mine.py").read_text()
    register = source.rpartition("@hookimpl")[2]
    (folder / "mine.py").write_text(
        source.replace("@hookimpl" + register, "") + '    registrar.policy("mine", Config, build)\n'
    )
    world = 'use = "bernoulli"\nr = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3'
    write_experiment(
        folder, ("benchmark = false", ""), (world, 'use = "world"'), ("[10, 50]", "[10]")
    )
    with run_demo(folder) as run:
        assert [cell.error for cell in run.cells()] == [None] * 3
        assert run.benchmark_errors()


UNREADABLE = "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()"


@pytest.mark.parametrize("fault", [*NO_EXCEPTIONS, UNREADABLE])
def test_exceptions_that_are_none_in_hooks_are_warnings(folder: Path, fault: str) -> None:
    write_plugin(folder, ("@hookimpl", HOOK.format(fault=fault) + "\n@hookimpl"))
    with pytest.warns(RuntimeWarning, match="plugin 'mine': bdes_cell_finished raised"):
        assert len(run_demo(folder).cells()) == 6


def test_factory_that_raises_what_cannot_be_read_is_named(folder: Path) -> None:
    write_plugin(folder, ("return First()", UNREADABLE))
    plugins = load_plugins(modules=[str(folder / "mine.py")])
    with pytest.raises(PluginError, match=r"'mine' raised Odd: .*cannot be read: ZeroDivision"):
        plugins.policy("mine", Problem(2, 10), seed=1)


@pytest.mark.parametrize("where", ["import", "cell", "hook"])
def test_plugin_that_changes_the_working_folder(
    folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    move = "import os; os.chdir('/')"
    changes = {
        "import": ("import numpy", f"{move}\nimport numpy"),
        "cell": ("        pass", f"        {move}"),
        "hook": ("@hookimpl", HOOK.format(fault=move) + "\n@hookimpl"),
    }
    write_plugin(folder, changes[where])
    with run_demo(Path()) as run:
        assert len(run.cells()) == 6
    assert Path.cwd() == folder


def test_folder_deleted_while_a_run_goes_on(folder: Path) -> None:
    seen = []

    def delete(*_: object) -> None:
        seen.append(1)
        shutil.rmtree(folder / "run")

    with pytest.raises(StoreError, match="was deleted while the run was going on"):
        run_demo(folder, on_cell=delete)
    assert len(seen) == 1


@frozen
class WrapperConfig:
    """Runs cells with another engine."""

    inner: EngineRef


def test_context_builds_every_kind() -> None:
    """A config can name any kind, so that a context builds any."""
    built: dict[str, object] = {}

    def build(config: WrapperConfig, context: BuildContext) -> Engine:
        arms = {"use": "bernoulli", "r": [0.9], "b": [0.5], "lam": 0.1}
        built["environment"] = context.environment(arms)
        built["policy"] = context.policy("ucb1", Problem(2, 10))
        built["planner"] = context.planner("certified")
        built["noise_model"] = context.noise_model("none")
        built["crowd_environment"] = context.crowd_environment(arms | {"use": "crowd"})
        built["crowd_policy"] = context.crowd_policy("crowd-greedy", CrowdProblem(2, 10))
        built["journal"] = context.journal("sqlite")
        return context.engine(config.inner)

    plugins = load_plugins()
    registrar = Registrar("wrapper", "acme")
    registrar.engine("wrapper", WrapperConfig, build)
    plugins._registry.add(registrar.entries)
    entry: Entry = registrar.entries[0]
    assert isinstance(plugins.engine("wrapper", inner="serial"), Engine)
    assert {*built, entry.kind.value} == {kind.value for kind in Kind}


STEAL = "np.sqrt = lambda x: x * 0"


@pytest.mark.parametrize("where", ["ask", "factory", "import"])
def test_plugin_that_replaces_a_numpy_function(folder: Path, where: str) -> None:
    """Its own cells fail, by name; those of others are what they would be without it."""
    write_plugin(
        folder,
        ("return np.zeros(limit, dtype=np.int64)", "return np.array([int(np.sqrt(1.0))])"),
        name="other",
    )
    second = ('use = "mine"', 'use = "mine"\n\n[[policies]]\nuse = "other"')
    write_experiment(folder, second, ('"mine.py"', '"mine.py", "other.py"'))
    with run_demo(folder, "plain") as run:
        plain = [cell for cell in run.cells() if cell.policy == "other"]
    original = np.sqrt
    changes = {
        "ask": ("        return np.zeros", f"        {STEAL}\n        return np.zeros"),
        "factory": ("    return First()", f"    {STEAL}\n    return First()"),
        "import": ("BDES_API_VERSION", f"{STEAL}\nBDES_API_VERSION"),
    }
    write_plugin(folder, changes[where])
    if where == "import":
        with pytest.raises(ConfigError, match=r"'mine\.py' failed to load: .*numpy\.sqrt"):
            run_demo(folder)
        assert np.sqrt is original
        return
    with run_demo(folder) as run:
        mine = {str(cell.error) for cell in run.cells() if cell.policy == "mine"}
        assert [cell for cell in run.cells() if cell.policy == "other"] == plain
    (error,) = mine
    assert error.startswith("ContractError: numpy.sqrt of this process, which all plugins share")
    assert error.endswith("was replaced by local file mine.py; it was put back")
    assert np.sqrt is original


def test_numpy_error_handling_of_a_plugin_stays_its_own(folder: Path) -> None:
    write_plugin(folder, ("        pass", "        np.seterr(all='raise')"))
    before = np.geterr()
    with run_demo(folder) as run:
        assert [cell.error for cell in run.cells()] == [None] * 6
    assert np.geterr() == before
