"""Running sums and products along an axis, by te.scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, binary, const, int_value
from tensorir.ops.arguments import accumulator, check_axis, check_tensor, require
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor


def _running(function: Callable[..., Any], unit: int) -> Callable[..., Any]:
    def reference(x: Any, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Any:
        x = np.flip(x, axis) if reverse else x
        y = function(x, axis=axis, dtype=x.dtype)
        if exclusive:
            y = np.roll(y, 1, axis)
            y[(*[np.s_[:]] * (axis % x.ndim), np.s_[:1])] = unit
        return np.flip(y, axis) if reverse else y

    return reference


def _scan(
    op: str, x: Tensor, axis: int, exclusive: bool, reverse: bool, unit: int, name: str
) -> Tensor:
    """The scan runs along the first dimension; what comes before and after turns `x` around."""
    check_tensor(op, "x", x)
    require(not dt.is_bool(x.dtype), op, f"x {x!r} is bool; convert it with ops.cast")
    at = check_axis(op, axis, x.ndim)
    size, acc = x.shape[at], accumulator(x.dtype)
    one = const(unit, acc)
    if int_value(size) in (0, 1):  # a scan has a step at least
        only = te.cast(one, x.dtype)
        return te.compute(x.shape, lambda *i: only if exclusive else x[i], name)  # type: ignore[no-any-return]

    def read(t: Expr, rest: tuple[Expr, ...]) -> Expr:
        j = size - 1 - t if reverse else t
        return te.cast(x[(*rest[:at], j, *rest[at:])], acc)

    others = [s for d, s in enumerate(x.shape) if d != at]
    shape = (size, *others)
    state = te.state(shape, acc, name="state")

    def start(t: Expr, *rest: Expr) -> Expr:
        e = read(t, rest)
        return e if int_value(size) is not None else te.if_then_else(t < size, e, one)

    first = te.compute((1, *others), start, "first")
    step = te.compute(
        shape,
        lambda t, *r: binary(
            "+" if op == "cumsum" else "*",
            state[(t - 1, *r)],
            read(t, r),
        ),
        "step",
    )
    plain = at == 0 and not reverse and not exclusive and acc == x.dtype
    scanned: Tensor = te.scan(first, step, state, name=name if plain else "running")
    if plain:
        return scanned

    def element(*i: Expr) -> Expr:
        t = size - 1 - i[at] if reverse else i[at]
        rest = (*i[:at], *i[at + 1 :])
        e = scanned[(t - 1 if exclusive else t, *rest)]
        return te.cast(te.if_then_else(t > 0, e, one) if exclusive else e, x.dtype)

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


EXAMPLES = [
    Example([(5,)]),
    Example([("n", 3)], {"axis": 0}, sizes={"n": 4}),
    Example([("n",)], {"reverse": True}, sizes={"n": 5}),
    Example([(2, "n")], {"exclusive": True}, sizes={"n": 1}),
    Example([(2, 7)], {"exclusive": True}),
    Example([(3, 4, 2)], {"axis": 1, "reverse": True}, "float16"),
    Example([(2, 5)], {"reverse": True, "exclusive": True}, "int32"),
    Example([(2, 0)]),
    Example([(3, 1)]),
    Example([(3, 1)], {"exclusive": True}),
]


@operator(reference=_running(np.cumsum, 0), examples=EXAMPLES)
def cumsum(
    x: Tensor,
    axis: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "cumsum",
) -> Tensor:
    """Sums of the elements up to each one along `axis`.

    `exclusive` leaves the element itself out, `reverse` sums from the end. float16 and bfloat16 are
    summed in float32, other types in their own.
    """
    return _scan("cumsum", x, axis, exclusive, reverse, 0, name)


@operator(reference=_running(np.cumprod, 1), examples=EXAMPLES)
def cumprod(
    x: Tensor,
    axis: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "cumprod",
) -> Tensor:
    """Products of the elements up to each one along `axis`; arguments as for cumsum."""
    return _scan("cumprod", x, axis, exclusive, reverse, 1, name)
