"""Time one library's loop, inside that library's own environment: standard library only.

``python peers_timing.py SNIPPET DISTRIBUTION MEANS`` prints one line of JSON at the end. The
snippet defines ``prepare(means, rounds)``, which sets up a fresh game and returns the loop that
plays it and gives back the total reward.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

MIN_ROUNDS = 500
MIN_TURN_SECONDS = 0.25
TURNS = 3

Prepare = Callable[[Sequence[float], int], Callable[[], float]]


def timed(prepare: Prepare, means: Sequence[float], rounds: int) -> tuple[float, float]:
    """Play a fresh game; return the seconds of its loop alone, and the mean reward."""
    loop = prepare(means, rounds)
    begin = time.perf_counter()
    total = loop()
    return time.perf_counter() - begin, total / rounds


def best_microseconds(prepare: Prepare, means: Sequence[float]) -> float:
    """Return microseconds a pull: the best of some turns, each long enough to be measured."""
    rounds = MIN_ROUNDS
    timed(prepare, means, rounds)  # warms up: what compiles, compiles here
    while timed(prepare, means, rounds)[0] < MIN_TURN_SECONDS:
        rounds *= 2
    turns = [timed(prepare, means, rounds) for _ in range(TURNS)]
    # A loop that does not learn is not the policy that it claims to be.
    if min(reward for _, reward in turns) <= sum(means) / len(means):
        raise RuntimeError(f"earned no more than chance in {rounds} rounds")
    return min(seconds for seconds, _ in turns) / rounds * 1e6


def main(snippet: str, distribution: str, means: str) -> None:
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(Path(snippet).read_text("utf-8"), snippet, "exec"), names)
    microseconds = best_microseconds(names["prepare"], json.loads(means))
    print(json.dumps({"version": version(distribution), "microseconds": microseconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
