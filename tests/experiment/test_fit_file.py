"""Files of fits: what is loaded is what was saved, and bad files are named."""

import json
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.experiment import fit_file
from bdes_framework.experiment.arms import read_arms
from tests.support.logs import ADS, intervals_of, simulated_log

LOG = simulated_log(ADS, users=60, rows=30, seed=1)
HALVED = simulated_log(bdes.Instance([0.9, 0.8], [0.9, 0.2], 0.2, q0=0.5), users=400, rows=20)
UNSEEN = bdes.Log([0] * 50, [0, 1] * 25, names=["shown", "spare"])

FITS = {
    "ordinary": lambda: bdes.fit(LOG),
    "lam known": lambda: bdes.fit(LOG, lam=0.15),
    "lam predicted": lambda: bdes.fit(LOG, lam=bdes.RatePrediction(0.1, 2.0)),
    "q0 unknown": lambda: bdes.fit(HALVED, q0=None),
    "q0 above 1": lambda: bdes.fit(LOG, q0=2.0),
    "arm never played": lambda: bdes.fit(UNSEEN),
}


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize("kind", FITS)
def test_a_loaded_fit_is_the_saved_one(tmp_path: Path, kind: str, suffix: str) -> None:
    found, path = FITS[kind](), tmp_path / f"fit{suffix}"
    bdes.save_fit(found, path)
    again = bdes.load_fit(str(path))
    assert again.summary() == found.summary()
    assert repr(again) == repr(found)
    assert again.covariance.tobytes() == found.covariance.tobytes()
    assert intervals_of(again).tobytes() == intervals_of(found).tobytes()
    assert again.warnings == found.warnings
    assert again.n_sequences == found.n_sequences
    rngs = np.random.default_rng(3), np.random.default_rng(3)
    draws = again.draws(20, rngs[0]), found.draws(20, rngs[1])
    for one, other in zip(*draws, strict=True):
        assert one.r.tobytes() + one.b.tobytes() == other.r.tobytes() + other.b.tobytes()
        assert (one.lam, one.q0) == (other.lam, other.q0)
    assert read_arms(path).r == found.playable_arms().instance.r.tolist()


def test_files_of_older_versions_have_arms_only(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    bdes.save_fit(bdes.fit(LOG), path)
    content = json.loads(path.read_text())
    for name in ("posterior", "goodness", "log_likelihood_without_state", "parameters"):
        del content["fit"][name]
    path.write_text(json.dumps(content))
    assert read_arms(path).r == content["r"]
    with pytest.raises(bdes.ConfigError, match=r"old\.json.* without its covariance"):
        bdes.load_fit(path)
    (tmp_path / "arms.toml").write_text("r = [0.5]\nb = [0.5]\n")
    with pytest.raises(bdes.ConfigError, match="holds arms, but no fit of them"):
        bdes.load_fit(tmp_path / "arms.toml")


def test_many_arms_are_saved_without_covariance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_file, "MAX_COVARIANCE_ARMS", 2)
    bdes.save_fit(bdes.fit(LOG), tmp_path / "many.json")
    with pytest.raises(bdes.ConfigError, match="more than 2 arms"):
        bdes.load_fit(tmp_path / "many.json")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("centre", [0.0] * 6, "triangle as high as 'centre' is long"),
        ("centre", [1e400] * 7, "not finite"),
        ("deviations", [[1.0]], "triangle"),
        ("r_interval", [[0.1, 0.2]], "not those of 3 arms"),
        ("lam_deviation", -1.0, "deviation must be"),
        ("lam", 1.5, "lam"),
        ("q0", "x", "posterior: q0"),
        ("unheard_of", 1, "unheard_of"),
    ],
)
def test_a_damaged_file_is_rejected(tmp_path: Path, key: str, value: object, message: str) -> None:
    path = tmp_path / "fit.json"
    bdes.save_fit(bdes.fit(LOG), path)
    content = json.loads(path.read_text())
    content["fit"]["posterior"][key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(bdes.ConfigError, match=message):
        bdes.load_fit(path)


def test_pulls_and_names_must_agree(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    bdes.save_fit(bdes.fit(LOG), path)
    content = json.loads(path.read_text())
    for pulls in ([1, 2], [-1, 2, 3], [0, 0, 0]):
        content["fit"]["pulls"] = pulls
        path.write_text(json.dumps(content))
        with pytest.raises(bdes.ConfigError, match=r"fit\.json"):
            bdes.load_fit(path)


def test_a_fit_is_saved_as_toml_or_json_only(tmp_path: Path) -> None:
    with pytest.raises(bdes.InvalidValueError, match=r"\.toml or \.json, got 'fit\.csv'"):
        bdes.save_fit(bdes.fit(LOG), tmp_path / "fit.csv")
