"""fold_buffers: a buffer of which a loop needs only the latest part becomes circular."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.arith import Analyzer
from tensorir.arith.regions.region import Interval, covers, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses_of
from tensorir.passes.facts.instances import on_these_alone
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import THREAD_AXES
from tensorir.passes.rewriting import with_body
from tensorir.stmt import (
    Alloc,
    Exchange,
    Extern,
    For,
    ForKind,
    Part,
    Prefetch,
    Seq,
    Stmt,
    Store,
    replace,
)
from tensorir.visit import (
    map_children,
    map_loads,
    map_own_exprs,
    map_parts,
    substitute,
    variables,
    walk,
)

Loops = Mapping[Var, Expr]


def fold_buffers(func: PrimFunc) -> PrimFunc:
    """Keep the part of a buffer that one iteration of a loop touches, at positions that wrap.

    rewrite:
        with alloc(T, f32[66]):                 with alloc(T, f32[4]):
            for y in range(2):                      for y in range(2):
                T[y] = ...                              T[y % 4] = ...
            for y in range(64):           ->        for y in range(64):
                T[y + 2] = ...                          T[(y + 2) % 4] = ...
                ... = T[y] + T[y + 2]                   ... = T[y % 4] + T[(y + 2) % 4]

    Where iteration y touches the elements [a(y), a(y) + size) only, and a never decreases, two
    elements that share a position are never needed at once: an element is touched again by y
    after the other one was written by x <= y only if both lie in the part of x. What stands
    before the loop must have positions of its own for all that it touches, and must not reach
    further than the part of the first iteration. Sizes are powers of two, so that positions are
    masks. What threads of a GPU share is touched by all of them. Requires place_buffers, and is to
    run before partition_loops.
    """
    if not any(isinstance(s, Alloc) for s in walk(func.body)):
        return func
    return with_body(func, _visit(func.body, function_analyzer(func), {}))


def _visit(stmt: Stmt, analyzer: Analyzer, threads: Loops) -> Stmt:
    if isinstance(stmt, For) and stmt.thread in THREAD_AXES:
        threads = {**threads, stmt.var: stmt.extent}
    result = map_children(stmt, lambda child: _visit(child, analyzer, threads))
    return _fold(result, analyzer, threads) if isinstance(result, Alloc) else result


def _fold(alloc: Alloc, analyzer: Analyzer, threads: Loops) -> Alloc:
    buffer = alloc.buffer
    shared = threads if buffer.scope == "shared" else {}
    if buffer.scope == "shared" and not threads:
        return alloc  # loops over threads are inside: what one iteration touches is not all
    if all([int_value(size) == 1 for size in buffer.shape]):
        return alloc
    uses = [(s, accesses_of(s, buffer)) for s in _statements(alloc.body)]
    uses = [(s, found) for s, found in uses if found]
    if not uses:
        return alloc
    loop, inside = uses[-1]
    before = [access for _, found in uses[:-1] for access in found]
    if not isinstance(loop, For) or loop.kind is not ForKind.SERIAL:
        return alloc
    for dim in range(buffer.ndim):
        size = _window(loop, inside, before, dim, analyzer, shared)
        if size is not None:
            return _circular(alloc, dim, size)
    return alloc


def _statements(stmt: Stmt) -> list[Stmt]:
    """The statements that run one after the other."""
    if isinstance(stmt, Alloc):
        return _statements(stmt.body)
    if isinstance(stmt, Seq):
        return [part for s in stmt.stmts for part in _statements(s)]
    return [stmt]


def _window(
    loop: For,
    inside: list[Access],
    before: list[Access],
    dim: int,
    analyzer: Analyzer,
    threads: Loops,
) -> int | None:
    """The size to which a dimension can be folded; None where it cannot or need not be."""
    asked = [e for use in inside for e in (use.indices[dim], *use.inner().values())]
    if not any([loop.var in variables(e) for e in asked]):
        return None  # each iteration touches the same part
    part = _touched(loop, inside, dim, analyzer, threads)
    made = _touched(loop, [use for use in inside if use.is_write], dim, analyzer, threads)
    if part is None or made is None or not before and covers(made, part, analyzer):
        return None  # in the last case, nothing is kept for a later iteration
    extent, whole = int_value(part.extent), int_value(inside[0].buffer.shape[dim])
    if extent is None or extent < 1:
        return None
    early = _touched(None, before, dim, analyzer, threads)
    earlier = 1 if early is None else int_value(early.extent)
    if before and (early is None or earlier is None):
        return None
    size = 1 << (max(extent, earlier or 1) - 1).bit_length()
    if whole is not None and whole <= size:
        return None
    low = part.low
    step = int_value(analyzer.simplify(substitute(low, {loop.var: loop.var + 1}) - low))
    if step is None or step <= 0:
        return None
    end = substitute(low, {loop.var: const(0)}) + size
    if early is not None and not analyzer.prove(binary("<=", early.low + early.extent, end)):
        return None
    return size


def _touched(
    fixed: For | None, uses: list[Access], dim: int, analyzer: Analyzer, threads: Loops
) -> Interval | None:
    """What the accesses of all `threads` touch while their loops run, all but `fixed`, where
    conditions on these loops alone let them."""
    from tensorir.passes.facts.joined import joined_indices

    part: Interval | None = None
    for number, use in enumerate(uses):
        inner = {**use.inner(), **threads}
        if fixed is not None:
            inner.pop(fixed.var, None)
        limit = on_these_alone(use.conditions, inner)
        where = joined_indices(use.indices, limit, inner, analyzer)
        found = relax(where.indices[dim], where.extents, where.known)
        if number and part is not None and found is not None:
            found = union(part, found, analyzer)
        part = found
        if part is None:
            return None
    return part


def _circular(alloc: Alloc, dim: int, size: int) -> Alloc:
    old = alloc.buffer
    shape = tuple([const(size) if n == dim else s for n, s in enumerate(old.shape)])
    new = Buffer(old.name, shape, old.dtype, old.scope)
    memo: dict[Expr, Expr] = {}

    def at(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple([i % size if n == dim else i for n, i in enumerate(indices)])

    def load(e: Load) -> Expr | None:
        return Load(new, at(e.indices)) if e.buffer is old else None

    def part(use: Part) -> Part:
        return Part(new, at(use.indices), use.shape) if use.buffer is old else use

    def visit(node: Stmt) -> Stmt:
        node = map_own_exprs(map_children(node, visit), lambda e: map_loads(e, load, memo))
        if isinstance(node, (Store, Prefetch, Exchange)) and node.buffer is old:
            return replace(node, buffer=new, indices=at(node.indices))
        return map_parts(node, part) if isinstance(node, Extern) else node

    return Alloc(new, visit(alloc.body))
