"""The pytest plugin, loaded wherever the framework is installed: one fixture.

It is imported at the start of every test session, so it imports nothing of ours.
"""

import pytest


@pytest.fixture
def bdes_no_discovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block the discovery of installed plugins for one test.

    ``load_plugins()`` then finds none, whatever is installed on this machine;
    ``load_plugins(modules=[...])`` still loads those.
    """
    monkeypatch.setattr("bdes_framework.plugin.discovery.installed", list)
