"""Visits whose rewards may still come: who came, and what was shown."""

import numpy as np
from numpy.typing import NDArray

from bdes_framework import FloatArray, IntArray, InvalidValueError, compiled

WINDOW = 1 << 20
"""Rewards of visits longer ago than this are ignored, so that memory has a bound. A power of
two, as every ring's size is: then a remainder is a mask."""

_CLOSED = -1
NOT_ASKED, TOLD_TWICE, NO_REWARD = -1, -2, -3
"""What may be wrong with visits and rewards that are told."""


def reject(wrong: int, visits: IntArray, n_asked: int) -> None:
    """Raise InvalidValueError if something was wrong with visits that were told."""
    if wrong == NOT_ASKED:
        visit = visits[(visits < 0) | (visits >= n_asked)][0]
        raise InvalidValueError(f"visit {visit} was not asked for: there were {n_asked}")
    if wrong == TOLD_TWICE:
        raise InvalidValueError("a visit was told twice")
    if wrong == NO_REWARD:
        raise InvalidValueError("rewards must lie in [0, 1]")


@compiled
def _note(ring: NDArray[np.int32], first: int, users: IntArray, arms: IntArray) -> None:
    for v in range(users.size):
        place = (first + v) & (ring.shape[0] - 1)
        ring[place, 0], ring[place, 1] = users[v], arms[v]


@compiled
def _take(
    ring: NDArray[np.int32],
    n: int,
    visits: IntArray,
    rewards: FloatArray,
    users: IntArray,
    arms: IntArray,
) -> int:
    """Close visits and write down their users and arms; -1 for a user of too long ago.

    Returns how many were closed, or what was wrong; then all that was closed is open again.
    """
    wrong, done, closed = 0, 0, 0
    for v in range(visits.size):
        visit = visits[v]
        if not 0.0 <= rewards[v] <= 1.0:
            wrong = NO_REWARD
            break
        if visit < 0 or visit >= n:
            wrong = NOT_ASKED
            break
        users[v] = _CLOSED
        if visit >= n - ring.shape[0]:
            place = visit & (ring.shape[0] - 1)
            if ring[place, 0] == _CLOSED:
                wrong = TOLD_TWICE
                break
            users[v], arms[v] = ring[place, 0], ring[place, 1]
            ring[place, 0] = _CLOSED
            closed += 1
        done += 1
    if wrong < 0:
        for v in range(done):
            if users[v] != _CLOSED:
                ring[visits[v] & (ring.shape[0] - 1), 0] = users[v]
        return wrong
    return closed


class OpenVisits:
    """User and arm of the last visits, by number; each can be closed once."""

    def __init__(self) -> None:
        self._n = 0
        self._n_open = 0
        self.n_ignored = 0
        """How many rewards came too late, of visits too long ago to be remembered."""
        self._ring = np.full((1024, 2), _CLOSED, dtype=np.int32)

    def open(self, users: IntArray, arms: IntArray) -> None:
        """Take note of the next visits."""
        size, n = self._ring.shape[0], users.size
        if size < WINDOW and (n > size or self._would_lose(n)):
            self._grow(n)
            size = self._ring.shape[0]
        _note(self._ring, self._n + n - min(n, size), users[-size:], arms[-size:])
        self._n += n
        self._n_open += n

    def _would_lose(self, n: int) -> bool:
        """Return whether one of the places that the next n visits take is open."""
        if self._n_open == 0:
            return False
        start, size = self._n % self._ring.shape[0], self._ring.shape[0]
        end = start + n
        taken = self._ring[start:end, 0], self._ring[: max(end - size, 0), 0]
        return any(bool((part != _CLOSED).any()) for part in taken)

    def _grow(self, n: int) -> None:
        """Make room for n more, and move the visits there are to their new places."""
        old, size = self._ring, self._ring.shape[0]
        while size < WINDOW and size < old.shape[0] + n:
            size *= 2
        self._ring = np.full((size, 2), _CLOSED, dtype=np.int32)
        visits = np.arange(max(self._n - old.shape[0], 0), self._n)
        self._ring[visits % size] = old[visits % old.shape[0]]

    def close(self, visits: IntArray, rewards: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return users, arms and rewards of visits, without those of too long ago.

        Raises
        ------
        InvalidValueError
            If a visit was never asked for or told before, or a reward lies outside [0, 1].
            Nothing is closed then.
        """
        if visits.shape != rewards.shape:
            raise InvalidValueError(f"got {visits.size} visits and {rewards.size} rewards")
        users, arms = np.empty_like(visits), np.empty_like(visits)
        closed = _take(self._ring, self._n, visits, rewards, users, arms)
        reject(closed, visits, self._n)
        self._n_open -= closed
        if closed < visits.size:
            self.n_ignored += visits.size - closed
            recent = users != _CLOSED
            users, arms, rewards = users[recent], arms[recent], rewards[recent]
        return users, arms, rewards
