"""What was asked of ``posterior``, held against the very experiments that docs/posterior.md shows.

They are played here, or resumed where ``make posterior`` has played them: then this takes seconds.
"""

from functools import cache

import pytest

from studies.posterior.measure import OURS, Row, play, rows_of

# At T^-2 of Thompson's regret; otherwise of the best of the paper's policies.
SHARES = {"T^-2": 1.5, "1/T": 1.0, "3/T": 1.0, "T^-0.75": 0.25, "1-1/sqrt(T)": 0.25}
SHARES |= dict.fromkeys(("0.01", "0.1", "0.5", "0.9", "1"), 0.25)
PAPERS = {
    "exp3p",
    "etc",
    "etc, paper's tuning",
    "etc-unknown-arm",
    "sticky",
    "unknown-lambda",
    "wide-ucb",
    "auto",
}
pytestmark = pytest.mark.slow


@cache
def rows(experiment: str) -> list[Row]:
    return rows_of(play(experiment))


@pytest.mark.parametrize("kind", ["click-bait", "uniform"])
@pytest.mark.parametrize("lam", SHARES)
def test_regret_is_at_most_the_share_asked_for(kind: str, lam: str) -> None:
    (row,) = [row for row in rows("compare") if (row.kind, row.lam) == (kind, lam)]
    assert set(row.regret) == {OURS, "thompson"} | PAPERS
    assert row.regret[OURS].size >= 20
    others = ("thompson",) if lam == "T^-2" else PAPERS
    assert row.mean(OURS) < SHARES[lam] * min(row.mean(name) for name in others)


def test_wrong_lam_costs_at_most_half_more() -> None:
    assert {row.kind for row in rows("predictions")} == {"click-bait", "uniform"}
    for row in rows("predictions"):
        assert row.regret["unknown"].size >= 20
        for factor in (10, 100):
            for side in ("small", "large"):
                assert row.mean(f"{factor} times too {side}") <= 1.5 * row.mean("unknown")


def test_least_regret_of_all_under_noise() -> None:
    assert {row.kind for row in rows("noise")} == {"click-bait", "uniform"}
    for row in rows("noise"):
        assert PAPERS | {"thompson", "ucb1", "exp3", "aae"} < set(row.regret)
        assert all(row.mean(OURS) < row.mean(name) for name in row.regret if name != OURS)
