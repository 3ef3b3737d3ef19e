"""Non-adaptive policies: a fixed schedule, and uniformly random arms."""

import numpy as np
from attrs import field, frozen
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, InvalidValueError, Schedule, finite_rewards

_MAX_BLOCK = 1 << 16
"""Arms returned at once at most, so that memory stays flat whatever limit is asked with."""


@frozen
class FixedScheduleConfig:
    """Plays given arms: a head once, then a cycle for the rest of the horizon.

    Parameters
    ----------
    cycle : list[int]
        Arms, counted from 0, repeated until the horizon; at least one.
    head : list[int]
        Arms to play once before the cycle begins.
    """

    cycle: tuple[int, ...]
    head: tuple[int, ...] = field(default=())

    def __attrs_post_init__(self) -> None:
        if not self.cycle:
            raise InvalidValueError("cycle needs at least one arm")
        for arm in (*self.head, *self.cycle):
            if isinstance(arm, bool) or not isinstance(arm, int) or arm < 0:
                raise InvalidValueError(f"arms are integers counted from 0, got {arm!r}")


class FixedSchedule:
    """The policy ``fixed-schedule``."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._done = self._asked = 0

    def __repr__(self) -> str:
        return f"FixedSchedule(done={self._done}, schedule={self._schedule!r})"

    def ask(self, limit: int) -> IntArray:
        """Return the next part of the schedule: at most ``limit`` arms."""
        arms = self._schedule.slice(self._done, self._done + min(limit, _MAX_BLOCK))
        self._asked = arms.size
        return arms

    def tell(self, rewards: FloatArray) -> None:
        """Move on by as many pulls as were played."""
        self._done += finite_rewards(rewards, self._asked).size
        self._asked = 0

    def diagnostics(self) -> bdes.Diagnostics:
        """Return the schedule, in words, and how many of its pulls are done."""
        return {"schedule": str(self._schedule), "done": self._done}


def build_fixed_schedule(config: FixedScheduleConfig, context: bdes.PolicyContext) -> FixedSchedule:
    """Build the policy ``fixed-schedule``."""
    problem = context.problem
    for arm in (*config.head, *config.cycle):
        if arm >= problem.n_arms:
            raise InvalidValueError(
                f"the schedule plays arm {arm}, but arms go from 0 to {problem.n_arms - 1}"
            )
    head = config.head[: problem.horizon]
    segments = [bdes.Segment(np.array(head))] if head else []
    if problem.horizon > len(head):
        segments += Schedule.cycle(config.cycle, problem.horizon - len(head)).segments
    return FixedSchedule(Schedule(segments))


@frozen
class UniformPolicyConfig:
    """Plays an arm drawn uniformly at random in every round."""


class UniformPolicy:
    """The policy ``uniform``."""

    def __init__(self, n_arms: int, rng: Generator) -> None:
        self._n_arms = n_arms
        self._rng = rng
        self._done = self._asked = 0

    def __repr__(self) -> str:
        return f"UniformPolicy(n_arms={self._n_arms})"

    def ask(self, limit: int) -> IntArray:
        """Return random arms, one uniform draw each, so that blocks of any size agree.

        A draw is at most 1 - 2^-53, and its product with n_arms rounds to less than n_arms.
        """
        self._asked = min(limit, _MAX_BLOCK)
        uniforms = self._rng.random(self._asked)
        return (uniforms * self._n_arms).astype(np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Count the pulls; learn nothing."""
        self._done += finite_rewards(rewards, self._asked).size
        self._asked = 0

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how many pulls are done."""
        return {"done": self._done}


def build_uniform_policy(config: UniformPolicyConfig, context: bdes.PolicyContext) -> UniformPolicy:
    """Build the policy ``uniform``."""
    return UniformPolicy(context.problem.n_arms, context.rng)
