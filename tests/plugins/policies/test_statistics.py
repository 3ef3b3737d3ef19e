"""The estimators as the paper's lemmas state them, on draws with fixed seeds."""

import math

import numpy as np
import pytest

from bdes_framework import FloatArray, Instance, Problem, simulate
from bdes_policies import estimate_lam
from bdes_policies.exploration.lambda_search import Pair, estimation_phase
from bdes_policies.exploration.phases import PhaseReader
from tests.support.noiseless import PLUGINS, array, build, diagnostics_of, play, problem_of

RUNS = 300
INSTANCE = Instance([0.8, 0.5], [0.3, 1.0], 0.4)
EPSILON, SAMPLES = 0.02, 200
HORIZON = 12_000


def estimates(name: str, instance: Instance, **parameters: object) -> dict[str, FloatArray]:
    """r_hat, v_hat and b_hat of many runs: shape (runs, K) each."""
    found: dict[str, list[FloatArray]] = {"r_hat": [], "v_hat": [], "b_hat": []}
    for seed in range(RUNS):
        world = PLUGINS.environment(
            "bernoulli", seed=seed, r=instance.r, b=instance.b, lam=instance.lam
        )
        policy = build(
            name,
            problem_of(instance, HORIZON, arm=1),
            seed,
            epsilon=EPSILON,
            samples=SAMPLES,
            planner="best-fixed",
            **parameters,
        )
        simulate(world, policy, HORIZON, keep=False)
        shown = diagnostics_of(policy)
        assert shown["clipped"] is False
        for key, values in found.items():
            values.append(array(shown, key))
    return {key: np.array(values) for key, values in found.items()}


def beyond(values: FloatArray, truth: FloatArray, delta: float) -> FloatArray:
    return np.asarray((np.abs(values - truth) >= delta).mean(axis=0))


def hoeffding(delta: float) -> float:
    """2·exp(-2M(delta - epsilon)²), the lemmas' bound."""
    return 2 * math.exp(-2 * SAMPLES * (delta - EPSILON) ** 2)


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
def test_estimates_with_a_known_arm_are_nearly_unbiased_and_concentrate(tuning: str) -> None:
    found = estimates("etc", INSTANCE, tuning=tuning)
    r, v = INSTANCE.r, INSTANCE.r * INSTANCE.b
    # Lemmas 3.7 and 3.8: the means are off by epsilon·r at most; then Hoeffding.
    sampling = 4 * 0.5 / math.sqrt(SAMPLES * RUNS)
    assert (np.abs(found["r_hat"].mean(axis=0) - r) <= EPSILON * r + sampling).all()
    assert (np.abs(found["v_hat"].mean(axis=0) - v) <= EPSILON * r + sampling).all()
    for delta in (0.06, 0.08, 0.1):
        assert (beyond(found["r_hat"], r, delta) <= hoeffding(delta)).all()
        assert (beyond(found["v_hat"], v, delta) <= hoeffding(delta)).all()
    # Lemma 3.9 says nothing that is true below epsilon; the ratio scatters like this.
    b, p, m = INSTANCE.b[0], INSTANCE.r[0], SAMPLES
    scatter = math.sqrt((p * b * (1 - p * b) + b**2 * p * (1 - p)) / m) / p
    assert found["b_hat"][:, 0].std() == pytest.approx(scatter, rel=0.12)
    assert found["b_hat"][:, 0].mean() == pytest.approx(b, abs=EPSILON + 4 * scatter / 17)


@pytest.mark.parametrize("tuning", ["paper", "balanced"])
def test_estimates_without_a_known_arm_concentrate_on_another_scale(tuning: str) -> None:
    found = estimates("etc-unknown-arm", INSTANCE, tuning=tuning)
    mean_b = float(INSTANCE.b.mean())
    r, v = mean_b * INSTANCE.r, INSTANCE.r * INSTANCE.b
    sampling = 4 * 0.5 / math.sqrt(SAMPLES * RUNS)
    assert (np.abs(found["r_hat"].mean(axis=0) - r) <= EPSILON * INSTANCE.r + sampling).all()
    for delta in (0.06, 0.08, 0.1):  # Lemma B.4
        assert (beyond(found["r_hat"], r, delta) <= hoeffding(delta)).all()
        assert (beyond(found["v_hat"], v, delta) <= hoeffding(delta)).all()
    # Lemma B.5 asks for delta >= 2·epsilon, but bounds a ratio as if its denominator were 1.
    medians = np.median(found["b_hat"], axis=0)
    np.testing.assert_allclose(medians, INSTANCE.b / mean_b, rtol=0.05)


def test_benchmarks_in_turn_scatter_the_scale_less_than_random_ones() -> None:
    ratios = {}
    for tuning in ("paper", "balanced"):
        found = estimates("etc-unknown-arm", Instance([0.9, 0.9], [0.0, 1.0], 1.0), tuning=tuning)
        ratios[tuning] = (found["r_hat"][:, 0] - found["r_hat"][:, 1]).std()
    assert ratios["balanced"] < 0.85 * ratios["paper"]


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("lam", [0.2, 0.6, 1.0])
def test_the_pulls_for_an_estimate_of_lam_determine_it(in_blocks: bool, lam: float) -> None:
    instance = Instance([0.9, 0.5], [0.1, 0.9], lam)
    phase = estimation_phase(Pair(0, 1, 0.0, 0.0), settle=60, samples=400, in_blocks=in_blocks)
    exact = PhaseReader(phase)
    exact.take(instance.expected_rewards(exact.arms(phase.n_pulls)))
    means = (exact.sums / 400).tolist()
    assert estimate_lam(*means).lam == pytest.approx(lam, abs=0.02)  # the first samples settle
    found = []
    for seed in range(200):
        world = PLUGINS.environment("bernoulli", seed=seed, r=[0.9, 0.5], b=[0.1, 0.9], lam=lam)
        reader = PhaseReader(phase)
        reader.take(world.pull(reader.arms(phase.n_pulls)).rewards)
        after, settled, alternating = (reader.sums / 400).tolist()
        found.append(estimate_lam(after, settled, alternating, 400))
    unclipped = np.array([estimate.unclipped for estimate in found])
    told = float(np.median([estimate.standard_error for estimate in found]))
    assert unclipped.std() == pytest.approx(told, rel=0.2)
    assert unclipped.mean() == pytest.approx(lam, abs=0.02 + 4 * told / math.sqrt(200))


@pytest.mark.parametrize("seed", range(5))
def test_sticky_keeps_the_best_pair_on_draws(seed: int) -> None:
    # The union bound allows a wrong elimination with probability 1/T.
    r, b = [1.0, 0.1, 0.5], [0.0, 1.0, 0.5]
    world = PLUGINS.environment("bernoulli", seed=seed, r=r, b=b, lam=1.0)
    policy = build("sticky", Problem(3, 200_000, 1.0), seed)
    simulate(world, policy, 200_000, keep=False)
    shown = diagnostics_of(policy)
    assert array(shown, "committed").tolist() == [0, 1]
    exact = play(build("sticky", Problem(3, 200_000, 1.0), seed), Instance(r, b, 1.0), 200_000)
    drawn, noiseless = array(shown, "active_after"), array(exact.diagnostics, "active_after")
    assert abs(drawn[-1] - noiseless[-1]) <= 1
