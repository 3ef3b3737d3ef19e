"""The compiled loops of the reference policies: the same, bit for bit, as asking and telling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework import Problem, simulate
from tests.support.fused import (
    BASELINES,
    NOISES,
    AskingOnly,
    Case,
    Pieces,
    assert_same_diagnostics,
    environment,
    play_in_pieces,
    policy_for,
)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("case", BASELINES)
def test_simulating_fused_equals_asking(case: Case, noise: object) -> None:
    # Once per policy long enough for the second chunk of a simulation.
    horizon = 17_000 if noise is None and not case[1] else 2_000
    fused, asked = (policy_for(case, Problem(4, horizon), seed=3) for _ in range(2))
    fast = simulate(environment(4, 3, noise), fused, horizon)
    slow = simulate(environment(4, 3, noise), AskingOnly(asked), horizon)
    assert fast.arms is not None
    assert fast.rewards is not None
    np.testing.assert_array_equal(fast.arms, slow.arms)
    np.testing.assert_array_equal(fast.rewards, slow.rewards)
    assert_same_diagnostics(fused, asked)
    assert len(set(fast.arms.tolist())) > 1


@pytest.mark.parametrize("case", BASELINES)
@settings(max_examples=20)
@given(
    pieces=st.lists(st.tuples(st.booleans(), st.integers(1, 60)), min_size=1, max_size=6),
    n_arms=st.integers(1, 6),
    seed=st.integers(0, 1000),
    noise=st.sampled_from(NOISES),
)
def test_the_two_forms_can_take_turns(
    case: Case, pieces: Pieces, n_arms: int, seed: int, noise: object
) -> None:
    problem = Problem(n_arms, sum(n for _, n in pieces))
    mixed, asked = (policy_for(case, problem, seed) for _ in range(2))
    played = play_in_pieces(mixed, environment(n_arms, seed, noise), pieces)
    expected = play_in_pieces(asked, environment(n_arms, seed, noise), [(False, problem.horizon)])
    assert played == expected
    assert_same_diagnostics(mixed, asked)
