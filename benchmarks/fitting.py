"""How fast logs are read and fitted: ``python -m benchmarks.fitting`` prints a table of ratios."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import bdes_framework as bdes
from bdes_framework.fitting.blocks import likelihood_of_log
from benchmarks.measure import (
    MILLION,
    N_ARMS,
    CompiledC,
    Row,
    absolute,
    best_seconds,
    ns,
    run_benchmark,
)

ROWS_A_USER = 50
DOZEN = 12
# The same instance as in benchmarks/c/bandit.h, r kept below 1.
ADS = bdes.Instance(
    0.9 * np.arange(1, N_ARMS + 1) / N_ARMS, 1 - 0.95 * np.arange(N_ARMS) / N_ARMS, 0.1
)


def a_log(n_rows: int) -> bdes.Log:
    """Return a log of users with runs of one arm at a time; six bytes a row, and few more."""
    rng = np.random.default_rng(0)
    arms, rewards = np.empty(n_rows, np.int32), np.empty(n_rows, np.int8)
    for begin in range(0, n_rows, MILLION):
        rows = slice(begin, min(begin + MILLION, n_rows))
        arms[rows], rewards[rows] = drawn_rows(rng, (rows.stop - begin) // ROWS_A_USER)
    return bdes.Log(arms, rewards, np.arange(0, n_rows, ROWS_A_USER))


def drawn_rows(rng: np.random.Generator, users: int) -> tuple[bdes.IntArray, bdes.IntArray]:
    """Return the arms and rewards of so many users, one after the other."""
    arms = np.repeat(rng.integers(0, N_ARMS, (users, ROWS_A_USER // 5)), 5, axis=1)
    q, means = np.ones(users), np.empty(arms.shape)
    for place in range(ROWS_A_USER):
        means[:, place] = ADS.r[arms[:, place]] * q
        q += ADS.lam * (ADS.b[arms[:, place]] - q)
    rewards = rng.random(arms.shape) < means
    return arms.ravel(), rewards.ravel().astype(np.int64)


def sweep_rows() -> list[Row]:
    """A row of a log: all derivatives beside C, and what needs no derivatives beside that."""
    rows = []
    for n_arms, n in ((2, MILLION), (5, MILLION), (N_ARMS, MILLION), (50, MILLION // 5)):
        share = np.arange(1, n_arms + 1) / n_arms
        at = bdes.Instance(0.9 * share, 1.05 - share, 0.1)
        log = bdes.Log(*played_rows(at, n, np.random.default_rng(0)))
        c = CompiledC("likelihood", n, ("-march=native", "-ffast-math"), n_arms)

        def everything(log: bdes.Log = log, at: bdes.Instance = at) -> None:
            likelihood_of_log(log, at)

        best = best_seconds({"c": c, "all": everything}, clock=time.process_time)
        claim = f"value, score and information of a row, K = {n_arms}"
        rows.append(c.row(claim, best["all"], 1.5))
    return rows + value_rows()


def played_rows(
    at: bdes.Instance, n: int, rng: np.random.Generator
) -> tuple[bdes.IntArray, bdes.IntArray]:
    """Return arms drawn evenly and their rewards: what the C loop draws for itself."""
    arms = rng.integers(0, at.n_arms, n)
    return arms, (rng.random(n) < at.expected_rewards(arms)).astype(np.int64)


def value_rows() -> list[Row]:
    log, at = a_log(MILLION), ADS
    r, b = (np.repeat(values[:, None], DOZEN, axis=1) for values in (at.r, at.b))

    def value_only() -> None:
        bdes.sweep_log_likelihood(
            log.arms, log.rewards, log.starts, at.r, at.b, at.lam, at.q0, at.q0
        )

    def a_dozen() -> None:
        q, totals = np.ones(DOZEN), np.empty(DOZEN)
        bdes.sweep_log_likelihoods(log.arms, log.rewards, r, b, np.full(DOZEN, at.lam), q, totals)

    def everything() -> None:
        likelihood_of_log(log, at)

    turns = {"all": everything, "value": value_only, "dozen": a_dozen}
    best = best_seconds(turns, clock=time.process_time)
    whole, value, dozen, singly = best["all"], best["value"], best["dozen"], DOZEN * best["value"]
    many = "the values under a dozen instances"
    return [
        Row("the value alone", ns(value), f"all {ns(whole)}", value / whole, 0.5),
        Row(many, ns(dozen), f"one by one {ns(singly)}", dozen / singly, 0.5),
    ]


def many_arms_rows() -> list[Row]:
    """Fit 100 arms; how many sweeps over all pairs of arms, as fits of few arms take, fit in it."""
    rng = np.random.default_rng(0)
    at = bdes.Instance(0.9 * rng.random(100), rng.random(100), 0.05)
    rows = []
    for users, asked in ((3_000, 20), (1, 20)):
        parts = [played_rows(at, 300_000 // users, rng) for _ in range(users)]
        arms, rewards = (np.concatenate(part) for part in zip(*parts, strict=True))
        log = bdes.Log(arms, rewards, np.arange(0, 300_000, 300_000 // users))
        bdes.fit(log.first(2_000))  # compiles, if nothing was cached yet

        def sweep(log: bdes.Log = log) -> None:
            bdes.likelihood_of(at, log.arms, log.rewards, log.starts)

        def fitted(log: bdes.Log = log) -> None:
            bdes.fit(log)

        best = best_seconds({"sweep": sweep, "fit": fitted}, 2, time.process_time)
        one, whole = best["sweep"], best["fit"]
        claim = f"a fit of 100 arms, 3·10^5 rows in {users:,} parts, in sweeps over pairs"
        rows.append(Row(claim, f"{whole:.2f} s", f"sweep {one:.3f} s", whole / one, asked))
    return rows


def fit_rows() -> list[Row]:
    bdes.fit(a_log(1000))  # compiles, if nothing was cached yet
    log = a_log(10 * MILLION)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    bdes.fit(log)
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    return [absolute("a fit of 10^7 rows, K = 10", wall, "s", 60, against=f"CPU {cpu:.1f} s")]


def threads_rows() -> list[Row]:
    """Fit 10^8 rows on one thread and on two, in turns: of an idle machine with two processors."""
    log = a_log(100 * MILLION)
    bdes.fit(log.first(MILLION))  # compiles, if nothing was cached yet
    best = best_seconds(
        {"one": lambda: bdes.fit(log), "two": lambda: bdes.fit(log, threads=2)}, repeats=2
    )
    one, two = best["one"], best["two"]
    claim = "two threads against one, a fit of 10^8 rows"
    return [Row(claim, f"{two:.1f} s", f"one {one:.1f} s", one / two, 1.6, at_least=True)]


def randomisation_rows() -> list[Row]:
    log = a_log(160_000)
    bdes.randomisation_test(log, permutations=1)
    begin = time.process_time()
    bdes.randomisation_test(log, permutations=400)
    seconds = time.process_time() - begin
    what = "CPU time of a randomisation test, 160,000 rows, 400 permutations"
    return [absolute(what, seconds, "s", 5)]


def write_log(file: Path, n_rows: int) -> None:
    """Write a log in time order, users taking turns, with DuckDB itself."""
    users = n_rows // ROWS_A_USER
    table = (
        f"SELECT 'v' || (hash(i) % {users}) AS \"user\", 1700000000000 + 37 * i AS time,"
        f" 'ad' || (hash(7 * i) % {N_ARMS}) AS arm, (hash(13 * i) % 10 < 3)::TINYINT AS reward"
        f" FROM range({n_rows}) AS t (i)"
    )
    with duckdb.connect(config={"memory_limit": "2GB"}) as connection:
        connection.execute(f"COPY ({table}) TO '{file}'").fetchall()


def read_rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file, copy = Path(folder) / "log.csv", Path(folder) / "copy.csv"
        write_log(file, 20 * MILLION)

        def ours() -> None:
            bdes.read_log(file, bdes.Columns(user="user", order="time"))

        def copied() -> None:
            query = f"SELECT * FROM read_csv('{file}') ORDER BY \"user\", time"
            with duckdb.connect() as connection:
                connection.execute(f"COPY ({query}) TO '{copy}'").fetchall()

        best = best_seconds({"ours": ours, "copied": copied}, repeats=2)
    claim = "2·10^7 unsorted rows of CSV: read, sorted, checked"
    against = f"DuckDB's COPY {best['copied']:.1f} s"
    return [Row(claim, f"{best['ours']:.1f} s", against, best["ours"] / best["copied"], 1.5)]


_CHILD = """
import resource, sys
import bdes_framework as bdes
log = bdes.read_log(sys.argv[1], bdes.Columns(user="user", order="time"))
print(log.n_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory_rows() -> list[Row]:
    """Read 10^8 rows in a process of its own, whose memory is then known."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.parquet"
        write_log(file, 100 * MILLION)
        command = [sys.executable, "-c", _CHILD, str(file)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    n_rows, kibibytes = map(int, done.stdout.split())
    assert n_rows == 100 * MILLION
    return [absolute("memory for 10^8 rows of Parquet", kibibytes / (1 << 20), "GiB", 4)]


if __name__ == "__main__":
    run_benchmark(
        "Fitting logs",
        sweep_rows,
        many_arms_rows,
        fit_rows,
        threads_rows,
        randomisation_rows,
        read_rows,
        memory_rows,
    )
