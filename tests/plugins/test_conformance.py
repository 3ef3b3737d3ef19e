"""The conformance kit on every first-party plugin, once per configuration."""

from tempfile import TemporaryDirectory
from typing import Any

import pytest

import bdes_framework.testing as kit
from bdes_framework import Kind, load_plugins
from tests.support.configurations import CONFIGURATIONS, EXPECTED_FAILURES

PLUGINS = load_plugins()
FOLDER = TemporaryDirectory(prefix="journals-")

ARMS: dict[str, Any] = {"r": [0.9, 0.3, 0.5], "b": [0.1, 1.0, 0.6]}
NOISE: list[dict[str, Any]] = [
    {"use": "none"},
    {"use": "gaussian", "sigma": 0.2},
    {"use": "uniform", "half_width": 0.3},
    {"use": "rademacher", "size": 0.2},
    {"use": "truncated-gaussian", "scale": 0.2, "bound": 0.3},
]
NARROW_AND_WIDE: list[dict[str, Any]] = [
    {"use": "truncated-gaussian", "scale": 5.0, "bound": 0.3},
    {"use": "truncated-gaussian", "scale": 0.1, "bound": 1.5},
]
ENVIRONMENTS: list[dict[str, Any]] = [
    *({"lam": lam, **ARMS} for lam in (0.0, 0.3, 1.0)),
    *({"lam": 0.3, "noise": noise, **ARMS} for noise in NOISE),
    {"r": [0.4], "b": [1.0], "lam": 1.0, "q0": 0.5},
]


CROWDS: list[dict[str, Any]] = [
    {"users": 7},
    {
        "users": 30,
        "visits_per_user": 5,
        "lifetimes": "geometric",
        "arrivals": "cohorts",
        "cohort": 4,
    },
    {"users": 30, "visits_per_user": 5, "arrivals": "round-robin", "spread": 0.5},
    {"users": 9, "visits_per_user": 3, "lifetimes": "heavy-tailed", "noise": NOISE[1]},
    {"users": 1, "q0": 0.5},
]
CROWD_POLICIES: list[dict[str, Any]] = [
    {"use": "crowd-greedy", "explore": 3},
    {"use": "crowd-posterior", "draws": 3, "growth": 0.5},
    {"use": "crowd-table", "r": [0.5], "b": [0.7], "lam": 0.3, "visits_per_user": 9},
    {"use": "each", "policy": "ucb1", "horizon": 4},
    {"use": "each", "policy": "exp3p"},
    {"use": "pooled", "policy": "thompson"},
]


def names(kind: Kind) -> list[str]:
    entries = PLUGINS.entries(kind)
    return [entry.name for entry in entries if entry.distribution == "bdes-framework"]


def checks() -> list[kit.Check]:
    found: list[kit.Check] = []
    for parameters in ENVIRONMENTS:
        found += kit.environment_checks("bernoulli", plugins=PLUGINS, **parameters)
    for noise in NOISE + NARROW_AND_WIDE:
        found += kit.noise_model_checks(noise, plugins=PLUGINS)
    for parameters in CROWDS:
        found += kit.crowd_environment_checks(
            "crowd", plugins=PLUGINS, lam=0.3, **ARMS, **parameters
        )
    week = [0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 0.4]
    for parameters in (
        {"end": 0.3, "rate": 0.1, "visits_per_user": 20},
        {"spread": 0.5, "users": 20},
        {"week": week, "visits_per_day": 10},
    ):
        found += kit.crowd_environment_checks(
            "no-state", plugins=PLUGINS, r=ARMS["r"], **parameters
        )
    for policy in CROWD_POLICIES:
        found += kit.crowd_policy_checks(policy, plugins=PLUGINS)
    found += kit.engine_checks("serial", plugins=PLUGINS)
    found += kit.engine_checks("processes", plugins=PLUGINS, workers=2)
    found += kit.journal_checks("sqlite", plugins=PLUGINS, file=f"{FOLDER.name}/kit_fresh.sqlite")
    for planner in names(Kind.PLANNER):
        found += kit.planner_checks(planner, plugins=PLUGINS)
    for name, parameters in CONFIGURATIONS:
        found += kit.policy_checks(
            {"use": name, **parameters},
            plugins=PLUGINS,
            expected_failures=EXPECTED_FAILURES.get(name),
        )
    return found


@kit.parametrize_with_checks(checks())
def test_contract_is_kept(check: kit.Check) -> None:
    check()


@pytest.mark.slow
@kit.parametrize_with_checks(kit.engine_checks("dask", plugins=PLUGINS))
def test_contract_is_kept_on_dask(check: kit.Check) -> None:
    check()


def test_no_plugin_is_left_out() -> None:
    assert names(Kind.ENVIRONMENT) == ["bernoulli"]
    assert names(Kind.CROWD_ENVIRONMENT) == ["crowd", "no-state"]
    assert set(names(Kind.CROWD_POLICY)) == {policy["use"] for policy in CROWD_POLICIES}
    assert names(Kind.ENGINE) == ["serial", "processes", "dask"]
    assert names(Kind.JOURNAL) == ["sqlite", "postgres"]  # which has its own tests, with a server
    assert set(names(Kind.NOISE_MODEL)) == {noise["use"] for noise in NOISE}
    assert set(names(Kind.POLICY)) == {name for name, _ in CONFIGURATIONS}
