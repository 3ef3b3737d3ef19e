"""The conformance kit: named checks of what the contract asks of plugins.

Write ``check_policy("my-policy")`` in a test, or one test per promise::

    @parametrize_with_checks(policy_checks("my-policy", epsilon=0.1))
    def test_conformance(check: Check) -> None:
        check()

Names are resolved when first used, so that the pytest plugin beside this file costs nothing.
"""

from typing import TYPE_CHECKING

from bdes_framework._internal.lazy_names import lazy_names

if TYPE_CHECKING:
    from bdes_framework.testing.checks import Check as Check
    from bdes_framework.testing.checks import ConformanceError as ConformanceError
    from bdes_framework.testing.checks import ConformanceSuite as ConformanceSuite
    from bdes_framework.testing.checks import Failure as Failure
    from bdes_framework.testing.checks import parametrize_with_checks as parametrize_with_checks
    from bdes_framework.testing.crowd_environments import (
        check_crowd_environment as check_crowd_environment,
    )
    from bdes_framework.testing.crowd_environments import (
        crowd_environment_checks as crowd_environment_checks,
    )
    from bdes_framework.testing.crowd_halves import check_crowd_policy as check_crowd_policy
    from bdes_framework.testing.crowd_halves import crowd_policy_checks as crowd_policy_checks
    from bdes_framework.testing.engines import check_engine as check_engine
    from bdes_framework.testing.engines import engine_checks as engine_checks
    from bdes_framework.testing.environments import check_environment as check_environment
    from bdes_framework.testing.environments import environment_checks as environment_checks
    from bdes_framework.testing.journals import check_journal as check_journal
    from bdes_framework.testing.journals import journal_checks as journal_checks
    from bdes_framework.testing.noise import check_noise_model as check_noise_model
    from bdes_framework.testing.noise import noise_model_checks as noise_model_checks
    from bdes_framework.testing.planners import check_planner as check_planner
    from bdes_framework.testing.planners import planner_checks as planner_checks
    from bdes_framework.testing.policies import check_policy as check_policy
    from bdes_framework.testing.policies import policy_checks as policy_checks
    from bdes_framework.testing.reference import ReferenceCrowd as ReferenceCrowd
    from bdes_framework.testing.reference import ReferenceEnvironment as ReferenceEnvironment
    from bdes_framework.testing.reference import best_value as best_value

_HOMES = {
    "checks": "Check ConformanceError ConformanceSuite Failure parametrize_with_checks",
    "crowd_environments": "check_crowd_environment crowd_environment_checks",
    "crowd_halves": "check_crowd_policy crowd_policy_checks",
    "engines": "check_engine engine_checks",
    "environments": "check_environment environment_checks",
    "journals": "check_journal journal_checks",
    "noise": "check_noise_model noise_model_checks",
    "planners": "check_planner planner_checks",
    "policies": "check_policy policy_checks",
    "reference": "ReferenceCrowd ReferenceEnvironment best_value",
}

__all__, _resolve, __dir__ = lazy_names(__name__, _HOMES)

if not TYPE_CHECKING:  # a type checker would take any misspelt name for an Any
    __getattr__ = _resolve
