"""Noise models against their densities: moment generating functions come from quadrature."""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import SFC64, Generator

from bdes_framework import (
    ConfigError,
    Environment,
    FloatArray,
    InvalidValueError,
    NoiseModel,
    load_plugins,
)
from bdes_noise.simple import GaussianConfig
from bdes_noise.truncated_gaussian import (
    TruncatedGaussianConfig,
    normal_quantile,
    truncated_deviation,
)

PLUGINS = load_plugins()
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)

EVERY_MODEL: list[tuple[str, dict[str, object]]] = [
    ("none", {}),
    ("gaussian", {"sigma": 0.3}),
    ("uniform", {"half_width": 0.4}),
    ("rademacher", {"size": 0.25}),
    ("truncated-gaussian", {"scale": 0.2, "bound": 0.3}),
    ("truncated-gaussian", {"scale": 5.0, "bound": 0.3}),
    ("truncated-gaussian", {"scale": 0.1, "bound": 1.5}),
]
NOISY_MODELS = EVERY_MODEL[1:]

Density = Callable[[FloatArray], FloatArray]


def build(name: str, parameters: dict[str, object]) -> NoiseModel:
    return PLUGINS.noise_model({"use": name, **parameters})


def luck(seed: int = 1) -> Generator:
    return Generator(SFC64(seed))


def integral(function: Density, low: float, high: float) -> float:
    middle, half = (low + high) / 2, (high - low) / 2
    return half * float(WEIGHTS @ function(middle + half * NODES))


def gauss(x: FloatArray) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * x**2)
    return density


def log_mgf(name: str, parameters: dict[str, object], s: float) -> float:
    """Return log E exp(s·noise), from the definition of the distribution alone."""
    values = {key: float(str(value)) for key, value in parameters.items()}
    if name == "rademacher":
        size = abs(s) * values["size"]
        return size + math.log((1 + math.exp(-2 * size)) / 2)
    if name == "uniform":
        scale, low, high = math.inf, -values["half_width"], values["half_width"]
    elif name == "gaussian":
        scale = values["sigma"]
        low, high = -12 * scale + min(s, 0) * scale**2, 12 * scale + max(s, 0) * scale**2
    else:
        scale, low, high = values["scale"], -values["bound"], values["bound"]
    return log_integral(scale, s, low, high) - log_integral(scale, 0.0, low, high)


def log_integral(scale: float, s: float, low: float, high: float) -> float:
    """Return the log of the integral of exp(s·x - x²/(2·scale²)), its peak taken out."""
    x = (low + high) / 2 + (high - low) / 2 * NODES
    exponents = s * x - 0.5 * (x / scale) ** 2
    peak = float(exponents.max())
    return peak + math.log((high - low) / 2 * float(WEIGHTS @ np.exp(exponents - peak)))


@pytest.mark.parametrize(("name", "parameters"), NOISY_MODELS)
def test_sigma_bounds_the_moment_generating_function(
    name: str, parameters: dict[str, object]
) -> None:
    sigma = build(name, parameters).sigma
    for multiple in np.concatenate([np.geomspace(1e-2, 30, 60), -np.geomspace(1e-2, 30, 60)]):
        s = float(multiple) / sigma
        # 1e-12: what 400 nodes leave; the bound itself is an equality for the Gaussian.
        assert log_mgf(name, parameters, s) <= sigma**2 * s**2 / 2 + 1e-12


@pytest.mark.parametrize(("name", "parameters"), NOISY_MODELS)
def test_no_smaller_sigma_would_do(name: str, parameters: dict[str, object]) -> None:
    sigma = build(name, parameters).sigma
    s = 0.01 / sigma
    assert log_mgf(name, parameters, s) > (0.999 * sigma) ** 2 * s**2 / 2


@pytest.mark.parametrize(("name", "parameters"), NOISY_MODELS)
def test_sigma_is_the_standard_deviation_of_what_is_drawn(
    name: str, parameters: dict[str, object]
) -> None:
    model = build(name, parameters)
    values = model.sample(200_000, luck())
    assert values.shape == (200_000,)
    assert values.dtype == np.float64
    assert values.mean() == pytest.approx(0, abs=4 * model.sigma / math.sqrt(values.size))
    assert values.std() == pytest.approx(model.sigma, rel=0.01)


def distribution(name: str, parameters: dict[str, float], x: float) -> float:
    """Return P(noise <= x), written down from the definition."""
    if name == "gaussian":
        return NormalDist(0, parameters["sigma"]).cdf(x)
    if name == "uniform":
        return (x / parameters["half_width"] + 1) / 2
    normal, bound = NormalDist(0, parameters["scale"]), parameters["bound"]
    below = normal.cdf(-bound)
    return (normal.cdf(x) - below) / (1 - 2 * below)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gaussian", {"sigma": 0.3}),
        ("uniform", {"half_width": 0.4}),
        ("truncated-gaussian", {"scale": 0.2, "bound": 0.3}),
        ("truncated-gaussian", {"scale": 5.0, "bound": 0.3}),
        ("truncated-gaussian", {"scale": 0.1, "bound": 1.5}),
    ],
)
def test_what_is_drawn_passes_a_kolmogorov_smirnov_test(
    name: str, parameters: dict[str, float]
) -> None:
    n = 20_000
    values = np.sort(build(name, dict(parameters)).sample(n, luck(7)))
    exact = np.array([distribution(name, parameters, float(value)) for value in values])
    steps = np.arange(n + 1) / n
    distance = max(np.abs(exact - steps[1:]).max(), np.abs(exact - steps[:-1]).max())
    assert distance * math.sqrt(n) < 1.63  # the 1 % point


def test_rademacher_draws_both_values_and_no_other() -> None:
    values = build("rademacher", {"size": 0.25}).sample(100_000, luck())
    assert set(values.tolist()) == {-0.25, 0.25}


@pytest.mark.parametrize(("name", "parameters"), EVERY_MODEL)
@given(blocks=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 2**32))
def test_blocks_of_any_size_draw_the_same_values(
    name: str, parameters: dict[str, object], blocks: list[int], seed: int
) -> None:
    model = build(name, parameters)
    rng = luck(seed)
    pieces = [model.sample(size, rng) for size in blocks]
    together = model.sample(sum(blocks), luck(seed))
    assert np.concatenate(pieces).tobytes() == together.tobytes()


def test_long_blocks_cut_anywhere_draw_the_same_gaussians() -> None:
    # Long enough for the ziggurat's rare branches, the tail included.
    model = build("gaussian", {"sigma": 1.0})
    together = model.sample(300_000, luck(3))
    rng = luck(3)
    pieces = [model.sample(size, rng) for size in (1, 99_999, 65_536, 134_464)]
    assert np.concatenate(pieces).tobytes() == together.tobytes()


positive = st.floats(1e-300, 1e300)


@given(scale=positive, bound=positive, seed=st.integers(0, 2**32))
def test_truncated_noise_stays_inside_its_bound_at_any_scale(
    scale: float, bound: float, seed: int
) -> None:
    model = build("truncated-gaussian", {"scale": scale, "bound": bound})
    values = model.sample(50, luck(seed))
    assert np.abs(values).max() <= bound
    assert len(set(values.tolist())) > 40
    assert 0 < model.sigma <= min(scale, bound / math.sqrt(3)) * (1 + 1e-15)


def test_truncated_noise_has_the_known_limits() -> None:
    wide = build("truncated-gaussian", {"scale": 0.2, "bound": 1e6})
    gaussian = build("gaussian", {"sigma": 0.2})
    assert wide.sigma == gaussian.sigma
    flat = build("truncated-gaussian", {"scale": 1e300, "bound": 0.4})
    uniform = build("uniform", {"half_width": 0.4})
    assert flat.sigma == pytest.approx(uniform.sigma, rel=1e-15)
    np.testing.assert_allclose(flat.sample(100, luck()), uniform.sample(100, luck()), rtol=1e-14)


@pytest.mark.parametrize("c", [1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 9.0])
def test_the_truncated_deviation_agrees_with_quadrature(c: float) -> None:
    mass = integral(lambda x: gauss(x), -c, c)
    second = integral(lambda x: x**2 * gauss(x), -c, c)
    assert truncated_deviation(1.0, c) == pytest.approx(math.sqrt(second / mass), rel=1e-13)


@given(st.floats(-0.5, 0.5, exclude_min=True, exclude_max=True))
def test_the_compiled_quantile_inverts_the_normal_distribution(centred: float) -> None:
    x = normal_quantile(centred)
    outside = 0.5 - abs(centred)
    assert math.erfc(abs(x) / math.sqrt(2)) / 2 == pytest.approx(outside, rel=1e-12)
    assert math.copysign(1, x) == math.copysign(1, centred) or x == 0


def test_the_compiled_quantile_agrees_with_the_standard_library() -> None:
    normal = NormalDist()
    for k in range(-2047, 2048):
        p = 0.5 + k / 4096  # exact, so both are asked the same question
        assert normal_quantile(p - 0.5) == pytest.approx(normal.inv_cdf(p), rel=1e-14, abs=1e-300)
    for k in range(13, 53):
        p = 2.0**-k
        assert normal_quantile(p - 0.5) == pytest.approx(normal.inv_cdf(p), rel=1e-14)


@pytest.mark.parametrize("bad", [-0.1, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("name", "parameter", "others"),
    [
        ("gaussian", "sigma", {}),
        ("uniform", "half_width", {}),
        ("rademacher", "size", {}),
        ("truncated-gaussian", "scale", {"bound": 1.0}),
        ("truncated-gaussian", "bound", {"scale": 1.0}),
    ],
)
def test_a_bad_parameter_is_refused_by_name(
    name: str, parameter: str, others: dict[str, object], bad: float
) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*'{parameter}' must be [><]"):
        build(name, {parameter: bad, **others})
    with pytest.raises(ConfigError, match=f"{parameter}: expected a number, got NaN"):
        build(name, {parameter: math.nan, **others})


@pytest.mark.parametrize("bad", [math.nan, True, "1"])
def test_a_config_object_refuses_what_is_no_number(bad: float) -> None:
    with pytest.raises(InvalidValueError, match="'sigma' must be a number"):
        GaussianConfig(sigma=bad)


@pytest.mark.parametrize("parameters", [(0.0, 1.0), (1.0, 0.0)])
def test_a_truncated_gaussian_of_no_width_is_refused(parameters: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        TruncatedGaussianConfig(*parameters)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("gaussian", "sigma"), ("uniform", "half_width"), ("rademacher", "size")],
)
def test_noise_of_size_zero_is_no_noise(name: str, parameter: str) -> None:
    model = build(name, {parameter: 0})
    assert model.sigma == 0
    assert not model.sample(10, luck()).any()


def bernoulli(noise: object) -> Environment:
    return PLUGINS.environment(
        "bernoulli", seed=4, r=[0.9, 0.4], b=[0.2, 1.0], lam=0.3, noise=noise
    )


@pytest.mark.parametrize(("name", "parameters"), EVERY_MODEL)
def test_an_environment_uses_the_model_by_name(name: str, parameters: dict[str, object]) -> None:
    arms = np.tile(np.array([0, 1, 1]), 200)
    noisy = bernoulli({"use": name, **parameters}).pull(arms)
    plain = bernoulli(None).pull(arms)
    np.testing.assert_array_equal(noisy.means, plain.means)
    assert noisy.probabilities is not None
    assert noisy.probabilities.min() >= 0
    assert noisy.probabilities.max() <= 1
    if name == "none":
        np.testing.assert_array_equal(noisy.rewards, plain.rewards)
        np.testing.assert_array_equal(noisy.probabilities, plain.means)
    else:
        assert np.abs(noisy.probabilities - plain.means).max() > 0.1
