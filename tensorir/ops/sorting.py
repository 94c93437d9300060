"""Sorting by the extern functions of tensorir.externs: sort, argsort, topk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, const
from tensorir.ops.arguments import check_axis, check_tensor, require, static
from tensorir.ops.registry import SPECIAL, Example, operator, values
from tensorir.te.tensor import Tensor

Flip = Union[Callable[[Expr], Expr], None]


def _rows_last(x: Tensor, at: int, reverse: bool = False) -> Tensor:
    """`x` with dimension `at` moved to the end, where extern functions work; reversed if wanted."""
    last = x.ndim - 1
    if at == last and not reverse:
        return x
    n = x.shape[at]

    def element(*i: Expr) -> Expr:
        j = n - 1 - i[last] if reverse else i[last]
        return x[(*i[:at], j, *i[at:last])]

    return te.compute([*_without(x.shape, at), n], element, "rows")  # type: ignore[no-any-return]


def _without(items: Sequence[Any], at: int) -> list[Any]:
    return [*items[:at], *items[at + 1 :]]


def _placed(rows: Tensor, at: int, name: str, reverse: bool = False, flip: Flip = None) -> Tensor:
    """`rows` with their last dimension back at `at`; `flip` is what becomes of an element."""
    n = rows.shape[-1]
    shape = [*rows.shape[:at], n, *rows.shape[at:-1]]

    def element(*i: Expr) -> Expr:
        j = n - 1 - i[at] if reverse else i[at]
        e = rows[(*_without(i, at), j)]
        return e if flip is None else flip(e)

    return te.compute(shape, element, name)  # type: ignore[no-any-return]


def _checked(op: str, x: Tensor, axis: int) -> int:
    check_tensor(op, "x", x)
    return check_axis(op, axis, x.ndim)


def _numpy_sort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    y = np.sort(x, axis=axis)
    return np.flip(y, axis) if descending else y


TIES = values(2.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0)
SORTED = [
    Example([(13,)]),
    Example([("n", 5)], sizes={"n": 3}),
    Example([(4, 3)], {"axis": 0}, "int8"),
    Example([(2, 5, 2)], {"axis": 1, "descending": True}, "float16"),
    Example([(3, 7)], {"descending": True}, data=TIES),
    Example([(3, 7)], data=SPECIAL),
    Example([(2, 1)]),
    Example([(2, 0)], {"descending": True}),
]


@operator(reference=_numpy_sort, examples=SORTED)
def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The elements along `axis` in ascending order, NaN last; or the reverse of that."""
    at = _checked("sort", x, axis)
    plain = at == x.ndim - 1 and not descending
    rows = _rows_last(x, at)
    done: Tensor = te.extern(rows.shape, rows, "sort", name=name if plain else "sorted")
    return done if plain else _placed(done, at, name, descending)


def _numpy_argsort(x: Any, axis: int = -1, descending: bool = False) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(back, axis)


@operator(reference=_numpy_argsort, examples=SORTED)
def argsort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "argsort") -> Tensor:
    """The int64 indices of the elements along `axis` in ascending order, NaN last.

    Equal elements keep their order, also if `descending`, where NaN comes first.
    """
    at = _checked("argsort", x, axis)
    plain = at == x.ndim - 1 and not descending
    rows = _rows_last(x, at, descending)
    done: Tensor = te.extern(rows.shape, rows, "argsort", name=name if plain else "order")
    if plain:
        return done
    last = rows.shape[-1] - 1
    return _placed(done, at, name, descending, (lambda e: last - e) if descending else None)


def _numpy_topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    order = _numpy_argsort(x, axis, descending=largest)
    at = np.take(order, range(k), axis=axis)
    return np.take_along_axis(x, at, axis), at


@operator(
    reference=_numpy_topk,
    examples=[
        Example([(3, 7)], {"k": 3}),
        Example([("n", 7)], {"k": 7}, "int8", TIES, {"n": 2}),
        Example([(6, 3)], {"k": 2, "axis": 0}, "float16"),
        Example([(2, 7)], {"k": 4}, data=SPECIAL),
        Example([(2, 7)], {"k": 4, "largest": False}, data=TIES),
        Example([(5, 2)], {"k": 1, "largest": False, "axis": 0}),
        Example([(2, 3)], {"k": 0}),
    ],
)
def topk(
    x: Tensor, k: int, axis: int = -1, largest: bool = True, name: str = "topk"
) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis`, largest first, and their int64 indices.

    NaN counts as the largest. With `largest` False the smallest, smallest first. Of equal elements
    the first comes first.
    """
    at = _checked("topk", x, axis)
    size = static("topk", f"dimension {at} of x", x.shape[at])
    require(
        isinstance(k, int) and 0 <= k <= size, "topk",
        f"k={k!r} must be an integer from 0 to {size}, the size of dimension {at}",
    )  # fmt: skip
    rows = _rows_last(x, at)
    shape = (*rows.shape[:-1], const(k))
    if largest:
        plain = at == x.ndim - 1
        found, order = te.extern([shape, shape], rows, "topk", name=name if plain else "top")
        if plain:
            return found, order
    else:
        every = te.extern(rows.shape, rows, "argsort", name="order")
        order = te.compute(shape, lambda *i: every[i], "first")
        inside = te.const(max(size - 1, 0), dt.INDEX)
        found = te.compute(shape, lambda *i: rows[(*i[:-1], te.clip(order[i], 0, inside))], "found")
    return _placed(found, at, f"{name}_values"), _placed(order, at, f"{name}_indices")
