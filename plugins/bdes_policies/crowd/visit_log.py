"""All visits so far: who came, what was shown, and what is known of the rewards."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, InvalidValueError, compiled
from bdes_policies.crowd.open_visits import NO_REWARD, NOT_ASKED, TOLD_TWICE, reject

_UNKNOWN = -1.0
"""In the place of a reward that is not known: sweeps of the likelihood leave out its factor."""


class VisitsByUser(NamedTuple):
    """Visits in the order of users, and of time within each."""

    arms: NDArray[np.int32]
    rewards: NDArray[np.float32]
    """Negative where not known."""
    starts: IntArray
    """Shape (users + 1,): where each user's visits begin, and the number of visits."""
    visits: IntArray
    """The number of each visit."""


@compiled
def _note_rewards(known: NDArray[np.float32], visits: IntArray, rewards: FloatArray) -> int:
    """Write rewards to the places of their visits; all or none. Returns what was wrong, or 0."""
    wrong, done = 0, 0
    for v in range(visits.size):
        visit = visits[v]
        if not 0.0 <= rewards[v] <= 1.0:
            wrong = NO_REWARD
        elif visit < 0 or visit >= known.size:
            wrong = NOT_ASKED
        elif known[visit] >= 0.0:
            wrong = TOLD_TWICE
        if wrong < 0:
            break
        known[visit] = rewards[v]
        done += 1
    if wrong < 0:
        known[visits[:done]] = _UNKNOWN
    return wrong


@compiled
def _group(users: NDArray[np.int32], n_users: int) -> tuple[IntArray, IntArray]:
    """Return the visits in the order of users, and where each user's begin (counting sort)."""
    starts = np.zeros(n_users + 1, dtype=np.int64)
    for v in range(users.size):
        starts[users[v] + 1] += 1
    for user in range(n_users):
        starts[user + 1] += starts[user]
    free = starts[:-1].copy()
    order = np.empty(users.size, dtype=np.int64)
    for v in range(users.size):
        place = free[users[v]]
        order[place] = v
        free[users[v]] = place + 1
    return order, starts


class VisitLog:
    """Visits by number, in arrays that grow by an eighth: 10 bytes a visit, and up to 11.

    What it holds depends on which rewards are known, not on the order they became known in.
    """

    def __init__(self) -> None:
        self._users = np.empty(1024, dtype=np.int32)
        self._arms = np.empty(1024, dtype=np.int16)
        self._rewards = np.empty(1024, dtype=np.float32)
        self.n_visits = 0
        self.n_users = 0
        self.n_known = 0
        """How many rewards are known."""

    def add(self, users: IntArray, arms: IntArray) -> None:
        """Append visits whose rewards are not known yet."""
        start, stop = self.n_visits, self.n_visits + users.size
        if stop > self._users.size:
            room = max(self._users.size + self._users.size // 8, stop)
            for kept in (self._users, self._arms, self._rewards):
                kept.resize(room, refcheck=False)  # where it lies, if it can: no hole is left
        self._users[start:stop] = users
        self._arms[start:stop] = arms
        self._rewards[start:stop] = _UNKNOWN
        self.n_visits = stop
        self.n_users = max(self.n_users, int(users.max()) + 1)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Take note of rewards.

        Raises
        ------
        InvalidValueError
            If a visit was never asked for or told before, or a reward lies outside [0, 1].
            Nothing is noted then.
        """
        if visits.shape != rewards.shape:
            raise InvalidValueError(f"got {visits.size} visits and {rewards.size} rewards")
        wrong = _note_rewards(self._rewards[: self.n_visits], visits, rewards)
        reject(wrong, visits, self.n_visits)
        self.n_known += visits.size

    def by_user(self) -> VisitsByUser:
        """Return all visits in the order of users."""
        n = self.n_visits
        order, starts = _group(self._users[:n], self.n_users)
        arms = self._arms[:n][order].astype(np.int32)
        return VisitsByUser(arms, self._rewards[:n][order], starts, order)
