"""The kit accepts what is good, and each of its checks fails for a subject made to break it."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import SkipTest

import pytest

import bdes_framework.testing as kit
from bdes_framework import Kind, Plugins
from tests.support.kit_subjects import load_subjects

PLUGINS = {
    Kind.POLICY: load_subjects("broken_policies.py"),
    Kind.ENVIRONMENT: load_subjects("broken_environments.py"),
    Kind.PLANNER: load_subjects("broken_planners.py"),
    Kind.NOISE_MODEL: load_subjects("broken_noise.py"),
    Kind.ENGINE: load_subjects("broken_engines.py"),
    Kind.CROWD_ENVIRONMENT: load_subjects("broken_crowd_environments.py"),
    Kind.CROWD_POLICY: load_subjects("broken_crowd_policies.py"),
    Kind.JOURNAL: load_subjects("broken_journals.py"),
}
MEMORY = Path("/dev/shm")
"""Here nothing waits for a disk; every journal is made with a dozen turns a check."""
FOLDER = TemporaryDirectory(prefix="kit-", dir=MEMORY if MEMORY.is_dir() else None)
CHECKS: dict[Kind, Callable[..., tuple[kit.Check, ...]]] = {
    Kind.POLICY: kit.policy_checks,
    Kind.ENVIRONMENT: kit.environment_checks,
    Kind.PLANNER: kit.planner_checks,
    Kind.NOISE_MODEL: kit.noise_model_checks,
    Kind.ENGINE: kit.engine_checks,
    Kind.CROWD_ENVIRONMENT: kit.crowd_environment_checks,
    Kind.CROWD_POLICY: kit.crowd_policy_checks,
    Kind.JOURNAL: partial(kit.journal_checks, file=f"{FOLDER.name}/kit_fresh.sqlite"),
}


def names(kind: Kind, good: bool) -> list[str]:
    entries = PLUGINS[kind].entries(kind)
    subjects = [entry.name for entry in entries if not entry.name.startswith("wrong.")]
    return [name for name in subjects if name.startswith("good") == good]


def check_broken_by(name: str) -> str:
    return name.partition(".")[0].replace("-", "_")


def over(good: bool) -> pytest.MarkDecorator:
    subjects = [(kind, name) for kind in PLUGINS for name in names(kind, good)]
    return pytest.mark.parametrize(
        ("kind", "name"), subjects, ids=[f"{kind}-{name}" for kind, name in subjects]
    )


@cache
def outcomes(kind: Kind, name: str) -> dict[str, str]:
    """Return the checks that a subject fails or skips: "failed", or why it was skipped."""
    found = {}
    for check in CHECKS[kind](name, plugins=PLUGINS[kind]):
        try:
            check()
        except SkipTest as error:
            found[check.name] = str(error)
        except kit.ConformanceError:
            found[check.name] = "failed"
    return found


def failing(kind: Kind, name: str) -> list[str]:
    return [check for check, outcome in outcomes(kind, name).items() if outcome == "failed"]


@pytest.mark.parametrize("plugins", PLUGINS.values(), ids=[str(kind) for kind in PLUGINS])
def test_subjects_are_loaded(plugins: Plugins) -> None:
    assert [status.reason for status in plugins.statuses if status.state == "failed"] == []


@over(good=True)
def test_good_subject_passes_every_check(kind: Kind, name: str) -> None:
    assert failing(kind, name) == []


@over(good=False)
def test_broken_subject_fails_its_check_only(kind: Kind, name: str) -> None:
    assert failing(kind, name) == [check_broken_by(name)]


@pytest.mark.parametrize("kind", PLUGINS, ids=str)
def test_every_check_has_a_broken_subject(kind: Kind) -> None:
    checks = {check.name for check in CHECKS[kind]("good")}
    assert checks == {check_broken_by(name) for name in names(kind, good=False)}


@pytest.mark.parametrize(
    ("kind", "name", "check", "reason"),
    [
        (Kind.POLICY, "good.fused", "play_equals_ask_and_tell", None),
        (Kind.POLICY, "good.fused", "play_mixes_with_ask_and_tell", None),
        (Kind.POLICY, "good.silent", "play_equals_ask_and_tell", "no fused form"),
        (Kind.POLICY, "good", "diagnostics_are_flat", None),
        (Kind.POLICY, "good.silent", "diagnostics_are_flat", "no diagnostics"),
        (Kind.ENVIRONMENT, "good.fused", "open_rounds_equals_pull", None),
        (Kind.ENVIRONMENT, "good.instance", "means_are_those_of_the_instance", None),
        (Kind.ENVIRONMENT, "good.benchmark", "benchmark_is_not_beaten", None),
        (Kind.CROWD_ENVIRONMENT, "good", "means_are_those_of_the_instance", None),
        (Kind.CROWD_ENVIRONMENT, "good.plain", "means_are_those_of_the_instance", "no B-DES"),
        (Kind.CROWD_POLICY, "good", "diagnostics_are_flat", None),
        (Kind.CROWD_POLICY, "good.silent", "diagnostics_are_flat", "no diagnostics"),
        (Kind.JOURNAL, "good", "processes_take_turns", "one process at a time"),
        (Kind.JOURNAL, "good.shared", "processes_take_turns", None),
        (Kind.PLANNER, "good", "improving_plans_hold", "cannot stop early"),
        (Kind.PLANNER, "good", "bounds_of_tables_hold", "no decision tables"),
        (Kind.PLANNER, "good.table", "bounds_of_tables_hold", None),
    ],
)
def test_optional_checks_run_where_they_apply(
    kind: Kind, name: str, check: str, reason: str | None
) -> None:
    outcome = outcomes(kind, name).get(check)
    assert outcome is None if reason is None else reason in str(outcome)


def test_write_behind_is_not_durable() -> None:
    assert "turns_are_kept" in failing(Kind.JOURNAL, "wrong.write-behind")
