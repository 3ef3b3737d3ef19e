"""Decision tables: look-up, values, proven bounds, display, and JSON files."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bdes_framework import ConfigError, DecisionTable, Instance, InvalidValueError, StoreError

ADS = Instance([0.9, 0.3], [0.1, 1.0], 0.3)
LOOSE = [0.0, 1.0], [0.0, 45.0]


def ads_table(*names: str) -> DecisionTable:
    return DecisionTable(ADS, 0.98, [0.0, 0.5, 0.7], [1, 0, 1], *LOOSE, names)


def test_arms_are_those_of_the_intervals() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 60, 3000):
        starts = np.unique(np.append(0.0, rng.random(n - 1) ** 4))
        arms = rng.integers(0, 2, starts.size)
        table = DecisionTable(ADS, 0.5, starts, arms, *LOOSE)
        states = np.concatenate([rng.random(500), starts, np.nextafter(starts[1:], 0), [1.0, 7.0]])
        expected = arms[np.searchsorted(starts, states, side="right") - 1]
        assert table.arms_at(states).tolist() == expected.tolist()


def test_values_are_what_the_arms_earn() -> None:
    table = ads_table()
    for first in (0.0, 0.3, 0.69, 1.0):
        q, earned = first, 0.0
        for visit in range(3000):
            arm = 1 if q < 0.5 or q >= 0.7 else 0
            earned += 0.98**visit * ADS.r[arm] * q
            q += ADS.lam * (ADS.b[arm] - q)
        assert table.values_at([first])[0] == pytest.approx(earned, rel=1e-12)


def test_a_bound_is_lifted_until_it_is_proven() -> None:
    table = ads_table()
    assert table.upper_bounds_at([1.0])[0] >= 45.0
    too_low = DecisionTable(ADS, 0.98, [0.0], [1], [0.0, 1.0], [0.0, 0.0])
    # Nothing is known but that no visit brings more than 0.9.
    assert too_low.upper_bound == pytest.approx(45.0)
    # A cliff beside a state that all visits end in, so steep that rounding could fall off it.
    cliff = [0.0, np.nextafter(1.0, 0), 1.0], [0.0, 0.0, 45.0]
    assert DecisionTable(Instance([0.9], [1.0], 0.3), 0.98, [0.0], [0], *cliff).upper_bound >= 45.0
    # Not convex, and below V between its ends: lifted all the same.
    bent = DecisionTable(ADS, 0.98, [0.0], [1], [0.0, 0.5, 1.0], [45.0, 10.0, 45.0])
    assert bent.upper_bounds_at([0.5])[0] >= ads_table().values_at([0.5])[0]


def test_a_table_is_shown_in_a_few_lines() -> None:
    table = ads_table("teaser\x1b[2J", "long read")
    assert max(map(len, repr(table).splitlines())) <= 80
    assert "long read from 0 · teaser\\x1b[2J from 0.5" in repr(table)
    assert "visits=50" in repr(table)
    many = DecisionTable(ADS, 0.5, np.linspace(0, 0.9, 40), [0, 1] * 20, *LOOSE)
    assert "intervals=40" in repr(many)
    assert max(map(len, repr(many).splitlines())) <= 80
    page = ads_table("<b>", "x")._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    for table in (ads_table(), ads_table("a", "b")):
        table.write(file)
        again = DecisionTable.read(str(file))
        assert again.instance == table.instance
        assert again.names == table.names
        assert (again.continuation, again.value) == (table.continuation, table.value)
        assert again.upper_bound == table.upper_bound
        assert again.starts.tolist() == table.starts.tolist()
        assert again.arms.tolist() == table.arms.tolist()
        assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(StoreError, match="cannot write"):
        ads_table().write(tmp_path / "no" / "where.json")


Change = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(format="x"), "is no decision table"),
        (lambda t: t.pop("arms"), "the key 'arms' is missing"),
        (lambda t: t.update(start=[0.0]), "Did you mean 'starts'?"),
        (lambda t: t.update(starts=[0.0, 0.7, 0.5]), "starts must begin with 0 and rise"),
        (lambda t: t.update(starts=[0.1, 0.5, 0.7]), "starts must begin with 0 and rise"),
        (lambda t: t.update(starts=[0.0, 0.5, 3.0]), "no state is above 1"),
        (lambda t: t.update(starts=[0.0, 0.5]), "one arm for each start"),
        (lambda t: t.update(starts=[0.0, None, 1]), "starts must be a list of numbers"),
        (lambda t: t.update(arms=[1, 0, 2]), "arm 2 does not exist"),
        (lambda t: t.update(arms=[1, 0, -1]), "counted from 0"),
        (lambda t: t.update(arms=[1, 0, 0.5]), "arms must be integers"),
        (lambda t: t.update(arms=[True, 0, 0]), "arms must be a list of numbers"),
        (lambda t: t.update(lam=1.5), r"lam must be a number in [0, 1]"),
        (lambda t: t.update(lam="x"), "lam must be a number"),
        (lambda t: t.update(q0=10**400), "q0 is too large"),
        (lambda t: t.update(r=[0.9, float("nan")]), "arm 1: expected a finite number"),
        (lambda t: t.update(continuation=1.0), r"continuation must be a number in [0, 1)"),
        (lambda t: t.update(bound_values=[0.0, -1.0]), "finite numbers of at least 0"),
        (lambda t: t.update(bound_states=[0.0, 0.5]), "must reach the highest state"),
        (lambda t: t.update(bound_values=[0.0]), "one bound value for each"),
        (lambda t: t.update(names=["a"]), "need 2 names or none"),
        (lambda t: t.update(names="ab"), "names must be a list"),
        (lambda t: t.update(names=[1, 2]), "names must be texts"),
        (lambda t: t.update(value=99.0), "was the file changed by hand?"),
        (lambda t: t.update(upper_bound=1.0), "was the file changed by hand?"),
    ],
)
def test_a_file_that_holds_no_sound_table_is_refused(
    tmp_path: Path, change: Change, message: str
) -> None:
    file = tmp_path / "table.json"
    ads_table("a", "b").write(file)
    members = json.loads(file.read_text())
    change(members)
    file.write_text(json.dumps(members))
    with pytest.raises(ConfigError) as error:
        DecisionTable.read(file)
    assert message in str(error.value)
    assert "table.json" in str(error.value)


@pytest.mark.parametrize("content", ["", "[]", '{"format": ', "\x00"])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match="JSON"):
        DecisionTable.read(file)


@pytest.mark.parametrize("states", [[-0.1], [float("nan")], [[0.5]]])
def test_states_are_numbers_of_at_least_0(states: list[float]) -> None:
    with pytest.raises(InvalidValueError, match="states must be"):
        ads_table().arms_at(states)
    with pytest.raises(InvalidValueError, match="states must be"):
        ads_table().values_at(states)


def test_bounds_end_at_the_highest_state() -> None:
    with pytest.raises(InvalidValueError, match="at most 1, the highest of q0 and b"):
        ads_table().upper_bounds_at([1.5])
