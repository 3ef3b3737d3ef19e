"""Noise models against their densities: moment generating functions come from quadrature."""

import math
from functools import partial
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from bdes_framework import ConfigError, FloatArray, InvalidValueError, NoiseModel
from bdes_noise.simple import Gaussian
from bdes_noise.truncated_gaussian import centred_normal_quantile, truncated_deviation
from tests.support.reward_tables import PLUGINS, kolmogorov_p_value, random_generator

NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)

NOISY_MODELS: list[tuple[str, dict[str, object]]] = [
    ("gaussian", {"sigma": 0.3}),
    ("uniform", {"half_width": 0.4}),
    ("rademacher", {"size": 0.25}),
    ("truncated-gaussian", {"scale": 0.2, "bound": 0.3}),
    ("truncated-gaussian", {"scale": 5.0, "bound": 0.3}),
    ("truncated-gaussian", {"scale": 0.1, "bound": 1.5}),
]


def build(name: str, parameters: dict[str, object]) -> NoiseModel:
    return PLUGINS.noise_model({"use": name, **parameters})


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
def test_sigma_is_the_best_subgaussian_bound(name: str, parameters: dict[str, object]) -> None:
    sigma = build(name, parameters).sigma
    for multiple in np.concatenate([np.geomspace(1e-2, 30, 60), -np.geomspace(1e-2, 30, 60)]):
        s = float(multiple) / sigma
        # 1e-12: what 400 nodes leave; the bound itself is an equality for the Gaussian.
        assert log_mgf(name, parameters, s) <= sigma**2 * s**2 / 2 + 1e-12
    s = 0.01 / sigma
    assert log_mgf(name, parameters, s) > (0.999 * sigma) ** 2 * s**2 / 2


def distribution(name: str, parameters: dict[str, object], x: FloatArray) -> FloatArray:
    """Return P(noise <= x), written down from the definition."""
    values = {key: float(str(value)) for key, value in parameters.items()}
    if name == "uniform":
        return np.asarray((x / values["half_width"] + 1) / 2)
    if name == "gaussian":
        return np.asarray(ndtr(x / values["sigma"]))
    scale, below = values["scale"], ndtr(-values["bound"] / values["scale"])
    return np.asarray((ndtr(x / scale) - below) / (1 - 2 * below))


@pytest.mark.parametrize(
    ("name", "parameters"), [model for model in NOISY_MODELS if model[0] != "rademacher"]
)
def test_samples_pass_kolmogorov_smirnov(name: str, parameters: dict[str, object]) -> None:
    values = build(name, parameters).sample(20_000, random_generator(7))
    assert kolmogorov_p_value(values, partial(distribution, name, parameters)) > 0.01


def test_rademacher_draws_its_two_values() -> None:
    values = build("rademacher", {"size": 0.25}).sample(100_000, random_generator())
    assert set(values.tolist()) == {-0.25, 0.25}


def test_gaussian_draws_do_not_depend_on_blocks() -> None:
    # Long enough for the ziggurat's rare branches, the tail included.
    model = build("gaussian", {"sigma": 1.0})
    together = model.sample(300_000, random_generator(3))
    rng = random_generator(3)
    pieces = [model.sample(size, rng) for size in (1, 99_999, 65_536, 134_464)]
    assert np.concatenate(pieces).tobytes() == together.tobytes()


positive = st.floats(1e-300, 1e300)


@given(scale=positive, bound=positive, seed=st.integers(0, 2**32))
def test_truncated_noise_stays_in_bounds(scale: float, bound: float, seed: int) -> None:
    model = build("truncated-gaussian", {"scale": scale, "bound": bound})
    values = model.sample(50, random_generator(seed))
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
    np.testing.assert_allclose(
        flat.sample(100, random_generator()), uniform.sample(100, random_generator()), rtol=1e-14
    )


@pytest.mark.parametrize("c", [1e-6, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 9.0])
def test_truncated_deviation_equals_quadrature(c: float) -> None:
    x = c * NODES
    mass = WEIGHTS * np.exp(-0.5 * x**2)
    exact = math.sqrt(float(mass @ x**2 / mass.sum()))
    assert truncated_deviation(1.0, c) == pytest.approx(exact, rel=1e-13)


@given(st.floats(-0.5, 0.5, exclude_min=True, exclude_max=True))
def test_normal_quantile_inverts_normal_cdf(centred: float) -> None:
    x = centred_normal_quantile(centred)
    outside = 0.5 - abs(centred)
    assert math.erfc(abs(x) / math.sqrt(2)) / 2 == pytest.approx(outside, rel=1e-12)
    assert math.copysign(1, x) == math.copysign(1, centred) or x == 0


def test_normal_quantile_agrees_with_stdlib() -> None:
    # Exact in floating point, so that both are asked the same question.
    for p in [*(0.5 + k / 4096 for k in range(-2047, 2048)), *(2.0**-k for k in range(13, 53))]:
        exact = NormalDist().inv_cdf(p)
        assert centred_normal_quantile(p - 0.5) == pytest.approx(exact, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize(
    ("name", "parameter", "others", "bad"),
    [
        *(("gaussian", "sigma", {}, bad) for bad in (-0.1, math.inf)),
        *(("uniform", "half_width", {}, bad) for bad in (-0.1, math.inf)),
        *(("rademacher", "size", {}, bad) for bad in (-0.1, math.inf)),
        *(("truncated-gaussian", "scale", {"bound": 1.0}, bad) for bad in (0.0, math.inf)),
        *(("truncated-gaussian", "bound", {"scale": 1.0}, bad) for bad in (0.0, math.inf)),
    ],
)
def test_bad_parameters_are_named(
    name: str, parameter: str, others: dict[str, object], bad: float
) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*'{parameter}' must be [><]"):
        build(name, {parameter: bad, **others})
    with pytest.raises(ConfigError, match=f"{parameter}: expected a number, got NaN"):
        build(name, {parameter: math.nan, **others})


@pytest.mark.parametrize("bad", [math.nan, True, "1"])
def test_config_rejects_what_is_no_number(bad: float) -> None:
    with pytest.raises(InvalidValueError, match="'sigma' must be a number"):
        Gaussian(sigma=bad)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("gaussian", "sigma"), ("uniform", "half_width"), ("rademacher", "size")],
)
def test_noise_of_size_zero_is_no_noise(name: str, parameter: str) -> None:
    model = build(name, {parameter: 0})
    assert model.sigma == 0
    assert not model.sample(10, random_generator()).any()
