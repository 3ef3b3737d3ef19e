"""Lengths of explore-then-commit's phases, computed plainly from the paper's theorem."""

import math


def settling(lam: float, eps: float) -> int:
    """The first n with (1 - lam)^n <= lam·eps, found by counting."""
    n, rest = 0, 1.0
    while rest > lam * eps:
        n, rest = n + 1, rest * (1 - lam)
    return n


def theorem(n_arms: int, horizon: int, lam: float) -> tuple[float, int, int]:
    """epsilon, M and N(lam) of Theorem 3.1."""
    eps = (n_arms * math.log(horizon) * math.log(lam) / (horizon * math.log(1 - lam))) ** (1 / 3)
    return eps, math.ceil(math.log(horizon) / eps**2), settling(lam, eps)


def cost(n_arms: int, m: float, n: float) -> float:
    """Rounds of exploration with m samples and n pulls to settle."""
    return n_arms * m * (n + 1) + n_arms * (n + m) + n


def cut(n_arms: int, horizon: int, m: float, n: float) -> tuple[int, int]:
    """The most samples that fit into half the horizon; below log T of them, fewer pulls."""
    budget, least = horizon // 2, min(m, math.ceil(math.log(horizon)))
    fitting = 0
    while fitting < m and cost(n_arms, fitting + 1, n) <= budget:
        fitting += 1
    if fitting >= least:
        return fitting, int(n)
    while cost(n_arms, least, 0) > budget:
        least -= 1
    shorter = 0
    while shorter < n and cost(n_arms, least, shorter + 1) <= budget:
        shorter += 1
    return int(least), shorter
