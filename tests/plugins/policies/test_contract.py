"""The paper's policies at edges that the conformance kit does not reach."""

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bdes_framework import ContractError, Instance, InvalidValueError, Policy, Problem, simulate
from tests.support.configurations import CONFIGURATIONS, PAPER_POLICIES
from tests.support.fused import AskingOnly
from tests.support.noiseless import PLUGINS, build, diagnostics_of, play, problem_of

INSTANCES = {
    "ordinary": ([0.9, 0.6, 0.3], [0.1, 0.5, 1.0]),
    "never pays": ([0.0, 0.0, 0.0], [0.1, 0.5, 1.0]),
    "one never pays": ([0.8, 0.0, 0.3], [0.1, 1.0, 0.2]),
    "identical": ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
    "all lead to nothing": ([0.5, 0.4, 0.3], [0.0, 0.0, 0.0]),
    "always pays": ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    "single arm": ([0.7], [0.4]),
}
CASES = [("ordinary", lam) for lam in (0.0, 1e-300, 1e-20, 1e-6, 0.4, 1 - 1e-12, 1.0)]
CASES += [(case, lam) for case in list(INSTANCES)[1:] for lam in (0.0, 1e-6, 1.0)]


@pytest.mark.parametrize(("name", "parameters"), PAPER_POLICIES)
@pytest.mark.parametrize(("case", "lam"), CASES)
def test_plays_at_any_rate_on_any_arms(
    name: str, parameters: dict[str, Any], lam: float, case: str
) -> None:
    r, b = INSTANCES[case]
    for horizon in (2, 13, 130):
        problem = Problem(len(r), horizon, lam, replenishing_arm=len(r) - 1)
        played = play(build(name, problem, **parameters), Instance(r, b, lam), horizon)
        assert played.arms.size == horizon
    if case not in ("never pays", "always pays"):  # there, draws are what they are expected to be
        world = PLUGINS.environment("bernoulli", seed=1, r=r, b=b, lam=lam)
        assert simulate(world, build(name, problem, **parameters), 130).total_reward >= 0


@pytest.mark.parametrize(
    "name", ["etc", "etc-unknown-arm", "posterior", "rank-one", "unknown-lambda", "sticky"]
)
def test_first_state_other_than_one_does_no_harm(name: str) -> None:
    for q0 in (0.0, 0.3, 5.0):
        instance = Instance([0.1, 0.05], [0.2, 1.0], 0.2, q0)
        played = play(build(name, problem_of(instance, 600, arm=1)), instance, 600)
        assert np.isfinite(played.means).all()


@pytest.mark.parametrize(
    ("name", "problem", "says"),
    [
        ("etc", Problem(2, 10, None, 1), "unknown-lambda"),
        ("etc", Problem(2, 10, 0.5), "etc-unknown-arm"),
        ("etc-unknown-arm", Problem(2, 10), "unknown-lambda"),
        ("wide-ucb", Problem(2, 10), "exp3p"),
    ],
)
def test_missing_knowledge_names_another_policy(name: str, problem: Problem, says: str) -> None:
    with pytest.raises(InvalidValueError, match=says):
        build(name, problem)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("exp3p", {"delta": 0.0}),
        ("exp3p", {"delta": 1.0}),
        ("etc", {"epsilon": 0.0}),
        ("etc", {"epsilon": 1e300}),
        ("etc", {"samples": 0}),
        ("etc", {"explore_at_most": 1.0}),
        ("etc", {"tuning": "papers"}),
        ("etc", {"planner": "certifed"}),
        ("etc-unknown-arm", {"epsilon": float("inf")}),
        ("posterior", {"lam_prior": 1.0}),
        ("posterior", {"lam_deviation": 0.0}),
        ("posterior", {"growth": 1.0}),
        ("posterior", {"redraw": 0.0}),
        ("posterior", {"draws": 0}),
        ("posterior", {"width": -1.0}),
        ("rank-one", {"delta": 0.0}),
        ("rank-one", {"draws": 0}),
        ("sticky", {"batches": 0}),
        ("sticky", {"width": -1.0}),
        ("unknown-lambda", {"fast": -0.1}),
        ("wide-ucb", {"exploration": 0.0}),
        ("auto", {"slow_below": -1.0}),
    ],
)
def test_parameters_out_of_range_raise_by_name(name: str, wrong: dict[str, Any]) -> None:
    (parameter,) = wrong
    with pytest.raises(ValueError, match=parameter):
        build(name, Problem(2, 100, 0.5, 1), **wrong)


def test_exploring_keeps_to_its_share() -> None:
    instance = Instance([0.9, 0.5], [0.1, 1.0], 0.05)
    for horizon, share, name, tuning in itertools.product(
        (50, 500, 5_000), (0.05, 0.3, 0.9), ("etc", "etc-unknown-arm"), ("paper", "balanced")
    ):
        problem = problem_of(instance, horizon, arm=1)
        policy = build(name, problem, tuning=tuning, explore_at_most=share)
        explored = play(policy, instance, horizon).diagnostics.get("exploration", 0)
        assert isinstance(explored, int)
        assert explored <= share * horizon


LONG = """
import re
import bdes_framework as bdes
plugins = bdes.load_plugins()
environment = plugins.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=LAM)
problem = bdes.Problem(2, 10**8, LAM, 1)
policy = plugins.policy({"use": NAME, **PARAMETERS}, problem, seed=1)
bdes.simulate(environment, policy, 10**8, keep=False)
status = open("/proc/self/status").read()  # ru_maxrss would count the parent's memory as well
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lam", [1.0, 1e-7])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("etc", {"tuning": "paper"}),
        ("etc-unknown-arm", {"tuning": "paper"}),
        ("rank-one", {}),
        ("sticky", {}),
        ("unknown-lambda", {"tuning": "paper"}),
    ],
)
def test_memory_stays_flat_over_1e8_rounds(
    name: str, parameters: dict[str, Any], lam: float
) -> None:
    code = LONG.replace("LAM", repr(lam)).replace("NAME", repr(name))
    code = code.replace("PARAMETERS", repr(parameters | {"planner": "best-cycle"}))
    if name in ("rank-one", "sticky"):
        code = code.replace(repr({"planner": "best-cycle"}), "{}")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 400


@pytest.mark.parametrize("name", ["etc", "posterior", "rank-one", "sticky", "etc-unknown-arm"])
def test_more_rounds_than_the_horizon_raise(name: str) -> None:
    for form in (lambda policy: policy, AskingOnly):
        world = PLUGINS.environment("bernoulli", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.5)
        policy = form(build(name, Problem(2, 100, 0.5, 1)))
        with pytest.raises(ContractError, match="more rounds than the problem's horizon"):
            simulate(world, policy, 250)


@pytest.mark.parametrize("name", ["etc", "etc-unknown-arm"])
@pytest.mark.parametrize("tuning", ["paper", "balanced"])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-320, 1e-160, 1.0])
def test_any_allowed_epsilon_can_be_played(name: str, tuning: str, epsilon: float) -> None:
    instance = Instance([0.9, 0.5], [0.1, 1.0], 0.2)
    problem = problem_of(instance, 500, arm=1)
    played = play(build(name, problem, tuning=tuning, epsilon=epsilon), instance, 500)
    assert played.diagnostics["epsilon"] == epsilon
    assert played.diagnostics["clipped"] or epsilon == 1


DEFAULTS = [(name, needed) for name, needed in CONFIGURATIONS if name not in dict(PAPER_POLICIES)]
DEFAULTS += [(name, {}) for name in dict(PAPER_POLICIES)]
BLIND = ("uniform", "fixed-schedule")
"""Policies that do not look at rewards."""


@pytest.mark.parametrize("name", [name for name, _ in DEFAULTS if name not in BLIND])
def test_rewards_not_finite_raise(name: str) -> None:
    problem = Problem(3, 300, 0.3, 2)
    tried, spared = build(name, problem), build(name, problem)
    done, wrongs = 0, itertools.cycle([float("nan"), float("inf"), -float("inf")])
    while done < 300:
        wrong = next(wrongs)
        arms = tried.ask(300 - done)
        np.testing.assert_array_equal(arms, spared.ask(300 - done))
        rewards = np.full(arms.size, 0.5)
        with pytest.raises(InvalidValueError, match=f"rewards must .* got {wrong!r}"):
            tried.tell(np.append(rewards[1:], wrong))
        tried.tell(rewards)
        spared.tell(rewards)
        done += arms.size


@pytest.mark.parametrize(("name", "needed"), DEFAULTS)
def test_wrong_number_of_rewards_raises(name: str, needed: dict[str, Any]) -> None:
    tried, spared = (build(name, Problem(3, 300, 0.3, 2), **needed) for _ in range(2))
    done = 0
    while done < 40:
        asked = tried.ask(5).size
        for wrong in (asked - 1, asked + 1):
            expected = rf"asked for {asked} pulls, got the rewards of {wrong}"
            with pytest.raises(InvalidValueError, match=expected):
                tried.tell(np.full(wrong, 0.5))
        tried.tell(np.full(asked, 0.5))
        spared.ask(5)
        spared.tell(np.full(asked, 0.5))
        done += asked
    np.testing.assert_array_equal(tried.ask(5), spared.ask(5))


def arrays_of(policy: Policy) -> dict[str, NDArray[Any]]:
    shown = diagnostics_of(policy).items()
    return {name: value for name, value in shown if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("name", [name for name, _ in DEFAULTS if name not in BLIND])
def test_diagnostics_are_copies_of_arrays(name: str) -> None:
    policy = build(name, Problem(3, 300, 0.3, 2))
    play(policy, Instance([0.9, 0.6, 0.3], [0.1, 0.5, 1.0], 0.3), 250)
    kept, shown = arrays_of(policy), arrays_of(policy)
    assert shown
    for values in shown.values():
        assert np.isfinite(values).all()
        values.fill(-7)
    np.testing.assert_equal(arrays_of(policy), kept)


@pytest.mark.parametrize("name", ["exp3", "exp3p", "posterior", "thompson"])
@pytest.mark.parametrize("bad", [-0.1, 1.1])
def test_tell_rejects_rewards_outside_0_1(name: str, bad: float) -> None:
    policy = build(name, Problem(3, 100))
    policy.ask(1)
    with pytest.raises(InvalidValueError, match=rf"rewards must lie in \[0, 1\], got .?{bad!r}"):
        policy.tell(np.array([bad]))
