"""``bdes live init``, ``status``, ``replay`` and ``export``."""

import json
from pathlib import Path
from typing import Any

import pytest

from bdes_framework import Columns, Decided, ModelMade, Rewarded, open_live, read_log
from tests.support.command import bdes, prints
from tests.support.live import ADS, POSTERIOR, Shoppers, events, store, written


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = written(tmp_path_factory.mktemp("shop"), policy=POSTERIOR, in_memory=False)
    with open_live(folder) as live:
        Shoppers(1).come(live, 80)
    return folder


@pytest.mark.parametrize(
    ("policy", "arms"), [("crowd-posterior", "clip,essay"), ("crowd-greedy", "é,'\"\\,<b>")]
)
def test_init_writes_what_works(tmp_path: Path, policy: str, arms: str) -> None:
    said = prints("live", "init", "shop", "--arms", arms, "--policy", policy, cwd=tmp_path)
    assert "wrote shop/live.toml" in said
    with open_live(tmp_path / "shop") as live:
        assert live.decide("anna").arm in arms.split(",")
    again = bdes("live", "init", "shop", "--arms", arms, cwd=tmp_path)
    assert again.returncode == 2
    assert "was left as it is" in again.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--arms", "a,a"], "twice"),
        (["--arms", ""], "arms[0]"),
        (["--arms", "a", "--policy", "crowd-postrior"], "Did you mean 'crowd-posterior'"),
    ],
)
def test_init_says_what_is_wrong(tmp_path: Path, options: list[str], said: str) -> None:
    done = bdes("live", "init", "shop", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "shop").exists()


def test_status_answers_first(played: Path) -> None:
    first, *rest = prints("live", "status", str(played)).splitlines()
    assert first.startswith("shop made 80 decisions for 9 users, and knows ")
    assert rest[0].startswith("It earns ")
    assert "more than showing" in rest[0]
    assert any(line.startswith("clip") for line in rest)


def test_status_as_json(played: Path) -> None:
    found = json.loads(prints("live", "status", str(played), "--json"))
    assert found["decisions"] == 80
    assert found["is_healthy"]
    assert [arm["name"] for arm in found["arms"]] == ["clip", "essay"]
    assert len(found["estimates"]["r"]) == 3
    assert set(found["lift"]["over"]) == {"before", "best-fixed", "greedy"}


def test_status_while_it_runs(played: Path) -> None:
    with open_live(played):
        assert "80 decisions" in prints("live", "status", str(played))


def test_status_before_anything(tmp_path: Path) -> None:
    open_live(written(tmp_path)).close()
    assert prints("live", "status", str(tmp_path)) == "shop has decided nothing yet.\n"
    missing = bdes("live", "status", str(tmp_path / "nowhere"))
    assert missing.returncode == 2
    assert "bdes live init" in missing.stderr


def test_replay_says_that_all_is_the_same(played: Path) -> None:
    models = sum(isinstance(event, ModelMade) for event in events(played))
    said = prints("live", "replay", str(played))
    assert said == f"all 80 decisions and {models} model{'s' * (models > 1)} are the same\n"


def test_replay_says_what_differs(tmp_path: Path) -> None:
    with open_live(written(tmp_path)) as live:
        live.decide("anna")
    kept: list[Any] = store(tmp_path).events
    place = next(i for i, event in enumerate(kept) if isinstance(event, Decided))
    kept[place] = kept[place]._replace(chosen=1)
    done = bdes("live", "replay", str(tmp_path))
    assert done.returncode == 1
    assert f"not the same: event {place}: decision 0, of user 0: the policy chose" in done.stdout


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_exports_are_logs(played: Path, tmp_path: Path, name: str) -> None:
    """What is exported is what the journal has, and can be fitted."""
    prints("live", "export", str(played), str(tmp_path / name))
    columns = Columns(user="user", order="time", propensity="propensity")
    log = read_log(tmp_path / name, columns)
    decided = [event for event in events(played) if isinstance(event, Decided)]
    rewards = [event for event in events(played) if isinstance(event, Rewarded)]
    decided.sort(key=lambda event: event.user)
    assert log.arms.tolist() == [event.arm for event in decided]
    assert log.n_sequences == 9
    known = log.rewards[log.rewards >= 0]
    assert known.sum() == pytest.approx(sum(event.value for event in rewards))
    assert known.size == len(rewards)
    assert ADS.n_arms == log.n_arms
