"""The compiled loops of the paper's policies against asking and telling."""

import pytest

from bdes_framework import Problem
from tests.support.fused import (
    LAMS,
    NOISES,
    POLICIES,
    Case,
    assert_same_diagnostics,
    environment,
    play_in_pieces,
    policy_for,
)


@pytest.mark.parametrize("noise", NOISES[:2])
@pytest.mark.parametrize("case", POLICIES)
def test_fused_rounds_equal_ask_and_tell(case: Case, noise: object) -> None:
    in_turns = [(True, 700), (False, 1), (True, 40), (False, 300), (True, 459)]
    for n_arms, seed in ((4, 9), (2, 10), (1, 11)):
        problem = Problem(n_arms, 1500, LAMS[seed % 3], replenishing_arm=n_arms - 1)
        asked = policy_for(case, problem, seed=9)
        expected = play_in_pieces(asked, environment(n_arms, seed, noise), [(False, 1500)])
        for pieces in (in_turns, [(True, 1500)]):
            mixed = policy_for(case, problem, seed=9)
            assert play_in_pieces(mixed, environment(n_arms, seed, noise), pieces) == expected
            assert_same_diagnostics(mixed, asked)
