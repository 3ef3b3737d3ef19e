"""Blocks of several pulls as one move, which make very slow states affordable.

When lam is tiny nothing much happens in one round. The moves of w rounds are all sequences
of w arms; nearly all of them are as good as a mixture of a few others, up to a loss that is
counted. They are found by doubling: moves of 2w rounds are pairs of moves of w rounds.
"""

import math
from typing import NamedTuple

import numpy as np
from attrs import evolve, frozen

from bdes_framework import IntArray, Segment, compiled
from bdes_planners.envelope import Moves
from bdes_planners.reduced_problem import UNIT_ROUNDOFF, Reduced

_SHARES = (1e-3, 2.5e-4, 6e-5)
"""By how much of its distance to an arm's end state a block may move the state."""
_MAX_ROUNDS = 2**14
_MAX_MOVES = 48
_MIN_BLOCKS = 2048
_FLAT = 2**22
"""Up to this many pulls are written out as one array."""


class _Domain(NamedTuple):
    """The states q in [low, high] and slopes of V in [0, steepest] that moves are compared at."""

    low: float
    high: float
    steepest: float


@frozen(eq=False)
class Step:
    """What can be done in one step of backward induction: some moves of ``rounds`` pulls each."""

    moves: Moves
    rounds: int
    loss: float
    """At most, of a step limited to these moves, against all sequences of arms."""
    runs: tuple[tuple[tuple[int, int], ...], ...]
    """Per move, its arms in order: (arm, how often in a row) pairs."""

    def segments(self, made: IntArray) -> list[Segment]:
        """Return the pulls of some moves in order, as few segments as is easy."""
        if made.size == 0:
            return []
        if made.size * self.rounds <= _FLAT:
            table = np.array([np.repeat(*np.transpose(runs)) for runs in self.runs])
            return [Segment(table[made].reshape(-1))]
        merged: list[tuple[int, int]] = []
        for move in made.tolist():
            for arm, count in self.runs[move]:
                if merged and merged[-1][0] == arm:
                    count += merged.pop()[1]
                merged.append((arm, count))
        return [Segment([arm], count) for arm, count in merged]


def single_step(problem: Reduced, horizon: int) -> Step:
    """Return the step of one pull."""
    moves = Moves(problem.r, np.zeros(problem.n_arms), problem.lam * problem.b, 1.0 - problem.lam)
    # An arm dropped from at most slack above the hull pays at most lam·slack·slope more, and
    # no slope exceeds r/lam or r·horizon.
    loss = problem.slack * float(problem.r.max()) * min(1.0, problem.lam * horizon)
    runs = tuple(((arm, 1),) for arm in range(problem.n_arms))
    return Step(moves, 1, loss, runs)


def block_step(
    problem: Reduced, horizon: int, tolerance: float, states: tuple[float, float]
) -> Step:
    """Return a step of as many pulls as can be grouped at a loss of ``tolerance`` per round.

    The loss holds where all states met lie in the interval ``states``. Where blocks need too
    many moves, shorter ones are tried.
    """
    single = best = single_step(problem, horizon)
    steepest = float(problem.r.max()) * min(float(horizon), 1.0 / problem.lam)
    for share in _SHARES:
        longest = min(_MAX_ROUNDS, share / problem.lam, horizon // _MIN_BLOCKS)
        if longest <= 2 * best.rounds:
            break
        step = _grouped(single, tolerance, int(longest), _Domain(*states, steepest))
        # Many moves that are nearly as good make many lines: long blocks must pay for them.
        if step.rounds >= max(len(step.runs) / 2, 2 * best.rounds):
            best = step
    return best


def _grouped(single: Step, tolerance: float, longest: int, domain: _Domain) -> Step:
    """Double the step's rounds up to ``longest``, or as long as its moves stay few."""
    step, levels = single, 0
    while 2 * step.rounds <= longest:
        # The natural error of a block grows with its length; so does what it may lose. The
        # losses per round add up to less than 3.5 times the last one.
        allowed = 0.25 * tolerance * math.sqrt(2 * step.rounds / longest)
        twice = _doubled(step, domain, allowed * 2 * step.rounds)
        if twice is None:
            break
        step, levels = twice, levels + 1
    return evolve(step, loss=step.loss + _rounding(step.moves, domain, levels))


def _rounding(moves: Moves, domain: _Domain, levels: int) -> float:
    """Bound what rounding in the numbers of a block's moves can hide, in one step.

    Each doubling rounds a few times more, except that ``keep``, a power of 1 - lam, may be
    off by as many units as the block has rounds.
    """
    paid = float(np.max(moves.pay) * domain.high + np.max(moves.bonus))
    moved = domain.steepest * (float(np.max(moves.shift)) + domain.high)
    return float(UNIT_ROUNDOFF * levels * (64 * (paid + moved) + 4 * 2**levels * moved))


def _doubled(step: Step, domain: _Domain, allowed: float) -> Step | None:
    """Return the step of twice the rounds, or None if it needs too many moves."""
    moves, n = step.moves, len(step.runs)
    first, second = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    pairs = Moves(
        pay=moves.pay[first] + moves.keep * moves.pay[second],
        bonus=moves.bonus[first] + moves.bonus[second] + moves.pay[second] * moves.shift[first],
        shift=moves.keep * moves.shift[first] + moves.shift[second],
        keep=moves.keep * moves.keep,
    )
    kept = np.zeros(_MAX_MOVES, dtype=np.int64)
    count = _prune(pairs, _most_used_first(pairs, domain), domain, allowed, kept)
    if count > _MAX_MOVES:
        return None
    kept = kept[:count]
    runs = tuple(_joined(step.runs[first[k]], step.runs[second[k]]) for k in kept.tolist())
    chosen = Moves(pairs.pay[kept], pairs.bonus[kept], pairs.shift[kept], pairs.keep)
    return Step(chosen, 2 * step.rounds, 2 * step.loss + allowed, runs)


def _joined(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    if first[-1][0] == second[0][0]:
        middle = (first[-1][0], first[-1][1] + second[0][1])
        return (*first[:-1], middle, *second[1:])
    return first + second


def _most_used_first(moves: Moves, domain: _Domain) -> IntArray:
    """Order moves by how often they are the best over a grid of states and slopes of V."""
    states, slopes = np.linspace(domain.low, domain.high, 24), np.linspace(0.0, domain.steepest, 48)
    q, slope = np.meshgrid(states, slopes)
    totals = np.outer(q, moves.pay) + moves.bonus + np.outer(slope, moves.shift)
    wins = np.bincount(np.argmax(totals, axis=1), minlength=moves.pay.size)
    return np.argsort(-wins, kind="stable")


@compiled
def _pair_error(moves: Moves, move: int, first: int, second: int, domain: _Domain) -> float:
    """Return how much better ``move`` can be than the best mixture of two others.

    For a given mixture that is a maximum over q and slopes of V of linear functions; over mixtures
    it is convex with kinks only where pay or shift match, so those and the ends are tried.
    """
    pay, bonus, shift = moves.pay, moves.bonus, moves.shift
    least = np.inf
    wide_pay, wide_shift = pay[second] - pay[first], shift[second] - shift[first]
    for which in range(4):
        share = 0.0
        if which == 1:
            share = 1.0
        elif which == 2 and wide_pay != 0.0:
            share = (pay[move] - pay[first]) / wide_pay
        elif which == 3 and wide_shift != 0.0:
            share = (shift[move] - shift[first]) / wide_shift
        if 0.0 <= share <= 1.0:
            more_pay = pay[move] - pay[first] - share * wide_pay
            more_bonus = bonus[move] - bonus[first] - share * (bonus[second] - bonus[first])
            more_shift = shift[move] - shift[first] - share * wide_shift
            error = max(more_pay * domain.low, more_pay * domain.high) + more_bonus
            least = min(least, error + max(more_shift * domain.steepest, 0.0))
    return least


@compiled
def _prune(moves: Moves, order: IntArray, domain: _Domain, allowed: float, kept: IntArray) -> int:
    """Keep every move that no mixture of two kept before covers; return how many there are.

    If ``move`` is at most ``allowed`` better than a mixture whatever q and the slope of V,
    then, V being convex, it is at most that much better than one of the two. Returns one
    more than there is room for when there are too many.
    """
    count = 0
    for move in order:
        covered = False
        for j in range(count):
            for k in range(j, count):
                if not covered:
                    covered = _pair_error(moves, move, kept[j], kept[k], domain) <= allowed
            if covered:
                break
        if not covered:
            if count == kept.size:
                return count + 1
            kept[count] = move
            count += 1
    return count
