"""Types of expressions: what operators and functions do with operands of any types.

docs/types.md has the table and says where it is NumPy's. Programs have none of it: there both
operands of an operator are of one type, and conversions are written out.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import NoReturn

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import (
    Call,
    Const,
    Expr,
    ExprLike,
    Rounded,
    Select,
    cast,
    combine,
    convert,
)
from tensorir.numbers.intrin import MATH, no_such_function
from tensorir.numbers.operators import OF_FLOATS, check_operator

OF_BOOLS = {"&": "and", "*": "and", "min": "and", "|": "or", "+": "or", "max": "or", "^": "!="}
"""What operators of numbers do with two bools, as in NumPy."""

MOST_FACTORS = {"int": 64, "float": 3}
"""Powers up to this one are written as products: of integers, and of floats, where that rounds no
more than the function does."""


@cache
def promote(a: str, b: str) -> str | None:
    """The type of an operation on operands of two scalar types; None where none holds both."""
    if a == b or dt.is_bool(b):
        return a
    if dt.is_bool(a):
        return b
    if dt.is_float(a) or dt.is_float(b):
        if not (dt.is_float(a) and dt.is_float(b)):
            return a if dt.is_float(a) else b
        if dt.bits(a) == dt.bits(b):
            return "float32"  # float16 and bfloat16
        return a if dt.bits(a) > dt.bits(b) else b
    if dt.is_unsigned(a) == dt.is_unsigned(b):
        return a if dt.bits(a) > dt.bits(b) else b
    unsigned, signed = (a, b) if dt.is_unsigned(a) else (b, a)
    if dt.bits(signed) > dt.bits(unsigned):
        return signed
    return f"int{2 * dt.bits(unsigned)}" if dt.bits(unsigned) < 64 else None


def computed_in(dtype: str) -> str:
    """The type in which numbers of `dtype` are computed: float32 for float16 and bfloat16."""
    return "float32" if dtype in dt.STORAGE_ONLY else dtype


def wide(e: Expr) -> Expr:
    """`e` in the type that it is computed in, before it is rounded to its own."""
    return cast(computed_in(e.dtype), e)


def stored(dtype: str, e: Expr) -> Expr:
    """`e`, computed in `computed_in(dtype)`, as an expression of type `dtype`."""
    return Rounded(dtype, e) if dtype in dt.STORAGE_ONLY and e.dtype != "bool" else e


def binary_of_any(op: str, a: Expr, b: Expr) -> Expr:
    """`a op b` where their types differ, or `op` is not defined for their type."""
    if dt.lanes(a.dtype) > 1 or dt.lanes(b.dtype) > 1:
        if a.dtype != b.dtype:
            _differ(repr(op), a.dtype, b.dtype)
        check_operator(op, a.dtype)
    dtype = _common(repr(op), (a, b))
    if op == "**":
        return _power(a, b, dtype)
    if dt.is_float(dtype) and op in OF_FLOATS:
        return call(OF_FLOATS[op], a, b)
    if dt.is_bool(dtype):
        op = OF_BOOLS.get(op, op)
    kind = computed_in(dtype)
    check_operator(op, kind)
    return stored(dtype, combine(op, cast(kind, a), cast(kind, b)))


def select_of_any(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`a` where `condition`, else `b`, where their types differ or they are not yet rounded."""
    dtype = _common("a condition", (a, b))
    kind = computed_in(dtype)
    left, right = cast(kind, a), cast(kind, b)
    if isinstance(condition, Const):
        chosen = left if condition.value else right
    else:
        chosen = left if left is right else Select(condition, left, right)
    return stored(dtype, chosen)


def call(name: str, *args: ExprLike) -> Expr:
    """The function `name` of numbers/intrin.py; float16 and bfloat16 are computed in float32."""
    function = MATH.get(name) if isinstance(name, str) else None
    if function is None:
        raise TensorIRError(f"call: {no_such_function(name)}; te.extern takes C of your own")
    if len(args) != function.arity:
        raise TensorIRError(f"{name} takes {function.arity} operands, not {len(args)}")
    like = next((a.dtype for a in args if isinstance(a, Expr)), "float32")
    exprs = tuple(convert(a, like) for a in args)
    dtype = _common(name, exprs)
    if not function.takes(dtype):
        wanted = " or ".join(f"{kind}s" for kind in function.kinds)
        raise TensorIRError(
            f"{name} needs {wanted}, not {dtype}; use .astype({function.example!r})"
        )
    kind = computed_in(dtype)
    result = "bool" if function.result == "bool" else kind
    return stored(dtype, Call(name, tuple(cast(kind, e) for e in exprs), result))


def _power(a: Expr, b: Expr, dtype: str) -> Expr:
    """A power; small whole ones are products, and roots are NumPy's."""
    if dt.is_bool(dtype):
        check_operator("**", dtype)
    exponent = b.value if isinstance(b, Const) else None
    whole, kind = dt.is_int(dtype), computed_in(dtype)
    if exponent == 0.5:
        return call("sqrt", cast(dtype, a))
    most = MOST_FACTORS["int" if whole else "float"]
    if exponent is None or exponent > most or exponent % 1:
        return call("pow", a, b)
    if exponent < 0 and whole:
        raise TensorIRError(
            f"integers to the power {exponent} are no integers; use .astype('float32') before '**'"
        )
    if exponent < 0:
        return stored(dtype, 1 / cast(kind, a)) if exponent == -1 else call("pow", a, b)
    square, factors = cast(kind, a), list[Expr]()
    for bit in reversed(f"{int(exponent):b}"):
        factors += [square] if bit == "1" else []
        square = square * square
    return stored(dtype, reduce(lambda x, y: x * y, factors or [cast(kind, 1)]))


def _common(what: str, exprs: tuple[Expr, ...]) -> str:
    def merged(a: str, b: str) -> str:
        return promote(a, b) or _differ(what, a, b)

    return reduce(merged, [e.dtype for e in exprs])


def _differ(what: str, a: str, b: str) -> NoReturn:
    raise TensorIRError(
        f"operands of {what} have dtypes {a} and {b}, which no type holds both; "
        "convert one with .astype(...)"
    )
