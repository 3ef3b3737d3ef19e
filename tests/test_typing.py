"""What a type checker says to a stranger: good plugins pass, wrong ones fail at their line."""

import shutil

import pytest

from bdes_framework import Kind, Problem, load_plugins
from bdes_framework.testing import (
    check_environment,
    check_noise_model,
    check_planner,
    check_policy,
)
from tests.support.mypy_snippets import SNIPPETS, expected_errors, reported_errors

FILES = sorted(path.name for path in SNIPPETS.glob("*.py"))


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, str]]]:
    elsewhere = tmp_path_factory.mktemp("stranger")
    for name in FILES:
        shutil.copy(SNIPPETS / name, elsewhere)
    return reported_errors(elsewhere)


@pytest.mark.parametrize("name", FILES)
def test_mypy_refuses_the_marked_lines_and_no_others(
    name: str, reported: dict[str, set[tuple[int, str]]]
) -> None:
    assert reported[name] == expected_errors(SNIPPETS / name)


def test_the_files_that_must_be_refused_have_marked_lines() -> None:
    marked = {name: len(expected_errors(SNIPPETS / name)) for name in FILES}
    assert marked == {
        "good_plugin.py": 0,
        "library_use.py": 8,
        "policy_without_tell.py": 1,
        "wrong_config_type.py": 1,
        "wrong_kinds.py": 5,
    }


def test_the_good_plugin_is_good_at_run_time_too() -> None:
    plugins = load_plugins(modules=[str(SNIPPETS / "good_plugin.py")], disabled=["bdes-framework"])
    assert {entry.kind for entry in plugins.entries()} == set(Kind)
    assert plugins.policy("follow", Problem(2, 5), seed=1, planner="greedy-once").ask(5).size == 5
    assert list(plugins.engine("backwards").run([1, 2], str)) == ["2", "1"]
    check_policy("follow", plugins=plugins, planner="greedy-once")
    check_planner("greedy-once", plugins=plugins)
    check_noise_model("coin", plugins=plugins, width=0.2)
    check_environment("steady", plugins=plugins, means=[0.2, 0.8], noise="coin")
