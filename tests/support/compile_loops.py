"""Compile the loops that most tests use: ``python -m tests.support.compile_loops``.

``make test`` runs it once before pytest's workers start, so that they load instead of compile.
"""

import numpy as np

import bdes_framework as bdes
from tests.support.fused import digest


def main() -> None:
    """Play every fused policy and ``posterior``, plan with every planner, fit and test a log."""
    digest()
    plugins = bdes.load_plugins()
    instance = bdes.Instance([0.9, 0.3, 0.5], [0.1, 1.0, 0.5], 0.3)
    for entry in plugins.entries():
        if entry.kind is bdes.Kind.PLANNER:
            plugins.planner(entry.name).plan(instance, 6)
    arms = {"r": instance.r, "b": instance.b, "lam": instance.lam}
    environment = plugins.environment("bernoulli", seed=1, **arms)
    trace = bdes.simulate(
        environment, plugins.policy("posterior", bdes.Problem(3, 600), seed=1), 600
    )
    crowd = plugins.crowd_environment("crowd", seed=1, **arms)
    greedy = plugins.crowd_policy("crowd-greedy", bdes.CrowdProblem(3, 600), seed=1)
    bdes.simulate_crowd(crowd, greedy, 600)
    assert trace.arms is not None
    assert trace.rewards is not None
    log = bdes.Log(trace.arms, trace.rewards, np.arange(0, 600, 30))
    bdes.fit(log, users="multiplier")
    bdes.fit(log, users="clustered")
    bdes.randomisation_test(log, permutations=1)


if __name__ == "__main__":
    main()
