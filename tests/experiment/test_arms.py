"""Arms from files and generators, and files of arms that are written."""

from pathlib import Path

import numpy as np
import pytest

from bdes_framework import ConfigError
from bdes_framework.experiment.arms import (
    ArmsConfig,
    ArmsFile,
    arms_parameters,
    generate_arms,
    read_arms,
    write_arms,
)


def test_read_csv_ignores_other_columns(tmp_path: Path) -> None:
    (tmp_path / "arms.csv").write_text("name,b,r\nbait,0.1,0.9\nquality,1,0.3\n")
    assert read_arms(tmp_path / "arms.csv") == ArmsFile([0.9, 0.3], [0.1, 1.0])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("arms.csv", "r,c\n1,2\n", "needs columns 'r' and 'b', has c, r"),
        ("arms.csv", "r,b\n", "has no arms"),
        ("arms.csv", "", "needs columns"),
        ("arms.csv", "r,b\n0.1,x\n", "line 2: column 'b' must be a number, got 'x'"),
        ("arms.csv", "r,b\n0.1,0.2\n0.1\n", "line 3: column 'b' must be a number"),
        ("arms.csv", 'r,b\n"0.1,0.2\n', "is not a CSV file"),
        ("nowhere.csv", None, r"/nowhere\.csv: No such file"),
        ("arms.csv", "r,b\n" + "1,1\n" * 100_001, "has 100,001 arms; the maximum is 100,000"),
        ("arms.toml", f"r = [{'1,' * 100_001}]\nb = [1]", "has 100,001 arms; the maximum"),
        ("arms.json", '{"r": [0.9,', "is not valid JSON: .*line 1"),
        ("arms.json", b"\xff\xfe\xfa".decode("latin-1"), "is not valid JSON"),
        ("arms.json", "[" * 100_000, "is not valid JSON"),
        ("arms.json", "[0.9]", "is not a JSON object"),
        ("arms.json", '{"r": [0.9]}', "b"),
        ("arms.json", '{"r": [0.9], "b": ["x"]}', "b"),
    ],
)
def test_a_bad_file_is_rejected(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_arms(tmp_path / file)


@pytest.mark.parametrize("name", ["arms.json", "arms.toml"])
def test_read_arms_returns_what_was_written(tmp_path: Path, name: str) -> None:
    names = ['loud "ad"\\', "calm\x7f\x1b"]
    arms = ArmsFile([0.1 + 0.2, 1.0], [0.1, 1.0], 0.5, None, names, {"pulls": [3, 4]})
    write_arms(tmp_path / name, arms)
    assert read_arms(tmp_path / name) == arms
    assert set(arms_parameters(ArmsConfig(file=name), tmp_path)) == {"r", "b", "lam"}


@pytest.mark.parametrize("kind", ["uniform", "click-bait"])
def test_a_generator_depends_on_its_seed_only(kind: str) -> None:
    def draw(seed: int) -> tuple[bytes, bytes]:
        r, b = generate_arms(ArmsConfig(generator=kind, n=50, seed=seed))  # type: ignore[arg-type]
        assert ((r >= 0) & (r <= 1) & (b >= 0) & (b <= 1)).all()
        return r.tobytes(), b.tobytes()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_click_bait_is_anti_correlated() -> None:
    r, b = generate_arms(ArmsConfig(generator="click-bait", n=2000, spread=0.1))
    assert np.corrcoef(r, b)[0, 1] < -0.95
    assert np.abs(b - (1 - r)).max() <= 0.1 + 1e-12
    r, b = generate_arms(ArmsConfig(generator="uniform", n=2000))
    assert abs(np.corrcoef(r, b)[0, 1]) < 0.1


def test_replenishing_raises_the_largest_b_only() -> None:
    r, b = generate_arms(ArmsConfig(generator="click-bait", n=4, seed=1))
    again, raised = generate_arms(
        ArmsConfig(generator="click-bait", n=4, seed=1, replenishing=True)
    )
    assert again.tolist() == r.tolist()
    assert raised.tolist() == [1.0 if k == b.argmax() else b[k] for k in range(4)]


def test_a_grid_has_every_pair() -> None:
    r, b = generate_arms(ArmsConfig(generator="grid", n=3))
    side = (0, 0.5, 1)
    assert set(zip(r.tolist(), b.tolist(), strict=True)) == {(x, y) for x in side for y in side}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"file": "x", "generator": "grid"},
        {"generator": "uniform"},
        {"generator": "uniform", "n": 0},
        {"generator": "grid", "n": 1000},
        {"generator": "uniform", "n": 2, "spread": 2.0},
        {"generator": "uniform", "n": 2, "seed": -1},
    ],
)
def test_arms_config_rejects_bad_values(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"arms|must"):
        ArmsConfig(**wrong)  # type: ignore[arg-type]
