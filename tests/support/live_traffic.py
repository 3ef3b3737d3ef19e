"""Traffic for a live service that is killed: what it acknowledged, to be found in its journal."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

from attrs import define, field

import bdes_framework as bdes
from bdes_framework.live import Client
from bdes_framework.live.config import load_live
from bdes_framework.live.decision import Decision
from tests.support.command import bdes as command


@define
class Traffic:
    """Threads that decide and reward until they are told to stop, or the service is gone."""

    address: str
    seed: int
    n_threads: int = 4
    decisions: list[Decision] = field(factory=list)
    rewards: dict[str, float] = field(factory=dict)
    unsure_decisions: int = 0
    """Decisions asked for whose answer got lost."""
    unsure_rewards: dict[str, float] = field(factory=dict)
    refused: int = 0
    """Requests of which the service said that nothing was noted."""
    _lock: threading.Lock = field(factory=threading.Lock)
    _stop: threading.Event = field(factory=threading.Event)
    _threads: list[threading.Thread] = field(factory=list)

    def start(self) -> None:
        """Begin, or go on."""
        self.seed += 1
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._shop, args=(random.Random(f"{self.seed} {i}"),))
            for i in range(self.n_threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let all threads end what they are doing."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def run_until(self, n_more: int, seconds: float = 120) -> None:
        """Wait for so many more decisions."""
        goal, deadline = len(self.decisions) + n_more, time.monotonic() + seconds
        while len(self.decisions) < goal:
            assert time.monotonic() < deadline, "the service decides no more"
            time.sleep(0.005)

    def _shop(self, rng: random.Random) -> None:
        with Client(self.address, retries=0, timeout=60) as client:
            while not self._stop.is_set():
                try:
                    shown = self._decide(client, rng)
                    self._reward(client, rng, shown)
                except bdes.JournalError:
                    with self._lock:
                        self.refused += 1
                    time.sleep(0.02)
                except bdes.ServiceError:
                    return

    def _decide(self, client: Client, rng: random.Random) -> list[Decision]:
        users = [f"user {rng.randrange(40)}" for _ in range(rng.choice([1, 1, 1, 5]))]
        try:
            shown = client.decide_many(users) if len(users) > 1 else [client.decide(users[0])]
        except bdes.ServiceError as error:
            if "nothing was sent" not in str(error):
                with self._lock:
                    self.unsure_decisions += len(users)
            raise
        with self._lock:
            self.decisions += shown
        return shown

    def _reward(self, client: Client, rng: random.Random, shown: list[Decision]) -> None:
        told = {each.id: float(rng.random() < 0.4) for each in shown if rng.random() < 0.7}
        if not told:
            return
        try:
            client.reward_many([*told.items()])
        except bdes.ServiceError:
            with self._lock:
                self.unsure_rewards |= told
            raise
        with self._lock:
            self.rewards |= told

    def check(self, folder: Path) -> None:
        """Check that the journal has what was acknowledged, once, and that a replay agrees."""
        setup = load_live(folder)
        journal = setup.plugins.journal(setup.journal)
        journal.open()
        try:
            events = [*journal.read()]
        finally:
            journal.close()
        names = {event.user: event.name for event in events if isinstance(event, bdes.NewUser)}
        arms = [event.name for event in events if isinstance(event, bdes.ArmAdded)]
        decided = [event for event in events if isinstance(event, bdes.Decided)]
        rewarded = [event for event in events if isinstance(event, bdes.Rewarded)]
        assert [event.number for event in decided] == [*range(len(decided))]
        known = {number_of(each.id): each for each in self.decisions}
        assert len(known) == len(self.decisions)
        for number, shown in known.items():
            event = decided[number]
            assert names[event.user] == shown.user
            assert arms[event.arm] == shown.arm
            assert (event.probability, event.model) == (shown.probability, shown.model)
        assert 0 <= len(decided) - len(known) <= self.unsure_decisions
        assert max(Counter(event.decision for event in rewarded).values(), default=1) == 1
        values = {event.decision: event.value for event in rewarded}
        told = {number_of(decision): value for decision, value in self.rewards.items()}
        assert told.items() <= values.items()
        maybe = {number_of(decision): value for decision, value in self.unsure_rewards.items()}
        assert values.items() <= {**maybe, **told}.items()
        replayed = command("live", "replay", str(folder))
        assert (replayed.returncode, replayed.stderr) == (0, ""), replayed.stdout
        assert f"all {len(decided):,} decision" in replayed.stdout


def number_of(decision: str) -> int:
    """Return the number of a decision, by its id."""
    return int(decision.partition("-")[0], 36)
