"""A local plugin of environments: good ones, and for every check of the kit one that breaks it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve
from numpy.random import Generator

from bdes_framework import Benchmark, Instance, IntArray, Outcome, Registrar, World, hookimpl
from tests.support.kit_subjects import Subjects, global_seed, late_randomness

BDES_API_VERSION = 1

INSTANCE = Instance(r=[0.9, 0.3, 0.6], b=[0.1, 1.0, 0.5], lam=0.3)
LAST = INSTANCE.n_arms - 1

subject = Subjects()


@subject("good")
class Good:
    """Clicks from Bern(r·q), pull by pull, with the probabilities shown."""

    n_arms = INSTANCE.n_arms
    thinning = 1.0

    def __init__(self, rng: Generator) -> None:
        self.rng, self.state, self.round = rng, np.array([INSTANCE.q0]), 0

    def pull_one(self, arm: int) -> tuple[float, float, float]:
        mean = float(INSTANCE.r[arm] * self.state[0])
        reward = float(self.rng.random() < self.thinning * mean)
        self.state += INSTANCE.lam * (INSTANCE.b[arm] - self.state)
        self.round += 1
        return reward, mean, mean

    def pull(self, arms: IntArray) -> Any:
        if arms.min() < 0 or arms.max() >= INSTANCE.n_arms:
            raise ValueError("there is no such arm")
        brought = [self.pull_one(arm) for arm in arms.tolist()]
        return Outcome(*np.array(brought).T.copy())


@subject("good.fused")
class Fused(Good):
    instance = INSTANCE

    def open_rounds(self, n: int) -> World:
        uniforms = self.rng.random(n)
        return World(INSTANCE.r, INSTANCE.b, INSTANCE.lam, self.state, uniforms, np.empty(0))


# -- the form of things ---------------------------------------------------------------------


def changed(name: str, change: Callable[[Outcome], dict[str, Any]]) -> None:
    """Add an environment that changes good outcomes."""
    subject.after(name, "pull", lambda outcome, self, arms: evolve(outcome, **change(outcome)))


FORM = "outcomes-have-one-float64-per-pull"

changed("good.plain", lambda outcome: {"probabilities": None})
changed(f"{FORM}.32-bits", lambda outcome: {"rewards": outcome.rewards.astype(np.float32)})
changed(f"{FORM}.column", lambda outcome: {"means": outcome.means[:, np.newaxis]})
subject.variant("n-arms-is-a-positive-int", n_arms=np.int64(3))
subject.after(
    "outcomes-are-finite",
    "pull_one",
    lambda brought, self, arm: (brought[0], np.nan, brought[2]) if self.round == 8 else brought,
)
subject.after(
    "rewards-lie-in-0-1.reward",
    "pull_one",
    lambda brought, self, arm: (1.5, *brought[1:]) if self.round == 8 else brought,
)
subject.after(
    "rewards-lie-in-0-1.mean",
    "pull_one",
    lambda brought, self, arm: (brought[0], -0.25, brought[2]) if self.round == 8 else brought,
)
subject.after(
    "probabilities-lie-in-0-1",
    "pull_one",
    lambda brought, self, arm: (*brought[:2], -0.001) if self.round == 8 else brought,
)


# -- what rewards depend on -----------------------------------------------------------------

COMMON: dict[str, Any] = {}

subject.variant(
    "environments-do-not-share-state",
    state=property(lambda self: COMMON["state"], lambda self, state: COMMON.update(state=state)),
)
subject.before("same-seed-gives-the-same-rewards", "pull_one", late_randomness)
subject.before("rewards-do-not-depend-on-blocks", "pull", lambda self, arms: self.rng.random())
subject.before(
    "uses-no-global-random-state.reads", "__init__", lambda self, rng: rng.random(global_seed())
)


# -- what it does with arms -----------------------------------------------------------------

subject.before(
    "arms-given-are-not-changed", "pull", lambda self, arms: np.place(arms, arms == 1, 2)
)
subject.variant(
    "arms-out-of-range-are-rejected.above",
    pull=lambda self, arms: Good.pull(self, np.minimum(arms, LAST)),
)
subject.variant(
    "arms-out-of-range-are-rejected.below",
    pull=lambda self, arms: Good.pull(self, np.where(arms == -1, LAST, arms)),
)


# -- what rewards are worth -----------------------------------------------------------------

OF_INSTANCE = "means-are-those-of-the-instance"
r, b, lam = INSTANCE.r, INSTANCE.b, INSTANCE.lam

subject.variant("rewards-agree-with-means", thinning=0.9)
subject.variant("good.instance", instance=INSTANCE)
subject.variant(f"{OF_INSTANCE}.state", instance=Instance(r, b, lam=0.31))
subject.variant(f"{OF_INSTANCE}.arms", instance=Instance(r[:2], b[:2], lam))


# -- optional extras ------------------------------------------------------------------------


def opened(name: str, change: Callable[[World], World]) -> None:
    """Add an environment that opens other rounds than it pulls."""
    subject.after(name, "open_rounds", lambda world, self, n: change(world), Fused)


def tenth(checkpoints: IntArray) -> Benchmark:
    return Benchmark(checkpoints, checkpoints / 10, upper_bound=0.9 * float(checkpoints[-1]))


def compared(name: str, benchmark: Callable[[IntArray], Benchmark]) -> None:
    """Add an environment with a benchmark."""
    subject.variant(name, benchmark=lambda self, checkpoints: benchmark(checkpoints))


@subject("benchmark-changes-no-rewards")
class Simulated(Good):
    def benchmark(self, checkpoints: IntArray) -> Benchmark:
        self.rng.random()
        return tenth(checkpoints)


OPENED = "open-rounds-equals-pull"
BENCHMARK = "benchmark-has-the-right-form"

opened(f"{OPENED}.uniforms", lambda world: world._replace(uniforms=1 - world.uniforms))
opened(f"{OPENED}.state", lambda world: world._replace(q=world.q.copy()))
compared("good.benchmark", tenth)
compared("benchmark-is-not-beaten", lambda at: Benchmark(at, np.zeros(at.size), 0.05))
compared(f"{BENCHMARK}.checkpoints", lambda at: tenth(at[-1:] + 1))
compared(f"{BENCHMARK}.bound", lambda at: evolve(tenth(at), values=at.astype(np.float64)))
compared(f"{BENCHMARK}.falls", lambda at: evolve(tenth(at), values=0.9 - at / 1000))
compared(f"{BENCHMARK}.not-finite", lambda at: Benchmark(at, np.full(at.size, np.nan), np.inf))


@hookimpl
def bdes_register(registrar: Registrar) -> None:
    subject.register(registrar.environment, "pull", lambda make, context: make(context.rng))
