"""Time planners side by side, with the gap each of them proves.

    python -m benchmarks.planners            # one instance a row, some minutes
    python -m benchmarks.planners --seeds 3  # more instances

Everything a table compares is measured in the same run, the best of several repeats; read
ratios, not seconds. The grid is value iteration on 2,000 uniform points over the hull arms,
compiled, its upper bound taken against the best schedule known (a favour to it: rolling its
own schedule out would cost more time and prove a larger gap).
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from bdes_framework import (
    DecisionTable,
    FloatArray,
    Instance,
    IntArray,
    Plan,
    Planner,
    StationaryPlanner,
    compiled,
    load_plugins,
)
from bdes_planners.reduced_problem import reduce
from benchmarks.measure import MILLION, CompiledC, best_seconds, ns
from benchmarks.measure import N_ARMS as N_C_ARMS

GAP = 1e-4
GRID_POINTS = 2000
N_ARMS = 50
HORIZON = 10**5
VISITS = (2, 50, 10**4)
KINDS = ("random", "click-bait")
RATES = {f"{lam:g}": lam for lam in (0.9, 0.5, 0.1, 0.03, 0.01)}
SLOW_RATES = {
    "T^-0.75": HORIZON**-0.75,
    "3/T": 3 / HORIZON,
    "1/T": 1 / HORIZON,
    "1/T²": HORIZON**-2,
}
"""Rates that reach a cycle, and rates so slow that none is reached."""


def drawn_instance(kind: str, seed: int, n_arms: int, lam: float) -> Instance:
    """Return arms drawn at random, or the better paid the more they wear out."""
    rng = np.random.default_rng(seed)
    if kind == "circle":
        angle = rng.uniform(0, np.pi / 2, n_arms)
        return Instance(np.cos(angle), np.sin(angle), lam)
    r = rng.random(n_arms)
    if kind == "random":
        return Instance(r, rng.random(n_arms), lam)
    return Instance(r, np.clip(1 - r + 0.1 * rng.standard_normal(n_arms), 0, 1), lam)


@compiled
def grid_upper_bound(
    r: FloatArray, b: FloatArray, lam: float, q0: float, states: FloatArray, horizon: int
) -> float:
    """Value iteration on a uniform grid: chords of a convex V lie above it, so an upper bound."""
    n_points, low = states.size, states[0]
    step = (states[-1] - low) / (n_points - 1)
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
    states = np.linspace(problem.low, problem.high, GRID_POINTS)
    upper = grid_upper_bound(problem.r, problem.b, problem.lam, problem.q0, states, horizon)
    return upper * problem.unit


def brute_force(instance: Instance, horizon: int) -> float:
    schedules = itertools.product(range(instance.n_arms), repeat=horizon)
    return max(instance.value(schedule) for schedule in schedules)


def timed(
    bound: Callable[[Instance, int], float], instance: Instance, horizon: int
) -> tuple[float, float]:
    """Return what a function returns, and the seconds it takes."""
    start = time.perf_counter()
    return bound(instance, horizon), time.perf_counter() - start


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
    rates = (RATES | SLOW_RATES).items()
    for kind, (label, lam), seed in itertools.product(KINDS, rates, range(1, seeds + 1)):
        instance = drawn_instance(kind, seed, N_ARMS, lam)
        # The rates of the slow rows are tied to one horizon.
        horizons = (HORIZON, 10**6, 10**9) if lam * HORIZON > 100 else (HORIZON,)
        plans, times = timed_in_turn(planner, instance, horizons)
        plan, took = plans[0], times[0]
        ratios = [f"{more / took:.2f}" for more in times[1:]] or ["", ""]
        widest = max(each.gap for each in plans)
        bound, grid_took = timed(grid_bound, instance, HORIZON)
        grid_gap = max(1 - plan.value / bound, 0.0)
        proves = f"{grid_gap:.1e}" + ("" if grid_gap <= GAP else " ✗")
        ours = (str(plan.diagnostics["method"]), seconds(took), f"{widest:.1e}", *ratios)
        grid = (seconds(grid_took), proves, f"{grid_took / took:.1f}×")
        yield (kind, label, str(seed), *ours, *grid)


def small_sizes(seeds: int) -> Iterator[tuple[str, ...]]:
    """What brute force and the paper's scheme can do, beside the others."""
    plugins = load_plugins()
    for n_arms, horizon, lam in ((4, 8, 0.3), (5, 100, 0.3), (50, 400, 0.1), (50, 2000, 0.03)):
        instance = drawn_instance("click-bait", seeds, n_arms, lam)
        size = f"K={n_arms} T={horizon} lam={lam:g}"
        base = float("nan")
        planners = {name: plugins.planner(name) for name in ("exact", "certified", "best-cycle")}
        planners["fptas 0.01"] = plugins.planner("fptas", epsilon=0.01)
        if horizon <= 400:
            planners["fptas 1/T"] = plugins.planner("fptas", epsilon=1 / horizon)
        for name, planner in planners.items():
            (plan,), (took,) = timed_in_turn(planner, instance, (horizon,))
            base = took if name == "exact" else base
            yield size, name, seconds(took), f"{took / base:.2f}×", f"{plan.gap:.1e}"
        if n_arms**horizon < 10**5:
            _, took = timed(brute_force, instance, horizon)
            yield size, "brute force", seconds(took), f"{took / base:.2f}×", "0"


def decision_tables(seeds: int) -> Iterator[tuple[str, ...]]:
    """Time decision tables: one row per family of arms, rate, visits of a user and seed."""
    planner = load_plugins().planner("certified", gap=GAP)
    assert isinstance(planner, StationaryPlanner)
    rows = itertools.product((*KINDS, "circle"), RATES.items(), VISITS, range(1, seeds + 1))
    for kind, (label, lam), visits, seed in rows:
        instance = drawn_instance(kind, seed, N_ARMS, lam)
        continuation = 1 - 1 / visits
        table = planner.plan_stationary(instance, continuation)
        turn = partial(planner.plan_stationary, instance, continuation)
        took = best_seconds({"table": turn}, repeats=5)["table"]
        size = str(table.starts.size)
        yield kind, label, f"{visits:,}", str(seed), seconds(took), f"{table.gap:.1e}", size


def look_up() -> Iterator[tuple[str, ...]]:
    """Time a million arms looked up, beside C that does the same and beside numpy."""
    rng = np.random.default_rng(1)
    n = 4 * N_C_ARMS
    starts = np.sort(np.append(0.0, rng.random(n - 1)))
    instance = Instance(np.ones(N_C_ARMS), np.ones(N_C_ARMS), 0.5)
    bound = [0.0, 1.0], [2.0, 2.0]
    table = DecisionTable(instance, 0.5, starts, rng.integers(0, N_C_ARMS, n), *bound)
    states, c = rng.random(MILLION), CompiledC("decision_table")

    def with_numpy() -> IntArray:
        return table.arms[np.searchsorted(starts, states, side="right") - 1]

    def with_table() -> IntArray:
        return table.arms_at(states)

    best = best_seconds({"arms_at": with_table, "numpy": with_numpy, "c": c}, repeats=40)
    for name, took in (("C", c.seconds), ("arms_at", best["arms_at"]), ("numpy", best["numpy"])):
        yield name, ns(took), f"{took / c.seconds:.2f}×"


def show(title: str, columns: str, rows: Iterator[tuple[str, ...]]) -> None:
    table = Table(*columns.split(", "), title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=1, help="instances a row")
    seeds: int = parser.parse_args().seeds
    planner = load_plugins().planner("certified", gap=GAP)
    for lam in (0.5, 1e-4):  # compile, or load what was compiled before
        warm = drawn_instance("click-bait", 0, 8, lam)
        planner.plan(warm, 5000)
        grid_bound(warm, 2)
    title = f"certified beside a grid: K = {N_ARMS}, T = {HORIZON:,}, gap asked {GAP:g}"
    ours = "arms, lam, seed, method, certified, proven gap, T=1e6 / 1e5, T=1e9 / 1e5"
    show(title, f"{ours}, grid, its gap, grid / certified", long_horizons(planner, seeds))
    title = f"decision tables: K = {N_ARMS}, gap asked {GAP:g}, all arms of a circle on the hull"
    show(title, "arms, lam, visits, seed, time, proven gap, intervals", decision_tables(seeds))
    show("arms looked up in a table of 40 intervals", "by, a state, over C", look_up())
    columns = "instance, planner, time, over exact, proven gap"
    show("sizes that everything can do", columns, small_sizes(seeds))


if __name__ == "__main__":
    main()
