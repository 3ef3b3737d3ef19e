"""What the paper's policies cost: ``python -m benchmarks.policies`` prints a table of ratios.

Arms and rewards pass in blocks without an environment, so what is measured is the policy alone;
the planner's own time is taken out. CPU time, not wall time: other work does not count.
``unknown-lambda`` may end in ``exp3p``, which decides every round: then no block is long, and
it is measured against ``exp3p`` instead, both fused and with their environment.
"""

import time

import numpy as np
from attrs import frozen

import bdes_framework as bdes
from benchmarks.measure import (
    C_INSTANCE,
    MILLION,
    N_ARMS,
    CompiledC,
    Row,
    best_seconds,
    ns,
    run_benchmark,
)

CHUNK = 1 << 14
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


def overhead_rows() -> list[Row]:
    cases: list[tuple[dict[str, object], float]] = [({"use": "sticky"}, 1.0)]
    for use, lams in {"etc": (0.1, 1.0), "unknown-lambda": (0.5, 1.0)}.items():
        for tuning in ("balanced", "paper"):
            ref: dict[str, object] = {"use": use, "planner": "watched", "tuning": tuning}
            cases += [(ref, lam) for lam in lams]
    plugins, rows = bdes.load_plugins(modules=["benchmarks.policies"]), []
    for ref, lam in cases:
        own = seconds_of(plugins, ref, lam)
        name = ", ".join(str(ref[key]) for key in ("use", "tuning") if key in ref)
        claim = f"{name}, lam = {lam:g}: ns per pull beside 1 ms"
        rows.append(Row(claim, f"{own * 1e3:.2f} ms", "-", (own - 1e-3) / MILLION * 1e9, ALLOWED))
    return rows


def exp3p_rows() -> list[Row]:
    plugins, c = bdes.load_plugins(), CompiledC("exp3p")

    def fused() -> None:
        environment = plugins.environment("bernoulli", seed=1, **C_INSTANCE)
        policy = plugins.policy("exp3p", bdes.Problem(N_ARMS, MILLION), seed=1)
        bdes.simulate(environment, policy, MILLION, keep=False)

    seconds = best_seconds({"c": c, "fused": fused}, repeats=25)["fused"]
    return [c.row("fused exp3p, K = 10", seconds, 1.5)]


def fallback_rows() -> list[Row]:
    """Where states are slow, ``unknown-lambda`` is ``exp3p``: it decides and pays every round."""
    plugins = bdes.load_plugins()
    best = {"unknown-lambda": float("inf"), "exp3p": float("inf")}
    for _ in range(15):
        for name in best:
            environment = plugins.environment("bernoulli", seed=1, r=R, b=B, lam=1e-12)
            policy = plugins.policy(name, bdes.Problem(N_ARMS, MILLION), seed=3)
            begin = time.thread_time()
            trace = bdes.simulate(environment, policy, MILLION, keep=False)
            best[name] = min(best[name], time.thread_time() - begin)
            assert trace.diagnostics.get("chosen", name) == "exp3p"
    ours, plain = best.values()
    claim = "unknown-lambda that ends in exp3p, fused"
    return [Row(claim, ns(ours), f"exp3p {ns(plain)}", ours / plain, 1.1)]


def main() -> None:
    title = "The paper's policies, T = 10^6, K = 10"
    run_benchmark(title, exp3p_rows, fallback_rows, overhead_rows)


if __name__ == "__main__":
    # As a plugin this module is imported under its own name; the watch must be that one's.
    from benchmarks import policies

    policies.main()
