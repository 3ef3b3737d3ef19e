"""``make demo`` tells its story on one screen, as the front page shows it."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support import REPOSITORY
from tests.support.command import bdes, prints
from tests.support.experiments import changed

SCREEN = {"COLUMNS": "80", "LINES": "24", "FORCE_COLOR": "1"}
SMALL = (("horizons = [1_000, 10_000, 100_000]", "horizons = [50, 100]"),)


def told(folder: Path, *changes: tuple[str, str]) -> list[str]:
    """Return the lines that the commands of ``make demo`` print on a screen, made smaller."""
    recipe = (REPOSITORY / "Makefile").read_text().partition("\ndemo: ")[2].partition("\n\n")[0]
    _, heading, planned, played = recipe.replace("\\\n\t", "").split("\n\t@")
    plan, _, edit = planned.partition("|")
    assert edit.strip().startswith("sed -n 's/^schedule */")
    schedule = re.search(r"(?m)^schedule +(.*?) *$", prints(*plan.split()[1:]))
    assert schedule is not None
    shutil.copytree(REPOSITORY / "examples", folder / "examples", dirs_exist_ok=True)
    file = folder / "examples" / "demo.toml"
    file.write_text(changed(file.read_text(), *changes))
    done = bdes(*played.split()[1:], cwd=folder, settings=SCREEN)
    assert done.returncode == 0, done.stderr
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout).splitlines()
    first = heading.removeprefix('echo "').removesuffix('"')
    second = edit.split("/")[2] + schedule[1]
    return [line.rstrip() for line in (first, second, *lines)]


def test_fits_on_a_screen(tmp_path: Path) -> None:
    lines = told(tmp_path, *SMALL)
    assert len(lines) <= 22  # progress and the prompt take a line each
    assert max(map(len, lines)) <= 80
    assert "toy" in lines[0]
    assert lines[1].startswith("Toy schedule that is best, if all is known: ")
    assert " of the best sequence" in lines[2]
    ranked = [
        line
        for line in lines
        if re.match(r"(posterior|etc|ucb1|thompson|toy: one of each)  .* ± ", line)
    ]
    assert len(ranked) == 5
    assert re.fullmatch(r"runs/click-bait-\w+/report\.html", lines[-1])
    assert (tmp_path / lines[-1]).is_file()


@pytest.mark.slow
def test_prints_what_the_front_page_shows(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    shown = readme.partition("```text\nTwo ads")[2].partition("```")[0]
    expected = [line for line in ("Two ads" + shown).splitlines() if line]
    printed = [line for line in told(tmp_path) if line]
    assert printed[: len(expected)] == expected
