"""A live learner: decides for people who are waiting, and learns of what becomes of it."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar, cast

from attrs import evolve

from bdes_framework._internal.display import shown_fields
from bdes_framework._internal.numbers import is_number
from bdes_framework._internal.text import quoted
from bdes_framework.errors import InvalidValueError, JournalError
from bdes_framework.interfaces import CrowdEstimates, Kind
from bdes_framework.live.config import LiveConfig, LiveSetup, check_arm_name, load_live
from bdes_framework.live.decision import Decision, RewardAnswer
from bdes_framework.live.ids import DecisionIds, check_user
from bdes_framework.live.learning import LearnerThread
from bdes_framework.live.requests import (
    AddArm,
    Decide,
    Forget,
    RetireArm,
    Reward,
)
from bdes_framework.live.retention import Keeper
from bdes_framework.live.state import State
from bdes_framework.live.status import (
    ArmStatus,
    LiveStatus,
    ProcessStatus,
    View,
    arms_of,
    status_of,
    view_of,
    waiting_of,
)
from bdes_framework.live.writer import Look, Writer
from bdes_framework.model.decision_table import DecisionTable
from bdes_framework.planning.lift import Lift
from bdes_framework.plugin.plugins import Plugins

MAX_BATCH = 1_000
"""Users, or rewards, of one call."""
T = TypeVar("T")


def open_live(folder: str | Path, *, plugins: Plugins | None = None) -> "LiveSession":
    """Open the live learner of a folder; its journal is made if there is none yet.

    Parameters
    ----------
    folder : str | Path
        With a ``live.toml``.
    plugins : Plugins | None
        By default what is installed, and what the file names.

    Raises
    ------
    ConfigError
        If the file is wrong, or is for another journal than the one that is there.
    JournalError
        If the journal cannot be used, as when another process has it.
    """
    return LiveSession(load_live(folder, plugins))


class LiveSession:
    """A live learner. All methods may be called from any thread.

    It can be used right away: decisions wait until the first model is there. Use it as a context
    manager, or close it.
    """

    def __init__(self, setup: LiveSetup) -> None:
        self.config: LiveConfig = setup.config
        self._setup = setup
        self._writer = Writer(setup)
        self._writer.open()
        self._ids = DecisionIds(self._writer.header.secret)
        self._learner: LearnerThread | None = None
        self._keeper: Keeper | None = None
        if self._writer.learns_apart:
            self._learner = LearnerThread(self._writer)
            self._learner.start()
        if self.config.retention_seconds is not None:
            self._keeper = Keeper(self._writer, self.config.retention_seconds)
            self._keeper.start()
        self._cache_lock = threading.Lock()
        self._cached: dict[str, tuple[object, object]] = {}

    def __repr__(self) -> str:
        return shown_fields("LiveSession", name=quoted(self.config.name), is_ready=self.is_ready)

    def __enter__(self) -> "LiveSession":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Do what was asked for before, and let go of the journal; closing twice is fine."""
        for thread in (self._keeper, self._learner):
            if thread is not None:
                thread.close()
        self._writer.close()

    # -- deciding and learning ------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether decisions are made at once: models are loaded, and loops compiled."""
        return self._writer.is_ready.is_set()

    def wait_until_ready(self, timeout: float | None = None) -> bool:
        """Wait until decisions are made at once; return whether they are."""
        return self._writer.is_ready.wait(timeout)

    def decide(self, user: str) -> Decision:
        """Return what to show to a user; it counts as shown."""
        return self.decide_many([user])[0]

    def decide_many(self, users: Sequence[str]) -> list[Decision]:
        """Return what to show to users, one after the other; at most 1,000 of them."""
        return self.submit_decide(users).result()

    def submit_decide(self, users: Sequence[str]) -> "Future[list[Decision]]":
        """Ask for decisions without waiting for them; wrong users are refused at once."""
        if isinstance(users, str):
            raise InvalidValueError(f"users are a list of texts, got {quoted(users)}")
        asked = list(users)
        _check_size("users", len(asked))
        for user in asked:
            check_user(user)
        return cast("Future[list[Decision]]", self._writer.submit(Decide(asked)))

    def reward(self, decision: str, value: float) -> RewardAnswer:
        """Take note of the reward of a decision, in [0, 1].

        The same reward again is fine. Raises ContradictionError if another is known already, and
        UnknownNameError if there was no such decision.
        """
        return self.reward_many([(decision, value)])[0]

    def reward_many(self, rewards: Sequence[tuple[str, float]]) -> list[RewardAnswer]:
        """Take note of rewards: of all, or of none if one is wrong; at most 1,000 of them."""
        return self.submit_reward(rewards).result()

    def submit_reward(self, rewards: Sequence[tuple[str, float]]) -> "Future[list[RewardAnswer]]":
        """Have rewards noted without waiting for it; what is no reward is refused at once."""
        asked = list(rewards)
        _check_size("rewards", len(asked))
        checked = []
        for place, (decision, value) in enumerate(asked):
            where = f"rewards[{place}]: " if len(asked) > 1 else ""
            if not is_number(value) or not 0 <= value <= 1:
                raise InvalidValueError(
                    f"{where}a reward is a number in [0, 1], got {quoted(value)}"
                )
            number = self._ids.number_of(decision, where)
            checked.append((decision, number, float(value) + 0.0))
        return cast("Future[list[RewardAnswer]]", self._writer.submit(Reward(checked)))

    def forget(self, user: str) -> bool:
        """Remove the name of a user; what was shown still counts. Return whether it was there."""
        check_user(user)
        found: bool = self._writer.submit(Forget(user)).result()
        return found

    # -- arms -----------------------------------------------------------------------------

    def arms(self) -> list[ArmStatus]:
        """Return all arms, retired ones too, and what is known of them."""
        return self._look(lambda state: list(arms_of(state.tally)))

    def add_arm(self, name: str) -> int:
        """Add an arm; return its number."""
        check_arm_name(name)
        self._check_changing()
        number: int = self._writer.submit(AddArm(name)).result()
        return number

    def retire_arm(self, name: str) -> None:
        """Show an arm no more; its rewards are still learned from."""
        check_arm_name(name)
        self._check_changing()
        self._writer.submit(RetireArm(name)).result()

    def _check_changing(self) -> None:
        if not self._writer.has_changing_arms:
            entry, _ = self._setup.plugins.resolve(Kind.CROWD_POLICY, self.config.policy)
            raise InvalidValueError(f"the arms of policy {entry.name!r} cannot change")

    # -- what people are told -------------------------------------------------------------

    def estimates(self) -> CrowdEstimates | None:
        """Return what the newest model takes the arms for; None if the policy does not say."""
        return self._look(lambda state: state.player.estimates())

    def table(self) -> DecisionTable | None:
        """Return the decision table that is best by the newest estimates, of the active arms.

        None if the policy has no estimates.
        """
        view = self._look(view_of)
        return None if view is None else self._table(view)

    def lift(self) -> Lift | None:
        """Return what the table earns over the best fixed arm, and over the traffic before.

        That is how often each arm was shown in the first 1,000 decisions. None if the policy has
        no estimates.
        """
        view = self._look(view_of)
        if view is None:
            return None
        table = self._table(view)
        return self._once("lift", (view.key, tuple(view.before)), partial(view.lift, table))

    def _table(self, view: View) -> DecisionTable:
        return self._once("table", view.key, partial(view.table, self._setup.plugins))

    def status(self) -> LiveStatus:
        """Return how it is doing: all that a person who watches wants to know."""
        writer, learner = self._writer, self._learner
        beside = (each.trouble for each in (learner, self._keeper) if each is not None)
        trouble = writer.trouble or next(filter(None, beside), None)
        process = ProcessStatus(
            is_ready=self.is_ready,
            is_learning=learner is None or learner.is_learner,
            trouble=trouble,
            rates=writer.counts.per_second(),
            waiting=waiting_of(writer.counts.waits),
        )
        try:
            return self._look(lambda state: status_of(self._setup, state, process))
        except JournalError as error:
            return status_of(self._setup, None, evolve(process, trouble=trouble or str(error)))

    def _look(self, look: Callable[[State], T]) -> T:
        return cast(T, self._writer.submit(cast(Look, look)).result())

    def _once(self, name: str, key: object, make: Callable[[], T]) -> T:
        """Return what was made for this key, or make it; one thread at a time."""
        with self._cache_lock:
            cached = self._cached.get(name)
            if cached is None or cached[0] != key:
                cached = self._cached[name] = key, make()
            return cast(T, cached[1])


def _check_size(what: str, n: int) -> None:
    if not 1 <= n <= MAX_BATCH:
        raise InvalidValueError(f"1 to {MAX_BATCH:,} {what} at a time, got {n:,}")
