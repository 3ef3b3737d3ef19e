"""The thread that owns a session's journal: all that waits is done in one turn, made durable once.

Nobody is answered before the turn has ended. If it does not end well, nothing of it happened: what
was in memory is thrown away and made anew from the journal, at the next request.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, cast

from attrs import define, field

from bdes_framework._internal.text import error_text
from bdes_framework.errors import (
    BdesError,
    ContractError,
    ContradictionError,
    InvalidValueError,
    JournalError,
    UnknownNameError,
)
from bdes_framework.interfaces import (
    ChangesArms,
    ChoosesApart,
    CrowdPolicy,
    HasHolder,
    Journal,
    LearnsApart,
)
from bdes_framework.live.config import LiveSetup, floor_mistake
from bdes_framework.live.header import Header
from bdes_framework.live.ids import DecisionIds
from bdes_framework.live.players import WholePlayer, warm_up
from bdes_framework.live.requests import (
    AnyRequest,
    Decide,
    OpenTurn,
    Reward,
    Settle,
)
from bdes_framework.live.state import State, new_policy, read_state
from bdes_framework.model.events import ArmAdded

MOST_TOGETHER = 512
"""Requests of one turn."""
MOST_ENTRIES = 2_000
"""Users and rewards of them: who comes next waits for all of these."""
_IDLE = 0.5
"""Seconds after which a writer without requests looks for what others did, and closes windows."""
_KEPT_WAITS = 4096
_MINUTE = 60
_LESS = "the journal has fewer events than it had, as after a backup was restored; it is read anew"

Look: TypeAlias = Callable[[State], object]
"""Something that looks at a session's state between two turns."""


@define
class Waiting:
    """A request, and who waits for its result."""

    request: AnyRequest | Look
    future: "Future[Any]"
    since: float = field(factory=time.perf_counter)


@define
class Counts:
    """What one process did lately."""

    waits: deque[float] = field(factory=lambda: deque(maxlen=_KEPT_WAITS))
    """Seconds from request to answer, of decisions."""
    seconds: deque[tuple[int, list[int]]] = field(factory=lambda: deque(maxlen=_MINUTE))
    """Of the last seconds in which there was anything: decisions and rewards."""

    def add(self, now: float, decisions: int, rewards: int) -> None:
        """Count decisions and rewards."""
        second = int(now)
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append((second, [0, 0]))
        counted = self.seconds[-1][1]
        counted[0] += decisions
        counted[1] += rewards

    def per_second(self) -> tuple[float, float]:
        """Return decisions and rewards a second in the last minute."""
        now = time.time()
        late = [counted for second, counted in list(self.seconds) if now - _MINUTE < second <= now]
        return sum(c[0] for c in late) / _MINUTE, sum(c[1] for c in late) / _MINUTE


class Writer:
    """Owns the journal; handles requests in turns, in a thread of its own."""

    def __init__(self, setup: LiveSetup) -> None:
        self.setup = setup
        self.counts = Counts()
        self.is_ready = threading.Event()
        """Set as soon as decisions can be made."""
        self.news = threading.Event()
        """Set when something happened that a learner wants to know."""
        self.trouble: str | None = None
        """Why the journal cannot be used at the moment."""
        self._is_refusing = False
        """Whether the last turn failed, and not only a look."""
        self.header: Header
        self.has_changing_arms = False
        self.learns_apart = False
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._held: list[Waiting] = []
        """Requests that come before the first model."""
        self._state: State | None = None
        self._settles_at = 0.0
        self._is_closed = False
        self._lock = threading.Lock()
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="bdes-live-writer", daemon=True)

    def open(self) -> None:
        """Open the journal, or raise; goes on loading in its own thread."""
        self._thread.start()
        self._opened.result()

    def close(self) -> None:
        """Do what was asked for before, and let go of the journal."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._queue.put(None)
        self._thread.join()

    def submit(self, request: AnyRequest | Look) -> "Future[Any]":
        """Ask for something to be done; returns at once."""
        future: Future[Any] = Future()
        with self._lock:
            if self._is_closed:
                raise InvalidValueError("this session is closed")
            self._queue.put(Waiting(request, future))
        return future

    def new_policy(self) -> CrowdPolicy:
        """Build the policy as the journal says; every time the same."""
        return new_policy(self.setup, self.header)

    def new_journal(self) -> Journal:
        """Return another object for the same journal, which is not open."""
        return self.setup.plugins.journal(self.setup.journal)

    # -- in the writer's thread -----------------------------------------------------------

    def _run(self) -> None:
        try:
            self._journal = self._open_journal()
        except BaseException as error:
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        try:
            warm_up(self.new_policy())
        except Exception as error:  # those who wait for a decision are told the same
            self.trouble = f"the policy raised {error_text(error)}"
        self._check_ready()
        while (waiting := self._gather()) is not None:
            self._handle(waiting)
        for one in self._held:
            one.future.set_exception(InvalidValueError("the session was closed before it decided"))
        self._journal.close()

    def _open_journal(self) -> Journal:
        journal, made = self.new_journal(), Header.new(self.setup)
        try:
            self._created_or_opened(journal, made)
            if not journal.claim("owner"):
                who = journal.holder("owner") if isinstance(journal, HasHolder) else None
                raise JournalError(f"the journal is used by {who or 'another process'}")
            policy = self.new_policy()
            if self.setup.config.floor > 0 and not isinstance(policy, ChoosesApart):
                raise InvalidValueError(
                    "this policy cannot show another arm than it asks for, so there can be no"
                    " smallest probability: set floor = 0"
                )
            self._name_first_arms(journal)
            self._state = self._build(journal)
            self.has_changing_arms = isinstance(policy, ChangesArms)
            self.learns_apart = isinstance(policy, LearnsApart)
        except BaseException:
            journal.close()
            raise
        return journal

    def _created_or_opened(self, journal: Journal, made: Header) -> None:
        try:
            journal.create(made.text)
            self.header = made
        except JournalError as refused:
            try:
                self.header = Header.read(journal.open())
            except JournalError as error:
                raise error from refused
            self.header.check(self.setup)

    def _name_first_arms(self, journal: Journal) -> None:
        """Let the journal begin with its first arms."""
        if journal.count() == 0:
            with journal.turn() as turn:
                if turn.n_events == 0:
                    now = time.time()
                    arms = enumerate(self.header.arms)
                    turn.append([ArmAdded(number, name, now) for number, name in arms])

    def _build(self, journal: Journal) -> State:
        """Make the state anew from the journal."""
        state = read_state(self.setup, self.header, journal)
        wrong = floor_mistake(self.setup.config.floor, len(state.tally.active))
        if wrong is not None:
            raise InvalidValueError(f"floor: {wrong}")
        return state

    def _gather(self) -> list[Waiting] | None:
        """Return what waits; None when it is closed and all is done."""
        found: list[Waiting] = []
        entries = 0
        try:
            one = self._queue.get(timeout=_IDLE)
            while one is not None:
                if one.future.set_running_or_notify_cancel():
                    found.append(one)
                    entries += 1 if callable(one.request) else one.request.size
                if len(found) == MOST_TOGETHER or entries >= MOST_ENTRIES:
                    return found
                one = self._queue.get_nowait()
        except queue.Empty:
            return found
        if found:
            self._queue.put(None)
            return found
        return None

    def _handle(self, waiting: list[Waiting]) -> None:
        """Do what waits, in one turn; look at the state after it."""
        todo: list[Waiting] = []
        try:
            if self._state is None:
                self._state = self._build(self._journal)
            waiting = self._now_possible(waiting)
            todo = [one for one in waiting if not callable(one.request)]
            settle = self._settlement()
            if settle is not None:
                todo.append(Waiting(settle, Future()))
            if not todo:
                self._catch_up(self._state)
            results = self._do(self._state, todo) if todo else []
            if todo or not self._is_refusing:  # a full disk can be read: that proves nothing
                self.trouble, self._is_refusing = None, False
        except BaseException as error:
            failure = _failure(error)
            self.trouble, self._is_refusing = str(failure), self._is_refusing or bool(todo)
            for one in waiting:
                one.future.set_exception(failure)
            return
        self._answer(results)
        for one in waiting:
            if callable(one.request):
                _resolve(one.future, partial(one.request, self._state))
        self._check_ready()

    def _catch_up(self, state: State) -> None:
        """Read what other processes appended."""
        if self._journal.count() > state.tally.n_events:
            self._state = None  # until all was read
            state.follower.follow(self._journal.read(state.tally.n_events))
            self._state = state
            self.news.set()

    def _now_possible(self, waiting: list[Waiting]) -> list[Waiting]:
        """Return the requests that can be done now; decisions wait for the first model."""
        if self.is_ready.is_set():
            held, self._held = self._held, []
            return held + waiting
        self._held += [one for one in waiting if isinstance(one.request, Decide)]
        return [one for one in waiting if not isinstance(one.request, Decide)]

    def _check_ready(self) -> None:
        state = self._state
        if state is not None and (isinstance(state.player, WholePlayer) or state.tally.models):
            self.is_ready.set()

    def _do(self, state: State, todo: list[Waiting]) -> list[tuple[Waiting, Any, bool]]:
        """Do requests in one turn; return each with its result, and whether that is an error."""
        results: list[tuple[Waiting, Any, bool]] = []
        with self._journal.turn() as turn:
            self._state = None  # until the turn has ended well
            if turn.n_events < state.tally.n_events:
                raise JournalError(_LESS, is_passing=True)
            if turn.n_events > state.tally.n_events:
                state.follower.follow(self._journal.read(state.tally.n_events, turn.n_events))
            opened = self._open_turn(state, [cast(AnyRequest, one.request) for one in todo])
            for one in todo:
                try:
                    results.append((one, cast(AnyRequest, one.request).run(opened), False))
                except (InvalidValueError, UnknownNameError, ContradictionError) as error:
                    results.append((one, error, True))
            if opened.events:
                turn.append(opened.events)
        self._state = state
        if opened.events:
            self.news.set()
        return results

    def _open_turn(self, state: State, requests: list[AnyRequest]) -> OpenTurn:
        names = list(dict.fromkeys(name for one in requests for name in one.names()))
        numbers = list(dict.fromkeys(number for one in requests for number in one.numbers()))
        users = self._journal.find_users(names) if names else []
        decisions = self._journal.find_decisions(numbers) if numbers else []
        return OpenTurn(
            follower=state.follower,
            player=state.player,
            journal=self._journal,
            ids=DecisionIds(self.header.secret),
            seed=self.header.seed,
            floor=self.setup.config.floor,
            now=time.time(),
            users=dict(zip(names, users, strict=True)),
            decisions=dict(zip(numbers, decisions, strict=True)),
        )

    def _answer(self, results: list[tuple[Waiting, Any, bool]]) -> None:
        """Count, and answer all who wait."""
        now, decisions, rewards = time.perf_counter(), 0, 0
        for one, result, is_error in results:
            if not is_error and isinstance(one.request, Decide):
                decisions += len(result)
                self.counts.waits.append(now - one.since)
            elif not is_error and isinstance(one.request, Reward):
                rewards += len(result)
        if decisions or rewards:
            self.counts.add(time.time(), decisions, rewards)
        for one, result, is_error in results:
            if is_error:
                one.future.set_exception(result)
            else:
                one.future.set_result(result)

    def _settlement(self) -> Settle | None:
        """Return what closes the windows that are over; looks for them now and then only."""
        now, config = time.time(), self.setup.config
        if now < self._settles_at or self._state is None:
            return None
        self._settles_at = now + min(max(config.window_seconds / 60, 1.0), 60.0)
        tally = self._state.tally
        low, high = tally.settled, tally.n_decisions
        while low < high:
            middle = (low + high) // 2
            (found,) = self._journal.find_decisions([middle])
            if found is not None and found[0].time <= now - config.window_seconds:
                low = middle + 1
            else:
                high = middle
        return Settle(low, config.settled_as) if low > tally.settled else None


def _failure(error: BaseException) -> BdesError:
    """Return what all who wait are told when a turn fails; who asked wrongly was told before."""
    found: BdesError
    if isinstance(error, InvalidValueError):
        found = JournalError(f"the journal refused what happened: {error}", is_passing=True)
    elif isinstance(error, BdesError):
        return error
    else:
        found = ContractError(f"the policy raised {error_text(error)}")
    found.__cause__ = error
    return found


def _resolve(future: "Future[Any]", make: Callable[[], object]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:
        future.set_exception(error)
