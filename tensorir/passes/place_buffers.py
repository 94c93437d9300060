"""place_buffers: intermediates are allocated where they live, as small as what lives there.

On GPUs, registers shrink to what one thread has and tiles to those of a step; temporaries in global
memory stay whole, at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replace_fields
from math import inf, prod

from tensorir.arith import Analyzer
from tensorir.arith.regions.region import Interval
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses, changes
from tensorir.passes.facts.lifetimes import (
    innermost_place,
    written_out_within,
    written_part,
)
from tensorir.passes.facts.made import Finds
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.stmt import (
    Alloc,
    Exchange,
    Extern,
    ForKind,
    Part,
    Prefetch,
    Seq,
    Stmt,
    Store,
    replace,
    seq,
)
from tensorir.visit import map_children, map_exprs, map_loads, map_parts, variables


@dataclass(frozen=True)
class Place:
    """An allocation: `buffer`, as `compact`, around statements first..last of `around`; its indices
    are `parts`, and after these those of the buffer less `low`."""

    buffer: Buffer
    compact: Buffer
    low: tuple[Expr, ...]
    around: Stmt
    first: int = 0
    last: int = 0
    parts: tuple[Var, ...] = ()


def place_buffers(func: PrimFunc) -> PrimFunc:
    """Allocate every intermediate around the innermost statement that contains its accesses.

    Inside, each dimension keeps only the interval that is written while the loops below the
    allocation run, where that interval has a constant length; indices shift accordingly. Memory
    that carries a value from one iteration to the next is allocated outside of that loop.
    Memory that all threads of a GPU see is allocated outside of their loops, and whole: at the top.
    Requires that lower_blocks ran; loop names must be unique.
    """
    if not func.buffers:
        return func
    analyzer = function_analyzer(func)
    found = accesses(func.body)
    places: list[Place] = []
    for buffer in func.buffers:
        if buffer in found:
            places.append(_place(found[buffer], analyzer))
    at = {p.around: [q for q in places if q.around is p.around] for p in places}
    body = _insert(func.body, at)
    return replace_fields(func, body=_shift(body, places, analyzer), buffers=())


def _place(uses: list[Access], analyzer: Analyzer) -> Place:
    threads = any([loop.kind is ForKind.THREAD for use in uses for loop in use.loops()])
    at_top = threads and uses[0].buffer.scope == "global"
    depth, known = (0, False) if at_top else innermost_place(uses, analyzer)
    buffer, around = uses[0].buffer, uses[0].path[depth]
    rigid = _rigid(uses) if known else set(range(buffer.ndim))
    shape, low = _compact(uses, depth, rigid, analyzer)
    first = last = 0
    if isinstance(around, Seq):
        below = [a.path[depth + 1] for a in uses]
        positions = [around.stmts.index(s) for s in below]
        first, last = min(positions), max(positions)
    parts: tuple[Var, ...] = ()
    if known and buffer.scope == "local" and not rigid:
        shape, low, parts = _in_parts(uses, depth, analyzer, shape) or (shape, low, parts)
    return Place(buffer, buffer.with_shape(shape), low, around, first, last, parts)


Compact = tuple[tuple[Expr, ...], tuple[Expr, ...]]
"""Extents of what is kept of a buffer, and where that begins."""


def _compact(uses: list[Access], depth: int, rigid: set[int], analyzer: Analyzer) -> Compact:
    """What is written while the statement at `depth` runs, all of `rigid` dimensions."""
    writes, around = [a for a in uses if a.is_write], uses[0].path[depth]
    shape, low = list[Expr](), list[Expr]()
    for n, size in enumerate(uses[0].buffer.shape):
        interval = None if n in rigid else written_part(writes, n, depth, analyzer)
        keeps = interval is None or not _smaller(interval, size) or changes([interval.low], around)
        shape.append(size if keeps or interval is None else interval.extent)
        low.append(Const(0, size.dtype) if keeps or interval is None else interval.low)
    return tuple(shape), tuple(low)


def _in_parts(
    uses: list[Access], depth: int, analyzer: Analyzer, shape: tuple[Expr, ...]
) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Var, ...]] | None:
    """Registers for each iteration of loops that are written out, where each reads what it wrote
    and these are fewer than what can be told of all: nothing of places as `(i * 256 + t) % n`."""
    inner, loops = written_out_within(uses, depth)
    most, extents = _count(shape), tuple([loop.extent for loop in loops])
    if not loops or _count(extents) >= most:
        return None
    each, low = _compact(uses, inner, set(), analyzer)
    parts = (*extents, *each)
    if _count(parts) >= most or not Finds(uses, analyzer).self_contained(inner):
        return None
    return parts, low, tuple([loop.var for loop in loops])


def _count(extents: tuple[Expr, ...]) -> float:
    """Elements of such extents, infinitely many of symbolic ones."""
    return prod([inf if (n := int_value(extent)) is None else n for extent in extents])


def _rigid(uses: list[Access]) -> set[int]:
    """The dimensions that extern functions get all of; they must not lie further apart."""
    return {
        n
        for use in uses
        for n, index in enumerate(use.indices)
        if variables(index) & use.part_axes.keys()
    }


def _smaller(interval: Interval, size: Expr) -> bool:
    extent, whole = int_value(interval.extent), int_value(size)
    return extent is not None and (whole is None or extent < whole)


def _insert(stmt: Stmt, places: dict[Stmt, list[Place]]) -> Stmt:
    here = places.get(stmt, [])
    result = map_children(stmt, lambda child: _insert(child, places))
    if not isinstance(stmt, Seq) or not isinstance(result, Seq):
        for place in here:
            result = Alloc(place.compact, result)
        return result
    spans = [(n, n, s) for n, s in enumerate(result.stmts)]
    for place in sorted(here, key=lambda p: p.last - p.first):
        run = [s for s in spans if s[1] >= place.first and s[0] <= place.last]
        wrapped = Alloc(place.compact, seq(*[s for _, _, s in run]))
        at = spans.index(run[0])
        spans[at : at + len(run)] = [(run[0][0], run[-1][1], wrapped)]
    return seq(*[s for _, _, s in spans])


def _shift(body: Stmt, places: list[Place], analyzer: Analyzer) -> Stmt:
    moved = {p.buffer: p for p in places}

    def shifted(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        pairs = zip(indices, moved[buffer].low)
        return (*moved[buffer].parts, *[analyzer.simplify(i - low) for i, low in pairs])

    def load(e: Load) -> Expr | None:
        if e.buffer in moved:
            return Load(moved[e.buffer].compact, shifted(e.buffer, e.indices))
        return None

    def part(old: Part) -> Part:
        if old.buffer not in moved:
            return old
        return Part(moved[old.buffer].compact, shifted(old.buffer, old.indices), old.shape)

    def stores(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stores)
        if isinstance(stmt, (Store, Prefetch, Exchange)) and stmt.buffer in moved:
            indices = shifted(stmt.buffer, stmt.indices)
            return replace(stmt, buffer=moved[stmt.buffer].compact, indices=indices)
        return map_parts(stmt, part) if isinstance(stmt, Extern) else stmt

    memo: dict[Expr, Expr] = {}
    return map_exprs(stores(body), lambda e: map_loads(e, load, memo))
