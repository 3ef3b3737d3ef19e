"""How the kit is used: reports, expected failures, pytest, and the fixture."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest

import bdes_framework as bdes
import bdes_framework.testing as kit
from bdes_framework import Instance, InvalidValueError, load_plugins
from tests.support import REPOSITORY
from tests.support.kit_subjects import load_subjects

pytest_plugins = ["pytester"]

POLICIES = load_subjects("broken_policies.py")
PLANNERS = load_subjects("broken_planners.py")
# Most of what is tested here is the same for all kinds, and quickest with noise models.
NOISE = load_subjects("broken_noise.py")
FILE = str(REPOSITORY / "tests" / "support" / "broken_noise.py")

BIASED = {"mean_is_zero": "leans to the right"}


# -- reports --------------------------------------------------------------------------------


def failure_of(name: str, check: str) -> kit.ConformanceError:
    (found,) = [c for c in kit.policy_checks(name, plugins=POLICIES) if c.name == check]
    with pytest.raises(kit.ConformanceError) as caught:
        found()
    return caught.value


def failures_of(ref: Any, **options: Any) -> tuple[kit.Failure, ...]:
    with pytest.raises(kit.ConformanceError) as caught:
        kit.check_noise_model(ref, plugins=NOISE, **options)
    return caught.value.failures


def test_failure_names_subject_check_and_scenario() -> None:
    error = failure_of("arms-exist", "arms_exist")
    assert isinstance(error, AssertionError)
    assert isinstance(error, bdes.BdesError)
    parts = {
        "subject": "policy 'arms-exist' of local file",
        "check": "arms_exist",
        "scenario": "K=2, T=200, lam=0.05 (unknown), seed=2",
        "expected": "arms from 0 to 1",
        "came": "round 1: arm 2",
    }
    assert error.failures == (kit.Failure(**parts),)
    assert all(part in str(error) for part in parts.values())


def test_answer_that_is_no_array_is_shown() -> None:
    (failure,) = failure_of("wrong.none", "arms_exist").failures
    assert failure.expected == "a one-dimensional array of int64 from ask"
    assert failure.came == "NoneType: None"


def test_exception_of_subject_has_file_and_line() -> None:
    error = failure_of("plays-a-single-arm", "plays_a_single_arm")
    (failure,) = error.failures
    assert "ZeroDivisionError: division by zero" in failure.came
    assert "(broken_policies.py, line" in failure.came
    assert failure.scenario == "K=1, T=1, lam=0.3, seed=1"
    assert isinstance(error.__cause__, bdes.PluginError)
    assert isinstance(error.__cause__.__cause__, ZeroDivisionError)


def test_parameters_are_reported() -> None:
    with pytest.raises(kit.ConformanceError, match=r"\(width=2\.0\) fails a check"):
        kit.check_noise_model("parameters-are-documented.one-not", plugins=NOISE, width=2.0)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("wrong.a-list", "ask_returns_an_array_of_int64"),
        ("wrong.none", "ask_returns_an_array_of_int64"),
        ("wrong.too-many", "ask_returns_1_to_limit_arms"),
        ("wrong.empty", "ask_returns_1_to_limit_arms"),
        ("wrong.arm-99", "arms_exist"),
        ("wrong.unseeded", "same_seed_gives_the_same_arms"),
    ],
)
def test_every_failing_check_is_reported(name: str, check: str) -> None:
    with pytest.raises(kit.ConformanceError) as caught:
        kit.check_policy(name, plugins=POLICIES)
    reported = [failure.check for failure in caught.value.failures]
    assert check in reported
    assert len(reported) > 1
    assert f"fails {len(reported)} checks" in str(caught.value)
    assert all(name in str(caught.value) for name in reported)


def test_wrong_name_or_parameter_raises_its_own() -> None:
    with pytest.raises(bdes.UnknownNameError, match="Did you mean 'good'"):
        kit.check_noise_model("godo", plugins=NOISE)
    with pytest.raises(bdes.ConfigError, match="is not a parameter"):
        kit.check_noise_model("good", plugins=NOISE, epsilon=0.1)


def test_subject_may_be_table_or_config() -> None:
    entry = NOISE.entry(bdes.Kind.NOISE_MODEL, "parameters-are-documented.one-not")
    for ref in ({"use": entry.name, "width": 2.0}, entry.config()):
        (failure,) = failures_of(ref)
        assert failure.subject.startswith(f"noise model {entry.name!r} of local file (")


def test_global_random_state_is_restored() -> None:
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    expected = np.random.random(), random.random()  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    kit.check_noise_model("good", plugins=NOISE)
    assert (np.random.random(), random.random()) == expected  # noqa: NPY002


def test_rejected_scenarios_skip_or_fail() -> None:
    raised: dict[str, Exception] = {}
    checks = kit.planner_checks("wrong.rejects-everything", plugins=PLANNERS)
    for check in checks:
        try:
            check()
        except (kit.ConformanceError, SkipTest) as error:
            raised[check.name] = error
    assert "cannot stop early" in str(raised.pop("improving_plans_hold"))
    tables = [name for name, error in raised.items() if "no decision tables" in str(error)]
    for name in tables:
        raised.pop(name)
    assert len(tables) == 5
    assert all("nothing suits me" in str(error) for error in raised.values())
    unaffected = ["parameters_are_documented", "instances_are_not_changed", "improving_plans_hold"]
    unaffected += tables
    assert {name: type(error) for name, error in raised.items()} == {
        check.name: kit.ConformanceError if check.name.startswith("plans_") else SkipTest
        for check in checks
        if check.name not in unaffected
    }


# -- expected failures ----------------------------------------------------------------------


def test_expected_failure_is_not_reported() -> None:
    kit.check_noise_model("mean-is-zero", plugins=NOISE, expected_failures=BIASED)


def test_expected_failure_that_passes_is_reported() -> None:
    (failure,) = failures_of("good", expected_failures=BIASED)
    assert failure.check == "mean_is_zero"
    assert "take it out of expected_failures" in failure.came
    assert "leans to the right" in failure.expected


def test_expected_failure_hides_no_other() -> None:
    expected = {"sigma_is_finite_and_not_negative": "no reason"}
    failures = failures_of("mean-is-zero", expected_failures=expected)
    assert [failure.check for failure in failures] == [*expected, "mean_is_zero"]


@pytest.mark.parametrize(
    "use",
    [
        lambda wrong: kit.check_noise_model("good", plugins=NOISE, expected_failures=wrong),
        lambda wrong: kit.parametrize_with_checks(
            kit.noise_model_checks("good"), expected_failures=wrong
        ),
    ],
)
def test_expected_failure_of_unknown_check_raises(use: Callable[[object], object]) -> None:
    with pytest.raises(InvalidValueError, match="Did you mean 'mean_is_zero'"):
        use({"mean_zero": "misspelt"})


# -- pytest ---------------------------------------------------------------------------------

TEST_FILE = """
from bdes_framework import load_plugins
from bdes_framework.testing import noise_model_checks, parametrize_with_checks

PLUGINS = load_plugins(modules=[{file!r}], disabled=["bdes-framework"])
CHECKS = noise_model_checks({name!r}, plugins=PLUGINS)

@parametrize_with_checks(CHECKS, expected_failures={expected!r})
def test_conformance(check):
    check()
"""

N_CHECKS = len(kit.noise_model_checks("good"))


def run_tests(pytester: pytest.Pytester, name: str, expected: object) -> pytest.RunResult:
    pytester.makepyfile(TEST_FILE.format(file=FILE, name=name, expected=expected))
    return pytester.runpytest_inprocess("-v", "-rx", "-p", "no:cacheprovider")


@pytest.mark.parametrize(
    ("name", "expected", "outcome", "shown"),
    [
        ("good", None, "passed", "*"),
        ("mean-is-zero", None, "failed", "*expected: a mean within * of 0*"),
        ("mean-is-zero", BIASED, "xfailed", "XFAIL*mean_is_zero*leans to the right*"),
        ("good", BIASED, "failed", "*XPASS(strict)*leans to the right*"),
    ],
)
def test_every_check_becomes_a_test(
    pytester: pytest.Pytester, name: str, expected: object, outcome: str, shown: str
) -> None:
    result = run_tests(pytester, name, expected)
    result.assert_outcomes(**Counter(["passed"] * (N_CHECKS - 1) + [outcome]))
    result.stdout.fnmatch_lines([f"*test_conformance[[]{name}-mean_is_zero[]]*", shown])


def test_wrong_name_is_no_expected_failure(pytester: pytest.Pytester) -> None:
    run_tests(pytester, "godo", BIASED).assert_outcomes(failed=N_CHECKS)


def test_nothing_is_loaded_before_a_check_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bdes_framework.plugin.discovery.installed", lambda: pytest.fail("loaded"))
    assert kit.parametrize_with_checks(kit.policy_checks("whatever")).name == "parametrize"


# -- the fixture ----------------------------------------------------------------------------


@pytest.mark.usefixtures("bdes_no_discovery")
def test_fixture_blocks_discovery() -> None:
    plugins = load_plugins()
    assert plugins.statuses == ()
    assert plugins.entries() == ()


@pytest.mark.usefixtures("bdes_no_discovery")
def test_fixture_lets_local_modules_load() -> None:
    plugins = load_plugins(modules=[FILE])
    assert [status.name for status in plugins.statuses] == ["broken_noise"]
    kit.check_noise_model("good", plugins=plugins)


def test_installed_plugins_are_found_by_default() -> None:
    kit.environment_checks("bernoulli", r=[0.5], b=[1.0], lam=0.1)[0]()


def test_pytest_plugin_imports_next_to_nothing() -> None:
    code = (
        "import sys, bdes_framework.testing.pytest_plugin\n"
        "watched = ('bdes', 'numpy', 'numba', 'rich', 'cattrs')\n"
        "print(*sorted(m for m in sys.modules if m.startswith(watched)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "bdes_framework",
        "bdes_framework._internal",
        "bdes_framework._internal.lazy_names",
        "bdes_framework.testing",
        "bdes_framework.testing.pytest_plugin",
    ]


# -- what the kit measures by ---------------------------------------------------------------


def test_brute_force_agrees_with_known_optima() -> None:
    assert kit.best_value(Instance([0.2, 0.7], [1.0, 0.0], lam=0.0), 9) == pytest.approx(9 * 0.7)
    # (1, 0) and (0, 1) at lam = 1: the first pull and then every other one pays.
    assert kit.best_value(Instance([1.0, 0.0], [0.0, 1.0], lam=1.0), 8) == pytest.approx(4.0)
    assert kit.best_value(Instance([0.5], [0.2], lam=0.5), 2) == pytest.approx(0.5 + 0.5 * 0.6)
    with pytest.raises(InvalidValueError, match="too many"):
        kit.best_value(Instance([0.5, 0.5], [0.2, 0.2], lam=0.5), 40)


def test_reference_environment_follows_recurrence() -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], lam=0.25)
    arms = np.random.default_rng(1).integers(2, size=500)
    outcome = kit.ReferenceEnvironment(instance, seed=1).pull(arms)
    q, means = 1.0, []
    for arm in arms.tolist():
        means.append(instance.r[arm] * q)
        q = 0.75 * q + 0.25 * instance.b[arm]
    np.testing.assert_allclose(outcome.means, means, rtol=1e-12)
    assert set(outcome.rewards.tolist()) == {0.0, 1.0}
    with pytest.raises(InvalidValueError, match="arm 2 does not exist"):
        kit.ReferenceEnvironment(instance, seed=1).pull(np.array([2]))


def test_reference_environment_clips_noise() -> None:
    instance = Instance([1.0], [1.0], lam=0.5)
    environment = kit.ReferenceEnvironment(instance, seed=1, noise_width=0.5)
    outcome = environment.pull(np.zeros(200, dtype=int))
    assert outcome.probabilities is not None
    assert outcome.probabilities.max() == 1.0
    assert 0.5 <= outcome.probabilities.min() < 0.6
