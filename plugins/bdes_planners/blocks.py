"""Blocks of several pulls as one move, which make very slow states affordable.

When lam is tiny nothing much happens in one round. The moves of w rounds are all sequences
of w arms; nearly all of them are as good as a mixture of a few others, up to a loss that is
counted. They are found by doubling: moves of 2w rounds are pairs of moves of w rounds.
"""

import math
from collections.abc import Iterator

import numpy as np
from attrs import evolve, field, frozen

from bdes_framework import IntArray, Segment, compiled
from bdes_planners.menu import Domain, Menu, Moves, menu_for
from bdes_planners.reduced_problem import UNIT_ROUNDOFF, Reduced

_SHARES = (1e-3, 2.5e-4, 6e-5)
"""By how much of its distance to an arm's end state a block may move the state."""
_MAX_ROUNDS = 2**12
_MAX_MOVES = 48
_MIN_BLOCKS = 2048
MOST_FLAT = 2**22
"""Up to this many pulls are written out as one array."""


@frozen(eq=False)
class Step:
    """One step of backward induction: one of some moves, ``repeats`` times in a row."""

    base: Moves
    base_rounds: int
    base_loss: float
    """At most, of a step limited to the base moves, against all sequences of arms."""
    runs: tuple[tuple[tuple[int, int], ...], ...]
    """Per base move, its arms in order: (arm, how often in a row) pairs."""
    domain: Domain
    repeats: int = 1
    menu: Menu = field(init=False)

    @menu.default
    def _menu(self) -> Menu:
        return menu_for(self.base, self.repeats, self.domain)

    @property
    def moves(self) -> Moves:
        """What the step can do, repeats and all."""
        return self.menu.moves

    @property
    def rounds(self) -> int:
        """How many pulls a step is."""
        return self.base_rounds * self.repeats

    @property
    def loss(self) -> float:
        """What base moves and rounding may cost; what repeating costs is counted line by line."""
        loss = self.base_loss * self.repeats
        if self.repeats > 1:
            loss += _rounding(self.moves, self.domain, self.rounds)
        return loss

    def segments(self, made: IntArray) -> list[Segment]:
        """Return the pulls of some steps in order, as few segments as is easy."""
        if made.size == 0:
            return []
        if made.size * self.rounds <= MOST_FLAT:
            table = np.array([np.repeat(*np.transpose(runs)) for runs in self.runs])
            return [Segment(np.tile(table[made], self.repeats).reshape(-1))]
        out: list[tuple[tuple[int, ...], int]] = []
        for move, times in _runs_of(made):
            runs, count = self.runs[move], times * self.repeats
            pulls: list[tuple[tuple[int, ...], int]] = []
            if len(runs) == 1:
                pulls.append(((runs[0][0],), runs[0][1] * count))
            elif len(runs) * count <= self.base_rounds:
                pulls += [((arm,), pulled) for arm, pulled in runs] * count
            else:
                pulls.append((tuple(arm for arm, pulled in runs for _ in range(pulled)), count))
            for arms, repeats in pulls:
                if out and out[-1][0] == arms:
                    repeats += out.pop()[1]
                out.append((arms, repeats))
        return [Segment(arms, repeats) for arms, repeats in out]


def _runs_of(made: IntArray) -> Iterator[tuple[int, int]]:
    """Yield runs of equal moves: the move, and how often in a row."""
    ends = np.append(np.flatnonzero(made[1:] != made[:-1]) + 1, made.size)
    return zip(made[ends - 1].tolist(), np.diff(ends, prepend=0).tolist(), strict=True)


def single_step(problem: Reduced, horizon: int, states: tuple[float, float] | None = None) -> Step:
    """Return the step of one pull, for all states or those between two."""
    moves = Moves(problem.r, np.zeros(problem.n_arms), problem.lam * problem.b, 1.0 - problem.lam)
    # An arm dropped from at most slack above the hull pays at most lam·slack·slope more, and
    # no slope exceeds r/lam or r·horizon.
    steepest = float(problem.r.max()) * min(float(horizon), 1.0 / problem.lam)
    loss = problem.slack * float(problem.r.max()) * min(1.0, problem.lam * horizon)
    runs = tuple(((arm, 1),) for arm in range(problem.n_arms))
    domain = Domain(*(states or (problem.low, problem.high)), steepest)
    return Step(moves, 1, loss, runs, domain)


def block_step(
    problem: Reduced, horizon: int, tolerance: float, states: tuple[float, float]
) -> Step:
    """Return a step of as many pulls as can be grouped at a loss of ``tolerance`` per round.

    The loss holds where all states met lie in the interval ``states``. Where blocks need too
    many moves, shorter ones are tried.
    """
    single = best = single_step(problem, horizon, states)
    for share in _SHARES:
        longest = min(_MAX_ROUNDS, share / problem.lam, horizon // _MIN_BLOCKS)
        if longest <= 2 * best.rounds:
            break
        step = _grouped(single, tolerance, int(longest))
        if step.rounds >= 2 * best.rounds:
            best = step
    return best


def _grouped(single: Step, tolerance: float, longest: int) -> Step:
    """Double the step's rounds up to ``longest``, or as long as its moves stay few."""
    step = single
    while 2 * step.rounds <= longest:
        # The natural error of a block grows with its length; so does what it may lose. The
        # losses per round add up to less than 3.5 times the last one.
        allowed = 0.25 * tolerance * math.sqrt(2 * step.rounds / longest)
        twice = _doubled(step, allowed * 2 * step.rounds)
        if twice is None:
            break
        step = twice
    rounding = _rounding(step.base, step.domain, step.rounds) if step is not single else 0.0
    return evolve(step, base_loss=step.loss + rounding)


def _rounding(moves: Moves, domain: Domain, rounds: int) -> float:
    """Bound what rounding in the numbers of a block's moves can hide, in one step.

    Each doubling rounds a few times more, except that ``keep``, a power of 1 - lam, may be
    off by as many units as the block has rounds.
    """
    paid = float(np.max(moves.pay) * domain.high + np.max(moves.bonus))
    moved = domain.steepest * (float(np.max(moves.shift)) + domain.high)
    doublings = 2 * math.ceil(math.log2(rounds) + 1)
    return float(UNIT_ROUNDOFF * (64 * doublings * (paid + moved) + 4 * rounds * moved))


def _doubled(step: Step, allowed: float) -> Step | None:
    """Return the step of twice the rounds, or None if it needs too many moves."""
    moves, domain, n = step.base, step.domain, len(step.runs)
    if n > _MAX_MOVES:  # each of them twice is needed as well
        return None
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
    return Step(chosen, 2 * step.rounds, 2 * step.loss + allowed, runs, domain)


def _joined(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    if first[-1][0] == second[0][0]:
        middle = (first[-1][0], first[-1][1] + second[0][1])
        return (*first[:-1], middle, *second[1:])
    return first + second


def _most_used_first(moves: Moves, domain: Domain) -> IntArray:
    """Order moves by how often they are the best over a grid of states and slopes of V."""
    states, slopes = np.linspace(domain.low, domain.high, 24), np.linspace(0.0, domain.steepest, 48)
    q, slope = np.meshgrid(states, slopes)
    totals = np.outer(q, moves.pay) + moves.bonus + np.outer(slope, moves.shift)
    wins = np.bincount(np.argmax(totals, axis=1), minlength=moves.pay.size)
    return np.argsort(-wins, kind="stable")


@compiled
def _pair_error(moves: Moves, move: int, first: int, second: int, domain: Domain) -> float:
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
def _prune(moves: Moves, order: IntArray, domain: Domain, allowed: float, kept: IntArray) -> int:
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
