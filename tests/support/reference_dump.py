"""Write down every number of a reference run, so that a move of code can be held against it.

Run it before a change that should change no number, and after it, and compare::

    python -m tests.support.reference_dump before.txt
    python -m tests.support.reference_dump after.txt
    cmp before.txt after.txt

It plays ``reference.toml`` (lam known and unknown), plans with every planner and fits one log, with
public names and the run database only, so that it runs on old and new code alike. Numbers are
written with all their bits (a fit's with nine digits), which may differ between processors and
versions of numpy or numba.
"""

import sqlite3
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np

import bdes_framework as bdes

EXPERIMENT = Path(__file__).with_name("reference.toml")
MUST_KNOW_LAM = "# -- policies that must know lam"
CELLS = """
    SELECT plan.environment, plan.policy, plan.horizon, plan.replication,
           cells.rewards, cells.means, cells.states, cells.counts, cells.diagnostics, cells.error
    FROM plan JOIN cells USING (key) ORDER BY plan.position
"""
BENCHMARKS = "SELECT totals, upper_bound, error FROM benchmarks"
PLANNERS = ("certified", "exact", "fptas", "greedy", "best-fixed", "best-cycle")


def played(text: str, folder: Path) -> Iterator[str]:
    """Run an experiment and yield its cells in order, then its benchmarks."""
    file = folder / "reference.toml"
    file.write_text(text, encoding="utf-8")
    bdes.run_experiment(file, out=folder / "run")
    database = sqlite3.connect(folder / "run" / "results.sqlite")
    for row in database.execute(CELLS):
        yield " ".join(_text(value) for value in row)
    yield from sorted(" ".join(_text(v) for v in row) for row in database.execute(BENCHMARKS))
    database.close()


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return sha256(value).hexdigest()[:16] + f":{len(value)}"
    return value.hex() if isinstance(value, float) else str(value)


def planned() -> Iterator[str]:
    """Yield what every planner makes of a few instances."""
    plugins = bdes.load_plugins()
    rng = np.random.default_rng(5)
    for lam in (0.0, 0.02, 0.3, 1.0):
        instance = bdes.Instance(r=rng.random(4), b=rng.random(4), lam=lam)
        for name in PLANNERS:
            plan = plugins.planner(name).plan(instance, 120)
            yield f"{name} {lam} {plan.schedule} {plan.value.hex()} {plan.upper_bound.hex()}"
        long = plugins.planner("certified").plan(instance, 10_000_000)
        yield f"certified {lam} {long.schedule} {long.value.hex()} {long.upper_bound.hex()}"


def fitted() -> Iterator[str]:
    """Yield what a fit makes of a simulated log, to nine digits: its last bits are not promised."""
    instance = bdes.Instance(r=[0.8, 0.3, 0.5], b=[0.2, 1.0, 0.6], lam=0.1)
    rng = np.random.default_rng(6)
    arms = rng.integers(0, 3, 6_000)
    rewards = (rng.random(6_000) < instance.expected_rewards(arms)).astype(np.int64)
    for known in (None, 0.1):
        found = bdes.fit(bdes.Log(arms, rewards), lam=known)
        numbers = [*found.instance.r, *found.instance.b, found.instance.lam, found.evolving.bic]
        numbers += [*found.r_interval.ravel(), *found.b_interval.ravel(), *found.lam_interval]
        yield " ".join(f"{number:.9g}" for number in numbers)


def dump() -> Iterator[str]:
    """Yield the whole dump, line by line."""
    known = EXPERIMENT.read_text(encoding="utf-8")
    unknown = known.split(MUST_KNOW_LAM)[0].replace("seed = 20", "reveal_lam = false\nseed = 20")
    assert tomllib.loads(unknown)["reveal_lam"] is False
    for text in (known, unknown):
        with tempfile.TemporaryDirectory() as folder:
            yield from played(text, Path(folder))
    yield from planned()
    yield from fitted()


if __name__ == "__main__":
    lines = "".join(f"{line}\n" for line in dump())
    Path(sys.argv[1]).write_text(lines, encoding="utf-8")
    print(f"{lines.count(chr(10))} lines, sha256 {sha256(lines.encode()).hexdigest()}")
