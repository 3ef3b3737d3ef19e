"""One seed tree: the same place, the same draws; another place, others."""

import itertools

import numpy as np
import pytest

from bdes_framework import InvalidValueError
from bdes_framework.seeding import branch, generator


def test_a_path_always_leads_to_the_same_place_and_others_to_others() -> None:
    paths: list[tuple[int | str, ...]] = [
        (), ("a",), ("b",), ("a", "b"), ("b", "a"), (0,), (1,), (0, 1), ("a", 0), ("ab",),
    ]  # fmt: skip
    draws = {path: generator(branch(7, *path)).random(4).tobytes() for path in paths}
    assert draws == {path: generator(branch(7, *path)).random(4).tobytes() for path in paths}
    for one, other in itertools.combinations(paths, 2):
        assert draws[one] != draws[other], (one, other)
    assert generator(branch(8, "a")).random(4).tobytes() not in draws.values()


def test_branching_in_steps_or_at_once_is_the_same() -> None:
    stepwise = branch(branch(1, "replication", 3), "policy")
    at_once = branch(1, "replication", 3, "policy")
    assert generator(stepwise).random() == generator(at_once).random()


def test_streams_of_neighbouring_replications_are_uncorrelated() -> None:
    draws = np.array([generator(branch(1, "replication", k)).random(20_000) for k in range(8)])
    correlations = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "x", None])
def test_a_bad_seed_is_refused(seed: int) -> None:
    with pytest.raises(InvalidValueError, match="seed"):
        branch(seed)
