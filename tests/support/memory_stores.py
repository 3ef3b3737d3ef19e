"""What journals in memory keep: shared by the plugin, which is loaded by its path, and tests."""

import threading
from pathlib import Path

from bdes_framework import Decided, Event, Rewarded


class Store:
    """What a journal keeps, for all objects that open it."""

    def __init__(self) -> None:
        self.header: str | None = None
        self.events: list[Event] = []
        self.turn = threading.RLock()
        self.claims: dict[str, object] = {}
        self.users: dict[str, int] = {}
        self.decisions: list[tuple[Decided, Rewarded | None]] = []
        self.fails = False
        """Whether the end of a turn raises."""
        self.refuses = False
        """Whether it says that the events do not follow."""


STORES: dict[Path, Store] = {}
