"""Policies with a compiled loop, played through it, by asking and telling, or by turns."""

import hashlib

import numpy as np

from bdes_framework import (
    CrowdProblem,
    Environment,
    Feedback,
    FusedEnvironment,
    FusedPolicy,
    Policy,
    Problem,
    Record,
    Reference,
    simulate_crowd,
)
from tests.support.noiseless import PLUGINS, diagnostics_of

NOISES: list[object] = [None, {"use": "gaussian", "sigma": 0.3}, "none"]
LAMS = (0.0, 0.2, 1.0)

Case = tuple[str, dict[str, object]]
Pieces = list[tuple[bool, int]]
"""Numbers of rounds to play, and whether each through the compiled loop."""
Game = tuple[list[int], list[float], dict[str, bytes]]
"""Arms, rewards and, by name, the bytes of diagnostics."""

BASELINES: list[Case] = [
    ("aae", {}),
    ("aae", {"delta": 1.0}),
    ("discounted-ucb", {}),
    ("discounted-ucb", {"gamma": 0.6}),
    ("discounted-ucb", {"xi": 0.01, "B": 0.5}),
    ("exp3", {}),
    ("exp3", {"gamma": 1.0}),
    ("exp3", {"gamma": 0.5}),
    ("sliding-window-ucb", {}),
    ("sliding-window-ucb", {"tau": 3}),
    ("sliding-window-ucb", {"tau": 50, "xi": 0.05}),
    ("thompson", {}),
    ("thompson", {"alpha": 0.3, "beta": 0.01}),
    ("ucb1", {}),
    ("ucb1", {"exploration": 0.1}),
]
POLICIES: list[Case] = [
    ("exp3p", {}),
    ("exp3p", {"delta": 0.9}),
    ("wide-ucb", {}),
    ("wide-ucb", {"exploration": 0.1}),
    ("etc", {"planner": "best-cycle"}),
    ("etc", {"planner": "best-cycle", "tuning": "paper"}),
    ("etc-unknown-arm", {"planner": "best-cycle"}),
    ("etc-unknown-arm", {"planner": "best-cycle", "tuning": "paper"}),
    ("rank-one", {}),
    ("sticky", {}),
    ("unknown-lambda", {"planner": "best-cycle"}),
    ("unknown-lambda", {"planner": "best-cycle", "tuning": "paper"}),
    ("auto", {}),
]


class AskingOnly:
    """Hides a policy's compiled loop."""

    def __init__(self, policy: Policy) -> None:
        self.ask = policy.ask
        self.tell = policy.tell


def fused(policy: Policy) -> FusedPolicy:
    assert isinstance(policy, FusedPolicy)
    return policy


def environment(n_arms: int, seed: int, noise: object = None) -> Environment:
    """Return random arms; lam is one of ``LAMS``, by the seed."""
    rng = np.random.default_rng(seed)
    return PLUGINS.environment(
        "bernoulli",
        seed=seed,
        r=rng.random(n_arms),
        b=rng.random(n_arms),
        lam=LAMS[seed % 3],
        noise=noise,
    )


def play_in_pieces(
    policy: FusedPolicy, world: Environment, pieces: Pieces
) -> tuple[list[int], list[float]]:
    """Play pieces of rounds, each either through the compiled loop or by asking and telling."""
    assert isinstance(world, FusedEnvironment)
    arms: list[int] = []
    rewards: list[float] = []
    for compiled, n in pieces:
        if compiled:
            record = Record.empty(n)
            policy.play(world.open_rounds(n), record)
            arms += record.arms.tolist()
            rewards += record.rewards.tolist()
            continue
        end = len(arms) + n
        while len(arms) < end:
            block = policy.ask(end - len(arms))
            outcome = world.pull(block)
            policy.tell(outcome.rewards)
            arms += block.tolist()
            rewards += outcome.rewards.tolist()
    return arms, rewards


def game(case: Case, problem: Problem, pieces: Pieces, seed: int, noise: object = None) -> Game:
    """Build a policy, play pieces of rounds, and return all that can differ, bit for bit."""
    name, parameters = case
    policy = fused(PLUGINS.policy(name, problem, seed=9, **parameters))
    arms, rewards = play_in_pieces(policy, environment(problem.n_arms, seed, noise), pieces)
    shown = sorted(diagnostics_of(policy).items())
    return arms, rewards, {key: np.asarray(value).tobytes() for key, value in shown}


def crowd_game(use: Reference) -> list[list[float]]:
    """Return what many users bring: arms, rewards and means of visits, and sums of users."""
    crowd: dict[str, object] = {"visits_per_user": 9, "lifetimes": "geometric", "spread": 0.2}
    crowd |= {"arrivals": "cohorts", "cohort": 20, "noise": NOISES[1]}
    environment = PLUGINS.crowd_environment(
        "crowd", seed=1, r=[0.9, 0.3], b=[0.1, 1.0], lam=0.2, users=60, **crowd
    )
    policy = PLUGINS.crowd_policy(use, CrowdProblem(2, 500), seed=1)
    feedback = Feedback(every=10, delay=15, delays="geometric", lost=0.1)
    trace = simulate_crowd(environment, policy, 500, feedback=feedback, keep=True)
    columns = trace.arms, trace.rewards, trace.means, trace.user_means
    return [column.tolist() for column in columns if column is not None]


def digest() -> str:
    """Play every case both ways and hash arms, rewards and diagnostics; and many users."""
    found = hashlib.sha256()
    plays = [
        (case, Problem(n_arms, horizon), 9, noise)
        for case in BASELINES
        for n_arms, horizon, noise in ((5, 1500, None), (2, 400, NOISES[1]))
    ]
    plays += [(case, Problem(3, 1500, 0.2, replenishing_arm=2), 10, None) for case in POLICIES]
    for case, problem, seed, noise in plays:
        for compiled in (True, False):
            played = game(case, problem, [(compiled, problem.horizon)], seed, noise)
            found.update(repr(played).encode())
    for use in (
        "crowd-greedy",
        {"use": "each", "policy": "thompson"},
        {"use": "crowd-posterior", "draws": 2, "growth": 0.9},
        {"use": "crowd-table", "r": [0.9, 0.3], "b": [0.1, 1.0], "lam": 0.2, "visits_per_user": 9},
    ):
        found.update(repr(crowd_game(use)).encode())
    return found.hexdigest()
