"""When a policy for many users learns rewards: some visits later, in any order, or never."""

import math
from typing import Literal

import numpy as np
from attrs import field, frozen
from attrs.validators import in_

from bdes_framework._internal.arrays import BoolArray, FloatArray, IntArray
from bdes_framework._internal.numbers import as_integer, is_number
from bdes_framework._internal.seeding import Seed, branch, generator
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError


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
    """Rewards on their way to the policy."""

    def __init__(self, feedback: Feedback) -> None:
        self._feedback = feedback
        self._losses = generator(branch(feedback.seed, "lost"))
        self._lateness = generator(branch(feedback.seed, "delay"))
        self._posted: list[tuple[IntArray, IntArray, FloatArray]] = []

    def post(self, rewards: FloatArray, start: int) -> BoolArray:
        """Send the rewards of visits ``start``, ``start + 1``, ...; return which are lost."""
        n, feedback = rewards.size, self._feedback
        visits = np.arange(start, start + n)
        due = visits + 1 + feedback.delay
        if feedback.delay and feedback.delays == "geometric":
            # From 1 - u, which is never 0; a mean of d: P(delay >= k) = (d / (d + 1))^k.
            uniforms = 1.0 - self._lateness.random(n)
            stays = math.log(feedback.delay / (feedback.delay + 1.0))
            due = visits + 1 + (np.log(uniforms) / stays).astype(np.int64)
        rewards = rewards.copy()  # the environment may use its array again
        lost = np.zeros(n, dtype=np.bool_)
        if feedback.lost:
            lost = self._losses.random(n) < feedback.lost
            visits, due, rewards = visits[~lost], due[~lost], rewards[~lost]
        self._posted.append((visits, due, rewards))
        return lost

    def collect(self, now: int) -> tuple[IntArray, FloatArray]:
        """Return the visits whose rewards are due after ``now`` visits, and these, as they came."""
        visits, due, rewards = map(np.concatenate, zip(*self._posted, strict=True))
        here = due <= now
        if here.all():
            self._posted = []
        else:
            late = ~here
            self._posted = [(visits[late], due[late], rewards[late])]
            visits, due, rewards = visits[here], due[here], rewards[here]
        if self._feedback.delays == "geometric":
            order = np.argsort(due, kind="stable")
            visits, rewards = visits[order], rewards[order]
        if not self._posted:
            self._posted = [(_NO_VISITS, _NO_VISITS, _NO_REWARDS)]
        return visits, rewards


_NO_VISITS = np.empty(0, dtype=np.int64)
_NO_REWARDS = np.empty(0)
