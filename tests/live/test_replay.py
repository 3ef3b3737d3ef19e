"""Replaying a journal: all is decided and learned again as it was, or the difference is told."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bdes_framework import ArmAdded, Decided, Event, ModelMade, open_live
from bdes_framework.live.ids import uniform_of
from bdes_framework.live.requests import arm_shown
from bdes_framework.live.tally import Snapshot, Tally
from tests.support.live import ADS, GREEDY, POSTERIOR, Shoppers, events, replayed, store, written

TABLE = {"use": "crowd-table", "r": ADS.r.tolist(), "b": ADS.b.tolist(), "lam": ADS.lam}
POLICIES: dict[str, dict[str, Any]] = {
    "posterior": POSTERIOR,
    "greedy": GREEDY,
    "table": {**TABLE, "visits_per_user": 20},
    "each": {"use": "each", "policy": "ucb1"},
    "pooled": {"use": "pooled", "policy": "thompson"},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_replay_equals_live_with_restarts(tmp_path: Path, policy: dict[str, Any]) -> None:
    written(tmp_path, policy=policy, floor=0.1)
    rng, shoppers = np.random.default_rng(7), Shoppers(7)
    n = 0
    for _ in range(5):
        with open_live(tmp_path) as live:
            part = int(rng.integers(1, 40))
            n += len(shoppers.come(live, part))
    report = replayed(tmp_path)
    assert report.difference is None
    assert report.decisions == n
    assert report.models == sum(isinstance(event, ModelMade) for event in events(tmp_path))


def test_restarts_change_no_model(tmp_path: Path) -> None:
    """Models made after restarts are the same bytes as if one learner had made them all."""
    written(tmp_path, policy=POSTERIOR)
    shoppers = Shoppers(8)
    for _ in range(4):
        with open_live(tmp_path) as live:
            known, deadline = len(live.status().models), time.monotonic() + 60
            while len(live.status().models) == known and time.monotonic() < deadline:
                shoppers.come(live, 15)
    report = replayed(tmp_path)
    assert report.difference is None
    assert report.models >= 4


def tampered(folder: Path, kind: type, **changes: object) -> str:
    """Change the last event of a kind, and return what a replay says."""
    kept: list[Event] = store(folder).events
    place = max(i for i, event in enumerate(kept) if isinstance(event, kind))
    kept[place] = kept[place]._replace(**changes)  # type: ignore[arg-type]
    report = replayed(folder)
    assert not report.is_same
    assert report.difference is not None
    assert report.difference.startswith(f"event {place:,}: ")
    return report.difference


@pytest.fixture
def played(tmp_path: Path) -> Path:
    with open_live(written(tmp_path, policy=POSTERIOR, floor=0.1)) as live:
        Shoppers(9).come(live, 40)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"chosen": 7}, "the policy chose arm 7, now it chooses"),
        ({"model": 99}, "model 99: by the events before"),
        ({"number": 5}, "it is decision 39"),
    ],
)
def test_other_decisions_are_noticed(played: Path, changes: dict[str, Any], said: str) -> None:
    assert said in tampered(played, Decided, **changes)


def test_other_random_numbers_are_noticed(played: Path) -> None:
    """Whatever was shown last, the other arm was not to be."""
    last = [event for event in store(played).events if isinstance(event, Decided)][-1]
    other = {"arm": 1 - last.arm, "probability": 1.0 - last.probability}
    assert "its random number is" in tampered(played, Decided, **other)


def test_other_models_are_noticed(played: Path) -> None:
    assert "SHA-256 was 0000" in tampered(played, ModelMade, digest="0" * 64)


# -- what a tally keeps -------------------------------------------------------------------


def test_tallies_are_restored_as_they_were(played: Path) -> None:
    """Whatever part of the events a tally has seen, a saved one goes on as it would."""
    kept = store(played).events
    for stop in range(0, len(kept), 17):
        whole = Tally()
        for event in kept[:stop]:
            whole.apply(event)
        data = Snapshot(b"a model", whole).data
        again = Snapshot.read(data)
        assert again.model == b"a model"
        for event in kept[stop:]:
            whole.apply(event)
            again.tally.apply(event)
        # The users of visits before are not kept: nobody asks for them.
        assert Snapshot(b"", whole).data == Snapshot(b"", again.tally).data


def test_spans_widen_and_lose_nothing() -> None:
    tally = Tally()
    rng = np.random.default_rng(1)
    for number, name in enumerate(("clip", "essay")):
        tally.apply(ArmAdded(number, name, 0.0))
    times = np.sort(rng.random(3000) * 1e6)
    for number, time_ in enumerate(times.tolist()):
        arm = int(time_ > 5e5)
        tally.apply(Decided(number, 0, arm, arm, 1.0, 0, time_))
    spans = list(tally.share_spans())
    assert 20 <= len(spans) <= 96
    assert sum(counts[0] for _, counts in spans) == int((times <= 5e5).sum())
    assert sum(counts[1] for _, counts in spans) == int((times > 5e5).sum())
    assert all(counts[1] == 0 for start, counts in spans if start + tally.shares.width < 5e5)


# -- the floor ----------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.25])
@pytest.mark.parametrize("active", [[3], [0, 2], [0, 1, 2, 5]])
def test_probabilities_add_up_to_1(active: list[int], floor: float) -> None:
    """Of all arms that can be shown, with the probabilities they are said to have."""
    for chosen in active:
        shown = [arm_shown(chosen, active, floor, u) for u in np.linspace(0, 1, 2001)[:-1]]
        likely = dict(shown)
        assert sum(likely.values()) == pytest.approx(1)
        counts = Counter(arm for arm, _ in shown)
        for arm, probability in likely.items():
            assert counts[arm] / 2000 == pytest.approx(probability, abs=2e-3)
        if floor:
            assert min(likely.values()) >= floor - 1e-12
            assert set(likely) == set(active)


def test_shares_are_as_likely_as_said() -> None:
    """Over 20,000 decisions each of four arms: within five deviations of its probability."""
    n, active, floor = 20_000, [0, 1, 2, 3], 0.05
    counts = Counter(arm_shown(2, active, floor, uniform_of(5, k))[0] for k in range(n))
    for arm in active:
        p = 0.85 if arm == 2 else floor
        assert abs(counts[arm] - n * p) < 5 * (n * p * (1 - p)) ** 0.5


def test_random_numbers_of_decisions_are_uniform() -> None:
    drawn = np.array([uniform_of(1, number) for number in range(20_000)])
    other = np.array([uniform_of(2, number) for number in range(20_000)])
    counts, _ = np.histogram(drawn, bins=50, range=(0, 1))
    assert ((counts - 400) ** 2 / 400).sum() < 100  # 49 degrees: less than 1 in 10,000
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.04
    assert drawn.min() >= 0
    assert drawn.max() < 1
