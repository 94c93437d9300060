"""Matrix products with what usually follows them: matmul, batch_matmul, linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorir import te
from tensorir.expr import Expr
from tensorir.ops.arguments import check_choice, check_tensor, require, same_size
from tensorir.ops.broadcast import broadcast_indices, broadcast_shape
from tensorir.ops.epilogue import (
    finish,
    finished,
    product_dtype,
    stage_name,
    times,
)
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor


def _out_dtype(a: Tensor, acc: str, out_dtype: str | None) -> str:
    """The type of the result: what is asked for, that of float inputs, int32 for integers."""
    return out_dtype or (a.dtype if acc == "float32" else acc)


def _axis_names(rank: int) -> tuple[str, ...]:
    """b, i, j; more dimensions of a batch are b0, b1, ..."""
    batch = [f"b{n}" for n in range(rank - 2)] if rank > 3 else ["b"] * (rank - 2)
    return (*batch, *("i", "j")[2 - min(rank, 2) :])


def _multiplied(
    op: str,
    a: Tensor,
    b: Tensor,
    shape: tuple[Expr, ...],
    depth: Expr,
    element: Callable[..., tuple[Expr, Expr]],
    bias: Tensor | None,
    activation: str | None,
    out_dtype: str | None,
    name: str,
) -> Tensor:
    """Sums over `depth` of the products of the pairs that `element(*indices, k)` reads."""
    acc = product_dtype(op, a, b)
    dtype = _out_dtype(a, acc, out_dtype)
    k, axes = te.reduce_axis(depth, name="k"), _axis_names(len(shape))
    product = te.compute(
        shape,
        name_axes(axes, lambda *i: te.sum(times(*element(*i, k), acc), axis=k)),
        stage_name(name, "product", bias, activation, dtype == acc),
    )
    return finish(op, product, bias, len(shape) - 1, activation, dtype, name, axes)


def _swap(x: Any, wanted: bool) -> Any:
    return np.swapaxes(x, -1, -2) if wanted else x


def _wide(x: Any) -> Any:
    return x.astype(np.int32) if x.dtype.kind in "iu" and x.dtype.itemsize < 4 else x


def _matmul_reference(
    a: Any, b: Any, bias: Any = None, activation: Any = None, transpose_a: bool = False,
    transpose_b: bool = False, out_dtype: Any = None,
) -> Any:  # fmt: skip
    y = np.matmul(_swap(_wide(a), transpose_a), _swap(_wide(b), transpose_b))
    y = finished(y, bias, (-1,), activation)
    return y if out_dtype is None else y.astype(out_dtype)


BATCHES = [
    Example([(3, 4, 5), (3, 5, 2)]),
    Example([("b", 3, 5), ("b", 4, 5)], {"transpose_b": True}, sizes={"b": 2}),
    Example([(2, 5, 3), (2, 5, 1), (1,)], {"transpose_a": True, "activation": "tanh"}),
    Example([(0, 2, 3), (0, 3, 2)]),
    Example([(2, 3, 4), (2, 4, 3)], dtypes="float16"),
]


@operator(
    reference=_matmul_reference,
    examples=[
        Example([(4, 7), (7, 5)]),
        Example([("n", 6), (6, "m")], sizes={"n": 3, "m": 5}),
        Example([(7, 4), (5, 7)], {"transpose_a": True, "transpose_b": True}, dtypes="float64"),
        Example([(2, 1, 3, 4), (3, 4, 2)]),
        Example([(4, 3), (3, 5), (5,)], {"activation": "relu"}),
        Example([(4, 3), (3, 5), (5,)], {"activation": "gelu_tanh"}, dtypes="float16"),
        Example([(4, 8), (8, 3)], dtypes="bfloat16"),
        Example([(4, 8), (8, 3)], {"out_dtype": "float32"}, dtypes="bfloat16"),
        Example([(3, 8), (8, 5)], dtypes=("uint8", "int8")),
        Example([(3, 8), (8, 5), (5,)], {"activation": "relu"}, dtypes=("int8", "int8", "int32")),
        Example([(2, 0), (0, 3)]),
        Example([(0, 2), (2, 3)]),
        Example([(1, 1), (1, 1)], dtypes="int64"),
    ],
)
def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
    name: str = "matmul",
) -> Tensor:
    """a[..., m, k] @ b[..., k, n] + bias[n], activated; leading dimensions are broadcast.

    A transposed `a` is [..., k, m], a transposed `b` [..., n, k]. float16 and bfloat16 are
    accumulated in float32; products of int8, uint8 and int16 in int32, which is then the type of
    the result and of `bias`. `activation` is a name of ops.ACTIVATIONS.
    """
    for what, t in (("a", a), ("b", b)):
        check_tensor("matmul", what, t)
        require(t.ndim >= 2, "matmul", f"{what} {t!r} has fewer than 2 dimensions; use ops.reshape")
    m, depth = (a.shape[-1], a.shape[-2]) if transpose_a else (a.shape[-2], a.shape[-1])
    inner, n = (b.shape[-1], b.shape[-2]) if transpose_b else (b.shape[-2], b.shape[-1])
    require(
        same_size(depth, inner), "matmul",
        f"a {a!r} sums over {depth!r} elements and b {b!r} over {inner!r}; they must be equal, "
        "transpose_a= and transpose_b= exchange the last two dimensions",
    )  # fmt: skip
    lead = broadcast_shape("matmul", a, b, last=2)

    def element(*i: Expr) -> tuple[Expr, Expr]:
        *batch, row, column, k = i
        left = (k, row) if transpose_a else (row, k)
        right = (column, k) if transpose_b else (k, column)
        return _read(a, batch, left), _read(b, batch, right)

    return _multiplied(
        "matmul", a, b, (*lead, m, n), depth, element, bias, activation, out_dtype, name
    )


def _read(x: Tensor, batch: list[Expr], last: tuple[Expr, Expr]) -> Expr:
    return x[(*broadcast_indices(x.shape[:-2], batch), *last)]


@operator(reference=_matmul_reference, examples=BATCHES)
def batch_matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
    name: str = "batch_matmul",
) -> Tensor:
    """a[b, m, k] @ b[b, k, n] for each of the batch; otherwise as matmul."""
    check_tensor("batch_matmul", "a", a, 3)
    check_tensor("batch_matmul", "b", b, 3)
    require(
        same_size(a.shape[0], b.shape[0]), "batch_matmul",
        f"a {a!r} and b {b!r} have different batches; ops.matmul broadcasts",
    )  # fmt: skip
    return matmul(a, b, bias, activation, transpose_a, transpose_b, out_dtype, name)


def _linear_reference(
    x: Any, weight: Any, bias: Any = None, activation: Any = None, layout: str = "NK",
    out_dtype: Any = None,
) -> Any:  # fmt: skip
    equation = "...k,nk->...n" if layout == "NK" else "...k,kn->...n"
    y = finished(np.einsum(equation, _wide(x), _wide(weight)), bias, (-1,), activation)
    return y if out_dtype is None else y.astype(out_dtype)


@operator(
    reference=_linear_reference,
    examples=[
        Example([(3, 7), (5, 7)]),
        Example([("n", 7), (7, 5), (5,)], {"layout": "KN", "activation": "relu"}, sizes={"n": 3}),
        Example([(2, 3, 4), (5, 4), (5,)], {"activation": "silu"}),
        Example([(4,), (3, 4), (3,)], {"activation": "sigmoid"}),
        Example([(3, 8), (5, 8), (5,)], dtypes=("uint8", "int8", "int32")),
        Example([(3, 8), (5, 8), (5,)], {"out_dtype": "float32"}, dtypes="bfloat16"),
        Example([(0, 4), (3, 4)]),
    ],
)
def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    layout: str = "NK",
    out_dtype: str | None = None,
    name: str = "linear",
) -> Tensor:
    """A dense layer: x[..., k] times weight[n, k], plus bias[n], activated.

    `layout` "KN" is for weight[k, n]. Types are as in matmul.
    """
    check_tensor("linear", "x", x)
    check_tensor("linear", "weight", weight, 2)
    check_choice("linear", "layout", layout, ("NK", "KN"))
    require(x.ndim >= 1, "linear", f"x {x!r} has no dimension; use ops.reshape")
    n, depth = weight.shape if layout == "NK" else weight.shape[::-1]
    require(
        same_size(x.shape[-1], depth), "linear",
        f"x {x!r} has {x.shape[-1]!r} features and weight {weight!r} of layout {layout!r} takes "
        f"{depth!r}; use layout={'KN' if layout == 'NK' else 'NK'!r} or another weight",
    )  # fmt: skip

    def element(*i: Expr) -> tuple[Expr, Expr]:
        *rows, j, k = i
        return x[(*rows, k)], weight[(j, k) if layout == "NK" else (k, j)]

    shape = (*x.shape[:-1], n)
    return _multiplied(
        "linear", x, weight, shape, depth, element, bias, activation, out_dtype, name
    )
