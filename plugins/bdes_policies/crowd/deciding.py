"""Deciding for many users: a state for each, and a look-up in a decision table.

Nothing is learned here. All that changes between two models is how far the users' states have
moved, which what they were shown decides, and nothing else: so another process may learn meanwhile.
A new model brings the states of all users after the visits that it has read; those made since are
moved past with :meth:`Decider.show`. So a user takes two numbers, the state is exactly that of the
recurrence, and no history is read here. (Discounted exposures at a few rates, which all models'
states follow from, would take 720 bytes a user for 10 arms and 9 rates, and could miss a state by
some hundredths; whoever fits a model reads the history all the same, ten times over.)
"""

import numpy as np

from bdes_framework import (
    ContractError,
    CrowdEstimates,
    FloatArray,
    IntArray,
    InvalidValueError,
    compiled,
)
from bdes_policies.crowd.active_arms import check_retired
from bdes_policies.crowd.models import Model, read_model
from bdes_policies.crowd.tables import Tables, planned_tables

_MIDDLE = 0.5
"""Where an arm is taken to lead to of which nothing is known."""


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


@compiled
def _look_up(
    tables: Tables, states: FloatArray, counts: IntArray, users: IntArray, arms: IntArray
) -> None:
    """Look up the arm of each user, who stays where they are."""
    n, rows, points = tables.arms.shape
    for v in range(users.size):
        user = users[v]
        own = user % n
        point = int((states[user] - tables.low[own]) * tables.per_state[own] + 0.5)
        arms[v] = tables.arms[own, min(counts[user], rows - 1), min(max(point, 0), points - 1)]


class Decider:
    """The state of every user under a model, and what to show them."""

    def __init__(self, n_arms: int) -> None:
        self._is_active = np.ones(n_arms, dtype=np.bool_)
        self._model: Model | None = None
        self._n_users = 0
        self._states, self._counts = np.empty(0), np.empty(0, dtype=np.int64)

    def __repr__(self) -> str:
        number = None if self._model is None else self._model.number
        return f"Decider(model={number}, users={self._n_users})"

    @property
    def model(self) -> Model:
        """What is decided by; ContractError before there is one."""
        if self._model is None:
            raise ContractError("a decider without a model was asked to decide: adopt one first")
        return self._model

    def adopt(self, model: bytes) -> None:
        """Decide by another model, given as data, as of the visits that it has read."""
        self.use(read_model(model)[0])

    def use(self, model: Model) -> None:
        """Decide by another model from now on, as of the visits that it has read."""
        n_arms = model.b.shape[1]
        if n_arms > self._is_active.size:
            raise InvalidValueError(
                f"the model has {n_arms} arms, but there are only {self._is_active.size}"
            )
        self._model = model
        self._n_users = model.states.size
        self._states, self._counts = model.states.copy(), model.counts.copy()
        self._fit_to_arms()

    def _fit_to_arms(self) -> None:
        """Note where the arms lead to, and that tables may name one that was retired."""
        model, n_arms = self._model, self._is_active.size
        if model is None:
            return
        unknown = np.full((model.lam.size, n_arms - model.b.shape[1]), _MIDDLE)
        self._b = np.ascontiguousarray(np.hstack([model.b, unknown]))
        self._tables = model.tables if self._is_active[model.active].all() else None

    def _current_tables(self) -> Tables:
        """Return the tables, planned anew without arms that were retired."""
        if self._tables is None:
            model = self.model
            left = model.active[self._is_active[model.active]]
            if left.size:
                parts = model.r, model.b, model.lam, model.q0, model.chances
                self._tables = planned_tables(*parts, left)
            else:  # of the arms that are left nothing is known: the first of them for everybody
                arm = int(np.flatnonzero(self._is_active)[0])
                arms = np.full_like(model.tables.arms, arm)
                self._tables = model.tables._replace(arms=arms)
        return self._tables

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm of each user, as if each came next."""
        model = self.model
        self._make_room(users, model.q0)
        arms = np.empty(users.size, dtype=np.int64)
        _look_up(self._current_tables(), self._states, self._counts, users, arms)
        return arms

    def decide(self, users: IntArray) -> IntArray:
        """Return the arm of each of the next visits, and move the states past them."""
        model = self.model
        self._make_room(users, model.q0)
        self._count(users)
        arms = np.empty(users.size, dtype=np.int64)
        tables = self._current_tables()
        _decide(tables, self._b, model.lam, self._states, self._counts, users, arms)
        return arms

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Move the states past the next visits.

        Where an arm leads to that no model knows yet, nobody knows: the middle is assumed until
        one does.
        """
        model = self.model
        self._make_room(users, model.q0)
        self._count(users)
        _move(self._b, model.lam, self._states, self._counts, users, arms)

    def add_arm(self) -> int:
        """Make room for another arm; return its number."""
        self._is_active = np.append(self._is_active, True)
        self._fit_to_arms()
        return self._is_active.size - 1

    def retire_arm(self, arm: int) -> None:
        """Show an arm no more."""
        check_retired(self._is_active, arm)
        self._is_active[arm] = False
        self._fit_to_arms()

    def estimates(self) -> CrowdEstimates:
        """Return what the model takes the arms for."""
        return self.model.estimates

    def user_states(self) -> FloatArray:
        """Return the state of each user seen so far, in the unit of the problem."""
        return self.states * self.model.unit

    @property
    def states(self) -> FloatArray:
        """The state of each user seen so far, under the user's own instance."""
        return self._states[: self._n_users].copy()

    def _count(self, users: IntArray) -> None:
        self._n_users = max(self._n_users, int(users.max()) + 1)

    def _make_room(self, users: IntArray, q0: float) -> None:
        n = int(users.max()) + 1
        if n > self._states.size:
            more = max(1024, n + n // 4) - self._states.size
            self._states = np.append(self._states, np.full(more, q0))
            self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))
