"""UCB with wider radii, ``wide-ucb``: against its definition, and against UCB1."""

import math

import pytest
from numpy.random import default_rng

from bdes_framework import Problem
from tests.support.fused import environment, fused, play_in_pieces
from tests.support.noiseless import PLUGINS, array, build, diagnostics_of


@pytest.mark.parametrize("lam", [0.0, 1e-4, 0.003, 0.5])
@pytest.mark.parametrize("n_arms", [1, 2, 5])
def test_wide_ucb_plays_the_highest_index(lam: float, n_arms: int) -> None:
    rewards = (default_rng(8).random((600, n_arms)) < 0.5).astype(float)
    policy = build("wide-ucb", Problem(n_arms, 600, lam))
    history: list[tuple[int, float]] = []
    for t in range(600):
        (arm,) = policy.ask(600 - t).tolist()
        if t < n_arms:
            expected = t
        else:
            bounds = []
            for i in range(n_arms):
                plays = [(s, x) for s, (a, x) in enumerate(history) if a == i]
                mean = math.fsum(x for _, x in plays) / len(plays)
                radius = math.sqrt(2 * math.log(t) / len(plays))
                age = math.fsum(t - s for s, _ in plays) / len(plays)
                bounds.append(mean + radius + min(1.0, lam * age))
            expected = arm if bounds[arm] >= max(bounds) - 1e-12 else -1
        assert arm == expected
        history.append((arm, float(rewards[t, arm])))
        policy.tell(rewards[t, arm : arm + 1])
    assert array(diagnostics_of(policy), "plays").sum() == 600


def test_wide_ucb_at_lam_0_is_ucb1() -> None:
    problem = Problem(4, 3_000, 0.0)
    world = [environment(4, 3), environment(4, 3)]
    wide, plain = fused(build("wide-ucb", problem)), fused(build("ucb1", problem))
    pieces = [(True, 3_000)]
    assert play_in_pieces(wide, world[0], pieces) == play_in_pieces(plain, world[1], pieces)


def test_wide_ucb_returns_to_neglected_arms() -> None:
    def plays(lam: float) -> float:
        world = PLUGINS.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[1.0, 1.0], lam=0.0)
        policy = fused(build("wide-ucb", Problem(2, 50_000, lam)))
        play_in_pieces(policy, world, [(True, 50_000)])
        return float(array(diagnostics_of(policy), "plays")[1])

    assert plays(1 / 20_000) > 1.5 * plays(0.0)
