"""A fit as the prior of a learner."""

from typing import Any

import numpy as np
import pytest

from bdes_framework import FitPrior, Instance, InvalidValueError, Log, fit

ADS = Instance(r=[0.7, 0.3], b=[0.2, 0.9], lam=0.2)


def log_of(n: int, q0: float = 1.0) -> Log:
    rng = np.random.default_rng(1)
    arms = rng.integers(2, size=(n, 10))
    at = ADS.starting_at(q0)
    means = np.array([at.expected_rewards(own) for own in arms])
    rewards = (rng.random(arms.shape) < means).astype(np.int64)
    return Log(arms.ravel(), rewards.ravel(), np.arange(n) * 10)


def natural(prior: FitPrior) -> tuple[Any, Any]:
    """Return estimates of r, b and lam, and their covariance, by the slopes of logits."""
    values = 1.0 / (1.0 + np.exp(-np.array(prior.centre)))
    slopes = values * (1 - values)
    return values, prior.covariance * np.outer(slopes, slopes)


def test_prior_has_the_estimates_and_covariance_of_the_fit() -> None:
    found = fit(log_of(2000))
    values, covariance = natural(found.as_prior())
    instance = found.instance
    np.testing.assert_allclose(values, [*instance.r, *instance.b, instance.lam], rtol=1e-6)
    np.testing.assert_allclose(covariance, found.covariance, rtol=1e-6, atol=1e-12)


def test_fit_of_an_unknown_first_state_is_rescaled() -> None:
    found = fit(log_of(2000, q0=0.5), q0=None)
    prior, at = found.as_prior(), found.playable_arms().instance
    values, covariance = natural(prior)
    np.testing.assert_allclose(values, [*at.r, *at.b, at.lam], rtol=1e-5, atol=1e-5)
    assert prior.q0 == at.q0
    scale = at.r[0] / found.instance.r[0]
    inner = covariance[0, 0]
    assert inner == pytest.approx(found.covariance[0, 0] * scale**2, rel=1e-5)


def test_known_rate_is_kept() -> None:
    prior = fit(log_of(300), lam=0.2).as_prior()
    assert prior.lam == 0.2
    assert len(prior.centre) == 4


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"centre": [], "deviations": []}, "two numbers per arm"),
        ({"centre": [0.0, 0.0], "deviations": [[1.0], [0.0, 1.0]]}, "two numbers per arm"),
        ({"centre": [0.0] * 3, "deviations": [[1.0], [0.0, 1.0]]}, "triangle"),
        ({"centre": [0.0, 0.0, np.nan], "deviations": [[1.0], [0, 1.0], [0, 0, 1.0]]}, "finite"),
        ({"centre": [0.0] * 3, "deviations": [[1.0], [0, 0.0], [0, 0, 1.0]]}, "above 0"),
    ],
)
def test_wrong_priors_are_rejected(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        FitPrior(**parts)
