"""What the paper's policies cost: ``python -m benchmarks.policies`` prints a table of ratios.

Arms and rewards pass in blocks without an environment, so what is measured is the policy alone;
the planner's own time is taken out. CPU time, not wall time: other work does not count.
``unknown-lambda`` may end in ``exp3p``, which decides every round: then no block is long, and
it is measured against ``exp3p`` instead, both fused and with their environment.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from benchmarks.measure import CompiledC, Row, best_seconds, print_rows

MILLION = 1_000_000
CHUNK = 1 << 14
N_ARMS = 10
_RNG = np.random.default_rng(0)
R = _RNG.random(N_ARMS)
B = np.append(_RNG.random(N_ARMS - 1), 1.0)
ALLOWED = 5.0
"""Nanoseconds per pull, beside one millisecond."""

planning = 0.0
"""Seconds spent in planners."""


@frozen
class WatchedConfig:
    """The planner ``certified``, with a watch on it."""


class Watched:
    """Adds up the time that planning takes."""

    def __init__(self, inner: bdes.Planner) -> None:
        self._inner = inner

    def plan(self, instance: bdes.Instance, horizon: int) -> bdes.Plan:
        global planning
        begin = time.thread_time()
        plan = self._inner.plan(instance, horizon)
        planning += time.thread_time() - begin
        return plan


BDES_API_VERSION = 1


@bdes.hookimpl
def bdes_register(registrar: bdes.Registrar) -> None:
    def build(config: WatchedConfig, context: bdes.BuildContext) -> Watched:
        return Watched(context.planner("certified"))

    registrar.planner("watched", WatchedConfig, build)


def seconds_of(plugins: bdes.Plugins, ref: dict[str, object], lam: float) -> float:
    """Return the policy's own CPU time for a million pulls, the best of several runs."""
    known = ref["use"] != "unknown-lambda"
    problem = bdes.Problem(N_ARMS, MILLION, lam if known else None, N_ARMS - 1)
    environment = plugins.environment("bernoulli", seed=1, r=R, b=B, lam=lam)
    rewards = bdes.simulate(environment, plugins.policy(ref, problem, seed=3), MILLION).rewards
    assert rewards is not None
    best = float("inf")
    for _ in range(15):
        before, begin = planning, time.thread_time()
        policy, done = plugins.policy(ref, problem, seed=3), 0
        while done < MILLION:
            arms = policy.ask(min(CHUNK, MILLION - done))
            policy.tell(rewards[done : done + arms.size])
            done += arms.size
        best = min(best, time.thread_time() - begin - (planning - before))
    return best


def overhead_rows(plugins: bdes.Plugins) -> list[Row]:
    rows = []
    cases: list[tuple[dict[str, object], float]] = [
        ({"use": "etc", "planner": "watched", "tuning": tuning}, lam)
        for tuning in ("balanced", "paper")
        for lam in (0.1, 1.0)
    ]
    cases += [({"use": "sticky"}, 1.0)]
    cases += [
        ({"use": "unknown-lambda", "planner": "watched", "tuning": tuning}, lam)
        for tuning in ("balanced", "paper")
        for lam in (0.5, 1.0)
    ]
    for ref, lam in cases:
        own = seconds_of(plugins, ref, lam)
        figure = (own - 1e-3) / MILLION * 1e9
        name = f"{ref['use']}, {ref['tuning']}" if "tuning" in ref else str(ref["use"])
        rows.append(
            Row(f"{name}, lam = {lam:g}: ns per pull beside 1 ms", f"{own * 1e3:.2f} ms", "-",
                figure, ALLOWED)
        )  # fmt: skip
    return rows


def exp3p_row(plugins: bdes.Plugins) -> Row:
    c, in_c = CompiledC("exp3p"), [float("inf")]

    def run_c() -> None:
        in_c[0] = min(in_c[0], c.ns_per_pull(N_ARMS, MILLION))

    def fused() -> None:
        # The instance that the C loop plays.
        r, b = (np.arange(N_ARMS) + 1) / N_ARMS, 1 - np.arange(N_ARMS) / N_ARMS
        environment = plugins.environment("bernoulli", seed=1, r=r, b=b, lam=0.1)
        policy = plugins.policy("exp3p", bdes.Problem(N_ARMS, MILLION), seed=1)
        bdes.simulate(environment, policy, MILLION, keep=False)

    turns: dict[str, Callable[[], object]] = {"c": run_c, "fused": fused}
    seconds = best_seconds(turns, repeats=25)["fused"]
    each = seconds / MILLION * 1e9
    return Row("fused exp3p, K = 10", f"{each:.1f} ns", f"C {in_c[0]:.1f} ns", each / in_c[0], 1.5)


def fallback_row(plugins: bdes.Plugins) -> Row:
    """Where states are slow, ``unknown-lambda`` is ``exp3p``: it decides and pays every round."""
    best = {"unknown-lambda": float("inf"), "exp3p": float("inf")}
    for _ in range(15):
        for name in best:
            environment = plugins.environment("bernoulli", seed=1, r=R, b=B, lam=1e-12)
            policy = plugins.policy(name, bdes.Problem(N_ARMS, MILLION), seed=3)
            begin = time.thread_time()
            trace = bdes.simulate(environment, policy, MILLION, keep=False)
            best[name] = min(best[name], time.thread_time() - begin)
            assert trace.diagnostics.get("chosen", name) == "exp3p"
    each = {name: f"{seconds / MILLION * 1e9:.1f} ns" for name, seconds in best.items()}
    return Row(
        "unknown-lambda that ends in exp3p, fused",
        each["unknown-lambda"],
        f"exp3p {each['exp3p']}",
        best["unknown-lambda"] / best["exp3p"],
        1.1,
    )


def main() -> None:
    plugins = bdes.load_plugins(modules=["benchmarks.policies"])
    rows = [exp3p_row(plugins), fallback_row(plugins), *overhead_rows(plugins)]
    sys.exit(0 if print_rows("The paper's policies, T = 10^6, K = 10", rows) else 1)


if __name__ == "__main__":
    # As a plugin this module is imported under its own name; the watch must be that one's.
    from benchmarks import policies

    policies.main()
