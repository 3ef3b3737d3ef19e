"""One tree of random streams, grown from one integer; no global state, no clock.

A stream's place in the tree is a path of words and numbers, so that adding a branch
(another policy, another replication) never changes the draws of any other.
"""

import hashlib
from typing import TypeAlias

from numpy.random import SFC64, Generator, SeedSequence

from bdes_framework.errors import InvalidValueError
from bdes_framework.text import quoted

Seed: TypeAlias = int | SeedSequence
"""An integer of at least 0, or a place in a seed tree made from one."""


def branch(seed: Seed, *path: int | str) -> SeedSequence:
    """Return the place reached from ``seed`` along ``path``; the same path, the same place.

    >>> bool(generator(branch(1, "policy")).random() == generator(branch(1, "policy")).random())
    True
    """
    root = _root(seed)
    key = tuple(_step(step) for step in path)
    return SeedSequence(entropy=root.entropy, spawn_key=(*root.spawn_key, *key))


def generator(seed: SeedSequence) -> Generator:
    """Return the generator at one place of the tree (SFC64: numpy's fastest)."""
    return Generator(SFC64(seed))


def _root(seed: Seed) -> SeedSequence:
    if isinstance(seed, SeedSequence):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidValueError(f"a seed must be an integer of at least 0, got {quoted(seed)}")
    return SeedSequence(seed)


def _step(step: int | str) -> int:
    if isinstance(step, int):
        return step
    # Words live far above any counter, so the two can never meet.
    return (1 << 64) | int.from_bytes(hashlib.sha256(step.encode()).digest()[:8], "big")
