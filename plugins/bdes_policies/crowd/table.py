"""The policy ``crowd-table``: a decision table, followed from every user's own state."""

import math
from functools import partial
from pathlib import Path

import numpy as np
from attrs import cmp_using, field, frozen
from attrs.validators import and_, ge, lt, optional

import bdes_framework as bdes
from bdes_framework import (
    CrowdPolicyContext,
    CrowdProblem,
    DecisionTable,
    FloatArray,
    Instance,
    IntArray,
    InvalidValueError,
    Planner,
    PlannerRef,
    compiled,
)
from bdes_policies.crowd.open_visits import OpenVisits
from bdes_policies.crowd.table_halves import TableDecider, TableLearner, UserStates, looked_up

_same_array = cmp_using(eq=np.array_equal)


@frozen(unsafe_hash=False)
class CrowdTableConfig:
    """Follows a decision table, from the state that what each user was shown has led to.

    What it earns is what the table says it is worth, if the arms are what the table takes them for:
    it learns nothing. Give a table, or the arms to plan one for; arms beyond those are never shown.

    Parameters
    ----------
    table : DecisionTable | path | None
        The file that ``bdes plan --leave 0.02 --out table.json`` wrote.
    r, b : list[float] | None
        Instead of a table: what each arm pays at state 1, and the state it leads to.
    lam : float | None
        How far one visit moves the state; by default what the problem says.
    visits_per_user : float | None
        How often a user is expected to come; by default what the problem says.
    planner : planner
        Plans the table, where none is given: it must be able to plan for users who may leave.
    """

    table: Path | DecisionTable | None = None
    r: FloatArray | None = field(default=None, eq=_same_array)
    b: FloatArray | None = field(default=None, eq=_same_array)
    lam: float | None = None
    visits_per_user: float | None = field(
        default=None, validator=optional(and_(bdes.validate_number, ge(1), lt(math.inf)))
    )
    planner: PlannerRef = "certified"

    def __attrs_post_init__(self) -> None:
        if (self.r is None) != (self.b is None):
            raise InvalidValueError("r and b belong together")
        if (self.table is None) == (self.r is None):
            raise InvalidValueError("give either a table, or r and b to plan one for")
        if self.table is not None and (self.lam, self.visits_per_user) != (None, None):
            raise InvalidValueError("a table has its own lam and visits_per_user: leave them out")


def _planned(
    config: CrowdTableConfig, context: CrowdPolicyContext, planner: Planner
) -> DecisionTable:
    """Return a table for the arms of a config."""
    problem = context.problem
    assert config.r is not None
    assert config.b is not None
    lam = problem.lam if config.lam is None else config.lam
    visits = config.visits_per_user or problem.visits_per_user
    for name, value in (("lam", lam), ("visits_per_user", visits)):
        if value is None:
            raise InvalidValueError(f"a table needs {name}, which the problem does not tell")
    assert lam is not None
    assert visits is not None
    at = Instance(config.r, config.b, lam, problem.q0)
    return _plan(config, planner, at, 1 - 1 / visits)


def _plan(
    config: CrowdTableConfig, planner: Planner, instance: Instance, continuation: float
) -> DecisionTable:
    if not isinstance(planner, bdes.StationaryPlanner):
        raise InvalidValueError(
            f"{config.planner!r} does not plan for users who may leave; 'certified' does"
        )
    return planner.plan_stationary(instance, continuation)


def _table_of(
    config: CrowdTableConfig, context: CrowdPolicyContext, planner: Planner
) -> DecisionTable:
    table = config.table
    if isinstance(table, Path):
        table = DecisionTable.read(table)
    if table is None:
        table = _planned(config, context, planner)
    return _checked(table, context.problem)


def _checked(table: DecisionTable, problem: CrowdProblem) -> DecisionTable:
    at = table.instance
    if at.n_arms > problem.n_arms:
        raise InvalidValueError(
            f"the table is for {at.n_arms} arms, but there are only {problem.n_arms}"
        )
    if not math.isclose(at.q0, problem.q0, rel_tol=1e-9):
        raise InvalidValueError(
            f"the table is for users who begin at state {at.q0:g}, but here they begin at"
            f" {problem.q0:g}"
        )
    return table


@compiled
def _follow(
    starts: FloatArray,
    arms: IntArray,
    b: FloatArray,
    lam: float,
    states: FloatArray,
    users: IntArray,
    out: IntArray,
) -> None:
    """Write the arm of each visit, and move the user's state past it."""
    for v in range(users.size):
        q = states[users[v]]
        arm = arms[max(np.searchsorted(starts, q, side="right") - 1, 0)]
        out[v] = arm
        states[users[v]] = q + lam * (b[arm] - q)


class CrowdTable:
    """The policy ``crowd-table``."""

    def __init__(self, config: CrowdTableConfig, context: CrowdPolicyContext) -> None:
        planner = context.planner(config.planner)
        self._table = _table_of(config, context, planner)
        self._states = UserStates(self._table.instance)
        self._open = OpenVisits()
        n_arms = context.problem.n_arms
        self._learner = TableLearner(self._table, n_arms)
        self._decider = TableDecider(n_arms, partial(_plan, config, planner))

    def __repr__(self) -> str:
        return f"CrowdTable(users={self._states.n_users}, table={self._table!r})"

    @property
    def decider(self) -> TableDecider:
        """The half that decides."""
        return self._decider

    @property
    def learner(self) -> TableLearner:
        """The half that learns nothing."""
        return self._learner

    def ask(self, users: IntArray) -> IntArray:
        """Return the arm of each visit."""
        table, at = self._table, self._table.instance
        arms = np.empty(users.size, dtype=np.int64)
        _follow(table.starts, table.arms, at.b, at.lam, self._states.of(users), users, arms)
        self._states.count(users)
        self._open.open(users, arms)
        return arms

    def choose(self, users: IntArray) -> IntArray:
        """Return the arm of each user, as if each came next."""
        return looked_up(self._table.starts, self._table.arms, self._states.of(users)[users])

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note the next visits, and what was shown."""
        self._states.show(users, arms)
        self._open.open(users, arms)

    def tell(self, visits: IntArray, rewards: FloatArray) -> None:
        """Check rewards, which change nothing."""
        self._open.close(visits, rewards)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return what the table is worth per user, its bound, and the users' mean state."""
        states = self._states.known
        return {
            "value": self._table.value,
            "upper_bound": self._table.upper_bound,
            "intervals": self._table.starts.size,
            "mean_state": float(states.mean()) if states.size else self._table.instance.q0,
        }
