"""Plain words about what a log cannot tell: the warnings of a fit."""

import pytest

import bdes_framework as bdes
from tests.support.logs import ADS, simulated_log


def test_warnings_of_logs_that_say_little() -> None:
    rare = bdes.fit(simulated_log(ADS, users=2, rows=30, seed=9))
    assert any(text.startswith("played fewer than 30 times") for text in rare.warnings)
    seldom = bdes.fit(simulated_log(bdes.Instance([0.03, 0.02], [0.3, 0.9], 0.2), 60, 20, seed=9))
    assert seldom.pulls.min() > 400
    assert any(text.startswith("paid fewer than 30 times") for text in seldom.warnings)
    (blind,) = [text for text in seldom.warnings if text.startswith("too little data to check")]
    assert f"factor of {seldom.goodness.detectable:.1f}" in blind
    nearly = bdes.fit(simulated_log(bdes.Instance([0.99, 0.99], [1.0, 0.98], 0.2), 30, 20, seed=9))
    assert any(text.startswith("failed to pay fewer than 30") for text in nearly.warnings)
    one_arm = bdes.fit(bdes.Log([0] * 5000, [0, 1, 1, 0, 0] * 1000))
    assert any("the state hardly varied" in text for text in one_arm.warnings)
    settled = simulated_log(bdes.Instance([0.5, 0.3], [0.4, 0.8], 0.3), 1, 50_000, seed=10)
    assert sum("common factor" in text for text in bdes.fit(settled).warnings) == 1
    assert not bdes.fit(simulated_log(ADS, users=1000, rows=50, seed=11)).warnings
    edge = bdes.Instance([0.9, 0.5], [0.0, 1.0], 0.3)
    at_edge = bdes.fit(simulated_log(edge, users=2000, rows=40, seed=12)).warnings
    assert "b is at its boundary 0 for arm 0" in at_edge
    assert "b is at its boundary 1 for arm 1" in at_edge


def test_rows_that_cannot_have_paid_are_counted() -> None:
    # At state 0 nothing pays; with lam = 0 it stays there.
    said = "paid although the model says they cannot, with this q0 and lam"
    log = bdes.Log([0, 1, 0, 1, 0], [1, 0, 1, 1, 0])
    assert f"1 row {said}" in bdes.fit(log, q0=0.0).warnings
    assert f"3 rows {said}" in bdes.fit(log, q0=0.0, lam=0.0).warnings
    assert not any(said in text for text in bdes.fit(log, q0=0.01).warnings)
    late = bdes.Log([0, 1, 0, 1, 0], [0, 0, 1, 1, 0])
    assert not any(said in text for text in bdes.fit(late, q0=0.0).warnings)


def test_a_common_factor_is_limited() -> None:
    world = bdes.Instance([0.9, 0.3], [0.4, 0.8], 0.3)
    found = bdes.fit(simulated_log(world, 1, 3000, seed=10))
    (text,) = [text for text in found.warnings if "common factor" in text]
    low, high = (float(end.split(";")[0]) for end in text.split("for c from ")[1].split(" to ")[:2])
    at = found.instance
    assert at.b.max() * 0.99 < low < 1 < high < 1.01 / at.r.max()


def test_factors_are_printed_with_few_digits() -> None:
    warnings = bdes.fit(bdes.Log([0, 1] * 50, [0] * 100)).warnings
    assert any("a factor of over 100 to be found out" in text for text in warnings)
    assert max(map(len, warnings)) < 250


@pytest.mark.parametrize(
    ("lam", "side"),
    [
        (1.0, "given: a lower"),
        (0.3, "given: a lower"),
        (0.03, "given: a higher"),
        (0.0, "given: a higher"),
        (bdes.RatePrediction(0.99, 0.05), "predicted: a lower"),
        (bdes.RatePrediction(0.001, 0.1), "predicted: a higher"),
    ],
)
def test_a_contradicted_rate_is_warned_of(lam: float | bdes.RatePrediction, side: str) -> None:
    log = simulated_log(ADS, users=600, rows=50, seed=15)
    (warning,) = (text for text in bdes.fit(log, lam=lam).warnings if "contradicts" in text)
    assert warning.startswith(f"the log contradicts the rate that was {side}")


def test_a_right_rate_is_not_warned_of() -> None:
    for seed in range(20):
        log = simulated_log(ADS, users=200, rows=50, seed=100 + seed)
        for lam in (ADS.lam, bdes.RatePrediction(ADS.lam, 0.1)):
            assert not any("contradicts" in text for text in bdes.fit(log, lam=lam).warnings)
    for lam in (0.0, 1.0):
        log = simulated_log(bdes.Instance(ADS.r, ADS.b, lam), users=200, rows=50, seed=16)
        assert not any("contradicts" in text for text in bdes.fit(log, lam=lam).warnings)
