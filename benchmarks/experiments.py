"""What the framework adds to a cell: ``python -m benchmarks.experiments`` runs 20,000 tiny ones."""

import resource
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

import bdes_framework as bdes
from benchmarks.measure import Row, print_rows

CELLS = 20_000
ROUNDS = 10

FILE = f"""
name = "tiny"
seed = 1
horizons = [{ROUNDS}]
replications = {CELLS}
benchmark = false

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = 0.3

[[policies]]
use = "ucb1"
"""


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bare(cells: int) -> float:
    """Return the seconds a cell takes without the framework around it."""
    plugins = bdes.load_plugins()
    begin = time.perf_counter()
    for seed in range(cells):
        played = plugins.environment("bernoulli", seed=seed, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
        policy = plugins.policy("ucb1", bdes.Problem(2, ROUNDS), seed=seed)
        bdes.simulate(played, policy, ROUNDS, keep=False)
    return (time.perf_counter() - begin) / cells


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("20,000 cells"):
        file = Path(folder) / "tiny.toml"
        file.write_text(FILE)
        alone = min(bare(1000) for _ in range(3))
        begin = time.perf_counter()
        experiment = bdes.load_experiment(file)
        loaded = megabytes()
        bdes.run_experiment(experiment, out=Path(folder) / "run", engine="serial")
        each = (time.perf_counter() - begin) / CELLS
        grown = megabytes() - loaded
    rows = [
        Row("a tiny cell over the same without runs, ms", f"{each * 1e3:.2f} ms",
            f"{alone * 1e3:.2f} ms", (each - alone) * 1e3, 1),
        Row("memory grown over 20,000 cells, MB", f"{grown:.0f} MB", "-", grown, 50),
    ]  # fmt: skip
    sys.exit(0 if print_rows("Running cells (one worker, in this process)", rows) else 1)


if __name__ == "__main__":
    main()
