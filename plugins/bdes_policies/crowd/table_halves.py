"""The halves of ``crowd-table``: one decides by a table, the other hands it out and learns nothing.

Both follow the state of every user, as what they were shown has led to.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bdes_framework import (
    ContractError,
    CrowdEstimates,
    DecisionTable,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    compiled,
    pack_model,
    unpack_model,
)
from bdes_policies.crowd.active_arms import check_retired
from bdes_policies.crowd.open_visits import OpenVisits

_KIND = "crowd-table 1"
_TABLE_ARRAYS = ("starts", "arms", "bound_states", "bound_values")

Plan: TypeAlias = Callable[[Instance, float], DecisionTable]


@compiled
def _move(b: FloatArray, lam: float, states: FloatArray, users: IntArray, arms: IntArray) -> None:
    """Move states past visits; arms that the table does not know leave them as they are."""
    for v in range(users.size):
        if arms[v] < b.size:
            states[users[v]] += lam * (b[arms[v]] - states[users[v]])


class UserStates:
    """The state of each user who came, under the table's instance."""

    def __init__(self, at: Instance) -> None:
        self._at = at
        self._states = np.empty(0)
        self.n_users = 0

    def of(self, users: IntArray) -> FloatArray:
        """Return the states of all, with room for users who need not have come."""
        n = int(users.max()) + 1
        if n > self._states.size:
            more = max(1024, 2 * n) - self._states.size
            self._states = np.append(self._states, np.full(more, self._at.q0))
        return self._states

    def count(self, users: IntArray) -> None:
        """Take note that users came."""
        self.n_users = max(self.n_users, int(users.max()) + 1)

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Move the states past visits."""
        _move(self._at.b, self._at.lam, self.of(users), users, arms)
        self.count(users)

    @property
    def known(self) -> FloatArray:
        """The states of those who came."""
        return self._states[: self.n_users].copy()

    @classmethod
    def restored(cls, at: Instance, states: FloatArray) -> "UserStates":
        """Return states as they were."""
        made = cls(at)
        made._states, made.n_users = states.copy(), states.size
        return made


def looked_up(starts: FloatArray, arms: IntArray, states: FloatArray) -> IntArray:
    """Return the arm of each state."""
    found: IntArray = arms[np.maximum(np.searchsorted(starts, states, side="right") - 1, 0)]
    return found


class TableDecider:
    """Decides by a table, from the state of every user."""

    def __init__(self, n_arms: int, plan: Plan) -> None:
        self._is_active = np.ones(n_arms, dtype=np.bool_)
        self._plan = plan
        self._model: tuple[DecisionTable, UserStates] | None = None
        self._shown: tuple[FloatArray, IntArray] | None = None
        """Where arms begin to be shown, and which, without those that were retired."""

    def adopt(self, model: bytes) -> None:
        """Decide by a table from now on, with users at the states it comes with."""
        table, states = _read(model)
        n_arms = table.instance.n_arms
        if n_arms > self._is_active.size:
            raise InvalidValueError(
                f"the table is for {n_arms} arms, but there are only {self._is_active.size}"
            )
        self._model, self._shown = (table, states), None

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm of each user."""
        table, states = self._decided_by()
        if self._shown is None:
            self._shown = self._active_part(table)
        return looked_up(*self._shown, states.of(users)[users])

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Move the states past the next visits."""
        self._decided_by()[1].show(users, arms)

    def add_arm(self) -> int:
        """Count another arm, which the table does not show; return its number."""
        self._is_active = np.append(self._is_active, True)
        return self._is_active.size - 1

    def retire_arm(self, arm: int) -> None:
        """Show an arm no more: if it is in the table, one of the others is planned."""
        check_retired(self._is_active, arm)
        self._is_active[arm] = False
        self._shown = None

    def estimates(self) -> CrowdEstimates:
        """Return what the table takes the arms for, without doubt."""
        table, _ = self._decided_by()
        at = table.instance
        return CrowdEstimates(
            r=np.tile(at.r, (3, 1)),
            b=np.tile(at.b, (3, 1)),
            lam=np.full(3, at.lam),
            q0=at.q0,
            continuation=table.continuation,
            r_draws=at.r[None],
            b_draws=at.b[None],
            lam_draws=np.array([at.lam]),
        )

    def user_states(self) -> FloatArray:
        """Return the state of each user seen so far."""
        return self._decided_by()[1].known

    def _decided_by(self) -> tuple[DecisionTable, UserStates]:
        if self._model is None:
            raise ContractError("a decider without a model was asked to decide: adopt one first")
        return self._model

    def _active_part(self, table: DecisionTable) -> tuple[FloatArray, IntArray]:
        if self._is_active[table.arms].all():
            return table.starts, table.arms
        at, active = table.instance, np.flatnonzero(self._is_active)
        left = active[active < at.n_arms]
        if not left.size:
            return np.zeros(1), active[:1]
        others = self._plan(Instance(at.r[left], at.b[left], at.lam, at.q0), table.continuation)
        return others.starts, left[others.arms]


class TableLearner:
    """Hands out one table with the states of users, and learns nothing."""

    def __init__(self, table: DecisionTable, n_arms: int) -> None:
        self._table = table
        self._is_active = np.ones(n_arms, dtype=np.bool_)
        self._states = UserStates(table.instance)
        self._open = OpenVisits()
        self._n_models = 0

    @property
    def is_due(self) -> bool:
        """Whether the table was not handed out yet."""
        return self._n_models == 0

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Move the states past the next visits."""
        self._states.show(users, arms)
        self._open.open(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Check rewards, which change nothing."""
        self._open.close(visits, rewards)

    def add_arm(self) -> int:
        """Count another arm; return its number."""
        self._is_active = np.append(self._is_active, True)
        return self._is_active.size - 1

    def retire_arm(self, arm: int) -> None:
        """Check that it can be retired; the half that decides leaves it out."""
        check_retired(self._is_active, arm)
        self._is_active[arm] = False

    def learn(self) -> bytes:
        """Return the table and the states as data."""
        number, self._n_models = self._n_models, self._n_models + 1
        table, at = self._table, self._table.instance
        values = {
            "number": number,
            "lam": at.lam,
            "q0": at.q0,
            "continuation": table.continuation,
            "names": list(table.names),
        }
        arrays = {name: getattr(table, name) for name in _TABLE_ARRAYS}
        arrays |= {"r": at.r, "b": at.b, "states": self._states.known}
        return pack_model(_KIND, values, arrays)

    def resume(self, model: bytes) -> None:
        """Go on as if this table had just been handed out."""
        table, _ = _read(model)
        if table.as_json() != self._table.as_json():
            raise InvalidValueError("the model is another table than that of the config")
        self._n_models = int(str(unpack_model(model, _KIND)[0]["number"])) + 1


def _read(model: bytes) -> tuple[DecisionTable, UserStates]:
    """Return the table and the states of a model; raise InvalidValueError if it is none."""
    values, arrays = unpack_model(model, _KIND)
    try:
        table = _table(values, arrays)
        states = arrays["states"].astype(np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidValueError(f"the model holds no table: {error!r}") from None
    return table, UserStates.restored(table.instance, states)


def _table(
    values: Mapping[str, object], arrays: Mapping[str, NDArray[np.generic]]
) -> DecisionTable:
    lists = {name: arrays[name].tolist() for name in ("r", "b", *_TABLE_ARRAYS)}
    lam, q0, continuation = (float(str(values[n])) for n in ("lam", "q0", "continuation"))
    names = values["names"]
    if not isinstance(names, list):
        raise TypeError("no names")
    at = Instance(lists.pop("r"), lists.pop("b"), lam, q0)
    return DecisionTable(at, continuation, **lists, names=tuple(names))
