"""The rows of a fit's page: predicted and observed responses, states, and lifts, in bins."""

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.distributions import normal_quantile
from bdes_framework.fitting.likelihood import AnyIntArray
from bdes_framework.fitting.log import Log
from bdes_framework.model.compiling import compiled
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.model.instance import Instance
from bdes_framework.model.schedule import Schedule
from bdes_framework.planning.lift import Comparison
from bdes_framework.planning.traffic import MAX_VISITS, visit_weights
from bdes_framework.report.labels import Row

MAX_BINS = 12
"""Of responses, about equally many rows each."""
MAX_VISIT_BINS = 24
STATE_BINS = 40
LIFT_BINS = 40
MAX_SHOWN_VISITS = 4096
_FINE = 400
_WIDTH = normal_quantile(0.975)
TODAY, PLAN = "today's traffic", "the plan"
OBSERVED, PREDICTED = "observed", "predicted"
WITHIN, BEYOND = "within 95 %", "beyond"


@frozen(eq=False)
class Exposure:
    """Sums over the rows of a log, by what users had been shown before.

    Parameters
    ----------
    by_state : FloatArray, shape (K, bins, 4)
        By arm and state: rows whose reward is known, their predictions, rewards and states.
    by_visit : FloatArray, shape (visits, 4)
        The same by the number of the visit; the last has all that follow.
    states : FloatArray, shape (bins,)
        How many rows were at a state.
    highest : float
        The highest state.
    """

    by_state: FloatArray
    by_visit: FloatArray
    states: FloatArray
    highest: float

    @classmethod
    def of(cls, log: Log, at: Instance) -> "Exposure":
        """Return the sums of a log, at the states that a fit gives its rows."""
        highest = max(at.q0, float(at.b.max()))
        by_state = np.zeros((log.n_arms, _FINE, 4))
        by_visit = np.zeros((min(log.longest, MAX_SHOWN_VISITS), 4))
        states = np.zeros(STATE_BINS)
        rows = log.arms, log.rewards, log.starts
        sums = by_state, by_visit, states
        _sum_exposure(*rows, at.r, at.b, at.lam, at.q0, highest, *sums)
        return cls(by_state, by_visit, states, highest)


def response_rows(exposure: Exposure, arm: int) -> list[Row]:
    """Return an arm's responses by the state it was shown at."""
    return list(_responses(exposure.by_state[arm], MAX_BINS))


def visit_rows(exposure: Exposure) -> list[Row]:
    """Return responses by the number of the visit; ``at`` is the mean of a bin's."""
    sums = exposure.by_visit.copy()
    sums[:, 3] = sums[:, 0] * np.arange(1, len(sums) + 1)
    return list(_responses(sums, MAX_VISIT_BINS))


def _responses(sums: FloatArray, most: int) -> Iterator[Row]:
    """Yield bins of about equally many rows, with Wilson's intervals of what was observed."""
    sums = sums[sums[:, 0] > 0]
    if not sums.size:
        return
    total = sums[:, 0].sum()
    before = np.cumsum(sums[:, 0]) - sums[:, 0]
    _, firsts = np.unique((before * most / total).astype(int), return_index=True)
    for rows, predicted, paid, at in np.add.reduceat(sums, firsts).tolist():
        share, squared = paid / rows, _WIDTH**2 / rows
        centre = (share + squared / 2) / (1 + squared)
        half = _WIDTH * np.sqrt(share * (1 - share) / rows + squared / rows / 4) / (1 + squared)
        yield {
            "at": at / rows,
            "observed": share,
            "low": max(centre - float(half), 0.0),
            "high": min(centre + float(half), 1.0),
            "predicted": predicted / rows,
            "rows": int(rows),
        }


def state_rows(exposure: Exposure, planned: FloatArray | None) -> list[Row]:
    """Return the shares of visits at each state: today's, and the plan's."""
    found: list[Row] = []
    width = exposure.highest / STATE_BINS
    for what, counts in ((TODAY, exposure.states), (PLAN, planned)):
        if counts is None:
            continue
        for place, share in enumerate((counts / counts.sum()).tolist()):
            found.append(
                {"state": place * width, "until": (place + 1) * width, "share": share, "what": what}
            )
    return found


def planned_states(
    plan_arms: IntArray, weights: FloatArray, at: Instance, highest: float
) -> FloatArray:
    """Return how many visits are at each state if the users of a log are shown a plan."""
    states = at.states(plan_arms)
    edges = np.linspace(0, highest * (1 + 1e-12) or 1.0, STATE_BINS + 1)
    counts, _ = np.histogram(states, edges, weights=weights)
    return counts.astype(np.float64)


def planned_visits(plan: Schedule | DecisionTable, log: Log) -> tuple[IntArray, FloatArray]:
    """Return what a plan shows on the visits of a log's users, and how many users make each."""
    if isinstance(plan, DecisionTable):
        weights = visit_weights(log, MAX_VISITS)
        return plan.first_arms(weights.size), weights
    weights = visit_weights(log, plan.n_pulls)
    return plan.slice(0, weights.size), weights


def table_rows(table: DecisionTable, names: Sequence[str]) -> list[Row]:
    """Return each interval of states with the arm it shows."""
    return [
        {"state": start, "until": end, "arm": names[arm]} for start, end, arm in table.intervals()
    ]


def lift_rows(one: Comparison) -> list[Row]:
    """Return the distribution of a lift: shares of the draws, in percent steps of the lift."""
    low, high = np.quantile(one.samples, [0.001, 0.999]).tolist()
    room = max((high - low) * 0.05, 1e-9)
    edges = np.linspace(low - room, high + room, LIFT_BINS + 1)
    counts, _ = np.histogram(one.samples, edges)
    shares = (counts / one.samples.size).tolist()
    inside = one.lift
    assert inside is not None
    return [
        {
            "lift": start,
            "until": end,
            "share": share,
            "what": WITHIN if inside.low <= (start + end) / 2 <= inside.high else BEYOND,
        }
        for start, end, share in zip(edges[:-1].tolist(), edges[1:].tolist(), shares, strict=True)
    ]


@compiled
def _sum_exposure(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    highest: float,
    by_state: FloatArray,
    by_visit: FloatArray,
    states: FloatArray,
) -> None:
    q, following, visit = q0, 0, 0
    n_fine, n_states, n_visits = by_state.shape[1], states.size, by_visit.shape[0]
    for t in range(arms.size):
        if following < starts.size and starts[following] == t:
            following += 1
            q, visit = q0, 0
        arm = arms[t]
        share = q / highest if highest > 0.0 else 0.0
        states[min(int(share * n_states), n_states - 1)] += 1.0
        if rewards[t] >= 0:
            place, at = min(int(share * n_fine), n_fine - 1), min(visit, n_visits - 1)
            by_state[arm, place, 0] += 1.0
            by_state[arm, place, 1] += r[arm] * q
            by_state[arm, place, 2] += rewards[t]
            by_state[arm, place, 3] += q
            by_visit[at, 0] += 1.0
            by_visit[at, 1] += r[arm] * q
            by_visit[at, 2] += rewards[t]
        q = q + lam * (b[arm] - q)
        visit += 1
