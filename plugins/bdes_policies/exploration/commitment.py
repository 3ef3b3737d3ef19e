"""Explore-then-commit: the parameters, the task and the final plan of both variants."""

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le, lt, optional

import bdes_framework as bdes
from bdes_framework import FloatArray, Policy, Problem, Schedule, validate_integer, validate_number
from bdes_policies.exploration.phased_policy import DiagnosticsDict, FollowSchedule
from bdes_policies.exploration.phases import StateWeights
from bdes_policies.exploration.tuning import Lengths, Tuning, exploration_budget, lengths

_MAX_PLAN_TEXT = 200


@frozen
class ExploreThenCommitConfig:
    """Fields shared by ``etc`` and ``etc-unknown-arm``.

    Parameters
    ----------
    planner : planner
        What plans for the estimates.
    tuning : Literal["paper", "balanced"]
        The paper's epsilon and M, cut to what fits; or lengths that balance errors.
    epsilon : float | None
        How near the state must come to an end state before a sample, above 0 and at most
        1; by default what the tuning says.
    samples : int | None
        Samples of each mean (the paper's M); by default what the tuning says.
    explore_at_most : float
        The share of the horizon that exploring may take, between 0 and 1.
    """

    planner: bdes.PlannerRef = "certified"
    tuning: Tuning = "balanced"
    epsilon: float | None = field(default=None, validator=optional([validate_number, gt(0), le(1)]))
    samples: int | None = field(default=None, validator=optional([validate_integer, ge(1)]))
    explore_at_most: float = field(default=0.5, validator=[validate_number, gt(0), lt(1)])


@frozen(eq=False)
class Task:
    """A problem to explore and commit to, possibly after other pulls."""

    problem: Problem
    """Its horizon is the rounds that are left."""
    lam: float
    """The evolution rate, known or estimated."""
    planner: bdes.Planner
    weights: StateWeights
    """Of the arms pulled before, if any; exploring adds to them."""
    diagnostics: DiagnosticsDict
    """Where estimates, lengths and decisions are written down."""

    @classmethod
    def with_known_lam(
        cls, name: str, config: ExploreThenCommitConfig, context: bdes.PolicyContext
    ) -> "Task":
        """Return the task of a policy that needs lam; raise if the problem does not say it."""
        problem = context.problem
        if problem.lam is None:
            raise bdes.InvalidValueError(
                f"{name} needs to know lam; without it, use unknown-lambda"
            )
        lam, planner = float(problem.lam), context.planner(config.planner)
        weights = StateWeights(problem.n_arms, lam)
        return cls(problem, lam, planner, weights, {"tuning": config.tuning})

    def choose_lengths(self, config: ExploreThenCommitConfig, factor: float = 1.0) -> Lengths:
        """Return how long to explore; with no room for it, 0 samples."""
        chosen = lengths(
            self.problem,
            self.lam,
            config.tuning,
            exploration_budget(self.problem, config.explore_at_most),
            epsilon=config.epsilon,
            samples=config.samples,
            factor=factor,
        )
        self.diagnostics.update(chosen.diagnostics())
        if chosen.samples == 0:
            self.diagnostics["plan"] = "all arms in turn: no room to explore"
        return chosen


def round_robin(n_arms: int, rounds: int) -> Policy:
    """Return the policy that plays all arms in turn: what to do when nothing is known."""
    return FollowSchedule(Schedule.cycle(np.arange(n_arms), rounds))


def follow_plan(
    task: Task, r_hat: FloatArray, b_hat: FloatArray, state: float, rounds: int
) -> Policy:
    """Return the policy that plays the best schedule for the estimates and the rounds left.

    ``state`` is where the arms really pulled have led to, under the estimates.
    """
    diagnostics = task.diagnostics
    diagnostics["state"] = state
    if not r_hat.any():
        diagnostics["plan"] = "all arms in turn: none has paid"
        return round_robin(r_hat.size, rounds)
    plan = task.planner.plan(bdes.Instance(r_hat, b_hat, task.lam, state), rounds)
    if plan.schedule.n_pulls != rounds:
        raise bdes.ContractError(
            f"the planner was asked for {rounds} pulls and returned {plan.schedule.n_pulls}"
        )
    text = str(plan.schedule)
    diagnostics["plan"] = text if len(text) <= _MAX_PLAN_TEXT else f"{text[:_MAX_PLAN_TEXT]}…"
    diagnostics["plan_value"] = plan.value
    diagnostics["plan_gap"] = plan.gap
    return FollowSchedule(plan.schedule)


def ratio(numerators: FloatArray, denominators: FloatArray, highest: float) -> FloatArray:
    """Return quotients, at most ``highest``; 0 where the denominator is 0."""
    whole = np.where(denominators > 0, denominators, 1.0)
    return np.where(denominators > 0, np.minimum(numerators / whole, highest), 0.0)
