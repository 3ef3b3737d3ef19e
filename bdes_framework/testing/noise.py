"""What every noise model promises, as named checks."""

import math
from collections.abc import Mapping

import numpy as np
from attrs import frozen
from numpy.random import Generator

from bdes_framework._internal.arrays import FloatArray
from bdes_framework._internal.text import quoted
from bdes_framework.interfaces import Kind, NoiseModel, Reference
from bdes_framework.plugin.plugins import Plugins
from bdes_framework.testing.checks import Check, Promises, Subject, run_all
from bdes_framework.testing.demands import (
    demand,
    demand_array,
    demand_no_global_luck,
    demand_same,
    set_global_luck,
)


@frozen
class Scenario:
    """How many values to draw, and with which seed."""

    size: int
    seed: int

    def __str__(self) -> str:
        return f"{self.size} draws, seed={self.seed}"

    @property
    def rng(self) -> Generator:
        """A fresh generator; always the same stream."""
        return np.random.default_rng(self.seed)


ORDINARY = (Scenario(300, 1), Scenario(1000, 2))
LONG = Scenario(3000, 3)
MANY = Scenario(100_000, 4)

PROMISES: Promises[Scenario] = Promises(Kind.NOISE_MODEL)


def noise_model_checks(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> tuple[Check, ...]:
    """Return the checks of a noise model, to be called one by one.

    Parameters
    ----------
    ref : name, table or config object
        Which noise model.
    plugins : Plugins, optional
        Where it is registered; everything installed by default, loaded when a check runs.
    expected_failures : mapping of check name to reason, optional
        Checks this noise model is known to fail.
    **parameters
        The noise model's parameters, if ``ref`` is a name or a table.
    """
    return PROMISES.checks(ref, parameters, plugins, expected_failures)


def check_noise_model(
    ref: Reference,
    *,
    plugins: Plugins | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **parameters: object,
) -> None:
    """Run every check of a noise model; takes what :func:`noise_model_checks` takes.

    Raises
    ------
    ConformanceError
        If any check fails; tells all that did, and expected failures that passed.
    """
    run_all(PROMISES.checks(ref, parameters, plugins, expected_failures))


# -- drawing --------------------------------------------------------------------------------


def _build(subject: Subject, scenario: Scenario, global_seed: int = 0) -> NoiseModel:
    set_global_luck(global_seed)
    return subject.plugins.noise_model(subject.ref, seed=scenario.seed, **subject.parameters)


def _draw(noise: NoiseModel, size: int, rng: Generator) -> FloatArray:
    # Copied at once: a noise model may use its array again.
    return np.array(noise.sample(size, rng), dtype=np.float64).ravel()


def _run(subject: Subject, scenario: Scenario) -> FloatArray:
    return _draw(_build(subject, scenario), scenario.size, scenario.rng)


# -- the promises ---------------------------------------------------------------------------


@PROMISES.over(Scenario(1, 1))
def sigma_is_finite_and_not_negative(subject: Subject, scenario: Scenario) -> None:
    """Sigma is a finite float of at least 0."""
    sigma: object = _build(subject, scenario).sigma
    expected = "sigma: a finite float of at least 0"
    came = f"{quoted(sigma)} of type {type(sigma).__name__}"
    demand(isinstance(sigma, float) and 0 <= sigma < math.inf, expected, came)


@PROMISES.over(*(Scenario(size, 1) for size in (1, 2, 7, 1000)))
def samples_are_float64_of_the_size_asked(subject: Subject, scenario: Scenario) -> None:
    """A sample is an array of finite float64, one value for each that was asked for."""
    sample: object = _build(subject, scenario).sample(scenario.size, scenario.rng)
    expected = f"an array of finite float64, shape ({scenario.size},)"
    demand_array(sample, np.float64, expected, scenario.size)
    wrong = np.asarray(sample)[~np.isfinite(np.asarray(sample))]
    demand(wrong.size == 0, expected, f"{wrong[:1]}")


@PROMISES.over(*ORDINARY)
def drawing_in_parts_changes_nothing(subject: Subject, scenario: Scenario) -> None:
    """Drawing m values and then n equals drawing m + n, so that blocks change no result."""
    whole = _run(subject, scenario)
    for sizes in ([1] * scenario.size, [scenario.size // 3, scenario.size - scenario.size // 3]):
        noise, rng = _build(subject, scenario), scenario.rng
        parts = np.concatenate([_draw(noise, size, rng) for size in sizes])
        demand_same(whole, parts, "the same values drawn at once and in parts", "value", "draw")


@PROMISES.over(*ORDINARY, LONG)
def same_generator_gives_the_same_sample(subject: Subject, scenario: Scenario) -> None:
    """Two noise models built alike, with equal generators, draw the same."""
    first, second = _run(subject, scenario), _run(subject, scenario)
    demand_same(first, second, "the same values from equal generators", "value", "draw")


@PROMISES.over(*ORDINARY)
def luck_comes_from_the_generator_given(subject: Subject, scenario: Scenario) -> None:
    """What it was built with makes no difference: only the generator given does."""
    other = _build(subject, Scenario(scenario.size, scenario.seed + 1000))
    drawn = _draw(other, scenario.size, scenario.rng)
    expected = "the same values from equal generators, whatever seed it was built with"
    demand_same(_run(subject, scenario), drawn, expected, "value", "draw")


@PROMISES.over(*ORDINARY)
def uses_no_global_random_state(subject: Subject, scenario: Scenario) -> None:
    """All luck comes from the generator; np.random and random are neither read nor moved."""

    def sample(global_seed: int) -> tuple[FloatArray]:
        noise = _build(subject, scenario, global_seed)
        return (_draw(noise, scenario.size, scenario.rng),)

    demand_no_global_luck(sample, "value", "draw")


@PROMISES.over(MANY)
def mean_is_zero(subject: Subject, scenario: Scenario) -> None:
    """The mean is within six standard errors of 0, the variance being at most sigma²."""
    noise = _build(subject, scenario)
    mean = float(_draw(noise, scenario.size, scenario.rng).mean())
    allowed = 6 * float(noise.sigma) / math.sqrt(scenario.size)
    demand(abs(mean) <= allowed, f"a mean within {allowed:.3g} of 0", f"{mean:+.3g}")


@PROMISES.over(MANY)
def tails_are_those_sigma_promises(subject: Subject, scenario: Scenario) -> None:
    """The mean of exp(s·noise) is at most exp(sigma²·s²/2), give or take six standard errors."""
    noise = _build(subject, scenario)
    values, sigma = _draw(noise, scenario.size, scenario.rng), float(noise.sigma)
    if sigma == 0:
        wrong = values[values != 0]
        demand(wrong.size == 0, "nothing but 0 at sigma = 0", f"{wrong[:1]}")
        return
    for steps in (-1.5, -1.0, -0.5, 0.5, 1.0, 1.5):
        weights = np.exp(steps / sigma * values)
        allowed = math.exp(steps**2 / 2) + 6 * float(weights.std()) / math.sqrt(weights.size)
        demand(
            bool(weights.mean() <= allowed),
            f"E exp(s·noise) of at most {allowed:.4g} at s = {steps:g}/sigma, sigma = {sigma:g}",
            f"{weights.mean():.4g}",
        )
