"""Following a journal: its events are told to a player, and counted, in order."""

from collections.abc import Iterable

import numpy as np
from attrs import define, field

from bdes_framework.live.players import DeciderPlayer, Player
from bdes_framework.live.tally import Snapshot, Tally
from bdes_framework.model.events import (
    ArmAdded,
    ArmRetired,
    Decided,
    Event,
    ModelMade,
    Rewarded,
    WindowsClosed,
)

_BLOCK = 4096


@define
class Follower:
    """A player, and the tally of the events it was told.

    Decisions and rewards are told in blocks: all that came before something else did.
    """

    player: Player
    tally: Tally
    n_first: int
    """How many arms the player was made with; the others are told it."""
    _users: list[int] = field(factory=list)
    _arms: list[int] = field(factory=list)
    _decisions: list[int] = field(factory=list)
    _rewards: list[float] = field(factory=list)

    def follow(self, events: Iterable[Event]) -> None:
        """Take note of the next events."""
        for event in events:
            self._take(event)
        self._tell_decisions()
        self._tell_rewards()

    def _take(self, event: Event) -> None:
        settled = self.tally.apply(event)
        match event:
            case Decided():
                self._tell_rewards()
                self._users.append(event.user)
                self._arms.append(event.arm)
                if len(self._users) == _BLOCK:
                    self._tell_decisions()
            case Rewarded():
                if not event.is_late:
                    self._tell_decisions()
                    self._decisions.append(event.decision)
                    self._rewards.append(event.value)
            case WindowsClosed():
                if settled is not None and event.default is not None:
                    self._tell_decisions()
                    self._decisions += settled.tolist()
                    self._rewards += [event.default] * settled.size
                if not isinstance(self.player, DeciderPlayer):  # which is shown visits again
                    self.tally.visits.forget_before(event.before)
            case ArmAdded() | ArmRetired() | ModelMade():
                self._tell_decisions()
                self._tell_rewards()
                self._change(event)
            case _:
                pass

    def _change(self, event: ArmAdded | ArmRetired | ModelMade) -> None:
        match event:
            case ArmAdded():
                if event.arm >= self.n_first:
                    self.player.add_arm()
            case ArmRetired():
                self.player.retire_arm(event.arm)
            case ModelMade():
                if isinstance(self.player, DeciderPlayer) and event.data is not None:
                    self.adopt(event.data)

    def adopt(self, data: bytes) -> None:
        """Let the decider go on by a model, and let go of decisions that it has read."""
        assert isinstance(self.player, DeciderPlayer)
        snapshot, visits = Snapshot.read(data), self.tally.visits
        read = snapshot.tally.n_decisions
        self.player.adopt(snapshot.model, visits, read)
        visits.forget_before(min(read, self.tally.settled))

    def _tell_decisions(self) -> None:
        if self._users:
            users, arms = np.array(self._users), np.array(self._arms)
            self._users, self._arms = [], []
            self.player.show(users, arms)

    def _tell_rewards(self) -> None:
        if self._decisions:
            decisions, rewards = np.array(self._decisions), np.array(self._rewards)
            self._decisions, self._rewards = [], []
            self.player.tell(decisions, rewards)
