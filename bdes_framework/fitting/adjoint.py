"""Score and information of a log by adjoint sweeps: no row costs more than one pass over the arms.

The sweep of :mod:`likelihood` goes forwards, and adds up a product for every pair of arms in every
row. Backwards, what a row and all that follow it say of the state before it is one number each:

- the derivative of their log-likelihood goes from ``a`` to ``(1 - lam) * a + g``, where g is the
  row's own. On its way ``b[I]`` gets ``lam * a`` and ``lam`` gets ``(b[I] - q) * a``;
- their information goes from ``A`` to ``(1 - lam)**2 * A + v``, where v is the row's own.

Let d be the derivatives of the state by b, lam and q0, of which a pull moves two: to
``(1 - lam) * d + e``. The sum of v d d' over the rows of a sequence is that of
``A ((1 - lam) (d e' + e d') + e e')``, with A of the rows that follow, and A d d' at its start: two
columns a row, not a matrix.
"""

import math

import numpy as np

from bdes_framework._internal.arrays import FloatArray, IntArray, read_only
from bdes_framework.fitting.likelihood import (
    VANISHED,
    AnyIntArray,
    Likelihood,
    fresh_state,
    move_slopes,
    paying_probability,
    restart_slopes,
)
from bdes_framework.model.compiling import compiled

FASTER_FROM = 10
"""How many arms there must be for the adjoint sweep to be the faster one."""

_ROWS_AT_ONCE = 8
_STRETCH = 1 << 18
"""Rows of which states and more are kept at once, however long a sequence is."""


def likelihood_by_adjoint(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    state: FloatArray | None = None,
) -> Likelihood:
    """Return what :func:`likelihood.sweep_likelihood` does of a log's rows, up to rounding.

    Rewards are 0, 1 or, where one is not known, below 0.
    """
    size = 2 * r.size + 2
    score, half = np.zeros(size), np.zeros((size, size))
    memory = fresh_state(r.size, q0) if state is None else state
    # What may be written to is another type to numba, and compiled for anew.
    rows = read_only(arms), read_only(rewards), read_only(starts)
    r, b = read_only(r), read_only(b)
    value = _sweep_derivatives(*rows, r, b, float(lam), float(q0), memory, score, half)
    return Likelihood(value, score, half + half.T)


def score_by_adjoint(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
) -> tuple[float, FloatArray]:
    """Return log-likelihood and score of a log's rows, which begin at ``q0``."""
    score = np.zeros(2 * r.size + 2)
    rows = read_only(arms), read_only(rewards), read_only(starts)
    value = _sweep_score(*rows, read_only(r), read_only(b), float(lam), float(q0), score)
    return value, score


@compiled
def _first_start(starts: IntArray, row: int) -> int:
    """Return the first place among the starts that is at this row or after it."""
    low, high = 0, starts.size
    while low < high:
        middle = (low + high) // 2
        if starts[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _fill_states(
    arms: AnyIntArray,
    starts: IntArray,
    b: FloatArray,
    lam: float,
    q0: float,
    q: float,
    first: int,
    states: FloatArray,
) -> float:
    """Fill in the states before some rows, from the first one's on; return that after them."""
    following = _first_start(starts, first)
    for i in range(states.size):
        t = first + i
        if following < starts.size and starts[following] == t:
            following += 1
            q = q0
        states[i] = q
        q = q + lam * (b[arms[t]] - q)
    return q


@compiled
def _sweep_score(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    score: FloatArray,
) -> float:
    """Add the score of some rows, by ``r, b, lam, q0``; return their log-likelihood."""
    n, n_arms, kept = arms.size, r.size, 1.0 - lam
    n_stretches = (n + _STRETCH - 1) // _STRETCH
    firsts, states = np.empty(n_stretches), np.empty(min(n, _STRETCH))
    q = q0
    for stretch in range(n_stretches):
        firsts[stretch] = q
        if stretch < n_stretches - 1:  # the last one is filled in anyway
            q = _fill_states(arms, starts, b, lam, q0, q, stretch * _STRETCH, states)
    of_b, of_lam, of_q0 = np.zeros(n_arms), 0.0, 0.0
    total, product, a = 0.0, 1.0, 0.0
    start = starts.size - 1
    for stretch in range(n_stretches - 1, -1, -1):
        first = stretch * _STRETCH
        here = states[: min(n - first, _STRETCH)]
        _fill_states(arms, starts, b, lam, q0, firsts[stretch], first, here)
        for i in range(here.size - 1, -1, -1):
            t = first + i
            arm, y, q = arms[t], rewards[t], here[i]
            pull = 0.0
            if y >= 0:
                mu = paying_probability(r[arm], q)
                # Of what came, without a branch: nobody can foresee it.
                probability = y * mu + (1 - y) * (1.0 - mu)
                pull = (2 * y - 1) / probability
                product *= probability
            if t % _ROWS_AT_ONCE == 0:
                total += math.log(product)
                product = 1.0
            of_b[arm] += a
            of_lam += (b[arm] - q) * a
            score[arm] += pull * q
            a = kept * a + pull * r[arm]
            if start >= 0 and starts[start] == t:
                start -= 1
                of_q0 += a
                a = 0.0
    for i in range(n_arms):
        score[n_arms + i] += lam * of_b[i]
    score[2 * n_arms] += of_lam
    score[2 * n_arms + 1] += of_q0 + a
    return total


@compiled
def _sweep_derivatives(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    q0: float,
    state: FloatArray,
    score: FloatArray,
    half: FloatArray,
) -> float:
    """Add the score of some rows, and a matrix that plus its transpose is their information.

    ``state`` (see :func:`likelihood.fresh_state`) is where the rows begin, and is moved to where
    they end. Returns the log-likelihood.
    """
    n, n_arms, size = arms.size, r.size, r.size + 2
    n_stretches = max((n + _STRETCH - 1) // _STRETCH, 1)
    # The derivatives of the state, and the state, before each stretch and after the last.
    before = np.empty((n_stretches + 1, size + 1))
    _copy(state, before[0])
    rows = min(n, _STRETCH)
    states, by_both, later = np.empty(rows), np.empty(rows), np.empty(rows)
    for stretch in range(n_stretches - 1):  # the last one is gone through anyway
        d, first = before[stretch + 1], stretch * _STRETCH
        _copy(before[stretch], d)
        d[size] = _fill_states(arms, starts, b, lam, q0, d[size], first, states)
        _move_on(arms, starts, b, lam, first, states, d[:size])
    crossed, columns, last = np.zeros((n_arms, size)), np.zeros((n_arms, size)), np.zeros(size)
    total, a, carried = 0.0, 0.0, 0.0
    for stretch in range(n_stretches - 1, -1, -1):
        d, first = before[stretch].copy(), stretch * _STRETCH
        here = states[: min(n - first, _STRETCH)]
        d[size] = _fill_states(arms, starts, b, lam, q0, d[size], first, here)
        at = (arms, rewards, starts, r, b, lam, first, here)
        value, a, carried = _sweep_back(*at, a, carried, by_both, later, score, half)
        total += value
        moving = (arms, starts, b, lam, first, here, by_both, later)
        _sweep_on(*moving, d[:size], crossed, columns, last)
        if stretch == n_stretches - 1:
            _copy(d, state)
    for i in range(n_arms):
        for j in range(size):
            half[i, n_arms + j] += crossed[i, j]
            half[n_arms + i, n_arms + j] += columns[i, j]
    for i in range(size):  # the first sequence may have begun before these rows
        score[n_arms + i] += a * before[0, i]
        half[2 * n_arms, n_arms + i] += last[i]
        for j in range(size):
            half[n_arms + i, n_arms + j] += 0.5 * carried * before[0, i] * before[0, j]
    return total


@compiled
def _copy(source: FloatArray, target: FloatArray) -> None:
    """Copy numbers one by one (copying slices takes seconds to compile)."""
    for i in range(source.size):
        target[i] = source[i]


@compiled
def _move_on(
    arms: AnyIntArray,
    starts: IntArray,
    b: FloatArray,
    lam: float,
    first: int,
    states: FloatArray,
    d: FloatArray,
) -> None:
    """Move the derivatives of the state past a stretch, from where all before has vanished."""
    lasting = states.size
    if lam > 0.0:
        lasting = 1 if lam == 1.0 else 1 + int(min(math.log(VANISHED) / math.log1p(-lam), lasting))
    skipped = max(states.size - lasting, 0)
    if skipped:
        for j in range(d.size):
            d[j] = 0.0
    following = _first_start(starts, first + skipped)
    for i in range(skipped, states.size):
        t = first + i
        if following < starts.size and starts[following] == t:
            following += 1
            restart_slopes(d)
        move_slopes(d, arms[t], lam, b[arms[t]] - states[i])


@compiled
def _sweep_back(
    arms: AnyIntArray,
    rewards: AnyIntArray,
    starts: IntArray,
    r: FloatArray,
    b: FloatArray,
    lam: float,
    first: int,
    states: FloatArray,
    a: float,
    carried: float,
    by_both: FloatArray,
    later: FloatArray,
    score: FloatArray,
    half: FloatArray,
) -> tuple[float, float, float]:
    """Sweep a stretch backwards: all of the score, and what concerns one arm at a time.

    ``a`` and ``carried`` are what the rows that follow say, and are returned, after the value, as
    what these say too. ``by_both`` and ``later`` are filled in for the way on.
    """
    n_arms, kept = r.size, 1.0 - lam
    rr, of_b, moves = np.zeros(n_arms), np.zeros(n_arms), np.zeros((n_arms, 2))
    of_lam, of_q0, moved, begun, total, product = 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
    start = _first_start(starts, first + states.size) - 1
    for i in range(states.size - 1, -1, -1):
        t = first + i
        arm, y, q = arms[t], rewards[t], states[i]
        pays, change, pull, weight = r[arm], b[arm] - q, 0.0, 0.0
        if y >= 0:
            mu = paying_probability(pays, q)
            weight = 1.0 / (mu * (1.0 - mu))
            pull = (y - mu) * weight
            product *= y * mu + (1 - y) * (1.0 - mu)
        if t % _ROWS_AT_ONCE == 0:
            total += math.log(product)
            product = 1.0
        score[arm] += pull * q
        of_b[arm] += a
        of_lam += change * a
        rr[arm] += weight * q * q
        moves[arm, 0] += carried
        moves[arm, 1] += carried * change
        moved += carried * change * change
        by_both[i], later[i] = weight * q * pays, kept * carried
        a = kept * a + pull * pays
        carried = kept * kept * carried + weight * pays * pays
        carried = carried if carried > VANISHED else 0.0
        if start >= 0 and starts[start] == t:
            start -= 1
            of_q0 += a
            begun += carried
            a, carried = 0.0, 0.0
    total += math.log(product)
    by_lam, by_q0 = 2 * n_arms, 2 * n_arms + 1
    score[by_lam] += of_lam
    score[by_q0] += of_q0
    half[by_lam, by_lam] += 0.5 * moved
    half[by_q0, by_q0] += 0.5 * begun
    for i in range(n_arms):
        score[n_arms + i] += lam * of_b[i]
        half[i, i] += 0.5 * rr[i]
        half[n_arms + i, n_arms + i] += 0.5 * lam * lam * moves[i, 0]
        half[by_lam, n_arms + i] += lam * moves[i, 1]
    return total, a, carried


@compiled
def _sweep_on(
    arms: AnyIntArray,
    starts: IntArray,
    b: FloatArray,
    lam: float,
    first: int,
    states: FloatArray,
    by_both: FloatArray,
    later: FloatArray,
    d: FloatArray,
    crossed: FloatArray,
    columns: FloatArray,
    last: FloatArray,
) -> None:
    """Sweep a stretch forwards: add what pairs of parameters have in common."""
    n_arms, kept = b.size, 1.0 - lam
    following = _first_start(starts, first)
    for i in range(states.size):
        t = first + i
        if following < starts.size and starts[following] == t:
            following += 1
            restart_slopes(d)
        arm = arms[t]
        change = b[arm] - states[i]
        across, own = crossed[arm], columns[arm]
        both, of_arm, of_change = by_both[i], lam * later[i], change * later[i]
        for j in range(d.size):
            x = d[j]
            across[j] += both * x
            own[j] += of_arm * x
            last[j] += of_change * x
            x = kept * x
            d[j] = x if abs(x) > VANISHED else 0.0
        d[arm] += lam
        d[n_arms] += change
