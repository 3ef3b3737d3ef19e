"""The library's face, as a type checker sees it."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, assert_type

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


def simulate_a_crowd(plugins: bdes.Plugins, context: bdes.CrowdPolicyContext) -> None:
    """Build and simulate many users."""
    problem = bdes.CrowdProblem(n_arms=2, visits=1000, visits_per_user=50.0)
    environment = plugins.crowd_environment("crowd", seed=1, r=[0.9], b=[0.1], lam=0.3)
    assert_type(environment, bdes.CrowdEnvironment)
    policy = plugins.crowd_policy({"use": "each", "policy": "ucb1"}, problem, seed=1)
    assert_type(policy, bdes.CrowdPolicy)
    users = environment.arrivals(10)
    assert_type(environment.pull(users, policy.ask(users)), bdes.Outcome)
    feedback = bdes.Feedback(every=100, delay=1000, delays="geometric", lost=0.1)
    trace = bdes.simulate_crowd(environment, policy, 1000, feedback=feedback)
    assert_type(trace, bdes.CrowdTrace)
    assert_type(trace.cumulative_user_means, bdes.FloatArray)
    assert_type(context.problem, bdes.CrowdProblem)
    one = bdes.Problem(n_arms=2, horizon=50)
    assert_type(context.user_policy("ucb1", one, user=3), bdes.Policy)
    assert_type(kit.crowd_policy_checks("each", policy="ucb1"), tuple[kit.Check, ...])
    kit.check_crowd_environment("crowd", plugins=plugins)
    journal = plugins.journal("sqlite", file="journal.sqlite")
    assert_type(journal, bdes.Journal)
    with journal.turn() as turn:
        assert_type(turn, bdes.JournalTurn)
        turn.append([bdes.NewUser(0, "anna"), bdes.ArmAdded(0, "clip", 1.5)])
    assert_type(journal.find_users(["anna"]), list[int | None])
    assert_type(list(journal.read()), list[bdes.Event])
    assert_type(kit.journal_checks("sqlite", file="kit_fresh.sqlite"), tuple[kit.Check, ...])
    planner = plugins.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    assert isinstance(environment, bdes.HasVisitsPerUser)
    assert_type(environment.visits_per_user, float | None)
    benchmark = bdes.crowd_benchmark_of(environment, 1000, planner)
    assert_type(benchmark, bdes.CrowdBenchmark | None)


def serve_a_crowd(policy: bdes.CrowdPolicy, users: bdes.IntArray, folder: Path) -> None:
    """Decide apart from learning, and live."""
    if isinstance(policy, bdes.LearnsApart):
        assert_type(policy.decider, bdes.CrowdDecider)
        assert_type(policy.learner.learn(), bytes)
        policy.decider.adopt(policy.learner.learn())
        assert_type(policy.decider.choose(users), bdes.IntArray)
        assert_type(policy.decider.estimates(), bdes.CrowdEstimates)
    with bdes.open_live(folder) as live:
        assert_type(live, bdes.LiveSession)
        decision = live.decide("anna")
        assert_type(decision, bdes.Decision)
        assert_type(live.reward(decision.id, 1), Literal["noted", "duplicate", "late"])
        assert_type(live.submit_decide(["anna"]), Future[list[bdes.Decision]])
        assert_type(live.add_arm("poll"), int)
        assert_type(live.arms(), list[bdes.ArmStatus])
        assert_type(live.table(), bdes.DecisionTable | None)
        assert_type(live.lift(), bdes.Lift | None)
        assert_type(live.status(), bdes.LiveStatus)
        assert_type(live.estimates(), bdes.CrowdEstimates | None)


def simulate_and_plan(plugins: bdes.Plugins, instance: bdes.Instance) -> None:
    """Use what was built."""
    environment = plugins.environment("bernoulli", seed=1, r=[0.9], b=[0.1], lam=0.3)
    policy = plugins.policy("etc", bdes.Problem(n_arms=1, horizon=10), seed=2)
    trace = bdes.simulate(environment, policy, 10)
    assert_type(trace, bdes.Trace)
    assert_type(trace.arms, bdes.IntArray | None)
    assert_type(bdes.fit(bdes.Log([0], [1])).summary(), bdes.Summary)
    assert_type(environment.pull(policy.ask(1)).rewards, bdes.FloatArray)
    plan = plugins.planner("exact").plan(instance, 10)
    assert_type(plan, bdes.Plan)
    assert_type(plan.arms, bdes.IntArray)
    assert_type(plan.upper_bound, float)
    assert_type(bdes.report_plan(plugins, instance, 10, seconds=1.0), bdes.PlanReport)
    planner: bdes.AnytimePlanner = Certified()
    assert_type(next(planner.improving_plans(instance, 10)), bdes.Plan)
    stationary: bdes.StationaryPlanner = Certified()
    table = stationary.plan_stationary(instance, 0.98)
    assert_type(table, bdes.DecisionTable)
    assert_type(table.arms_at([0.5]), bdes.IntArray)
    assert_type(bdes.DecisionTable.read("table.json").value, float)


def run_it(config: bdes.ExperimentConfig, tables: dict[str, object]) -> None:
    """Run an experiment from a file, from tables and from a config object."""
    assert_type(bdes.run_experiment("demo.toml", objects=[check_it]), bdes.Run)
    assert_type(bdes.run_experiment(tables), bdes.Run)
    assert_type(bdes.run_experiment(config), bdes.Run)
    experiment = bdes.load_experiment({"name": "x", "horizons": [1]}, objects=[check_it])
    with bdes.run_experiment(experiment) as run:
        assert_type(run.report("page.html", paths=3), Path)
        run.plot("final", policies=["etc"])


def read_it(frame: Any) -> None:
    """Read a log from a frame."""
    assert_type(bdes.Log.from_frame(frame), bdes.Log)
    bdes.Log.from_frame(frame, bdes.Columns(user="visitor"))


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


def lift_it(plugins: bdes.Plugins, found: bdes.Fit, log: bdes.Log) -> None:
    """Value a plan."""
    table = bdes.plan_for_leavers(plugins, found.instance, bdes.estimate_continuation(log))
    assert_type(bdes.lift(found, table, log).over("today").lift, bdes.Forecast | None)
    assert_type(bdes.check_off_policy(found, table, log).doubly_robust, bdes.Forecast)


def misuse(plugins: bdes.Plugins, problem: bdes.Problem, found: bdes.Fit) -> None:
    """Each line is rejected."""
    bdes.lift(found, [0, 1])  # error: arg-type
    bdes.lift(plugins, bdes.Schedule.of([0]))  # error: arg-type
    plugins.policy("etc", seed=2)  # error: call-arg
    plugins.policy("etc", problem)  # error: call-arg
    plugins.policy(3, problem, seed=2)  # error: arg-type
    plugins.environment("bernoulli", seed="one")  # error: arg-type
    plugins.polcy("etc", problem, seed=2)  # error: attr-defined
    problem.horizon = 3  # error: misc
    kit.chek_policy("etc")  # error: attr-defined
    bdes.run_experiment(3)  # error: arg-type
    bdes.load_plugins(objects=3)  # error: arg-type
    bdes.load_plugin()  # error: attr-defined
    plugins.crowd_policy("each", problem, seed=2)  # error: arg-type
    bdes.Feedback(delays="normal")  # error: arg-type
