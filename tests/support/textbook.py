"""The reference policies once more, written plainly from the papers, to test ours against.

Each takes a table of rewards, shape (T, K): what every arm would pay in every round. Each
recomputes everything from the whole history in every round. Returns the arms played.
"""

import math
from collections.abc import Callable

from bdes_framework import FloatArray

Uniform = Callable[[], float]
History = list[tuple[int, float]]


def highest(values: list[float]) -> int:
    """Return the first index of the largest value."""
    return max(range(len(values)), key=lambda i: (values[i], -i))


def rewards_by_arm(n_arms: int, history: History) -> list[list[float]]:
    return [[x for arm, x in history if arm == i] for i in range(n_arms)]


def play(table: FloatArray, choose: Callable[[History], int]) -> list[int]:
    """Play the arms that ``choose`` returns, given all arms and rewards so far."""
    history: History = []
    for rewards in table:
        arm = choose(history)
        history.append((arm, float(rewards[arm])))
    return [arm for arm, _ in history]


def ucb1(table: FloatArray, exploration: float = 2.0, lam: float = 0.0) -> list[int]:
    """Auer, Cesa-Bianchi, Fischer (2002), Figure 1; with lam, an arm's plays age (wide-ucb)."""

    def choose(history: History) -> int:
        t = len(history)
        if t < table.shape[1]:
            return t
        bounds = []
        for arm, x in enumerate(rewards_by_arm(table.shape[1], history)):
            age = math.fsum(t - s for s, (a, _) in enumerate(history) if a == arm) / len(x)
            radius = math.sqrt(exploration * math.log(t) / len(x))
            bounds.append(math.fsum(x) / len(x) + radius + min(1.0, lam * age))
        return highest(bounds)

    return play(table, choose)


def aae(table: FloatArray, delta: float) -> list[int]:
    """Even-Dar, Mannor, Mansour (2006), successive elimination with c = 4."""
    horizon, n_arms = table.shape
    history: History = []
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
    arms = range(table.shape[1])

    def choose(history: History) -> int:
        t = len(history)
        if t < len(arms):
            return t
        aged = [(i, x, gamma ** (t - 1 - s)) for s, (i, x) in enumerate(history)]
        counts = [math.fsum(g for j, _, g in aged if j == i) for i in arms]
        sums = [math.fsum(g * x for j, x, g in aged if j == i) for i in arms]
        spread = xi * math.log(math.fsum(counts))
        return highest(
            [sums[i] / counts[i] + 2 * bound * math.sqrt(spread / counts[i]) for i in arms]
        )

    return play(table, choose)


def sliding_window_ucb(table: FloatArray, bound: float, xi: float, tau: int) -> list[int]:
    """Garivier, Moulines (2011), Algorithm 2; an arm outside the window has an infinite bound."""

    def choose(history: History) -> int:
        indices = []
        for seen in rewards_by_arm(table.shape[1], history[-tau:]):
            if seen:
                spread = xi * math.log(min(len(history), tau)) / len(seen)
                indices.append(math.fsum(seen) / len(seen) + bound * math.sqrt(spread))
            else:
                indices.append(math.inf)
        return highest(indices)

    return play(table, choose)


def thompson(table: FloatArray, alpha: float, beta: float, uniform: Uniform) -> list[int]:
    """Agrawal, Goyal (2012), Algorithm 1, with draws by Cheng (1978)."""

    def choose(history: History) -> int:
        draws = []
        for seen in rewards_by_arm(table.shape[1], history):
            won = math.fsum(seen)
            draws.append(cheng(alpha + won, beta + len(seen) - won, uniform))
        return highest(draws)

    return play(table, choose)


def cheng(alpha: float, beta: float, uniform: Uniform) -> float:
    """Draw from Beta(alpha, beta) by algorithm BB or BC, steps as numbered in the paper.

    The second uniform of a pair is used as 1 - u, which is as uniform as u.
    """
    a, b = min(alpha, beta), max(alpha, beta)
    total, above_one = a + b, a > 1
    rate = math.sqrt((total - 2) / (2 * a * b - total)) if above_one else 1 / a
    c = a + 1 / rate
    while True:
        u1, u2 = uniform(), 1 - uniform()
        v = rate * math.log(u1 / (1 - u1))
        # The earlier steps only save logarithms; step 4 of BB, or 5 of BC, alone decides.
        if above_one:
            w, other = a * math.exp(v), b
            decides = c * v + total * math.log(total / (b + w))
        else:
            w, other = b * math.exp(v), a
            decides = total * (math.log(total / (a + w)) + v)
        if decides - math.log(4) >= math.log(u1**2 * u2):
            first = alpha == (a if above_one else b)
            return w / (other + w) if first else other / (other + w)
