"""What a session is asked to do: each request is handled in a turn of the journal.

A request looks at everything before it changes anything: if it raises, nothing of it happened,
and the others of the turn go on.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import (
    ContractError,
    ContradictionError,
    InvalidValueError,
    UnknownNameError,
)
from bdes_framework.interfaces import Journal
from bdes_framework.live.config import MAX_ARMS, check_arm_name, floor_mistake
from bdes_framework.live.decision import Decision, RewardAnswer
from bdes_framework.live.follower import Follower
from bdes_framework.live.ids import DecisionIds, uniform_of, unknown_decision
from bdes_framework.live.players import ChoosingPlayer
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


@define
class OpenTurn:
    """A turn: what is known when it begins, and the events that it will append."""

    follower: Follower
    player: ChoosingPlayer
    journal: Journal
    ids: DecisionIds
    seed: int
    floor: float
    now: float
    users: dict[str, int | None]
    """The number of each user that a request names."""
    decisions: dict[int, tuple[Decided, Rewarded | None] | None]
    """Each decision that a request names."""
    events: list[Event] = field(factory=list)

    def add(self, event: Event) -> None:
        """Let an event happen."""
        self.events.append(event)
        try:
            self.follower.follow((event,))
        except _REFUSALS as error:
            raise _unforeseen(error) from error

    def choose(self, user: int) -> int:
        """Return the arm that the policy wants to show."""
        try:
            return self.player.choose(user)
        except _REFUSALS as error:
            raise _unforeseen(error) from error


_REFUSALS = (InvalidValueError, UnknownNameError, ContradictionError)
"""What a request raises that is wrong itself; the others of its turn go on."""


def _unforeseen(error: Exception) -> ContractError:
    """Return the error that ends a turn: what is asked of a policy was checked before."""
    return ContractError(f"the policy refused what happened: {error}")


class _Plain:
    """A request that names no users and no decisions."""

    @property
    def size(self) -> int:
        """How many users or rewards it is about."""
        return 1

    def names(self) -> Iterable[str]:
        """Return none."""
        return ()

    def numbers(self) -> Iterable[int]:
        """Return none."""
        return ()


@frozen
class Decide(_Plain):
    """Decide what to show to users, one after the other."""

    users: Sequence[str]

    @property
    def size(self) -> int:
        """How many users."""
        return len(self.users)

    def names(self) -> Iterable[str]:
        """Return the users."""
        return self.users

    def run(self, turn: OpenTurn) -> list[Decision]:
        """Choose, and show."""
        return [self._decide(name, turn) for name in self.users]

    def _decide(self, name: str, turn: OpenTurn) -> Decision:
        tally = turn.follower.tally
        user = turn.users[name]
        if user is None:
            user = turn.users[name] = tally.n_users
            turn.add(NewUser(user, name))
        chosen, number = turn.choose(user), tally.n_decisions
        if not (0 <= chosen < len(tally.arms) and tally.arms[chosen].is_active):
            raise ContractError(f"the policy chose arm {chosen}, which is none that is shown")
        arm, probability = arm_shown(
            chosen, tally.active, turn.floor, uniform_of(turn.seed, number)
        )
        turn.add(Decided(number, user, arm, chosen, probability, tally.model, turn.now))
        shown = tally.arms[arm].name
        return Decision(turn.ids.id_of(number), name, shown, probability, tally.model)


def arm_shown(chosen: int, active: list[int], floor: float, uniform: float) -> tuple[int, float]:
    """Return the arm that is shown where each active arm must be now and then, and how likely.

    >>> arm_shown(2, [0, 2, 5], 0.1, 0.5), arm_shown(2, [0, 2, 5], 0.1, 0.95)
    ((2, 0.8), (5, 0.1))
    """
    others = [arm for arm in active if arm != chosen]
    as_chosen = 1.0 - len(others) * floor
    if uniform < as_chosen or not others:
        return chosen, as_chosen
    place = min(int((uniform - as_chosen) / floor), len(others) - 1)
    return others[place], floor


@frozen
class Reward(_Plain):
    """Take note of rewards: all of them, or none."""

    rewards: Sequence[tuple[str, int, float]]
    """Id and number of each decision, and its reward."""

    @property
    def size(self) -> int:
        """How many rewards."""
        return len(self.rewards)

    def numbers(self) -> Iterable[int]:
        """Return the decisions."""
        return [number for _, number, _ in self.rewards]

    def run(self, turn: OpenTurn) -> list[RewardAnswer]:
        """Check all rewards, then take note of them."""
        answers: list[RewardAnswer] = []
        new: dict[int, float] = {}
        for place, (decision, number, value) in enumerate(self.rewards):
            where = f"rewards[{place}]: " if len(self.rewards) > 1 else ""
            known = turn.decisions[number]
            if known is None:
                raise unknown_decision(decision, where)
            before = new.get(number, None if known[1] is None else known[1].value)
            if before is None:
                new[number] = value
                answers.append("late" if number < turn.follower.tally.settled else "noted")
            elif before == value:
                answers.append("duplicate")
            else:
                raise ContradictionError(
                    f"{where}the reward of decision {quoted(decision)} is {before:g}, and cannot"
                    f" be {value:g} as well"
                )
        for number, value in new.items():
            is_late = number < turn.follower.tally.settled
            event = Rewarded(number, value, turn.now, is_late)
            found = turn.decisions[number]
            assert found is not None
            turn.decisions[number] = found[0], event
            turn.add(event)
        return answers


@frozen
class AddArm(_Plain):
    """Add an arm."""

    name: str

    def run(self, turn: OpenTurn) -> int:
        """Add it; return its number."""
        check_arm_name(self.name)
        tally = turn.follower.tally
        for arm in tally.arms:
            if arm.name == self.name:
                was = "" if arm.is_active else ", which was retired: give the new one another name"
                raise InvalidValueError(f"there is an arm {quoted(self.name)}{was}")
        if len(tally.arms) == MAX_ARMS:
            raise InvalidValueError(f"there are {MAX_ARMS:,} arms, which is the most")
        wrong = floor_mistake(turn.floor, len(tally.active) + 1)
        if wrong is not None:
            raise InvalidValueError(f"{wrong}: lower the floor")
        number = len(tally.arms)
        turn.add(ArmAdded(number, self.name, turn.now))
        return number


@frozen
class RetireArm(_Plain):
    """Retire an arm."""

    name: str

    def run(self, turn: OpenTurn) -> None:
        """Retire it."""
        tally = turn.follower.tally
        names = [arm.name for arm in tally.arms]
        if self.name not in names:
            hint = did_you_mean(str(self.name), names)
            raise UnknownNameError(
                f"no arm is called {quoted(self.name)}.{hint} Arms: {listed(names)}"
            )
        number = names.index(self.name)
        if not tally.arms[number].is_active:
            raise InvalidValueError(f"arm {quoted(self.name)} was retired before")
        if len(tally.active) == 1:
            raise InvalidValueError(f"arm {quoted(self.name)} is the only one left")
        turn.add(ArmRetired(number, turn.now))


@frozen
class Forget(_Plain):
    """Forget the name of a user."""

    name: str

    def names(self) -> Iterable[str]:
        """Return the user."""
        return (self.name,)

    def run(self, turn: OpenTurn) -> bool:
        """Remove the name; return whether there was one."""
        user = turn.users[self.name]
        if user is None:
            return False
        turn.users[self.name] = None
        turn.add(UserForgotten(user, turn.now))
        return True


@frozen
class ForgetUnseen(_Plain):
    """Forget the names of users who were not seen for long."""

    users: Sequence[int]
    read: int
    """How many events were looked at to find them."""

    def run(self, turn: OpenTurn) -> None:
        """Remove their names, but for users who came again since."""
        since = [*turn.journal.read(self.read), *turn.events]
        here = {event.user for event in since if isinstance(event, Decided | UserForgotten)}
        for user in self.users:
            if user not in here:
                turn.add(UserForgotten(user, turn.now))
        gone = set(self.users) - here
        turn.users = {name: None if user in gone else user for name, user in turn.users.items()}


@frozen
class Settle(_Plain):
    """Wait no more for rewards of decisions below a number."""

    before: int
    default: float | None

    def run(self, turn: OpenTurn) -> None:
        """Close their windows, unless somebody else has."""
        if self.before > turn.follower.tally.settled:
            turn.add(WindowsClosed(self.before, self.default, turn.now))


@frozen
class Publish(_Plain):
    """Make a model known."""

    model: ModelMade

    def run(self, turn: OpenTurn) -> bool:
        """Publish it, if it follows on the newest; return whether it does."""
        if self.model.number != len(turn.follower.tally.models):
            return False
        turn.add(self.model)
        return True


AnyRequest: TypeAlias = (
    Decide | Reward | AddArm | RetireArm | Forget | ForgetUnseen | Settle | Publish
)
"""Anything that is done in a turn."""
