"""The policy that follows a decision table from every user's own state."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import BdesError, CrowdProblem, DecisionTable, Instance
from tests.support.players import PLUGINS

ADS = Instance(r=[0.9, 0.3], b=[0.1, 1.0], lam=0.3)
PROBLEM = CrowdProblem(2, 1000)


@pytest.fixture(scope="module")
def table() -> DecisionTable:
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    return planner.plan_stationary(ADS, 0.9)


def policy(problem: CrowdProblem = PROBLEM, **parameters: Any) -> bdes.CrowdPolicy:
    return PLUGINS.crowd_policy("crowd-table", problem, seed=1, **parameters)


def test_arms_are_the_tables_at_every_users_state(table: DecisionTable, tmp_path: Path) -> None:
    table.write(tmp_path / "table.json")
    chosen = policy(table=str(tmp_path / "table.json"))
    users = np.random.default_rng(1).integers(9, size=500)
    states = np.ones(9)
    for user, arm in zip(users.tolist(), chosen.ask(users).tolist(), strict=True):
        assert arm == table.arms_at([states[user]])[0]
        states[user] += ADS.lam * (ADS.b[arm] - states[user])
    assert isinstance(chosen, bdes.HasDiagnostics)
    assert chosen.diagnostics()["mean_state"] == pytest.approx(states.mean())


def test_users_bring_what_the_table_is_worth(table: DecisionTable) -> None:
    users: dict[str, Any] = {"users": 4000, "visits_per_user": 10, "lifetimes": "geometric"}
    arms: dict[str, Any] = {"r": ADS.r, "b": ADS.b, "lam": ADS.lam}
    environment = PLUGINS.crowd_environment("crowd", seed=1, **users, **arms)
    problem = CrowdProblem(2, 10**6, visits_per_user=10, lam=0.3)
    trace = bdes.simulate_crowd(environment, policy(problem, r=ADS.r, b=ADS.b), problem.visits)
    error = trace.user_means.std() / np.sqrt(trace.n_users)
    assert abs(trace.user_means.mean() - table.value) < 4 * error


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "give either a table, or r and b"),
        ({"r": [0.5, 0.5]}, "belong together"),
        ({"r": [0.5, 0.5], "b": [0.5, 0.5]}, "needs lam, which the problem does not tell"),
        ({"r": [0.5], "b": [0.5], "lam": 0.5}, "needs visits_per_user"),
        ({"r": [0.5] * 3, "b": [0.5] * 3, "lam": 0.5, "visits_per_user": 9}, "only 2"),
        (
            {"r": [0.5], "b": [0.5], "lam": 0.5, "visits_per_user": 9, "planner": "fptas"},
            "does not plan for users who may leave",
        ),
        ({"table": "nowhere.json"}, "nowhere"),
    ],
)
def test_wrong_parameters_are_reported(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BdesError, match=message):
        policy(**parameters)


def test_table_of_another_first_state_is_rejected(table: DecisionTable) -> None:
    with pytest.raises(BdesError, match=r"begin at state 1, but here they begin at 0\.5"):
        policy(CrowdProblem(2, 100, q0=0.5), table=table)


def test_table_has_its_own_rate(table: DecisionTable) -> None:
    with pytest.raises(BdesError, match="leave them out"):
        policy(table=table, lam=0.3)
