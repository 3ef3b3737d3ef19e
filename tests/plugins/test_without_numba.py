"""Policies play the same, bit for bit, with numba, with it switched off and without it."""

import os
import subprocess
import sys

import pytest

from tests.support import REPOSITORY
from tests.support.fused import digest

CODE = """
import sys
if "--no-numba" in sys.argv:
    sys.modules["numba"] = None
from tests.support.fused import digest
print(digest())
"""


@pytest.fixture(scope="module")
def compiled() -> str:
    return digest()


@pytest.mark.parametrize("how", ["switched off", "absent"])
def test_plays_are_the_same_without_numba(how: str, compiled: str) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, "--no-numba" if how == "absent" else ""],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1" if how == "switched off" else "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == compiled
