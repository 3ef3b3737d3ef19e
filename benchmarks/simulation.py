"""How fast pulls are played: ``python -m benchmarks.simulation`` prints a table of ratios."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bdes_framework as bdes
from benchmarks.measure import (
    C_INSTANCE,
    MILLION,
    N_ARMS,
    CompiledC,
    Row,
    absolute,
    best_seconds,
    ns,
    run_benchmark,
)

PLUGINS = bdes.load_plugins()


def environment() -> bdes.Environment:
    return PLUGINS.environment("bernoulli", seed=1, **C_INSTANCE)


def policy(name: str, horizon: int) -> bdes.Policy:
    return PLUGINS.policy(name, bdes.Problem(N_ARMS, horizon), seed=1)


class AskTellOnly:
    """Hides a policy's fused form."""

    def __init__(self, inner: bdes.Policy) -> None:
        self.ask = inner.ask
        self.tell = inner.tell


def schedule_rows() -> list[Row]:
    arms = np.random.default_rng(0).integers(0, N_ARMS, MILLION)
    played, c = environment(), CompiledC("schedule")

    def blocks(block: bdes.IntArray, times: int) -> Callable[[], None]:
        def turn() -> None:
            for _ in range(times):
                played.pull(block)

        return turn

    best = best_seconds(
        {
            "c": c,
            "million": blocks(arms, 1),
            "thousands": blocks(arms[:1000], 1000),
            "ones": blocks(arms[:1], 5000),
        }
    )
    whole, thousands = best["million"], best["thousands"]
    fixed = best["ones"] / 5000 - whole / MILLION
    claim = "blocks of 1,000 pulls, per pull"
    return [
        c.row("a schedule of 10^6 pulls in one block", whole, 3),
        Row(claim, ns(thousands), f"10^6 {ns(whole)}", thousands / whole, 4),
        absolute("a block beside its pulls", fixed * 1e6, "µs", 10),
    ]


def fused_rows() -> list[Row]:
    rows = []
    for name, asked in (("ucb1", 2.0), ("exp3", 1.3)):
        c, seconds = CompiledC(name), float("inf")
        # Both sides alike: fewer turns are over before a busy neighbour on the machine is.
        for _ in range(60):
            c()
            # Made before the clock starts, as the C loop makes its arrays.
            world, chosen = environment(), policy(name, MILLION)
            begin = time.process_time()
            bdes.simulate(world, chosen, MILLION, keep=False)
            seconds = min(seconds, time.process_time() - begin)
        rows.append(c.row(f"fused {name}, K = 10", seconds, asked))
    return rows


def own_form_rows() -> list[Row]:
    rows = []
    # The same problem for both, so that defaults drawn from the horizon are the same too.
    long, short = 200_000, 5_000
    for name in ("ucb1", "exp3", "thompson", "discounted-ucb", "sliding-window-ucb", "aae"):

        def fused(name: str = name) -> None:
            bdes.simulate(environment(), policy(name, long), long, keep=False)

        def plain(name: str = name) -> None:
            bdes.simulate(environment(), AskTellOnly(policy(name, long)), short, keep=False)

        best = best_seconds({"fused": fused, "plain": plain}, repeats=5)
        ratio = (best["plain"] / short) / (best["fused"] / long)
        ours, against = ns(best["fused"], long), ns(best["plain"], short)
        rows.append(Row(f"fused {name} against its ask/tell", ours, against, ratio, 10, True))
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
    bare_each, each = (best[name] / rounds * 1e6 for name in ("bare", "simulated"))
    claim = "simulate over a bare loop, µs per round"
    return [Row(claim, f"{each:.2f} µs", f"{bare_each:.2f} µs", each - bare_each, 2)]


def crowd_rows() -> list[Row]:
    """Visits of 100,000 users; rewards are handed over every 10,000 as in C, or every 100."""
    rows = []
    for visits, every, claim, asked in (
        (10 * MILLION, 10_000, "10^7 visits of crowd-greedy, 10^5 users", 4.0),
        (MILLION, 100, "10^6 visits of crowd-greedy in blocks of 100", 16.0),
    ):
        c, seconds = CompiledC("crowd_greedy", visits), float("inf")
        for _ in range(8):
            c()
            users = PLUGINS.crowd_environment("crowd", seed=1, users=100_000, **C_INSTANCE)
            problem = bdes.CrowdProblem(N_ARMS, visits)
            greedy = PLUGINS.crowd_policy("crowd-greedy", problem, seed=1)
            begin = time.perf_counter()
            bdes.simulate_crowd(users, greedy, visits, feedback=bdes.Feedback(every=every))
            seconds = min(seconds, time.perf_counter() - begin)
        rows.append(c.row(claim, seconds, asked))
    return rows


def late_reward_rows() -> list[Row]:
    """What a visit costs whose reward is 10^5 visits on its way, beside one told at once."""

    def game(**late: Any) -> Callable[[], None]:
        def turn() -> None:
            users = PLUGINS.crowd_environment("crowd", seed=1, users=1000, **C_INSTANCE)
            problem = bdes.CrowdProblem(N_ARMS, visits)
            greedy = PLUGINS.crowd_policy("crowd-greedy", problem, seed=1)
            bdes.simulate_crowd(users, greedy, visits, feedback=bdes.Feedback(**late))

        return turn

    visits = 400_000
    ways = {"at once": game(), "late": game(delay=100_000)}
    ways["unordered"] = game(delay=100_000, delays="geometric")
    best = best_seconds(ways, repeats=5)
    once = best["at once"]
    return [
        Row(
            f"rewards 10^5 visits late, {how}",
            ns(best[name], visits),
            f"at once {ns(once, visits)}",
            best[name] / once,
            3,
        )
        for how, name in (("in order", "late"), ("unordered", "unordered"))
    ]


def crowd_learning_rows() -> list[Row]:
    """A million visits of 20,000 users, told after every 100: asks and tells, CPU time alone."""
    block, deciding, decided, whole = 100, 0.0, 0, 0.0
    users = PLUGINS.crowd_environment(
        "crowd", seed=1, users=20_000, visits_per_user=50, arrivals="cohorts", **C_INSTANCE
    )
    policy = PLUGINS.crowd_policy("crowd-posterior", bdes.CrowdProblem(N_ARMS, MILLION), seed=1)
    assert isinstance(policy, bdes.HasDiagnostics)
    models = policy.diagnostics()["models"]
    for start in range(0, MILLION, block):
        came = users.arrivals(block)
        begin = time.thread_time()
        arms = policy.ask(came)
        asked = time.thread_time() - begin
        rewards = users.pull(came, arms).rewards
        visits = np.arange(start, start + block)
        begin = time.thread_time()
        policy.tell(visits, rewards)
        spent = asked + time.thread_time() - begin
        whole += spent
        now = policy.diagnostics()["models"] if asked > 1e-3 else models
        if now == models:
            deciding, decided = deciding + spent, decided + block
        models = now
    decision = deciding / decided * 1e6
    return [
        absolute("crowd-posterior in blocks of 100, without fits, a decision", decision, "µs", 3),
        absolute("crowd-posterior with fits, 10^6 visits, a decision", whole, "µs", 10),
    ]


GAME = """
import resource, time
begin = time.perf_counter()
import bdes_framework as bdes
plugins = bdes.load_plugins()
environment = plugins.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
"""
START = """
policy = plugins.policy("ucb1", bdes.Problem(2, 1000), seed=1)
bdes.simulate(environment, policy, 1000)
print(time.perf_counter() - begin)
"""
LONG = """
policy = plugins.policy("fixed-schedule", bdes.Problem(2, 10**8), seed=1, cycle=[0, 1, 1])
bdes.simulate(environment, policy, 10**8, keep=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


CROWD = """
import numpy as np
arms = {"r": np.arange(1, 11) / 10, "b": 1 - np.arange(10) / 10, "lam": 0.1}
users = plugins.crowd_environment("crowd", seed=1, users=100_000, **arms)
policy = plugins.crowd_policy("crowd-greedy", bdes.CrowdProblem(10, 10**7), seed=1)
late = bdes.Feedback(every=10_000, delay=1000, lost=0.1)
bdes.simulate_crowd(users, policy, 10**7, feedback=late)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def child(code: str) -> float:
    command = [sys.executable, "-c", GAME + code]
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
        absolute("a second process until it has simulated", start, "s", 1.5),
        absolute("bdes --help, user CPU", user, "s", 0.3),
        absolute("T = 10^8 with curves only", megabytes, "MB", 300),
        absolute("10^7 visits of 10^5 users", child(CROWD), "MB", 500),
    ]


if __name__ == "__main__":
    run_benchmark(
        "Playing pulls (single process, best of many turns)",
        schedule_rows,
        fused_rows,
        own_form_rows,
        overhead_rows,
        crowd_rows,
        late_reward_rows,
        crowd_learning_rows,
        process_rows,
    )
