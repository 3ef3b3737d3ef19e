"""The notebooks of ``examples/notebooks``: they run, and show what they have stored."""

import json
import re
from pathlib import Path

import pytest

from tests.support import REPOSITORY
from tests.support.notebooks import code_cells, load, run_cells, shown_text, stored_text

FOLDER = REPOSITORY / "examples" / "notebooks"
MAX_BYTES = 100_000
REFRESH = "python -m tests.support.notebooks FILE stores outputs anew"


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text, which are what a reader takes home; words may change."""
    return re.findall(r"\d[\d,.]*", text)


@pytest.mark.parametrize("name", ["study", "from_log_to_schedule"])
def test_notebook_shows_what_it_stored(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = load(FOLDER / f"{name}.ipynb")
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MAX_BYTES
    cells = code_cells(notebook)
    found = list(run_cells(notebook))
    assert len(found) == len(cells) > 4
    for number, (cell, (printed, value)) in enumerate(zip(cells, found, strict=True), start=1):
        assert cell["execution_count"] == number
        shown = printed + ("" if value is None else shown_text(value))
        assert numbers_in(stored_text(cell)) == numbers_in(shown), f"cell {number}: {REFRESH}"


def test_every_notebook_is_run_and_is_one() -> None:
    names = {path.stem for path in FOLDER.glob("*.ipynb")}
    assert names == {"study", "from_log_to_schedule"}
    for name in names:
        notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        ids = [cell["id"] for cell in notebook["cells"]]
        assert len(set(ids)) == len(ids)
