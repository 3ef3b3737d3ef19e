"""Several sessions over one journal, as processes and hosts have with a database."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bdes_framework import ContradictionError, Decided, Decision, ModelMade, open_live
from tests.support.live import GREEDY, POSTERIOR, Shoppers, events, replayed, written

SHARED = {"use": "memory", "shared": True}


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; a minute is too long."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("policy", [GREEDY, POSTERIOR], ids=["whole", "halves"])
def test_sessions_decide_as_one(tmp_path: Path, policy: dict[str, object]) -> None:
    """Whoever decides: users, arms, rewards and models are those of the journal."""
    written(tmp_path, policy=policy, journal=SHARED, floor=0.1)
    with open_live(tmp_path) as one, open_live(tmp_path) as other:
        work = [
            threading.Thread(target=Shoppers(seed).come, args=(live, 60))
            for seed, live in enumerate((one, other))
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        decision = one.decide("anna")
        assert other.reward(decision.id, 1) == "noted"
        assert one.reward(decision.id, 1) == "duplicate"
        with pytest.raises(ContradictionError):
            one.reward(decision.id, 0)
        assert other.add_arm("poll") == 2
        one.retire_arm("poll")
        assert other.forget("anna")
        assert not one.forget("anna")
        assert one.arms() == other.arms()
        assert one.status().users == other.status().users
    decided = [event for event in events(tmp_path) if isinstance(event, Decided)]
    assert [event.number for event in decided] == list(range(121))
    assert replayed(tmp_path).difference is None


def test_one_of_several_learns(tmp_path: Path) -> None:
    """Models of one are adopted by all; where it leaves, another goes on learning."""
    written(tmp_path, policy=POSTERIOR, journal=SHARED)
    shoppers = Shoppers(3)

    def came(live: object) -> Decision:
        return shoppers.come(live, 10)[-1]  # type: ignore[arg-type]

    with open_live(tmp_path) as other, open_live(tmp_path) as one:
        until(lambda: one.is_ready and other.is_ready)
        assert [one.status().is_learning, other.status().is_learning].count(True) == 1
        until(lambda: min(came(one).model, came(other).model) >= 2)
        first, second = (other, one) if other.status().is_learning else (one, other)
        first.close()
        until(lambda: second.status().is_learning)
        made = len(second.status().models)
        until(lambda: came(second).model > made)
    models = [event for event in events(tmp_path) if isinstance(event, ModelMade)]
    assert [model.number for model in models] == list(range(len(models)))
    assert replayed(tmp_path).difference is None
