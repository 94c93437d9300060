"""Sums of products in the notation of Einstein: any contraction in one stage."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir import te
from tensorir.errors import TensorIRError
from tensorir.expr import Expr
from tensorir.ops.arguments import check_tensor, require, same_size
from tensorir.ops.epilogue import product_dtype
from tensorir.ops.naming import name_axes
from tensorir.ops.registry import Example, operator
from tensorir.te.tensor import Tensor


def _parsed(equation: str, count: int) -> tuple[list[str], str]:
    """The letters of each input, and those of the output."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    used = set("".join(inputs))
    good = (
        arrow == "->"
        and all(c.isascii() and c.isalpha() for c in used)
        and len(set(right)) == len(right)
        and set(right) <= used
    )
    require(
        good, "einsum",
        f"equation {equation!r} must be letters, as in 'ij,jk->ik', with each letter of the output "
        "once, and in an input",
    )  # fmt: skip
    require(
        len(inputs) == count, "einsum",
        f"equation {equation!r} has {len(inputs)} inputs and {count} tensors are given",
    )  # fmt: skip
    return inputs, right


def _sizes(inputs: list[str], tensors: Sequence[Tensor], equation: str) -> dict[str, Expr]:
    sizes: dict[str, Expr] = {}
    for n, (letters, t) in enumerate(zip(inputs, tensors)):
        check_tensor("einsum", f"tensor {n}", t)
        require(
            t.ndim == len(letters), "einsum",
            f"tensor {n}, {t!r}, is {letters!r} in {equation!r}: {len(letters)} dimensions",
        )  # fmt: skip
        for letter, size in zip(letters, t.shape):
            known = sizes.setdefault(letter, size)
            require(
                same_size(known, size), "einsum",
                f"{letter!r} of {equation!r} is {known!r}, and {size!r} in tensor {n}, {t!r}",
            )  # fmt: skip
    return sizes


def _wide(x: Any) -> Any:
    return x.astype(np.int32) if x.dtype.kind in "iu" and x.dtype.itemsize < 4 else x


@operator(
    reference=lambda tensors, equation: np.einsum(equation, *map(_wide, tensors)),
    examples=[
        Example([(3, 4), (4, 5)], {"equation": "ij,jk->ik"}),
        Example([("b", 2, 3, 4), ("b", 5, 2, 4)], {"equation": "bhmd,bnhd->bhmn"}, sizes={"b": 2}),
        Example([(3, 5)], {"equation": "ij->j"}),
        Example([(4, 4)], {"equation": "ii->"}),
        Example([(3,), (4,), (3, 4)], {"equation": "i, j, ij -> ij"}, "float16"),
        Example([(2, 3), (3, 2)], {"equation": "ab,ba->"}, ("uint8", "int8")),
        Example([(2, 0), (0, 3)], {"equation": "ij,jk->ik"}),
    ],
    variadic=True,
)
def einsum(tensors: Sequence[Tensor], equation: str, name: str = "einsum") -> Tensor:
    """Sums of products: `equation` names the dimensions of each tensor, as np.einsum.

    Letters that the output lacks are summed over. Types are as in matmul.
    """
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise TensorIRError(f"einsum: {tensors!r} is no sequence of tensors; give [a, b, ...]")
    inputs, output = _parsed(equation, len(tensors))
    sizes = _sizes(inputs, tensors, equation)
    first = tensors[0]
    acc = functools.reduce(lambda _, t: product_dtype("einsum", first, t), tensors, first.dtype)
    dtype = first.dtype if acc == "float32" else acc
    summed = [c for c in sizes if c not in output]
    axes = {c: te.reduce_axis(sizes[c], name=c) for c in summed}

    def element(*i: Expr) -> Expr:
        at: dict[str, Expr] = {**dict(zip(output, i)), **axes}
        parts = [
            te.cast(t[tuple(at[c] for c in letters)], acc) for letters, t in zip(inputs, tensors)
        ]
        product = functools.reduce(lambda a, b: a * b, parts)
        return te.sum(product, axis=list(axes.values())) if axes else te.cast(product, dtype)

    shape = [sizes[c] for c in output]
    last = dtype == acc or not axes
    total = te.compute(shape, name_axes(output, element), name if last else "product")
    if last:
        return total  # type: ignore[no-any-return]
    stored = name_axes(output, lambda *i: te.cast(total[i], dtype))
    return te.compute(shape, stored, name)  # type: ignore[no-any-return]
