"""Seeds: the same path gives the same random stream; other paths give others."""

import hashlib

import numpy as np
import pytest
from numpy.random import SeedSequence

from bdes_framework import InvalidValueError
from bdes_framework._internal.seeding import branch, generator

WORD = int.from_bytes(hashlib.sha256(b"a").digest()[:8], "big")
DIGEST = hashlib.sha256(b"word a").digest()
PATHS: list[tuple[int | str, ...]] = [
    *((), ("a",), ("b",), ("a", "b"), ("b", "a"), (0,), (1,), (0, 1), ("a", 0), ("ab",)),
    # Paths that would be equal if steps were concatenated without saying where they end.
    *((1 << 64 | WORD,), (WORD & 0xFFFFFFFF, WORD >> 32, 1)),
    tuple(int.from_bytes(DIGEST[i : i + 4], "little") for i in range(0, 16, 4)),
    (int.from_bytes(DIGEST[:16], "little"),),
    *((1, 0), (1 << 32 | 1,), (1, 1), ("1",), ("1", "1"), ("number 1",), ("word 1",)),
    *((-1,), (2**32 - 1,)),
]


def test_paths_give_streams_of_their_own() -> None:
    draws = {path: generator(branch(7, *path)).random(4).tobytes() for path in PATHS}
    assert draws == {path: generator(branch(7, *path)).random(4).tobytes() for path in PATHS}
    states = {tuple(state(branch(7, *path))) for path in PATHS}
    assert len(states) == len(set(draws.values())) == len(PATHS)
    assert generator(branch(8, "a")).random(4).tobytes() not in draws.values()
    # All steps are of one length, and numpy gives each of these numbers one word.
    for path in PATHS:
        key = branch(7, *path).spawn_key
        assert len(key) == 4 * len(path)
        assert all(0 <= word < 2**32 for word in key)


def test_branch_in_steps_or_at_once_is_the_same() -> None:
    stepwise = branch(branch(1, "replication", 3), "policy")
    at_once = branch(1, "replication", 3, "policy")
    assert generator(stepwise).random() == generator(at_once).random()


def test_streams_of_replications_are_uncorrelated() -> None:
    draws = np.array([generator(branch(1, "replication", k)).random(20_000) for k in range(8)])
    correlations = np.corrcoef(draws) - np.eye(8)
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)


def state(place: SeedSequence) -> list[int]:
    words: list[int] = place.generate_state(8).tolist()
    return words


def test_no_seed_equals_a_path() -> None:
    """A seed with more words than numpy sets aside for it could spell out a path."""
    place = branch(7, "a")
    spelled_out = sum(w << (32 * i) for i, w in enumerate([7, 0, 0, 0, *place.spawn_key]))
    assert state(SeedSequence(spelled_out)) == state(place)
    with pytest.raises(InvalidValueError, match=r"from 0 to 2\^128 - 1"):
        branch(spelled_out)
    branch(2**128 - 1)


def test_numpy_integers_are_seeds_and_steps() -> None:
    assert state(branch(np.int64(7), np.uint8(3))) == state(branch(7, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [-1, 1.5, True, "x", None, 2**128, np.int64(-1), np.True_])
def test_a_wrong_seed_raises(seed: int) -> None:
    with pytest.raises(InvalidValueError, match="seed"):
        branch(seed)
