"""Which visits could as well have been shown each other's arms, by their propensities.

A log has the chance of the arm that was shown, not those of the others. But chances of all arms
add up to 1: so of the pairs (arm, chance) that occur, those that belong together can be found. A
*distribution* is a choice of one pair per arm whose chances have the sum 1; every one that the
pairs of the log allow is considered, true or not.

Two pairs are put into one class if they occur in the same distributions. Given the class of a
visit, its arm is then drawn in proportion to the chances of the class, whichever of the
distributions was the true one: so the arms of visits of one class are exchangeable, even between
users. Distributions that never were only make classes smaller. Where chances are the same
throughout, all visits are one class.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bdes_framework._internal.arrays import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

NOT_EXCHANGED = -1
ALIKE = 1e-6
"""Propensities that differ by no more are taken to be alike."""
_SUM_ERROR = 2e-3
"""By how much chances of all arms may miss 1, as they may have been rounded."""
_MAX_PAIRS = 200
_MAX_LEVELS = 20
_MAX_TRIED = 200_000
"""Partial sums that are looked at; where there are more, chances are not sorted out."""


class ExchangeBlocks(NamedTuple):
    """Blocks of rows within which any order of the arms was as likely as the log's."""

    blocks: IntArray
    """A number per row."""
    plain: IntArray
    """A number per user and stratum: the blocks if no propensities were known."""
    levels: IntArray
    """The class of each row, as far as there are few."""
    between_users: bool
    """Whether blocks span users."""

    def share(self, arms: IntArray) -> float:
        """Return the share of rows that can be exchanged, of those that plainly could be."""
        plainly = _can_change(arms, self.plain)
        kept = _can_change(arms, self.blocks)[plainly]
        return float(kept.mean()) if kept.size else 1.0


def blocks_of_users(users: IntArray, strata: IntArray) -> ExchangeBlocks:
    """Return blocks of one user and stratum each."""
    blocks = users * (int(strata.max()) + 1) + strata
    return ExchangeBlocks(blocks, blocks, np.zeros_like(blocks), between_users=False)


def in_blocks(blocks: IntArray) -> tuple[IntArray, IntArray]:
    """Return rows by block, and where each block begins, with the end."""
    order = np.argsort(blocks, kind="stable")
    return order, np.append(np.flatnonzero(np.diff(blocks[order], prepend=-1)), order.size)


def _can_change(arms: IntArray, blocks: IntArray) -> BoolArray:
    """Return which rows are in a block that has more than one arm."""
    order, begins = in_blocks(blocks)
    shown = arms[order]
    several = np.maximum.reduceat(shown, begins[:-1]) > np.minimum.reduceat(shown, begins[:-1])
    found = np.empty(arms.size, np.bool_)
    found[order] = np.repeat(several, np.diff(begins))
    return found


def exchange_blocks(
    arms: IntArray, propensities: FloatArray, users: IntArray, strata: IntArray
) -> ExchangeBlocks:
    """Return blocks by what the propensities say; those of the same user and stratum if nothing.

    Arms that come in runs are permuted within users all the same, each like the first of its run.
    A row of no class is a block of its own, unless no chance ever changed in the rows without one
    of its user and stratum.
    """
    chosen = _chosen_at(arms, propensities, users)
    heads, where = np.unique(chosen, return_inverse=True)
    classes = _exchange_classes(arms[heads], propensities[heads])[where]
    within = blocks_of_users(users, strata).blocks
    alone = classes == NOT_EXCHANGED
    between_users = bool(heads.size == arms.size and not alone.all())
    places = strata if between_users else within
    blocks = places * (int(classes.max()) + 2) + classes + 1
    first = int(blocks.max()) + 1
    blocks = np.where(alone, first + within, blocks)
    first = int(blocks.max()) + 1
    changing = alone & _chances_change(arms, propensities, np.where(alone, within, -1))
    blocks = np.where(changing, first + np.arange(arms.size), blocks)
    return ExchangeBlocks(blocks, within, _most_frequent(classes), between_users)


def _most_frequent(classes: IntArray) -> IntArray:
    """Number the most frequent classes from 1, and call all others 0."""
    values, numbers, counts = np.unique(classes, return_inverse=True, return_counts=True)
    levels = np.zeros(values.size, np.int64)
    often = np.argsort(-counts, kind="stable")[:_MAX_LEVELS]
    levels[often] = 1 + np.arange(often.size)
    return levels[numbers]


def _chosen_at(arms: IntArray, propensities: FloatArray, users: IntArray) -> IntArray:
    """Return, for each row, that at which its arm was chosen: the first of its run if in a run.

    Runs are rows that show the last arm again for certain, where nothing else is certain.
    """
    again = (arms == np.roll(arms, 1)) & (users == np.roll(users, 1)) & (propensities == 1)
    again[0] = False
    rows = np.arange(arms.size)
    if (propensities[~again] == 1).any():
        return rows
    chosen: IntArray = np.maximum.accumulate(np.where(again, 0, rows))
    return chosen


def _chances_change(arms: IntArray, propensities: FloatArray, groups: IntArray) -> BoolArray:
    """Return for each row whether some arm of its group was shown with several chances."""
    order = np.lexsort((propensities, arms, groups))
    same = np.diff(groups[order], prepend=-2) == 0
    same &= np.diff(arms[order], prepend=-1) == 0
    apart = same & (np.diff(propensities[order], prepend=0.0) > ALIKE)
    return np.isin(groups, groups[order][apart])


def _exchange_classes(arms: IntArray, propensities: FloatArray) -> IntArray:
    """Return a class per row, or -1 where no other can be found that it is exchangeable with."""
    pairs, pair_arms, chances = _numbered_pairs(arms, propensities)
    n_arms = int(np.unique(pair_arms).size)
    if chances.size == n_arms:  # no chance ever changed, and they need not add up
        return np.zeros(arms.size, np.int64)
    if chances.size > _MAX_PAIRS:
        return np.full(arms.size, NOT_EXCHANGED, np.int64)
    by_arm = [np.flatnonzero(pair_arms == arm).tolist() for arm in np.unique(pair_arms)]
    signatures = _signatures(by_arm, chances.tolist())
    numbers: dict[tuple[int, ...], int] = {}
    classes = np.full(chances.size, NOT_EXCHANGED, np.int64)
    for pair, signature in signatures.items():
        classes[pair] = numbers.setdefault(signature, len(numbers))
    return classes[pairs]


def _numbered_pairs(
    arms: IntArray, propensities: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each row's pair of arm and chance, and the arm and the chance of every pair."""
    order = np.lexsort((propensities, arms))
    shown, chances = arms[order], propensities[order]
    new = (np.diff(shown, prepend=-1) != 0) | (np.diff(chances, prepend=-1.0) > ALIKE)
    numbers = np.empty(arms.size, np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers, shown[new], chances[new]


def _signatures(by_arm: list[list[int]], chances: list[float]) -> dict[int, tuple[int, ...]]:
    """Return of which distributions each pair is a part; pairs that are in none are left out.

    Distributions over all arms come first; those over fewer explain what these leave over.
    """
    found: dict[int, list[int]] = defaultdict(list)
    left, n_found, n_tried = {pair for pairs in by_arm for pair in pairs}, 0, [0]
    for size in range(len(by_arm), 0, -1):
        if not left:
            break
        uncovered = frozenset(left)
        for chosen in _distributions(by_arm, chances, size, n_tried):
            if size < len(by_arm) and uncovered.isdisjoint(chosen):
                continue
            for pair in chosen:
                found[pair].append(n_found)
            left -= set(chosen)
            n_found += 1
        if n_tried[0] > _MAX_TRIED:
            return {}
    return {pair: tuple(signature) for pair, signature in found.items()}


def _distributions(
    by_arm: list[list[int]], chances: list[float], size: int, n_tried: list[int]
) -> Iterator[tuple[int, ...]]:
    """Yield all choices of one pair each of so many arms whose chances add up to 1."""
    waiting: list[tuple[int, tuple[int, ...], float]] = [(0, (), 0.0)]
    while waiting and n_tried[0] <= _MAX_TRIED:
        n_tried[0] += 1
        place, chosen, total = waiting.pop()
        if len(chosen) == size:
            if abs(total - 1.0) <= _SUM_ERROR:
                yield chosen
            continue
        if len(by_arm) - place > size - len(chosen):
            waiting.append((place + 1, chosen, total))
        waiting += [
            (place + 1, (*chosen, pair), total + chances[pair])
            for pair in (by_arm[place] if place < len(by_arm) else ())
            if total + chances[pair] <= 1.0 + _SUM_ERROR
        ]
