"""Shared by the arithmetic tests: values of expressions at all points of a box, and random ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from tensorir.expr import BinOp, Cast, Const, Expr, Not, Select, Var, binary, select
from tensorir.text.printer import format_expr

OPERATIONS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def evaluate(e: Expr, env: Mapping[Var, np.ndarray]) -> np.ndarray:
    """The value of `e` at every point; division by zero gives any value."""
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, Const):
        return np.asarray(e.value, dtype=e.dtype)
    if isinstance(e, Not):
        return np.logical_not(evaluate(e.a, env))
    if isinstance(e, Cast):
        return evaluate(e.a, env).astype(e.dtype)
    if isinstance(e, Select):
        return np.where(evaluate(e.cond, env), evaluate(e.a, env), evaluate(e.b, env))
    assert isinstance(e, BinOp), format_expr(e)
    with np.errstate(divide="ignore", over="ignore"):
        return OPERATIONS[e.op](evaluate(e.a, env), evaluate(e.b, env))


def box(ranges: Mapping[Var, range]) -> dict[Var, np.ndarray]:
    """All points: for every variable a flat array of its values."""
    points = np.array(list(itertools.product(*ranges.values())), dtype="int64")
    points = points.reshape(-1, len(ranges))
    return {var: points[:, n].astype(var.dtype) for n, var in enumerate(ranges)}


def restrict(env: Mapping[Var, np.ndarray], cond: Expr) -> dict[Var, np.ndarray]:
    """The points where `cond` holds."""
    size = len(next(iter(env.values())))
    mask = np.broadcast_to(evaluate(cond, env), (size,))
    return {var: values[mask] for var, values in env.items()}


def same_value(a: Expr, b: Expr, env: Mapping[Var, np.ndarray]) -> bool:
    return bool(np.all(evaluate(a, env) == evaluate(b, env)))


def index_exprs(
    variables: list[Var], leaves: int = 8, bits: bool = False
) -> st.SearchStrategy[Expr]:
    """Integer expressions as schedules make them, and some that they do not; those on `bits` may
    have no bounds."""
    constants = st.integers(-6, 12).map(lambda v: Const(v, "int64"))
    divisors = st.sampled_from([1, 2, 3, 4, 6, 8]).map(lambda v: Const(v, "int64"))
    leaf = st.sampled_from(variables) | constants
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(binary, st.sampled_from(["+", "-", "+"]), inner, inner),
            st.builds(binary, st.just("*"), inner, constants),
            st.builds(binary, st.sampled_from(["//", "%", "//", "%"]), inner, divisors),
            st.builds(binary, st.sampled_from(["min", "max"]), inner, inner),
            st.builds(lambda e: binary("max", e, 0 - e), inner),
            *(on_bits(inner) if bits else ()),
            st.builds(
                lambda op, a, b, x, y: select(binary(op, a, b), x, y),
                st.sampled_from(["<", "<=", "==", "!="]),
                inner,
                inner,
                inner,
                inner,
            ),
        ),
        max_leaves=leaves,
    )


def on_bits(inner: st.SearchStrategy[Expr]) -> list[st.SearchStrategy[Expr]]:
    shifts = st.integers(0, 4).map(lambda v: Const(v, "int64"))
    return [
        st.builds(binary, st.sampled_from(["&", "|", "^"]), inner, inner),
        st.builds(binary, st.sampled_from(["<<", ">>"]), inner, shifts),
    ]


def conditions(variables: list[Var], leaves: int = 4) -> st.SearchStrategy[Expr]:
    """Comparisons of index expressions, joined and negated."""
    side = index_exprs(variables, leaves)
    compared = st.builds(binary, st.sampled_from(["<", "<=", "==", "!="]), side, side)
    return st.recursive(
        compared,
        lambda inner: st.one_of(
            st.builds(binary, st.sampled_from(["and", "and", "or"]), inner, inner),
            inner.map(lambda c: c if isinstance(c, Const) else Not(c)),
        ),
        max_leaves=3,
    )


def narrow_exprs(a: Expr, b: Expr) -> st.SearchStrategy[Expr]:
    """Expressions of the small integer type of `a` and `b`, with wrap-around."""
    constants = st.integers(0, 100).map(lambda v: Const(v, a.dtype))
    leaf = st.sampled_from([a, b]) | constants
    operators = st.sampled_from(["+", "-", "*", "min", "max", "&", "|", "^"])

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        divisors = st.integers(1, 9).map(lambda v: Const(v, a.dtype))
        compared = st.builds(binary, st.sampled_from(["<", "<=", "==", "!="]), inner, inner)
        return st.one_of(
            st.builds(binary, operators, inner, inner),
            st.builds(binary, st.sampled_from(["//", "%"]), inner, divisors),
            st.builds(select, compared, inner, inner),
        )

    return st.recursive(leaf, grow, max_leaves=6)
