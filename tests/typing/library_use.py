"""The library's face, as a type checker sees it."""

from typing import assert_type

from attrs import frozen

import bdes_framework as bdes
import bdes_framework.testing as kit
from bdes_planners.certified import Certified


@frozen
class EtcConfig:
    """Somebody's policy.

    Parameters
    ----------
    planner : planner
        Who plans.
    """

    planner: bdes.PlannerRef = "exact"


def build_everything(problem: bdes.Problem) -> None:
    """Build things by name, by table and by config object."""
    plugins = bdes.load_plugins(disabled=["something"], modules=["./local.py"])
    assert_type(plugins, bdes.Plugins)
    assert_type(plugins.policy("etc", problem, seed=2, planner="exact"), bdes.Policy)
    assert_type(plugins.policy({"use": "etc", "planner": "exact"}, problem, seed=2), bdes.Policy)
    assert_type(plugins.policy(EtcConfig(planner="exact"), problem, seed=2), bdes.Policy)
    assert_type(plugins.environment("bernoulli", seed=1, r=[0.9], b=[0.1]), bdes.Environment)
    assert_type(plugins.planner("exact"), bdes.Planner)
    assert_type(plugins.noise_model("gaussian", sigma=0.1), bdes.NoiseModel)
    assert_type(plugins.engine("serial"), bdes.Engine)


def simulate_and_plan(plugins: bdes.Plugins, instance: bdes.Instance) -> None:
    """Use what was built."""
    environment = plugins.environment("bernoulli", seed=1, r=[0.9], b=[0.1], lam=0.3)
    policy = plugins.policy("etc", bdes.Problem(n_arms=1, horizon=10), seed=2)
    trace = bdes.simulate(environment, policy, 10)
    assert_type(trace, bdes.Trace)
    assert_type(trace.arms, bdes.IntArray | None)
    assert_type(environment.pull(policy.ask(1)).rewards, bdes.FloatArray)
    plan = plugins.planner("exact").plan(instance, 10)
    assert_type(plan, bdes.Plan)
    assert_type(plan.arms, bdes.IntArray)
    assert_type(plan.upper_bound, float)
    assert_type(bdes.report_plan(plugins, instance, 10, seconds=1.0), bdes.PlanReport)
    planner: bdes.AnytimePlanner = Certified()
    assert_type(next(planner.improving_plans(instance, 10)), bdes.Plan)


@bdes.hookimpl
def bdes_cell_finished(run: bdes.RunProgress, cell: bdes.FinishedCell) -> None:
    """Listen to a run."""
    assert_type(run.n_finished, int)
    assert_type(cell.policy, str)


def check_it(plugins: bdes.Plugins) -> None:
    """Use the kit."""
    kit.check_policy(
        "etc", plugins=plugins, expected_failures={"arms_exist": "no"}, planner="exact"
    )
    assert_type(kit.policy_checks(EtcConfig()), tuple[kit.Check, ...])


def misuse(plugins: bdes.Plugins, problem: bdes.Problem) -> None:
    """Each line is rejected."""
    plugins.policy("etc", seed=2)  # error: call-arg
    plugins.policy("etc", problem)  # error: call-arg
    plugins.policy(3, problem, seed=2)  # error: arg-type
    plugins.environment("bernoulli", seed="one")  # error: arg-type
    plugins.polcy("etc", problem, seed=2)  # error: attr-defined
    problem.horizon = 3  # error: misc
    kit.chek_policy("etc")  # error: attr-defined
    bdes.load_plugin()  # error: attr-defined
