"""Elements at given indices: take, gather, one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, binary
from tensorir.ops.arguments import (
    check_axis,
    check_choice,
    check_tensor,
    number,
    require,
    same_size,
    static,
)
from tensorir.ops.registry import Example, integers, operator
from tensorir.te.tensor import Tensor, make_shape


def _check_indices(op: str, indices: Tensor) -> None:
    check_tensor(op, "indices", indices)
    require(
        dt.is_int(indices.dtype), op, f"indices {indices!r} are {indices.dtype}, and not integers"
    )


def _inside(index: Expr, size: int, mode: str) -> Expr:
    """`index` as int64, within a dimension of that size."""
    e = te.cast(index, dt.INDEX)
    return e % size if mode == "wrap" else te.clip(e, 0, size - 1)


AT = integers(-3, 8)


@operator(
    reference=lambda x, indices, axis=0, mode="clip": np.take(x, indices, axis, mode=mode),
    examples=[
        Example([(5, 3), (4,)], {}, ("float32", "int64"), (None, AT)),
        Example([(2, 4, 3), (2, 2)], {"axis": 1, "mode": "wrap"}, ("int8", "int32"), (None, AT)),
        Example([(5, 4), ("n",)], {}, ("float16", "int32"), (None, AT), {"n": 3}),
        Example([(3,), ()], {}, ("float32", "uint8"), (None, integers(0, 3))),
        Example([(3, 2), (0,)], {}, ("float32", "int64"), (None, AT)),
    ],
)  # fmt: skip
def take(
    x: Tensor, indices: Tensor, axis: int = 0, mode: str = "clip", name: str = "take"
) -> Tensor:
    """The parts of `x` at `indices` along `axis`, as np.take: with axis=0, rows of a table.

    An index outside is the nearest one inside, or counts modulo the size for `mode` "wrap".
    """
    check_tensor("take", "x", x)
    _check_indices("take", indices)
    check_choice("take", "mode", mode, ("clip", "wrap"))
    at = check_axis("take", axis, x.ndim)
    size = static("take", f"dimension {at} of x", x.shape[at])
    require(size > 0, "take", f"dimension {at} of x {x!r} is empty; there is nothing to take")
    last = at + indices.ndim

    def element(*i: Expr) -> Expr:
        return x[(*i[:at], _inside(indices[i[at:last]], size, mode), *i[last:])]

    shape = [*x.shape[:at], *indices.shape, *x.shape[at + 1 :]]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, indices, axis=-1, mode="clip": np.take_along_axis(
        x,
        indices % x.shape[axis] if mode == "wrap" else np.clip(indices, 0, x.shape[axis] - 1),
        axis,
    ),
    examples=[
        Example([(3, 5), (3, 2)], {}, ("float32", "int64"), (None, AT)),
        Example([(4, 3), (7, 3)], {"axis": 0, "mode": "wrap"}, ("int8", "int32"), (None, AT)),
        Example([("n", 5), ("n", 1)], {}, ("float16", "int32"), (None, AT), {"n": 3}),
    ],
)
def gather(
    x: Tensor, indices: Tensor, axis: int = -1, mode: str = "clip", name: str = "gather"
) -> Tensor:
    """x[..., indices[..., j, ...], ...]: an index along `axis` for each element, as
    np.take_along_axis.

    `indices` has the sizes of `x`, but along `axis` its own. `mode` is as for take.
    """
    check_tensor("gather", "x", x)
    _check_indices("gather", indices)
    check_choice("gather", "mode", mode, ("clip", "wrap"))
    at = check_axis("gather", axis, x.ndim)
    size = static("gather", f"dimension {at} of x", x.shape[at])
    require(size > 0, "gather", f"dimension {at} of x {x!r} is empty; there is nothing to take")
    fits = indices.ndim == x.ndim and all(
        d == at or same_size(*pair) for d, pair in enumerate(zip(x.shape, indices.shape))
    )
    require(fits, "gather", f"x {x!r} and indices {indices!r} differ in more than dimension {at}")

    def element(*i: Expr) -> Expr:
        return x[(*i[:at], _inside(indices[i], size, mode), *i[at + 1 :])]

    return te.compute(indices.shape, element, name)  # type: ignore[no-any-return]


def _numpy_one_hot(
    indices: Any, depth: int, axis: int = -1, on: float = 1, off: float = 0, dtype: str = "float32"
) -> Any:
    hot = indices[..., None] == np.arange(depth)
    return np.where(np.moveaxis(hot, -1, axis), on, off).astype(dtype)


@operator(
    reference=_numpy_one_hot,
    examples=[
        Example([(4,)], {"depth": 5}, "int64", AT),
        Example([("n", 2)], {"depth": 3, "axis": 0, "dtype": "int8"}, "int32", AT, {"n": 3}),
        Example([(2, 3)], {"depth": 4, "axis": 1, "on": 0.9, "off": 0.1}, "uint8", integers(0, 5)),
        Example([()], {"depth": 2, "dtype": "bool", "on": True, "off": False}, "int32", AT),
    ],
)
def one_hot(
    indices: Tensor,
    depth: int,
    axis: int = -1,
    on: float = 1,
    off: float = 0,
    dtype: str = "float32",
    name: str = "one_hot",
) -> Tensor:
    """`on` where an index is the position along a new dimension `axis` of `depth`, else `off`.

    An index outside of 0 to depth - 1 is nowhere.
    """
    _check_indices("one_hot", indices)
    at = check_axis("one_hot", axis, indices.ndim + 1)
    sizes = make_shape([depth], "one_hot")
    high, low = (number("one_hot", v, dt.check_dtype(dtype)) for v in (on, off))

    def element(*i: Expr) -> Expr:
        index = te.cast(indices[(*i[:at], *i[at + 1 :])], dt.INDEX)
        return te.cast(te.if_then_else(binary("==", i[at], index), high, low), dtype)

    shape = [*indices.shape[:at], *sizes, *indices.shape[at:]]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]
