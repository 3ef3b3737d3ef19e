"""Processes that decide are killed: what was acknowledged is in the journal, once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bdes_framework import Decided, Rewarded
from bdes_framework.live.config import load_live
from bdes_framework.live.header import Header
from bdes_framework.live.ids import DecisionIds
from tests.support.live import POSTERIOR, journal, replayed, written

WORK = """
import sys
import numpy as np
import bdes_framework as bdes

rng = np.random.default_rng(int(sys.argv[2]))
with bdes.open_live(sys.argv[1]) as live:
    live.wait_until_ready()
    while True:
        decisions = live.decide_many([f"user {n}" for n in rng.integers(50, size=4)])
        for decision in decisions:
            print("decided", decision.id, decision.arm, flush=True)
        for decision in decisions[:3]:
            value = float(rng.integers(2))
            live.reward(decision.id, value)
            print("rewarded", decision.id, value, flush=True)
"""


def kills(folder: Path, times: int) -> None:
    """Start work and kill it at some moment, again and again; compare after each."""
    written(folder, policy=POSTERIOR, in_memory=False)
    said: list[list[str]] = []
    for number in range(times):
        command = [sys.executable, "-c", WORK, str(folder), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()  # by then it works
            time.sleep(0.05 + 0.03 * (number % 7))
            os.kill(process.pid, signal.SIGKILL)
            lines = [first, *process.stdout.readlines()]
        said += [line.split() for line in lines if line.endswith("\n")]
        compare(folder, said)
    report = replayed(folder)
    assert report.difference is None
    assert report.models > times // 2


def compare(folder: Path, said: list[list[str]]) -> None:
    with journal(folder) as opened:
        kept = list(opened.read())
        ids = DecisionIds(Header.read(opened.open()).secret)
    setup = load_live(folder)
    decided = {event.number: event for event in kept if isinstance(event, Decided)}
    rewards = [event for event in kept if isinstance(event, Rewarded)]
    values = {event.decision: event.value for event in rewards}
    assert len(values) == len(rewards), "a reward is counted twice"
    assert sorted(decided) == list(range(len(decided)))
    assert said
    for what, decision, fact in said:
        number = ids.number_of(decision)
        if what == "decided":
            assert setup.config.arms[decided[number].arm] == fact
        else:
            assert values[number] == float(fact)


def test_three_kills_lose_nothing(tmp_path: Path) -> None:
    kills(tmp_path / "shop", 3)


@pytest.mark.slow
def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    kills(tmp_path / "shop", 20)
