"""Operands of a sum of products in the order that dot products want: the terms last, so that those
of one step lie side by side, and as many of these and of the columns as instructions take at once.

What is read in windows, as the image of a convolution, stays so in the copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensorir import dtype
from tensorir.algorithms.recognise import Reduction, require
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Const, Expr, Load, Var, all_of, int_value
from tensorir.te.tensor import Tensor
from tensorir.visit import substitute, walk_exprs

COLUMNS = 16
"""Columns that are packed at once."""
SHARED = 8
"""Results that share an element, from which on it is made ahead."""
SYMBOLIC = 256
"""The size assumed for a symbolic one."""


@dataclass(frozen=True)
class Operand:
    """An element that is read, and the dimensions of a copy: each of a variable, or that of the
    source, along which windows slide."""

    load: Load
    dims: tuple[Var | int, ...]

    @property
    def in_place(self) -> bool:
        """Whether the copy has the order of the source."""
        return all(isinstance(d, int) for d in self.dims)

    def at(self, values: Mapping[Var, Expr]) -> tuple[Expr, ...]:
        """Where the copy has the element for these values of the variables."""
        indices = self.load.indices
        return tuple(
            values[d] if isinstance(d, Var) else substitute(indices[d], values) for d in self.dims
        )


@dataclass(frozen=True)
class DotOrder:
    """The operands of a sum of products, in the order of its factors.

    own     the variables of the sums, the columns last
    sizes   the extents of all variables
    whole   those that are rounded up: what is added is 0
    first   the operand whose elements the rows share; None where it may be either one
    parts   by variable of the result the two that it is `outer * count + inner` of, and the count
    """

    found: Reduction
    operands: tuple[Operand, ...]
    own: tuple[Var, ...]
    sizes: Mapping[Var, Expr]
    whole: Mapping[Var, Expr]
    first: int | None
    parts: Mapping[Var, tuple[Var, Var, Expr]]

    def extent(self, var: Var) -> Expr:
        return self.whole.get(var, self.sizes[var])

    def copied(self, n: int, source: Tensor, made: Callable[[Expr], Expr], name: str) -> Tensor:
        """An operand in its order, of what is `made` of each element."""
        from tensorir import te

        dims, indices = self.operands[n].dims, self.operands[n].load.indices

        def element(*i: Expr) -> Expr:
            values = {d: at for d, at in zip(dims, i) if isinstance(d, Var)}
            along = {d: at for d, at in zip(dims, i) if isinstance(d, int)}
            places = [along.get(d, substitute(e, values)) for d, e in enumerate(indices)]
            value, padded = made(source[tuple(places)]), [v for v in values if v in self.whole]
            inside = all_of(*(values[v] < self.sizes[v] for v in padded))
            return te.if_then_else(inside, value, Const(0, value.dtype)) if padded else value

        shape = [self.extent(d) if isinstance(d, Var) else source.shape[d] for d in dims]
        copy: Tensor = te.compute(shape, element, name)
        return copy

    def summed(self, term: Callable[[Mapping[Var, Expr]], Expr], name: str) -> Tensor:
        """The sums of a term of the variables, taken to their places in the result."""
        from tensorir import te

        own, found = self.own, self.found
        shape = [self.extent(v) for v in own]
        moved = own != found.own or any(v in self.whole for v in own)

        def element(*i: Expr) -> Expr:
            axes = {v: te.reduce_axis(self.extent(v), v.name) for v in found.reduced}
            return te.sum(term({**dict(zip(own, i)), **axes}), axis=[*axes.values()])

        def placed(*i: Expr) -> Expr:
            at: dict[Var, Expr] = dict(zip(found.own, i))
            for v, (outer, inner, count) in self.parts.items():
                at |= {outer: at[v] // count, inner: at[v] % count}
            return sums[tuple(at[v] for v in own)]

        sums: Tensor = te.compute(shape, element, f"{name}_sums" if moved else name)
        if not moved:
            return sums
        result: Tensor = te.compute(found.store.buffer.shape, placed, name)
        return result


def dot_order(found: Reduction, loads: Sequence[Load], group: int, what: str) -> DotOrder:
    """The order of a sum of products of two elements, for so many terms in a step; Mismatch where
    these are in windows alone, few results share an element, or these are sums of some of the
    terms each. Products of what is read at variables stay in the order that they have."""
    none = f"{what} is no product of two matrices"
    parts = _parts(found, loads)
    sizes = {**found.spatial, **found.reduced}
    for v, (outer, inner, count) in parts.items():
        sizes |= {outer: Const(_number(sizes.pop(v)) // _number(count), dtype.INDEX), inner: count}
    spatial = [v for v in sizes if v not in found.reduced]
    read = [_simplified(load, sizes, parts) for load in loads]
    for load in read:
        others = prod(_number(sizes[v]) for v in spatial if v not in load.variables)
        require(others >= SHARED, none)
    plain = [all(isinstance(i, (Var, Const)) for i in load.indices) for load in read]
    if all(plain) and not parts:
        require(not read[0].variables.isdisjoint(read[1].variables & {*found.reduced}), none)
        stay = tuple(map(_as_it_is, loads))
        return DotOrder(found, stay, found.own, sizes, {}, None, {})
    along = [_windows(load, sizes) for load in read]
    require(not all(along), f"both factors of {what} are read in windows")
    odd = [[i for i in load.indices if not isinstance(i, Var)] for load in read]
    one, two = ({v for i in each for v in i.variables if v in {*spatial}} for each in odd)
    require(bool(parts) or one.isdisjoint(two), f"{what} makes parts of sums")
    own = [v for each in found.own for v in parts.get(each, (each,))[:2] if isinstance(v, Var)]
    sides = []
    for n in (n for n in (0, 1) if not along[1 - n]):
        weight = read[1 - n].variables
        column = _largest([v for v in spatial if v in weight - read[n].variables], sizes)
        slides = frozenset[Var]().union(*(read[n].indices[d].variables for d in along[n]))
        both = read[n].variables & weight - slides
        terms = _largest([v for v in found.reduced if v in both], sizes)
        if column is not None and terms is not None:
            sides.append((bool(along[n]), not plain[n], column is own[-1], -n, terms, column))
    require(bool(sides), none)
    *_, negative, terms, column = max(sides, key=lambda side: side[:4])
    first = -negative
    steps = ((terms, group), (column, COLUMNS)) if along[first] else ()
    wanted = {v: -(-_number(sizes[v]) // step) * step for v, step in steps}
    whole = {v: Const(n, dtype.INDEX) for v, n in wanted.items() if n != int_value(sizes[v])}
    made = []
    for n, load in enumerate(loads):
        ends = (terms,) if n == first else (terms, column)
        stays = _is_in_order(load, ends) and read[n].variables.isdisjoint(whole)
        copy = Operand(read[n], _dims(read[n], along[n], terms, column, sizes))
        made.append(_as_it_is(load) if stays else copy)
    own = [*(v for v in own if v is not column), column]
    return DotOrder(found, tuple(made), tuple(own), sizes, whole, first, parts)


def _as_it_is(load: Load) -> Operand:
    return Operand(load, (*range(len(load.indices)),))


def _is_in_order(load: Load, ends: tuple[Var, ...]) -> bool:
    """Whether an operand has one of some variables last; what has columns too is read at variables.
    """
    indices, last = load.indices, load.indices[-1]
    plain = all(isinstance(i, Var) for i in indices) and len({*indices}) == len(indices)
    return isinstance(last, Var) and last in {*ends} and (plain or len(ends) == 1)


def _dims(
    load: Load, along: Sequence[int], terms: Var, column: Var, sizes: Mapping[Var, Expr]
) -> tuple[Var | int, ...]:
    """The dimensions of a copy in the order of an operand, but for the terms, which are last where
    the columns are not."""
    dims: dict[Var | int, None] = {}
    for d, index in enumerate(load.indices):
        dims |= dict.fromkeys([d] if d in along else [v for v in sizes if v in index.variables])
    if next(reversed(dims)) is not column:
        dims[terms] = dims.pop(terms)
    return (*dims,)


def _windows(load: Load, sizes: Mapping[Var, Expr]) -> list[int]:
    """The dimensions with fewer elements than there are values of the variables of the index."""
    found = []
    for d, (index, size) in enumerate(zip(load.indices, load.buffer.shape)):
        many = [int_value(sizes[v]) for v in index.variables]
        known = None not in many and prod(n or 0 for n in many) <= (int_value(size) or 0)
        if not isinstance(index, (Var, Const)) and not known:
            found.append(d)
    return found


def _parts(found: Reduction, loads: Sequence[Load]) -> dict[Var, tuple[Var, Var, Expr]]:
    """The variables of the result of which an operand has a quotient, as a channel is of a group:
    `v // n` for an `n` that divides the extent."""
    parts: dict[Var, tuple[Var, Var, Expr]] = {}
    for index in (i for load in loads for i in load.indices):
        for e in walk_exprs(index):
            if not (isinstance(e, BinOp) and e.op == "//" and isinstance(e.a, Var)):
                continue
            size, count = int_value(found.spatial.get(e.a, e.b)) or 0, int_value(e.b) or 0
            if e.a in found.spatial and 0 < count < size and size % count == 0:
                outer, inner = (Var(f"{e.a.name}_{part}") for part in ("outer", "inner"))
                parts.setdefault(e.a, (outer, inner, e.b))
    return parts


def _simplified(
    load: Load, sizes: Mapping[Var, Expr], parts: Mapping[Var, tuple[Var, Var, Expr]]
) -> Load:
    """A load at indices of variables of more than one value."""
    joined: dict[Var, Expr] = {v: outer * n + inner for v, (outer, inner, n) in parts.items()}
    units = {v: Const(0, dtype.INDEX) for v, size in sizes.items() if int_value(size) == 1}
    indices = [substitute(substitute(i, joined), units) for i in load.indices]
    if not all(isinstance(i, (Var, Const)) for i in indices):
        simplify = Analyzer(sizes).simplify
        indices = [simplify(i) for i in indices]
    return Load(load.buffer, tuple(indices))


def _largest(vs: Sequence[Var], sizes: Mapping[Var, Expr]) -> Var | None:
    """The variable of the largest extent, of those that have one; None if there is none above 1."""
    known = [v for v in vs if (int_value(sizes[v]) or 0) > 1]
    return max(known, key=lambda v: int_value(sizes[v]) or 0, default=None)


def _number(size: Expr) -> int:
    n = int_value(size)
    return SYMBOLIC if n is None else n
