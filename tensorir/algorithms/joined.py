"""Reductions of reductions as one: the sum over k and m for the sum over m of sums over k.

Whoever writes a sum in parts says how it is computed, which is what schedules are for: parts that
others read stand in memory, and no nest shares what neighbouring parts have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorir.algorithms.algorithm import Alternative
from tensorir.algorithms.recognise import (
    Reduction,
    inputs_of,
    of_reductions,
    readers,
    reduce_by,
    reduction_of,
    require,
    writers,
)
from tensorir.arith import Analyzer
from tensorir.expr import Const, Expr, Load, Var
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.visit import map_loads, substitute


@dataclass(frozen=True)
class _Joined:
    """`last` with the terms of the reductions of `parts`, and the variables of all of them."""

    last: Reduction
    term: Expr
    reduced: Mapping[Var, Expr]
    parts: tuple[str, ...]


def _joined(func: PrimFunc, block: Block, rounds: bool) -> _Joined:
    last = reduction_of(block, rounds)
    term, reduced, parts, user = last.term, dict(last.reduced), list[str](), block
    names = Names(var.name for var in (*last.spatial, *last.reduced))
    while isinstance(term, Load) and term.buffer in func.buffers:
        reader, makers = user, writers(func, term.buffer)
        user = makers[0] if len(makers) == 1 else reader
        alone = set(readers(func, term.buffer)) == {reader.name, user.name}
        if user is reader or not user.is_reduction or not alone:
            break
        part, what = reduction_of(user, rounds), f"block {user.name!r} reduces otherwise"
        require((part.op, part.term.dtype) == (last.op, last.term.dtype), what)
        again = f"block {block.name!r} reads what block {user.name!r} makes several times"
        require(_at_most(_count([*last.spatial.values(), *reduced.values()]), part), again)
        own = {var: Var(names.unique(var.name), var.dtype) for var in part.reduced}
        reduced |= {own[var]: extent for var, extent in part.reduced.items()}
        term = substitute(part.term, {**dict(zip(part.own, term.indices)), **own})
        parts.append(user.name)
    require(bool(parts), f"block {block.name!r} reduces no parts of a reduction for it alone")
    return _Joined(last, term, reduced, tuple(parts))


def _at_most(count: Expr, part: Reduction) -> bool:
    """Whether so many are no more than there are elements of a part."""
    return Analyzer().prove(count <= _count(part.store.buffer.shape))


def _count(extents: Sequence[Expr]) -> Expr:
    total: Expr = Const(1, "int64")
    for extent in extents:
        total = total * extent
    return total


def _recognise(func: PrimFunc, block: Block, rounds: bool) -> Alternative:
    found = _joined(func, block, rounds)
    inputs, last = inputs_of(found.term), found.last

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        from tensorir import te

        tensors = dict(zip(inputs, given))

        def element(*i: Expr) -> Expr:
            axes = {v: te.reduce_axis(size, v.name) for v, size in found.reduced.items()}
            term = substitute(found.term, {**dict(zip(last.own, i)), **axes})
            term = map_loads(term, lambda n: tensors[n.buffer][n.indices], {})
            return reduce_by(last.op)(term, axis=[*axes.values()])

        return [te.compute(last.store.buffer.shape, element, names[0])]

    return Alternative((last.store.buffer,), inputs, compute, found.parts)


def _examples(name: str) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    reduce = getattr(te, name)
    x, y = (te.placeholder(shape, "float64", name="x") for shape in ((3, 12), (12, 4)))
    few, some, three = (te.reduce_axis(size, "k") for size in (2, 4, 3))
    rows = te.compute((3, 3), lambda i, m: reduce(x[i, m * 4 + some], axis=some), "rows")
    whole = te.compute((3,), lambda i: reduce(rows[i, three], axis=three), "whole")

    def term(n: Expr, j: Expr, i: Expr, m: Expr) -> Expr:
        place = m * 4 + n * 2 + few
        return reduce(x[i, place] * y[place, j], axis=few)  # type: ignore[no-any-return]

    terms = te.compute((2, 4, 3, 3), term, "terms")
    halves = te.compute((3, 4, 2), lambda i, j, n: reduce(terms[n, j, i, three], axis=three), "h")
    last = te.reduce_axis(2, "n")
    every = te.compute((4, 3), lambda j, i: reduce(halves[i, j, last], axis=last), "every")
    return [
        (te.create_prim_func([x, whole]), "whole"),
        (te.create_prim_func([x, y, every]), "every"),
    ]


MAXIMA = "maxima of maxima, or whole sums of sums, as one"
SUMS = "sums of sums of floats as one"
JOINED = (
    of_reductions("joined", MAXIMA, False, _recognise, _examples),
    of_reductions("joined_sums", SUMS, True, _recognise, _examples),
)
