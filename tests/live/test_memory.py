"""How memory grows with users and decisions."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.live import written

WORK = """
import gc, sys, time, tracemalloc
import bdes_framework as bdes

folder, n = sys.argv[1], int(sys.argv[2])
tracemalloc.start()
with bdes.open_live(folder) as live:
    live.wait_until_ready()

    def kept():
        models, still = -1, 0
        while still < 8:  # until nothing is being learned
            time.sleep(0.25)
            found = len(live.status().models)
            models, still = found, still + 1 if found == models else 0
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    def come(first, n, step):
        for start in range(first, first + n, 500):
            users = [f"user {at // step}" for at in range(start, start + 500)]
            made = live.decide_many(users)
            live.reward_many([(decision.id, 1.0) for decision in made[:50]])

    come(0, 5_000, 1)
    before = kept()
    come(5_000, n, 1)
    between = kept()
    come(0, n, 10)
    after = kept()
    print((between - before) / n, (after - between) / n)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_of_users_and_decisions(tmp_path: Path) -> None:
    """At most 200 bytes a user, who made one decision here, and 32 a decision."""
    policy = {"use": "crowd-posterior", "growth": 0.9}
    written(tmp_path, policy=policy, in_memory=False, arms=["a", "b", "c", "d", "e"])
    command = [sys.executable, "-c", WORK, str(tmp_path), "40000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    of_user, of_decision = map(float, done.stdout.split())
    assert of_user <= 200 + 32
    assert of_decision <= 32
