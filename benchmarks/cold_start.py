"""What the first use of each command costs, nothing being compiled yet, beside later ones.

Processor seconds of new processes, with an empty cache and then with the one that was filled.
Before sorting and copying slices were written out as loops, compiling took 13.9 s (plan), 6.0 s
(fit) and 15.9 s (posterior) on the machine where it now takes 8.6, 2.5 and 8.5 (under load).
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Row, run_benchmark

LIBRARY = """
import numpy as np
import bdes_framework as bdes
arms = {{"r": [0.9, 0.3, 0.5], "b": [0.1, 0.9, 0.6], "lam": 0.05}}
plugins = bdes.load_plugins()
{}
"""
WORK = {
    "plan": 'plugins.planner("certified").plan(bdes.Instance(**arms), 1_000)',
    "fit": "rng = np.random.default_rng(1)\n"
    "pulls = rng.integers(0, 3, 20_000), (rng.random(20_000) < 0.4).astype(float)\n"
    "bdes.fit(bdes.Log(*pulls, np.arange(0, 20_000, 100)))",
    "posterior": 'environment = plugins.environment("bernoulli", seed=1, **arms)\n'
    'policy = plugins.policy("posterior", bdes.Problem(3, 10_000), seed=1)\n'
    "bdes.simulate(environment, policy, 10_000)",
}
COMMANDS = {name: [sys.executable, "-c", LIBRARY.format(work)] for name, work in WORK.items()}


def processor_seconds(command: list[str], folder: str) -> float:
    """Run a command with the compiled code of a folder; return what it and its workers used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
    subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_rows() -> list[Row]:
    rows = []
    for name, asked in (("plan", 3.0), ("fit", 2.0), ("posterior", 5.0)):
        with tempfile.TemporaryDirectory() as folder:
            cold = processor_seconds(COMMANDS[name], folder)
            warm = min(processor_seconds(COMMANDS[name], folder) for _ in range(3))
        claim = f"{name}: first use over later ones, processor seconds"
        rows.append(Row(claim, f"{cold:.1f} s", f"{warm:.1f} s", cold - warm, asked))
    return rows


if __name__ == "__main__":
    run_benchmark("Cold start (nothing compiled yet)", cold_rows)
