"""Which moves can be the best, by the state and the slope of V: what a backward step may try.

A step plays one move, ``repeats`` times in a row. At state q, and for a line of slope m, one
repeat is worth ``pay*q + bonus + m*shift``, so the best move is that of an upper hull; near one
state and slope only few can be. They are listed tile by tile, when a tile is first asked for.
"""

import math
from typing import NamedTuple

import numpy as np

from bdes_framework import FloatArray, IntArray, compiled

_TILES = 128
"""Tiles per axis at most: with 64, a list of 200 arms on an arc has about 10."""
_MOST_LISTED = 2**22
"""Room for this many listed moves."""


class Moves(NamedTuple):
    """What can be done in one step: pull an arm, or some arms in a row.

    Move i pays ``pay[i]*q + bonus[i]`` and takes the state to ``keep*q + shift[i]``.
    """

    pay: FloatArray
    bonus: FloatArray
    shift: FloatArray
    keep: float


class Domain(NamedTuple):
    """The states q in [low, high] and slopes of V in [0, steepest] that moves are compared at."""

    low: float
    high: float
    steepest: float


class Menu(NamedTuple):
    """Moves, each ``repeats`` times a base move, and tile by tile the base moves that matter."""

    moves: Moves
    base: Moves
    order: IntArray
    """The moves by rising pay."""
    repeats: int
    keep: float
    """What is left of a state after all repeats but one; ``total`` is the sum of the powers."""
    total: float
    bend: float
    """How far a path of prices is from a straight one, as a share of its length."""
    low: float
    high: float
    steepest: float
    n_states: int
    """How many tiles there are along the states, and along the slopes."""
    n_slopes: int
    first: IntArray
    """Per tile, where its list begins; -1 if nothing is listed yet."""
    size: IntArray
    least: FloatArray
    """Per tile, the least and the most shift that a path worth following uses."""
    most: FloatArray
    curve: FloatArray
    """Per tile, how much steeper prices of states get: see ``loss_of_repeating``."""
    listed: IntArray
    used: IntArray


def repeated(base: Moves, repeats: int) -> Moves:
    """Return the moves that play each base move ``repeats`` times."""
    pay, bonus, shift, keep = base
    n = pay.size
    out = Moves(np.zeros(n), np.zeros(n), np.zeros(n), 1.0)
    while repeats:
        if repeats & 1:
            out = _joined(out, Moves(pay, bonus, shift, keep))
        pay, bonus, shift, keep = _joined(
            Moves(pay, bonus, shift, keep), Moves(pay, bonus, shift, keep)
        )
        repeats >>= 1
    return out


def _joined(first: Moves, second: Moves) -> Moves:
    return Moves(
        pay=first.pay + first.keep * second.pay,
        bonus=first.bonus + second.bonus + second.pay * first.shift,
        shift=second.keep * first.shift + second.shift,
        keep=first.keep * second.keep,
    )


def menu_for(base: Moves, repeats: int, domain: Domain) -> Menu:
    """Return an empty menu of the moves that play a base move ``repeats`` times."""
    moves = base if repeats == 1 else repeated(base, repeats)
    wide = domain.high - domain.low
    # How far a step may move the state: tiles that are much smaller would only be many.
    reach = (1.0 - moves.keep) * wide
    n_states = _TILES if 4 * _TILES * reach < wide else max(1, int(wide / (4 * reach or 1.0)))
    n_slopes = max(1, min(_TILES, _MOST_LISTED // (n_states * base.pay.size)))
    tiles = n_states * n_slopes
    one = np.ones(1)
    before = repeated(Moves(one, one, one, base.keep), repeats - 1)
    return Menu(
        moves=moves,
        base=base,
        order=np.argsort(base.pay, kind="stable"),
        repeats=repeats,
        keep=float(before.keep),
        total=float(before.shift[0]),
        bend=(1.0 - math.sqrt(before.keep)) / (1.0 + math.sqrt(before.keep)) + 1e-12,
        low=domain.low,
        high=domain.high,
        steepest=domain.steepest,
        n_states=n_states,
        n_slopes=n_slopes,
        first=np.full(tiles, -1),
        size=np.zeros(tiles, dtype=np.int64),
        least=np.zeros(tiles),
        most=np.zeros(tiles),
        curve=np.zeros(tiles),
        listed=np.empty(tiles * base.pay.size, dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
    )


class _Tile(NamedTuple):
    """States and slopes of V that paths from a tile can meet before the last repeat."""

    low: float
    high: float
    flattest: float
    steepest: float


@compiled
def _best(base: Moves, q: float, slope: float) -> int:
    best, highest = 0, -np.inf
    for move in range(base.pay.size):
        total = base.pay[move] * q + base.bonus[move] + base.shift[move] * slope
        if total > highest:
            best, highest = move, total
    return best


@compiled
def _least_lead(base: Moves, move: int, rival: int, tile: _Tile) -> float:
    """Return by how much ``move`` is better than ``rival`` at least, anywhere in a tile."""
    pay, shift = base.pay[move] - base.pay[rival], base.shift[move] - base.shift[rival]
    return float(
        min(pay * tile.low, pay * tile.high)
        + (base.bonus[move] - base.bonus[rival])
        + min(shift * tile.flattest, shift * tile.steepest)
    )


@compiled
def _widened(menu: Menu, at: int) -> _Tile:
    """Return a tile with all that the repeats of any moves can make of it, and a hair more."""
    wide, tall = menu.high - menu.low, menu.steepest
    low = menu.low + wide * ((at % menu.n_states) / menu.n_states)
    high = menu.low + wide * ((at % menu.n_states + 1) / menu.n_states)
    flattest = tall * ((at // menu.n_states) / menu.n_slopes)
    steepest = tall * ((at // menu.n_states + 1) / menu.n_slopes)
    keep, total, shift, pay = menu.keep, menu.total, menu.base.shift, menu.base.pay
    return _Tile(
        min(low, keep * low + total * shift.min()) - 1e-9 * menu.high,
        max(high, keep * high + total * shift.max()) + 1e-9 * menu.high,
        min(flattest, keep * flattest + total * pay.min()) - 1e-9 * tall,
        max(steepest, keep * steepest + total * pay.max()) + 1e-9 * tall,
    )


@compiled
def _leads(base: Moves, tile: _Tile) -> FloatArray:
    """Return by how much, at least, the best move of a tile is better than each; 0 if it may be it.

    The best is one of those at the corners and in the middle. Rounding is in favour of 0.
    """
    winners = np.zeros(5, dtype=np.int64)
    winners[0] = _best(base, 0.5 * (tile.low + tile.high), 0.5 * (tile.flattest + tile.steepest))
    for corner in range(4):
        q = tile.low if corner % 2 == 0 else tile.high
        winners[corner + 1] = _best(base, q, tile.flattest if corner < 2 else tile.steepest)
    top = winners[4]
    scale = base.pay[top] * tile.high + base.bonus[top] + base.shift[top] * tile.steepest
    leads = np.zeros(base.pay.size)
    for move in range(base.pay.size):
        for k in range(winners.size):
            lead = _least_lead(base, int(winners[k]), move, tile) - 2e-12 * scale
            leads[move] = max(leads[move], lead)
    return leads


@compiled
def fill_tile(menu: Menu, at: int) -> None:
    """List the base moves that a best path from a tile may make, by rising pay.

    Those that may be the best somewhere in the tile are; let some more be near. Where a path makes
    another move, the best one there is better by ``lead``; with it the state is off by at most
    ``off`` at the moves that follow, which, if all are near, pay at most ``highest - lowest``
    times that more each. If this is less, the path is not the best.
    """
    base = menu.base
    leads = _leads(base, _widened(menu, at))
    near = leads == 0.0
    lowest, highest = base.pay[near].min(), base.pay[near].max()
    least, most = base.shift[near].min(), base.shift[near].max()
    growing = menu.repeats > 1
    while growing:
        growing = False
        for move in range(base.pay.size):
            off = max(base.shift[move] - least, most - base.shift[move])
            if not near[move] and leads[move] <= (menu.repeats - 1) * (highest - lowest) * off:
                near[move], growing = True, True
                lowest, highest = min(lowest, base.pay[move]), max(highest, base.pay[move])
                least, most = min(least, base.shift[move]), max(most, base.shift[move])
    menu.first[at] = menu.used[0]
    for move in menu.order:
        if near[move]:
            menu.listed[menu.used[0]] = move
            menu.used[0] += 1
    menu.size[at] = menu.used[0] - menu.first[at]
    menu.least[at], menu.most[at] = least, most
    if least < most:
        menu.curve[at] = (highest - lowest) / (most - least) / max(base.keep, 0.5)


@compiled
def best_listed(moves: Moves, listed: IntArray, q: float, slope: float) -> int:
    """Return which of some moves is the best at a state, for a line of this slope."""
    best, highest = -1, -np.inf
    for move in listed:
        total = moves.pay[move] * q + moves.bonus[move] + moves.shift[move] * slope
        if total > highest:
            best, highest = move, total
    return best


@compiled
def _most_gained(
    base: Moves,
    listed: IntArray,
    move: int,
    q: float,
    slope: float,
    off: tuple[float, float],
    curve: float,
) -> float:
    """Return the most that a listed move gains on ``move``, from a state ``off`` q: see below."""
    best = 0.0
    for other in listed:
        pay, shift = base.pay[other] - base.pay[move], base.shift[other] - base.shift[move]
        steeper = pay + curve * base.keep * shift
        gained = pay * q + (base.bonus[other] - base.bonus[move]) + shift * slope
        gained += max(steeper * off[0], steeper * off[1]) + 0.5 * curve * shift * shift
        best = max(best, gained)
    return float(best)


@compiled
def loss_of_repeating(
    menu: Menu, at: int, listed: IntArray, move: int, slope: float, left: float, right: float
) -> float:
    """Bound what ``move`` over and over loses against any moves, between two states.

    Before each repeat, price a state that is x off the state that ``move`` leads to: at the
    slope the line has by then (m, keep*m + pay, and so on) times x, plus curve/2 times x*x.
    In the end this is no less than what the line says. So any moves earn at most what ``move``
    does, plus what each gains on it in pay and price. That is convex in state, slope and x, and
    these go nearly straight, but for ``bend``, from what they are at the first repeat to what they
    are at the last: so it is largest there.
    """
    base, curve, total = menu.base, menu.curve[at], menu.total
    shift = base.shift[move]
    earlier = menu.keep * slope + total * base.pay[move]
    least, most = menu.least[at] - shift, menu.most[at] - shift
    off = total * least, total * most
    begin, end = 0.0, 0.0
    for q in (left, right):
        later = menu.keep * q + total * shift
        begin = max(begin, _most_gained(base, listed, move, q, earlier, (0.0, 0.0), curve))
        end = max(end, _most_gained(base, listed, move, later, slope, off, curve))
    bent = menu.bend * abs(earlier - slope) * max(most, -least)
    return float(0.5 * menu.repeats * (begin + end * (menu.repeats - 1) / total + 2.0 * bent))
