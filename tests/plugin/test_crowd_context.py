"""What the factory of a crowd policy is given."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen

import bdes_framework as bdes
from bdes_framework import ContractError, CrowdPolicy, CrowdPolicyContext, CrowdProblem, Problem

PROBLEM = CrowdProblem(2, 100, visits_per_user=5.0, lam=0.3)


@frozen
class Config:
    """Nothing."""


def build(look: Callable[[Any], None], uses: Any = None) -> CrowdPolicy:
    """Build a crowd policy whose factory looks at its context."""

    def factory(config: Config, context: CrowdPolicyContext) -> CrowdPolicy:
        look(context)
        return context.crowd_policy("crowd-greedy")

    plugins = bdes.load_plugins()
    registrar = bdes.Registrar("looking", "acme")
    registrar.crowd_policy("looking", Config, factory, uses=uses)
    plugins._registry.add(registrar.entries)
    return plugins.crowd_policy("looking", PROBLEM, seed=1)


@pytest.mark.parametrize(
    ("uses", "lam", "often"),
    [
        (None, 0.3, 5.0),
        (["lam", "visits_per_user"], 0.3, 5.0),
        (["lam"], 0.3, None),
        (["visits_per_user"], None, 5.0),
        ([], None, None),
    ],
)
def test_policy_is_told_only_what_it_uses(
    uses: Any, lam: float | None, often: float | None
) -> None:
    told: list[CrowdProblem] = []
    assert isinstance(build(lambda context: told.append(context.problem), uses), CrowdPolicy)
    assert told == [CrowdProblem(2, 100, visits_per_user=often, lam=lam)]


def test_wrong_uses_are_rejected() -> None:
    with pytest.raises(bdes.PluginError, match="'uses' must be a list of names"):
        build(lambda context: None, "lam")
    with pytest.raises(bdes.PluginError, match="cannot be revealed"):
        build(lambda context: None, ["r"])


def test_users_random_numbers_do_not_depend_on_order() -> None:
    one = Problem(5, 100)
    arms: dict[int, list[list[int]]] = {}

    def look(context: CrowdPolicyContext, users: list[int]) -> None:
        for user in users:
            policy = context.user_policy("exp3p", one, user)
            arms.setdefault(user, []).append(policy.ask(1).tolist())

    build(lambda context: look(context, list(range(20))))
    build(lambda context: look(context, list(range(20))[::-1]))
    assert all(first == second for first, second in arms.values())
    assert len({tuple(first) for first, _ in arms.values()}) > 1


def test_policy_for_one_audience_needs_its_problem() -> None:
    with pytest.raises(ContractError, match="for which Problem"):
        build(lambda context: context.policy("ucb1"))
