"""What several test modules share: worlds, oracles, broken plugins, browsers, dumps."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
