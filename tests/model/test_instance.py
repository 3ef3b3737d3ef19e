"""The model against its definition: the recurrence, written out by hand in the test."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bdes_framework as bdes
from bdes_framework import Instance, InvalidValueError, Segment, alternating_limit, settling_pulls

unit = st.floats(0, 1)
rates = st.one_of(st.sampled_from([0.0, 1.0, 1e-9, 0.5]), unit)
arm_pairs = st.lists(st.tuples(unit, unit), min_size=1, max_size=5)


def play_by_hand(instance: Instance, arms: list[int]) -> tuple[list[float], float, float]:
    """Follow the definition with Python floats: states, total reward, final state."""
    q, states, total = instance.q0, [], 0.0
    for arm in arms:
        states.append(q)
        total += float(instance.r[arm]) * q
        q = (1 - instance.lam) * q + instance.lam * float(instance.b[arm])
    return states, total, q


@given(arm_pairs, rates, unit, st.floats(1e-3, 1e3), st.data())
def test_states_and_value_follow_the_recurrence(
    pairs: list[tuple[float, float]], lam: float, q0: float, c: float, data: st.DataObject
) -> None:
    instance = Instance([r for r, _ in pairs], [b for _, b in pairs], lam, q0)
    arms = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=30))
    assert instance.scaled(c).value(arms) == pytest.approx(instance.value(arms), rel=1e-12)
    states, total, last = play_by_hand(instance, arms)
    np.testing.assert_allclose(instance.states(arms), states, atol=1e-14)
    np.testing.assert_allclose(instance.expected_rewards(arms).sum(), total, atol=1e-13)
    assert instance.value(arms) == pytest.approx(total, abs=1e-13)
    assert instance.state_after(arms) == pytest.approx(last, abs=1e-14)


@given(arm_pairs, rates, st.data())
def test_segments_are_worth_what_their_arms_are(
    pairs: list[tuple[float, float]], lam: float, data: st.DataObject
) -> None:
    instance = Instance([r for r, _ in pairs], [b for _, b in pairs], lam)
    some_arms = st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=4)
    segments = data.draw(st.lists(st.tuples(some_arms, st.integers(1, 50)), min_size=1, max_size=4))
    schedule = bdes.Schedule([Segment(arms, repeats) for arms, repeats in segments])
    assert instance.value(schedule) == pytest.approx(instance.value(schedule.arms), rel=1e-12)
    assert instance.state_after(schedule) == pytest.approx(
        instance.state_after(schedule.arms), rel=1e-12, abs=1e-300
    )


def test_value_of_a_billion_repeats() -> None:
    instance = Instance([0.9, 0.3], [0.1, 1.0], 0.3)
    arms = np.tile([0, 1], 10**6)
    limit = alternating_limit(0.1, 1.0, 0.3), alternating_limit(1.0, 0.1, 0.3)
    gain = 0.9 * limit[0] + 0.3 * limit[1]
    # From q = 1 the transient is worth less than two rewards.
    assert instance.value(arms) / 10**6 == pytest.approx(gain, abs=2 / 10**6)
    billion = bdes.Schedule([Segment([0, 1], 10**9)])
    assert instance.value(billion) / 10**9 == pytest.approx(gain, abs=2 / 10**9)


@pytest.mark.parametrize("lam", [1.0, 0.5, 1e-3, 1e-6, 0.0])
def test_a_million_pulls_stay_on_the_closed_form(lam: float) -> None:
    instance = Instance([1.0], [0.15], lam)
    states = instance.states(np.zeros(10**6, dtype=np.int64))
    pulls = [*range(1000), *range(1000, 10**6, 1000), 10**6 - 1]
    exact = [bdes.state_after_repeating(1.0, 0.15, lam, n) for n in pulls]
    tolerance = 1e-12 if lam >= 1e-3 else 1e-10
    np.testing.assert_allclose(states[pulls], exact, rtol=0, atol=tolerance)


def test_irregular_pulls_stay_on_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    b = rng.random(5)
    arms = rng.integers(0, 5, 10**6)
    for lam, tolerance in ((0.3, 1e-12), (1e-3, 1e-12), (1e-5, 1e-10)):
        states = Instance(np.ones(5), b, lam).states(arms)
        # The weights of what was pulled so long ago that it is below the last bit are left out.
        longest = min(10**6, math.ceil(math.log(1e-20) / math.log1p(-lam)))
        weights = lam * (1 - lam) ** np.arange(longest - 1, -1, -1.0)
        for t in [0, 1, 2, 3, 10, 100, 1000, *range(20_011, 10**6, 40_009), 999_999]:
            # q_t = (1-lam)^t + lam * sum over s < t of (1-lam)^(t-1-s) b[arm_s], summed exactly.
            recent = arms[max(t - longest, 0) : t]
            earlier = math.fsum(weights[longest - recent.size :] * b[recent])
            exact = earlier + (1 - lam) ** t
            assert states[t] == pytest.approx(exact, abs=tolerance), t


@pytest.mark.parametrize("lam", [1e-6, 1e-13, 1e-15])
def test_repeats_keep_digits_at_tiny_rates(lam: float) -> None:
    """From state 0 after n pulls of one arm: b·(1 - (1 - lam)^n), exactly."""
    instance = Instance([1.0], [0.5], lam, q0=0.0)
    n = 10**9
    exact = -0.5 * math.expm1(n * math.log1p(-lam))
    assert instance.state_after(bdes.Schedule([Segment([0], n)])) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("lam", [1e-4, 0.01, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("eps", [0.5, 0.1, 1e-3])
def test_settling_pulls_is_the_smallest_number(lam: float, eps: float) -> None:
    n = settling_pulls(lam, eps)
    assert (1 - lam) ** n <= lam * eps
    assert n == 0 or (1 - lam) ** (n - 1) > lam * eps
    for q, b in itertools.product((0.0, 1.0), repeat=2):
        assert abs(bdes.state_after_repeating(q, b, lam, n) - b) <= eps


def exact_logarithm(value: Fraction) -> Fraction:
    """Return ln(value), 0 < value < 1, to more than 50 digits: halvings, and atanh's series."""
    scale, total = 10**60, 0
    halvings = math.ceil(-math.log2(value)) - 1
    for x, times in ((value * 2**halvings, 1), (Fraction(1, 2), halvings)):
        y = (x - 1) / (x + 1)
        series = sum(int(y ** (2 * k + 1) * scale) // (2 * k + 1) for k in range(70))
        total += 2 * times * series
    return Fraction(total, scale)


@pytest.mark.parametrize("eps", [0.5, 0.1, 1e-3])
@pytest.mark.parametrize("lam", [1e-9, 1e-12, 1e-17])
def test_settling_pulls_is_exact_for_small_rates(lam: float, eps: float) -> None:
    n, rate = settling_pulls(lam, eps), Fraction(lam)
    # log(1 - rate) lies between these two, as its series shows.
    low, high = -(rate + rate**2 / 2 + rate**3 / 2), -(rate + rate**2 / 2 + rate**3 / 3)
    target = exact_logarithm(rate * Fraction(eps))
    assert n * high <= target
    assert (n - 1) * low > target


@pytest.mark.parametrize("lam", [1e-100, 1e-300, 5e-324])
def test_settling_pulls_is_found_at_any_rate(lam: float) -> None:
    assert settling_pulls(lam, 0.1) * Fraction(lam) == pytest.approx(-math.log(lam) - math.log(0.1))


def test_whole_settling_pulls_are_not_rounded_up() -> None:
    # (1/2)^(k+1) is exactly lam·eps = 1/2·2^-k.
    for k in range(1, 60):
        assert settling_pulls(0.5, 0.5**k) == k + 1
    assert settling_pulls(1.0, 0.5) == 1
    assert settling_pulls(0.5, 2.0) == 0
    assert settling_pulls(1e-200, 1e-200) > 10**202


@pytest.mark.parametrize("eps", [0.0, -1.0, math.nan, math.inf, "x", True])
def test_settling_pulls_rejects_a_bad_eps(eps: float) -> None:
    with pytest.raises(InvalidValueError, match="eps"):
        settling_pulls(0.5, eps)


def test_nothing_settles_at_lam_zero() -> None:
    for compute in (lambda: settling_pulls(0.0, 0.1), lambda: alternating_limit(0.2, 0.4, 0.0)):
        with pytest.raises(InvalidValueError, match="lam = 0"):
            compute()


@pytest.mark.parametrize("lam", [0.05, 0.3, 1.0])
def test_alternating_for_long_reaches_the_limit(lam: float) -> None:
    states = Instance([1.0, 1.0], [0.2, 0.7], lam).states(np.tile([0, 1], 1000))
    limits = [alternating_limit(0.2, 0.7, lam), alternating_limit(0.7, 0.2, lam)]
    np.testing.assert_allclose(states[-2:], limits, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"r": [], "b": []}, "at least one arm"),
        ({"r": [[0.5]], "b": [[0.5]]}, "shape"),
        ({"r": [0.5, 0.5]}, "2 and 1"),
        ({"r": [math.nan]}, "finite"),
        ({"b": [math.inf]}, "finite"),
        ({"r": [-0.1]}, "at least 0"),
        ({"r": ["x"]}, "number"),
        ({"r": [10**400]}, "number"),
        *(
            ({name: values}, "not true or false")
            for name in ("r", "b")
            for values in ([True], [True, 0.5], np.array([True]), [0.5, np.False_])
        ),
        *(({"lam": lam}, r"\[0, 1\]") for lam in (1.1, math.nan, True)),
        *(({"q0": q0}, "q0") for q0 in (-1.0, math.inf, 10**400)),
    ],
)
def test_instance_rejects_bad_values(wrong: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"r": [0.5], "b": [0.5], "lam": 0.5}
    with pytest.raises(InvalidValueError, match=message):
        Instance(**(good | wrong))


def test_instance_takes_numbers_above_one() -> None:
    assert Instance([5.0], [3.0], 0.5, 2.0).value([0, 0]) == pytest.approx(5 * 2 + 5 * 2.5)


@pytest.mark.parametrize(
    "arms", [[2], [-1], [], [0.5], [[0]], [True, 0], [np.True_], [10**30], [2**63]]
)
def test_states_rejects_bad_arms(arms: list[int]) -> None:
    with pytest.raises(InvalidValueError):
        Instance([0.5, 0.5], [0.5, 0.5], 0.5).states(arms)


def test_instance_cannot_be_changed() -> None:
    r = np.array([0.5, 0.5])
    instance = Instance(r, [0.1, 0.2], 0.5)
    r[0] = 0.9
    assert instance.r[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        instance.r[0] = 0.9
    assert instance == Instance([0.5, 0.5], [0.1, 0.2], 0.5)
    assert instance != Instance([0.5, 0.4], [0.1, 0.2], 0.5)


BAD_PROBLEMS: dict[str, list[Any]] = {
    "n_arms": [0, True],
    "horizon": [0, 1.5, np.True_],
    "lam": [2.0],
    "replenishing_arm": [3, -1, True, 1.0],
    "q0": [math.nan],
}


@pytest.mark.parametrize(
    "wrong", [{name: value} for name, values in BAD_PROBLEMS.items() for value in values]
)
def test_problem_rejects_bad_values(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        bdes.Problem(**({"n_arms": 3, "horizon": 10} | wrong))
