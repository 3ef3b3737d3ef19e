"""The description of the service is true: schemathesis asks everything that it allows, and more."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bdes_framework as bdes
from bdes_framework.live.service.gate import Rules
from bdes_framework.live.service.log import EventLog
from tests.support.live_service import application, serving

TOKEN = "0123456789-token-of-tests"
# What is printable is a matter of Unicode's version; schemathesis takes unassigned characters for
# printable, so that names it believes in are refused. All other checks are made there, too.
CONFIG = """
[[operations]]
include-name = "POST /arms"
checks.positive_data_acceptance.enabled = false
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[bdes.LiveSession]:
    config = 'name = "fuzz"\narms = ["clip", "essay"]\npolicy = "crowd-greedy"\nfloor = 0\n'
    (tmp_path / "live.toml").write_text(config)
    with bdes.open_live(tmp_path) as opened:
        opened.wait_until_ready()
        yield opened


def fuzz(url: str, folder: Path, seed: int, examples: int, *more: str) -> str:
    """Run schemathesis; return what it printed if it found anything wrong."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(config)]
    command += ["run", f"{url}/schema", "--seed", str(seed), "--max-examples", str(examples)]
    command += ["--generation-database", "none", "--no-shrink", "--no-color", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    tested = "Tested: 10" in done.stdout
    return "" if done.returncode == 0 and tested else done.stdout + done.stderr


def hunt(
    session: bdes.LiveSession, folder: Path, seed: int, examples: int, token: str = ""
) -> None:
    out = io.StringIO()
    app = application(session, Rules(token or None), EventLog(out))
    more = ["-H", f"Authorization: Bearer {token}"] if token else []
    with serving(app) as url:
        assert not fuzz(url, folder, seed, examples, *more)
    assert '"level": "error"' not in out.getvalue()
    assert session.status().trouble is None
    before = session.status().decisions
    session.decide("anna")
    assert session.status().decisions == before + 1


def test_schema_is_true(session: bdes.LiveSession, tmp_path: Path) -> None:
    hunt(session, tmp_path, 1, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("token", ["", TOKEN])
def test_schema_is_true_at_length(
    session: bdes.LiveSession, tmp_path: Path, seed: int, token: str
) -> None:
    hunt(session, tmp_path, seed, 200, token)
