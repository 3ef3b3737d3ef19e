"""The study of HeartSteps, on a small synthetic file with the same columns."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from studies import heartsteps
from tests.support import REPOSITORY

ARMS = ("active", "none", "sedentary")


def write_log(path: Path, people: int, decisions: int) -> None:
    """Write people who walk less and less, whatever is suggested."""
    rng = np.random.default_rng(1)
    lines = ["user,t,arm,walked"]
    for person in range(people):
        for t in range(decisions):
            walked = rng.random() < 0.3 + 0.4 * 0.9**t
            lines.append(f"{person},{t},{ARMS[rng.integers(3)]},{int(walked)}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "img").mkdir()
    shutil.copy(REPOSITORY / "docs" / "heartsteps.md", tmp_path)
    return tmp_path


def test_the_study_writes_page_and_figures(docs: Path) -> None:
    write_log(docs / "log.csv", people=30, decisions=60)
    heartsteps.write(docs / "log.csv", docs, permutations=19, refits=2)
    page = (docs / "heartsteps.md").read_text()
    written = page.partition(heartsteps.BEGIN)[2].partition(heartsteps.END)[0]
    assert "| Does a state explain the log better than none? | it seems so |" in written
    assert "| Does what was shown earlier matter at all? | no evidence |" in written
    assert "against a drift" in written
    for name in ("curve", "null"):
        assert (docs / "img" / f"heartsteps-{name}.svg").read_text().startswith("<svg")


def test_the_page_on_heartsteps_has_its_figures() -> None:
    page = (REPOSITORY / "docs" / "heartsteps.md").read_text()
    written = page.partition(heartsteps.BEGIN)[2].partition(heartsteps.END)[0]
    assert "likelihood ratio 15.7 on 2" in written
    assert "6,590" in written
