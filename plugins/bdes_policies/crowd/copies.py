"""Policies for one audience, made to serve many users: a copy for each, or one for all.

A policy for one audience asks and is told in turns, but here rewards come late, in any order or
never. So a copy is run as Joulani, György and Szepesvári do (Online Learning under Delayed
Feedback, ICML 2013, QPM-D): while the reward of the arm it wants is not known, that arm is shown
again; rewards beyond what it was waiting for are kept, and given to it when it wants the same arm
another time.
"""

import math
from collections import deque
from collections.abc import Callable

import numpy as np
from attrs import field, frozen
from attrs.validators import and_, ge, optional

import bdes_framework as bdes
from bdes_framework import (
    CrowdPolicyContext,
    FloatArray,
    IntArray,
    Policy,
    PolicyRef,
    Problem,
)
from bdes_policies.crowd.open_visits import OpenVisits

_is_horizon = optional(and_(bdes.validate_integer, ge(1)))


@frozen
class EachConfig:
    """Gives every user an independent copy of a policy for one audience.

    What one user teaches helps no other. Where a reward is not known yet, the arm that the copy
    waits for is shown again.

    Rewards of visits more than 2^20 (1,048,576) visits ago are ignored; ``ignored`` of the
    diagnostics counts them.

    Parameters
    ----------
    policy : policy
        The policy that is copied.
    horizon : int | None
        How many rounds the first copy of a user is made for: by default the visits a user is
        expected to make, or all visits where that is not known. A user who makes more gets a new
        copy, for twice as many rounds. For policies that ignore the horizon, set it high.
    """

    policy: PolicyRef
    horizon: int | None = field(default=None, validator=_is_horizon)


@frozen
class PooledConfig:
    """One policy for one audience, for all users together: blind to who comes.

    Where a reward is not known yet, the arm that it waits for is shown again.

    Rewards of visits more than 2^20 (1,048,576) visits ago are ignored; ``ignored`` of the
    diagnostics counts them.

    Parameters
    ----------
    policy : policy
        The policy.
    """

    policy: PolicyRef


class QueuedCopy:
    """One policy for one audience, with queues of rewards that it has not asked for yet."""

    def __init__(self, make: Callable[[int, int], Policy], horizon: int) -> None:
        self._make = make
        self._horizon = horizon
        self._copies = 0
        self._queues: dict[int, deque[float]] = {}
        self._start_copy()

    def _start_copy(self) -> None:
        self._policy = self._make(self._horizon, self._copies)
        self._left = self._horizon
        self._copies += 1
        self._horizon *= 2
        self._wanted: list[int] = []
        self._paid: list[float] = []
        self._cursor = 0

    def choose(self) -> int:
        """Return the arm to show at the next visit."""
        if not self._wanted:
            self._next_block()
        if self._cursor == len(self._wanted):
            self._cursor = len(self._paid)
        return self._wanted[self._cursor]

    def show(self, arm: int) -> None:
        """Note the next visit; any other arm than the one chosen leaves that to be shown."""
        if arm == self.choose():
            self._cursor += 1

    def learn(self, arm: int, reward: float) -> None:
        """Take note of a reward of an arm; tell the policy as far as it can be told."""
        self._queues.setdefault(arm, deque()).append(reward)
        self._fill()
        while len(self._paid) == len(self._wanted):
            self._policy.tell(np.array(self._paid))
            self._left -= len(self._wanted)
            if self._left == 0:
                self._start_copy()
            self._next_block()

    def _next_block(self) -> None:
        self._wanted = self._policy.ask(self._left).tolist()
        if not 0 < len(self._wanted) <= self._left:
            got = f"got {len(self._wanted)}: {self._policy!r}"
            raise bdes.ContractError(f"ask must return 1 to {self._left} arms, {got}")
        self._paid = []
        self._fill()
        self._cursor = len(self._paid)

    def _fill(self) -> None:
        """Move rewards from the queues to the block, in its order, as far as there are any."""
        while len(self._paid) < len(self._wanted):
            queue = self._queues.get(self._wanted[len(self._paid)])
            if not queue:
                return
            self._paid.append(queue.popleft())
        self._cursor = max(self._cursor, len(self._paid))


class Copies:
    """The policies ``each`` and ``pooled``: queued copies, and which user has which."""

    def __init__(self, name: str, make: Callable[[int], QueuedCopy]) -> None:
        self._name = name
        self._make = make
        self._copies: dict[int, QueuedCopy] = {}
        self._open = OpenVisits()

    def __repr__(self) -> str:
        return f"Copies({self._name!r}, copies={len(self._copies)})"

    def ask(self, users: IntArray) -> IntArray:
        """Return an arm for each visit."""
        arms = np.empty(users.size, dtype=np.int64)
        for visit, user in enumerate(users.tolist()):
            copy = self._copy_of(user)
            arms[visit] = copy.choose()
            copy.show(int(arms[visit]))
        self._open.open(users, arms)
        return arms

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm that each user's copy is to show next."""
        return np.array([self._copy_of(user).choose() for user in users.tolist()], dtype=np.int64)

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, and what was shown."""
        for user, arm in zip(users.tolist(), arms.tolist(), strict=True):
            self._copy_of(user).show(arm)
        self._open.open(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Tell each user's copy what it can be told."""
        columns = self._open.close(visits, rewards)
        for user, arm, reward in zip(*(column.tolist() for column in columns), strict=True):
            self._copy_of(user).learn(arm, reward)

    def _copy_of(self, user: int) -> QueuedCopy:
        found = self._copies.get(user)
        if found is None:
            found = self._copies[user] = self._make(user)
        return found

    def diagnostics(self) -> bdes.Diagnostics:
        """Return how many copies there are, and how many rewards were ignored."""
        return {"copies": len(self._copies), "ignored": self._open.n_ignored}


def build_each(config: EachConfig, context: CrowdPolicyContext) -> Copies:
    """Build the policy ``each``: a copy's random numbers belong to its user."""
    problem = context.problem
    expected = problem.visits if problem.visits_per_user is None else problem.visits_per_user
    horizon = math.ceil(expected) if config.horizon is None else config.horizon

    def copy_of(user: int) -> QueuedCopy:
        def make(rounds: int, copy: int) -> Policy:
            told = Problem(problem.n_arms, rounds, lam=problem.lam, q0=problem.q0)
            return context.user_policy(config.policy, told, user, copy)

        return QueuedCopy(make, horizon)

    return Copies("each", copy_of)


def build_pooled(config: PooledConfig, context: CrowdPolicyContext) -> Copies:
    """Build the policy ``pooled``: one copy, whoever comes."""
    problem = context.problem

    def make(rounds: int, copy: int) -> Policy:
        told = Problem(problem.n_arms, rounds, lam=problem.lam, q0=problem.q0)
        return context.user_policy(config.policy, told, 0, copy)

    common = QueuedCopy(make, problem.visits)
    return Copies("pooled", lambda user: common)
