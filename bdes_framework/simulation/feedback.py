"""When a policy for many users learns rewards: some visits later, in any order, or never."""

import math
from collections import deque
from typing import Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import in_

from bdes_framework._internal.arrays import BoolArray, FloatArray, IntArray
from bdes_framework._internal.numbers import as_integer, is_number
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError
from bdes_framework.model.compiling import compiled


def _as_every(value: int) -> int:
    return as_integer(value, "every", 1)


def _as_delay(value: int) -> int:
    return as_integer(value, "delay", 0)


def _as_lost(value: float) -> float:
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidValueError(f"lost must lie in [0, 1], got {quoted(value)}")
    return float(value)


@frozen
class FeedbackConfig:
    """When a policy learns the rewards of visits.

    Parameters
    ----------
    every : int
        Rewards are handed over each time this many visits were made.
    delay : int
        How many further visits are made before a reward is known; the mean, if they vary.
    delays : Literal["fixed", "geometric"]
        Whether every reward takes as long, or each a time of its own: then they come unordered.
    lost : float
        The share of rewards that are never known, in [0, 1].
    """

    every: int = field(default=100, converter=_as_every)
    delay: int = field(default=0, converter=_as_delay)
    delays: Literal["fixed", "geometric"] = field(
        default="fixed", validator=in_(("fixed", "geometric"))
    )
    lost: float = field(default=0.0, converter=_as_lost)


@frozen
class Feedback(FeedbackConfig):
    """When a policy learns the rewards of visits, with a seed.

    Parameters
    ----------
    every, delay, delays, lost
        As in :class:`FeedbackConfig`.
    seed : Seed
        What delays and losses are drawn from.
    """

    seed: Seed = 0


class Mailbox:
    """Rewards on their way to the policy; handing one over costs the same, however many wait."""

    def __init__(self, feedback: Feedback) -> None:
        self._feedback = feedback
        self._losses = generator(branch(feedback.seed, "lost"))
        self._lateness = generator(branch(feedback.seed, "delay"))
        varies = feedback.delay > 0 and feedback.delays == "geometric"
        self._waiting: _Unordered | _InOrder = _Unordered() if varies else _InOrder()

    def post(self, rewards: FloatArray, start: int) -> BoolArray:
        """Send the rewards of visits ``start``, ``start + 1``, ...; return which are lost."""
        n, feedback = rewards.size, self._feedback
        visits = np.arange(start, start + n)
        due = visits + 1 + feedback.delay
        if isinstance(self._waiting, _Unordered):
            # From 1 - u, which is never 0; a mean of d: P(delay >= k) = (d / (d + 1))^k.
            uniforms = 1.0 - self._lateness.random(n)
            stays = math.log(feedback.delay / (feedback.delay + 1.0))
            due = visits + 1 + (np.log(uniforms) / stays).astype(np.int64)
        lost = np.zeros(n, dtype=np.bool_)
        if feedback.lost:
            lost = self._losses.random(n) < feedback.lost
            visits, due, rewards = visits[~lost], due[~lost], rewards[~lost]
        self._waiting.add(visits, due, rewards)
        return lost

    def collect(self, now: int) -> tuple[IntArray, FloatArray]:
        """Return the visits whose rewards are due after ``now`` visits, and these, as they came."""
        return self._waiting.take(now)


class _InOrder:
    """Rewards that are due in the order of their visits: a queue of blocks."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[IntArray, IntArray, FloatArray]] = deque()

    def add(self, visits: IntArray, due: IntArray, rewards: FloatArray) -> None:
        """Append a block; the environment may use the array of its rewards again."""
        if visits.size:
            self._blocks.append((visits, due, rewards.copy()))

    def take(self, now: int) -> tuple[IntArray, FloatArray]:
        """Return visits and rewards that are due, and forget them."""
        taken: list[tuple[IntArray, FloatArray]] = []
        while self._blocks and self._blocks[0][1][0] <= now:
            visits, due, rewards = self._blocks.popleft()
            n = visits.size if due[-1] <= now else int(np.searchsorted(due, now, side="right"))
            taken.append((visits[:n], rewards[:n]))
            if n < visits.size:
                # Copied, so that what was taken is freed.
                self._blocks.appendleft((visits[n:].copy(), due[n:].copy(), rewards[n:].copy()))
        if len(taken) == 1:
            return taken[0]
        if not taken:
            return np.empty(0, dtype=np.int64), np.empty(0)
        return np.concatenate([v for v, _ in taken]), np.concatenate([r for _, r in taken])


class _Unordered:
    """Rewards that are due in any order: a binary heap, by when they are due and then by visit."""

    def __init__(self) -> None:
        self._n = 0
        self._keys = np.empty((1024, 2), dtype=np.int64)
        self._rewards = np.empty(1024)

    def add(self, visits: IntArray, due: IntArray, rewards: FloatArray) -> None:
        """Push visits, when their rewards are due, and these."""
        room = self._rewards.size
        if self._n + visits.size > room:
            more = max(room, visits.size)
            self._keys = np.concatenate([self._keys, np.empty((more, 2), dtype=np.int64)])
            self._rewards = np.concatenate([self._rewards, np.empty(more)])
        _push(self._keys, self._rewards, self._n, visits, due, rewards)
        self._n += visits.size

    def take(self, now: int) -> tuple[IntArray, FloatArray]:
        """Return visits and rewards that are due, in the order in which they were, and pop them."""
        left = _pop(self._keys, self._rewards, self._n, now)
        # What was popped stands behind what is left, the last popped first.
        visits = self._keys[left : self._n, 1][::-1].copy()
        rewards = self._rewards[left : self._n][::-1].copy()
        self._n = left
        return visits, rewards


@compiled
def _is_before(keys: IntArray, one: int, other: int) -> bool:
    """Return whether one place's reward is due before that of another."""
    if keys[one, 0] != keys[other, 0]:
        return bool(keys[one, 0] < keys[other, 0])
    return bool(keys[one, 1] < keys[other, 1])


@compiled
def _swap(keys: IntArray, rewards: FloatArray, one: int, other: int) -> None:
    """Exchange what stands at two places of a heap."""
    for column in range(2):
        key = keys[one, column]
        keys[one, column] = keys[other, column]
        keys[other, column] = key
    reward = rewards[one]
    rewards[one] = rewards[other]
    rewards[other] = reward


@compiled
def _push(
    keys: IntArray,
    rewards: FloatArray,
    n: int,
    visits: IntArray,
    due: IntArray,
    paid: FloatArray,
) -> None:
    """Add rewards to a heap of ``n``."""
    for v in range(visits.size):
        place = n + v
        keys[place, 0], keys[place, 1], rewards[place] = due[v], visits[v], paid[v]
        while place > 0 and _is_before(keys, place, (place - 1) // 2):
            _swap(keys, rewards, place, (place - 1) // 2)
            place = (place - 1) // 2


@compiled
def _pop(keys: IntArray, rewards: FloatArray, n: int, now: int) -> int:
    """Move what is due from the top of a heap of ``n`` behind its end; return how many are left."""
    while n > 0 and keys[0, 0] <= now:
        n -= 1
        _swap(keys, rewards, 0, n)
        place = 0
        while 2 * place + 1 < n:
            child = 2 * place + 1
            if child + 1 < n and _is_before(keys, child + 1, child):
                child += 1
            if not _is_before(keys, child, place):
                break
            _swap(keys, rewards, place, child)
            place = child
    return n
