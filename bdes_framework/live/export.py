"""Decisions of a journal as a log: a row each, as ``bdes fit`` reads it."""

from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from attrs import define, field

from bdes_framework._internal.arrays import FloatArray
from bdes_framework.fitting.log import Log
from bdes_framework.interfaces import Journal
from bdes_framework.live.config import FILE, load_live
from bdes_framework.model.events import ArmAdded, Decided, Rewarded, WindowsClosed
from bdes_framework.plugin.load import load_plugins

COLUMNS = ("user", "time", "arm", "reward", "propensity")

_SQLITE, _OURS = b"SQLite format 3\0", b"bdes"
"""How a file of the journal ``sqlite`` begins, and what it has at byte 68."""


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


def undamaged_rows(journal: Journal, arms: Sequence[str]) -> Iterator[LogRow]:
    """Yield the decisions that can still be read of a damaged journal, in order; reads it twice.

    Rewards are those that can be read: what was settled by a default may have had one that is
    gone, so its reward is not known here. ``arms`` name those whose own row is damaged.
    """
    rewards: dict[int, float] = {}
    names = dict(enumerate(arms))
    for event in journal.read_undamaged():
        if isinstance(event, Rewarded) and not event.is_late:
            rewards[event.decision] = event.value
        elif isinstance(event, ArmAdded):
            names[event.arm] = event.name
    for event in journal.read_undamaged():
        if isinstance(event, Decided):
            name = names.get(event.arm, f"arm {event.arm}")
            reward = rewards.get(event.number)
            yield LogRow(event.user, event.time, name, reward, event.probability)


def journal_log(journal: Journal) -> Log:
    """Return all decisions of an open journal as a log, a sequence for each user."""
    users, rewards, propensities = array("q"), array("d"), array("d")
    arms, numbers = array("i"), dict[str, int]()
    for row in log_rows(journal):
        users.append(row.user)
        arms.append(numbers.setdefault(row.arm, len(numbers)))
        rewards.append(np.nan if row.reward is None else row.reward)
        propensities.append(row.propensity)
    order = np.argsort(np.array(users), kind="stable")  # users as they came, visits in order
    names = sorted(numbers)  # as files are read, not as they were shown
    places = np.argsort([numbers[name] for name in names])
    return Log.of_users(
        np.array(users)[order],
        places[np.array(arms)[order]],
        np.array(rewards)[order],
        names,
        np.array(propensities)[order],
    )


def is_journal(place: str) -> bool:
    """Return whether this is a live learner's folder, or the file of a journal in SQLite."""
    path = Path(place)
    try:
        if path.is_dir():
            return (path / FILE).is_file()
        if not path.is_file():  # a pipe would lose what is read here
            return False
        with path.open("rb") as file:
            start = file.read(72)
    except (OSError, ValueError):  # ValueError: a NUL character in the path
        return False
    return start.startswith(_SQLITE) and start.endswith(_OURS)


@contextmanager
def opened_journal(place: str) -> Generator[Journal]:
    """Open the journal of a live learner's folder, or in a file, to read it."""
    path = Path(place)
    if path.is_dir():
        setup = load_live(path)
        journal = setup.plugins.journal(setup.journal)
    else:
        journal = load_plugins().journal("sqlite", file=path)
    with closing(journal):
        journal.open()
        yield journal
