"""Time planners side by side, with the gap each of them proves.

    python benchmarks/planners.py            # one instance a row, some minutes
    python benchmarks/planners.py --seeds 3  # more instances

Everything a table compares is measured in the same run, the best of several repeats; read
ratios, not seconds. The grid is value iteration on 2,000 uniform points over the hull arms,
compiled, its upper bound taken against the best schedule known (a favour to it: rolling its
own schedule out would cost more time and prove a larger gap).
"""

import argparse
import itertools
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from bdes_framework import FloatArray, Instance, Plan, Planner, compiled, load_plugins
from bdes_planners.reduced_problem import reduce

GAP = 1e-4
GRID_POINTS = 2000
N_ARMS = 50
HORIZON = 10**5


def random_arms(rng: np.random.Generator, n_arms: int) -> tuple[FloatArray, FloatArray]:
    return rng.random(n_arms), rng.random(n_arms)


def clickbait_arms(rng: np.random.Generator, n_arms: int) -> tuple[FloatArray, FloatArray]:
    r = rng.random(n_arms)
    return r, np.clip(1 - r + 0.1 * rng.standard_normal(n_arms), 0, 1)


ARMS = {"random": random_arms, "click-bait": clickbait_arms}


def rates() -> dict[str, float]:
    """Rates that reach a cycle, and rates so slow that none is reached."""
    fast = {f"{lam:g}": lam for lam in (0.9, 0.5, 0.1, 0.03, 0.01)}
    return fast | {
        "T^-0.75": HORIZON**-0.75,
        "3/T": 3 / HORIZON,
        "1/T": 1 / HORIZON,
        "1/T²": HORIZON**-2.0,
    }


@compiled
def grid_upper_bound(
    r: FloatArray,
    b: FloatArray,
    lam: float,
    low: float,
    high: float,
    q0: float,
    horizon: int,
    n_points: int,
) -> float:
    """Value iteration on a uniform grid: chords of a convex V lie above it, so an upper bound."""
    states = np.linspace(low, high, n_points)
    step = (high - low) / (n_points - 1)
    cell = np.zeros((r.size, n_points), dtype=np.int64)
    share = np.zeros((r.size, n_points))
    for arm in range(r.size):
        for k in range(n_points):
            place = (states[k] + lam * (b[arm] - states[k]) - low) / step
            cell[arm, k] = min(max(int(place), 0), n_points - 2)
            share[arm, k] = place - cell[arm, k]
    value, fresh = np.zeros(n_points), np.zeros(n_points)
    for _ in range(horizon):
        fresh[:] = -np.inf
        for arm in range(r.size):
            for k in range(n_points):
                j = cell[arm, k]
                total = r[arm] * states[k] + value[j] + share[arm, k] * (value[j + 1] - value[j])
                if total > fresh[k]:
                    fresh[k] = total
        value, fresh = fresh, value
    place = (q0 - low) / step
    j = min(max(int(place), 0), n_points - 2)
    return float(value[j] + (place - j) * (value[j + 1] - value[j]))


def grid_bound(instance: Instance, horizon: int) -> float:
    """Run the grid over the hull arms only, as every other planner does."""
    problem = reduce(instance)
    if problem.n_arms == 1 or problem.low == problem.high:
        return float(instance.value(np.full(horizon, problem.index[0])))
    upper = grid_upper_bound(
        problem.r,
        problem.b,
        problem.lam,
        problem.low,
        problem.high,
        problem.q0,
        horizon,
        GRID_POINTS,
    )
    return upper * problem.unit


def brute_force(instance: Instance, horizon: int) -> float:
    schedules = itertools.product(range(instance.n_arms), repeat=horizon)
    return max(instance.value(schedule) for schedule in schedules)


def timed_in_turn(
    planner: Planner, instance: Instance, horizons: tuple[int, ...]
) -> tuple[list[Plan], list[float]]:
    """Plan each horizon in turn, several times over; return plans and least seconds."""
    plans = [planner.plan(instance, horizon) for horizon in horizons]
    times = [float("inf")] * len(horizons)
    for _ in range(1 if plan_is_slow(plans[0]) else 15):
        for k, horizon in enumerate(horizons):
            start = time.perf_counter()
            planner.plan(instance, horizon)
            times[k] = min(times[k], time.perf_counter() - start)
    return plans, times


def plan_is_slow(plan: Plan) -> bool:
    work = plan.diagnostics.get("work", 0)
    return isinstance(work, int) and work > 10**7


def seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def long_horizons(planner: Planner, seeds: int) -> Iterator[tuple[str, ...]]:
    """One row per family of arms, rate and seed."""
    for (kind, maker), (label, lam), seed in itertools.product(
        ARMS.items(), rates().items(), range(1, seeds + 1)
    ):
        r, b = maker(np.random.default_rng(seed), N_ARMS)
        instance = Instance(r, b, lam)
        # The rates of the slow rows are tied to one horizon.
        horizons = (HORIZON, 10**6, 10**9) if lam * HORIZON > 100 else (HORIZON,)
        plans, times = timed_in_turn(planner, instance, horizons)
        plan, took = plans[0], times[0]
        ratios = [f"{more / took:.2f}" for more in times[1:]] or ["", ""]
        gaps = [each.gap for each in plans]
        start = time.perf_counter()
        bound = grid_bound(instance, HORIZON)
        grid_took = time.perf_counter() - start
        grid_gap = max(1 - plan.value / bound, 0.0)
        proves = grid_gap <= GAP
        yield (
            kind,
            label,
            str(seed),
            str(plan.diagnostics["method"]),
            seconds(took),
            f"{max(gaps):.1e}",
            *ratios,
            seconds(grid_took),
            f"{grid_gap:.1e}" + ("" if proves else " ✗"),
            f"{grid_took / took:.1f}×",
        )


def small_sizes(seeds: int) -> Iterator[tuple[str, ...]]:
    """What brute force and the paper's scheme can do, beside the others."""
    plugins = load_plugins()
    planners = {
        "exact": plugins.planner("exact"),
        "certified": plugins.planner("certified"),
        "fptas 0.01": plugins.planner("fptas", epsilon=0.01),
        "fptas 1/T": None,
        "best-cycle": plugins.planner("best-cycle"),
    }
    for n_arms, horizon, lam in ((4, 8, 0.3), (5, 100, 0.3), (50, 400, 0.1), (50, 2000, 0.03)):
        instance = Instance(*clickbait_arms(np.random.default_rng(seeds), n_arms), lam)
        size = f"K={n_arms} T={horizon} lam={lam:g}"
        base = float("nan")
        for name, planner in planners.items():
            if planner is None:
                if horizon > 400:
                    continue
                planner = plugins.planner("fptas", epsilon=1 / horizon)
            (plan,), (took,) = timed_in_turn(planner, instance, (horizon,))
            base = took if name == "exact" else base
            yield size, name, seconds(took), f"{took / base:.2f}×", f"{plan.gap:.1e}"
        if n_arms**horizon < 10**5:
            start = time.perf_counter()
            brute_force(instance, horizon)
            took = time.perf_counter() - start
            yield size, "brute force", seconds(took), f"{took / base:.2f}×", "0"


def show(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=1, help="instances a row")
    seeds: int = parser.parse_args().seeds
    planner = load_plugins().planner("certified", gap=GAP)
    warm = Instance(*clickbait_arms(np.random.default_rng(0), 8), 0.5)
    for lam in (0.5, 1e-4):  # compile, or load what was compiled before
        planner.plan(Instance(warm.r, warm.b, lam), 5000)
    grid_bound(warm, 2)
    show(
        f"certified beside a grid: K = {N_ARMS}, T = {HORIZON:,}, gap asked {GAP:g}",
        (
            "arms",
            "lam",
            "seed",
            "method",
            "certified",
            "proven gap",
            "T=1e6 / 1e5",
            "T=1e9 / 1e5",
            "grid",
            "its gap",
            "grid / certified",
        ),
        long_horizons(planner, seeds),
    )
    show(
        "sizes that everything can do",
        ("instance", "planner", "time", "over exact", "proven gap"),
        small_sizes(seeds),
    )


if __name__ == "__main__":
    main()
