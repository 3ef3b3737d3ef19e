"""What follows from the events of a journal, whatever the policy is: numbers of all sorts.

A tally is a function of the events it was given, in their order. A model brings the tally of the
events it was made from, so that a restart need not read those again.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from attrs import define, frozen
from numpy.typing import NDArray

from bdes_framework._internal.arrays import IntArray
from bdes_framework.model.events import (
    ArmAdded,
    ArmRetired,
    Decided,
    Event,
    ModelMade,
    NewUser,
    Rewarded,
    UserForgotten,
    WindowsClosed,
)
from bdes_framework.model.packing import pack_model, unpack_model

_KIND = "bdes live model 1"
BEFORE = 1_000
"""So many decisions are the traffic before: what was shown when little was learned."""
_MOST_SPANS = 96
_FIRST_WIDTH = 60.0
_LEAST_ROOM = 1024


@define
class ArmTally:
    """What is known of an arm."""

    name: str
    is_active: bool = True
    shown: int = 0
    rewards: int = 0
    """How many rewards came in time."""
    defaults: int = 0
    """How many decisions were settled by the default."""
    total: float = 0.0
    """Of rewards and defaults."""


@frozen
class ModelStatus:
    """A model, and what had become known for it.

    Parameters
    ----------
    number : int
        Models are numbered in the order they were made.
    read : int
        How many events it was made from.
    decisions, rewards : int
        How many of them there were when it was published.
    time : float
        When, in seconds since 1970.
    version : str
        Of the framework that made it.
    digest : str
        SHA-256 of its data.
    """

    number: int
    read: int
    decisions: int
    rewards: int
    time: float
    version: str
    digest: str


@frozen
class Snapshot:
    """A model as the journal keeps it: the policy's data, and the tally of what it has read."""

    model: bytes
    tally: "Tally"

    @classmethod
    def read(cls, data: bytes) -> "Snapshot":
        """Return what :meth:`data` wrote; raise InvalidValueError if that is damaged."""
        values, arrays = unpack_model(data, _KIND)
        return cls(arrays["model"].tobytes(), Tally.restored(values, arrays))

    @property
    def data(self) -> bytes:
        """The snapshot as bytes."""
        values, arrays = self.tally.saved()
        return pack_model(_KIND, values, {**arrays, "model": np.frombuffer(self.model, np.uint8)})


class RecentVisits:
    """User, arm and whether the reward is known, of the decisions from ``first`` on.

    Parameters
    ----------
    with_users : bool
        Whether users are kept too: nobody asks a learner's tally for them.
    first : int
        The first decision.
    """

    def __init__(self, with_users: bool = True, first: int = 0) -> None:
        self.first = first
        self.size = 0
        self._users = np.zeros(_LEAST_ROOM if with_users else 0, dtype=np.int32)
        self._arms = np.zeros(_LEAST_ROOM, dtype=np.int16)
        self._known = np.zeros(_LEAST_ROOM, dtype=np.uint8)

    @property
    def stop(self) -> int:
        """The number that the next decision gets."""
        return self.first + self.size

    def add(self, user: int, arm: int) -> None:
        """Take note of the next decision."""
        at = self.size
        if at == self._arms.size:
            for kept in (self._users, self._arms, self._known):
                if kept.size:  # where it lies, if it can: no hole is left in memory
                    kept.resize(at + at // 8, refcheck=False)
        if self._users.size:
            self._users[at] = user
        self._arms[at], self._known[at] = arm, 0
        self.size += 1

    def _keep(self, start: int, room: int) -> None:
        """Move what is kept from a place on to arrays of another size."""
        for name in ("_users", "_arms", "_known"):
            kept = getattr(self, name)
            if kept.size:
                moved = np.zeros(room, dtype=kept.dtype)
                moved[: self.size - start] = kept[start : self.size]
                setattr(self, name, moved)

    def arm_of(self, decision: int) -> int:
        """Return what was shown."""
        return int(self._arms[decision - self.first])

    def note_reward(self, decision: int) -> None:
        """Take note that a reward is known."""
        self._known[decision - self.first] = 1

    def unknown(self, start: int, stop: int) -> IntArray:
        """Return the decisions in a range whose reward is not known."""
        known = self._known[start - self.first : stop - self.first]
        found: IntArray = start + np.flatnonzero(known == 0)
        return found

    def since(self, decision: int) -> tuple[IntArray, IntArray]:
        """Return users and arms of the decisions from this one on."""
        at = slice(decision - self.first, self.size)
        return self._users[at].astype(np.int64), self._arms[at].astype(np.int64)

    def forget_before(self, decision: int) -> None:
        """Let go of older decisions, as soon as they are most of what is kept."""
        gone = decision - self.first
        if 2 * gone > self.size:
            self._keep(gone, max(_LEAST_ROOM, self.size - gone))
            self.first, self.size = decision, self.size - gone

    def saved(self, start: int) -> dict[str, NDArray[np.generic]]:
        """Return what :meth:`restored` needs of the decisions from ``start`` on."""
        at = slice(start - self.first, self.size)
        return {"open_arms": self._arms[at].copy(), "open_known": self._known[at].copy()}

    @classmethod
    def restored(cls, first: int, arrays: Mapping[str, NDArray[Any]]) -> "RecentVisits":
        """Return visits whose users are not known any more, nor needed."""
        made = cls(first=first)
        made._keep(0, max(_LEAST_ROOM, arrays["open_arms"].size))
        made.size = arrays["open_arms"].size
        made._arms[: made.size] = arrays["open_arms"]
        made._known[: made.size] = arrays["open_known"]
        return made


class Shares:
    """How often each arm was shown, over time: in spans that double in width as they get many."""

    def __init__(self) -> None:
        self.width = _FIRST_WIDTH
        self.spans: dict[int, list[int]] = {}
        """By number of the span since 1970: how often each arm was shown."""

    def add(self, time: float, arm: int) -> None:
        """Count a decision."""
        span = int(time // self.width)
        counts = self.spans.setdefault(span, [])
        if len(counts) <= arm:
            counts += [0] * (arm + 1 - len(counts))
        counts[arm] += 1
        while len(self.spans) > _MOST_SPANS:
            self._widen()

    def _widen(self) -> None:
        old, self.spans, self.width = self.spans, {}, 2 * self.width
        for span, counts in old.items():
            into = self.spans.setdefault(span // 2, [])
            into += [0] * (len(counts) - len(into))
            for arm, n in enumerate(counts):
                into[arm] += n


class Tally:
    """Numbers of users, decisions and rewards, arms, models, and the decisions waited for."""

    def __init__(self, with_users: bool = True) -> None:
        self.arms: list[ArmTally] = []
        self.n_events = 0
        self.n_users = 0
        self.n_forgotten = 0
        self.n_decisions = 0
        self.n_rewards = 0
        """Of all that came, late ones too."""
        self.n_late = 0
        self.settled = 0
        """Decisions below this number are waited for no more."""
        self.models: list[ModelStatus] = []
        self.before: list[int] = []

        self.shares = Shares()
        self.visits = RecentVisits(with_users)

    @property
    def active(self) -> list[int]:
        """The arms that may be shown."""
        return [number for number, arm in enumerate(self.arms) if arm.is_active]

    @property
    def model(self) -> int:
        """The number of the newest model; 0 if none was made."""
        return max(len(self.models) - 1, 0)

    def apply(self, event: Event) -> IntArray | None:
        """Take note of the next event; return the decisions that it settles by default."""
        self.n_events += 1
        match event:
            case Decided():
                self._decide(event)
            case Rewarded():
                self._reward(event)
            case WindowsClosed():
                return self._settle(event)
            case NewUser():
                self.n_users += 1
            case ArmAdded(_, name, _):
                self.arms.append(ArmTally(name))
                self.before.append(0)
            case ArmRetired(arm, _):
                self.arms[arm].is_active = False
            case UserForgotten():
                self.n_forgotten += 1
            case ModelMade():
                self.models.append(
                    ModelStatus(
                        number=event.number,
                        read=event.read,
                        decisions=self.n_decisions,
                        rewards=self.n_rewards,
                        digest=event.digest,
                        version=event.version,
                        time=event.time,
                    )
                )
        return None

    def _decide(self, event: Decided) -> None:
        self.n_decisions += 1
        self.arms[event.arm].shown += 1
        self.visits.add(event.user, event.arm)
        self.shares.add(event.time, event.arm)
        if event.number < BEFORE:
            self.before[event.arm] += 1

    def _reward(self, event: Rewarded) -> None:
        self.n_rewards += 1
        if event.is_late:
            self.n_late += 1
            return
        arm = self.arms[self.visits.arm_of(event.decision)]
        arm.rewards += 1
        arm.total += event.value
        self.visits.note_reward(event.decision)

    def _settle(self, event: WindowsClosed) -> IntArray | None:
        unknown = self.visits.unknown(self.settled, event.before)
        self.settled = event.before
        if event.default is None or not unknown.size:
            return None
        for decision in unknown.tolist():
            arm = self.arms[self.visits.arm_of(decision)]
            arm.defaults += 1
            arm.total += event.default
        return unknown

    def saved(self) -> tuple[dict[str, object], dict[str, NDArray[np.generic]]]:
        """Return what :meth:`restored` needs."""
        values: dict[str, object] = {
            name: getattr(self, name)
            for name in ("n_events", "n_users", "n_forgotten", "n_decisions", "n_rewards")
        }
        values |= {"n_late": self.n_late, "settled": self.settled, "before": self.before}
        values["arms"] = [
            [a.name, a.is_active, a.shown, a.rewards, a.defaults, a.total] for a in self.arms
        ]
        values["models"] = [
            [m.number, m.read, m.decisions, m.rewards, m.time, m.version, m.digest]
            for m in self.models
        ]
        values["shares"] = [self.shares.width, sorted(self.shares.spans.items())]
        return values, self.visits.saved(self.settled)

    @classmethod
    def restored(
        cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]
    ) -> "Tally":
        """Return the tally that was saved."""
        made = cls()
        names = ("n_events", "n_users", "n_forgotten", "n_decisions", "n_rewards", "n_late")
        for name in (*names, "settled"):
            setattr(made, name, int(values[name]))
        made.before = [int(n) for n in values["before"]]
        made.arms = [ArmTally(*fields) for fields in values["arms"]]
        made.models = [ModelStatus(*fields) for fields in values["models"]]
        made.shares.width = float(values["shares"][0])
        made.shares.spans = {int(span): list(counts) for span, counts in values["shares"][1]}
        made.visits = RecentVisits.restored(made.settled, arrays)
        return made

    def share_spans(self) -> Iterator[tuple[float, list[int]]]:
        """Yield the beginning of each span of time, and how often each arm was shown in it."""
        for span, counts in sorted(self.shares.spans.items()):
            yield span * self.shares.width, counts + [0] * (len(self.arms) - len(counts))
