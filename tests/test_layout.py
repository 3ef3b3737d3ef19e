"""The layout of the tree: what several modules share is defined once."""

import ast
from pathlib import Path

from tests.support import REPOSITORY

TESTS = REPOSITORY / "tests"


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
            assert node.level == 0, f"{path}: a relative import"
    return found


def test_palette_is_defined_in_one_module() -> None:
    folders = ("bdes_framework", "plugins", "docs", "studies", "examples", "benchmarks")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("*.py")]
    found = [file.name for file in files if "#0072B2" in file.read_text(encoding="utf-8")]
    assert found == ["colours.py"]


def test_no_test_module_imports_another() -> None:
    for path in TESTS.rglob("*.py"):
        ours = {name for name in imported(path) if name.split(".")[0] == "tests"}
        wrong = {name for name in ours if not name.startswith("tests.support")}
        assert not wrong, (
            f"{path.relative_to(REPOSITORY)} imports {wrong}: move it to tests/support"
        )
