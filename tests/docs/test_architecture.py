"""The pages that describe the tree: paths exist, definitions are there, no room is left out."""

import ast
import re
from pathlib import Path

import pytest

from tests.support import REPOSITORY

ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
QUESTIONS = re.findall(r"(?m)^\| ([^|]+\?) \| `([^`]+)` \| `(\w+)` \|$", ARCHITECTURE)
PLACES = ("bdes_framework", "plugins", "plugins/bdes_policies", "tests", "studies")


def rooms(place: str) -> list[str]:
    """Return the folders of a place that hold files, as paths from the root."""
    folders = (
        path
        for path in (REPOSITORY / place).iterdir()
        if path.is_dir() and path.name != "__pycache__"
    )
    return sorted(
        str(folder.relative_to(REPOSITORY)) for folder in folders if any(folder.glob("*.*"))
    )


def definitions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("question", "path", "name"), QUESTIONS)
def test_question_is_answered_by_its_file(question: str, path: str, name: str) -> None:
    assert name in definitions(REPOSITORY / path), question


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10


def test_paths_of_the_walks_exist() -> None:
    paths = re.findall(r"`([a-z]+/[a-z_]+\.py)`", ARCHITECTURE)
    assert len(paths) > 20
    assert [path for path in paths if not (REPOSITORY / "bdes_framework" / path).exists()] == []


def test_picture_shows_every_room_and_plugin() -> None:
    core = {Path(room).name for room in rooms("bdes_framework")}
    plugins = {Path(room).name for room in rooms("plugins")}
    pictures = " ".join(re.findall(r"(?s)```text\n(.*?)```", ARCHITECTURE))
    assert core | plugins <= set(re.findall(r"\w+", pictures))


@pytest.mark.parametrize("place", PLACES)
def test_contributing_maps_every_folder(place: str) -> None:
    assert [room for room in rooms(place) if f"`{room}/`" not in CONTRIBUTING] == []


def test_folders_of_the_map_exist() -> None:
    mapped = re.findall(r"(?m)^\| (`[^|]+`) \|", CONTRIBUTING)
    named = [path for cell in mapped for path in re.findall(r"`([^`]+)`", cell)]
    assert named
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_top_folders_are_mapped() -> None:
    hidden = {"build", "dist", "runs", "site"}
    top = {p.name for p in REPOSITORY.iterdir() if p.is_dir() and not p.name.startswith(".")}
    assert [name for name in sorted(top - hidden) if f"`{name}/`" not in CONTRIBUTING] == []
