"""The reference policies once more, written plainly from the papers, to test ours against.

Each takes a table of rewards, shape (T, K): what every arm would pay in every round. Each
recomputes everything from the whole history in every round. Returns the arms played.
"""

import math
from collections.abc import Callable

from bdes_framework import FloatArray

Uniform = Callable[[], float]


def highest(values: list[float]) -> int:
    """Return the first index of the largest value."""
    return max(range(len(values)), key=lambda i: (values[i], -i))


def rewards_by_arm(n_arms: int, history: list[tuple[int, float]]) -> list[list[float]]:
    return [[x for arm, x in history if arm == i] for i in range(n_arms)]


def ucb1(table: FloatArray, exploration: float = 2.0) -> list[int]:
    """Auer, Cesa-Bianchi, Fischer (2002), Figure 1."""
    horizon, n_arms = table.shape
    history: list[tuple[int, float]] = []
    for t in range(horizon):
        if t < n_arms:
            arm = t
        else:
            seen = rewards_by_arm(n_arms, history)
            arm = highest(
                [
                    math.fsum(x) / len(x) + math.sqrt(exploration * math.log(t) / len(x))
                    for x in seen
                ]
            )
        history.append((arm, float(table[t, arm])))
    return [arm for arm, _ in history]


def aae(table: FloatArray, delta: float) -> list[int]:
    """Even-Dar, Mannor, Mansour (2006), successive elimination with c = 4."""
    horizon, n_arms = table.shape
    history: list[tuple[int, float]] = []
    active = set(range(n_arms))
    n = 0
    while len(history) < horizon:
        for arm in sorted(active):
            if len(history) < horizon:
                history.append((arm, float(table[len(history), arm])))
        n += 1
        radius = math.sqrt(math.log(4 * n_arms * n**2 / delta) / n)
        means = {i: math.fsum(x for arm, x in history if arm == i) / n for i in active}
        active -= {i for i in active if max(means.values()) - means[i] >= 2 * radius}
    return [arm for arm, _ in history]


def exp3(table: FloatArray, gamma: float, uniform: Uniform) -> list[int]:
    """Auer, Cesa-Bianchi, Freund, Schapire (2002), Figure 1; weights as they are."""
    horizon, n_arms = table.shape
    weights = [1.0] * n_arms
    arms = []
    for t in range(horizon):
        total = math.fsum(weights)
        p = [(1 - gamma) * w / total + gamma / n_arms for w in weights]
        u = uniform()
        below = [i for i in range(n_arms) if u < math.fsum(p[: i + 1])]
        arm = below[0] if below else n_arms - 1
        weights[arm] *= math.exp(gamma * (float(table[t, arm]) / p[arm]) / n_arms)
        arms.append(arm)
    return arms


def discounted_ucb(table: FloatArray, bound: float, xi: float, gamma: float) -> list[int]:
    """Garivier, Moulines (2011), Algorithm 1."""
    horizon, n_arms = table.shape
    history: list[tuple[int, float]] = []
    for t in range(horizon):
        if t < n_arms:
            arm = t
        else:
            aged = [(i, x, gamma ** (t - 1 - s)) for s, (i, x) in enumerate(history)]
            counts = [math.fsum(g for j, _, g in aged if j == i) for i in range(n_arms)]
            sums = [math.fsum(g * x for j, x, g in aged if j == i) for i in range(n_arms)]
            n = math.fsum(counts)
            arm = highest(
                [
                    sums[i] / counts[i] + 2 * bound * math.sqrt(xi * math.log(n) / counts[i])
                    for i in range(n_arms)
                ]
            )
        history.append((arm, float(table[t, arm])))
    return [arm for arm, _ in history]


def sliding_window_ucb(table: FloatArray, bound: float, xi: float, tau: int) -> list[int]:
    """Garivier, Moulines (2011), Algorithm 2; an arm outside the window has an infinite bound."""
    horizon, n_arms = table.shape
    history: list[tuple[int, float]] = []
    for t in range(horizon):
        indices = []
        for seen in rewards_by_arm(n_arms, history[max(t - tau, 0) :]):
            if seen:
                spread = xi * math.log(min(t, tau)) / len(seen)
                indices.append(math.fsum(seen) / len(seen) + bound * math.sqrt(spread))
            else:
                indices.append(math.inf)
        arm = highest(indices)
        history.append((arm, float(table[t, arm])))
    return [arm for arm, _ in history]


def thompson(table: FloatArray, alpha: float, beta: float, uniform: Uniform) -> list[int]:
    """Agrawal, Goyal (2012), Algorithm 1, with draws by Cheng (1978)."""
    horizon, n_arms = table.shape
    history: list[tuple[int, float]] = []
    for t in range(horizon):
        draws = []
        for seen in rewards_by_arm(n_arms, history):
            won = math.fsum(seen)
            draws.append(cheng(alpha + won, beta + len(seen) - won, uniform))
        arm = highest(draws)
        history.append((arm, float(table[t, arm])))
    return [arm for arm, _ in history]


def cheng(alpha: float, beta: float, uniform: Uniform) -> float:
    """Draw from Beta(alpha, beta) by algorithm BB or BC, steps as numbered in the paper.

    The second uniform of a pair is used as 1 - u, which is as uniform as u.
    """
    if min(alpha, beta) > 1:
        return _cheng_bb(alpha, beta, uniform)
    return _cheng_bc(alpha, beta, uniform)


def _cheng_bb(a0: float, b0: float, uniform: Uniform) -> float:
    a, b = min(a0, b0), max(a0, b0)
    total = a + b
    rate = math.sqrt((total - 2) / (2 * a * b - total))
    c = a + 1 / rate
    while True:
        u1, u2 = uniform(), 1 - uniform()
        v = rate * math.log(u1 / (1 - u1))
        w = a * math.exp(v)
        # Steps 2 and 3 only save logarithms; step 4 alone decides.
        if c * v - math.log(4) + total * math.log(total / (b + w)) >= math.log(u1**2 * u2):
            return w / (b + w) if a == a0 else b / (b + w)


def _cheng_bc(a0: float, b0: float, uniform: Uniform) -> float:
    a, b = max(a0, b0), min(a0, b0)
    total = a + b
    rate = 1 / b
    while True:
        u1, u2 = uniform(), 1 - uniform()
        v = rate * math.log(u1 / (1 - u1))
        w = a * math.exp(v)
        # Steps 2 to 4 only save logarithms; step 5 alone decides.
        if total * (math.log(total / (b + w)) + v) - math.log(4) >= math.log(u1**2 * u2):
            return w / (b + w) if a == a0 else b / (b + w)
