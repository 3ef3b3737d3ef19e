"""Elimination by the factors of rows and columns, for states that forget all but the last arm."""

import math

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, lt
from numpy.random import Generator

import bdes_framework as bdes
from bdes_framework import (
    FloatArray,
    IntArray,
    Problem,
    Schedule,
    compiled,
    validate_integer,
    validate_number,
)
from bdes_policies.exploration.commitment import round_robin
from bdes_policies.exploration.phased_policy import (
    DiagnosticsDict,
    FollowSchedule,
    PhasedPolicy,
    PhaseGenerator,
)
from bdes_policies.exploration.phases import NOT_SAMPLED, Phase

MOST_ARMS = 1000
"""Tables have K² entries."""
_MAX_PAIRS_SHOWN = 1000
"""Pairs left that diagnostics list at most: they hold small arrays."""
_FIRST_TIMES = 4
"""How often all arms are swept at first, and cycles are played in the first phase after it."""
_PRIOR_PAID = 0.5
"""Added to what an arm has paid when its factors are drawn, so that 0 is not certain."""


@frozen
class RankOneConfig:
    """Elimination by the factors of rows and columns, for lam = 1.

    Not in the paper; in the spirit of Katariya, Kveton, Szepesvári, Vernade, Wen, "Stochastic
    Rank-1 Bandits" (2017). At lam = 1 arm j pays b_i·r_j in the mean after arm i: a matrix of rank
    one, with 2K - 1 parameters, where ``sticky`` estimates K(K + 1)/2 pairs. By the paper's
    Lemma 5.2 the best schedule is a pair of arms in turn, or one arm, and worth the largest
    (b_i·r_j + b_j·r_i)/2. It does not use lam, and plays as if it were 1.

    - First all arms are played in random orders, until one has paid.
    - b and r are fitted to all rewards so far: each counts for the arm played and the arm before.
      The *giver* is the arm with the surely largest b, the *payer* that with the largest r.
    - A pair is eliminated if its upper bound is below another's lower bound. Bounds of b_i·r_j are
      those of its own rewards, or of (b_i·r_payer)·(b_giver·r_j)/(b_giver·r_payer).
    - 100 draws of b and r around the fit say which pairs may be best, and how much the best one may
      gain over the one that leads. A phase plays either giver, j, payer for each arm j of those
      pairs, or the pairs themselves: whichever should cost less. Each phase plays twice as often.
    - When the next phase should cost more than the best pair may gain in the rounds left, or one
      pair is left, the leading pair is played to the end; not before sqrt(K·T) rounds, though.

    **Proven**, at lam = 1 and for rewards in [0, 1]: with probability at least 1 - delta no phase
    eliminates the best pair. For each of the K² transitions all means over n <= T rewards satisfy
    n·kl(mean, b_i·r_j) <= L but for probability 2·e·ceil(L·ln T)·exp(-L) (Garivier, Cappé 2011),
    and L makes that delta/K². The radii, the lesser of Hoeffding's and Chernoff's, follow from it.

    **Not proven, only measured**: the regret. Draws, not bounds, decide when exploring ends, and
    which of the pairs left a phase plays; up to T = 10^6 that is long before one pair is left.

    Without room for the first sweeps within half of the horizon, or if no arm pays, all arms
    are played in turn. There may be at most 1,000 arms: tables have K² entries.

    Parameters
    ----------
    delta : float
        The chance, at most, that the best pair is eliminated, above 0 and below 1.
    draws : int
        Draws of b and r that decide what is explored.
    """

    delta: float = field(default=0.05, validator=[validate_number, gt(0), lt(1)])
    draws: int = field(default=100, validator=[validate_integer, ge(1)])


class Transitions:
    """Counts and sums of rewards, shape (K, K): by the arm before, and the arm played."""

    def __init__(self, n_arms: int) -> None:
        self.counts = np.zeros((n_arms, n_arms))
        self.sums = np.zeros((n_arms, n_arms))
        self._last = -1

    def phase(self, cycles: IntArray, times: int) -> Phase:
        """Return the phase that plays each row of ``cycles`` some times, and count its pulls.

        The slot of a pull is its transition; only the first pull of all has no arm before it.
        """
        n_arms, length = self.counts.shape[0], cycles.shape[1]
        before = np.stack([np.roll(cycles, 1, axis=1)] * 2, axis=1)
        before[:, 0, 0] = [self._last, *cycles[:-1, -1]]  # a cycle's first time comes after another
        self._last = int(cycles[-1, -1])
        arms = np.broadcast_to(cycles[:, None, :], before.shape)
        slots = np.where(before >= 0, before * n_arms + arms, NOT_SAMPLED)
        pulls = np.broadcast_to(np.array([1, times - 1])[:, None], before.shape)
        np.add.at(self.counts.reshape(-1), slots[before >= 0], pulls[before >= 0])
        steps = np.stack([arms, arms, np.ones_like(arms), slots, slots], axis=-1).reshape(-1, 5)
        starts = np.arange(0, slots.size, length)
        loops = np.column_stack([starts, starts + length, pulls[..., 0].reshape(-1)])
        return Phase.from_tables(steps, loops, n_arms**2)

    def add(self, sums: FloatArray) -> None:
        """Add the sums of the phase that was played."""
        self.sums += sums.reshape(self.sums.shape)


@frozen(eq=False)
class Factors:
    """Estimates of b or r, and how sure they are."""

    values: FloatArray
    paid: FloatArray
    """Sums of rewards after each arm, or of it."""
    exposures: FloatArray
    """What the rewards' means add up to for a factor of 1."""
    spread: FloatArray
    """Variance of a reward over its mean: 1 for rare ones, near 0 for sure ones."""

    @classmethod
    def of(
        cls, values: FloatArray, sums: FloatArray, counts: FloatArray, exposures: FloatArray
    ) -> "Factors":
        """Return the factors of rows, by sums and counts of transitions; columns as rows."""
        paid, pulls = np.maximum(sums.sum(axis=1), 0.0), np.maximum(counts.sum(axis=1), 1.0)
        return cls(values, paid, exposures, 1 - np.minimum(paid / pulls, 1.0) + 1 / pulls)

    def surely_largest(self) -> int:
        """Return the arm with the largest factor less one standard error."""
        return int(np.argmax(self.values * (1 - np.sqrt(self.spread / (self.paid + 1)))))

    def draw(self, draws: int, rng: Generator) -> FloatArray:
        """Return draws around the estimates, shape (draws, K)."""
        shapes = (self.paid + _PRIOR_PAID) / self.spread
        # Factors are at most 1, which is all that is known of one that nothing was seen of.
        scales = self.spread / np.maximum(self.exposures, 1.0)
        return rng.gamma(shapes, scales, (draws, shapes.size))


def fit(transitions: Transitions) -> tuple[Factors, Factors]:
    """Return estimates of b, the largest of them 1, and of r, on that scale."""
    sums, counts = transitions.sums, transitions.counts
    b, r, of_b, of_r = fit_factors(sums, counts)
    return Factors.of(b, sums, counts, of_b), Factors.of(r, sums.T, counts.T, of_r)


@compiled
def _fit_side(
    paid: FloatArray, counts: FloatArray, others: FloatArray, own: FloatArray, of_own: FloatArray
) -> float:
    """Fit the factors of rows to what they paid, given those of columns; return the change."""
    change = 0.0
    for i in range(own.size):
        exposure = 0.0
        for j in range(own.size):
            exposure += counts[i, j] * others[j]
        now = max(paid[i], 0.0) / exposure if exposure > 0 else 0.0
        change = max(change, abs(now - own[i]))
        own[i], of_own[i] = now, exposure
    return change


@compiled
def fit_factors(
    sums: FloatArray, counts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return b and r for which rows and columns add up to the sums observed; their exposures.

    That is where the likelihood of Poisson sums is largest. b and r are fitted by turns.
    """
    n = sums.shape[0]
    rows, columns = np.zeros(n), np.zeros(n)
    for i in range(n):
        for j in range(n):
            rows[i] += sums[i, j]
            columns[j] += sums[i, j]
    transposed = counts.T.copy()
    b, r = np.ones(n), np.zeros(n)
    of_b, of_r = np.zeros(n), np.zeros(n)
    for _ in range(1000):
        _fit_side(columns, transposed, b, r, of_r)
        change = _fit_side(rows, counts, r, b, of_b)
        highest = b.max()
        if highest == 0.0:
            break
        b /= highest
        of_r /= highest
        r *= highest
        of_b *= highest
        if change <= 1e-9 * highest:
            break
    return b, r, of_b, of_r


def log_term(n_arms: int, horizon: int, delta: float) -> float:
    """Return the least L with 2·K²·e·ceil(L·ln T)·exp(-L) at most delta."""
    found, level = 0.0, 1.0
    while level > found:
        slices = math.ceil(level * math.log(max(horizon, 2)))
        found, level = level, 1 + math.log(2 * n_arms**2 * slices / delta)
    return found


def transition_bounds(transitions: Transitions, level: float) -> tuple[FloatArray, FloatArray]:
    """Return bounds of every b_i·r_j, shape (K, K), from its own rewards only."""
    seen = transitions.counts > 0
    counts = np.where(seen, transitions.counts, 1.0)
    means = np.clip(transitions.sums / counts, 0.0, 1.0)
    share = level / counts
    hoeffding = np.sqrt(share / 2)
    below = np.minimum(hoeffding, np.sqrt(2 * share * means))
    above = np.minimum(hoeffding, share + np.sqrt(share**2 + 2 * share * means))
    lower = np.where(seen, np.maximum(means - below, 0.0), 0.0)
    return lower, np.where(seen, np.minimum(means + above, 1.0), 1.0)


def pair_bounds(
    transitions: Transitions, level: float, giver: int, payer: int
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of every pair's (b_i·r_j + b_j·r_i)/2, shape (K, K)."""
    lower, upper = transition_bounds(transitions, level)
    by_factors = np.outer(lower[:, payer], lower[giver]) / upper[giver, payer]
    if lower[giver, payer] > 0:
        most = np.outer(upper[:, payer], upper[giver]) / lower[giver, payer]
        upper = np.minimum(upper, most)
    lower = np.maximum(lower, by_factors)
    return (lower + lower.T) / 2, (upper + upper.T) / 2


@compiled
def plausible_pairs(
    b: FloatArray, r: FloatArray, active: IntArray, leading: IntArray
) -> tuple[IntArray, float]:
    """Return the arms of each draw's best active pair, and how far it beats the leading one.

    ``b`` and ``r`` have shape (draws, K), ``active``, of which only i <= j is read, (K, K). The
    gain is a mean over draws.
    """
    draws, n = b.shape
    found = np.zeros(n, dtype=np.int64)
    found[leading] = 1
    gain = 0.0
    for k in range(draws):
        best, first, second = -1.0, 0, 0
        for i in range(n):
            for j in range(i, n):
                if active[i, j]:
                    value = b[k, i] * r[k, j] + b[k, j] * r[k, i]
                    if value > best:
                        best, first, second = value, i, j
        found[first], found[second] = 1, 1
        i, j = leading
        gain += (best - b[k, i] * r[k, j] - b[k, j] * r[k, i]) / (2 * draws)
    return np.flatnonzero(found), gain


def cheapest_cycles(
    b: FloatArray,
    r: FloatArray,
    arms: IntArray,
    pairs: IntArray,
    hubs: tuple[int, int],
    best: float,
) -> tuple[IntArray, float]:
    """Return cycles to explore with, and what playing each once should lose against the best pair.

    Either giver, j, payer for each arm j, or the pairs themselves, shape (n, 2).
    """
    giver, payer = hubs
    by_hubs = np.column_stack([np.full_like(arms, giver), arms, np.full_like(arms, payer)])
    if giver == payer:
        by_hubs = by_hubs[:, :2]
    of_hubs, of_pairs = (
        best * cycles.size - float((b[np.roll(cycles, 1, axis=1)] * r[cycles]).sum())
        for cycles in (by_hubs, pairs)
    )
    return (by_hubs, of_hubs) if of_hubs < of_pairs else (pairs, of_pairs)


def _script(
    problem: Problem, config: RankOneConfig, rng: Generator, diagnostics: DiagnosticsDict
) -> PhaseGenerator:
    n_arms, horizon = problem.n_arms, problem.horizon
    if n_arms == 1 or 2 * _FIRST_TIMES * n_arms > horizon:
        diagnostics["plan"] = "all arms in turn: no room to explore"
        return round_robin(n_arms, horizon)
    transitions, left, times = Transitions(n_arms), horizon, _FIRST_TIMES
    while transitions.sums.sum() <= 0 and 2 * times * n_arms <= left:
        sweeps = rng.permuted(np.tile(np.arange(n_arms), (times, 1)), axis=1)
        transitions.add((yield transitions.phase(sweeps, 1)))
        left, times = left - sweeps.size, 2 * times
    if transitions.sums.sum() <= 0:
        diagnostics["plan"] = "all arms in turn: none has paid"
        return round_robin(n_arms, left)
    active = np.triu(np.ones((n_arms, n_arms), dtype=np.int64))
    level, times = log_term(n_arms, horizon, config.delta), _FIRST_TIMES
    phase_ends: list[tuple[int, int, int]] = []
    while True:
        of_b, of_r = fit(transitions)
        b, r = of_b.values, of_r.values
        hubs = of_b.surely_largest(), of_r.surely_largest()
        lower, upper = pair_bounds(transitions, level, *hubs)
        active[upper < np.max(lower, where=active > 0, initial=0.0)] = 0
        values = np.where(active, np.outer(b, r) + np.outer(r, b), -1.0) / 2
        leading = np.array(np.unravel_index(int(np.argmax(values)), values.shape))
        best = float(values.max())
        arms, gain = plausible_pairs(
            of_b.draw(config.draws, rng), of_r.draw(config.draws, rng), active, leading
        )
        phase_ends.append((horizon - left, int(active.sum()), arms.size))
        names = ("phase_ends", "pairs_after", "arms_explored")
        diagnostics.update(zip(names, np.array(phase_ends).T, strict=True), b_hat=b, r_hat=r)
        diagnostics.update(giver=hubs[0], payer=hubs[1], may_gain=gain)
        pairs = arms[np.argwhere(active[np.ix_(arms, arms)])]
        cycles, cost = cheapest_cycles(b, r, arms, pairs, hubs, best)
        # With little seen, draws are not to be trusted either.
        enough = (horizon - left) ** 2 >= n_arms * horizon
        paid_back = left * gain > times * cost
        if active.sum() == 1 or (enough and not paid_back) or 2 * times * cycles.size > left:
            break
        transitions.add((yield transitions.phase(cycles, times)))
        left, times = left - times * cycles.size, 2 * times
    diagnostics.update(committed=leading, committed_at=horizon - left)
    first, second = np.nonzero(active)
    if first.size <= _MAX_PAIRS_SHOWN:
        diagnostics.update(active_first=first, active_second=second)
    return FollowSchedule(Schedule.cycle(leading, left))


def build(config: RankOneConfig, context: bdes.PolicyContext) -> PhasedPolicy:
    """Build the policy; raise for more arms than tables have room for."""
    problem = context.problem
    if problem.n_arms > MOST_ARMS:
        raise bdes.InvalidValueError(
            f"rank-one plays at most {MOST_ARMS:,} arms, and there are {problem.n_arms:,}; "
            "for more, use etc-unknown-arm"
        )
    diagnostics: DiagnosticsDict = {}
    return PhasedPolicy(_script(problem, config, context.rng, diagnostics), diagnostics)
