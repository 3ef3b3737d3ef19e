"""Runs for the tests of reports: small, with everything a report must cope with."""

from pathlib import Path

from bdes_framework import run_experiment
from bdes_framework.report.data import RunData
from tests.support.experiments import FILE, GOOD, changed

HOSTILE_POLICY = "<script>document.title='gone'</script>\"'&"
HOSTILE_NAME = "</title><img src=x onerror=alert(1)>"
HOSTILE_ERROR = "</td><script>alert(2)</script>"

SMALL = changed(
    FILE,
    ('"mine.py"', ""),
    ("benchmark = false", "checkpoints = 5"),
    ('"mine"', '"ucb1"'),
    ("replications = 3", "replications = 2"),
)
PLAIN = changed(
    FILE,
    ('"demo"', '"plain"'),
    ("seed = 1", "seed = 3"),
    ("[10, 50]", "[100, 1000, 4000]"),
    ("replications = 3", "replications = 5"),
    ("benchmark = false", "reveal_replenishing_arm = true"),
    ('"mine.py"', ""),
    ('use = "mine"', 'use = "ucb1"\n\n[[policies]]\nuse = "etc"'),
)
MORE_POLICIES = f"""
[[policies]]
use = "uniform"
label = '''{HOSTILE_POLICY}'''

[[policies]]
use = "failing"
"""
EXPERIMENT = changed(
    PLAIN + MORE_POLICIES,
    ('"plain"', f'"{HOSTILE_NAME}"'),
    ("seed = 3", "seed = 7"),
    ("[100, 1000, 4000]", "[200, 2000]"),
    ("replications = 5", "replications = 4"),
    ("modules = []", 'modules = ["local.py"]'),
    ("lam = 0.3", 'lam = [0.05, 0.3]\nlabel = "two ads"'),
)

STUDY = changed(
    PLAIN,
    ('"plain"', '"study"'),
    ("[100, 1000, 4000]", "[50, 200]"),
    ("replications = 5", "replications = 2"),
    (
        "r = [0.9, 0.3]\nb = [0.1, 1.0]\nlam = 0.3",
        'arms = {generator = "click-bait", n = 4, seed = [1, 2, 3]}\nlam = [0.05, 0.3]',
    ),
)
"""Three instances at each of two rates and two horizons."""

FAILING = changed(
    GOOD,
    ("{name}", "failing"),
    ("return np.zeros(limit, dtype=np.int64)", f'raise OSError("{HOSTILE_ERROR}")'),
)


def make_run(folder: Path, text: str = PLAIN) -> Path:
    """Run an experiment in ``folder``; return the run's folder."""
    (folder / "local.py").write_text(FAILING)
    (folder / "experiment.toml").write_text(text)
    with run_experiment(folder / "experiment.toml", out=folder / "run", engine="serial") as run:
        return run.folder


def totals(data: RunData, policy: str, horizon: int) -> list[float]:
    return [
        cell.total_mean or 0.0
        for cell in data.cells
        if cell.policy == policy and cell.horizon == horizon
    ]
