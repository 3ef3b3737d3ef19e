"""A session in memory for tests of the service: deterministic, at once ready, with faults."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import numpy as np
from attrs import define

import bdes_framework as bdes
from bdes_framework.live.config import check_arm_name
from bdes_framework.live.decision import Decision, RewardAnswer
from bdes_framework.live.ids import check_user

T = TypeVar("T")


@define
class _Arm:
    number: int
    name: str
    is_active: bool = True
    shown: int = 0
    rewards: int = 0
    total: float = 0.0


class FakeSession:
    """Shows the active arms in turn; raises ``fault``, if there is one, and then notes nothing."""

    def __init__(self, arms: Sequence[str] = ("clip", "essay")) -> None:
        self._arms = [_Arm(i, name) for i, name in enumerate(arms)]
        self.users: dict[str, int] = {}
        self.shown: list[int] = []
        self.rewards: dict[int, float] = {}
        self.fault: Exception | None = None
        self.is_ready = True
        self.is_closed = False

    def submit_decide(self, users: Sequence[str]) -> "Future[list[Decision]]":
        return self._done(lambda: [self._decide(user) for user in self._checked(users)])

    def submit_reward(self, rewards: Sequence[tuple[str, float]]) -> "Future[list[RewardAnswer]]":
        def note() -> list[RewardAnswer]:
            known = [(self._number(decision), value) for decision, value in rewards]
            for number, value in known:
                if self.rewards.get(number, value) != value:
                    raise bdes.ContradictionError(f"decision {number} has another reward")
            return [self._reward(number, value) for number, value in known]

        return self._done(note)

    def _done(self, work: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        try:
            if self.fault is not None:
                raise self.fault
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def _checked(self, users: Sequence[str]) -> Sequence[str]:
        for user in users:
            check_user(user)
        return users

    def _decide(self, user: str) -> Decision:
        self.users.setdefault(user, len(self.users))
        active = [arm for arm in self._arms if arm.is_active]
        arm = active[len(self.shown) % len(active)]
        arm.shown += 1
        self.shown.append(arm.number)
        return Decision(f"{len(self.shown) - 1}-x", user, arm.name, 1 / len(active), 0)

    def _number(self, decision: str) -> int:
        number, _, mark = decision.partition("-")
        if mark != "x" or not number.isdecimal() or int(number[:9]) >= len(self.shown):
            raise bdes.UnknownNameError(f"no decision has the id {decision!r}")
        return int(number)

    def _reward(self, number: int, value: float) -> RewardAnswer:
        if number in self.rewards:
            return "duplicate"
        self.rewards[number] = value
        arm = self._arms[self.shown[number]]
        arm.rewards, arm.total = arm.rewards + 1, arm.total + value
        return "noted"

    def arms(self) -> list[bdes.ArmStatus]:
        return [
            bdes.ArmStatus(
                arm.number,
                arm.name,
                arm.is_active,
                arm.shown,
                arm.rewards,
                0,
                arm.total / arm.rewards if arm.rewards else None,
            )
            for arm in self._arms
        ]

    def status(self) -> bdes.LiveStatus:
        return bdes.LiveStatus(
            name="fake",
            policy="in turn",
            is_ready=self.is_ready,
            is_learning=True,
            trouble=None,
            decisions=len(self.shown),
            rewards=len(self.rewards),
            late=0,
            users=len(self.users),
            forgotten=0,
            open=len(self.shown),
            decisions_per_second=1.0,
            rewards_per_second=0.5,
            waiting=None,
            arms=tuple(self.arms()),
        )

    def add_arm(self, name: str) -> int:
        check_arm_name(name)
        if any(arm.name == name for arm in self._arms):
            raise bdes.InvalidValueError("there is such an arm")
        self._arms.append(_Arm(len(self._arms), name))
        return len(self._arms) - 1

    def retire_arm(self, name: str) -> None:
        found = [arm for arm in self._arms if arm.name == name]
        if not found:
            raise bdes.UnknownNameError(f"no arm is called {name!r}")
        if [arm for arm in self._arms if arm.is_active] == found:
            raise bdes.InvalidValueError("the last arm cannot be retired")
        found[0].is_active = False

    def forget(self, user: str) -> bool:
        self._checked([user])
        return self.users.pop(user, None) is not None

    def estimates(self) -> bdes.CrowdEstimates | None:
        k = len(self._arms)
        r, b, lam = np.full((3, k), 0.5), np.full((3, k), 0.7), np.array([0.1, 0.05, 0.2])
        return bdes.CrowdEstimates(r, b, lam, 1.0, 0.98, r[:1], b[:1], lam[:1])

    def table(self) -> bdes.DecisionTable | None:
        k = len(self._arms)
        ads = bdes.Instance(r=np.full(k, 0.5), b=np.full(k, 0.7), lam=0.1)
        names = tuple(arm.name for arm in self._arms)
        return bdes.DecisionTable(ads, 0.98, [0.0], [0], [0.0, 1.0], [25.0, 25.0], names)

    def close(self) -> None:
        self.is_closed = True
