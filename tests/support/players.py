"""Environments and policies made for tests of the simulation."""

import math
from typing import Any

import numpy as np
from attrs import define, field

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Outcome, Record, World

PLUGINS = bdes.load_plugins()
ARMS = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.5], "lam": 0.3}


def environment(seed: int = 1, **parameters: object) -> bdes.Environment:
    return PLUGINS.environment("bernoulli", seed=seed, **(ARMS | parameters))


@define
class Scripted:
    """Plays a script in blocks of given sizes, and keeps the rewards it observed."""

    script: IntArray
    sizes: list[int]
    observed: list[float] = field(factory=list)
    limits: list[int] = field(factory=list)
    _at: int = 0

    def ask(self, limit: int) -> IntArray:
        self.limits.append(limit)
        size = min(self.sizes[len(self.limits) % len(self.sizes)], limit)
        block = self.script[self._at : self._at + size]
        self._at += size
        return block

    def tell(self, rewards: FloatArray) -> None:
        self.observed += rewards.tolist()


def script(n: int, n_arms: int = 3) -> IntArray:
    return np.random.default_rng(5).integers(0, n_arms, n)


@define
class FaultyEnvironment:
    """Pays one half, or what ``right`` brings, until it brings ``wrong`` from some round on."""

    wrong: Any = None
    since: int = 0
    n_arms: Any = 3
    right: Any = lambda n: Outcome(np.full(n, 0.5), np.full(n, 0.5))
    _round: int = 0

    def pull(self, arms: IntArray) -> Outcome:
        self._round += arms.size
        bring = self.wrong if self._round > self.since else self.right
        return bring(arms.size)  # type: ignore[no-any-return]


def spoilt(n: int) -> FloatArray:
    return np.full(n, math.nan)


@bdes.compiled
def play_in_turn(world: World, record: Record, wrong_at: int, wrong_arm: int) -> None:
    for t in range(record.arms.size):
        bdes.play_round(world, record, t, wrong_arm if t == wrong_at else t % world.r.size)


class InTurn:
    """All arms in turn, compiled; ``spoil`` then changes what was written down."""

    def __init__(self, wrong_at: int = -1, wrong_arm: int = 0, spoil: Any = None) -> None:
        self.wrong = wrong_at, wrong_arm
        self.spoil = spoil

    def ask(self, limit: int) -> IntArray:
        return np.arange(limit) % 3

    def tell(self, rewards: FloatArray) -> None:
        pass

    def play(self, world: World, record: Record) -> None:
        if self.spoil is None:
            play_in_turn(world, record, *self.wrong)
        else:
            self.spoil(world, record)
