"""What the console shows of a session, as JSON; nothing of it names a user."""

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.text import counted, error_message, error_text, one_line
from bdes_framework._version import __version__
from bdes_framework.errors import BdesError
from bdes_framework.interfaces import CrowdEstimates
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.lift import BEFORE, BEST_FIXED, Comparison, Lift

if TYPE_CHECKING:
    from bdes_framework.live.session import LiveSession
    from bdes_framework.live.status import LiveStatus, ModelStatus

MAX_MODELS = 50
"""The newest are shown."""
_MOST_STARTS = 4
"""Of a table that is told in one line."""


class ConsoleReader:
    """Reads what there is to show; remembers which table belonged to which model.

    Parameters
    ----------
    session : Callable[[], LiveSession | None]
        Returns the session, or None while it is opened.
    """

    def __init__(self, session: "Callable[[], LiveSession | None]") -> None:
        self._session = session
        self._tables: dict[int, str] = {}

    def __call__(self) -> str:
        """Return what there is to show, as one line of JSON."""
        content = {"time": time.time(), "version": __version__, **self._content()}
        return json.dumps(content, allow_nan=False)

    def _content(self) -> dict[str, Any]:
        session = self._session()
        if session is None or not session.is_ready:
            name = "A live learner" if session is None else session.config.name
            return _bare(name, "Starting: its models are being loaded.")
        try:
            status = session.status()
            found = session.estimates(), session.table(), session.lift()
        except Exception as error:  # a policy of other people may raise anything
            what = error_message(error) if isinstance(error, BdesError) else error_text(error)
            return _bare(session.config.name, f"Not healthy: {one_line(what)}")
        return self._shown(status, *found)

    def _shown(
        self,
        status: "LiveStatus",
        estimates: CrowdEstimates | None,
        table: DecisionTable | None,
        lift: Lift | None,
    ) -> dict[str, Any]:
        lifts = [] if lift is None else lifts_of(lift)
        newest = status.models[-1] if status.models else None
        numbers = {arm.name: arm.number for arm in status.arms}
        if newest is not None and table is not None:
            self._tables[newest.number] = _told(table)
        states = None
        if status.state_counts:
            states = {"edges": status.state_edges, "counts": status.state_counts}
        waiting = None
        if status.waiting is not None:
            waiting = dict(zip(("median", "p99"), status.waiting, strict=True))
        return {
            "is_ready": status.is_ready,
            "is_healthy": status.is_healthy,
            "headline": headline(status, lifts),
            "name": status.name,
            "decisions": status.decisions,
            "rewards": status.rewards,
            "decisions_per_second": status.decisions_per_second,
            "rewards_per_second": status.rewards_per_second,
            "users": status.users,
            "waiting": waiting,
            "model": None if newest is None else {"number": newest.number, "made": newest.time},
            "lifts": lifts,
            "arms_text": _arms_text(estimates),
            "arms": arms_shown(status, estimates),
            "table": None if table is None else _table_shown(table, numbers),
            "states": states,
            "shares": [{"from": span.time, "counts": span.shown} for span in status.shares],
            "models": self._models(status.models),
        }

    def _models(self, models: "Sequence[ModelStatus]") -> list[dict[str, Any]]:
        """Return the newest models first: what each was made from, and what it shows."""
        found: list[dict[str, Any]] = []
        before = None
        for model in models:
            decisions, rewards = model.decisions, model.rewards
            if before is not None:
                decisions, rewards = decisions - before.decisions, rewards - before.rewards
            more = "" if before is None else " more"
            found.append(
                {
                    "number": model.number,
                    "made": model.time,
                    "read": model.read,
                    "changed": f"{decisions:,}{more} {_plural('decision', decisions)},"
                    f" {rewards:,}{more} {_plural('reward', rewards)}",
                    "shows": self._tables.get(model.number, ""),
                }
            )
            before = model
        return found[: -MAX_MODELS - 1 : -1]


def _bare(name: str, headline: str) -> dict[str, Any]:
    return {"is_ready": False, "is_healthy": False, "name": name, "headline": headline}


def _plural(noun: str, n: int) -> str:
    return noun if n == 1 else f"{noun}s"


def headline(status: "LiveStatus", lifts: Sequence[dict[str, Any]]) -> str:
    """Return one sentence: is it healthy and learning, what does it earn, and how sure is that."""
    if status.trouble is not None:
        return f"Not healthy: {one_line(status.trouble)}"
    if not status.decisions:
        return "Healthy, and waiting for the first decision."
    begin = "Healthy and learning" if status.is_learning else "Healthy; learning runs elsewhere"
    rewards = counted(status.rewards, "reward")
    if not lifts:
        return f"{begin}, from {rewards} so far."
    over = lifts[0]["over"]
    mean, low, high = (100 * part for part in lifts[0]["interval"])
    sure = f"95 %: {low:+.1f} to {high:+.1f} %; {rewards}".replace("-", "−")
    if low > 0:
        return f"{begin}: its decision table earns {mean:.1f} % more than {over} ({sure})."
    if high < 0:
        return f"{begin}: {over} earns {-mean:.1f} % more than its decision table ({sure})."
    return f"{begin}: whether its decision table earns more than {over} is not clear yet ({sure})."


def lifts_of(lift: Lift) -> list[dict[str, Any]]:
    """Return the lift over the best fixed arm, then over the traffic before."""
    found = []
    for name in (BEST_FIXED, BEFORE):
        one = lift.over(name)
        if one is not None and one.lift is not None:
            interval = [one.lift.mean, one.lift.low, one.lift.high]
            found.append({"over": _words_of(one), "interval": interval})
    return found


def _words_of(comparison: Comparison) -> str:
    if comparison.arm is None:
        return comparison.title
    return f"the best fixed arm, {comparison.arm}"


def arms_shown(status: "LiveStatus", estimates: CrowdEstimates | None) -> list[dict[str, Any]]:
    """Return what is known and believed of each arm."""
    state = mean_state(status.state_edges, status.state_counts)
    newest = status.shares[-1].shown if status.shares else ()
    total = sum(newest)
    found = []
    for arm in status.arms:
        known: dict[str, Any] = {"pays": None, "earns": None, "leads_to": None, "does": "–"}
        if estimates is not None and arm.number < estimates.r.shape[1]:
            pays, leads = estimates.r[:, arm.number], estimates.b[:, arm.number]
            known["pays"], known["leads_to"] = pays.tolist(), leads.tolist()
            if state is not None:
                known["earns"] = (state * pays).tolist()
                known["does"] = effect(leads, state)
        share = newest[arm.number] / total if total and arm.number < len(newest) else 0.0
        found.append(
            {
                "number": arm.number,
                "name": arm.name,
                "is_active": arm.is_active,
                "share": share,
                "shown": arm.shown,
                "known": arm.rewards,
                "mean": arm.mean_reward,
                **known,
            }
        )
    return found


def mean_state(edges: Sequence[float], counts: Sequence[int]) -> float | None:
    """Return the mean state of the users of a histogram; None without users."""
    if not sum(counts):
        return None
    middles = (np.array(edges[:-1]) + np.array(edges[1:])) / 2
    return float(np.average(middles, weights=counts))


def effect(leads_to: FloatArray, state: float) -> str:
    """Return what an arm does to users at this state, as far as its interval says."""
    _, low, high = leads_to.tolist()
    if high < state:
        return "wears out"
    return "restores" if low > state else "not clear yet"


def _arms_text(estimates: CrowdEstimates | None) -> str:
    if estimates is None:
        return "This policy estimates nothing of what arms do."
    lam, low, high = estimates.lam.tolist()
    return (
        f"A visit moves a user's state {100 * lam:.1f} % of the way to where the arm leads"
        f" ({100 * low:.1f} to {100 * high:.1f} %). What an arm earns now is what it pays at state"
        " 1 times the mean state of the users. The lines are 95 % intervals."
    )


def _table_shown(table: DecisionTable, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "starts": table.starts.tolist(),
        "arms": [numbers[table.names[arm]] for arm in table.arms.tolist()],
        "highest": table.highest_state,
        "text": (
            "The best decision table if the estimates are true, for users who come"
            f" {table.visits:,.1f} times on average; proven to be within {100 * table.gap:.2g} % of"
            " the best."
        ),
    }


def _told(table: DecisionTable) -> str:
    """Return a table in a line: ``essay, from 0.43 clip``."""
    pairs = list(zip(table.starts.tolist(), table.arms.tolist(), strict=True))
    parts = [table.names[pairs[0][1]]]
    parts += [f"from {start:.2f} {table.names[arm]}" for start, arm in pairs[1:_MOST_STARTS]]
    return ", ".join(parts) + (", …" if len(pairs) > _MOST_STARTS else "")
