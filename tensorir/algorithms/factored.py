"""Sums of products taken apart: s * sum(a * b) for sum(a * b * s), and sum(a) * sum(b) where terms
of both have no variable in common.

Where s is a number of a row or a column of the result, terms are products of three, and a sum has
two operations for each, of which the second one is the same multiplication again and again. What
one factor alone is summed over is summed before it is multiplied: sum(a[i, m, k] * b[k, j]) over k
and m is a product of matrices, of which the first has sums over m. So is what some of three factors
or more are, where that leaves fewer products: sum(a[i, j, k] * b[j, r] * c[k, r]) over j and k has
two for each term, and sum(b[j, r] * sum(a[i, j, k] * c[k, r])) one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tensorir import dtype
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.fewest_products import sums_ahead
from tensorir.algorithms.recognise import require, variables_of
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Const, Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor
from tensorir.visit import loads, map_loads, substitute, variables

Values = Mapping[Var, Expr]

SYMBOLIC = 256
"""The size assumed for a symbolic one."""

ZERO, ONE = Const(0, dtype.INDEX), Const(1, dtype.INDEX)


class _Factor:
    """The variables of a factor, in the order of what it reads, and what it is for values of
    these."""

    def __init__(self, variables: tuple[Var, ...], at: Callable[[Values], Expr]) -> None:
        self.variables, self.at = variables, at


@dataclass(frozen=True)
class _Terms:
    """A sum of products: the variables of the result and of the sum, in the order of their loops,
    and the factors."""

    own: tuple[Var, ...]
    reduced: tuple[Var, ...]
    extents: Mapping[Var, Expr]
    factors: tuple[Expr, ...]

    def groups(self) -> list[list[int]]:
        """The numbers of factors, together those that have a variable of the sum in common."""
        groups: list[list[int]] = []
        for n in range(len(self.factors)):
            near = [not self.over([n]).isdisjoint(self.over(group)) for group in groups]
            joined = [m for group, is_near in zip(groups, near) if is_near for m in group]
            groups = [group for group, is_near in zip(groups, near) if not is_near]
            groups.append([*joined, n])
        return groups

    def over(self, numbers: Iterable[int]) -> set[Var]:
        """The variables of the sum that some factors have."""
        return {v for n in numbers for v in variables(self.factors[n])} & set(self.reduced)

    def ahead(self, group: Sequence[int]) -> list[tuple[Var, ...]]:
        """The variables of the sums that are taken of some factors of a group first."""
        sizes = {v: int_value(extent) or SYMBOLIC for v, extent in self.extents.items()}
        return sums_ahead([self.variables(n) for n in group], self.own, sizes)

    def variables(self, number: int) -> tuple[Var, ...]:
        """The variables of a factor as what it reads has them, those of no reads behind."""
        e = self.factors[number]
        every = [v for v in self.extents if v in variables(e)]
        read = [v for load in loads(e) for i in load.indices for v in every if v in variables(i)]
        return tuple(dict.fromkeys([*read, *every]))


def _terms(block: Block) -> _Terms:
    store, init = block.body, block.init
    what = f"block {block.name!r} is no sum of products from 0 on"
    require(isinstance(store, Store) and isinstance(init, Store), what)
    assert isinstance(store, Store) and isinstance(init, Store)
    value, old = store.value, Load(store.buffer, store.indices)
    zero = isinstance(init.value, Const) and init.value.value == 0
    require(zero and isinstance(value, BinOp) and value.op == "+", what)
    assert isinstance(value, BinOp)
    require(value.a is old and block.predicate is TRUE, what)
    require(not dtype.is_bool(value.dtype) and value.dtype not in dtype.STORAGE_ONLY, what)
    require(not any(load.buffer is store.buffer for load in loads(value.b)), what)
    reduced, spatial = (variables_of(block, k) for k in (IterKind.REDUCE, IterKind.SPATIAL))
    own = tuple(i for i in store.indices if isinstance(i, Var))
    apart = f"block {block.name!r} stores elsewhere than at its variables"
    require(len(own) == len(store.indices) and set(own) == set(spatial), apart)
    found = _Terms(own, tuple(reduced), {**spatial, **reduced}, tuple(_factors(value.b)))
    unused = set(reduced) - found.over(range(len(found.factors)))
    require(not unused, f"terms of block {block.name!r} are the same along some variables")
    return found


def _recognise(func: PrimFunc, block: Block) -> Alternative:
    terms = _terms(block)
    groups = terms.groups()
    summed = [group for group in groups if terms.over(group)]
    alike = any(terms.factors[n].has_loads for g in groups if not terms.over(g) for n in g)
    first = any(map(terms.ahead, summed))
    none = f"factors of the terms of block {block.name!r} have all variables of the sum in common"
    require(bool(summed) and (alike or first or len(summed) > 1), none)
    buffers = tuple(dict.fromkeys(load.buffer for e in terms.factors for load in loads(e)))
    assert isinstance(block.body, Store)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return [_Stages(terms, dict(zip(buffers, given)), names[0]).made(groups)]

    return Alternative((block.body.buffer,), buffers, compute)


class _Stages:
    """Sums of single factors, sums of the products of each group, and the product of these."""

    def __init__(self, terms: _Terms, given: Mapping[Buffer, Tensor], name: str) -> None:
        self.terms, self.given, self.name = terms, given, name
        self.parts = 0

    def made(self, groups: Sequence[Sequence[int]]) -> Tensor:
        terms = self.terms
        if len(groups) == 1:
            return self.summed(self.in_group(groups[0]), terms.own, self.name)
        sums, rest = list[_Factor](), list[_Factor]()
        for group in groups:
            found = self.in_group(group)
            if not terms.over(group):
                rest += found
                continue
            used = {v for each in found for v in each.variables}
            kept = [v for v in terms.own if v in used]
            sums.append(self.stored(found, kept, f"{self.name}_sums{len(sums) or ''}"))

        def element(*i: Expr) -> Expr:
            values = dict(zip(terms.own, i))
            return _product([each.at(values) for each in (*sums, *rest)])

        return _compute([terms.extents[v] for v in terms.own], element, self.name)

    def in_group(self, group: Sequence[int]) -> list[_Factor]:
        """The factors of a group, with a sum in the place of those that are summed first."""
        found = [self.factor(n) for n in group]
        for over in self.terms.ahead(group):
            used = [each for each in found if not set(over).isdisjoint(each.variables)]
            kept = dict.fromkeys(v for each in used for v in each.variables if v not in over)
            self.parts += 1
            made = self.stored(used, [*kept], f"{self.name}_part{self.parts}")
            found = [each for each in found if each not in used] + [made]
        return found

    def factor(self, number: int) -> _Factor:
        e = self.terms.factors[number]

        def at(values: Values) -> Expr:
            moved = substitute(e, values)
            return map_loads(moved, lambda n: self.given[n.buffer][n.indices], {})

        return _Factor(self.terms.variables(number), at)

    def stored(self, factors: Sequence[_Factor], kept: Sequence[Var], name: str) -> _Factor:
        made = self.summed(factors, kept, name)
        return _Factor(tuple(kept), lambda values: made[tuple(values[v] for v in kept) or (ZERO,)])

    def summed(self, factors: Sequence[_Factor], kept: Sequence[Var], name: str) -> Tensor:
        """The sum of a product over all of its variables but some, which are the axes."""
        from tensorir import te

        extents = self.terms.extents
        used = {v for each in factors for v in each.variables}

        def element(*i: Expr) -> Expr:
            over = [v for v in self.terms.reduced if v in used and v not in kept]
            axes = {v: te.reduce_axis(extents[v], v.name) for v in over}
            values = {**dict(zip(kept, i)), **axes}
            return te.sum(_product([each.at(values) for each in factors]), axis=[*axes.values()])

        return _compute([extents[v] for v in kept] or [ONE], element, name)


def _compute(shape: Sequence[Expr], element: Callable[..., Expr], name: str) -> Tensor:
    from tensorir import te

    return te.compute(shape, element, name)  # type: ignore[no-any-return]


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, BinOp) and e.op == "*":
        return [*_factors(e.a), *_factors(e.b)]
    return [e]


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: BinOp("*", a, b), factors)


def _examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    a, b = te.placeholder((4, 6), "float64", name="a"), te.placeholder((6, 5), "float64", name="b")
    s, t = te.placeholder((4,), "float64", name="s"), te.placeholder((5,), "float64", name="t")
    k = te.reduce_axis(6, name="k")
    rows = te.compute((4, 5), lambda i, j: te.sum(a[i, k] * b[k, j] * s[i], axis=k), "y")
    both = te.compute((4, 5), lambda i, j: te.sum(t[j] * a[i, k] * (s[i] * b[k, j]), axis=k), "y")
    c = te.placeholder((3, 4, 6), "float64", name="c")
    d = te.placeholder((4, 5), "float64", name="d")
    m, n = te.reduce_axis(3, name="m"), te.reduce_axis(4, name="n")
    first = te.compute((4, 5), lambda i, j: te.sum(c[m, i, k] * b[k, j], axis=[k, m]), "y")
    every = [k, m, n]
    own = te.compute((3, 5), lambda i, j: te.sum(c[i, n, k] * t[j] * s[m + 1], axis=every), "y")
    squares = te.compute((4,), lambda i: te.sum(c[m, i, k] * c[m, i, k] * s[n], axis=every), "y")
    nested = te.compute(
        (3, 5), lambda i, j: te.sum(c[i, n, k] * d[n, j] * b[k, j], axis=[n, k]), "y"
    )
    return [
        (te.create_prim_func([c, d, b, nested]), "y"),
        (te.create_prim_func([a, b, s, rows]), "y"), (te.create_prim_func([a, b, s, t, both]), "y"),
        (te.create_prim_func([c, b, first]), "y"), (te.create_prim_func([c, s, t, own]), "y"),
        (te.create_prim_func([c, s, squares]), "y"),
    ]  # fmt: skip


FACTORED = Algorithm(
    name="factored",
    about="a sum of products, without what its factors have to themselves",
    recognise=_recognise,
    examples=_examples,
    numerics="reassociated",
    preferred=True,
)
