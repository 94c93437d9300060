"""The products in the value of a block, and the factors that they are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tensorir import BinOp, Buffer, Const, Expr, Load, Var, dtype, loads

FEWEST = 3
"""Factors of a product that can be grouped in more than one way."""


@dataclass(frozen=True)
class Product:
    """A product of three factors or more, which are in the order of the text.

    `parts` are the products within it, each as the positions of its factors.
    """

    whole: Expr
    factors: tuple[Expr, ...]
    parts: tuple[tuple[int, ...], ...]


def products(value: Expr, made: Collection[Buffer] = ()) -> list[Product]:
    """The largest products of a value, in the order of the text. They read nothing of the buffers
    `made`, so that what a reduction has so far is no factor; int64 may overflow on the way in
    another order, which indices and counts must not, and has none."""
    return list({product.whole: product for product in _products(value, made)}.values())


def _products(e: Expr, made: Collection[Buffer]) -> Iterator[Product]:
    if isinstance(e, (Const, Load, Var)):
        return
    if _is_product(e) and not any(load.buffer in made for load in loads(e)):
        factors: list[Expr] = []
        parts: list[tuple[int, ...]] = []
        _collect(e, factors, parts)
        if len(factors) >= FEWEST:
            yield Product(e, tuple(factors), tuple(parts[:-1]))
        inside: Collection[Expr] = factors
    else:
        inside = e.operands
    for part in inside:
        yield from _products(part, made)


def _is_product(e: Expr) -> bool:
    return isinstance(e, BinOp) and e.op == "*" and dtype.element(e.dtype) != dtype.INDEX


def _collect(e: Expr, factors: list[Expr], parts: list[tuple[int, ...]]) -> None:
    """Append the factors of a value, and the products within it, the value itself last."""
    if not _is_product(e):
        factors.append(e)
        return
    first = len(factors)
    for part in e.operands:
        _collect(part, factors, parts)
    parts.append(tuple(range(first, len(factors))))
