"""Deciding for many users: a state for each, and a look-up in a decision table.

Nothing is learned here. All that changes between two models is how far the users' states have
moved, which what they were shown decides, and nothing else: so another process may learn meanwhile.
A new model brings the states of all users after the visits that it has read; those made since are
moved past with :meth:`Decider.move`. So a user takes two numbers, the state is exactly that of the
recurrence, and no history is read here. (Discounted exposures at a few rates, which all models'
states follow from, would take 720 bytes a user for 10 arms and 9 rates, and could miss a state by
some hundredths; whoever fits a model reads the history all the same, ten times over.)
"""

import numpy as np
from attrs import frozen

from bdes_framework import FloatArray, IntArray, compiled
from bdes_policies.crowd.tables import Tables


@frozen(eq=False)
class Model:
    """What is decided by: instances, a decision table for each, and the states of all users.

    User ``u`` is treated as if instance ``u`` modulo their number were true.
    """

    number: int
    """Models count from 0."""
    visits: int
    """How many visits it has read."""
    b: FloatArray
    """Shape (n, K)."""
    lam: FloatArray
    """Shape (n,)."""
    tables: Tables
    q0: float
    """The state of every user at their first visit."""
    states: FloatArray
    """Shape (users,): after these visits, each under the user's own instance."""
    counts: IntArray
    """Shape (users,): how often each has come."""


@compiled
def _decide(
    tables: Tables,
    b: FloatArray,
    lam: FloatArray,
    states: FloatArray,
    counts: IntArray,
    users: IntArray,
    arms: IntArray,
) -> None:
    """Look up the arm of each visit, and move the user's state past it."""
    n, rows, points = tables.arms.shape
    for v in range(users.size):
        user = users[v]
        own = user % n
        q = states[user]
        point = int((q - tables.low[own]) * tables.per_state[own] + 0.5)
        arm = tables.arms[own, min(counts[user], rows - 1), min(max(point, 0), points - 1)]
        arms[v] = arm
        states[user] = q + lam[own] * (b[own, arm] - q)
        counts[user] += 1


@compiled
def _move(
    b: FloatArray,
    lam: FloatArray,
    states: FloatArray,
    counts: IntArray,
    users: IntArray,
    arms: IntArray,
) -> None:
    """Move states past visits whose arms somebody else chose."""
    for v in range(users.size):
        user, own = users[v], users[v] % lam.size
        states[user] += lam[own] * (b[own, arms[v]] - states[user])
        counts[user] += 1


class Decider:
    """The state of every user under a model, and what to show them."""

    def __init__(self, model: Model) -> None:
        self.adopt(model)

    def __repr__(self) -> str:
        return f"Decider(model={self.model.number}, users={self._n_users})"

    def adopt(self, model: Model) -> None:
        """Decide by another model from now on, as of the visits that it has read."""
        self.model = model
        self._n_users = model.states.size
        self._states, self._counts = model.states.copy(), model.counts.copy()

    def decide(self, users: IntArray) -> IntArray:
        """Return the arm of each of the next visits, and move the states past them."""
        self._make_room(users)
        arms = np.empty(users.size, dtype=np.int64)
        model = self.model
        _decide(model.tables, model.b, model.lam, self._states, self._counts, users, arms)
        return arms

    def move(self, users: IntArray, arms: IntArray) -> None:
        """Move the states past visits whose arms were chosen before the model was adopted."""
        self._make_room(users)
        _move(self.model.b, self.model.lam, self._states, self._counts, users, arms)

    @property
    def states(self) -> FloatArray:
        """The state of each user seen so far, under the user's own instance."""
        return self._states[: self._n_users].copy()

    def _make_room(self, users: IntArray) -> None:
        self._n_users = max(self._n_users, int(users.max()) + 1)
        if self._n_users > self._states.size:
            more = max(1024, 2 * self._n_users) - self._states.size
            self._states = np.append(self._states, np.full(more, self.model.q0))
            self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))
