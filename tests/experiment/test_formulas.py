"""Formulas in T and K: right values, and nothing but arithmetic."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bdes_framework import InvalidValueError
from bdes_framework.experiment.formulas import evaluate


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/T", 1e-4),
        ("3 / T", 3e-4),
        ("1-1/sqrt(T)", 0.99),
        ("T**-0.75", 1e-3),
        ("T^-2", 1e-8),
        ("sqrt(K*log(T)/T)", math.sqrt(5 * math.log(1e4) / 1e4)),
        ("exp(-K)", math.exp(-5)),
        ("-(1 - 2) * +0.5", 0.5),
        ("0.1", 0.1),
    ],
)
def test_evaluate_examples(text: str, value: float) -> None:
    assert evaluate(text, 10_000, 5) == pytest.approx(value, rel=1e-14)


formulas = st.recursive(
    st.integers(1, 50).map(str) | st.sampled_from("TK"),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map("".join).map("({})".format)
        | inner.map("sqrt({})".format)
    ),
    max_leaves=8,
)


@given(formulas)
def test_evaluate_agrees_with_python(text: str) -> None:
    try:
        expected = eval(text, {"T": 1000.0, "K": 7.0, "sqrt": math.sqrt})
    except (ValueError, ZeroDivisionError):
        with pytest.raises(InvalidValueError):
            evaluate(text, 1000, 7)
    else:
        assert evaluate(text, 1000, 7) == pytest.approx(expected, rel=1e-12)


WRONG = (
    "|T T|1/0|t|X|T.real|[T][0]|(lambda: T)()|__import__('os')|exec('1')|T if T else K|sqrt(T, T)"
    "|sqrt(x=T)|log(-T)|9**9**9**9|1e999|True|'a'|T == K|T and K|not T|~T|T // K|T % K|T @ K"
    "|print(T)|\x00|1;2|T=3|open('x')|1j|exp(T)"
)


@pytest.mark.parametrize("text", [*WRONG.split("|"), "((((" * 60, "1" * 300])
def test_evaluate_rejects_all_else(text: str) -> None:
    with pytest.raises(InvalidValueError):
        evaluate(text, 10_000, 5)


def test_evaluate_names_the_nearest_match() -> None:
    with pytest.raises(InvalidValueError, match="Did you mean 'sqrt'"):
        evaluate("sqr(T)", 10, 5)
    with pytest.raises(InvalidValueError, match="unknown name 'K'"):
        evaluate("K", 10, None)
