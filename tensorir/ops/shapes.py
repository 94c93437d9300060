"""Shapes with the same number of elements: how one is made into another, symbolic sizes too."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Expr, const, int_value
from tensorir.te.tensor import make_shape

Factors = tuple[int, tuple[Expr, ...]]
"""A product: what is known of it, and the symbols, in the order of their names."""


def factors(sizes: Sequence[Expr]) -> Factors:
    """The product of `sizes`; equal products have equal factors."""
    known, symbols, pending = 1, [], list(sizes)
    while pending:
        size = pending.pop()
        value = int_value(size)
        if value is not None:
            known *= value
        elif isinstance(size, BinOp) and size.op == "*":
            pending += [size.a, size.b]
        else:
            symbols.append(size)
    return known, tuple(sorted(symbols, key=repr))


def product(known: int, symbols: Sequence[Expr]) -> Expr:
    """The expression with these factors."""
    total: Expr = const(1)
    for symbol in symbols:
        total = total * symbol
    return total * known


def without(symbols: Sequence[Expr], others: Sequence[Expr]) -> list[Expr] | None:
    """What is left of `symbols` after taking out `others`; None if they lack one of them."""
    left = list(symbols)
    for other in others:
        if other not in left:
            return None
        left.remove(other)
    return left


def fill_shape(op: str, old: Sequence[Expr], shape: Any) -> list[Expr]:
    """`shape` as expressions, with what is left over of the elements of `old` in place of -1.

    Raises TensorIRError where that does not come out even.
    """
    given = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    free = [d for d, s in enumerate(given) if isinstance(s, Integral) and s == -1]
    if len(free) > 1:
        raise TensorIRError(f"{op}: shape={shape!r} has more than one -1; give all sizes but one")
    sizes = [const(1) if d in free else make_shape([s], op)[0] for d, s in enumerate(given)]
    if free:
        (total, symbols), (known, used) = factors(old), factors(sizes)
        left = without(symbols, used)
        if left is None or known == 0 or total % known:
            raise TensorIRError(
                f"{op}: no size in place of -1 makes shape={shape!r} hold the elements of the "
                f"shape {tuple(old)!r}; give a shape whose other sizes divide them"
            )
        sizes[free[0]] = product(total // known, left)
    return sizes


Runs = list[tuple[list[int], list[int]]]


def pair_runs(old: Sequence[Expr], new: Sequence[Expr]) -> Runs | None:
    """Pairs of runs of dimensions of both shapes that hold the same number of elements.

    The shorter the runs, the fewer divisions of indices. None where there are no such pairs.
    """
    if factors(old) != factors(new):
        return None
    if factors(old)[0] == 0:
        return [(list(range(len(old))), list(range(len(new))))]
    pairs: Runs = []
    a = b = 0
    while a < len(old) or b < len(new):
        left, right = list(range(a, min(a + 1, len(old)))), list(range(b, min(b + 1, len(new))))
        while (grow := _shorter([old[d] for d in left], [new[d] for d in right])) != "":
            if grow == "left" and left and left[-1] + 1 < len(old):
                left.append(left[-1] + 1)
            elif right and right[-1] + 1 < len(new):
                right.append(right[-1] + 1)
            elif left and left[-1] + 1 < len(old):
                left.append(left[-1] + 1)
            else:
                return None
        pairs.append((left, right))
        a, b = a + len(left), b + len(right)
    return pairs


def _shorter(left: Sequence[Expr], right: Sequence[Expr]) -> str:
    """Which of two runs lacks elements to equal the other: "left", "right" or, if none, ""."""
    (known, symbols), (other, others) = factors(left), factors(right)
    if known == other and symbols == others:
        return ""
    if symbols == others:
        return "left" if known < other else "right"
    return "left" if without(others, symbols) is not None else "right"
