"""What happens to a learner that serves people, as a journal keeps it: one value an event.

Events have one order, that of the journal. All that a live learner knows follows from them: so a
restart, a second process and a check of what was decided read the same events again. Times are for
people and for off-policy questions; no number follows from one.
"""

from typing import NamedTuple, TypeAlias


class NewUser(NamedTuple):
    """A user came for the first time. Users are numbered 0, 1, 2, ... in this order."""

    user: int
    name: str | None
    """As whoever asks calls the user; None once forgotten."""


class Decided(NamedTuple):
    """An arm was shown to a user. Decisions are numbered 0, 1, 2, ... in this order."""

    number: int
    user: int
    arm: int
    """The arm shown."""
    chosen: int
    """The arm the policy wanted to show; where arms have a smallest probability, another may be
    shown."""
    probability: float
    """How likely the arm shown was, given the model and all that was shown before."""
    model: int
    """The model the policy decided by."""
    time: float
    """Seconds since 1970."""


class Rewarded(NamedTuple):
    """The reward of a decision became known."""

    decision: int
    value: float
    """In [0, 1]."""
    time: float
    is_late: bool = False
    """Whether its window was over: then it is kept, and not learned from."""


class WindowsClosed(NamedTuple):
    """Decisions below a number were waited for long enough; what is not known now is settled."""

    before: int
    """Decisions with a lower number, down to where the last such event ended."""
    default: float | None
    """The reward of those that have none; None if it stays unknown."""
    time: float


class ArmAdded(NamedTuple):
    """There is another arm. Arms are numbered 0, 1, 2, ... in this order."""

    arm: int
    name: str
    time: float


class ArmRetired(NamedTuple):
    """An arm is shown no more."""

    arm: int
    time: float


class UserForgotten(NamedTuple):
    """The name of a user was removed; what the user was shown still counts."""

    user: int
    time: float


class ModelMade(NamedTuple):
    """A model was learned. Models are numbered 0, 1, 2, ... in this order."""

    number: int
    read: int
    """How many of the journal's events it was made from: the first so many."""
    digest: str
    """SHA-256 of the data, in hexadecimal digits."""
    data: bytes | None
    """The model, as its policy writes and reads it; None where only the digest is kept."""
    version: str
    """Of the framework that made it."""
    time: float


Event: TypeAlias = (
    NewUser | Decided | Rewarded | WindowsClosed | ArmAdded | ArmRetired | UserForgotten | ModelMade
)
"""Anything that a journal keeps."""
