"""The snippets in tests/typing: which lines are wrong; mypy's part is tests/packaging."""

from tests.support.mypy_snippets import SNIPPETS, expected_errors


def test_wrong_snippets_have_marked_lines() -> None:
    marked = {path.name: len(expected_errors(path)) for path in SNIPPETS.glob("*.py")}
    assert marked == {"library_use.py": 14, "wrong_plugin.py": 12}
