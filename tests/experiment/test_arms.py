"""Arms from files and generators."""

from pathlib import Path

import numpy as np
import pytest

from bdes_framework import ConfigError, InvalidValueError
from bdes_framework.experiment.arms import ArmsConfig, make_arms, read_arms


def test_a_csv_file_is_read_whatever_its_other_columns(tmp_path: Path) -> None:
    (tmp_path / "arms.csv").write_text("name,b,r\nbait,0.1,0.9\nquality,1,0.3\n")
    r, b = make_arms(ArmsConfig(file="arms.csv"), tmp_path)
    assert (r.tolist(), b.tolist()) == ([0.9, 0.3], [0.1, 1.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("r,c\n1,2\n", "needs columns 'r' and 'b', has c, r"),
        ("r,b\n", "has no arms"),
        ("", "needs columns"),
        ("r,b\n0.1,x\n", "line 2: column 'b' must be a number, got 'x'"),
        ("r,b\n0.1,0.2\n0.1\n", "line 3: column 'b' must be a number"),
        ('r,b\n"0.1,0.2\n', "is not a CSV file"),
    ],
)
def test_a_bad_csv_file_is_refused_with_its_line(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "arms.csv").write_text(content)
    with pytest.raises(InvalidValueError, match=message):
        make_arms(ArmsConfig(file="arms.csv"), tmp_path)
    with pytest.raises(InvalidValueError, match=r"cannot read nowhere\.csv"):
        make_arms(ArmsConfig(file="nowhere.csv"), tmp_path)


def test_a_json_file_says_the_same_as_a_toml_one(tmp_path: Path) -> None:
    (tmp_path / "arms.json").write_text('{"r": [0.9, 0.3], "b": [0.1, 1], "lam": 0.5}')
    (tmp_path / "arms.toml").write_text("r = [0.9, 0.3]\nb = [0.1, 1]\nlam = 0.5\n")
    assert read_arms(tmp_path / "arms.json") == read_arms(tmp_path / "arms.toml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"r": [0.9,', "is not valid JSON: .*line 1"),
        (b"\xff\xfe\xfa".decode("latin-1"), "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[0.9]", "is not a JSON object"),
        ('{"r": [0.9]}', "b"),
        ('{"r": [0.9], "b": ["x"]}', "b"),
    ],
)
def test_a_bad_json_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "arms.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        make_arms(ArmsConfig(file="arms.json"), tmp_path)


@pytest.mark.parametrize("kind", ["uniform", "click-bait"])
def test_generators_are_decided_by_their_seed(kind: str) -> None:
    def draw(seed: int) -> tuple[bytes, bytes]:
        r, b = make_arms(ArmsConfig(generator=kind, n=50, seed=seed), Path())  # type: ignore[arg-type]
        assert ((r >= 0) & (r <= 1)).all()
        assert ((b >= 0) & (b <= 1)).all()
        return r.tobytes(), b.tobytes()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_click_bait_is_anti_correlated_and_uniform_is_not() -> None:
    r, b = make_arms(ArmsConfig(generator="click-bait", n=2000, spread=0.1), Path())
    assert np.corrcoef(r, b)[0, 1] < -0.95
    assert np.abs(b - (1 - r)).max() <= 0.1 + 1e-12
    r, b = make_arms(ArmsConfig(generator="uniform", n=2000), Path())
    assert abs(np.corrcoef(r, b)[0, 1]) < 0.1


def test_a_grid_has_every_pair() -> None:
    r, b = make_arms(ArmsConfig(generator="grid", n=3), Path())
    assert set(zip(r.tolist(), b.tolist(), strict=True)) == {
        (x, y) for x in (0, 0.5, 1) for y in (0, 0.5, 1)
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"file": "x", "generator": "grid"}, {"generator": "uniform"},
        {"generator": "uniform", "n": 0}, {"generator": "grid", "n": 1000},
        {"generator": "uniform", "n": 2, "spread": 2.0},
        {"generator": "uniform", "n": 2, "seed": -1},
    ],
)  # fmt: skip
def test_bad_descriptions_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        ArmsConfig(**wrong)  # type: ignore[arg-type]
