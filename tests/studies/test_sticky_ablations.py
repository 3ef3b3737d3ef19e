"""Section 5.1's ablations: the orders are as described, and the page's claims were measured."""

import math
import re
import shutil
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

import bdes_framework as bdes
from bdes_framework.testing import Check, parametrize_with_checks, policy_checks
from studies.sticky_ablations.measure import HERE, ORDERS, OrderRow, growth, measure, saved

PLUGINS = bdes.load_plugins(modules=[str(HERE / "orders.py")])
ROWS = saved()


@parametrize_with_checks(policy_checks("sticky-order", plugins=PLUGINS, order="naive"))
def test_naive_order_keeps_the_contract(check: Check) -> None:
    check()


def arms_played(order: str, n_arms: int, horizon: int) -> tuple[list[int], list[int]]:
    """Return the arms, and the switches of each batch, where nothing ever pays."""
    policy = PLUGINS.policy("sticky-order", bdes.Problem(n_arms, horizon), seed=1, order=order)
    world = PLUGINS.environment("bernoulli", seed=1, r=[0.0] * n_arms, b=[0.0] * n_arms, lam=1.0)
    trace = bdes.simulate(world, policy, horizon)
    assert trace.arms is not None
    switches = trace.diagnostics["switches"]
    assert isinstance(switches, np.ndarray)
    return trace.arms.tolist(), switches.tolist()


def test_naive_order_goes_round_the_pairs() -> None:
    arms, switches = arms_played("naive", 3, 5_000)
    times = [math.floor(5_000 ** (k / 18)) for k in range(1, len(switches) + 1)]
    assert switches == [6 * n for n in times]
    # The last batch: a pair is i, j, i, every pair once, in the same order each time round.
    start = 18 * sum(times[:-1])
    rounds = [arms[k : k + 18] for k in range(start, start + 18 * times[-1], 18)]
    assert rounds == [rounds[0]] * times[-1]
    pairs = [tuple(rounds[0][k : k + 3]) for k in range(0, 18, 3)]
    assert {(i, j) for i, j, _ in pairs} == {(i, j) for i in range(3) for j in range(i, 3)}
    assert all(i == again for i, _, again in pairs)


def test_unsmart_order_plays_one_pair_after_another() -> None:
    arms, switches = arms_played("unsmart", 3, 5_000)
    times = [math.floor(5_000 ** (k / 18)) for k in range(1, len(switches) + 1)]
    assert switches == [6] * len(times)
    start = 6 * sum(2 * n + 1 for n in times[:-1])
    runs = np.reshape(arms[start : start + 6 * (2 * times[-1] + 1)], (6, -1))
    assert {(int(run[0]), int(run[1])) for run in runs} == {
        (i, j) for i in range(3) for j in range(i, 3)
    }
    for run in runs:
        assert (run[::2] == run[0]).all()
        assert (run[1::2] == run[1]).all()


@pytest.mark.parametrize("order", ["naive", "unsmart"])
def test_either_order_finds_the_best_pair(order: str) -> None:
    problem, horizon = bdes.Problem(3, 20_000), 20_000
    policy = PLUGINS.policy("sticky-order", problem, seed=2, order=order)
    world = PLUGINS.environment("bernoulli", seed=2, r=[1, 0, 0.1], b=[0, 1, 0.1], lam=1.0)
    arms = bdes.simulate(world, policy, horizon).arms
    assert arms is not None
    assert [len(list(run)) for _, run in groupby(arms[-1_000:].tolist())] == [1] * 1_000
    assert set(arms[-1_000:].tolist()) == {0, 1}


@pytest.mark.parametrize("draw", range(7100, 7103))
def test_example_has_the_arms_of_the_paper(draw: int) -> None:
    world = PLUGINS.environment("section-5-1", seed=1, draw=draw, delta=0.003)
    assert isinstance(world, bdes.HasInstance)
    instance = world.instance
    c = instance.r[2]
    assert instance.r.tolist() == [1, 0, c]
    assert instance.b.tolist() == [0, 1, c]
    assert instance.lam == 1
    assert abs(c * math.sqrt(2) - 1) <= 0.003


def rows_of(experiment: str, order: str) -> list[OrderRow]:
    return [row for row in ROWS if (row.experiment, row.order) == (experiment, order)]


@pytest.mark.parametrize("name", ["example", "many-arms"])
def test_instances_were_fixed_beforehand(name: str) -> None:
    text = (HERE / f"{name}.toml").read_text(encoding="utf-8")
    assert set(re.findall(r"\b71\d\d\b", text)) == {str(seed) for seed in range(7100, 7120)}
    assert {row.instances for row in ROWS} == {20}


def test_measuring_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "orders.py", tmp_path)
    for name, most in (("example", "[1_000]"), ("many-arms", "[2_000]")):
        text = (HERE / f"{name}.toml").read_text(encoding="utf-8")
        text = re.sub(r"horizons = .*", f'horizons = {most}\nengine = "serial"', text)
        text = re.sub(r" 7102.*?\]", "]", text, flags=re.DOTALL).replace("6, 12, 24", "6")
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    rows = measure(tmp_path)
    places = [(row.experiment, row.order, row.n_arms, row.horizon) for row in rows]
    assert places == [
        *(("example", order, 3, 1_000) for order in ORDERS),
        *(("many-arms", order, n_arms, 2_000) for n_arms in (3, 6) for order in ORDERS),
    ]
    assert {row.instances for row in rows} == {2}
    naive = rows[2]
    assert naive.switches == pytest.approx(264)
    assert naive.extra == pytest.approx(naive.regret - rows[0].regret, abs=0.02)
    assert rows[0].extra == rows[0].extra_half == 0
    kept = next(row for row in ROWS if (row.order, row.horizon) == (naive.order, 1_000))
    assert naive.regret == pytest.approx(kept.regret, abs=5)


def test_only_the_naive_order_has_linear_regret_on_the_example() -> None:
    exponents = {order: growth(rows_of("example", order)) for order in ORDERS}
    assert exponents["naive ABA-CCC"] > 0.9
    assert exponents["sticky"] < 0.3
    assert exponents["unsmart switching"] < 0.3
    lost = {order: rows_of("example", order)[-1].regret for order in ORDERS}
    assert lost["naive ABA-CCC"] > 10 * lost["sticky"]


def test_smart_switching_saves_switches_and_hardly_regret() -> None:
    smart, unsmart = (rows_of("many-arms", order) for order in ("sticky", "unsmart switching"))
    assert unsmart[-1].switches > 10 * smart[-1].switches
    for row in unsmart:  # on the same instances
        assert abs(row.extra) < row.extra_half
    example = zip(*(rows_of("example", o) for o in ("sticky", "unsmart switching")), strict=True)
    for one, other in example:
        assert other.extra < one.regret / 20
        assert other.extra == pytest.approx(other.regret - one.regret, abs=0.02)


def test_naive_order_is_ahead_only_where_hardly_anything_is_eliminated() -> None:
    *fewer, most = rows_of("many-arms", "naive ABA-CCC")
    assert all(row.extra > row.extra_half for row in fewer)
    assert most.extra < -most.extra_half
    short, *longer = rows_of("example", "naive ABA-CCC")
    assert short.extra < -short.extra_half
    assert all(row.extra > row.extra_half for row in longer)
