"""The layout of the tests: what they share lies in tests/support."""

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


def test_no_test_module_imports_another() -> None:
    for path in TESTS.rglob("*.py"):
        ours = {name for name in imported(path) if name.split(".")[0] == "tests"}
        wrong = {name for name in ours if not name.startswith("tests.support")}
        assert not wrong, (
            f"{path.relative_to(REPOSITORY)} imports {wrong}: move it to tests/support"
        )
