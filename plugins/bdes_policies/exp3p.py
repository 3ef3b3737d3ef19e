"""EXP3.P: exponential weights with high-probability guarantees, for states that hardly move."""

import math
from typing import Literal, NamedTuple

import numpy as np
from attrs import field, frozen
from attrs.validators import gt, in_, lt, optional
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import FloatArray, IntArray, Record, World, compiled, play_round


@frozen
class Exp3pConfig:
    """EXP3.P, for slow states: exponential weights with a bonus for arms rarely drawn.

    The paper's Algorithm 6, with Theorem 4.1; by Auer, Cesa-Bianchi, Freund and Schapire (The
    Nonstochastic Multiarmed Bandit Problem, SIAM Journal on Computing 32, 2002), in the form of
    Bubeck and Cesa-Bianchi's survey of 2012.

    Draws arm i with p_i = (1 - gamma)·exp(eta·G_i)/sum_k exp(eta·G_k) + gamma/K. Then every
    G_i grows by beta/p_i, and that of the arm drawn also by reward/p_i. With eta =
    0.95·sqrt(ln K/(K·T)), gamma = 1.05·sqrt(K·ln K/T), beta = sqrt(ln(K/delta)/(K·T)).
    It treats states as given and does not use lam. Rewards must lie in [0, 1].

    Where it departs from the printed text, and why:

    - The normaliser is the sum of exponentials; the text lost the exp.
    - Log-weights are kept relative to the largest one: eta·G grows without bound.
    - gamma is at most 1, which matters when T is below K·ln K.

    Parameters
    ----------
    delta : float | None
        The probability with which the regret bound may fail, between 0 and 1; 0.05 by default.
        Only with ``bound = "high-probability"``.
    bound : Literal["high-probability", "expected"]
        What the tuning is for: the bound with probability 1 - delta, or that of Lemma 4.2 on
        the expected regret, with beta = sqrt(ln K/(K·T)).
    """

    delta: float | None = field(
        default=None, validator=optional([bdes.validate_number, gt(0), lt(1)])
    )
    bound: Literal["high-probability", "expected"] = field(
        default="high-probability", validator=in_(("high-probability", "expected"))
    )

    def __attrs_post_init__(self) -> None:
        if self.bound == "expected" and self.delta is not None:
            raise bdes.InvalidValueError("'delta' needs bound = \"high-probability\"")


class Rates(NamedTuple):
    """The three parameters of EXP3.P."""

    eta: float
    gamma: float
    beta: float


def rates(n_arms: int, horizon: int, delta: float) -> Rates:
    """Return eta, gamma and beta for a known horizon; those of Lemma 4.2 with ``delta`` = 1."""
    log_arms, rounds = math.log(n_arms), n_arms * horizon
    return Rates(
        eta=0.95 * math.sqrt(log_arms / rounds),
        gamma=min(1.0, 1.05 * math.sqrt(n_arms * log_arms / horizon)),
        beta=math.sqrt((log_arms - math.log(delta)) / rounds),
    )


class _State(NamedTuple):
    """Arrays of the compiled functions; ask and tell pass them one by one, which is faster."""

    log_weights: FloatArray
    """Shape (K,): eta·G, less the largest of them."""
    probabilities: FloatArray
    """Shape (K,): of the next draw."""


@compiled
def _choose(probabilities: FloatArray, uniform: float) -> int:
    last = probabilities.size - 1
    reached = 0.0
    for arm in range(last):
        reached += probabilities[arm]
        if uniform < reached:
            return arm
    # Not tested against the last sum: rounding may leave it below the draw.
    return last


@compiled
def _learn(
    log_weights: FloatArray,
    probabilities: FloatArray,
    eta: float,
    gamma: float,
    beta: float,
    arm: int,
    reward: float,
) -> None:
    n_arms = log_weights.size
    log_weights[arm] += eta * (reward / probabilities[arm])
    step = eta * beta
    highest = -math.inf
    for k in range(n_arms):
        grown = log_weights[k] + step / probabilities[k]
        log_weights[k] = grown
        if grown > highest:
            highest = grown
    total = 0.0
    for k in range(n_arms):
        shifted = log_weights[k] - highest
        log_weights[k] = shifted
        weight = math.exp(shifted)
        probabilities[k] = weight
        total += weight
    share, least = (1.0 - gamma) / total, gamma / n_arms
    for k in range(n_arms):
        probabilities[k] = share * probabilities[k] + least


@compiled
def _play(
    state: _State, parameters: Rates, uniforms: FloatArray, world: World, record: Record
) -> None:
    log_weights, probabilities = state
    eta, gamma, beta = parameters
    for t in range(record.arms.size):
        arm = _choose(probabilities, uniforms[t])
        reward = play_round(world, record, t, arm)
        _learn(log_weights, probabilities, eta, gamma, beta, arm, reward)


class Exp3p:
    """The policy ``exp3p``: one uniform draw per round, fused or not."""

    def __init__(self, n_arms: int, parameters: Rates, rng: Generator) -> None:
        self._parameters = parameters
        self._rng = rng
        self._arm = 0
        self._state = _State(np.zeros(n_arms), np.full(n_arms, 1.0 / n_arms))

    def __repr__(self) -> str:
        return f"Exp3p(n_arms={self._state.log_weights.size}, gamma={self._parameters.gamma:.4g})"

    def ask(self, limit: int) -> IntArray:
        """Return the next arm: shape (1,)."""
        self._arm = _choose(self._state.probabilities, self._rng.random())
        return np.array([self._arm], dtype=np.int64)

    def tell(self, rewards: FloatArray) -> None:
        """Learn the reward of the arm just asked for: shape (1,)."""
        reward = bdes.reward_in_unit_interval(rewards)
        _learn(*self._state, *self._parameters, self._arm, reward)

    def play(self, world: World, record: Record) -> None:
        """Play a whole block in one compiled loop."""
        uniforms = self._rng.random(record.arms.size)
        _play(self._state, self._parameters, uniforms, world, record)

    def diagnostics(self) -> bdes.Diagnostics:
        """Return eta, gamma, beta and the probabilities of the next draw."""
        return {**self._parameters._asdict(), "probabilities": self._state.probabilities.copy()}


def build(config: Exp3pConfig, context: bdes.PolicyContext) -> Exp3p:
    """Build the policy."""
    problem = context.problem
    delta = 0.05 if config.delta is None else float(config.delta)
    tuned_for = 1.0 if config.bound == "expected" else delta
    parameters = rates(problem.n_arms, problem.horizon, tuned_for)
    return Exp3p(problem.n_arms, parameters, context.rng)
