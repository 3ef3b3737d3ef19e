"""The thread that learns: reads the journal, makes models when they are due, has them published.

It has a journal object and a policy of its own, so that deciding never waits for it. Of several
processes that serve one journal, the one that gets the claim "learner" learns.
"""

import hashlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

from attrs import define

from bdes_framework._internal.text import error_text
from bdes_framework._internal.threads import one_thread
from bdes_framework._version import __version__
from bdes_framework.errors import BdesError, ContractError
from bdes_framework.interfaces import CrowdPolicy, Journal, LearnsApart
from bdes_framework.live.follower import Follower
from bdes_framework.live.header import Header
from bdes_framework.live.pace import ReadingEndedError, unhurried
from bdes_framework.live.players import LearnerPlayer
from bdes_framework.live.requests import Publish
from bdes_framework.live.tally import Snapshot, Tally
from bdes_framework.model.events import Event, ModelMade

_PAUSE = 0.05
"""Seconds between two looks at what is new."""
_RETRY = 1.0
_LONGEST_PAUSE = 60.0
"""To begin again, all events are read: what goes wrong every time is not tried every second."""
_PATIENCE = 5.0
"""Seconds that a model being made is waited for at the end."""


class Publisher(Protocol):
    """Where models go, and what they are made with: a writer."""

    header: Header
    news: threading.Event

    def new_policy(self) -> CrowdPolicy:
        """Build the policy."""

    def new_journal(self) -> Journal:
        """Return a journal object that is not open."""

    def submit(self, request: Publish) -> "Future[Any]":
        """Have a model published."""


@define
class LearningState:
    """A learner, and what it was told so far."""

    player: LearnerPlayer
    follower: Follower

    @classmethod
    def begun(cls, header: Header, policy: CrowdPolicy) -> "LearningState":
        """Return the state before the first event."""
        assert isinstance(policy, LearnsApart)
        player = LearnerPlayer(policy.learner)
        return cls(player, Follower(player, Tally(with_users=False), len(header.arms)))

    @property
    def tally(self) -> Tally:
        """What was counted."""
        return self.follower.tally

    def learned(self) -> bytes:
        """Make the next model; return it as a journal keeps it, with the tally it belongs to."""
        with one_thread():
            model = self.player.learner.learn()
        self.tally.visits.forget_before(self.tally.settled)
        return Snapshot(model, self.tally).data

    def resumed(self, data: bytes) -> None:
        """Go on as if this model had just been made of all that was told."""
        with one_thread():
            self.player.learner.resume(Snapshot.read(data).model)


class LearnerThread:
    """Learns beside a writer until it is closed."""

    def __init__(self, writer: Publisher) -> None:
        self._writer = writer
        self._closing = threading.Event()
        self.trouble: str | None = None
        """Why nothing is learned at the moment."""
        self.is_learner = False
        """Whether this process is the one that learns."""
        self._pause = _RETRY
        self._thread = threading.Thread(target=self._run, name="bdes-live-learner", daemon=True)

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def close(self) -> None:
        """End, most likely at once; a model that takes long to make is left alone, and lost."""
        self._closing.set()
        self._writer.news.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._serve()
            except ReadingEndedError:
                return
            except BdesError as error:
                self.trouble = str(error)
            except Exception as error:
                self.trouble = error_text(ContractError(f"the policy raised {error_text(error)}"))
            self.is_learner = False
            self._closing.wait(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _serve(self) -> None:
        """Learn until something goes wrong, or another process has published a model."""
        journal = self._writer.new_journal()
        try:
            journal.open()
            while not journal.claim("learner"):
                self.trouble = None  # another process learns
                if self._closing.wait(_RETRY):
                    return
            self.is_learner = True
            state = LearningState.begun(self._writer.header, self._writer.new_policy())
            newest = journal.newest_model()
            if newest is not None:
                place, model = newest
                assert model.data is not None
                state.follower.follow(self._unread(journal, 0, model.read))
                state.resumed(model.data)
                state.follower.follow(self._unread(journal, model.read, place + 1))
            while not self._closing.is_set() and self._step(journal, state):
                pass
        finally:
            journal.close()

    def _unread(self, journal: Journal, start: int, stop: int | None = None) -> Iterator[Event]:
        return unhurried(journal.read(start, stop), self._closing)

    def _step(self, journal: Journal, state: LearningState) -> bool:
        """Read what is new, make a model if one is due; return whether it was taken."""
        self._writer.news.clear()
        if journal.count() < state.tally.n_events:  # a backup was restored
            return False
        state.follower.follow(self._unread(journal, state.tally.n_events))
        self.trouble, self._pause = None, _RETRY
        if state.player.learner.is_due:
            read = state.tally.n_events
            data = state.learned()
            model = ModelMade(
                number=len(state.tally.models),
                read=read,
                digest=hashlib.sha256(data).hexdigest(),
                data=data,
                version=__version__,
                time=time.time(),
            )
            published: bool = self._writer.submit(Publish(model)).result()
            if not published:
                return False
            # Its own event is met before the next model is made, which is numbered by it.
            state.follower.follow(self._unread(journal, state.tally.n_events))
            return True
        self._writer.news.wait(_RETRY)
        self._closing.wait(_PAUSE)
        return True
