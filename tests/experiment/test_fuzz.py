"""Mutated experiment files: never a traceback, a hang, or success with wrong work."""

import random
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bdes_framework import BdesError, load_experiment, load_run
from bdes_framework.cli import bdes
from tests.support.experiments import FILE, write_plugin

NAMES = "seed lam use r b name label arms benchmark engine 'serial' horizons replications"
SIGNS = "[[policies]] [plugins] = [ ] { } [] [[]] [0.5] 0.3 -1 0 1e999 nan inf true 2**70"
TEXTS = ('"', '"1/T"', '"K/0"', "\n", "\x00", "é", "\\", "1979-05-27", "9" * 20)
WORDS = [*NAMES.split(), *SIGNS.split(), *TEXTS, "{ generator = 'uniform', n = 2 }"]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Cut, doubled, swapped and spliced: a valid file with a few things done to it."""
    text = FILE
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        text = text[:at] + draw(st.sampled_from(["", *WORDS, text[at:end] * 2])) + text[end:]
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fuzz")
    write_plugin(place)
    return place


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=mutated())
def test_a_mutated_file_raises_or_is_read(folder: Path, text: str) -> None:
    file = folder / "x.toml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        experiment = load_experiment(file)
    except BdesError:
        return
    tables = tomllib.loads(text)
    config = experiment.config
    assert (config.seed, config.name) == (tables["seed"], tables["name"])
    assert list(config.horizons) == tables["horizons"]
    assert {cell.horizon for cell in experiment.cells} == set(tables["horizons"])
    per_policy = len(experiment.cells) / config.replications / len(config.horizons)
    assert per_policy >= len(tables["environments"]) * len(tables["policies"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=mutated(), number=st.integers(0, 10**9))
def test_run_of_a_mutated_file_exits_0_1_or_2(folder: Path, text: str, number: int) -> None:
    file, out = folder / "y.toml", folder / f"run-{number}-{random.Random(text).random()}"
    # Small enough to run, whatever became of it.
    file.write_text(text.replace("50]", "20]"), encoding="utf-8", errors="surrogatepass")
    try:
        experiment = load_experiment(file)
        if sum(cell.horizon for cell in experiment.cells) > 10**5:
            return
    except BdesError:
        experiment = None
    done = CliRunner().invoke(bdes, ["run", str(file), "--out", str(out), "--engine", "serial"])
    if experiment is None:
        assert isinstance(done.exception, BdesError)
        assert not out.exists()
    else:
        assert done.exit_code in (0, 1), done.output
        assert len(load_run(out).cells()) == len({cell.key for cell in experiment.cells})
