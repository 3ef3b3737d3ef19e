"""What ``crowd-posterior`` loses on many users, as a share of the optimum, and what others lose.

``python -m studies.crowd.measure`` plays every part below whose games are not in measured.json yet,
adds them to it game by game, and may be interrupted; ``python -m studies.crowd.page`` writes the
page. Seeds were fixed before any constant was tuned, which was done on seeds 1000 and above.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np
from attrs import evolve, frozen

import bdes_framework as bdes
from bdes_framework import DecisionTable, FloatArray, Instance
from bdes_framework.experiment.arms import ArmsConfig, generate_arms
from studies.crowd.blind import Costs, least_blind_loss, visits_by_number
from studies.pages import save_rows, saved_rows

SEEDS = range(20)
"""One instance of each family per seed; never used to choose a constant."""
MEASURED = Path(__file__).with_name("measured.json")
PLUGINS = bdes.load_plugins()
FAMILIES: Final[tuple[Literal["click-bait", "uniform"], ...]] = ("click-bait", "uniform")
RATES = (0.02, 0.1, 0.5, 1.0)
LIFETIMES: Final[tuple[Literal["geometric", "fixed"], ...]] = ("geometric", "fixed")
ARRIVALS: Final[tuple[Literal["uniform", "round-robin"], ...]] = ("uniform", "round-robin")
"""Besides cohorts: all users are there from the start."""
COHORT = 200
"""Users who come at a time: when all have left, the next come."""
LOGGED_ROWS = 100_000
"""Of the log that a warm start is fitted to: arms at random, of other users."""
ONE_AUDIENCE = (
    "aae",
    "auto",
    "discounted-ucb",
    "exp3",
    "exp3p",
    "posterior",
    "rank-one",
    "sliding-window-ucb",
    "sticky",
    "thompson",
    "ucb1",
    "uniform",
    "unknown-lambda",
)
"""All first-party policies for one audience that need to be told nothing: ``etc`` needs an arm that
replenishes, ``etc-unknown-arm`` and ``wide-ucb`` need lam, ``fixed-schedule`` a
schedule."""
MARKS = (1_000, 3_162, 10_000, 31_623, 100_000)
"""Numbers of users at which regret so far is noted."""


@frozen
class Game:
    """One game of a policy on one instance."""

    part: str
    policy: str
    family: Literal["click-bait", "uniform"]
    seed: int
    lam: float
    lifetimes: Literal["geometric", "fixed"] = "geometric"
    users: int = 10_000
    visits_per_user: int = 50
    n_arms: int = 5
    delay: int = 0
    lost: float = 0.0
    arrivals: Literal["cohorts", "uniform", "round-robin"] = "cohorts"
    told: bool = False
    """Whether the policy knows how often users come on average."""


@frozen
class Row:
    """What a game came to."""

    game: Game
    visits: int
    optimum: float
    """Of who knows the law of lifetimes, but not when a user leaves: on these very lifetimes."""
    regret: float
    table_regret: float
    """Against the decision table for users who leave with the same chance after every visit."""
    marks: list[int]
    regret_at: list[float]
    """Of the first so many users."""
    seconds: float
    blind_regret: float = 0.0
    """Where rewards are late: what showing the arms of visits before the first costs in all."""
    least_blind_regret: float = 0.0
    """The least that those visits cost anybody, in the mean over all orders of the arms."""

    @property
    def loss(self) -> float:
        """The share of the optimum that was not earned."""
        return self.regret / self.optimum


@cache
def instance(
    family: Literal["click-bait", "uniform"], n_arms: int, seed: int, lam: float
) -> Instance:
    r, b = generate_arms(ArmsConfig(generator=family, n=n_arms, seed=seed))
    return Instance(r, b, lam)


@cache
def table_of(
    family: Literal["click-bait", "uniform"], n_arms: int, seed: int, lam: float, visits: int
) -> DecisionTable:
    """Return the best stationary plan for users who come so often on average."""
    planner = PLUGINS.planner("certified")
    assert isinstance(planner, bdes.StationaryPlanner)
    return planner.plan_stationary(instance(family, n_arms, seed, lam), 1 - 1 / visits)


def table_totals(game: Game, most: int) -> FloatArray:
    """Return what the best stationary plan earns from a user who comes 0, 1, 2, ... times."""
    table = table_of(game.family, game.n_arms, game.seed, game.lam, game.visits_per_user)
    played = table.instance
    totals, q = np.zeros(most + 1), played.q0
    for n in range(most):
        arm = int(table.arms_at([q])[0])
        totals[n + 1] = totals[n] + played.r[arm] * q
        q += played.lam * (played.b[arm] - q)
    return totals


def fixed_total(game: Game) -> float:
    """Return the optimum of a user who is known to come a fixed number of times."""
    played = instance(game.family, game.n_arms, game.seed, game.lam)
    return PLUGINS.planner("certified").plan(played, game.visits_per_user).value


def measure(game: Game) -> Row:
    """Play a game; its regret is taken on the users' own lifetimes."""
    played = instance(game.family, game.n_arms, game.seed, game.lam)
    seed = [hash_of(game), game.seed]
    crowd = PLUGINS.crowd_environment(
        "crowd",
        seed=seed[0],
        r=played.r,
        b=played.b,
        lam=played.lam,
        users=game.users,
        visits_per_user=game.visits_per_user,
        lifetimes=game.lifetimes,
        arrivals=game.arrivals,
        **({"cohort": COHORT} if game.arrivals == "cohorts" else {}),
    )
    visits = 2 * game.users * game.visits_per_user  # all leave before
    known = float(game.visits_per_user) if game.told else None
    told = bdes.CrowdProblem(game.n_arms, visits, visits_per_user=known)
    with tempfile.TemporaryDirectory() as folder:
        ref = reference(game, Path(folder))
        begin = time.process_time()
        policy = PLUGINS.crowd_policy(ref, told, seed=game.seed)
        feedback = bdes.Feedback(every=100, delay=game.delay, lost=game.lost, seed=game.seed)
        trace = bdes.simulate_crowd(crowd, policy, visits, feedback=feedback, keep=game.delay > 0)
        seconds = time.process_time() - begin
    most = int(trace.user_visits.max())
    by_table = table_totals(game, most)[trace.user_visits]
    best = by_table
    if game.lifetimes == "fixed":
        best = np.full(trace.n_users, fixed_total(game))
    regret = np.cumsum(best - trace.user_means)
    marks = [mark for mark in MARKS if mark <= trace.n_users]
    blind, least = _blind_regret(trace, game)
    return Row(
        game=game,
        visits=trace.visits,
        optimum=float(best.sum()),
        regret=float(regret[-1]),
        table_regret=float((by_table - trace.user_means).sum()),
        marks=marks,
        regret_at=[float(regret[mark - 1]) for mark in marks],
        seconds=seconds,
        blind_regret=blind,
        least_blind_regret=least,
    )


def _blind_regret(trace: bdes.CrowdTrace, game: Game) -> tuple[float, float]:
    """Return what visits before the first reward cost, and the least that they cost anybody."""
    if trace.users is None or trace.arms is None or trace.states is None:
        return 0.0, 0.0
    n = game.delay
    costs = Costs(table_of(game.family, game.n_arms, game.seed, game.lam, game.visits_per_user))
    lost = float(costs.of(trace.states[:n], trace.arms[:n]).sum())
    return lost, least_blind_loss(costs, visits_by_number(trace.users[:n]))


def hash_of(game: Game) -> int:
    """Return a seed of the crowd: the same for all policies that play the same users."""
    return 1 + game.seed + 1000 * FAMILIES.index(game.family)


def reference(game: Game, folder: Path) -> dict[str, object]:
    """Return the policy of a game, as a config names it."""
    way, _, inner = game.policy.partition(" ")
    if way in ("each", "pooled"):
        return {"use": way, "policy": inner}
    if way == "warm":
        file = folder / "fit.json"
        bdes.save_fit(bdes.fit(logged(game)), file)
        return {"use": "crowd-posterior", "prior": str(file)}
    return {"use": way}


def logged(game: Game) -> bdes.Log:
    """Return a log of users who were shown arms at random."""
    played = instance(game.family, game.n_arms, game.seed, game.lam)
    rng = np.random.default_rng([game.seed, 77])
    n = LOGGED_ROWS // game.visits_per_user
    arms = rng.integers(game.n_arms, size=(n, game.visits_per_user))
    means = np.array([played.expected_rewards(own) for own in arms])
    rewards = (rng.random(means.shape) < means).astype(np.int64)
    starts = np.arange(n) * game.visits_per_user
    return bdes.Log(arms.ravel(), rewards.ravel(), starts)


# -- what is played -------------------------------------------------------------------------


def games(part: str, seeds: range, rates: tuple[float, ...] = RATES) -> Iterator[Game]:
    """Yield a part's games with ``crowd-posterior``, one per seed, rate and family."""
    for seed in seeds:
        for lam in rates:
            for family in FAMILIES:
                yield Game(part, "crowd-posterior", family, seed, lam)


def parts() -> dict[str, list[Game]]:
    """Return all games by part, the most important first."""
    main = [
        evolve(game, lifetimes=lifetimes)
        for game in games("main", SEEDS)
        for lifetimes in LIFETIMES
    ]
    # At lam = 1 regret is least, and its slope least certain: half as many again.
    growth = [*games("growth", range(4)), *games("growth", range(4, 6), RATES[-1:])]
    screen = [
        evolve(game, policy=f"{way} {policy}", users=users)
        for way, users in (("each", 40), ("pooled", 400))
        for policy in ONE_AUDIENCE
        for game in games("screen", range(1))
    ]
    return {
        "main": main,
        "delays": [evolve(g, delay=1000, lost=0.1) for g in games("delays", SEEDS)],
        "warm": [evolve(g, policy="warm start") for g in games("warm", range(5))],
        "growth": [evolve(g, users=100_000) for g in growth],
        "screen": screen,
        "arms": [evolve(g, n_arms=20) for g in games("arms", range(3))],
        "visits": [evolve(g, users=3_000, visits_per_user=500) for g in games("visits", range(3))],
        "best": best_baselines(),
        "arrivals": [
            evolve(game, arrivals=arrivals, lifetimes=lifetimes, told=told)
            for game in games("arrivals", range(2))
            for arrivals in ARRIVALS
            for lifetimes in LIFETIMES
            for told in (True, False)
        ],
    }


def best_baselines() -> list[Game]:
    """Return games of the best policies of each way at each rate, by what was screened there."""
    screened = [row for row in saved() if row.game.part == "screen"]
    found = []
    for lam, (way, users, n) in itertools.product(RATES, (("each", 100, 2), ("pooled", 10_000, 1))):
        losses: dict[str, list[float]] = {}
        for row in screened:
            if row.game.policy.startswith(way) and row.game.lam == lam:
                losses.setdefault(row.game.policy, []).append(row.loss)
        best = sorted(losses, key=lambda policy: float(np.mean(losses[policy])))[:n]
        found += [
            evolve(game, policy=policy, users=users)
            for policy in best
            for game in games("best", range(5), (lam,))
        ]
    return found


def saved() -> list[Row]:
    return saved_rows(MEASURED, Row) if MEASURED.exists() else []


def main() -> None:
    wanted = sys.argv[1:] or list(parts())
    rows = saved()
    for part in wanted:
        done = {row.game for row in rows}
        left = [game for game in parts()[part] if game not in done]
        for place, game in enumerate(left):
            rows.append(measure(game))
            print(f"{place + 1}/{len(left)} {game} loss {100 * rows[-1].loss:.2f} %", flush=True)
            save_rows(MEASURED, rows)


if __name__ == "__main__":
    main()
