"""Plugins from objects in memory, as a notebook defines them."""

import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen

import bdes_framework as bdes
from tests.support.experiments import SLOW

SOURCE = SLOW  # draws random numbers, so that a wrong stream would show


def tables(**changes: object) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "objects",
        "seed": 1,
        "horizons": [30],
        "replications": 2,
        "benchmark": False,
        "engine": "serial",
        "environments": [{"use": "bernoulli", "r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}],
        "policies": ["slow", "ucb1"],
    }
    return given | changes


def module(source: str = SOURCE, name: str = "in_a_notebook") -> ModuleType:
    """A module that no file has, as ``__main__`` is in a notebook."""
    made = ModuleType(name)
    sys.modules[name] = made
    exec(source, made.__dict__)
    return made


class Instance:
    """An object whose hook is a method."""

    BDES_API_VERSION = 1

    @bdes.hookimpl
    def bdes_register(self, registrar: bdes.Registrar) -> None:
        module().bdes_register(registrar)


class Namespace:
    BDES_API_VERSION = 1

    @staticmethod
    @bdes.hookimpl
    def bdes_register(registrar: bdes.Registrar) -> None:
        module().bdes_register(registrar)


@frozen
class Slotted:
    """An object without a ``__dict__``."""

    BDES_API_VERSION = 1

    @bdes.hookimpl
    def bdes_register(self, registrar: bdes.Registrar) -> None:
        module().bdes_register(registrar)


def rewards(run: bdes.Run) -> list[tuple[object, ...]]:
    with run:
        return [(c.policy, c.replication, c.total_reward, c.error) for c in run.cells()]


@pytest.mark.parametrize("kind", ["module", "instance", "namespace", "slotted"])
def test_same_numbers_as_from_a_file(kind: str, tmp_path: Path) -> None:
    plugin = {
        "module": module(),
        "instance": Instance(),
        "namespace": Namespace,
        "slotted": Slotted(),
    }[kind]
    (tmp_path / "slow.py").write_text(SOURCE)
    from_file = tables(plugins={"modules": [str(tmp_path / "slow.py")]})
    expected = rewards(bdes.run_experiment(from_file, out=tmp_path / "file"))
    assert len(expected) == 4
    got = rewards(bdes.run_experiment(tables(), objects=[plugin], out=tmp_path / "memory"))
    assert got == expected


def test_cells_of_objects_are_computed_each_time(tmp_path: Path) -> None:
    constant = SOURCE.replace("int(self.rng.random() * self.n_arms)", "0")
    out = tmp_path / "run"
    first = rewards(bdes.run_experiment(tables(), objects=[module()], out=out))
    notes: list[str] = []
    again = bdes.run_experiment(tables(), objects=[module(constant)], out=out, on_note=notes.append)
    assert again.progress is not None
    assert again.progress.n_reused == 2  # those of ucb1
    (note,) = notes
    assert note == (
        "local object in_a_notebook is in memory, so nothing tells whether it changed: 2 cells to"
        " run again, 2 reused"
    )
    assert rewards(again) != first
    experiment = bdes.load_experiment(tables(), objects=[module()])
    bdes.run_experiment(experiment, out=out).close()
    with bdes.run_experiment(experiment, out=out) as resumed:
        assert resumed.progress is not None
        assert resumed.progress.n_reused == 4


def test_other_processes_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(bdes.PluginError) as caught:
        bdes.run_experiment(tables(engine="processes"), objects=[module()], out=out)
    assert str(caught.value) == (
        "policy 'slow' comes from an object in memory, 'in_a_notebook', and engine 'processes' may"
        " run cells in other processes, which do not have it: use engine 'serial', or put the"
        " plugin into a file and name that in the experiment's [plugins] modules"
    )
    assert not out.exists()
    with pytest.raises(bdes.PluginError, match="no other process can have it"):
        pickle.dumps(bdes.load_plugins(objects=[module()]))


def test_object_that_only_listens_goes_with_every_engine(tmp_path: Path) -> None:
    class Listener:
        BDES_API_VERSION = 1
        heard = 0

        @bdes.hookimpl
        def bdes_cell_finished(self, cell: bdes.FinishedCell) -> None:
            self.heard += 1

    listener = Listener()
    given = tables(engine="processes", policies=["ucb1"])
    bdes.run_experiment(given, objects=[listener], out=tmp_path / "run").close()
    assert listener.heard == 2
    pickle.loads(pickle.dumps(bdes.load_plugins(objects=[listener])))


class Unmarked:
    BDES_API_VERSION = 1

    def bdes_register(self, registrar: bdes.Registrar) -> None: ...


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (Instance, "is a class whose hooks take 'self': give an instance of it"),
        (Unmarked(), "'bdes_register' is not marked with @hookimpl"),
        (object(), "does not say which API version"),
        (module(SOURCE.replace('"slow"', '"etc"'), "taken"), "'etc' of local object is already"),
    ],
)
def test_wrong_object(plugin: object, reason: str) -> None:
    status = bdes.load_plugins(objects=[plugin]).statuses[-1]
    assert status.state == "failed"
    assert reason in status.reason
    with pytest.raises(bdes.ConfigError, match=r"objects\[0\]: .* failed to load: ") as caught:
        bdes.load_experiment(tables(policies=["ucb1"]), objects=[plugin])
    assert reason in str(caught.value)


def test_report_plays_cells_again_with_the_experiment(tmp_path: Path) -> None:
    experiment = bdes.load_experiment(tables(), objects=[module()])
    with bdes.run_experiment(experiment, out=tmp_path / "run") as run:
        with_code = run.report(experiment=experiment).read_text()
        without = run.report().read_text()
    why = "no policy is called"
    assert why in without
    assert why not in with_code


def test_objects_come_with_the_experiment() -> None:
    experiment = bdes.load_experiment(tables(), objects=[module()])
    with pytest.raises(bdes.InvalidValueError, match="give objects to load_experiment"):
        bdes.run_experiment(experiment, objects=[module()])
