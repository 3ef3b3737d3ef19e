"""The verdict on a log: what its test takes for granted."""

import numpy as np
from attrs import evolve

import bdes_framework as bdes
from bdes_framework.planning.verdict import judge
from tests.support.logs import ADS, simulated_log


def test_changing_chances_are_a_warning() -> None:
    plain = simulated_log(ADS, users=60, rows=20, seed=1)
    fit = bdes.fit(plain)
    chances = np.full(plain.n_rows, 1 / 3)
    even = bdes.Log(plain.arms, plain.rewards, plain.starts, propensities=chances)
    assert judge(fit, even, 20).warnings == ()
    chances = np.random.default_rng(1).random(plain.n_rows)
    uneven = bdes.Log(plain.arms, plain.rewards, plain.starts, propensities=chances)
    verdict = judge(fit, uneven, 20)
    (warning,) = verdict.warnings
    assert warning.startswith("chances of arms changed: by their propensities, 0% of the visits")
    assert not verdict.matters
    assert verdict.answer.startswith("It cannot be tested whether what you show changes how")
    assert "it cannot be tested whether what was shown earlier matters" in verdict.doubts
    assert verdict.test is not None
    assert verdict.experiment is not None  # what the log told of b does not count
    alone, added = (
        bdes.suggest_experiment(fit, visits=20, with_log=counts).users for counts in (False, True)
    )
    assert verdict.experiment.users == alone > added
    some = evolve(verdict, test=evolve(verdict.test, exchanged=0.02))
    assert some.answer.startswith("Nothing shows")
    assert verdict.as_json()["warnings"] == [warning]
    assert evolve(verdict, test=None).warnings == ()  # then there is nothing to mislead
