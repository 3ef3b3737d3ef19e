"""Numbers do not depend on how many threads linear algebra may use."""

import os
import threading
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bdes_framework._internal.threads import one_thread
from tests.support.command import bdes_process
from tests.support.experiments import Dump, dump, run_demo, write_experiment

LARGE = """
name = "large"
seed = 1
horizons = [40]
replications = 2
benchmark = false

[[environments]]
use = "bernoulli"
arms = {generator = "uniform", n = 120}
lam = 0.1

[[policies]]
use = "posterior"
"""


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


needs_blas = pytest.mark.skipif(
    not blas_threads(), reason="threadpoolctl knows no library of linear algebra here"
)


def test_threads_do_not_change_a_number(tmp_path: Path) -> None:
    write_experiment(tmp_path, text=LARGE)
    dumps: list[Dump] = []
    for n in (1, 2):
        with threadpool_limits(n, "blas"):
            run_demo(tmp_path, f"run-{n}").close()
        dumps.append(dump(tmp_path / f"run-{n}"))
    assert dumps[0] == dumps[1]


@pytest.mark.slow
def test_engines_and_settings_do_not_change_a_number(tmp_path: Path) -> None:
    write_experiment(tmp_path, text=LARGE)
    dumps: list[Dump] = []
    for engine, threads in (("serial", "1"), ("serial", None), ("processes", "2"), ("dask", None)):
        settings = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
        settings |= {"OPENBLAS_NUM_THREADS": threads} if threads else {}
        out = f"{engine}-{threads}"
        flags = ("--out", out, "--engine", engine)
        done = bdes_process("run", "demo.toml", *flags, cwd=tmp_path, env=settings)
        assert done.returncode == 0, done.stderr
        dumps.append(dump(tmp_path / out))
    assert dumps[0]
    assert all(one == dumps[0] for one in dumps)


@needs_blas
def test_the_limit_ends_with_what_needs_it() -> None:
    with threadpool_limits(2, "blas"):
        for _ in range(2):
            with one_thread(), one_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {2}


@needs_blas
def test_the_limit_lasts_until_the_last_one_leaves() -> None:
    inside, leave = threading.Event(), threading.Event()

    @one_thread()
    def wait() -> None:
        inside.set()
        leave.wait(10)

    other = threading.Thread(target=wait)
    with threadpool_limits(2, "blas"):
        with one_thread():
            other.start()
            inside.wait(10)
        assert blas_threads() == {1}
        leave.set()
        other.join(10)
