"""Decisions of a journal as a log: a row each, as ``bdes fit`` reads it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from attrs import define, field

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.interfaces import Journal
from bdes_framework.model.events import ArmAdded, Decided, Rewarded, WindowsClosed

COLUMNS = ("user", "time", "arm", "reward", "propensity")


class LogRow(NamedTuple):
    """A decision: users by number, as names are nobody's business."""

    user: int
    time: float
    arm: str
    reward: float | None
    """None if it is not known; late rewards are left out, as nobody learned from them."""
    propensity: float


@define
class _Rewards:
    """The reward of each decision, as far as it is known."""

    values: FloatArray = field(factory=lambda: np.full(1024, np.nan))
    n: int = 0
    settled: int = 0

    def make_room(self) -> None:
        """Count one more decision."""
        self.n += 1
        if self.n > self.values.size:
            self.values = np.append(self.values, np.full(self.values.size, np.nan))

    def settle(self, before: int, default: float | None) -> None:
        """Give the default to those that have none."""
        if default is not None:
            part = self.values[self.settled : before]
            part[np.isnan(part)] = default
        self.settled = before


def log_rows(journal: Journal) -> Iterator[LogRow]:
    """Yield all decisions of an open journal, in order; reads it twice."""
    rewards, n = _Rewards(), journal.count()
    for event in journal.read(0, n):
        if isinstance(event, Decided):
            rewards.make_room()
        elif isinstance(event, Rewarded) and not event.is_late:
            rewards.values[event.decision] = event.value
        elif isinstance(event, WindowsClosed):
            rewards.settle(event.before, event.default)
    names: list[str] = []
    for event in journal.read(0, n):
        if isinstance(event, ArmAdded):
            names.append(event.name)
        elif isinstance(event, Decided):
            value = float(rewards.values[event.number])
            known = None if np.isnan(value) else value
            yield LogRow(event.user, event.time, names[event.arm], known, event.probability)
