"""The same elements in another order or shape: transpose, reshape, flip, tile and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir import te
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, ExprLike, const, int_value
from tensorir.ops.arguments import check_axis, check_tensor, require, same_size, static
from tensorir.ops.broadcast import broadcast_read, broadcast_shape
from tensorir.ops.registry import Example, operator
from tensorir.ops.shapes import fill_shape, pair_runs
from tensorir.te.tensor import Tensor, make_shape


@operator(
    reference=lambda x, axes=None: np.transpose(x, axes),
    examples=[
        Example([(3, 5)]),
        Example([("n", 2, 3)], {"axes": (1, -1, 0)}, "int8", sizes={"n": 4}),
        Example([(2, 0, 3)]),
        Example([(2, 3, 4, 5)], {"axes": (0, 2, 3, 1)}, "bfloat16"),
    ],
)
def transpose(x: Tensor, axes: Sequence[int] | None = None, name: str = "transpose") -> Tensor:
    """Dimension d of the result is dimension axes[d] of `x`; None reverses them."""
    check_tensor("transpose", "x", x)
    given = range(x.ndim)[::-1] if axes is None else axes
    order = [check_axis("transpose", a, x.ndim, "axes") for a in given]
    require(
        sorted(order) == list(range(x.ndim)), "transpose",
        f"axes={axes!r} must name each of the {x.ndim} dimensions of x once",
    )  # fmt: skip
    back = [order.index(d) for d in range(x.ndim)]
    shape = [x.shape[d] for d in order]
    return te.compute(shape, lambda *i: x[tuple(i[d] for d in back)], name)  # type: ignore[no-any-return]


def flat_index(indices: Sequence[Expr], sizes: Sequence[Expr]) -> Expr:
    """The row-major index."""
    flat: Expr = const(0)
    for i, size in zip(indices, sizes):
        flat = flat * size + i
    return flat


def _split(flat: Expr, sizes: Sequence[Expr]) -> list[Expr]:
    """The indices whose row-major index is `flat`."""
    parts: list[Expr] = []
    for size in reversed(sizes[1:]):
        parts.append(flat % size)
        flat = flat // size
    return [flat, *reversed(parts)] if sizes else []


@operator(
    reference=lambda x, shape: x.reshape(shape),
    examples=[
        Example([(4, 6)], {"shape": (2, 2, 3, 2)}),
        Example([(2, 3, 4)], {"shape": (6, -1)}, "int16"),
        Example([(3, 4)], {"shape": (2, 6)}),
        Example([(2, 1, 5)], {"shape": -1}),
        Example([(1,)], {"shape": ()}),
        Example([(0, 3)], {"shape": (5, 0)}),
        Example([("n", 6)], {"shape": (-1, 2, 3)}, sizes={"n": 3}),
        Example([("n", 2, 3)], {"shape": (-1, 3)}, sizes={"n": 3}),
    ],
)
def reshape(x: Tensor, shape: Any, name: str = "reshape") -> Tensor:
    """The elements of `x` in row-major order in another shape; -1 stands for what is left.

    Indices are divided only within runs of dimensions that hold the same elements in both shapes.
    """
    check_tensor("reshape", "x", x)
    sizes = fill_shape("reshape", x.shape, shape)
    pairs = pair_runs(x.shape, sizes)
    if pairs is None:
        raise TensorIRError(
            f"reshape: {x!r} and shape={tuple(sizes)!r} do not hold the same number of elements; "
            "use -1 for one of the sizes"
        )
    divisors = [x.shape[d] for left, _ in pairs for d in left[1:]]
    for size in divisors:
        require(
            int_value(size) is not None, "reshape",
            f"{x!r} to {tuple(sizes)!r} divides indices by the symbolic size {size!r}, and what is "
            "read cannot be proved to lie inside; of merged dimensions only the first may be one",
        )  # fmt: skip

    def element(*i: Expr) -> Expr:
        at: list[Expr] = []
        for left, right in pairs:
            flat = flat_index([i[d] for d in right], [sizes[d] for d in right])
            at += _split(flat, [x.shape[d] for d in left])
        return x[tuple(at)]

    return te.compute(sizes, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, axis=None: np.squeeze(x, axis),
    examples=[Example([(1, 3, 1)]), Example([("n", 1)], {"axis": 1}, sizes={"n": 2})],
)
def squeeze(x: Tensor, axis: Any = None, name: str = "squeeze") -> Tensor:
    """`x` without the dimensions `axis`, or all for None, of size 1."""
    check_tensor("squeeze", "x", x)
    ones = [d for d, s in enumerate(x.shape) if int_value(s) == 1]
    given = ones if axis is None else axis if isinstance(axis, (tuple, list)) else [axis]
    gone = [check_axis("squeeze", a, x.ndim) for a in given]
    require(set(gone) <= set(ones), "squeeze", f"axis={axis!r} of x {x!r} is not of size 1")
    return reshape(x, [s for d, s in enumerate(x.shape) if d not in gone], name)


@operator(
    reference=np.expand_dims,
    examples=[Example([(2, 3)], {"axis": 1}), Example([("n",)], {"axis": -1}, sizes={"n": 3})],
)
def expand_dims(x: Tensor, axis: int, name: str = "expand_dims") -> Tensor:
    """`x` with a dimension of size 1 that becomes dimension `axis` of the result."""
    check_tensor("expand_dims", "x", x)
    at = check_axis("expand_dims", axis, x.ndim + 1)
    return reshape(x, [*x.shape[:at], const(1), *x.shape[at:]], name)


@operator(
    reference=lambda x, shape: np.broadcast_to(x, shape),
    examples=[Example([(3, 1)], {"shape": (2, 3, 4)}), Example([()], {"shape": (2,)}, "int8")],
)
def broadcast_to(x: Tensor, shape: Any, name: str = "broadcast_to") -> Tensor:
    """`x` repeated along dimensions of size 1, and along new ones in front."""
    check_tensor("broadcast_to", "x", x)
    sizes = make_shape(shape, "broadcast_to")
    target = te.placeholder(sizes, x.dtype, name="target")
    found = broadcast_shape("broadcast_to", x, target)
    require(
        len(found) == len(sizes) and all(map(same_size, found, sizes)), "broadcast_to",
        f"{x!r} cannot be broadcast to {tuple(sizes)!r}, which would make it smaller",
    )  # fmt: skip
    return te.compute(sizes, lambda *i: broadcast_read(x, i), name)  # type: ignore[no-any-return]


@operator(
    reference=np.flip,
    examples=[
        Example([(3, 4)]),
        Example([("n", 4)], {"axis": 0}, sizes={"n": 3}),
        Example([(2, 3, 2)], {"axis": (0, -1)}, "bool"),
        Example([(0, 3)], {"axis": 0}),
    ],
)
def flip(x: Tensor, axis: Any = None, name: str = "flip") -> Tensor:
    """`x` with the order of the elements along `axis` reversed: one, several, or all for None."""
    check_tensor("flip", "x", x)
    given = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else [axis]
    turned = {check_axis("flip", a, x.ndim) for a in given}

    def element(*i: Expr) -> Expr:
        return x[tuple(s - 1 - v if d in turned else v for d, (s, v) in enumerate(zip(x.shape, i)))]

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=lambda x, shift, axis: np.roll(x, shift, axis),
    examples=[
        Example([(5, 3)], {"shift": 2, "axis": 0}),
        Example([(2, 7)], {"shift": -9, "axis": 1}, "int8"),
        Example([(0, 2)], {"shift": 1, "axis": 0}),
    ],
)
def roll(x: Tensor, shift: int, axis: int, name: str = "roll") -> Tensor:
    """`x` with element j along `axis` at (j + shift) modulo the size."""
    check_tensor("roll", "x", x)
    at = check_axis("roll", axis, x.ndim)
    size = static("roll", f"dimension {at} of x", x.shape[at])
    offset = shift % size if size else 0

    def element(*i: Expr) -> Expr:
        def read(j: Expr) -> Expr:
            return x[(*i[:at], j, *i[at + 1 :])]

        j = i[at]
        late, early = j - offset, j + (size - offset)
        return x[i] if offset == 0 else te.if_then_else(j >= offset, read(late), read(early))

    return te.compute(x.shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=np.tile,
    examples=[
        Example([(2, 3)], {"reps": (2, 3)}),
        Example([(3,)], {"reps": (2, 2)}, "int32"),
        Example([(2, 3)], {"reps": 2}),
        Example([(3,)], {"reps": 0}),
    ],
)
def tile(x: Tensor, reps: Any, name: str = "tile") -> Tensor:
    """`x` repeated as a whole, reps[d] times along dimension d, as np.tile."""
    check_tensor("tile", "x", x)
    counts = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    require(
        all(isinstance(r, int) and r >= 0 for r in counts), "tile",
        f"reps={reps!r} must be integers of at least 0",
    )  # fmt: skip
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    sizes = [const(1)] * (rank - x.ndim) + list(x.shape)

    def element(*i: Expr) -> Expr:
        at = [v if r == 1 else v % s for v, r, s in zip(i, counts, sizes)]
        return x[tuple(at[rank - x.ndim :])]

    shape: list[ExprLike] = [s * r for s, r in zip(sizes, counts)]
    return te.compute(shape, element, name)  # type: ignore[no-any-return]


@operator(
    reference=np.repeat,
    examples=[
        Example([(2, 3)], {"repeats": 2, "axis": 1}),
        Example([("n", 3)], {"repeats": 3, "axis": 0}, sizes={"n": 2}),
        Example([(3,)], {"repeats": 0, "axis": 0}, "int32"),
    ],
)
def repeat(x: Tensor, repeats: int, axis: int, name: str = "repeat") -> Tensor:
    """`x` with each element along `axis` repeated `repeats` times, as np.repeat."""
    check_tensor("repeat", "x", x)
    at = check_axis("repeat", axis, x.ndim)
    require(
        isinstance(repeats, int) and repeats >= 0, "repeat",
        f"repeats={repeats!r} must be an integer of at least 0",
    )  # fmt: skip
    shape = [*x.shape[:at], x.shape[at] * repeats, *x.shape[at + 1 :]]

    def element(*i: Expr) -> Expr:
        return x[(*i[:at], i[at] // max(repeats, 1), *i[at + 1 :])]

    return te.compute(shape, element, name)  # type: ignore[no-any-return]
