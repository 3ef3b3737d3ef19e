"""What the console is told of a session: the sentence first, then numbers that fit together."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import bdes_framework as bdes
from bdes_framework.live.console.data import ConsoleReader, effect, headline, mean_state
from bdes_framework.live.session import LiveSession
from bdes_framework.live.status import LiveStatus

LIVE = """
name = "shop"
arms = ["clip", "<b>essay</b>"]
policy = {use = "crowd-table", r = [0.9, 0.3], b = [0.1, 1.0], lam = 0.3, visits_per_user = 50}
floor = 0.0
"""
IDLE = LiveStatus(
    name="shop",
    policy="crowd-posterior",
    is_ready=True,
    is_learning=True,
    trouble=None,
    decisions=1000,
    rewards=900,
    late=0,
    users=50,
    forgotten=0,
    open=100,
    decisions_per_second=0.0,
    rewards_per_second=0.0,
    waiting=None,
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LiveSession]:
    (tmp_path / "live.toml").write_text(LIVE)
    with bdes.open_live(tmp_path) as opened:
        assert opened.wait_until_ready(60)
        yield opened


def wait_for(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def lifted(mean: float, low: float, high: float) -> list[dict[str, Any]]:
    return [{"over": "the best fixed arm, essay", "interval": [mean, low, high]}]


@pytest.mark.parametrize(
    ("changes", "lifts", "expected"),
    [
        ({"trouble": "the disk is\nfull"}, [], "Not healthy: the disk is full"),
        ({"decisions": 0}, [], "Healthy, and waiting for the first decision."),
        ({}, [], "Healthy and learning, from 900 rewards so far."),
        ({"is_learning": False}, [], "Healthy; learning runs elsewhere, from 900 rewards so far."),
        (
            {},
            lifted(0.2, 0.1, 0.3),
            "earns 20.0 % more than the best fixed arm, essay (95 %: +10.0",
        ),
        ({}, lifted(0.1, -0.1, 0.3), "is not clear yet (95 %: −10.0 to +30.0 %; 900 rewards)"),
        ({}, lifted(-0.2, -0.3, -0.1), "essay earns 20.0 % more than its decision table"),
    ],
)
def test_headline_is_no_surer_than_its_interval(
    changes: dict[str, Any], lifts: list[dict[str, Any]], expected: str
) -> None:
    assert expected in headline(evolve(IDLE, **changes), lifts)


def test_effect_is_said_only_where_it_is_sure() -> None:
    assert effect(np.array([0.1, 0.05, 0.2]), 0.5) == "wears out"
    assert effect(np.array([0.9, 0.8, 1.0]), 0.5) == "restores"
    assert effect(np.array([0.4, 0.2, 0.6]), 0.5) == "not clear yet"


def test_mean_state_is_that_of_the_histogram() -> None:
    assert mean_state([0.0, 0.5, 1.0], [1, 3]) == pytest.approx(0.625)
    assert mean_state([0.0, 0.5, 1.0], [0, 0]) is None
    assert mean_state([], []) is None


def test_numbers_are_those_of_the_session(session: LiveSession) -> None:
    for i in range(40):
        decision = session.decide(f"anna {i % 7}")
        session.reward(decision.id, i % 2)
    text = ConsoleReader(lambda: session)()
    assert "anna" not in text
    shown = json.loads(text)
    assert shown["is_ready"]
    assert shown["is_healthy"]
    assert (shown["decisions"], shown["rewards"], shown["users"]) == (40, 40, 7)
    assert [arm["name"] for arm in shown["arms"]] == ["clip", "<b>essay</b>"]
    assert sum(arm["shown"] for arm in shown["arms"]) == 40
    assert sum(arm["share"] for arm in shown["arms"]) == pytest.approx(1)
    pays = [arm["pays"] for arm in shown["arms"]]
    assert pays == [[0.9] * 3, [0.3] * 3]
    assert [arm["does"] for arm in shown["arms"]] == ["wears out", "restores"]
    state = np.average(np.arange(20) / 20 + 1 / 40, weights=shown["states"]["counts"])
    assert shown["arms"][0]["earns"][0] == pytest.approx(0.9 * state)
    table = session.table()
    assert table is not None
    assert shown["table"]["starts"] == table.starts.tolist()
    assert shown["table"]["arms"] == table.arms.tolist()
    assert sum(shown["states"]["counts"]) == 7
    assert shown["lifts"][0]["over"].startswith("the best fixed arm, ")
    assert shown["lifts"][0]["interval"][0] >= 0


def test_models_say_what_they_were_made_for(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('name = "shop"\narms = ["clip", "essay", "poll"]')
    with bdes.open_live(tmp_path) as session:
        assert session.wait_until_ready(60)
        read = ConsoleReader(lambda: session)
        session.retire_arm("clip")
        for i in range(300):
            session.reward(session.decide(f"anna {i % 9}").id, i % 2)
        assert wait_for(lambda: len(session.status().models) > 1)
        shown = json.loads(read())
    models = shown["models"]
    assert [model["number"] for model in models] == list(range(len(models)))[::-1]
    assert models[-1]["changed"] == "0 decisions, 0 rewards"
    assert models[0]["shows"].startswith(("essay", "poll"))
    assert models[-1]["shows"] == "", "what nobody looked at is not known"
    assert {*shown["table"]["arms"]} <= {1, 2}
    assert not shown["arms"][0]["is_active"]


def test_starting_and_failing_are_said() -> None:
    assert json.loads(ConsoleReader(lambda: None)())["headline"].startswith("Starting")

    class Broken:
        is_ready = True
        config = IDLE
        error: Exception = bdes.JournalError("the disk is full", is_passing=True)

        def status(self) -> LiveStatus:
            raise self.error

    broken = Broken()
    read = ConsoleReader(lambda: broken)  # type: ignore[arg-type, return-value]
    found = json.loads(read())
    assert found["headline"] == "Not healthy: the disk is full"
    assert not found["is_healthy"]
    broken.error = ZeroDivisionError("of somebody's policy")
    assert json.loads(read())["headline"] == "Not healthy: ZeroDivisionError: of somebody's policy"
