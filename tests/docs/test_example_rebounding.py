"""The example environment that is no B-DES instance keeps its promises, and its bound is one."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework import FloatArray, HasBenchmark, HasInstance, load_plugins, run_experiment
from bdes_framework.testing import Check, environment_checks, parametrize_with_checks
from tests.support import REPOSITORY

FOLDER = REPOSITORY / "examples" / "rebounding"
PLUGINS = load_plugins(modules=[str(FOLDER / "rebounding.py")])
CONTENT: dict[str, Any] = {
    "base": [0.9, 0.7, 0.6, 0.5],
    "cost": [0.25, 0.1, 0.08, 0.03],
    "decay": [0.75, 0.8, 0.8, 0.6],
}


@parametrize_with_checks(
    [
        *environment_checks("rebounding", plugins=PLUGINS, **CONTENT),
        *environment_checks("rebounding", plugins=PLUGINS, base=[0.4], cost=[0.0], decay=[0.0]),
    ]
)
def test_conformance(check: Check) -> None:
    check()


def new(**parameters: object) -> bdes.Environment:
    return PLUGINS.environment("rebounding", seed=1, **(parameters or CONTENT))


def benchmark(*horizons: int, **parameters: object) -> bdes.Benchmark:
    environment = new(**parameters)
    assert isinstance(environment, HasBenchmark)
    assert not isinstance(environment, HasInstance)
    return environment.benchmark(np.array(horizons))


def drawn(seed: int, n_arms: int) -> dict[str, FloatArray]:
    """Draw arms whose pay never falls below 0."""
    rng = np.random.default_rng(seed)
    base, decay = rng.random(n_arms), 0.9 * rng.random(n_arms)
    return {"base": base, "cost": rng.random(n_arms) * base * (1 - decay), "decay": decay}


def worth(sequence: Sequence[int], base: FloatArray, cost: FloatArray, decay: FloatArray) -> float:
    """What a sequence earns, in other words: every two pulls of an arm cost decay^distance."""
    pairs = itertools.combinations(enumerate(sequence), 2)
    lost = sum(cost[i] * decay[i] ** (t - s) for (s, i), (t, j) in pairs if i == j)
    return float(base[list(sequence)].sum() - lost)


def test_means_are_bases_less_pair_costs() -> None:
    arms = drawn(3, 3)
    sequence = np.random.default_rng(1).integers(0, 3, 40)
    means = new(**arms).pull(sequence).means
    assert means.sum() == pytest.approx(worth(sequence.tolist(), **arms))


def test_arms_tire_while_pulled_and_recover_at_rest() -> None:
    means = new(base=[0.9], cost=[0.2], decay=[0.5]).pull(np.zeros(4, dtype=np.int64)).means
    # Satiation 0, then (0 + 1) / 2, (0.5 + 1) / 2, (0.75 + 1) / 2.
    np.testing.assert_allclose(means, 0.9 - 0.2 * np.array([0, 0.5, 0.75, 0.875]))
    two = new(base=[0.8, 0.5], cost=[0.4, 0.0], decay=[0.5, 0.0])
    means = two.pull(np.array([0, 1, 1, 0])).means
    np.testing.assert_allclose(means, [0.8, 0.5, 0.5, 0.8 - 0.4 * 0.125])


@pytest.mark.parametrize(
    ("seed", "n_arms", "horizon"), [(s, 2, 10) for s in range(6)] + [(7, 3, 7)]
)
def test_best_sequence_is_within_the_bounds(seed: int, n_arms: int, horizon: int) -> None:
    arms = drawn(seed, n_arms)
    sequences = itertools.product(range(n_arms), repeat=horizon)
    best = max(worth(sequence, **arms) for sequence in sequences)
    found = benchmark(horizon, **arms)
    assert 0.97 * best <= found.value <= best + 1e-9
    assert best <= found.upper_bound + 1e-9


def test_the_bound_is_close_or_exact() -> None:
    found = benchmark(10_000)
    assert found.value <= found.upper_bound <= 1.005 * found.value
    # At no cost it is an ordinary bandit.
    found = benchmark(100, 1000, base=[0.3, 0.6], cost=[0.0, 0.0], decay=[0.5, 0.9])
    assert found.values.tolist() == pytest.approx([60, 600])
    assert found.upper_bound == pytest.approx(600)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": [0.5, 0.5], "cost": [0.1], "decay": [0.5, 0.5]},
        {"base": [0.5], "cost": [0.1], "decay": [1.0]},
        {"base": [0.5], "cost": [0.3], "decay": [0.9]},
        {"base": [1.5], "cost": [0.1], "decay": [0.5]},
        {"base": [], "cost": [], "decay": []},
    ],
)
def test_impossible_arms_raise(wrong: dict[str, list[float]]) -> None:
    with pytest.raises(bdes.ConfigError):
        new(**wrong)


def test_experiment_of_it_has_regret(tmp_path: Path) -> None:
    text = (FOLDER / "experiment.toml").read_text().replace("5_000", "200")
    (tmp_path / "experiment.toml").write_text(text.replace("replications = 5", "replications = 2"))
    (tmp_path / "rebounding.py").write_text((FOLDER / "rebounding.py").read_text())
    file, out = tmp_path / "experiment.toml", tmp_path / "run"
    with run_experiment(file, out=out, engine="serial") as run:
        assert all(cell.error is None and cell.regret is not None for cell in run.cells())
