"""Problems for policies to play in the kit, and the loop that plays them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from attrs import evolve, frozen

from bdes_framework._internal.arrays import FloatArray, IntArray
from bdes_framework.errors import InvalidValueError
from bdes_framework.interfaces import Policy
from bdes_framework.model.instance import Instance, Problem
from bdes_framework.testing.checks import Subject
from bdes_framework.testing.demands import (
    BrokenPromiseError,
    RefusedError,
    demand,
    demand_array,
    set_global_luck,
)
from bdes_framework.testing.reference import ReferenceEnvironment, example_instance


@frozen
class Scenario:
    """A problem to play: what is true, and what the policy is told of it."""

    n_arms: int = 3
    horizon: int = 120
    lam: float = 0.3
    seed: int = 1
    lam_known: bool = True
    arm_known: bool = True
    pays: float | None = None
    """Every pull pays this, if it is given."""
    noise_width: float = 0.0
    may_be_refused: bool = False
    """Whether a policy is free to raise InvalidValueError when it is built for this."""

    def __str__(self) -> str:
        told = f"lam={self.lam}" + ("" if self.lam_known else " (not told)")
        extras = ["" if self.arm_known else "no replenishing arm told"]
        extras += ["" if self.pays is None else f"every pull pays {self.pays:g}"]
        extras += [f"noise {self.noise_width}" if self.noise_width else ""]
        more = "".join(f", {extra}" for extra in extras if extra)
        return f"K={self.n_arms}, T={self.horizon}, {told}, seed={self.seed}{more}"

    @property
    def problem(self) -> Problem:
        """What the policy is told."""
        return Problem(
            n_arms=self.n_arms,
            horizon=self.horizon,
            lam=self.lam if self.lam_known else None,
            replenishing_arm=self.n_arms - 1 if self.arm_known else None,
        )

    def environment(self) -> ReferenceEnvironment:
        """Return a fresh environment; always the same luck."""
        if self.pays is None:
            instance = example_instance(self.n_arms, self.lam, self.seed)
        else:
            everywhere = np.ones(self.n_arms)
            instance = Instance(self.pays * everywhere, everywhere, self.lam)
        return ReferenceEnvironment(instance, self.seed, self.noise_width)


ORDINARY = (
    Scenario(),
    Scenario(n_arms=2, horizon=200, lam=0.05, seed=2, lam_known=False, may_be_refused=True),
    Scenario(n_arms=5, horizon=90, lam=0.9, seed=3, arm_known=False, may_be_refused=True),
    Scenario(n_arms=4, lam=0.5, seed=4, lam_known=False, arm_known=False, may_be_refused=True),
)
LONG = Scenario(horizon=1500, lam=0.1, seed=5)


def and_with_less_told(*scenarios: Scenario) -> tuple[Scenario, ...]:
    """Add each scenario with lam and with the replenishing arm kept from the policy."""
    return (
        *scenarios,
        *(evolve(s, lam_known=False, may_be_refused=True) for s in scenarios),
        *(evolve(s, arm_known=False, may_be_refused=True) for s in scenarios),
    )


# -- playing --------------------------------------------------------------------------------


@frozen(eq=False)
class Asked:
    """What a policy answered, and what it was asked."""

    arms: object
    limit: int
    n_arms: int
    at: int
    """The round of the first of these arms."""


@frozen(eq=False)
class Played:
    """What was played, round by round: arrays of shape (T,)."""

    arms: IntArray
    rewards: FloatArray
    means: FloatArray
    probabilities: FloatArray


Limits: TypeAlias = Callable[[int], int]
"""From the rounds left to the limit that is asked with."""


def all_left(left: int) -> int:
    """Ask for everything that is left."""
    return left


def one_by_one(left: int) -> int:
    """Ask for one arm at a time."""
    return 1


def changing(seed: int) -> Limits:
    """Ask with a limit that changes all the time."""
    rng = np.random.default_rng(seed)
    return lambda left: int(rng.integers(1, min(left, 40) + 1))


def build(subject: Subject, scenario: Scenario, global_seed: int = 0) -> Policy:
    """Build the policy that is checked, the global random states set to ``global_seed``."""
    set_global_luck(global_seed)
    try:
        return subject.plugins.policy(
            subject.ref, scenario.problem, seed=scenario.seed, **subject.parameters
        )
    except InvalidValueError as error:
        if scenario.may_be_refused:
            raise RefusedError(str(error)) from error
        raise


def _nothing_more(told: FloatArray, copy: FloatArray) -> None:
    pass


def play(
    policy: Policy,
    environment: ReferenceEnvironment,
    n: int,
    *,
    limits: Limits = all_left,
    demands: Sequence[Callable[[Asked], None]] = (),
    after_tell: Callable[[FloatArray, FloatArray], None] = _nothing_more,
) -> Played:
    """Ask, pull and tell for ``n`` rounds.

    ``after_tell`` sees each array of rewards told, and a copy made before it was. What
    ``demands`` do not ask for is put right in silence, so that a policy with one fault
    fails one check.
    """
    played = Played(np.empty(n, dtype=np.int64), np.empty(n), np.empty(n), np.empty(n))
    n_arms, done = environment.n_arms, 0
    while done < n:
        limit = limits(n - done)
        asked = policy.ask(limit)
        for demanded in demands:
            demanded(Asked(asked, limit, n_arms, done))
        block = np.asarray(asked).ravel()[:limit].astype(np.int64)
        demand(block.size > 0, f"1 to {limit} arms from ask({limit})", f"round {done}: none")
        block = np.minimum(np.maximum(block, 0), n_arms - 1)
        outcome, here = environment.pull(block), slice(done, done + block.size)
        played.arms[here], played.rewards[here] = block, outcome.rewards
        played.means[here] = played.probabilities[here] = outcome.means
        if outcome.probabilities is not None:
            played.probabilities[here] = outcome.probabilities
        policy.tell(outcome.rewards)
        after_tell(outcome.rewards, played.rewards[here])
        done = here.stop
    return played


def run(
    subject: Subject,
    scenario: Scenario,
    *,
    limits: Limits = all_left,
    demands: Sequence[Callable[[Asked], None]] = (),
) -> Played:
    """Build a policy and play the whole scenario."""
    policy = build(subject, scenario)
    return play(policy, scenario.environment(), scenario.horizon, limits=limits, demands=demands)


def int64_arrays(asked: Asked) -> None:
    """Demand one-dimensional arrays of int64."""
    demand_array(asked.arms, np.int64, "a one-dimensional array of int64 from ask")


def one_to_limit(asked: Asked) -> None:
    """Demand at least one arm and at most the limit."""
    n, limit = np.asarray(asked.arms).size, asked.limit
    demand(1 <= n <= limit, f"1 to {limit} arms from ask({limit})", f"round {asked.at}: {n} arms")


def existing_arms(asked: Asked) -> None:
    """Demand arms from 0 to K - 1."""
    arms = np.asarray(asked.arms).ravel()
    wrong = np.flatnonzero((arms < 0) | (arms >= asked.n_arms))
    if wrong.size:
        at = int(wrong[0])
        raise BrokenPromiseError(
            f"arms from 0 to {asked.n_arms - 1}", f"round {asked.at + at}: arm {arms[at]}"
        )


EVERYTHING = (int64_arrays, one_to_limit, existing_arms)
