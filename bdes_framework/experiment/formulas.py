"""Arithmetic formulas in T and K, such as ``"1-1/sqrt(T)"``: parsed by ``ast``, no ``eval``.

Only numbers, T, K, ``+ - * / **`` and a few functions are computed; anything else raises.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from bdes_framework._internal.text import did_you_mean, listed, quoted
from bdes_framework.errors import InvalidValueError

MAX_FORMULA_LENGTH = 200

_FUNCTIONS: Mapping[str, Callable[[float], float]]
_FUNCTIONS = {"exp": math.exp, "log": math.log, "sqrt": math.sqrt}
_OPERATORS: Mapping[type[ast.operator | ast.unaryop], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def evaluate(text: str, horizon: int, n_arms: int | None) -> float:
    """Return the value of a formula at T = ``horizon`` and K = ``n_arms``.

    >>> evaluate("1 - 1/sqrt(T)", horizon=10_000, n_arms=5)
    0.99
    """
    names = {"T": float(horizon)} | ({} if n_arms is None else {"K": float(n_arms)})
    if len(text) > MAX_FORMULA_LENGTH:
        raise InvalidValueError(
            f"a formula may have {MAX_FORMULA_LENGTH} characters, this one {len(text)}"
        )
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
        value = _value(tree, names)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, InvalidValueError):
            raise
        raise InvalidValueError(f"{quoted(text)} is no formula in T and K") from None
    except (ArithmeticError, OverflowError) as error:
        raise InvalidValueError(f"{quoted(text)} has no value at T = {horizon}: {error}") from None
    if not math.isfinite(value):
        raise InvalidValueError(f"{quoted(text)} has no finite value at T = {horizon}")
    return value


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        if isinstance(node.value, bool):
            raise InvalidValueError("a formula may not hold True or False")
        return float(node.value)
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        hint = did_you_mean(node.id, [*names, *_FUNCTIONS])
        raise InvalidValueError(f"unknown name {quoted(node.id)}.{hint} Known: {listed(names)}")
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _FUNCTIONS.get(node.func.id)
        if function is not None and len(node.args) == 1:
            return function(_value(node.args[0], names))
        if function is None:
            hint = did_you_mean(node.func.id, _FUNCTIONS)
            raise InvalidValueError(
                f"unknown function {quoted(node.func.id)}.{hint} Known: {listed(_FUNCTIONS)}"
            )
    raise InvalidValueError(
        "a formula may hold numbers, T, K, + - * / ** and " + listed(_FUNCTIONS)
    )
