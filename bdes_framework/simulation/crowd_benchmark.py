"""The benchmark for many users: a decision table followed on the very visits of a simulation.

Nobody knows when a user leaves, so what a platform can deploy is an arm for each state. Who comes
does not depend on what is shown, so both this plan and the clairvoyant's, who knows how often each
user will come, are worth what they earn on the same arrivals.
"""

import numpy as np
from attrs import field, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.numbers import as_integer
from bdes_framework._internal.text import class_path, quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import ContractError
from bdes_framework.interfaces import CrowdEnvironment, HasInstance, StationaryPlanner
from bdes_framework.model.compiling import compiled
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.hull import hull_of_arms
from bdes_framework.model.instance import Instance
from bdes_framework.simulation.loop import CHUNK, as_checkpoints

_GRID = 4096
"""Even steps between the states at which the clairvoyant's bound is computed."""
_MOST_STEPS = 1 << 14
"""Visits of one user beyond which the clairvoyant's bound grows by a proven bound per visit."""
_ROUNDING = 1e-12, 1e-15
"""Relative, of a sum and of each of its terms."""


@frozen(eq=False)
class CrowdBenchmark:
    """What the best plan that does not know when a user leaves earns on the same visits.

    Parameters
    ----------
    table : DecisionTable
        The plan: best where a user leaves with the same chance after every visit, and comes as
        often on average as the users of this simulation did.
    checkpoints : IntArray, shape (c,)
        Visits, increasing.
    values : FloatArray, shape (c,)
        Total expected reward of the plan after that many visits, or after the last one.
    user_checkpoints : IntArray, shape (d,)
        Numbers of users, in the order they first came; the last is the number of all.
    user_values : FloatArray, shape (d,)
        Total expected reward of the plan from the first so many users.
    upper_bound : float
        The clairvoyant's value, rounded up: proven that nobody earns more on these visits, not
        even who knows how often each user will come.
    visits : int
        How many visits there were.
    """

    table: DecisionTable
    checkpoints: IntArray
    values: FloatArray
    user_checkpoints: IntArray
    user_values: FloatArray
    upper_bound: float
    visits: int = field(kw_only=True)

    @property
    def value(self) -> float:
        """Total expected reward of the plan."""
        return float(self.values[-1])

    def __repr__(self) -> str:
        return shown_fields(
            "CrowdBenchmark",
            visits=self.visits,
            users=int(self.user_checkpoints[-1]),
            value=self.value,
            upper_bound=self.upper_bound,
            table_gap=f"{self.table.gap:.2g}",
        )


@one_thread()
def crowd_benchmark_of(
    environment: CrowdEnvironment,
    visits: int,
    planner: StationaryPlanner,
    checkpoints: IntArray | None = None,
) -> CrowdBenchmark | None:
    """Return the benchmark of many users; None if they do not all play one instance.

    Parameters
    ----------
    environment : CrowdEnvironment
        A newly built one, with the seed of the simulation: its visits are used up.
    visits : int
        Number of visits, at most.
    planner : StationaryPlanner
        What plans the decision table.
    checkpoints : IntArray | None
        Increasing visits at which the plan's expected reward is noted; log-spaced by default.

    Raises
    ------
    ContractError
        If the planner returns anything but a decision table for what was asked.

    Examples
    --------
    >>> import bdes_framework as bdes
    >>> plugins = bdes.load_plugins()
    >>> users = {"users": 500, "visits_per_user": 20, "r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}
    >>> crowd = plugins.crowd_environment("crowd", seed=1, **users)
    >>> found = bdes.crowd_benchmark_of(crowd, 10_000, plugins.planner("certified"))
    >>> round(found.value), round(found.upper_bound)
    (4069, 4168)
    """
    visits = as_integer(visits, "visits", 1)
    marks = as_checkpoints(checkpoints, visits)
    if not isinstance(environment, HasInstance):
        return None
    instance = environment.instance
    per_user, ages = _count_visits(environment, visits, marks)
    n_users, done = per_user.size, int(per_user.sum())
    table = _checked(planner, instance, 1.0 - n_users / done)
    most = int(per_user.max())
    earned = table.instance.expected_rewards(table.first_arms(most))
    parts = [float(earned[own] @ counts) for own, counts in ages]
    by_user = np.cumsum(np.concatenate([[0.0], np.cumsum(earned)])[per_user])
    user_marks = user_checkpoints(marks, n_users)
    numbers, how_many = np.unique(per_user, return_counts=True)
    bound = float(_bounds_for(instance, numbers) @ how_many)
    values = np.cumsum(parts)
    return CrowdBenchmark(
        table=table,
        checkpoints=marks,
        values=values,
        user_checkpoints=user_marks,
        user_values=by_user[user_marks - 1],
        upper_bound=bound,
        visits=done,
    )


def user_checkpoints(marks: IntArray, n_users: int) -> IntArray:
    """Return the numbers of users at which curves over users are noted; the last is all."""
    return np.append(marks[marks < n_users], n_users)


def _checked(planner: StationaryPlanner, instance: Instance, continuation: float) -> DecisionTable:
    table: object = planner.plan_stationary(instance, continuation)
    who = f"planner {class_path(planner)}"
    if not isinstance(table, DecisionTable):
        raise ContractError(f"{who}: expected a DecisionTable, got {quoted(table)}")
    same = table.instance == instance and table.continuation == continuation
    if not same:
        raise ContractError(f"{who}: the decision table is for another instance or continuation")
    return table


# -- who came, and how often ----------------------------------------------------------------


def _count_visits(
    environment: CrowdEnvironment, visits: int, marks: IntArray
) -> tuple[IntArray, list[tuple[IntArray, IntArray]]]:
    """Return how often each user came, and how many visits had each number of earlier ones.

    The latter for the visits up to each of the marks, from the mark before on.
    """
    per_user = np.zeros(1024, dtype=np.int64)
    found: list[tuple[IntArray, IntArray]] = []
    done, n_users, is_over = 0, 0, False
    for mark in marks.tolist():
        ages = np.zeros(256, dtype=np.int64)
        while done < mark and not is_over:
            users = environment.arrivals(min(CHUNK, mark - done))
            is_over = users.size == 0
            if is_over:
                break
            n_users = max(n_users, int(users.max()) + 1)
            per_user = _grown(per_user, n_users)
            ages = _grown(ages, int(per_user[:n_users].max()) + users.size)
            _add_ages(users, per_user, ages)
            done += users.size
        seen = np.flatnonzero(ages)
        found.append((seen, ages[seen]))
    return per_user[:n_users], found


def _grown(array: IntArray, size: int) -> IntArray:
    if size <= array.size:
        return array
    return np.concatenate([array, np.zeros(max(size, 2 * array.size) - array.size, dtype=np.int64)])


@compiled
def _add_ages(users: IntArray, per_user: IntArray, ages: IntArray) -> None:
    for user in users:
        ages[per_user[user]] += 1
        per_user[user] += 1


# -- who knows how often each user will come ------------------------------------------------


def _bounds_for(instance: Instance, numbers: IntArray) -> FloatArray:
    """Return upper bounds on what users who come so often can earn: shape of ``numbers``.

    The best expected reward of n visits is convex in the state, so lines between its values on a
    grid lie above it, and stay above from one visit to the next. How much one more visit adds,
    at the state where it adds most, never rises: so bounds go on without end.
    """
    chosen = hull_of_arms(instance.r, instance.b)
    r, b = instance.r[chosen], instance.b[chosen]
    highest = max(instance.q0, float(instance.b.max()))
    steps = np.linspace(0.0, highest, _GRID + 1)
    grid = np.unique(np.concatenate([steps, b, [instance.q0, 0.0]]))
    if grid.size == 1:  # every state is 0
        return np.zeros(numbers.size)
    moved = grid + instance.lam * (b[:, None] - grid)
    left = np.clip(np.searchsorted(grid, moved, side="right") - 1, 0, grid.size - 2)
    share = np.clip((moved - grid[left]) / (grid[left + 1] - grid[left]), 0.0, 1.0)
    n = min(int(numbers.max()), _MOST_STEPS)
    start = int(np.searchsorted(grid, instance.q0))
    totals, growth = _best_totals(r[:, None] * grid, left, share, start, n)
    within = np.minimum(numbers, n)
    found = totals[within] + (numbers - within) * growth
    bounds: FloatArray = found * (1.0 + _ROUNDING[0] + _ROUNDING[1] * numbers)
    return bounds


@compiled
def _best_totals(
    pay: FloatArray, left: IntArray, share: FloatArray, start: int, n: int
) -> tuple[FloatArray, float]:
    """Return bounds for 0 to n visits from the state ``start``, and on what one more adds."""
    n_arms, size = pay.shape
    now, then = np.zeros(size), np.zeros(size)
    totals = np.zeros(n + 1)
    growth = 0.0
    for step in range(n):
        growth = 0.0
        for at in range(size):
            best = 0.0
            for arm in range(n_arms):
                k, s = left[arm, at], share[arm, at]
                best = max(best, pay[arm, at] + now[k] + s * (now[k + 1] - now[k]))
            then[at] = best
            growth = max(growth, best - now[at])
        now, then = then, now
        totals[step + 1] = now[start]
    return totals, growth
