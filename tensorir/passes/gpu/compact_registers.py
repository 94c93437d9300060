"""compact_registers: what a thread has of a buffer lies side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from tensorir.arith import Analyzer
from tensorir.arith.regions.iter_map import determines_all
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses_of
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import has_threads
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, Exchange, Extern, For, ForKind, Stmt, Store, replace
from tensorir.visit import (
    map_children,
    map_loads,
    map_own_exprs,
    substitute,
    variables,
    walk,
)

Indices = tuple[Expr, ...]


def compact_registers(func: PrimFunc) -> PrimFunc:
    """Leave no gaps in local buffers, where other threads have what lies in between.

    rewrite:
        with alloc(R, f32[36]):                with alloc(R, f32[8]):
            for i in unrolled(2):                  for i in unrolled(2):
                for j in unrolled(4):      ->          for j in unrolled(4):
                    R[i * 32 + j] = ...                    R[i * 4 + j] = ...

    All accesses have to go through the same places: loops of as many steps, as far apart, or
    quotients and remainders of such (`R[i // 4 * 32 + i % 4]`). Of what threads have in turns,
    `R[(i * 32 + t) % 5, (i * 32 + t) // 5]`, each has its turns. Registers have no addresses, so an
    array with gaps would be in memory wherever a loop is not written out.
    Requires place_buffers, and that buffers are not flat.
    """
    if not has_threads(func.body):
        return func
    analyzer = function_analyzer(func)
    shared = {s.var for s in walk(func.body) if isinstance(s, For) and s.kind is ForKind.THREAD}
    own = {s.var for s in walk(func.body) if isinstance(s, For)} - shared

    def visit(stmt: Stmt) -> Stmt:
        result = map_children(stmt, visit)
        if isinstance(result, Alloc) and result.buffer.scope == "local":
            return _compact(result, own, analyzer)
        return result

    return with_body(func, visit(func.body))


@dataclass(frozen=True)
class _Digit:
    """`extent` places, `stride` apart; `value` says at which of them an access is."""

    stride: int
    extent: int
    value: Expr


def _digits(index: Expr, own: Set[Var], analyzer: Analyzer) -> list[_Digit] | None:
    """The places of an index, furthest apart first; None where it is no sum of such."""
    form = analyzer.linear(index)
    if form.const or any(n < 1 or not variables(e) <= own for e, n in form.terms.items()):
        return None
    found: list[_Digit] = []
    for atom, stride in sorted(form.terms.items(), key=lambda term: term[1]):
        low, high = analyzer.bounds(atom)
        if low != 0 or high is None:
            return None
        extent = high + 1
        last = found[-1] if found else None
        if last is not None and stride < last.stride * last.extent:
            return None
        if last is not None and stride == last.stride * last.extent:
            value = atom * last.extent + last.value
            found[-1] = _Digit(last.stride, last.extent * extent, value)
        elif extent > 1:
            found.append(_Digit(stride, extent, atom))
    return found[::-1]


def _compact(alloc: Alloc, own: Set[Var], analyzer: Analyzer) -> Alloc:
    buffer = alloc.buffer
    uses = accesses_of(alloc.body, buffer)
    if not uses or any(isinstance(use.path[-1], Extern) for use in uses):
        return alloc
    sizes: dict[int, int] = {}
    for dim, size in enumerate(buffer.shape):
        found = [_digits(use.indices[dim], own, analyzer) for use in uses]
        kinds = {None if d is None else tuple([(x.stride, x.extent) for x in d]) for d in found}
        (kind, *others) = kinds
        if kind is None or others:
            continue
        count = prod(extent for _, extent in kind)
        whole = int_value(size)
        if whole is not None and count < whole:
            sizes[dim] = count
    shape = tuple([const(sizes[n]) if n in sizes else s for n, s in enumerate(buffer.shape)])
    turns = _Turns.of(uses, analyzer)
    if turns is not None and turns.count < prod(int_value(size) or turns.count for size in shape):
        return _moved(alloc, (const(turns.count),), turns.place)

    def place(index: Expr) -> Expr:
        result: Expr = const(0)
        for digit in _digits(index, own, analyzer) or []:
            result = result * digit.extent + digit.value
        return result

    def at(indices: Indices) -> Indices:
        return tuple([place(i) if n in sizes else i for n, i in enumerate(indices)])

    return _moved(alloc, shape, at) if sizes else alloc


class _Turns:
    """What a thread has of an array, by the iterations of loops that access it: `count` of them."""

    def __init__(self, count: int, places: Mapping[Indices, Expr]) -> None:
        self.count, self.places = count, places

    @classmethod
    def of(cls, uses: Sequence[Access], analyzer: Analyzer) -> _Turns | None:
        """Of loops that are alike around all accesses; None where they are not, or where several
        iterations may be at one place."""
        names, kinds = list[Var](), set[tuple[Indices, Indices]]()
        places = dict[Indices, Expr]()
        for use in uses:
            used = frozenset().union(*map(variables, use.indices))
            loops = [loop for loop in use.loops() if loop.var in used]
            if not all(loop.const_extent for loop in loops):
                return None
            extents = {loop.var: loop.extent for loop in loops}
            if not determines_all(use.indices, extents, extents, analyzer):
                return None
            names += [Var(f"turn{n}") for n in range(len(names), len(loops))]
            alike = {loop.var: name for loop, name in zip(loops, names)}
            at = tuple([analyzer.simplify(substitute(i, alike)) for i in use.indices])
            kinds.add((tuple(extents.values()), at))
            place: Expr = const(0)
            for loop in loops:
                place = place * loop.extent + loop.var
            places[use.indices] = place
        if len(kinds) > 1:
            return None
        ((sizes, _),) = kinds
        return cls(prod(int_value(size) or 0 for size in sizes), places)

    def place(self, indices: Indices) -> Indices:
        return (self.places[indices],)


def _moved(
    alloc: Alloc, shape: Indices, at: Callable[[Indices], Indices]
) -> Alloc:
    old = alloc.buffer
    new = Buffer(old.name, shape, old.dtype, old.scope)
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        return Load(new, at(e.indices)) if e.buffer is old else None

    def visit(node: Stmt) -> Stmt:
        node = map_own_exprs(map_children(node, visit), lambda e: map_loads(e, load, memo))
        if isinstance(node, (Store, Exchange)) and node.buffer is old:
            return replace(node, buffer=new, indices=at(node.indices))
        return node

    return Alloc(new, visit(alloc.body))
