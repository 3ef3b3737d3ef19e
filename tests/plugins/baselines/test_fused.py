"""The compiled loops of the reference policies: the same, bit for bit, as asking and telling."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bdes_framework import (
    Diagnostics,
    Environment,
    FloatArray,
    FusedEnvironment,
    FusedPolicy,
    HasDiagnostics,
    IntArray,
    Policy,
    Problem,
    Record,
    load_plugins,
    simulate,
)
from tests.support import REPOSITORY

PLUGINS = load_plugins()

FUSED: dict[str, list[dict[str, object]]] = {
    "aae": [{}, {"delta": 1.0}],
    "discounted-ucb": [{}, {"gamma": 0.6}, {"xi": 0.01, "B": 0.5}],
    "exp3": [{}, {"gamma": 1.0}, {"gamma": 0.5}],
    "sliding-window-ucb": [{}, {"tau": 3}, {"tau": 50, "xi": 0.05}],
    "thompson": [{}, {"alpha": 0.3, "beta": 0.01}],
    "ucb1": [{}, {"exploration": 0.1}],
}
CASES = [(name, given) for name, parameters in FUSED.items() for given in parameters]
NOISES: list[object] = [None, {"use": "gaussian", "sigma": 0.3}, "none"]


class AskingOnly:
    """Hides a policy's compiled loop."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def ask(self, limit: int) -> IntArray:
        return self.policy.ask(limit)

    def tell(self, rewards: FloatArray) -> None:
        self.policy.tell(rewards)


def environment(n_arms: int, seed: int, noise: object = None) -> Environment:
    rng = np.random.default_rng(seed)
    return PLUGINS.environment(
        "bernoulli",
        seed=seed,
        r=rng.random(n_arms),
        b=rng.random(n_arms),
        lam=[0.0, 0.2, 1.0][seed % 3],
        noise=noise,
    )


def policy(
    name: str, parameters: dict[str, object], n_arms: int, horizon: int, seed: int
) -> FusedPolicy:
    problem = Problem(n_arms=n_arms, horizon=horizon)
    built = PLUGINS.policy({"use": name, **parameters}, problem, seed=seed)
    assert isinstance(built, FusedPolicy)
    return built


def diagnostics(policy: Policy) -> Diagnostics:
    assert isinstance(policy, HasDiagnostics)
    return policy.diagnostics()


def assert_same_diagnostics(one: Policy, other: Policy) -> None:
    first, second = diagnostics(one), diagnostics(other)
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert np.asarray(value).tobytes() == np.asarray(second[key]).tobytes(), key


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_simulating_fused_equals_asking_and_telling(
    name: str, parameters: dict[str, object], noise: object
) -> None:
    # Once per policy long enough for the second chunk of a simulation.
    horizon = 17_000 if noise is None and not parameters else 2_000
    fused = policy(name, parameters, 4, horizon, seed=3)
    asked = policy(name, parameters, 4, horizon, seed=3)
    fast = simulate(environment(4, 3, noise), fused, horizon)
    slow = simulate(environment(4, 3, noise), AskingOnly(asked), horizon)
    assert fast.arms is not None
    assert fast.rewards is not None
    np.testing.assert_array_equal(fast.arms, slow.arms)
    np.testing.assert_array_equal(fast.rewards, slow.rewards)
    assert_same_diagnostics(fused, asked)
    assert len(set(fast.arms.tolist())) > 1


def play_in_pieces(
    policy: FusedPolicy, world: Environment, pieces: list[tuple[bool, int]]
) -> tuple[list[int], list[float]]:
    """Play pieces of rounds, each either through the compiled loop or by asking and telling."""
    assert isinstance(world, FusedEnvironment)
    arms: list[int] = []
    rewards: list[float] = []
    for fused, n in pieces:
        if fused:
            record = Record.empty(n)
            policy.play(world.open_rounds(n), record)
            arms += record.arms.tolist()
            rewards += record.rewards.tolist()
            continue
        end = len(arms) + n
        while len(arms) < end:
            block = policy.ask(end - len(arms))
            outcome = world.pull(block)
            policy.tell(outcome.rewards)
            arms += block.tolist()
            rewards += outcome.rewards.tolist()
    return arms, rewards


@pytest.mark.parametrize(("name", "parameters"), CASES)
@settings(max_examples=20)
@given(
    pieces=st.lists(st.tuples(st.booleans(), st.integers(1, 60)), min_size=1, max_size=6),
    n_arms=st.integers(1, 6),
    seed=st.integers(0, 1000),
    noise=st.sampled_from(NOISES),
)
def test_the_two_forms_can_take_turns(
    name: str,
    parameters: dict[str, object],
    pieces: list[tuple[bool, int]],
    n_arms: int,
    seed: int,
    noise: object,
) -> None:
    horizon = sum(n for _, n in pieces)
    mixed = policy(name, parameters, n_arms, horizon, seed)
    asked = policy(name, parameters, n_arms, horizon, seed)
    played = play_in_pieces(mixed, environment(n_arms, seed, noise), pieces)
    expected = play_in_pieces(asked, environment(n_arms, seed, noise), [(False, horizon)])
    assert played == expected
    assert_same_diagnostics(mixed, asked)


DIGEST = """
import sys
if "--no-numba" in sys.argv:
    sys.modules["numba"] = None
from tests.plugins.baselines.test_fused import digest_of_everything
print(digest_of_everything())
"""


def digest_of_everything() -> str:
    """Play every fused policy both ways and hash arms, rewards and diagnostics."""
    digest = hashlib.sha256()
    for name, parameters in CASES:
        for n_arms, horizon, noise in ((5, 1500, None), (2, 400, NOISES[1])):
            for pieces in ([(True, horizon)], [(False, horizon)]):
                player = policy(name, parameters, n_arms, horizon, seed=9)
                arms, rewards = play_in_pieces(player, environment(n_arms, 9, noise), pieces)
                digest.update(np.array(arms).tobytes() + np.array(rewards).tobytes())
                for key, value in sorted(diagnostics(player).items()):
                    digest.update(key.encode() + np.asarray(value).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("how", ["switched off", "absent"])
def test_results_are_the_same_with_numba_switched_off_or_absent(how: str) -> None:
    variables = {**os.environ, "NUMBA_DISABLE_JIT": "1" if how == "switched off" else "0"}
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", DIGEST, "--no-numba" if how == "absent" else ""],
        cwd=REPOSITORY,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == digest_of_everything()
