"""How fast logs are fitted: ``python -m benchmarks.fitting`` prints a table of ratios."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import bdes_framework as bdes
from benchmarks.measure import CompiledC, Row, best_seconds, print_rows

MILLION = 1_000_000
N_ARMS = 10
ROWS_A_USER = 50
DOZEN = 12
# The same instance as in benchmarks/c/bandit.h, r kept below 1.
ADS = bdes.Instance(
    0.9 * np.arange(1, N_ARMS + 1) / N_ARMS, 1 - 0.95 * np.arange(N_ARMS) / N_ARMS, 0.1
)


def a_log(n_rows: int) -> bdes.Log:
    """Return a log of users with runs of one arm at a time, drawn user by user."""
    rng = np.random.default_rng(0)
    users = n_rows // ROWS_A_USER
    arms = np.repeat(rng.integers(0, N_ARMS, (users, ROWS_A_USER // 5)), 5, axis=1)
    q, means = np.ones(users), np.empty(arms.shape)
    for place in range(ROWS_A_USER):
        means[:, place] = ADS.r[arms[:, place]] * q
        q += ADS.lam * (ADS.b[arms[:, place]] - q)
    rewards = (rng.random(arms.shape) < means).ravel()
    return bdes.Log(arms.ravel(), rewards, np.arange(0, n_rows, ROWS_A_USER))


def sweep_rows() -> list[Row]:
    log = a_log(MILLION)
    c = CompiledC("likelihood")
    in_c = float("inf")

    def run_c() -> None:
        nonlocal in_c
        in_c = min(in_c, c.ns_per_pull(N_ARMS, MILLION))

    def value_only() -> None:
        at = ADS
        bdes.sweep_log_likelihood(
            log.arms, log.rewards, log.starts, at.r, at.b, at.lam, at.q0, at.q0
        )

    r, b = (np.repeat(values[:, None], DOZEN, axis=1) for values in (ADS.r, ADS.b))

    def a_dozen() -> None:
        q, totals = np.ones(DOZEN), np.empty(DOZEN)
        bdes.sweep_log_likelihoods(log.arms, log.rewards, r, b, np.full(DOZEN, ADS.lam), q, totals)

    best = best_seconds(
        {
            "c": run_c,
            "all": lambda: bdes.likelihood_of(ADS, log.arms, log.rewards, log.starts),
            "value": value_only,
            "dozen": a_dozen,
        }
    )
    ns = {name: seconds / MILLION * 1e9 for name, seconds in best.items()}
    return [
        Row("value, score and information of a row, K = 10", f"{ns['all']:.0f} ns",
            f"C {in_c:.0f} ns", ns["all"] / in_c, 1.5),
        Row("the value alone", f"{ns['value']:.0f} ns", f"all {ns['all']:.0f} ns",
            ns["value"] / ns["all"], 0.5),
        Row("the values under a dozen instances", f"{ns['dozen']:.0f} ns",
            f"one by one {DOZEN * ns['value']:.0f} ns", ns["dozen"] / (DOZEN * ns["value"]), 0.5),
    ]  # fmt: skip


def fit_rows() -> list[Row]:
    bdes.fit(a_log(1000))  # compiles, if nothing was cached yet
    log = a_log(10 * MILLION)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    bdes.fit(log)
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    return [Row("a fit of 10^7 rows, K = 10, s", f"{wall:.1f} s", f"CPU {cpu:.1f} s", wall, 60)]


def read_rows() -> list[Row]:
    log = a_log(MILLION)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        pairs = enumerate(zip(log.arms.tolist(), log.rewards.tolist(), strict=True))
        lines = [f"u{row // ROWS_A_USER},{row},ad{arm},{paid}" for row, (arm, paid) in pairs]
        path.write_text("user,time,arm,reward\n" + "\n".join(lines) + "\n")
        begin = time.process_time()
        bdes.read_log(path, bdes.Columns(user="user", order="time"))
        seconds = time.process_time() - begin
    micro = seconds / MILLION * 1e6
    return [Row("reading a row of CSV, µs of CPU", f"{micro:.2f} µs", "-", micro, 5)]


def main() -> None:
    console = Console(stderr=True)
    rows: list[Row] = []
    for part in (sweep_rows, read_rows, fit_rows):
        with console.status(f"measuring {part.__name__.removesuffix('_rows')}"):
            rows += part()
    sys.exit(0 if print_rows("Fitting logs (one process, one core)", rows) else 1)


if __name__ == "__main__":
    main()
