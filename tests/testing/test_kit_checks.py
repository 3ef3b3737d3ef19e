"""The kit accepts what is good, and each of its checks fails for a subject made to break it."""

from collections.abc import Callable
from unittest import SkipTest

import pytest

from bdes_framework import Kind, Plugins, load_plugins
from bdes_framework.testing import (
    Check,
    ConformanceError,
    check_environment,
    check_noise_model,
    check_planner,
    check_policy,
    environment_checks,
    noise_model_checks,
    planner_checks,
    policy_checks,
)
from tests.support import REPOSITORY

HERE = REPOSITORY / "tests" / "support"

PLUGINS = {
    kind: load_plugins(modules=[str(HERE / file)], disabled=["bdes-framework"])
    for kind, file in {
        Kind.POLICY: "broken_policies.py",
        Kind.ENVIRONMENT: "broken_environments.py",
        Kind.PLANNER: "broken_planners.py",
        Kind.NOISE_MODEL: "broken_noise.py",
    }.items()
}
CHECKS: dict[Kind, Callable[..., tuple[Check, ...]]] = {
    Kind.POLICY: policy_checks,
    Kind.ENVIRONMENT: environment_checks,
    Kind.PLANNER: planner_checks,
    Kind.NOISE_MODEL: noise_model_checks,
}
CHECK_ALL: dict[Kind, Callable[..., None]] = {
    Kind.POLICY: check_policy,
    Kind.ENVIRONMENT: check_environment,
    Kind.PLANNER: check_planner,
    Kind.NOISE_MODEL: check_noise_model,
}


def names(kind: Kind, good: bool) -> list[str]:
    entries = PLUGINS[kind].entries(kind)
    return [entry.name for entry in entries if entry.name.startswith("good") == good]


def check_broken_by(name: str) -> str:
    return name.partition(".")[0].replace("-", "_")


def over(good: bool) -> pytest.MarkDecorator:
    subjects = [(kind, name) for kind in PLUGINS for name in names(kind, good)]
    return pytest.mark.parametrize(
        ("kind", "name"), subjects, ids=[f"{kind}-{name}" for kind, name in subjects]
    )


def failing(kind: Kind, name: str) -> list[str]:
    failed = []
    for check in CHECKS[kind](name, plugins=PLUGINS[kind]):
        try:
            check()
        except SkipTest:
            continue
        except ConformanceError:
            failed.append(check.name)
    return failed


@pytest.mark.parametrize("plugins", PLUGINS.values(), ids=[str(kind) for kind in PLUGINS])
def test_subjects_are_loaded(plugins: Plugins) -> None:
    assert [record.reason for record in plugins.records if record.state == "failed"] == []


@over(good=True)
def test_good_subject_passes_every_check(kind: Kind, name: str) -> None:
    CHECK_ALL[kind](name, plugins=PLUGINS[kind])


@over(good=False)
def test_broken_subject_fails_its_check_only(kind: Kind, name: str) -> None:
    assert failing(kind, name) == [check_broken_by(name)]


@pytest.mark.parametrize("kind", PLUGINS, ids=str)
def test_every_check_has_a_broken_subject(kind: Kind) -> None:
    checks = {check.name for check in CHECKS[kind]("good")}
    assert checks == {check_broken_by(name) for name in names(kind, good=False)}


@pytest.mark.parametrize(
    ("kind", "fused", "check"),
    [
        (Kind.POLICY, "good.fused", "play_equals_ask_and_tell"),
        (Kind.POLICY, "good.fused", "play_mixes_with_ask_and_tell"),
        (Kind.POLICY, "good", "diagnostics_are_flat"),
        (Kind.ENVIRONMENT, "good.fused", "open_rounds_equals_pull"),
        (Kind.ENVIRONMENT, "good.instance", "means_are_those_of_the_instance"),
        (Kind.ENVIRONMENT, "good.benchmark", "benchmark_is_not_beaten"),
    ],
)
def test_optional_checks_run_where_they_apply(kind: Kind, fused: str, check: str) -> None:
    (found,) = [c for c in CHECKS[kind](fused, plugins=PLUGINS[kind]) if c.name == check]
    found()  # would raise SkipTest if it did not apply


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("play_equals_ask_and_tell", "no fused form"),
        ("diagnostics_are_flat", "no diagnostics"),
    ],
)
def test_optional_checks_are_skipped_elsewhere(check: str, reason: str) -> None:
    plugins = PLUGINS[Kind.POLICY]
    (found,) = [c for c in policy_checks("good.silent", plugins=plugins) if c.name == check]
    with pytest.raises(SkipTest, match=reason):
        found()


def test_bernoulli_with_one_arm_and_q0_conforms() -> None:
    check_environment({"use": "bernoulli", "r": [0.4], "b": [1.0], "lam": 1.0, "q0": 0.5})


def test_bernoulli_with_local_noise_conforms() -> None:
    plugins = load_plugins(modules=[str(HERE / "broken_noise.py")])
    check_environment(
        "bernoulli", plugins=plugins, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3, noise="good"
    )
