"""Size and time of a report: ``python -m benchmarks.reports``, 2,000 cells of 8 policies."""

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

import bdes_framework as bdes
from bdes_framework.report.data import RunData
from bdes_framework.report.page import Settings, report_page, vega_script
from benchmarks.measure import Row, print_rows

POLICIES = ("ucb1", "etc", "thompson", "exp3", "exp3p", "aae", "sticky", "uniform")

FILE = """
name = "a large report"
seed = 1
horizons = [100, 200, 400, 800, 1600]
replications = 10
reveal_replenishing_arm = true

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = [0.05, 0.1, 0.2, 0.4, 0.8]
""" + "\n".join(f'[[policies]]\nuse = "{name}"' for name in POLICIES)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("2,000 cells"):
        file = Path(folder) / "large.toml"
        file.write_text(FILE)
        run = bdes.run_experiment(file, out=Path(folder) / "run", engine="serial")
        script = len(vega_script().encode())
        begin = time.perf_counter()
        page = report_page(RunData(run), Settings(paths=0))
        each = (time.perf_counter() - begin) / run.n_cells
        size = len(page.encode())
        run.close()
    rows = [
        Row("a report of 2,000 cells, MB", f"{size / 1e6:.2f} MB", "-", size / 1e6, 5),
        Row("its size over that of the vega script", f"{size / 1e6:.2f} MB",
            f"{script / 1e6:.2f} MB", size / script, 5),
        Row("making it, per cell, ms", f"{each * 1e3:.2f} ms", "-", each * 1e3, 5),
    ]  # fmt: skip
    sys.exit(0 if print_rows("Reports", rows) else 1)


if __name__ == "__main__":
    main()
