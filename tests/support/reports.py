"""Runs for the tests of reports: small, with everything a report must cope with."""

from pathlib import Path

from bdes_framework import run_experiment
from bdes_framework.report.data import RunData
from tests.support.experiments import GOOD

HOSTILE_POLICY = "<script>document.title='gone'</script>\"'&"
HOSTILE_NAME = "</title><img src=x onerror=alert(1)>"
HOSTILE_ERROR = "</td><script>alert(2)</script>"

EXPERIMENT = f"""
name = "{HOSTILE_NAME}"
seed = 7
horizons = [200, 2000]
replications = 4
reveal_replenishing_arm = true

[plugins]
modules = ["local.py"]

[[environments]]
use = "bernoulli"
label = "two ads"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = [0.05, 0.3]

[[policies]]
use = "ucb1"

[[policies]]
use = "etc"

[[policies]]
use = "uniform"
label = '''{HOSTILE_POLICY}'''

[[policies]]
use = "failing"
"""

FAILING = GOOD.replace("{name}", "failing").replace(
    "return np.zeros(limit, dtype=np.int64)", f'raise OSError("{HOSTILE_ERROR}")'
)

PLAIN = """
name = "plain"
seed = 3
horizons = [100, 1000, 4000]
replications = 5
reveal_replenishing_arm = true

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = 0.3

[[policies]]
use = "ucb1"

[[policies]]
use = "etc"
"""


def make_run(folder: Path, text: str = PLAIN) -> Path:
    """Run an experiment in ``folder``; return the run's folder."""
    (folder / "local.py").write_text(FAILING)
    (folder / "experiment.toml").write_text(text)
    with run_experiment(folder / "experiment.toml", out=folder / "run", engine="serial") as run:
        return run.folder


def totals(data: RunData, policy: str, horizon: int) -> list[float]:
    return [
        record.total_mean or 0.0
        for record in data.records
        if record.policy == policy and record.horizon == horizon
    ]
