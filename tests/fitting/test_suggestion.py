"""Suggested experiments: as precise as promised, no longer than needed, arms that matter."""

import numpy as np
import pytest

import bdes_framework as bdes
from tests.support.logs import ADS, simulated_log, truth_of


@pytest.fixture(scope="module")
def found() -> bdes.Fit:
    return bdes.fit(simulated_log(ADS, users=100, rows=30, seed=1))


def errors_of(design: bdes.SuggestedExperiment, truth: bdes.Instance, n: int) -> bdes.FloatArray:
    """Return how far fits of logs of a suggested experiment are from the truth."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        shown = design.draw(rng)
        means = np.concatenate([truth.expected_rewards(arms) for arms in shown])
        starts = np.arange(0, shown.size, design.visits)
        log = bdes.Log(shown.ravel(), rng.random(shown.size) < means, starts)
        found.append(truth_of(bdes.fit(log).instance) - truth_of(truth))
    return np.asarray(np.sqrt(np.mean(np.square(found), axis=0)))


@pytest.mark.parametrize("n", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_an_experiment_is_as_precise_as_expected(found: bdes.Fit, n: int) -> None:
    design = bdes.suggest_experiment(found, visits=40, users=150, arms=[0, 1, 2], with_log=False)
    promised = np.array([*design.r_errors, *design.b_errors, design.lam_error])
    real = errors_of(design, found.instance, n)
    # Root mean squares of n errors are known to 1 in sqrt(2 n).
    assert np.abs(real / promised - 1).max() < 0.15 + 3 / np.sqrt(2 * n)


def test_users_are_as_many_as_the_precision_takes(found: bdes.Fit) -> None:
    design = bdes.suggest_experiment(found, visits=40, precision=0.03)
    assert design.reaches_precision
    fewer = bdes.suggest_experiment(found, visits=40, users=design.users - 1, precision=0.03)
    if fewer.run == design.run:
        assert not fewer.reaches_precision
    alone = bdes.suggest_experiment(found, visits=40, precision=0.03, with_log=False)
    assert alone.users > design.users


def test_runs_are_better_than_mixing(found: bdes.Fit) -> None:
    assert bdes.suggest_experiment(found, visits=50).run > 1


def test_arms_that_cannot_matter_are_left_out() -> None:
    world = bdes.Instance([0.7, 0.4, 0.1], [0.2, 0.9, 0.2], 0.2)
    found = bdes.fit(simulated_log(world, users=300, rows=40, seed=2))
    assert bdes.suggest_experiment(found, visits=30).names == ("0", "1")


def test_draws_are_runs_of_the_arms(found: bdes.Fit) -> None:
    design = bdes.suggest_experiment(found, visits=60, users=500, arms=[0, 2])
    shown = design.draw(np.random.default_rng(3))
    assert shown.shape == (500, 60)
    assert set(np.unique(shown)) == {0, 2}
    assert shown.mean() == pytest.approx(1.0, abs=0.1)
    changes = (np.diff(shown, axis=1) != 0).mean()
    assert changes == pytest.approx(0.5 / design.run, rel=0.15)
    assert "show 0, 2 in runs of" in str(design)


def test_what_cannot_be_reached_is_said(found: bdes.Fit) -> None:
    design = bdes.suggest_experiment(found, visits=2, precision=1e-6)
    assert design.users == 10_000_000
    assert str(design).endswith("that is less than was asked for")


@pytest.mark.parametrize(
    "wrong",
    [
        {"visits": 1},
        {"visits": 10, "users": 0},
        {"visits": 10, "precision": 0.0},
        {"visits": 10, "arms": [0]},
        {"visits": 10, "arms": [0, 3]},
    ],
)
def test_wrong_experiments_are_rejected(found: bdes.Fit, wrong: dict[str, object]) -> None:
    with pytest.raises(bdes.InvalidValueError):
        bdes.suggest_experiment(found, **wrong)  # type: ignore[arg-type]
