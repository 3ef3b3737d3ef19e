"""The front page's numbers: made by public commands, from a committed experiment."""

import io
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from bdes_framework import load_experiment
from studies import pages
from tests.support import REPOSITORY
from tests.support.command import prints
from tests.support.experiments import changed

README = REPOSITORY / "README.md"
FILE = REPOSITORY / "examples" / "headline" / "experiment.toml"
BEGIN, END = "<!-- headline: written by make headline -->", "<!-- end of headline -->"
SMALL = (("horizons = [100_000]", "horizons = [60]"), ("instances = 40", "instances = 2"))


def table(readme: str) -> str:
    return readme.partition(BEGIN)[2].partition(END)[0].strip()


def rows(markdown: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in markdown.splitlines()]


def commands() -> list[str]:
    """Return what ``make headline`` does, without the folder of the programs."""
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nheadline: install\n")[2]
    return [line.strip().replace("$(BIN)/", "") for line in recipe.partition("\n\n")[0].split("\n")]


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what ``make headline`` does, in this process."""
    monkeypatch.chdir(folder)
    for command in commands():
        first, _, into = command.partition(" | ")
        printed = prints(*first.split()[1:], cwd=folder)
        if into:
            assert into.startswith("python -m studies.pages ")
            monkeypatch.setattr(sys, "argv", ["pages", *into.split()[3:]])
            monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
            pages.main()


def copy(folder: Path, *changes: tuple[str, str]) -> None:
    (folder / "docs" / "img").mkdir(parents=True)
    (folder / "examples" / "headline").mkdir(parents=True)
    shutil.copy(README, folder)
    (folder / "examples" / "headline" / FILE.name).write_text(changed(FILE.read_text(), *changes))


def test_table_is_of_the_committed_experiment() -> None:
    config = tomllib.loads(FILE.read_text())
    heading, _, *lines = rows(table(README.read_text()))
    (environment,) = config["environments"]
    assert heading[1:5] == [f"lam = {lam:g}" for lam in environment["lam"]]
    assert environment["arms"]["instances"] >= 20
    uses = {
        cell.policy.label: ", ".join(cell.policy.uses) or "nothing"
        for cell in load_experiment(FILE).cells
    }
    assert {line[0]: line[-1] for line in lines} == uses
    assert uses["posterior"] == uses["ucb1"] == "nothing"
    assert uses["etc"] == "lam, replenishing_arm"


def test_chart_has_the_numbers_of_the_table() -> None:
    picture = (REPOSITORY / "docs" / "img" / "headline.svg").read_text()
    said = re.findall(r'aria-label="([^"]*share of OPT[^"]*)"', picture)
    drawn = {f"{float(n):.1f}" for text in said for n in re.findall(r"([\d.]+)%?", text)}
    means = {
        found[1]
        for line in rows(table(README.read_text()))[2:]
        for cell in line[1:5]
        if (found := re.search(r"([\d.]+) ±", cell))
    }
    assert len(means) > 20
    assert means <= drawn


def test_readme_shows_the_commands() -> None:
    shown = README.read_text()
    for command in commands():
        assert command.partition(" | ")[0] in shown


def test_whole_command_at_a_small_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy(tmp_path, *SMALL)
    make(tmp_path, monkeypatch)
    written = (tmp_path / "README.md").read_text()
    assert table(written) == prints("show", "headline", "--format", "markdown").strip()
    assert written != README.read_text()
    assert written.replace(table(written), "") == README.read_text().replace(
        table(README.read_text()), ""
    )
    assert (tmp_path / "docs" / "img" / "headline.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(("text", "new"), [("no markers", "| a |"), (f"{BEGIN}\n{END}", "")])
def test_a_page_without_markers_or_a_table_is_left_alone(
    text: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    monkeypatch.setattr(sys, "argv", ["pages", str(page), "headline"])
    monkeypatch.setattr(sys, "stdin", io.StringIO(new))
    with pytest.raises((ValueError, SystemExit), match=r"has no lines|nothing to put"):
        pages.main()
    assert page.read_text() == text


@pytest.mark.slow
def test_front_page_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy(tmp_path)
    make(tmp_path, monkeypatch)
    assert (tmp_path / "README.md").read_text() == README.read_text()
