"""How fast pulls are played: ``python -m benchmarks.simulation`` prints a table of ratios."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console

import bdes_framework as bdes
from benchmarks.measure import CompiledC, Row, best_seconds, print_rows

MILLION = 1_000_000
N_ARMS = 10
_RNG = np.random.default_rng(0)
# The same instance as in benchmarks/c/bandit.h: the better an arm pays, the more it wears out.
ARMS = {"r": np.arange(1, N_ARMS + 1) / N_ARMS, "b": 1 - np.arange(N_ARMS) / N_ARMS, "lam": 0.1}
PLUGINS = bdes.load_plugins()


def environment() -> bdes.Environment:
    return PLUGINS.environment("bernoulli", seed=1, **ARMS)


def policy(name: str, horizon: int) -> bdes.Policy:
    return PLUGINS.policy(name, bdes.Problem(N_ARMS, horizon), seed=1)


class AskTellOnly:
    """Hides a policy's fused form."""

    def __init__(self, inner: bdes.Policy) -> None:
        self.ask = inner.ask
        self.tell = inner.tell


def ns(seconds: float, pulls: int) -> str:
    return f"{seconds / pulls * 1e9:,.1f} ns"


def schedule_rows() -> list[Row]:
    arms = _RNG.integers(0, N_ARMS, MILLION)
    short = arms[:1000]
    one = arms[:1]
    c = CompiledC("schedule")
    in_c = float("inf")

    def run_c() -> None:
        nonlocal in_c
        in_c = min(in_c, c.ns_per_pull(N_ARMS, MILLION))

    played = environment()

    def blocks(block: bdes.IntArray, times: int) -> Callable[[], None]:
        def turn() -> None:
            for _ in range(times):
                played.pull(block)

        return turn

    best = best_seconds(
        {
            "c": run_c,
            "million": blocks(arms, 1),
            "thousands": blocks(short, 1000),
            "ones": blocks(one, 5000),
        }
    )
    per_pull = best["million"] / MILLION
    fixed = best["ones"] / 5000 - per_pull
    return [
        Row("a schedule of 10^6 pulls in one block", ns(best["million"], MILLION),
            f"C {in_c:.1f} ns", per_pull * 1e9 / in_c, 3),
        Row("blocks of 1,000 pulls, per pull", ns(best["thousands"], MILLION),
            f"10^6 {ns(best['million'], MILLION)}", best["thousands"] / best["million"], 4),
        Row("a block beside its pulls, µs", f"{fixed * 1e6:.1f} µs", "-", fixed * 1e6, 10),
    ]  # fmt: skip


def fused_rows() -> list[Row]:
    rows = []
    for name, asked in (("ucb1", 2.0), ("exp3", 1.5)):
        c = CompiledC(name)
        in_c = [float("inf")]
        horizon = MILLION

        def run_c(c: CompiledC = c, in_c: list[float] = in_c, horizon: int = horizon) -> None:
            in_c[0] = min(in_c[0], c.ns_per_pull(N_ARMS, horizon))

        seconds = float("inf")
        # Both sides alike: fewer turns are over before a busy neighbour on the machine is.
        for _ in range(60):
            run_c()
            # Made before the clock starts, as the C loop makes its arrays.
            world, chosen = environment(), policy(name, horizon)
            begin = time.perf_counter()
            bdes.simulate(world, chosen, horizon, keep=False)
            seconds = min(seconds, time.perf_counter() - begin)
        ratio = seconds / horizon * 1e9 / in_c[0]
        rows.append(
            Row(f"fused {name}, K = 10", ns(seconds, horizon), f"C {in_c[0]:.1f} ns", ratio, asked)
        )
    return rows


def own_form_rows() -> list[Row]:
    rows = []
    for name in ("ucb1", "exp3", "thompson", "discounted-ucb", "sliding-window-ucb", "aae"):
        # The same problem for both, so that defaults drawn from the horizon are the same too.
        long, short = 200_000, 5_000

        def fused(name: str = name, horizon: int = long) -> None:
            bdes.simulate(environment(), policy(name, horizon), horizon, keep=False)

        def plain(name: str = name, horizon: int = long, rounds: int = short) -> None:
            hidden = AskTellOnly(policy(name, horizon))
            bdes.simulate(environment(), hidden, rounds, keep=False)

        best = best_seconds({"fused": fused, "plain": plain}, repeats=5)
        ratio = (best["plain"] / short) / (best["fused"] / long)
        rows.append(
            Row(f"fused {name} against its ask/tell", ns(best["fused"], long),
                ns(best["plain"], short), ratio, 10, at_least=True)
        )  # fmt: skip
    return rows


class PlainPolicy:
    """A third party's policy: one round at a time, plain Python."""

    def __init__(self) -> None:
        self._counts = [0] * N_ARMS
        self._sums = [0.0] * N_ARMS
        self._arm = 0

    def ask(self, limit: int) -> bdes.IntArray:
        self._arm = min(range(N_ARMS), key=self._counts.__getitem__)
        return np.array([self._arm])

    def tell(self, rewards: bdes.FloatArray) -> None:
        self._counts[self._arm] += 1
        self._sums[self._arm] += rewards[0]


def overhead_rows() -> list[Row]:
    rounds = 20_000

    def bare() -> None:
        played, chosen = environment(), PlainPolicy()
        for left in range(rounds, 0, -1):
            chosen.tell(played.pull(chosen.ask(left)).rewards)

    def simulated() -> None:
        bdes.simulate(environment(), PlainPolicy(), rounds, keep=False)

    best = best_seconds({"bare": bare, "simulated": simulated}, repeats=20)
    extra = (best["simulated"] - best["bare"]) / rounds * 1e6
    return [
        Row("simulate over a bare loop, µs per round", f"{best['simulated'] / rounds * 1e6:.2f} µs",
            f"{best['bare'] / rounds * 1e6:.2f} µs", extra, 2)
    ]  # fmt: skip


START = """
import time
begin = time.perf_counter()
import bdes_framework as bdes
plugins = bdes.load_plugins()
environment = plugins.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
policy = plugins.policy("ucb1", bdes.Problem(2, 1000), seed=1)
bdes.simulate(environment, policy, 1000)
print(time.perf_counter() - begin)
"""

LONG = """
import resource
import bdes_framework as bdes
plugins = bdes.load_plugins()
environment = plugins.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
problem = bdes.Problem(2, 10**8)
policy = plugins.policy("fixed-schedule", problem, seed=1, cycle=[0, 1, 1])
bdes.simulate(environment, policy, 10**8, keep=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def child(code: str) -> float:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def process_rows() -> list[Row]:
    child(START)  # compiles, if nothing was cached yet
    start = min(child(START) for _ in range(3))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    help_command = [sys.executable, "-c", "from bdes_framework.cli import main; main()", "--help"]
    for _ in range(5):
        subprocess.run(help_command, check=True, capture_output=True)
    user = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) / 5
    megabytes = child(LONG)
    return [
        Row("a second process until it has simulated, s", f"{start:.2f} s", "-", start, 1.5),
        Row("bdes --help, user CPU, s", f"{user:.2f} s", "-", user, 0.3),
        Row("T = 10^8 with curves only, MB", f"{megabytes:.0f} MB", "-", megabytes, 300),
    ]


def main() -> None:
    console = Console(stderr=True)
    rows: list[Row] = []
    for part in (schedule_rows, fused_rows, own_form_rows, overhead_rows, process_rows):
        with console.status(f"measuring {part.__name__.removesuffix('_rows').replace('_', ' ')}"):
            rows += part()
    sys.exit(0 if print_rows("Playing pulls (single process, best of many turns)", rows) else 1)


if __name__ == "__main__":
    main()
