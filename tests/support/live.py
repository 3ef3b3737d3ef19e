"""Folders of live learners, and users who click as a known instance says."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import bdes_framework as bdes
from bdes_framework import Decision, Event, Journal, LiveSession
from bdes_framework.live.config import load_live
from bdes_framework.live.replay import ReplayReport, replay_live
from tests.support.memory_stores import STORES, Store

ADS = bdes.Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
MEMORY = str(Path(__file__).with_name("memory_journals.py"))
GREEDY = {"use": "crowd-greedy", "explore": 4}
POSTERIOR = {"use": "crowd-posterior", "draws": 4, "growth": 0.5}


def written(folder: Path, *, in_memory: bool = True, **tables: object) -> Path:
    """Write a live.toml; the journal is in memory unless it is asked for in a file."""
    content: dict[str, object] = {"name": "shop", "arms": ["clip", "essay"], "policy": GREEDY}
    if in_memory:
        content |= {"journal": {"use": "memory"}, "plugins": {"modules": [MEMORY]}}
    content |= tables
    lines = [f"{key} = {_toml(value)}" for key, value in content.items()]
    folder.mkdir(exist_ok=True)
    (folder / "live.toml").write_text("\n".join(lines), encoding="utf-8")
    return folder


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def store(folder: Path) -> Store:
    """Return what the journal in memory of a folder keeps."""
    return STORES[folder.resolve() / "memory"]


@contextmanager
def journal(folder: Path) -> Iterator[Journal]:
    """Open a folder's journal to read it."""
    setup = load_live(folder)
    opened = setup.plugins.journal(setup.journal)
    opened.open()
    try:
        yield opened
    finally:
        opened.close()


def events(folder: Path) -> list[Event]:
    """Return all events of a folder's journal."""
    with journal(folder) as opened:
        return list(opened.read())


def replayed(folder: Path) -> ReplayReport:
    """Replay a folder's journal."""
    setup = load_live(folder)
    with journal(folder) as opened:
        return replay_live(setup, opened)


class Shoppers:
    """Users who come at random, and click as an instance says."""

    def __init__(self, seed: int, n_users: int = 9, instance: bdes.Instance = ADS) -> None:
        self._rng = np.random.default_rng(seed)
        self._instance = instance
        self._n_users = n_users
        self._states: dict[str, float] = {}
        self._names = {"clip": 0, "essay": 1}

    def come(self, live: LiveSession, n: int, rewarded: float = 0.9) -> list[Decision]:
        """Let n users come; most of their rewards become known, some at once, some later."""
        decisions, waiting = [], []
        for _ in range(n):
            user = f"user {self._rng.integers(self._n_users)}"
            decision = live.decide(user)
            decisions.append(decision)
            arm = self._names.get(decision.arm, 0)
            state = self._states.get(user, 1.0)
            click = float(self._rng.random() < self._instance.r[arm] * state)
            self._states[user] = state + 0.3 * (float(self._instance.b[arm]) - state)
            if self._rng.random() < rewarded:
                waiting.append((decision.id, click))
            if waiting and self._rng.random() < 0.5:
                live.reward(*waiting.pop(int(self._rng.integers(len(waiting)))))
        if waiting:
            live.reward_many(waiting)
        return decisions
