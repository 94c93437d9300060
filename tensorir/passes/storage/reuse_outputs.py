"""reuse_outputs: an intermediate lives in the memory of the output that is made of it.

XLA assigns buffers so, and TVM's storage_rewrite "inplace". Here it is what a row of a softmax
waits in: where that is longer than the first-level cache, it passes through the second one once
instead of twice, and memory that is written need not be read before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.iter_map import determines_all
from tensorir.arith.regions.region import Interval, covers, relax
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, const, convert, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses_of
from tensorir.passes.facts.instances import bounds_an_index, common_length
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import NOTHING, with_body
from tensorir.stmt import Alloc, Extern, For, Prefetch, Stmt, Store, replace
from tensorir.visit import (
    child_stmts,
    map_children,
    map_loads,
    map_own_exprs,
    variables,
    walk,
)


def reuse_outputs(func: PrimFunc, least: int) -> PrimFunc:
    """Keep intermediates of more than `least` bytes in the outputs that they become.

    rewrite:
        for i in range(8):                            for i in range(8):
            with alloc(T, f32[9000]):                     for j in range(9000):
                for j in range(9000):                         C[i, j] = exp(A[i, j])
                    T[j] = exp(A[i, j])                   for j in range(9000):
                for j in range(9000):          ->             S[0] = S[0] + C[i, j]
                    S[0] = S[0] + T[j]                    for j in range(9000):
                for j in range(9000):                         C[i, j] = C[i, j] / S[0]
                    C[i, j] = T[j] / S[0]

    One store makes the output, each element of the intermediate's own and no other; all others that
    read that element have done so before. Outputs that are written past the caches stay as they
    are. Requires place_buffers, and is to run before partition_loops.
    """
    if not any(isinstance(s, Alloc) for s in walk(func.body)):
        return func
    passed_by = {*func.attrs.get("stream", ())}
    free = [p for p in func.params if p in func.outputs and p not in func.in_outs]
    outputs = [p for p in free if p.name not in passed_by]
    analyzer = function_analyzer(func)

    def visit(stmt: Stmt, around: tuple[For, ...]) -> Stmt:
        if isinstance(stmt, Alloc) and _size(stmt.buffer) > least:
            for output in outputs:
                if output.dtype == stmt.buffer.dtype:
                    where = _home(stmt, output, around, analyzer)
                    if where is not None:
                        return visit(_moved(stmt.body, stmt.buffer, output, where), around)
        inside = (*around, stmt) if isinstance(stmt, For) else around
        return map_children(stmt, lambda child: visit(child, inside))

    return with_body(func, visit(func.body, ()))


def _size(buffer: Buffer) -> int:
    """Bytes of a buffer; 0 where they are not known."""
    sizes = [int_value(size) for size in buffer.shape]
    return prod([size or 0 for size in sizes]) * dt.itemsize(buffer.dtype)


_Place = tuple[int | None, Expr, int, int]
"""Of a dimension of an output: the dimension of the intermediate whose index is added, if there is
one; what it is added to; and which digit of it, index // a % b, where several share it: else 1, 0.
"""


@dataclass(frozen=True)
class _Home:
    """Where an element of an intermediate is in an output."""

    places: tuple[_Place, ...]

    def of(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([low if n is None else self.digit(indices[n], *way) + low
                      for n, low, *way in self.places])  # fmt: skip

    @staticmethod
    def digit(index: Expr, divisor: int, size: int) -> Expr:
        found = index if divisor == 1 else index // divisor
        return found % size if size else found


def _home(alloc: Alloc, output: Buffer, around: Sequence[For], analyzer: Analyzer) -> _Home | None:
    """Where the intermediate can be in `output`; None if not."""
    (uses, made) = (accesses_of(alloc.body, b) for b in (alloc.buffer, output))
    if len(made) != 1 or not isinstance(made[0].path[-1], Store):
        return None
    store = made[0]
    last = [use for use in uses if use.path[-1] is store.path[-1]]
    others = [use for use in uses if use.path[-1] is not store.path[-1]]
    if last:
        indices = last[0].indices
    elif alloc.buffer.shape == output.shape:
        indices = store.indices
    else:
        return None
    if any(use.is_write or use.indices != indices for use in last):
        return None
    if any(isinstance(use.path[-1], Extern) for use in uses):
        return None  # it gets memory as it is laid out
    loops = store.inner()
    if any(int_value(extent) is None for extent in loops.values()):
        return None
    known = analyzer.assuming(store.known)
    own = [known.simplify(index) for index in indices]
    home = _places(own, store, alloc.buffer, analyzer)
    if home is None or not _fills(own, store, alloc.buffer, analyzer):
        return None
    outside = {loop.var: loop.extent for loop in around}
    every = outside | loops
    apart = _tells(own, loops, every, known)
    if not apart or not _own_place(home, alloc.buffer, outside, analyzer):
        return None
    done = all(_is_before(use, store, indices, every, analyzer) for use in others)
    return home if done else None


def _places(
    indices: Sequence[Expr], store: Access, buffer: Buffer, analyzer: Analyzer
) -> _Home | None:
    """The dimensions of the output in which those of the intermediate are, in order, the last one
    side by side."""
    moving, found = store.inner().keys(), list[_Place]()
    wanted = [n for n, size in enumerate(buffer.shape) if int_value(size) != 1]
    while len(found) < len(store.indices):
        own = store.indices[len(found)]
        low = analyzer.simplify(own - indices[wanted[0]]) if wanted else own
        if wanted and not low.has_loads and variables(low).isdisjoint(moving):
            found.append((wanted.pop(0), low, 1, 0))
        elif not own.has_loads and variables(own).isdisjoint(moving):
            found.append((None, own, 1, 0))
        elif wanted and (
            digits := _digits(wanted[0], indices, len(found), store, buffer, analyzer)
        ):
            found += digits
            del wanted[0]
        else:
            return None
    sizes = zip(reversed(found), reversed(store.buffer.shape))
    dense = next((n is not None for (n, *_), size in sizes if int_value(size) != 1), False)
    return _Home(tuple(found)) if dense and not wanted else None


def _digits(
    n: int, indices: Sequence[Expr], first: int, store: Access, buffer: Buffer, analyzer: Analyzer
) -> list[_Place]:
    """The dimensions of the output from `first` on whose indices are the digits of one index of the
    intermediate, all values of which they have; none if they are not."""
    below, last = int_value(buffer.shape[n]) or 0, first
    found: list[_Place] = []
    while below > 1 and last < len(store.indices):
        size = int_value(store.buffer.shape[last]) or 0
        if not size or below % size:
            return []
        below //= size
        found.append((n, const(0), below, size if found else 0))
        digit = _Home.digit(indices[n], *found[-1][2:])
        if int_value(analyzer.simplify(store.indices[last] - digit)) != 0:
            return []
        last += 1
    return found if below == 1 else []


def _fills(indices: Sequence[Expr], store: Access, buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether the store reads all elements of the intermediate, whatever the conditions are."""
    loops = store.inner()
    for cond in store.conditions:
        if not bounds_an_index(cond, indices, buffer.shape, analyzer):
            return False
    if not is_dense(indices, loops, analyzer):
        return False
    parts = [relax(index, loops, analyzer) for index in indices]
    return all(
        part is not None and covers(part, Interval(const(0), size), analyzer)
        for part, size in zip(parts, buffer.shape)
    )


def _own_place(home: _Home, buffer: Buffer, around: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether each element of the intermediate is somewhere else, in each iteration around it."""
    at = {Var(f"at'{n}"): convert(size) for n, size in enumerate(buffer.shape)}
    every = {**around, **at}
    return _tells(home.of(tuple(at)), every, every, analyzer)


def _tells(
    indices: Sequence[Expr], wanted: Mapping[Var, Expr], loops: Mapping[Var, Expr], known: Analyzer
) -> bool:
    """Whether an element is that of one iteration alone of the loops that are wanted."""
    several = [var for var, extent in wanted.items() if int_value(extent) != 1]
    return determines_all(indices, several, loops, known)


def _is_before(
    use: Access,
    store: Access,
    indices: Sequence[Expr],
    loops: Mapping[Var, Expr],
    analyzer: Analyzer,
) -> bool:
    """Whether an element is used, if at all, before the store makes the output of it: in the same
    iteration of the loops around both, and of no other."""
    depth = common_length([use.path, store.path])
    if depth == len(use.path):  # a condition around the store
        return False
    order = child_stmts(store.path[depth - 1])
    if order.index(use.path[depth]) > order.index(store.path[depth]):
        return False
    shared = {s.var: s.extent for s in store.path[:depth] if isinstance(s, For)}
    alike = [a for a, b in zip(use.indices, indices) if a is b and variables(a) <= shared.keys()]
    return _tells(alike, shared, loops, analyzer)


def _moved(stmt: Stmt, old: Buffer, new: Buffer, home: _Home) -> Stmt:
    """The same with `old` in `new`."""
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        return Load(new, home.of(e.indices)) if e.buffer is old else None

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Store) and node.buffer is new and isinstance(node.value, Load):
            if node.value.buffer is old:
                return NOTHING  # it is there
        node = map_own_exprs(map_children(node, visit), lambda e: map_loads(e, load, memo))
        if isinstance(node, (Store, Prefetch)) and node.buffer is old:
            return replace(node, buffer=new, indices=home.of(node.indices))
        return node

    return visit(stmt)
