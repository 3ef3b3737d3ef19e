"""Every first-party plugin keeps the promises asked of everybody's, through the same kit."""

from typing import Any

import bdes_framework as bdes
from bdes_framework.testing import (
    Check,
    environment_checks,
    noise_model_checks,
    parametrize_with_checks,
    policy_checks,
)
from tests.support.kit_subjects import LESS_KNOWN

PLUGINS = bdes.load_plugins()

ARMS: dict[str, Any] = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.6]}
NEEDED: dict[str, dict[str, Any]] = {"fixed-schedule": {"cycle": [0]}}
NOISE: dict[str, dict[str, Any]] = {
    "none": {},
    "gaussian": {"sigma": 0.2},
    "uniform": {"half_width": 0.3},
    "rademacher": {"size": 0.2},
    "truncated-gaussian": {"scale": 0.2, "bound": 0.3},
}


def names(kind: bdes.Kind) -> list[str]:
    entries = PLUGINS.entries(kind)
    return [entry.name for entry in entries if entry.distribution == "bdes-framework"]


@parametrize_with_checks(
    check
    for lam in (0.0, 0.3, 1.0)
    for check in environment_checks("bernoulli", plugins=PLUGINS, lam=lam, **ARMS)
)
def test_environments_keep_the_contract(check: Check) -> None:
    check()


@parametrize_with_checks(
    check
    for name, numbers in NOISE.items()
    for check in environment_checks(
        "bernoulli", plugins=PLUGINS, lam=0.3, noise={"use": name, **numbers}, **ARMS
    )
)
def test_noisy_environments_keep_the_contract(check: Check) -> None:
    check()


@parametrize_with_checks(
    check
    for name, numbers in NOISE.items()
    for check in noise_model_checks(name, plugins=PLUGINS, **numbers)
)
def test_noise_models_keep_the_contract(check: Check) -> None:
    check()


@parametrize_with_checks(
    check
    for name in names(bdes.Kind.POLICY)
    for check in policy_checks(
        name,
        plugins=PLUGINS,
        expected_failures=LESS_KNOWN.get(name, {}),
        **NEEDED.get(name, {}),
    )
)
def test_policies_keep_the_contract(check: Check) -> None:
    check()


def test_nothing_is_left_out() -> None:
    assert names(bdes.Kind.ENVIRONMENT) == ["bernoulli"]
    assert set(names(bdes.Kind.NOISE_MODEL)) == set(NOISE)
    assert names(bdes.Kind.POLICY)
