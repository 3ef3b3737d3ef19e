"""Policies that fail: callers are told, the journal has nothing of it, and the rest goes on."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import bdes_framework as bdes
from bdes_framework import ContractError, LiveSession, open_live
from tests.support.live import MEMORY, store, written


@frozen
class FaultyConfig:
    """Does something wrong.

    Parameters
    ----------
    where : str
        What goes wrong.
    """

    where: str = "nowhere"


class Faulty:
    """Shows arm 0, and fails where it is told to."""

    def __init__(self, config: FaultyConfig, context: bdes.CrowdPolicyContext) -> None:
        self._where = config.where

    def _fail_in(self, where: str) -> None:
        if self._where == where:
            raise RuntimeError(f"{where} was not foreseen")

    def ask(self, users: bdes.IntArray) -> bdes.IntArray:
        self._fail_in("ask")
        return self.choose(users)

    def choose(self, users: bdes.IntArray) -> bdes.IntArray:
        self._fail_in("choose")
        return users * 0 + (7 if self._where == "arm" else 0)

    def show(self, users: bdes.IntArray, arms: bdes.IntArray) -> None:
        self._fail_in("show")

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        if self._where == "told" and rewards[0] == 0.5:
            raise bdes.InvalidValueError("half a click is none")


class WithHalves(Faulty):
    """Has a learner that fails from its second model on."""

    def __init__(self, config: FaultyConfig, context: bdes.CrowdPolicyContext) -> None:
        super().__init__(config, context)
        self.decider, self.learner = Half(), Half()


class Half:
    """Both halves in one."""

    def __init__(self) -> None:
        self.shown = 0

    @property
    def is_due(self) -> bool:
        return True

    def adopt(self, model: bytes) -> None:
        pass

    def choose(self, users: bdes.IntArray) -> bdes.IntArray:
        return users * 0

    def show(self, users: bdes.IntArray, arms: bdes.IntArray) -> None:
        self.shown += users.size

    def tell(self, visits: bdes.IntArray, rewards: bdes.FloatArray) -> None:
        pass

    def add_arm(self) -> int:
        return 2

    def retire_arm(self, arm: int) -> None:
        pass

    def estimates(self) -> Any:
        part = np.full((3, 2), 0.5)
        return bdes.CrowdEstimates(part, part, part[:, 0], 1.0, 0.9, part, part, part[:, 0])

    def learn(self) -> bytes:
        if self.shown == 1:
            raise RuntimeError("one visit teaches nothing")
        time.sleep(0.01)
        return b"a model"

    def resume(self, model: bytes) -> None:
        pass


class Plugin:
    BDES_API_VERSION = 1

    @bdes.hookimpl
    def bdes_register(self, registrar: bdes.Registrar) -> None:
        registrar.crowd_policy("faulty", FaultyConfig, Faulty)
        registrar.crowd_policy("halves", HalvesConfig, WithHalves)


@frozen
class HalvesConfig(FaultyConfig):
    """Learns badly.

    Parameters
    ----------
    where : str
        What else goes wrong.
    """


def opened(folder: Path, name: str = "faulty", where: str = "nowhere") -> LiveSession:
    plugins = bdes.load_plugins(objects=[Plugin()], modules=[MEMORY])
    return open_live(written(folder, policy={"use": name, "where": where}), plugins=plugins)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("choose", "choose was not foreseen"),
        ("show", "show was not foreseen"),
        ("arm", "chose arm 7, which is none that is shown"),
    ],
)
def test_callers_are_told(tmp_path: Path, where: str, said: str) -> None:
    with opened(tmp_path, where=where) as live:
        before = list(store(tmp_path).events)
        for _ in range(2):
            with pytest.raises(ContractError, match=said):
                live.decide("anna")
        status = live.status()
        assert not status.is_healthy
        assert "raised" in str(status.trouble) or "chose" in str(status.trouble)
        assert store(tmp_path).events == before


def test_what_cannot_be_compiled_is_told(tmp_path: Path) -> None:
    """Trouble at the start is trouble, and no reason to hang."""
    with opened(tmp_path, where="ask") as live:
        assert live.wait_until_ready(60)
        assert live.decide("anna").arm == "clip"


def test_what_a_policy_refuses_is_its_fault(tmp_path: Path) -> None:
    """Its InvalidValueError is not the caller's: the reward was right."""
    with opened(tmp_path, where="told") as live:
        decision = live.decide("anna")
        with pytest.raises(ContractError, match="refused what happened: half a click"):
            live.reward(decision.id, 0.5)
        assert live.reward(decision.id, 1) == "noted"


def test_learning_may_fail_while_deciding_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, name="halves") as live:
        live.wait_until_ready(60)
        live.decide("anna")
        deadline = time.monotonic() + 60
        while live.status().trouble is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "one visit teaches nothing" in str(live.status().trouble)
        assert live.decide("ben").arm in {"clip", "essay"}
        while live.status().trouble is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert live.status().trouble is None
