"""Deciding and learning again what a journal says was decided and learned."""

import hashlib
from collections.abc import Callable
from itertools import islice

from attrs import frozen

from bdes_framework._version import __version__
from bdes_framework.interfaces import Journal, LearnsApart
from bdes_framework.live.config import LiveSetup
from bdes_framework.live.follower import Follower
from bdes_framework.live.header import Header
from bdes_framework.live.ids import uniform_of
from bdes_framework.live.learning import LearningState
from bdes_framework.live.players import player_of
from bdes_framework.live.requests import arm_shown
from bdes_framework.live.state import new_policy
from bdes_framework.live.tally import Tally
from bdes_framework.model.events import Decided, ModelMade

_TOLD_EVERY = 10_000


@frozen
class ReplayReport:
    """What came of a replay.

    Parameters
    ----------
    events, decisions, models : int
        How many were gone through, all of them the same if there is no difference.
    difference : str | None
        The first thing that is not as the journal has it.
    """

    events: int
    decisions: int
    models: int
    difference: str | None

    @property
    def is_same(self) -> bool:
        """Whether everything was decided and learned again as it was."""
        return self.difference is None


def replay_live(
    setup: LiveSetup, journal: Journal, told: Callable[[int, int], object] = lambda done, n: None
) -> ReplayReport:
    """Recompute every decision and every model of an open journal, up to the first difference.

    ``told`` is called now and then with how many events are done, and how many there are.
    """
    header = Header.read(journal.open())
    return _Replay(setup, header, journal).run(told)


class _Replay:
    """A decider that goes through the journal, and a learner that goes after it."""

    def __init__(self, setup: LiveSetup, header: Header, journal: Journal) -> None:
        self._header, self._journal = header, journal
        policy, n_first = new_policy(setup, header), len(header.arms)
        self._player = player_of(policy)
        self._follower = Follower(self._player, Tally(), n_first)
        self._learning: LearningState | None = None
        if isinstance(policy, LearnsApart):
            self._learning = LearningState.begun(header, new_policy(setup, header))
        self._models = 0

    def run(self, told: Callable[[int, int], object]) -> ReplayReport:
        """Go through all events there are now."""
        n = self._journal.count()
        for place, event in enumerate(self._journal.read(0, n)):
            if place % _TOLD_EVERY == 0:
                told(place, n)
            difference = None
            if isinstance(event, Decided):
                difference = self._decided(event)
            elif isinstance(event, ModelMade):
                data = self._learned(event)
                difference = self._other_model(event, data)
                event = event._replace(data=data)
            if difference is not None:
                return self._report(f"event {place:,}: {difference}")
            self._follower.follow((event,))
        return self._report(None)

    def _report(self, difference: str | None) -> ReplayReport:
        tally = self._follower.tally
        return ReplayReport(tally.n_events, tally.n_decisions, self._models, difference)

    def _decided(self, event: Decided) -> str | None:
        """Decide again; return what is not the same."""
        tally = self._follower.tally
        where = f"decision {event.number:,}, of user {event.user}"
        if (event.number, event.model) != (tally.n_decisions, tally.model):
            return (
                f"{where}, model {event.model}: by the events before, it is decision"
                f" {tally.n_decisions:,}, and model {tally.model} is the newest"
            )
        chosen = self._player.choose(event.user)
        if chosen != event.chosen:
            return f"{where}: the policy chose arm {event.chosen}, now it chooses {chosen}"
        active, likely = tally.active, event.probability
        uniform = uniform_of(self._header.seed, event.number)
        if event.arm == event.chosen:
            is_same = uniform < likely or len(active) == 1
        else:
            is_same = arm_shown(chosen, active, likely, uniform) == (event.arm, likely)
        if not is_same:
            return (
                f"{where}: arm {event.arm} was shown in the place of arm {chosen}, or not, with"
                f" probability {likely:g}, but its random number is {uniform:g}"
            )
        return None

    def _learned(self, event: ModelMade) -> bytes:
        """Make a model again, of the events that it was made from."""
        assert self._learning is not None
        read = self._learning.tally.n_events
        # Read anew, as the learner did: it was behind the decisions, or ahead of them, never both.
        events = self._journal.read(read, event.read)
        self._learning.follower.follow(islice(events, event.read - read))
        return self._learning.learned()

    def _other_model(self, event: ModelMade, data: bytes) -> str | None:
        """Return how a model differs from that of the journal."""
        digest = hashlib.sha256(data).hexdigest()
        if digest != event.digest:
            version = "" if event.version == __version__ else f", of version {event.version}"
            return (
                f"model {event.number}{version}, made of the first {event.read:,} events: its"
                f" SHA-256 was {event.digest[:16]}…, now it is {digest[:16]}…"
            )
        self._models += 1
        return None
