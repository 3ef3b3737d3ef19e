"""A live session: what it answers, what it refuses, and what of it lasts."""

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import bdes_framework as bdes
from bdes_framework import (
    ConfigError,
    ContradictionError,
    Decided,
    InvalidValueError,
    JournalError,
    LiveSession,
    ModelMade,
    NewUser,
    Rewarded,
    UnknownNameError,
    WindowsClosed,
    open_live,
)
from bdes_framework.live import retention, writer
from tests.support.live import GREEDY, POSTERIOR, Shoppers, events, replayed, store, written


class Clock:
    """The clock that a writer reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        fake = SimpleNamespace(time=lambda: self.now, perf_counter=time.perf_counter)
        for module in (writer, retention):
            monkeypatch.setattr(module, "time", fake)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def settle(live: LiveSession, clock: Clock, seconds: float) -> None:
    """Let time pass, and the writer look at it."""
    clock.now += seconds
    live.arms()


def test_it_shows_what_earns_most(tmp_path: Path) -> None:
    with open_live(written(tmp_path, floor=0)) as live:
        for number in range(20):
            decision = live.decide(f"user {number % 3}")
            assert live.reward(decision.id, float(decision.arm == "essay")) == "noted"
        assert decision.arm == "essay"
        assert decision.probability == 1.0
        clip, essay = live.arms()
    assert (clip.name, clip.shown, clip.rewards, clip.mean_reward) == ("clip", 4, 4, 0.0)
    assert (essay.name, essay.shown, essay.mean_reward) == ("essay", 16, 1.0)


@pytest.mark.parametrize("policy", [GREEDY, POSTERIOR], ids=["whole", "halves"])
def test_one_user_alone(tmp_path: Path, policy: dict[str, object]) -> None:
    with open_live(written(tmp_path, policy=policy)) as live:
        Shoppers(1, n_users=1).come(live, 40)
        assert live.status().users == 1
    assert replayed(tmp_path).difference is None


def test_models_are_learned_beside(tmp_path: Path) -> None:
    """Decisions name the model they were made by, which learned from what was known then."""
    with open_live(written(tmp_path, policy=POSTERIOR)) as live:
        shoppers, deadline = Shoppers(2), time.monotonic() + 60
        while len(live.status().models) < 4 and time.monotonic() < deadline:
            shoppers.come(live, 20)
        assert shoppers.come(live, 1)[0].model >= 3
        status, estimates = live.status(), live.estimates()
        table, lift = live.table(), live.lift()
    assert [model.number for model in status.models] == list(range(len(status.models)))
    assert sum(status.state_counts) == status.users == 9
    assert estimates is not None
    assert table is not None
    assert lift is not None
    assert (estimates.r[1] <= estimates.r[0]).all()
    assert (estimates.r[0] <= estimates.r[2]).all()
    assert table.names == ("clip", "essay")
    assert [one.name for one in lift.comparisons] == ["before", "best-fixed", "greedy"]


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    written(tmp_path, policy=POSTERIOR, in_memory=False)
    with open_live(tmp_path) as live:
        Shoppers(3).come(live, 60)
        before = live.status()
    with open_live(tmp_path) as live:
        assert live.wait_until_ready(60)
        after = live.status()
        Shoppers(3).come(live, 1)
        assert live.status().decisions == before.decisions + 1
    assert after.arms == before.arms
    assert after.shares == before.shares
    assert after.users == before.users == 9
    assert after.models[: len(before.models)] == before.models


# -- rewards ------------------------------------------------------------------------------


def test_rewards_may_be_told_again(tmp_path: Path) -> None:
    with open_live(written(tmp_path)) as live:
        first, second = live.decide_many(["anna", "ben"])
        assert live.reward(first.id, 0.25) == "noted"
        assert live.reward(first.id, 0.25) == "duplicate"
        assert live.reward_many([(second.id, 1), (second.id, 1)]) == ["noted", "duplicate"]
        with pytest.raises(ContradictionError, match=r"is 0\.25, and cannot be 1"):
            live.reward(first.id, 1)
    assert sum(isinstance(event, Rewarded) for event in events(tmp_path)) == 2


def test_all_rewards_of_a_batch_or_none(tmp_path: Path) -> None:
    with open_live(written(tmp_path)) as live:
        first, second = live.decide_many(["anna", "ben"])
        live.reward(first.id, 0)
        with pytest.raises(ContradictionError, match=r"^rewards\[1\]: "):
            live.reward_many([(second.id, 1), (first.id, 1)])
        with pytest.raises(ContradictionError, match=r"^rewards\[1\]: "):
            live.reward_many([(second.id, 1), (second.id, 0)])
        assert live.reward(second.id, 0) == "noted"


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), float("inf"), "1", None, True])
def test_rewards_lie_between_0_and_1(tmp_path: Path, wrong: float) -> None:
    with open_live(written(tmp_path)) as live:
        decision = live.decide("anna")
        with pytest.raises(InvalidValueError, match=r"number in \[0, 1\]"):
            live.reward(decision.id, wrong)


def test_ids_cannot_be_made_up(tmp_path: Path) -> None:
    with open_live(written(tmp_path)) as live:
        (first,) = live.decide_many(["anna"])
        number, mark = first.id.split("-")
        other = f"{int(mark, 16) ^ 1:012x}"
        for forged in (f"1-{mark}", f"{number}-{other}", number, "", "-", "é-é", first.id.upper()):
            if forged != first.id:
                with pytest.raises(UnknownNameError, match="no decision has the id"):
                    live.reward(forged, 1)


def test_closed_windows_settle_rewards(tmp_path: Path, clock: Clock) -> None:
    written(tmp_path, reward_window="10 min", default_reward=0, floor=0)
    with open_live(tmp_path) as live:
        early = live.decide_many(["anna", "ben", "anna"])
        live.reward(early[0].id, 1)
        settle(live, clock, 300)
        later = live.decide("carl")
        settle(live, clock, 301)
        assert live.reward(early[1].id, 1) == "late"
        assert live.reward(early[1].id, 1) == "duplicate"
        with pytest.raises(ContradictionError):
            live.reward(early[1].id, 0)
        assert live.reward(later.id, 1) == "noted"
        status = live.status()
    closed = [event for event in events(tmp_path) if isinstance(event, WindowsClosed)]
    assert [(event.before, event.default) for event in closed] == [(3, 0.0)]
    assert status.open == 1
    assert status.late == 1
    # One in time and two defaults: the late reward is kept, and not learned from.
    assert sum(arm.rewards for arm in status.arms) == 2
    assert sum(arm.defaults for arm in status.arms) == 2
    assert replayed(tmp_path).difference is None


def test_rewards_may_stay_unknown(tmp_path: Path, clock: Clock) -> None:
    with open_live(written(tmp_path, default_reward="none")) as live:
        live.decide("anna")
        settle(live, clock, 4000)
        status = live.status()
    assert status.open == 0
    assert all(arm.defaults == 0 and arm.mean_reward is None for arm in status.arms)


def test_no_number_depends_on_a_clock(tmp_path: Path, clock: Clock) -> None:
    """A clock that jumps back and forth changes when windows close, and no replay."""
    with open_live(written(tmp_path, policy=POSTERIOR, reward_window="1 min")) as live:
        for jump in (0, 90, -500, 700, 30):
            settle(live, clock, jump)
            Shoppers(4).come(live, 12)
    clock.now = 5.0
    assert replayed(tmp_path).difference is None


# -- users --------------------------------------------------------------------------------


def test_forgotten_users_are_new(tmp_path: Path) -> None:
    written(tmp_path, in_memory=False)
    with open_live(tmp_path) as live:
        live.decide_many(["anna", "ben", "anna"])
        assert live.forget("anna")
        assert not live.forget("anna")
        live.decide("anna")
        status = live.status()
    users = [event for event in events(tmp_path) if isinstance(event, NewUser)]
    assert [event.name for event in users] == [None, "ben", "anna"]
    assert (status.users, status.forgotten, status.decisions) == (3, 1, 4)


def test_unseen_users_are_forgotten(tmp_path: Path, clock: Clock) -> None:
    written(tmp_path, retention="1 d")
    with open_live(tmp_path) as live:
        live.decide_many(["anna", "ben"])
        clock.now += 80_000
        live.decide("ben")
    clock.now += 10_000
    with open_live(tmp_path) as live:  # it looks when it starts
        deadline = time.monotonic() + 30
        while not live.status().forgotten and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not live.forget("anna")
        assert live.forget("ben")


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\nb", "a\x00", "\ud800", "\x85", 7, None])
def test_users_are_plain_text(tmp_path: Path, wrong: str) -> None:
    with open_live(written(tmp_path)) as live:
        for call in (live.decide, live.forget):
            with pytest.raises(InvalidValueError, match="a user"):
                call(wrong)


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    names = ["'; DROP TABLE users; --", "<script>", "🦊" * 200, "=1+1", "../../x", "Ａnna"]
    written(tmp_path, in_memory=False)
    with open_live(tmp_path) as live:
        assert [one.user for one in live.decide_many([*names, *names])] == [*names, *names]
        assert live.status().users == len(names)


# -- arms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [GREEDY, POSTERIOR], ids=["whole", "halves"])
def test_arms_come_and_go(tmp_path: Path, policy: dict[str, object]) -> None:
    written(tmp_path, policy=policy, floor=0.1, in_memory=False)
    with open_live(tmp_path) as live:
        shoppers = Shoppers(5)
        shoppers.come(live, 30)
        assert live.add_arm("poll") == 2
        shoppers.come(live, 30)
        live.retire_arm("clip")
        assert "clip" not in {one.arm for one in shoppers.come(live, 40)}
    with open_live(tmp_path) as live:
        live.wait_until_ready(60)
        assert {one.arm for one in shoppers.come(live, 60)} == {"essay", "poll"}
        assert [arm.is_active for arm in live.arms()] == [False, True, True]
        if live.table() is not None:
            assert "clip" not in live.table().names  # type: ignore[union-attr]
    assert replayed(tmp_path).difference is None


def test_wrong_changes_of_arms(tmp_path: Path) -> None:
    with open_live(written(tmp_path, floor=0.4)) as live:
        with pytest.raises(InvalidValueError, match="there is an arm 'clip'"):
            live.add_arm("clip")
        with pytest.raises(InvalidValueError, match=r"3 arms cannot each.*lower the floor"):
            live.add_arm("poll")
        with pytest.raises(UnknownNameError, match="Did you mean 'essay'"):
            live.retire_arm("esay")
        with pytest.raises(InvalidValueError, match="printable"):
            live.add_arm("a\nb")
        live.retire_arm("clip")
        with pytest.raises(InvalidValueError, match="retired before"):
            live.retire_arm("clip")
        with pytest.raises(InvalidValueError, match="only one left"):
            live.retire_arm("essay")
        with pytest.raises(InvalidValueError, match="another name"):
            live.add_arm("clip")


def test_arms_of_some_policies_never_change(tmp_path: Path) -> None:
    policy = {"use": "each", "policy": "ucb1"}
    with open_live(written(tmp_path, policy=policy)) as live:
        with pytest.raises(InvalidValueError, match="'each' cannot change"):
            live.add_arm("poll")
        with pytest.raises(InvalidValueError, match="'each' cannot change"):
            live.retire_arm("clip")


# -- opening, closing, failing ------------------------------------------------------------


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    with open_live(written(tmp_path)), pytest.raises(JournalError, match="another process"):
        open_live(tmp_path)
    open_live(tmp_path).close()


def test_the_owner_is_named(tmp_path: Path) -> None:
    named = f"used by process {os.getpid()} on "
    with open_live(written(tmp_path, in_memory=False)), pytest.raises(JournalError, match=named):
        open_live(tmp_path)


def test_numbers_cannot_change_silently(tmp_path: Path) -> None:
    open_live(written(tmp_path)).close()
    written(tmp_path, seed=2, visits=7, arms=["clip"], policy="crowd-posterior")
    with pytest.raises(ConfigError) as raised:
        open_live(tmp_path)
    assert [mistake.path for mistake in raised.value.mistakes] == [
        "seed",
        "visits",
        "policy",
        "arms",
    ]
    assert "was 1 when the journal was made, and is 2" in str(raised.value)
    with open_live(written(tmp_path, floor=0.2, name="shop 2")) as live:
        assert live.decide("anna").probability in (0.8, 0.2)


class Sequential:
    """A policy for many users that is asked, and cannot say what it would show."""

    BDES_API_VERSION = 1

    def __init__(self) -> None:
        self._n = 0

    def ask(self, users: bdes.IntArray) -> bdes.IntArray:
        self._n += users.size
        return users * 0 + self._n % 2

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        pass


def with_sequential() -> bdes.Plugins:
    @bdes.hookimpl
    def bdes_register(registrar: bdes.Registrar) -> None:
        from attrs import frozen

        @frozen
        class Config:
            """Shows two arms in turns."""

        registrar.crowd_policy("sequential", Config, lambda config, context: Sequential())

    plugin = SimpleNamespace(BDES_API_VERSION=1, bdes_register=bdes_register)
    return bdes.load_plugins(objects=[plugin], modules=["tests/support/memory_journals.py"])


def test_a_floor_needs_choosing_apart(tmp_path: Path) -> None:
    plugins = with_sequential()
    written(tmp_path, policy="sequential")
    with pytest.raises(InvalidValueError, match="set floor = 0"):
        open_live(tmp_path, plugins=plugins)
    written(tmp_path, policy="sequential", floor=0)
    for _ in range(2):  # after the restart, asked again, it has to answer as it did
        with open_live(tmp_path, plugins=plugins) as live:
            assert [live.decide("anna").arm for _ in range(3)][1:] != ["clip", "clip"]


def test_what_was_asked_before_closing_is_done(tmp_path: Path) -> None:
    live = open_live(written(tmp_path))
    futures = [live.submit_decide([f"user {n}"]) for n in range(700)]
    live.close()
    live.close()
    assert [future.result()[0].user for future in futures] == [f"user {n}" for n in range(700)]
    with pytest.raises(InvalidValueError, match="closed"):
        live.decide("anna")


def test_nothing_of_a_failed_turn_happens(tmp_path: Path) -> None:
    with open_live(written(tmp_path)) as live:
        Shoppers(6).come(live, 10)
        before = list(store(tmp_path).events)
        store(tmp_path).fails = True
        with pytest.raises(JournalError, match="disk is full") as raised:
            live.decide("somebody new")
        assert raised.value.is_passing
        status = live.status()
        assert store(tmp_path).events == before
        assert status.trouble is not None
        assert not status.is_healthy
        assert live.status().trouble is not None  # a look tells nothing of the disk
        store(tmp_path).fails = False
        live.decide("somebody new")
        assert live.status().is_healthy
    assert replayed(tmp_path).difference is None


def test_a_journal_that_was_set_back_is_read_anew(tmp_path: Path) -> None:
    """As when a backup is restored under a service: what is gone is not built upon."""
    with open_live(written(tmp_path)) as live:
        live.decide("anna")
        kept = len(events(tmp_path))
        live.decide("ben")
        del store(tmp_path).events[kept:], store(tmp_path).decisions[1:]
        store(tmp_path).users.pop("ben")
        with pytest.raises(JournalError, match="fewer events") as raised:
            live.decide("clara")
        assert raised.value.is_passing
        live.decide("clara")
        assert live.status().decisions == live.status().users == 2
    assert replayed(tmp_path).difference is None


def test_events_that_do_not_follow_are_nobodys_request(tmp_path: Path) -> None:
    """Who asked rightly is not told that the request was wrong, and may try again."""
    with open_live(written(tmp_path)) as live:
        live.decide("anna")
        store(tmp_path).refuses = True
        with pytest.raises(JournalError, match="refused what happened: not the next") as raised:
            live.decide("anna")
        assert raised.value.is_passing
        store(tmp_path).refuses = False
        live.decide("anna")


def test_many_threads_at_once(tmp_path: Path) -> None:
    """Every answer is of its own request, and every decision is in the journal once."""
    answers: list[tuple[str, bdes.Decision]] = []

    def work(live: LiveSession, worker: int) -> None:
        for n in range(40):
            user = f"user {worker} {n % 5}"
            decision = live.decide(user)
            answers.append((user, decision))
            live.reward(decision.id, (worker + n) % 2)

    with open_live(written(tmp_path)) as live:
        threads = [threading.Thread(target=work, args=(live, n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert live.status().rewards == 240
    assert all(user == decision.user for user, decision in answers)
    assert len({decision.id for _, decision in answers}) == 240
    decided = [event for event in events(tmp_path) if isinstance(event, Decided)]
    assert [event.number for event in decided] == list(range(240))
    assert replayed(tmp_path).difference is None


def test_a_cancelled_request_is_not_done(tmp_path: Path) -> None:
    live = open_live(written(tmp_path))
    held = store(tmp_path).turn
    with held:  # nobody gets the turn meanwhile
        live.submit_decide(["first"])
        time.sleep(0.05)
        waiting = live.submit_decide(["second"])
        assert waiting.cancel()
    live.decide("third")
    live.close()
    names = [event.name for event in events(tmp_path) if isinstance(event, NewUser)]
    assert names == ["first", "third"]


@pytest.mark.parametrize("n", [0, 1001])
def test_batches_are_limited(tmp_path: Path, n: int) -> None:
    with open_live(written(tmp_path)) as live:
        with pytest.raises(InvalidValueError, match="1 to 1,000 users"):
            live.decide_many(["anna"] * n)
        with pytest.raises(InvalidValueError, match="1 to 1,000 rewards"):
            live.reward_many([("x", 1.0)] * n)


def test_publishing_out_of_turn_is_refused(tmp_path: Path) -> None:
    """A model that does not follow on the newest is another learner's: nobody adopts it."""
    from bdes_framework.live.requests import Publish

    with open_live(written(tmp_path, policy=POSTERIOR)) as live:
        live.wait_until_ready(60)
        stale = ModelMade(0, 0, "", b"", "0", 0.0)
        assert live._writer.submit(Publish(stale)).result() is False
