"""Lower bounds of dependencies: there is one for each, and none allows what is known to be bad."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = [
    Requirement(text)
    for texts in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for text in texts
]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_every_dependency_has_a_lower_bound(requirement: Requirement) -> None:
    lower = [each for each in requirement.specifier if each.operator in (">=", "==", "~=")]
    assert lower or requirement.name == PROJECT["name"]


@pytest.mark.parametrize(
    ("name", "version"), [("distributed", "2024.8.2"), ("cattrs", "25.1.1"), ("rich", "14.2.0")]
)
def test_versions_that_do_not_work_are_excluded(name: str, version: str) -> None:
    (requirement,) = (each for each in REQUIREMENTS if each.name == name)
    assert not requirement.specifier.contains(version)
