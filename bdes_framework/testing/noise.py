"""Checks of noise models."""

import math

import numpy as np
from attrs import frozen
from numpy.random import Generator

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.text import quoted
from bdes_framework.interfaces import Kind, NoiseModel
from bdes_framework.testing import expect
from bdes_framework.testing.checks import ConformanceSuite, Subject
from bdes_framework.testing.expect import seed_global_random_state


@frozen
class NoiseScenario:
    """How many values to draw, and with which seed."""

    size: int
    seed: int

    def __str__(self) -> str:
        return f"{self.size} draws, seed={self.seed}"

    @property
    def rng(self) -> Generator:
        """A fresh generator; always the same stream."""
        return np.random.default_rng(self.seed)


ORDINARY = (NoiseScenario(300, 1), NoiseScenario(1000, 2))
LONG = NoiseScenario(3000, 3)
MANY = NoiseScenario(100_000, 4)

SUITE: ConformanceSuite[NoiseScenario] = ConformanceSuite(Kind.NOISE_MODEL)

noise_model_checks = SUITE.checks
"""Return the checks of a noise model, to be called one by one."""

check_noise_model = SUITE.check
"""Run every check of a noise model; raise one error with all failures."""


# -- drawing --------------------------------------------------------------------------------


def _build(subject: Subject, scenario: NoiseScenario, global_seed: int = 0) -> NoiseModel:
    seed_global_random_state(global_seed)
    return subject.plugins.noise_model(subject.ref, seed=scenario.seed, **subject.parameters)


def _draw(noise: NoiseModel, size: int, rng: Generator) -> FloatArray:
    # Copied at once: a noise model may use its array again.
    return np.array(noise.sample(size, rng), dtype=np.float64).ravel()


def _draw_anew(subject: Subject, scenario: NoiseScenario) -> FloatArray:
    return _draw(_build(subject, scenario), scenario.size, scenario.rng)


# -- the promises ---------------------------------------------------------------------------


@SUITE.over(NoiseScenario(1, 1))
def sigma_is_finite_and_not_negative(subject: Subject, scenario: NoiseScenario) -> None:
    """Sigma is a finite float of at least 0."""
    sigma: object = _build(subject, scenario).sigma
    expected = "sigma: a finite float of at least 0"
    came = f"{quoted(sigma)} of type {type(sigma).__name__}"
    expect.that(isinstance(sigma, float) and 0 <= sigma < math.inf, expected, came)


@SUITE.over(*(NoiseScenario(size, 1) for size in (1, 2, 7, 1000)))
def samples_are_float64_of_the_size_asked(subject: Subject, scenario: NoiseScenario) -> None:
    """A sample is an array of finite float64, one value for each that was asked for."""
    sample: object = _build(subject, scenario).sample(scenario.size, scenario.rng)
    expected = f"an array of finite float64, shape ({scenario.size},)"
    expect.array(sample, np.float64, expected, scenario.size)
    values = np.asarray(sample)
    expect.all_allowed(values, np.isfinite(values), expected)


@SUITE.over(*ORDINARY)
def drawing_in_parts_changes_nothing(subject: Subject, scenario: NoiseScenario) -> None:
    """Drawing m values and then n equals drawing m + n, so that blocks change no result."""
    whole = _draw_anew(subject, scenario)
    for sizes in ([1] * scenario.size, [scenario.size // 3, scenario.size - scenario.size // 3]):
        noise, rng = _build(subject, scenario), scenario.rng
        parts = np.concatenate([_draw(noise, size, rng) for size in sizes])
        expect.same(whole, parts, "the same values drawn at once and in parts", "value", "draw")


@SUITE.over(*ORDINARY, LONG)
def same_generator_gives_the_same_sample(subject: Subject, scenario: NoiseScenario) -> None:
    """Two noise models built alike, with equal generators, draw the same."""
    first, second = _draw_anew(subject, scenario), _draw_anew(subject, scenario)
    expect.same(first, second, "the same values from equal generators", "value", "draw")


@SUITE.over(*ORDINARY)
def randomness_comes_from_the_generator_given(subject: Subject, scenario: NoiseScenario) -> None:
    """What it was built with makes no difference: only the generator given does."""
    other = _build(subject, NoiseScenario(scenario.size, scenario.seed + 1000))
    drawn = _draw(other, scenario.size, scenario.rng)
    expected = "the same values from equal generators, whatever seed it was built with"
    expect.same(_draw_anew(subject, scenario), drawn, expected, "value", "draw")


@SUITE.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: NoiseScenario) -> None:
    """All randomness comes from the generator; np.random and random are neither read nor moved."""

    def sample(global_seed: int) -> tuple[FloatArray]:
        noise = _build(subject, scenario, global_seed)
        return (_draw(noise, scenario.size, scenario.rng),)

    expect.global_random_state_unused(sample, "value", "draw")


@SUITE.over(MANY)
def mean_is_zero(subject: Subject, scenario: NoiseScenario) -> None:
    """The mean is within six standard errors of 0, the variance being at most sigma²."""
    noise = _build(subject, scenario)
    mean = float(_draw(noise, scenario.size, scenario.rng).mean())
    allowed = 6 * float(noise.sigma) / math.sqrt(scenario.size)
    expect.that(abs(mean) <= allowed, f"a mean within {allowed:.3g} of 0", f"{mean:+.3g}")


@SUITE.over(MANY)
def tails_are_those_sigma_promises(subject: Subject, scenario: NoiseScenario) -> None:
    """The mean of exp(s·noise) is at most exp(sigma²·s²/2), give or take six standard errors."""
    noise = _build(subject, scenario)
    values, sigma = _draw(noise, scenario.size, scenario.rng), float(noise.sigma)
    if sigma == 0:
        expect.all_allowed(values, values == 0, "nothing but 0 at sigma = 0")
        return
    for steps in (-1.5, -1.0, -0.5, 0.5, 1.0, 1.5):
        weights = np.exp(steps / sigma * values)
        allowed = math.exp(steps**2 / 2) + 6 * float(weights.std()) / math.sqrt(weights.size)
        expect.that(
            bool(weights.mean() <= allowed),
            f"E exp(s·noise) of at most {allowed:.4g} at s = {steps:g}/sigma, sigma = {sigma:g}",
            f"{weights.mean():.4g}",
        )
