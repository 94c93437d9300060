"""Functions of two or three tensors, with the broadcasting of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, binary
from tensorir.ops.arguments import check_tensor, number, require, wide
from tensorir.ops.registry import SPECIAL, Example, Fill, integers, operator, uniform, values
from tensorir.te.tensor import Tensor
from tensorir.te.whole import broadcast_indices as broadcast_indices
from tensorir.te.whole import broadcast_read as broadcast_read
from tensorir.te.whole import broadcast_shape as broadcast_shape

Operand = Union[Tensor, float]
Binary = Callable[..., Tensor]


def combine(
    op: str, f: Callable[..., Expr], operands: Sequence[Operand], name: str, dtype: str | None
) -> Tensor:
    """`f` of the elements of operands that are broadcast; numbers stand for themselves.

    Tensors must be of one type; the result is of type `dtype`, or of theirs.
    """
    tensors = [t for t in operands if isinstance(t, Tensor)]
    if not tensors:
        raise TensorIRError(f"{op}: none of the operands is a tensor; use te.placeholder")
    like = tensors[0].dtype
    for t in tensors:
        require(
            t.dtype == like, op,
            f"{tensors[0]!r} and {t!r} are {like} and {t.dtype}; convert one with ops.cast",
        )  # fmt: skip
    numbers = [t if isinstance(t, Tensor) else number(op, t, like) for t in operands]

    def element(*i: Expr) -> Expr:
        parts = [wide(broadcast_read(t, i)) if isinstance(t, Tensor) else t for t in numbers]
        return te.cast(f(*parts), dtype or like)

    return te.compute(broadcast_shape(op, *tensors), element, name)  # type: ignore[no-any-return]


FLOATS = [
    Example([(3, 5), (3, 5)]),
    Example([(2, 1, 3), (4, 1)]),
    Example([(7,), ()], data=(SPECIAL, None)),
    Example([("n", 1), ("n", 4)], dtypes="float16", sizes={"n": 3}),
]
INTEGERS = [Example([(5,), (3, 1)], dtypes="int32"), Example([(0, 2), (2,)], dtypes="int64")]
PAIRS = [Example([(7, 1), (7,)], data=SPECIAL)]


KINDS: dict[str, Callable[[str], bool]] = {
    "number": lambda dtype: not dt.is_bool(dtype),
    "integer": dt.is_int,
    "float": dt.is_float,
    "bool": dt.is_bool,
}


def _checked(op: str, operands: Sequence[Operand], kind: str) -> None:
    for t in operands:
        if isinstance(t, Tensor) and kind != "any":
            require(
                KINDS[kind](t.dtype), op,
                f"{t!r} is {t.dtype} and must hold {kind}s; convert it with ops.cast",
            )  # fmt: skip


def _binary(
    label: str,
    f: Callable[[Expr, Expr], Expr],
    reference: Callable[..., Any],
    summary: str,
    examples: Sequence[Example],
    kind: str = "number",
    dtype: str | None = None,
) -> Binary:
    def function(a: Operand, b: Operand, name: str = label) -> Tensor:
        _checked(label, (a, b), kind)
        return combine(label, f, (a, b), name, dtype)

    function.__name__ = function.__qualname__ = label
    function.__doc__ = summary
    return operator(reference=reference, examples=examples)(function)


def _op(symbol: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: binary(symbol, a, b)


def _few(low: float, high: float) -> Fill:
    return lambda rng, shape: np.round(rng.uniform(low, high, shape))


add = _binary("add", _op("+"), np.add, "a + b.", FLOATS + INTEGERS)
subtract = _binary("subtract", _op("-"), np.subtract, "a - b.", FLOATS + INTEGERS)
multiply = _binary("multiply", _op("*"), np.multiply, "a * b.", FLOATS + INTEGERS)
divide = _binary(
    "divide", _op("/"), np.true_divide, "a / b, of floats.",
    [Example([(3, 5), (5,)], data=(None, uniform(0.5, 2))), *PAIRS], "float",
)  # fmt: skip
WHOLE = [
    Example([(3, 5), (5,)], data=(uniform(-9, 9), uniform(0.7, 2))),
    Example([(7, 1), (7,)], data=values(-2.5, 0.0, -0.0, 3.0, float("inf"), -1.0, float("nan"))),
]
floor_divide = _binary(
    "floor_divide", _op("//"), np.floor_divide, "a / b, rounded down; integer b are not 0.",
    [Example([(3, 5), (5,)], dtypes="int32", data=(None, integers(1, 9))), *WHOLE],
)  # fmt: skip
mod = _binary(
    "mod", _op("%"), np.mod, "The remainder of floor_divide; it has the sign of b.",
    [Example([(3, 5), (5,)], dtypes="int32", data=(None, integers(-9, 0))), *WHOLE],
)  # fmt: skip
maximum = _binary(
    "maximum", _op("max"), np.maximum, "The larger one; NaN if either is.",
    FLOATS + INTEGERS + PAIRS,
)  # fmt: skip
minimum = _binary(
    "minimum", _op("min"), np.minimum, "The smaller one; NaN if either is.",
    FLOATS + INTEGERS + PAIRS,
)  # fmt: skip
power = _binary(
    "power", te.pow, np.power, "a to the power of b; integers wrap.",
    [
        Example([(3, 5), (5,)], dtypes="int32", data=(integers(-9, 10), integers(0, 12))),
        Example([(3, 5), (5,)], data=(uniform(0.1, 3), None)),
        Example([(4,), (4,)], data=(None, values(0, 2, 3))),
        *PAIRS,
    ],
)  # fmt: skip
atan2 = _binary(
    "atan2", te.atan2, np.arctan2, "The angle in radians of the point (b, a).", FLOATS, "float"
)
fmod = _binary(
    "fmod", te.fmod, np.fmod, "The remainder of a / b; it has the sign of a, as in C.",
    [Example([(3, 5), (5,)], data=(uniform(-9, 9), uniform(0.7, 2)))], "float",
)  # fmt: skip

COMPARED = [Example([(3, 5), (5,)], data=_few(-2, 2)), *PAIRS, *INTEGERS]
equal = _binary("equal", _op("=="), np.equal, "a == b, as bool.", COMPARED, "any", "bool")
not_equal = _binary(
    "not_equal", _op("!="), np.not_equal, "a != b, as bool.", COMPARED, "any", "bool"
)
less = _binary("less", _op("<"), np.less, "a < b, as bool.", COMPARED, "number", "bool")
less_equal = _binary(
    "less_equal", _op("<="), np.less_equal, "a <= b, as bool.", COMPARED, "number", "bool"
)
greater = _binary(
    "greater", lambda a, b: b < a, np.greater, "a > b, as bool.", COMPARED, "number", "bool"
)
greater_equal = _binary(
    "greater_equal", lambda a, b: b <= a, np.greater_equal, "a >= b, as bool.", COMPARED,
    "number", "bool",
)  # fmt: skip

BOOLS = [Example([(2, 1), (2,)], dtypes="bool", data=values(False, True))]
logical_and = _binary("logical_and", _op("and"), np.logical_and, "Both a and b.", BOOLS, "bool")
logical_or = _binary("logical_or", _op("or"), np.logical_or, "a or b.", BOOLS, "bool")
logical_xor = _binary("logical_xor", _op("!="), np.logical_xor, "Either a or b.", BOOLS, "bool")
bitwise_and = _binary(
    "bitwise_and", _op("&"), np.bitwise_and, "The bits set in both.", INTEGERS, "integer"
)
bitwise_or = _binary(
    "bitwise_or", _op("|"), np.bitwise_or, "The bits set in either.", INTEGERS, "integer"
)
bitwise_xor = _binary(
    "bitwise_xor", _op("^"), np.bitwise_xor, "The bits set in one only.", INTEGERS, "integer"
)
SHIFTS = [
    Example([(3, 5), (5,)], dtypes="int32", data=(None, values(0, 1, 31, 32, -1))),
    Example([(5,), (5,)], dtypes="uint8", data=(None, values(0, 3, 7, 8, 255))),
]
left_shift = _binary(
    "left_shift", _op("<<"), np.left_shift, "a times 2 to the power of b; 0 from the width on.",
    SHIFTS, "integer",
)  # fmt: skip
right_shift = _binary(
    "right_shift", _op(">>"), np.right_shift,
    "a over 2 to the power of b, rounded down; 0 or -1 from the width on.", SHIFTS, "integer",
)  # fmt: skip


@operator(
    reference=np.where,
    examples=[
        Example([(3, 5), (3, 5), (5,)], dtypes=("bool", "float32", "float32")),
        Example([(4, 1), (3,), ()], dtypes=("bool", "float16", "float16")),
        Example([(7,), (7,), (7,)], dtypes=("bool", *("float32",) * 2), data=(None, SPECIAL, None)),
        Example([(2,), (2,), (2,)], dtypes=("bool", "int8", "int8")),
    ],
)
def where(condition: Tensor, a: Operand, b: Operand, name: str = "where") -> Tensor:
    """`a` where `condition`, of type bool, holds, else `b`; all three are broadcast."""
    check_tensor("where", "condition", condition)
    require(
        dt.is_bool(condition.dtype), "where",
        f"condition {condition!r} is {condition.dtype}, not bool; compare it with ops.not_equal",
    )  # fmt: skip
    tensors = [t for t in (a, b) if isinstance(t, Tensor)]
    like = tensors[0].dtype if tensors else "float32"
    for t in tensors:
        require(
            t.dtype == like, "where",
            f"{tensors[0]!r} and {t!r} are {like} and {t.dtype}; convert one with ops.cast",
        )  # fmt: skip

    def part(t: Operand, i: Sequence[Expr]) -> Expr:
        return broadcast_read(t, i) if isinstance(t, Tensor) else number("where", t, like)

    shape = broadcast_shape("where", condition, *tensors)
    return te.compute(  # type: ignore[no-any-return]
        shape,
        lambda *i: te.if_then_else(
            broadcast_read(condition, i), wide(part(a, i)), wide(part(b, i))
        ).astype(like),
        name,
    )
