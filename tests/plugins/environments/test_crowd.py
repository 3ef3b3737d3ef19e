"""The environment ``crowd``: who comes, for how long, and how users differ."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_environments.crowd import CrowdConfig, draw_lifetimes, heavy_scale
from bdes_framework import BdesError
from tests.support.players import PLUGINS

ARMS: dict[str, Any] = {"r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.3}


def crowd(seed: int = 1, **parameters: Any) -> bdes.CrowdEnvironment:
    return PLUGINS.crowd_environment("crowd", seed=seed, **(ARMS | parameters))


def test_uniform_arrivals_are_uniform() -> None:
    came = np.bincount(crowd(users=20).arrivals(20_000))
    assert came.size == 20
    assert abs(came - 1000).max() < 6 * np.sqrt(1000)


def test_everybody_makes_their_visits_and_leaves() -> None:
    environment = crowd(users=50, visits_per_user=7)
    users = environment.arrivals(1000)
    assert np.bincount(users).tolist() == [7] * 50
    assert environment.arrivals(10).size == 0


def test_round_robin_takes_turns() -> None:
    assert crowd(users=3, arrivals="round-robin").arrivals(7).tolist() == [0, 1, 2, 0, 1, 2, 0]
    environment = crowd(
        users=40, arrivals="round-robin", visits_per_user=5, lifetimes="geometric", seed=2
    )
    users = environment.arrivals(10_000)
    assert environment.arrivals(1).size == 0
    left, expected = dict(enumerate(np.bincount(users).tolist())), []
    while left:
        expected += sorted(left)
        left = {user: n - 1 for user, n in left.items() if n > 1}
    assert users.tolist() == expected


def test_cohorts_come_one_after_another() -> None:
    users = crowd(users=10, arrivals="cohorts", cohort=4, visits_per_user=3).arrivals(100)
    assert [set(users[part].tolist()) for part in (slice(12), slice(12, 24), slice(24, 30))] == [
        {0, 1, 2, 3},
        {4, 5, 6, 7},
        {8, 9},
    ]


@pytest.mark.parametrize(("mean", "tail"), [(1.5, 3.0), (20.0, 2.5), (50.0, 1.5), (50.0, 20.0)])
def test_heavy_tails_have_their_mean(mean: float, tail: float) -> None:
    scale = heavy_scale(mean, tail)
    k = np.arange(10_000_000)
    beyond = scale / (tail - 1) * (1 + k.size / scale) ** (1 - tail)  # the integral of the rest
    assert ((1 + k / scale) ** -tail).sum() + beyond == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize("lifetimes", ["fixed", "geometric", "heavy-tailed"])
def test_lifetimes_have_their_distribution(lifetimes: Any) -> None:
    config = CrowdConfig(
        r=np.array([0.9, 0.3]),
        b=np.array([0.1, 1.0]),
        lam=0.3,
        users=100_000,
        visits_per_user=10,
        lifetimes=lifetimes,
        tail=2.5,
    )
    found = draw_lifetimes(config, np.random.default_rng(1))
    assert found.min() >= 1
    assert found.mean() == pytest.approx(10, rel=0.03)
    scale = heavy_scale(10, 2.5)
    share = {"fixed": 0.0, "geometric": 0.9**30, "heavy-tailed": (1 + 30 / scale) ** -2.5}
    assert (found > 30).mean() == pytest.approx(share[lifetimes], abs=0.005)


def test_arrivals_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "visits.txt"
    file.write_text("ann\nbob\n\nann\nünal\nbob\n", encoding="utf-8")
    environment = crowd(arrivals="file", file=str(file))
    assert environment.arrivals(3).tolist() == [0, 1, 0]
    assert environment.arrivals(3).tolist() == [2, 1]
    assert environment.arrivals(3).tolist() == []
    assert environment.pull(np.array([2]), np.array([0])).means.tolist() == [0.9]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"arrivals": "file"}, "belong together"),
        ({"file": "x.txt"}, "belong together"),
        ({"arrivals": "file", "file": "no-such-file"}, "cannot be read"),
        ({"arrivals": "file", "file": "x", "visits_per_user": 3}, "the file says how often"),
        ({"arrivals": "cohorts"}, "cohorts need visits_per_user"),
        ({"cohort": 10}, "cohort = 10 has no effect: users come by arrivals = 'uniform'"),
        ({"lifetimes": "geometric"}, "'geometric' have no effect.*: nobody ever leaves"),
        (
            {"arrivals": "file", "file": "x", "lifetimes": "heavy-tailed"},
            "'heavy-tailed' have no effect.*: the file says",
        ),
        ({"visits_per_user": 2.5}, "whole number"),
        ({"visits_per_user": 0.5, "lifetimes": "geometric"}, "visits_per_user"),
        ({"users": 0}, "users"),
        ({"arrivals": "sometimes"}, "expected one of"),
        ({"tail": 1.0}, "tail"),
        ({"tail": 60.0, "lifetimes": "heavy-tailed", "visits_per_user": 50}, "tail.*<= 20"),
        ({"spread": 1.5}, "spread"),
        ({"r": [1.5, 0.1]}, "r must lie in"),
    ],
)
def test_wrong_parameters_are_rejected(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BdesError, match=message):
        crowd(**parameters)


def test_users_differ_as_asked() -> None:
    users = np.arange(2000)
    alike, different = crowd(users=2000), crowd(users=2000, spread=0.4)
    for environment in (alike, different):
        assert np.unique(environment.arrivals(100_000)).size == 2000
    arms = np.ones(2000, dtype=np.int64)
    np.testing.assert_array_equal(alike.pull(users, arms).means, 0.3)
    factors = different.pull(users, arms).means / 0.3
    assert 0.6 <= factors.min() < 0.62 < 1.38 < factors.max() <= 1.4
    assert factors.mean() == pytest.approx(1.0, abs=0.02)
    assert different.pull(users, np.zeros_like(arms)).means.max() <= 1.0
    assert isinstance(alike, bdes.HasInstance)
    assert not isinstance(different, bdes.HasInstance)


def test_noise_moves_no_state() -> None:
    noise = {"use": "gaussian", "sigma": 0.2}
    arms, users = np.tile([0, 1], 500), np.zeros(1000, dtype=np.int64)
    quiet, noisy = crowd(users=1), crowd(users=1, noise=noise)
    quiet.arrivals(1000)
    noisy.arrivals(1000)
    plain, found = quiet.pull(users, arms), noisy.pull(users, arms)
    np.testing.assert_array_equal(plain.means, found.means)
    assert plain.probabilities is None
    assert found.probabilities is not None
    assert (found.probabilities != found.means).all()


def test_wrong_visits_are_rejected() -> None:
    environment = crowd(users=5)
    with pytest.raises(BdesError, match="nobody has come yet"):
        environment.pull(np.array([0]), np.array([0]))
    environment.arrivals(1)
    with pytest.raises(BdesError, match="visit 1 of this block has user 1; users go from 0 to 0"):
        environment.pull(np.array([0, 1]), np.array([0, 0]))
    with pytest.raises(BdesError, match="visit 0 of this block has arm 2"):
        environment.pull(np.array([0]), np.array([2]))
    with pytest.raises(BdesError, match="each visit needs an arm"):
        environment.pull(np.array([0]), np.array([0, 0]))
    with pytest.raises(BdesError, match="one-dimensional array of integers"):
        environment.pull(np.array([0.0]), np.array([0]))
