"""Failures explain themselves: which plugin, where, in which round; and none costs too much."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from bdes_framework import load_run
from bdes_framework.experiment.cell import MAX_DIAGNOSTICS, failed
from bdes_framework.experiment.failures import MAX_DETAILS
from tests.support.command import bdes
from tests.support.experiments import (
    GOOD,
    Install,
    changed,
    dump,
    run_demo,
    write_experiment,
    write_plugin,
)

TELL = "        pass"
FAULT = "        self.n = getattr(self, 'n', 0) + 1\n        if self.n == 8: {}['oops']"
DIAGNOSE = f"{TELL}\n    def diagnostics(self):\n        "
SINGLY = ("np.zeros(limit,", "np.zeros(1,")


def errors_of(folder: Path) -> set[str]:
    with run_demo(folder) as run:
        return {str(cell.error) for cell in run.cells()}


def test_installed_plugin_is_named_with_version_line_and_round(
    folder: Path, install: Install
) -> None:
    source = changed(GOOD, ("{name}", "greedy"), (TELL, FAULT), SINGLY)
    install("acme", source, version="0.3")
    write_experiment(folder, ('use = "mine"', 'use = "greedy"'))
    assert errors_of(folder) == {"acme 0.3, acme.py:17, round 7: KeyError: 'oops'"}


def test_plugin_in_a_namespace_package_is_named(folder: Path, install: Install) -> None:
    site = install("wide", "", version="0.3", target="wide_space.part.greedy")
    (site / "wide.py").unlink()
    part = site / "wide_space" / "part"
    part.mkdir(parents=True)
    (part / "__init__.py").touch()
    (part / "greedy.py").write_text(changed(GOOD, ("{name}", "greedy"), (TELL, FAULT), SINGLY))
    write_experiment(folder, ('use = "mine"', 'use = "greedy"'))
    assert errors_of(folder) == {"wide 0.3, greedy.py:17, round 7: KeyError: 'oops'"}


def test_helper_of_a_local_plugin_is_named(folder: Path) -> None:
    (folder / "helper.py").write_text("def fail():\n    raise KeyError('oops')\n")
    write_plugin(
        folder, (TELL, "        fail()"), ("import numpy", "from helper import fail\nimport numpy")
    )
    assert errors_of(folder) == {"local file helper.py:2, round 0: KeyError: 'oops'"}


def test_exception_without_a_message_has_no_colon(folder: Path) -> None:
    write_plugin(folder, (TELL, "        raise StopAsyncIteration"))
    assert errors_of(folder) == {"local file mine.py:16, round 0: StopAsyncIteration"}


def test_factory_that_raises_is_named_with_its_line(folder: Path) -> None:
    write_plugin(folder, ("return First()", "raise KeyError('oops')"))
    (error,) = errors_of(folder)
    assert error.startswith("local file mine.py:19: PluginError: plugin 'mine' of local file: ")
    assert error.endswith("the factory of policy 'mine' raised KeyError: 'oops'")


def test_classes_of_local_files_read_as_the_file_does(folder: Path) -> None:
    write_plugin(folder, ("np.zeros(limit,", "7 + np.zeros(limit,"))
    (error,) = errors_of(folder)
    assert error.startswith("ContractError: policy mine.First, round 0 (counted from 0): ask")


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ("return 1 / 0", "local file mine.py:18: ZeroDivisionError: division by zero"),
        ("return 5", "ContractError: policy mine.First: diagnostics must return a mapping, got 5"),
        ("return {'x': object.__new__(type('A', (), {'__str__': None}))}", "TypeError"),
        ("d = {}; d['x'] = d; return d", "ValueError: Circular reference detected"),
        ("raise SystemExit", "local file mine.py:18: SystemExit"),
        ("return {'x': np.zeros(10**7)}", "limited to 1,000,000 characters"),
        ("return {'x': 'a' * 10**7}", "limited to 1,000,000 characters"),
        ("return {str(i): 'abcdef' * 20 for i in range(10**4)}", "limited to 1,000,000 characters"),
    ],
)
def test_broken_diagnostics_are_a_warning(folder: Path, body: str, warning: str) -> None:
    write_experiment(folder, ("[10, 50]", "[10]"))
    with run_demo(folder, "plain") as plain:
        expected = [cell.total_reward for cell in plain.cells()]
    write_plugin(folder, (TELL, DIAGNOSE + body))
    done = bdes("run", "demo.toml", "--out", "run", cwd=folder)
    assert done.returncode == 0
    place = "warning: mine on bernoulli, T = 10, replication 0 and 2 more cells: no diagnostics: "
    assert place in done.stderr
    assert warning in done.stderr
    with load_run(folder / "run") as run:
        assert [(cell.total_reward, cell.error) for cell in run.cells()] == [
            (reward, None) for reward in expected
        ]
        assert all(warning in str(cell.warning) for cell in run.cells())
    assert sum(len(str(row)) for row in dump(folder / "run")) < 10_000


@pytest.mark.parametrize("end", ["", '", "x": ' + "[" * 10**5, '", "diagnostics_error": 1, }'])
def test_stored_diagnostics_that_cannot_be_read_are_a_warning(end: str) -> None:
    stored = evolve(failed("key", "", ""), diagnostics='{"diagnostics_error": "' + end)
    assert stored.warning == "no diagnostics: what is stored of them cannot be read"


def test_diagnostics_of_ordinary_size_are_kept(folder: Path) -> None:
    write_plugin(folder, (TELL, DIAGNOSE + "return {'x': np.arange(1000.0), 'diagnostics': 'a'}"))
    with run_demo(folder) as run:
        assert [cell.warning for cell in run.cells()] == [None] * 6
        (first, *_) = run.rows()
    assert len(json.loads(str(first["diagnostics"]))["x"]) == 1000
    assert MAX_DIAGNOSTICS > 10_000


@pytest.mark.parametrize(
    "fault",
    [
        "raise KeyError('x' * 10**7)",
        "raise ExceptionGroup('g', [ValueError(i) for i in range(10**4)])",
        "raise ValueError('short') from KeyError('x' * 10**7)",
    ],
)
def test_huge_errors_are_cut(folder: Path, fault: str) -> None:
    write_plugin(folder, (TELL, f"        {fault}"))
    write_experiment(folder, ("[10, 50]", "[10]"), ("replications = 3", "replications = 1"))
    with run_demo(folder) as run:
        (cell,) = run.cells()
        details = run.traceback(cell)
    assert len(cell.error or "") < 2_000
    assert "mine.py" in details
    assert len(details) < MAX_DETAILS + 100


def test_every_kind_of_failure_is_listed(folder: Path) -> None:
    """15 kinds of failure, and one whose numbers alone differ from cell to cell."""
    kinds = "[f'kind {chr(97 + i)}' for i in range(15)]"
    counting = f"import itertools\nnumbers = itertools.cycle({kinds})\nimport numpy"
    write_plugin(folder, (TELL, "        raise OSError(next(numbers))"), ("import numpy", counting))
    write_plugin(folder, (TELL, "        raise OSError(id(self))"), name="other")
    other = ('use = "mine"', 'use = "mine"\n\n[[policies]]\nuse = "other"')
    changes = (
        other,
        ('"mine.py"', '"mine.py", "other.py"'),
        ("replications = 3", "replications = 15"),
    )
    write_experiment(folder, *changes)
    done = bdes("run", "demo.toml", "--out", "run", cwd=folder)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 15 + 1 + 1
    assert sum(" and 1 more cell: local file mine.py:" in line for line in lines) == 15
    assert sum(" and 29 more cells: local file other.py:" in line for line in lines) == 1
    assert lines[-1] == (
        "bdes: 60 of 60 cells failed, in 16 ways; 'bdes show RUN --traceback' prints where,"
        " --retry-failed runs them again"
    )
    shown = bdes("show", "run", "--traceback", cwd=folder).stderr
    assert shown.count("Traceback") == 16
