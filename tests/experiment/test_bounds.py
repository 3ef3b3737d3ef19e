"""Whatever a plugin says of its benchmark, the run stays readable, and nobody beats the bound."""

import re
from pathlib import Path

import pytest

from bdes_framework import load_run
from tests.support.command import bdes, prints
from tests.support.experiments import (
    Install,
    changed,
    plugin_of,
    run_demo,
    write_experiment,
    write_plugin,
)

WORLD = """
    n_arms = 2
    def pull(self, arms):
        return Outcome(np.full(arms.size, 0.5), np.full(arms.size, 0.5))
    def benchmark(self, checkpoints):
        values = 0.5 * checkpoints.astype(np.float64)
        return BENCHMARK
"""
WORST = """
    def plan(self, instance, horizon):
        schedule = Schedule.cycle([1], horizon)
        value = instance.value(schedule)
        return Plan(schedule, value, value)  # as if nothing were better
"""

BERNOULLI = 'use = "bernoulli"\nr = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3'


def write_world(folder: Path, install: Install, benchmark: str) -> None:
    world = plugin_of("environment", "world", changed(WORLD, ("BENCHMARK", benchmark)))
    install("bdes-world", world, version="0.3")
    changes = ((BERNOULLI, 'use = "world"'), ("benchmark = false\n", ""), ("[10, 50]", "[10]"))
    write_experiment(folder, *changes)


@pytest.mark.parametrize(
    ("benchmark", "message"),
    [
        ("Benchmark(checkpoints, values * np.nan, 5.0)", "value after round 1 is not finite: nan"),
        ("Benchmark(checkpoints, values, np.nan)", "upper bound must be a number"),
        ("Benchmark(checkpoints[:3], values[:3], 5.0)", "the 10 checkpoints asked for"),
        ("Benchmark(checkpoints, values[:3], 5.0)", "one value per checkpoint"),
        ("Benchmark(checkpoints, 100 * values, 500.0)", "means of rounds lie in"),
        ("[float(value) for value in values]", "must return a Benchmark, got [0.5"),
        ("Benchmark(checkpoints, values.astype(complex), 5.0)", "must be an array of float64"),
        ("'x' * 10**7", "must return a Benchmark, got 'xxx"),
    ],
)
def test_wrong_benchmark_costs_only_regret(
    folder: Path, install: Install, benchmark: str, message: str
) -> None:
    write_world(folder, install, benchmark)
    done = bdes("run", "demo.toml", "--out", "run", cwd=folder)
    assert done.returncode == 1
    assert "no regret: the benchmark failed: " in done.stderr
    assert message in done.stderr
    for command in ("show", "export"):
        again = bdes(command, "run", cwd=folder)
        assert "Traceback" not in again.stderr
        assert "mine" in again.stdout
    with load_run(folder / "run") as run:
        assert [(cell.error, cell.regret) for cell in run.cells()] == [(None, None)] * 3


def test_right_benchmark_gives_regret(folder: Path, install: Install) -> None:
    write_world(folder, install, "Benchmark(checkpoints, values, values[-1])")
    with run_demo(folder) as run:
        assert [(cell.error, cell.regret) for cell in run.cells()] == [(None, 0.0)] * 3
    assert "beaten" not in bdes("show", "run", cwd=folder).stderr


def test_beaten_benchmark_is_told(folder: Path, install: Install) -> None:
    write_world(folder, install, "Benchmark(checkpoints, values / 500, np.inf)")
    done = bdes("run", "demo.toml", "--out", "run", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("mine earns more than the benchmark, which is no optimum.")
    assert re.search(r"mine +> 100 ", done.stdout)
    assert "50000" not in done.stdout
    assert done.stderr.count("the benchmark of 'world' is beaten: it is no upper bound") == 1
    prints("report", "run", "--paths", "0", cwd=folder)
    page = (folder / "run" / "report.html").read_text()
    assert "&gt; 100" in page
    assert "50,000.0" not in page
    assert "50000.0" not in page
    assert "Benchmarks that are beaten: they are no upper bounds" in page


def test_cell_above_an_own_bound_fails(folder: Path, install: Install) -> None:
    write_world(folder, install, "Benchmark(checkpoints, values / 5, 1.0)")
    done = bdes("run", "demo.toml", "--out", "run", cwd=folder)
    assert done.returncode == 1
    message = "earned 5 (expected reward) where the benchmark proves at most 1: suspect"
    assert f"and 2 more cells: {message} environment 'world' of bdes-world 0.3" in done.stderr
    assert "policy 'mine' of local file mine" in done.stderr
    assert bdes("run", "demo.toml", "--out", "run", cwd=folder).stderr == done.stderr
    assert bdes("run", "demo.toml", "--out", "run", "--retry-failed", cwd=folder).returncode == 1


def test_cell_above_a_planned_bound_fails(folder: Path, install: Install) -> None:
    install("bdes-planner", plugin_of("planner", "worst", WORST), version="0.3")
    write_experiment(folder, ("benchmark = false", 'benchmark = "worst"'), ("[10, 50]", "[3]"))
    with run_demo(folder) as run:
        errors = {str(cell.error) for cell in run.cells()}
    assert len(errors) == 1
    assert "suspect planner 'worst' of bdes-planner 0.3 or policy 'mine' of" in errors.pop()
    write_plugin(folder, ("np.zeros(limit,", "np.ones(limit,"))
    with run_demo(folder, "other") as run:
        assert [cell.error for cell in run.cells()] == [None] * 3
