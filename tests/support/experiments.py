"""An experiment, a slow policy and a way to read results whole: what tests of runs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bdes_framework import Run, run_experiment
from bdes_framework.experiment.store import open_store

Install = Callable[..., Path]
Dump = list[tuple[object, ...]]

FILE = """
name = "demo"
seed = 1
horizons = [10, 50]
replications = 3
benchmark = false

[plugins]
modules = ["mine.py"]

[[environments]]
use = "bernoulli"
r = [0.9, 0.3]
b = [0.1, 1.0]
lam = 0.3

[[policies]]
use = "mine"
"""

STUDY = """
name = "study"
seed = 3
horizons = [20, 40]
replications = 2
checkpoints = 2

[[environments]]
use = "bernoulli"
label = "ads"
arms = {generator = "click-bait", n = 3, seed = [1, 2, 3]}
lam = [0.1, 0.5, 0.9]

[[policies]]
use = "ucb1"

[[policies]]
use = "thompson"

[[policies]]
use = "uniform"

[[policies]]
use = "exp3"
"""

GOOD = """
import numpy as np
from attrs import frozen
from bdes_framework import hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Always plays arm 0.'''

class First:
    def ask(self, limit):
        return np.zeros(limit, dtype=np.int64)
    def tell(self, rewards):
        pass

def build(config, context):
    return First()

@hookimpl
def bdes_register(registrar):
    registrar.policy("{name}", Config, build)
"""

PLUGIN = """
import time
import numpy as np
from attrs import frozen
from bdes_framework import Benchmark, Outcome, Plan, Schedule, hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Does what its test needs.'''

class Thing:
{body}

@hookimpl
def bdes_register(registrar):
    registrar.{kind}("{name}", Config, lambda config, context: Thing())
"""

SLOW = """
import time
import numpy as np
from attrs import frozen
from bdes_framework import hookimpl

BDES_API_VERSION = 1

@frozen
class Config:
    '''Decides every round, in plain Python, taking its time.

    Parameters
    ----------
    pause : float
        Seconds before the first decision.
    '''
    pause: float = 0.0

class Slow:
    def __init__(self, n_arms, rng, pause):
        self.n_arms, self.rng = n_arms, rng
        time.sleep(pause)
    def ask(self, limit):
        return np.array([int(self.rng.random() * self.n_arms)])
    def tell(self, rewards):
        pass
    def diagnostics(self):
        return {"draw": float(self.rng.random()), "arms": np.arange(self.n_arms)}

@hookimpl
def bdes_register(registrar):
    registrar.policy(
        "slow", Config, lambda c, context: Slow(context.problem.n_arms, context.rng, c.pause)
    )
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Return ``text`` with replacements, each of which must apply."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def good_plugin(name: str, *changes: tuple[str, str]) -> str:
    """Return the source of a plugin, changed, that registers one policy under a name."""
    return changed(GOOD, ("{name}", name), *changes)


def plugin_of(kind: str, name: str, body: str) -> str:
    """Return the source of a plugin that registers one thing of a kind, given its class's body."""
    return changed(PLUGIN, ("{kind}", kind), ("{name}", name), ("{body}", body))


def write_plugin(folder: Path, *changes: tuple[str, str], name: str = "mine") -> None:
    """Write the good plugin, changed, as a local file."""
    (folder / f"{name}.py").write_text(good_plugin(name, *changes))


def write_experiment(folder: Path, *changes: tuple[str, str], text: str = FILE) -> Path:
    """Write the experiment, changed, to ``demo.toml``; return its path."""
    (folder / "demo.toml").write_text(changed(text, *changes))
    return folder / "demo.toml"


def run_demo(folder: Path, out: str = "run", **options: Any) -> Run:
    """Run ``demo.toml`` in this process, every cell anew; return the run."""
    given: dict[str, Any] = {"engine": "serial", "reuse": False, **options}
    return run_experiment(folder / "demo.toml", out=folder / out, **given)


def dump(folder: Path) -> Dump:
    """Return every result of a run, in order."""
    store = open_store(folder, create=False)
    found = list(store.dump())
    store.close()
    return found
