"""The loop: same numbers however pulls are grouped or kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework import InvalidValueError, log_checkpoints, simulate
from bdes_framework.simulation.loop import CHUNK
from tests.support.players import Scripted, environment, script


@pytest.mark.parametrize("horizon", [1, 7, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
@pytest.mark.parametrize("sizes", [[1], [1, 1, 50], [1000], [10**9]])
def test_trace_is_the_same_however_grouped_or_kept(horizon: int, sizes: list[int]) -> None:
    arms = script(horizon)
    outcome = environment().pull(arms)
    policy = Scripted(arms, sizes)
    trace = simulate(environment(), policy, horizon)
    np.testing.assert_array_equal(trace.arms, arms)
    for name in ("rewards", "means", "states"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(outcome, name))
    np.testing.assert_array_equal(policy.observed, outcome.rewards)
    assert max(policy.limits) <= min(horizon, CHUNK)
    assert policy.limits[-1] <= (horizon - 1) % CHUNK + 1  # the rounds of the last chunk
    curves = simulate(environment(), Scripted(arms, [17]), horizon, keep=False)
    assert (curves.arms, curves.rewards, curves.means, curves.states) == (None,) * 4
    for name in ("cumulative_rewards", "cumulative_means", "cumulative_states"):
        np.testing.assert_array_equal(getattr(curves, name), getattr(trace, name))
    np.testing.assert_array_equal(curves.counts, np.bincount(arms, minlength=3))


def test_curves_are_sums_at_the_checkpoints() -> None:
    horizon = CHUNK + 100
    arms = script(horizon)
    played = environment()
    assert isinstance(played, bdes.HasInstance)
    checkpoints = [1, 2, 500, CHUNK, CHUNK + 1, horizon]
    trace = simulate(played, Scripted(arms, [64]), horizon, checkpoints=checkpoints)
    index = np.array(checkpoints) - 1
    assert trace.rewards is not None
    assert trace.means is not None
    np.testing.assert_array_equal(trace.cumulative_rewards, np.cumsum(trace.rewards)[index])
    np.testing.assert_allclose(trace.cumulative_means, np.cumsum(trace.means)[index], rtol=1e-12)
    states = np.cumsum(played.instance.states(arms))[index]
    assert trace.cumulative_states is not None
    np.testing.assert_allclose(trace.cumulative_states, states, rtol=1e-12)
    assert trace.total_reward == trace.rewards.sum()


@pytest.mark.parametrize(
    ("horizon", "n"), [(10.5, 5), (10.0, 5), (True, 5), (0, 5), (10, 2.5), (10, 1)]
)
def test_log_checkpoints_needs_integers(horizon: int, n: int) -> None:
    with pytest.raises(InvalidValueError, match="must be an integer of at least"):
        log_checkpoints(horizon, n)


def test_the_horizon_is_always_a_checkpoint() -> None:
    trace = simulate(environment(), Scripted(script(9), [9]), 9, checkpoints=[2, 4])
    assert trace.checkpoints.tolist() == [2, 4, 9]
    assert simulate(environment(), Scripted(script(9), [9]), 9).checkpoints[-1] == 9


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("checkpoints", rounds) for rounds in ([0, 3], [3, 3], [4, 2], [20], [1.5])]
    + [("horizon", horizon) for horizon in (0, -1, 1.5, True, "9")],
)
def test_wrong_rounds_raise(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidValueError, match=name):
        simulate(environment(), Scripted(script(9), [9]), **{"horizon": 9, name: wrong})


@given(st.integers(1, 10**9), st.integers(2, 100))
def test_log_checkpoints_increase_to_the_horizon(horizon: int, n: int) -> None:
    checkpoints = log_checkpoints(horizon, n)
    assert checkpoints[-1] == horizon
    assert (np.diff(checkpoints) > 0).all()
    assert checkpoints.size <= n
    assert checkpoints[0] == 1


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_simulate_one_arm_for_one_round(lam: float) -> None:
    single: dict[str, Any] = {"r": [0.5], "b": [0.5], "lam": lam}
    trace = simulate(environment(**single), Scripted(np.zeros(1, dtype=np.int64), [1]), 1)
    assert trace.total_mean == 0.5
    assert trace.counts.tolist() == [1]
