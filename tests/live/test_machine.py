"""A session beside a plain model of it, in whatever order things happen."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bdes_framework import (
    ContradictionError,
    InvalidValueError,
    LiveSession,
    UnknownNameError,
    open_live,
)
from tests.support.live import GREEDY, replayed, written

USERS = st.sampled_from(["anna", "ben", "carl", "dora"])
VALUES = st.sampled_from([0.0, 0.5, 1.0])
ARMS = st.sampled_from(["clip", "essay", "poll", "quiz"])


class Machine(RuleBasedStateMachine):
    """What a session says, and what dicts and lists say."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.live: LiveSession = open_live(written(self.folder, policy=GREEDY, floor=0.05))
        self.names: set[str] = set()
        self.users = self.forgotten = 0
        self.shown: list[tuple[str, str]] = []
        """Id and arm of each decision."""
        self.values: dict[str, float] = {}
        self.arms: dict[str, bool] = {"clip": True, "essay": True}

    @rule(users=st.lists(USERS, min_size=1, max_size=4))
    def decide(self, users: list[str]) -> None:
        self.users += len(set(users) - self.names)
        self.names |= set(users)
        for decision, user in zip(self.live.decide_many(users), users, strict=True):
            assert decision.user == user
            assert self.arms[decision.arm]
            self.shown.append((decision.id, decision.arm))

    @precondition(lambda self: self.shown)
    @rule(data=st.data(), value=VALUES)
    def reward(self, data: Any, value: float) -> None:
        decision, _ = data.draw(st.sampled_from(self.shown))
        known = self.values.get(decision)
        if known is not None and known != value:
            with pytest.raises(ContradictionError):
                self.live.reward(decision, value)
            return
        expected = "noted" if known is None else "duplicate"
        assert self.live.reward(decision, value) == expected
        self.values[decision] = value

    @rule(text=st.text(max_size=20))
    def reward_nothing(self, text: str) -> None:
        with pytest.raises(UnknownNameError):
            self.live.reward(text, 1)

    @rule(user=USERS)
    def forget(self, user: str) -> None:
        assert self.live.forget(user) == (user in self.names)
        self.forgotten += user in self.names
        self.names.discard(user)

    @rule(name=ARMS)
    def add_arm(self, name: str) -> None:
        if name in self.arms:
            with pytest.raises(InvalidValueError):
                self.live.add_arm(name)
            return
        assert self.live.add_arm(name) == len(self.arms)
        self.arms[name] = True

    @rule(name=ARMS)
    def retire_arm(self, name: str) -> None:
        if not self.arms.get(name) or sum(self.arms.values()) == 1:
            with pytest.raises((InvalidValueError, UnknownNameError)):
                self.live.retire_arm(name)
            return
        self.live.retire_arm(name)
        self.arms[name] = False

    @rule()
    def restart(self) -> None:
        self.live.close()
        self.live = open_live(self.folder)

    @invariant()
    def counts_agree(self) -> None:
        status = self.live.status()
        assert (status.users, status.forgotten) == (self.users, self.forgotten)
        assert (status.decisions, status.rewards) == (len(self.shown), len(self.values))
        found = {arm.name: (arm.is_active, arm.shown) for arm in status.arms}
        expected = {
            name: (is_active, sum(arm == name for _, arm in self.shown))
            for name, is_active in self.arms.items()
        }
        assert found == expected
        total = sum((arm.mean_reward or 0.0) * arm.rewards for arm in status.arms)
        assert total == pytest.approx(sum(self.values.values()))

    def teardown(self) -> None:
        self.live.close()
        report = replayed(self.folder)
        assert report.difference is None
        assert report.decisions == len(self.shown)


Machine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_session_as_a_machine = Machine.TestCase
