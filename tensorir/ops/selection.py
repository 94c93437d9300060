"""Parts of tensors, and tensors of parts: slice, split, concat, stack."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr, const, int_value
from tensorir.ops.arguments import (
    check_axis,
    check_shape,
    check_tensor,
    require,
    same_size,
    static,
)
from tensorir.ops.rearrange import expand_dims
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor

MOST_PARTS = 1024
"""Parts that a dimension with fewer elements is split into."""


def _same_types(op: str, tensors: Any) -> list[Tensor]:
    given = list(tensors) if isinstance(tensors, (tuple, list)) else []
    require(len(given) > 0, op, f"{tensors!r} is no sequence of tensors; give [a, b, ...]")
    for n, t in enumerate(given):
        check_tensor(op, f"tensor {n}", t)
        check_tensor(op, f"tensor {n}", t, given[0].ndim)
        require(
            t.dtype == given[0].dtype, op,
            f"tensors 0 and {n} are {given[0].dtype} and {t.dtype}; convert one with ops.cast",
        )  # fmt: skip
    return given


@operator(
    reference=np.concatenate,
    examples=[
        Example([(2, 3), (4, 3)]),
        Example([("n", 2), ("n", 3), ("n", 1)], {"axis": 1}, "float16", sizes={"n": 2}),
        Example([(3,), (0,), (2,)], {"axis": -1}, "bool"),
        Example([("n", 2), ("m", 2)], {"axis": 0}, sizes={"n": 2, "m": 3}),
        Example([(2, 3)], {"axis": 0}),
    ],
    variadic=True,
)
def concat(tensors: Sequence[Tensor], axis: int = 0, name: str = "concat") -> Tensor:
    """The tensors one after the other along `axis`; all other sizes are the same."""
    given = _same_types("concat", tensors)
    first = given[0]
    at = check_axis("concat", axis, first.ndim)
    starts = [const(0)]
    for n, t in enumerate(given):
        for d in range(first.ndim):
            require(
                d == at or same_size(t.shape[d], first.shape[d]), "concat",
                f"{first!r} and tensor {n}, {t!r}, differ in dimension {d}, and only {at} may",
            )  # fmt: skip
        starts.append(starts[-1] + t.shape[at])  # type: ignore[arg-type]
    kept = [(t, s, e) for t, s, e in zip(given, starts, starts[1:]) if int_value(t.shape[at]) != 0]
    kept = kept or [(first, starts[0], starts[1])]

    def element(*i: Expr) -> Expr:
        def read(t: Tensor, start: Expr) -> Expr:
            return t[(*i[:at], i[at] - start, *i[at + 1 :])]

        last, start, _ = kept[-1]
        e = read(last, start)
        for t, start, end in reversed(kept[:-1]):
            e = te.if_then_else(i[at] < end, read(t, start), e)
        return e

    shape = [*first.shape[:at], starts[-1], *first.shape[at + 1 :]]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=np.stack,
    examples=[
        Example([(2, 3), (2, 3)]),
        Example([(3,), (3,), (3,)], {"axis": -1}, "int8"),
        Example([("n", 2)], {"axis": 1}, sizes={"n": 3}),
    ],
    variadic=True,
)
def stack(tensors: Sequence[Tensor], axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new dimension `axis` of the result."""
    given = _same_types("stack", tensors)
    at = check_axis("stack", axis, given[0].ndim + 1)
    for n, t in enumerate(given):
        check_shape("stack", f"tensor {n}", t, given[0].shape)
    return concat([expand_dims(t, at, f"part{n}") for n, t in enumerate(given)], at, name)


@operator(
    reference=lambda x, parts, axis=0: np.split(x, parts, axis),
    examples=[
        Example([(6, 2)], {"parts": 3}),
        Example([("n", 7)], {"parts": (2, 3), "axis": 1}, "int8", sizes={"n": 2}),
        Example([(4,)], {"parts": (0, 4)}),
    ],
)
def split(
    x: Tensor, parts: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Parts of `x` along `axis`: as many equal ones as `parts` says, or with borders at `parts`."""
    check_tensor("split", "x", x)
    at = check_axis("split", axis, x.ndim)
    size = static("split", f"dimension {at} of x", x.shape[at])
    if isinstance(parts, (Sequence, np.ndarray)):
        borders = [0, *parts, size]
        require(
            sorted(borders) == borders, "split",
            f"borders {tuple(parts)!r} must not decrease, and lie from 0 to {size}",
        )  # fmt: skip
    else:
        require(
            parts >= 1 and size % parts == 0, "split",
            f"{size} elements are not {parts} equal parts; give the borders, as in ({size // 2},)",
        )  # fmt: skip
        most = max(size, MOST_PARTS)  # of nothing there are as many parts as one likes
        require(parts <= most, "split", f"parts={parts} are more than {most}")
        borders = [n * (size // parts) for n in range(parts + 1)]

    def part(start: int, end: int, n: int) -> Tensor:
        shape = [*x.shape[:at], const(end - start), *x.shape[at + 1 :]]
        return te.compute(  # type: ignore[no-any-return]
            shape, lambda *i: x[(*i[:at], i[at] + start, *i[at + 1 :])], f"{name}_{n}"
        )

    return tuple(part(*ends, n) for n, ends in enumerate(zip(borders, borders[1:])))


def _numpy_slice(x: Any, begin: Any, end: Any, strides: Any = None, axes: Any = None) -> Any:
    at = [np.s_[:]] * x.ndim
    chosen = range(len(begin)) if axes is None else axes
    for a, b, e, s in zip(chosen, begin, end, strides or [None] * len(begin)):
        at[a] = np.s_[b:e:s]
    return x[tuple(at)]


@operator(
    reference=_numpy_slice,
    examples=[
        Example([(5, 6)], {"begin": (1, 0), "end": (4, 5), "strides": (1, 2)}),
        Example([("n", 7)], {"begin": (-2,), "end": (-6,), "strides": (-1,), "axes": (1,)},
                sizes={"n": 2}),
        Example([(5,)], {"begin": (3,), "end": (2,)}, "int8"),
        Example([(5,)], {"begin": (None,), "end": (99,)}),
    ],
)  # fmt: skip
def slice(
    x: Tensor,
    begin: Sequence[int | None],
    end: Sequence[int | None],
    strides: Sequence[int | None] | None = None,
    axes: Sequence[int] | None = None,
    name: str = "slice",
) -> Tensor:
    """x[begin:end:stride] along each of `axes`, the first ones if they are not given, as Python's.

    Dimensions that are sliced have numbers as sizes.
    """
    check_tensor("slice", "x", x)
    steps = [None] * len(begin) if strides is None else list(strides)
    chosen = list(range(len(begin))) if axes is None else list(axes)
    require(
        len(begin) == len(end) == len(steps) == len(chosen), "slice",
        f"begin={begin!r}, end={end!r}, strides={strides!r} and axes={axes!r} differ in length",
    )  # fmt: skip
    require(0 not in steps, "slice", f"strides={strides!r} has a 0; use 1")
    ranges = {}
    for a, low, high, step in zip(chosen, begin, end, steps):
        d = check_axis("slice", a, x.ndim, "axes")
        require(d not in ranges, "slice", f"axes={axes!r} names dimension {d} twice")
        size = static("slice", f"dimension {d} of x", x.shape[d])
        ranges[d] = range(size)[builtins.slice(low, high, step)]

    def element(*i: Expr) -> Expr:
        at = list(i)
        for d, r in ranges.items():
            at[d] = i[d] * r.step + r.start
        return x[tuple(at)]

    shape = [const(len(ranges[d])) if d in ranges else s for d, s in enumerate(x.shape)]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]
