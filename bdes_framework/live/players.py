"""The policy as a session plays it: choosing, and taking note of what the journal says.

A policy that learns apart is played by its decider, which models are given to. Any other is played
whole, one event at a time: so live, after a restart and in a replay it is asked and told the same.
"""

from typing import Protocol

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework._internal.text import quoted
from bdes_framework._internal.threads import one_thread
from bdes_framework.errors import ContractError
from bdes_framework.interfaces import (
    ChangesArms,
    ChoosesApart,
    CrowdDecider,
    CrowdEstimates,
    CrowdLearner,
    CrowdPolicy,
    HasUserStates,
    LearnsApart,
)
from bdes_framework.live.tally import RecentVisits, Tally


class Player(Protocol):
    """What is told of decisions, rewards and arms, in the order of the journal."""

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note decisions and what was shown."""

    def tell(self, decisions: IntArray, rewards: FloatArray) -> None:
        """Note rewards."""

    def add_arm(self) -> None:
        """Add an arm."""

    def retire_arm(self, arm: int) -> None:
        """Retire an arm."""


class ChoosingPlayer(Player, Protocol):
    """A player that also says what to show."""

    def choose(self, user: int) -> int:
        """Return the arm that the policy wants to show: once, right before it is shown."""

    def estimates(self) -> CrowdEstimates | None:
        """Return what the arms are taken for; None if nobody says."""

    def user_states(self) -> FloatArray | None:
        """Return the state of every user; None if nobody says."""


def player_of(policy: CrowdPolicy) -> "DeciderPlayer | WholePlayer":
    """Return who decides for a policy."""
    return DeciderPlayer(policy.decider) if isinstance(policy, LearnsApart) else WholePlayer(policy)


class DeciderPlayer:
    """Plays the half of a policy that decides."""

    def __init__(self, decider: CrowdDecider) -> None:
        self._decider = decider
        self._has_model = False

    def choose(self, user: int) -> int:
        """Return the arm that the decider wants to show."""
        return _only_arm(self._decider.choose(np.array([user], dtype=np.int64)))

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note decisions and what was shown, once there is a model to see them by."""
        if self._has_model:
            self._decider.show(users, arms)

    def tell(self, decisions: IntArray, rewards: FloatArray) -> None:
        """Leave rewards to the half that learns."""

    def add_arm(self) -> None:
        """Add an arm."""
        self._decider.add_arm()

    def retire_arm(self, arm: int) -> None:
        """Retire an arm."""
        self._decider.retire_arm(arm)

    def adopt(self, model: bytes, visits: RecentVisits, read: int) -> None:
        """Decide by a model that has read so many decisions; show it those since."""
        self._decider.adopt(model)
        self._has_model = True
        users, arms = visits.since(read)
        if users.size:
            self._decider.show(users, arms)

    def estimates(self) -> CrowdEstimates | None:
        """Return what the newest model takes the arms for."""
        return self._decider.estimates() if self._has_model else None

    def user_states(self) -> FloatArray | None:
        """Return the state of every user, if the decider knows it."""
        if self._has_model and isinstance(self._decider, HasUserStates):
            return self._decider.user_states()
        return None


class WholePlayer:
    """Plays a policy that decides and learns by turns."""

    def __init__(self, policy: CrowdPolicy) -> None:
        self._policy = policy
        self._wanted: tuple[int, int] | None = None
        """User and arm of what was chosen last, until it is shown."""

    def choose(self, user: int) -> int:
        """Return the arm that the policy wants to show."""
        users = np.array([user], dtype=np.int64)
        policy = self._policy
        arms = policy.choose(users) if isinstance(policy, ChoosesApart) else policy.ask(users)
        arm = _only_arm(arms)
        self._wanted = user, arm
        return arm

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note decisions, one by one; a policy that is only asked must answer as it did."""
        for place, shown in enumerate(zip(users.tolist(), arms.tolist(), strict=True)):
            if self._wanted is None:
                self.choose(shown[0])
            wanted, self._wanted = self._wanted, None
            if isinstance(self._policy, ChoosesApart):
                self._policy.show(users[place : place + 1], arms[place : place + 1])
            elif wanted != shown:
                raise ContractError(
                    f"the journal says that user {shown[0]} was shown arm {shown[1]}, but asked"
                    f" again the policy says {quoted(wanted)}: it is no function of visits and"
                    " rewards, or its code has changed"
                )

    def tell(self, decisions: IntArray, rewards: FloatArray) -> None:
        """Tell the policy rewards, one by one."""
        for place in range(decisions.size):
            self._policy.tell(decisions[place : place + 1], rewards[place : place + 1])

    def add_arm(self) -> None:
        """Add an arm."""
        assert isinstance(self._policy, ChangesArms)
        self._policy.add_arm()

    def retire_arm(self, arm: int) -> None:
        """Retire an arm."""
        assert isinstance(self._policy, ChangesArms)
        self._policy.retire_arm(arm)

    def estimates(self) -> CrowdEstimates | None:
        """Return None: nobody asks such a policy what it takes its arms for."""
        return None

    def user_states(self) -> FloatArray | None:
        """Return None: such a policy need not know states."""
        return None


class LearnerPlayer:
    """Plays the half of a policy that learns."""

    def __init__(self, learner: CrowdLearner) -> None:
        self.learner = learner

    def show(self, users: IntArray, arms: IntArray) -> None:
        """Note decisions and what was shown."""
        self.learner.show(users, arms)

    def tell(self, decisions: IntArray, rewards: FloatArray) -> None:
        """Note rewards."""
        self.learner.tell(decisions, rewards)

    def add_arm(self) -> None:
        """Add an arm."""
        self.learner.add_arm()

    def retire_arm(self, arm: int) -> None:
        """Plan without an arm."""
        self.learner.retire_arm(arm)


def change_arms(player: Player, tally: Tally, n_first: int) -> None:
    """Tell a new player how arms have changed since the first ``n_first``."""
    for _ in range(n_first, len(tally.arms)):
        player.add_arm()
    for number, arm in enumerate(tally.arms):
        if not arm.is_active:
            player.retire_arm(number)


def _only_arm(arms: IntArray) -> int:
    return int(arms[0])


def warm_up(policy: CrowdPolicy) -> None:
    """Do once all that a policy does, so that it is compiled before anybody waits for it."""
    users, visits = np.array([0, 1, 0]), np.arange(3)
    if isinstance(policy, LearnsApart):
        learner, decider = policy.learner, policy.decider
        decider.adopt(learner.learn())
        arms = decider.choose(users)
        for half in (decider, learner):
            half.show(users, arms)
        learner.tell(visits, np.array([1.0, 0.0, 1.0]))
        with one_thread():
            data = learner.learn()
        learner.resume(data)
        decider.adopt(data)
        decider.estimates()
        return
    policy.ask(users)
    policy.tell(visits, np.array([1.0, 0.0, 1.0]))
