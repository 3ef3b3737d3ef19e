"""A session's state: what a policy and its numbers are after the events of a journal."""

from attrs import define

from bdes_framework.interfaces import CrowdPolicy, Journal
from bdes_framework.live.config import LiveSetup
from bdes_framework.live.follower import Follower
from bdes_framework.live.header import Header
from bdes_framework.live.players import DeciderPlayer, WholePlayer, change_arms, player_of
from bdes_framework.live.tally import Snapshot, Tally


@define
class State:
    """What the journal says."""

    follower: Follower
    player: DeciderPlayer | WholePlayer

    @property
    def tally(self) -> Tally:
        """What was counted."""
        return self.follower.tally


def new_policy(setup: LiveSetup, header: Header) -> CrowdPolicy:
    """Build the policy of a journal; every time the same."""
    return setup.plugins.crowd_policy(setup.policy, header.problem, seed=header.seed)


def read_state(setup: LiveSetup, header: Header, journal: Journal) -> State:
    """Return the state after all events: from the newest model, and the events it has not read."""
    player, n_first = player_of(new_policy(setup, header)), len(header.arms)
    tally = Tally()
    newest = journal.newest_model() if isinstance(player, DeciderPlayer) else None
    data = None if newest is None else newest[1].data
    if data is not None:
        tally = Snapshot.read(data).tally
        change_arms(player, tally, n_first)
    state = State(Follower(player, tally, n_first), player)
    if data is not None:
        state.follower.adopt(data)
    state.follower.follow(journal.read(tally.n_events))
    return state
