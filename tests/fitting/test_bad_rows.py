"""Rows of logs that cannot be used: by kind, with the line of the first."""

from pathlib import Path

import pytest

import bdes_framework as bdes
from tests.support.log_files import HEAD, MANY, read


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("missing", ["", "NULL", "nan", " NaN ", "NA", "None", "  "])
def test_a_missing_reward_is_not_known(tmp_path: Path, missing: str) -> None:
    log = read(tmp_path, HEAD + f"u,1,a,1\nu,2,a,{missing}\nu,3,b,0\n", strict=True)
    assert log.rewards.tolist() == [1, bdes.UNKNOWN_REWARD, 0]


BAD = [
    ("u,2,a,2", "a reward is 0 or 1, got '2'"),
    ("u,2,a,0.5", "a reward is 0 or 1, got '0.5'"),
    ("u,2,a,maybe", "a reward is 0 or 1, got 'maybe'"),
    ("u,2,a,1_0", "a reward is 0 or 1, got '1_0'"),
    ("u,2,a,inf", "a reward is 0 or 1, got 'inf'"),
    ("u,2,a,1e-9999999999999999999", "a reward is 0 or 1, got '1e-99"),
    ("u,2,,1", "has no value in column 'ad'"),
    ("u,2,NULL,1", r"has no value in column 'ad' \('NULL'\)"),
    ("u,2, NaN ,1", r"has no value in column 'ad' \('NaN'\)"),
    (",2,a,1", "has no value in column 'user'"),
    ("None,2,a,1", r"has no value in column 'user' \('None'\)"),
    ("u,,a,1", "has no value in column 'time'"),
    ("u,nan,a,1", r"has no value in column 'time' \('nan'\)"),
    ("u,inf,a,1", "order 'inf' is no finite number"),
    ("u,1_000,a,1", "order '1_000' is no finite number"),
    ("u,later,a,1", "order 'later' is no finite number"),
    ("u,2024-01-01,a,1", "order '2024-01-01' is"),
    (f"u,2,{'x' * 201},1", "the arm's name has over 200 characters"),
    ("u,2,a", "has 3 fields where the header has 4"),
    ("u,2,a, the second,1", "has 5 fields where the header has 4"),
]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("row", "message"), BAD)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=rf"^log\.csv, line 3: {message}"):
        read(tmp_path, f"{HEAD}u,1,a,1\n{row}\nu,3,a,1\nv,4,a,1\n")


@pytest.mark.parametrize(("row", "message"), BAD)
def test_a_few_bad_rows_are_passed_over(tmp_path: Path, row: str, message: str) -> None:
    bad: list[bdes.BadRows] = []
    log = read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n', on_bad=bad.extend)
    (kind,) = bad
    assert kind.n == 2
    assert kind.where == "log.csv, line 1004"  # a name of two lines counts as two
    with pytest.raises(bdes.InvalidValueError, match=f"^{kind.where}: {message}"):
        raise bdes.InvalidValueError(f"{kind.where}: {kind.problem}")
    of_reward = "a reward is" in message
    assert kind.dropped == (not of_reward)
    assert log.n_rows == 1002 + 2 * of_reward
    assert log.n_unknown == 2 * of_reward  # the state moves all the same
    with pytest.warns(UserWarning, match="2 rows .*the first is log.csv, line 1004"):
        read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n')
    with pytest.raises(bdes.InvalidValueError, match="of 2 bad rows, in 1,004"):
        read(tmp_path, f'{HEAD}{MANY}"u\n",1,a,1\n{row}\nu,3,a,1\n{row}\n', strict=True)


def test_kinds_of_bad_rows_are_told_in_order(tmp_path: Path) -> None:
    bad: list[bdes.BadRows] = []
    rows = ["u,1,,1", "u,2,a,5", "u,x,a,1", "u,2,a", "u,3,a,7", "u,3,b,0"]
    log = read(tmp_path, HEAD + MANY + "\n".join(rows) + "\n", on_bad=bad.extend)
    assert [(kind.n, kind.where[-4:]) for kind in bad] == [
        (1, "1002"),
        (2, "1003"),
        (1, "1004"),
        (1, "1005"),
    ]
    assert log.n_rows == 1003
    with pytest.raises(bdes.InvalidValueError, match=r"line 1002: has no value .*of 13 bad rows"):
        read(tmp_path, HEAD + MANY + "\n".join(rows + rows[:1] * 8) + "\n")


def test_a_row_of_many_kinds_counts_once(tmp_path: Path) -> None:
    columns = bdes.Columns("ad", "click", "user", "time", propensity="p", strata="s")
    good = [f"v{row % 9},{row},a,{row % 2},0.5,day" for row in range(98)]
    text = "\n".join([HEAD.strip() + ",p,s", *good, ",,,,,", "None,x, NA ,7,2,"]) + "\n"
    bad: list[bdes.BadRows] = []
    with pytest.raises(bdes.InvalidValueError, match="of 2 bad rows, in 100, and at most 1 %"):
        read(tmp_path, text, columns)
    more = "".join(f'w,{row},b,1,1,"night"\n' for row in range(100))
    log = read(tmp_path, text + more, columns, on_bad=bad.extend)
    assert log.n_rows == 198
    assert sum(kind.n for kind in bad) > 6
    with pytest.raises(bdes.InvalidValueError, match="of 3 bad rows, in 201"):
        read(tmp_path, text + more + "u,1,a,maybe,1,day\n", columns)
    with pytest.raises(bdes.InvalidValueError, match="of 3 bad rows, in 201"):
        read(tmp_path, text + more + "u,1,a\n", columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("u,soon,a,1\n", "line 2: order 'soon' is no number and no ISO 8601 moment"),
        ("u,2024-01-01,a,1\nu,2024-01-02,a,1\nu,7,a,1\n", "line 4: order '7' is no ISO 8601"),
        ("u,2024-02-31,a,1\nu,2024-01-02,a,1\n", "line 2: order '2024-02-31' is no ISO 8601"),
        (
            "u,2024-01-01T00:00Z,a,1\nu,2024-01-01T00:00Z,a,1\nu,2024-01-02,a,1\n",
            "line 4: order '2024-01-02' has no time zone, and most have one",
        ),
        (
            "u,2024-01-01,a,1\nv,2024-01-01T00:00,a,1\nv,2024-01-01T00:00+01:00,a,1\n",
            "line 4: .* has a time zone, and most have none",
        ),
        ("u,2024-01-01T00:00:00.0000000001,a,1\n", "line 2: .* is no number and no ISO 8601"),
        (
            "".join(f"u,{i},arm{i},1\n" for i in range(1001)),
            "line 1002: over 1,000 arms, .* is 'ad' the arm's column",
        ),
        ("".join(f"u,{i},a,{i}\n" for i in range(10_001)), "is 'click' the reward's column"),
        (
            "".join(f"u,{i},{'x' * 201}{i},1\n" for i in range(10_001)),
            "over 1,000 arms, .* is 'ad' the arm's column",
        ),
        ('u,1,"a,1\nu,2,b,1\n' + MANY, "line 2: is not CSV: a quote is not closed"),
        ("", "has no rows"),
    ],
)
def test_a_whole_column_may_be_wrong(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(bdes.InvalidValueError, match=message):
        read(tmp_path, HEAD + rows)


@pytest.mark.parametrize("value", ["0", "-0.5", "1.01", "nan", "", "x", "1_0", "inf"])
@pytest.mark.usefixtures("engine")
def test_bad_propensities_are_named(tmp_path: Path, value: str) -> None:
    columns = bdes.Columns(propensity="p")
    with pytest.raises(bdes.InvalidValueError, match=r"line 3: (a propensity is|has no value in)"):
        read(tmp_path, f"arm,reward,p\na,1,0.5\na,0,{value}\n", columns)
    with pytest.raises(bdes.InvalidValueError, match="line 2: has no value in column 'p'"):
        read(tmp_path, "arm,reward,p\na,1,NA\n", bdes.Columns(strata="p"))


FIRST_BAD = [
    (b"u,3,a,x", "a reward is 0 or 1"),
    (b"u,3,,1", "has no value in column 'ad'"),
    (b"u,y,a,1", "is no finite number"),
    (b"u,3,a", "has 3 fields"),
    (b"u,3,\xe9,1", "is not UTF-8"),
    (b",3,a,1", "has no value in column 'user'"),
]


@pytest.mark.parametrize(("first", "message"), FIRST_BAD)
@pytest.mark.parametrize("second", [row for row, _ in FIRST_BAD])
def test_of_two_bad_lines_the_first_is_named(
    tmp_path: Path, first: bytes, second: bytes, message: str
) -> None:
    good = [b"t,1,a,1", b"u,1,a,0", b"u,2,b,1"]
    rows = [HEAD.encode().strip(), *good, first, b"v,1,a,1", b"w,1,b,0", second, b"x,1,a,1"]
    with pytest.raises(bdes.InvalidValueError, match=f"line 5: .*{message}") as caught:
        read(tmp_path, b"\n".join(rows) + b"\n")
    # What one value can tell of is one kind; others are told too.
    assert "2 bad rows" in str(caught.value)
