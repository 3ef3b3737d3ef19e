"""Random streams: a tree of numpy seed sequences, all grown from one integer.

A stream's place in the tree is a path of words and numbers, so that adding a branch
(another policy, another replication) never changes the draws of any other.
"""

import hashlib
from typing import TypeAlias

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError

Seed: TypeAlias = int | SeedSequence
"""An integer from 0 to 2^128 - 1, or a place in a seed tree made from one."""

N_SEEDS = 1 << 128
"""numpy gives a seed below this four words of 32 bits; a larger one could equal a path."""


def branch(seed: Seed, *path: int | str) -> SeedSequence:
    """Return the seed sequence at ``path`` below ``seed``.

    >>> bool(generator(branch(1, "policy")).random() == generator(branch(1, "policy")).random())
    True
    """
    if not isinstance(seed, SeedSequence):
        is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not is_integer or not 0 <= int(seed) < N_SEEDS:
            raise InvalidValueError(
                f"a seed must be an integer from 0 to 2^128 - 1, got {quoted(seed)}"
            )
        seed = SeedSequence(int(seed))
    key = [word for step in path for word in _words(step)]
    return SeedSequence(entropy=seed.entropy, spawn_key=(*seed.spawn_key, *key))


def generator(seed: SeedSequence) -> Generator:
    """Return the random generator of a seed sequence (SFC64: numpy's fastest)."""
    return Generator(SFC64(seed))


def _words(step: int | str) -> list[int]:
    """Return one step of a path as four words of 32 bits.

    numpy concatenates the words of a path; steps of equal length keep different paths apart.
    """
    text = f"word {step}" if isinstance(step, str) else f"number {int(step)}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
