"""What the framework adds to a cell, what processes gain, and the size and time of a report.

``python -m benchmarks.runs`` runs 20,000 tiny cells, then 2,000 cells of eight policies.
"""

import resource
import tempfile
import time
from pathlib import Path

import bdes_framework as bdes
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page
from bdes_framework.report.template import vega_script
from benchmarks.measure import Row, absolute, run_benchmark

ENVIRONMENT = """
[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
"""

CELLS = 20_000
ROUNDS = 10
TINY = f"""
name = "tiny"
seed = 1
horizons = [{ROUNDS}]
replications = {CELLS}
benchmark = false
{ENVIRONMENT}
lam = 0.3

[[policies]]
use = "ucb1"
"""

LONG = f"""
name = "long cells"
seed = 1
horizons = [10_000_000]
replications = 40
benchmark = false
{ENVIRONMENT}
lam = 0.3

[[policies]]
use = "ucb1"
"""

POLICIES = ("ucb1", "etc", "thompson", "exp3", "exp3p", "aae", "sticky", "uniform")
LARGE = f"""
name = "a large report"
seed = 1
horizons = [100, 200, 400, 800, 1600]
replications = 10
reveal_replenishing_arm = true
{ENVIRONMENT}
lam = [0.05, 0.1, 0.2, 0.4, 0.8]
""" + "\n".join(f'[[policies]]\nuse = "{name}"' for name in POLICIES)


def bare(cells: int) -> float:
    """Return the seconds a cell takes without the framework around it."""
    plugins = bdes.load_plugins()
    begin = time.perf_counter()
    for seed in range(cells):
        played = plugins.environment("bernoulli", seed=seed, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
        policy = plugins.policy("ucb1", bdes.Problem(2, ROUNDS), seed=seed)
        bdes.simulate(played, policy, ROUNDS, keep=False)
    return (time.perf_counter() - begin) / cells


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cell_rows() -> list[Row]:
    alone = min(bare(1000) for _ in range(3)) * 1e3
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.toml"
        file.write_text(TINY)
        begin = time.perf_counter()
        experiment = bdes.load_experiment(file)
        loaded = megabytes()
        bdes.run_experiment(experiment, out=Path(folder) / "run", engine="serial")
        each = (time.perf_counter() - begin) / CELLS * 1e3
        grown = megabytes() - loaded
    claim = "a tiny cell over the same without runs, ms"
    return [
        Row(claim, f"{each:.2f} ms", f"{alone:.2f} ms", each - alone, 1),
        absolute("memory grown over 20,000 cells", grown, "MB", 50),
    ]


def processes_rows() -> list[Row]:
    """Run cells of half a second each by one process and by two: of an idle machine."""
    seconds = dict.fromkeys((1, 2), float("inf"))
    for _ in range(2):
        for workers in seconds:
            engine = {"use": "processes", "workers": workers}
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "long.toml"
                file.write_text(LONG)
                begin = time.perf_counter()
                bdes.run_experiment(file, out=Path(folder) / "run", engine=engine)
                seconds[workers] = min(seconds[workers], time.perf_counter() - begin)
    one, two = seconds[1], seconds[2]
    claim = "two processes against one, 40 cells"
    return [Row(claim, f"{two:.1f} s", f"one {one:.1f} s", one / two, 1.6, at_least=True)]


def report_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.toml"
        file.write_text(LARGE)
        with bdes.run_experiment(file, out=Path(folder) / "run", engine="serial") as run:
            script = len(vega_script().encode()) / 1e6
            begin = time.perf_counter()
            page = report_page(RunData(run), Settings(paths=0))
            each = (time.perf_counter() - begin) / run.n_cells * 1e3
    size = len(page.encode()) / 1e6
    claim = "its size over that of the vega script"
    return [
        absolute("a report of 2,000 cells", size, "MB", 5),
        Row(claim, f"{size:.2f} MB", f"{script:.2f} MB", size / script, 5),
        absolute("making it, per cell", each, "ms", 5),
    ]


if __name__ == "__main__":
    run_benchmark("Runs and reports", cell_rows, processes_rows, report_rows)
