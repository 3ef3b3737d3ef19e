"""live.toml: what is read, and what is refused, all of it at once."""

from pathlib import Path
from typing import Any

import pytest

from bdes_framework import ConfigError
from bdes_framework.live.config import FILE, load_live, seconds
from tests.support.live import written


def mistakes(folder: Path, **tables: Any) -> dict[str, str]:
    """Return what is said of a live.toml, by the place it is said of."""
    with pytest.raises(ConfigError) as raised:
        load_live(written(folder, in_memory=False, **tables))
    assert raised.value.source.endswith(FILE)
    return {mistake.path: mistake.message for mistake in raised.value.mistakes}


def test_little_has_to_be_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('name = "shop"\narms = ["clip"]\n')
    config = load_live(tmp_path).config
    assert (config.policy, config.journal, config.floor) == ("crowd-posterior", "sqlite", 0.01)
    assert (config.window_seconds, config.settled_as) == (3600.0, 0.0)
    assert config.retention_seconds is None
    assert config.problem.visits == 1_000_000


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        name="",
        arms=["clip", "clip", "a\nb"],
        policy={"use": "crowd-posterior", "drows": 3},
        journal="sqlight",
        floor=0.5,
        seed=-1,
        lam=1.5,
        q0=-1,
        visits=0,
        visits_per_user=0.5,
        default_reward=2,
        reward_window="soon",
        retention="0 d",
        serve={"port": 70_000},
    )
    assert set(found) == {
        "name", "arms[1]", "arms[2]", "policy.drows", "journal", "floor", "seed", "lam", "q0",
        "visits", "visits_per_user", "default_reward", "reward_window", "retention", "serve",
    }  # fmt: skip
    assert "Did you mean 'draws'" in found["policy.drows"]
    assert "Did you mean 'sqlite'" in found["journal"]
    assert "at most 0.3333" in found["floor"]


def test_unknown_keys_are_refused(tmp_path: Path) -> None:
    assert "Did you mean 'floor'" in mistakes(tmp_path, flor=0.1)["flor"]


@pytest.mark.parametrize("floor", [-0.1, 1.1, 0.51])
def test_floors_are_possible(tmp_path: Path, floor: float) -> None:
    assert list(mistakes(tmp_path, floor=floor)) == ["floor"]


def test_a_folder_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bdes live init"):
        load_live(tmp_path)


def test_files_are_beside_the_file(tmp_path: Path) -> None:
    policy = {"use": "crowd-posterior", "prior": "fit.json"}
    setup = load_live(written(tmp_path, in_memory=False, policy=policy))
    assert setup.journal.file == tmp_path / "journal.sqlite"  # type: ignore[union-attr]
    assert setup.policy.prior == tmp_path / "fit.json"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90 s", 90), ("10min", 600), ("1.5 h", 5400), ("400 d", 400 * 86_400), (" 1 h ", 3600)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "1", "h", "-1 h", "1 H", "1e3 s", "1 week", "nan s", "１ h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="such as '1 h'"):
        seconds(text)
