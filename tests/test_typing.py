"""The snippets in tests/typing: which lines are wrong; mypy's part is tests/packaging."""

from bdes_framework import Kind, Problem, load_plugins
from bdes_framework.testing import (
    check_environment,
    check_noise_model,
    check_planner,
    check_policy,
)
from tests.support.mypy_snippets import SNIPPETS, expected_errors


def test_wrong_snippets_have_marked_lines() -> None:
    marked = {path.name: len(expected_errors(path)) for path in SNIPPETS.glob("*.py")}
    assert marked == {
        "good_plugin.py": 0,
        "library_use.py": 8,
        "wrong_plugin.py": 7,
    }


def test_good_plugin_passes_the_kit() -> None:
    plugins = load_plugins(modules=[str(SNIPPETS / "good_plugin.py")], disabled=["bdes-framework"])
    assert {entry.kind for entry in plugins.entries()} == set(Kind)
    assert plugins.policy("follow", Problem(2, 5), seed=1, planner="greedy-once").ask(5).size == 5
    assert list(plugins.engine("backwards").run([1, 2], str)) == ["2", "1"]
    check_policy("follow", plugins=plugins, planner="greedy-once")
    check_planner("greedy-once", plugins=plugins)
    check_noise_model("coin", plugins=plugins, width=0.2)
    check_environment("steady", plugins=plugins, means=[0.2, 0.8], noise="coin")
