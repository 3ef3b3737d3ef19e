"""The compiled loops of the paper's policies against asking and telling."""

import pytest

from bdes_framework import Problem
from tests.support.fused import LAMS, NOISES, POLICIES, Case, game


@pytest.mark.parametrize("noise", NOISES[:2])
@pytest.mark.parametrize("case", POLICIES)
def test_fused_rounds_equal_ask_and_tell(case: Case, noise: object) -> None:
    in_turns = [(True, 700), (False, 1), (True, 40), (False, 300), (True, 459)]
    for n_arms, seed in ((4, 9), (2, 10), (1, 11)):
        problem = Problem(n_arms, 1500, LAMS[seed % 3], replenishing_arm=n_arms - 1)
        asked = game(case, problem, [(False, 1500)], seed, noise)
        for pieces in (in_turns, [(True, 1500)]):
            assert game(case, problem, pieces, seed, noise) == asked
