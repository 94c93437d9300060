"""place_buffers: intermediates are allocated where they live, as small as what lives there."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from tensorir.arith import Analyzer
from tensorir.arith.region import Interval, covers, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, Var, all_of, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.accesses import Access, accesses
from tensorir.passes.ranges import function_analyzer
from tensorir.stmt import Alloc, For, ForKind, Seq, Stmt, Store, seq
from tensorir.visit import map_children, map_exprs, transform, variables

UNDIVIDED = (ForKind.VECTORIZED, ForKind.UNROLLED)
"""Loops whose iterations become one piece of code, so that memory is allocated around them."""


@dataclass(frozen=True)
class Place:
    """An allocation: `buffer`, as `compact`, around statements first..last of `around`."""

    buffer: Buffer
    compact: Buffer
    low: tuple[Expr, ...]
    around: Stmt
    first: int = 0
    last: int = 0


def place_buffers(func: PrimFunc, whole_globals: bool = False) -> PrimFunc:
    """Allocate every intermediate around the innermost statement that contains its accesses.

    Inside, each dimension keeps only the interval that is written while the loops below the
    allocation run, where that interval has a constant length; indices shift accordingly. Memory
    that carries a value from one iteration to the next is allocated outside of that loop.
    `whole_globals` leaves buffers of scope "global" at the top and whole (CUDA). Requires that
    lower_blocks ran; loop names must be unique.
    """
    if not func.buffers:
        return func
    analyzer = function_analyzer(func)
    found = accesses(func.body)
    places: list[Place] = []
    for buffer in func.buffers:
        if buffer in found:
            at_top = whole_globals and buffer.scope == "global"
            places.append(_place(found[buffer], func.body, at_top, analyzer))
    at = {p.around: [q for q in places if q.around is p.around] for p in places}
    body = _insert(func.body, at)
    return replace_fields(func, body=_shift(body, places, analyzer), buffers=())


def _place(uses: list[Access], root: Stmt, at_top: bool, analyzer: Analyzer) -> Place:
    depth = 0 if at_top else _depth(uses, analyzer)
    region = _region(uses, depth, analyzer)
    if region is None:
        depth, region = 0, _region(uses, 0, analyzer)
    buffer, around = uses[0].buffer, uses[0].path[depth]
    shape: list[Expr] = []
    low: list[Expr] = []
    for n, size in enumerate(buffer.shape):
        interval = None if at_top or region is None else region[n]
        keeps = interval is None or not _smaller(interval, size)
        shape.append(size if keeps or interval is None else interval.extent)
        low.append(Const(0, size.dtype) if keeps or interval is None else interval.low)
    first = last = 0
    if isinstance(around, Seq):
        below = [a.path[depth + 1] for a in uses]
        positions = [around.stmts.index(s) for s in below]
        first, last = min(positions), max(positions)
    return Place(buffer, buffer.with_shape(tuple(shape)), tuple(low), around, first, last)


def _smaller(interval: Interval, size: Expr) -> bool:
    extent, whole = int_value(interval.extent), int_value(size)
    return extent is not None and (whole is None or extent < whole)


def _depth(uses: list[Access], analyzer: Analyzer) -> int:
    """The position on the paths of the statement to allocate around."""
    depth = _common_length([a.path for a in uses]) - 1
    path = uses[0].path
    first_reads = not uses[0].is_write
    for n, stmt in enumerate(path[: depth + 1]):
        if isinstance(stmt, For) and (first_reads or _undivided(stmt, path[n + 1 : depth + 1])):
            return n
        if isinstance(stmt, For) and "pipeline" in stmt.annotations and depth > n:
            # What passes between the stages of a pipeline is read in a later iteration.
            if _region(uses, n + 1, analyzer, every=True) is None:
                return n
    outer = {s.var: n for n, s in enumerate(path[:depth]) if isinstance(s, For)}
    reads = [a for a in uses if not a.is_write]
    for write in (a for a in uses if a.is_write):
        for condition in write.conditions:
            used = variables(condition) & {loop.var for loop in write.loops()}
            # Not written in some iterations of the loops around, and read all the same.
            skipped = used and used <= outer.keys()
            if skipped and any(condition not in r.conditions for r in reads):
                if _written_before(write, uses, outer, depth, analyzer):
                    continue
                if _only_keeps_inside(condition, write, analyzer):
                    continue
                depth = min(depth, *(outer[v] for v in used))
    return depth


def _undivided(loop: For, below: Sequence[Stmt]) -> bool:
    """Whether iterations of `loop` become one piece of code, in one thread."""
    threads = [s for s in below if isinstance(s, For) and s.kind is ForKind.PARALLEL]
    return loop.kind in UNDIVIDED and not threads


def _only_keeps_inside(condition: Expr, write: Access, analyzer: Analyzer) -> bool:
    """Whether every element that `condition` skips lies outside of the buffer: none can be read."""
    inside = all_of(
        *[binary("<=", const(0), index) for index in write.indices],
        *[binary("<", index, size) for index, size in zip(write.indices, write.buffer.shape)],
    )
    return analyzer.assuming(inside).prove(condition)


def _written_before(
    write: Access, uses: list[Access], outer: Container[Var], depth: int, analyzer: Analyzer
) -> bool:
    """Whether an earlier write, made in every iteration of the outer loops, covers `write`."""
    for other in uses[: uses.index(write)]:
        always = not any(
            [variables(c) and all(v in outer for v in variables(c)) for c in other.conditions]
        )
        if not other.is_write or not always:
            continue
        spans = [
            (_relaxed(other, n, depth, analyzer), _relaxed(write, n, depth, analyzer))
            for n in range(write.buffer.ndim)
        ]
        if all([a is not None and b is not None and covers(a, b, analyzer) for a, b in spans]):
            return True
    return False


def _common_length(paths: Sequence[tuple[Stmt, ...]]) -> int:
    shortest = min(map(len, paths))
    for n in range(shortest):
        if any(p[n] is not paths[0][n] for p in paths):
            return n
    return shortest


def _region(
    uses: list[Access], depth: int, analyzer: Analyzer, every: bool = False
) -> list[Interval | None] | None:
    """What is written per dimension; None if something else is read, from an earlier iteration.

    Conditional reads count only if `every` one is to.
    """
    result: list[Interval | None] = []
    for n in range(uses[0].buffer.ndim):
        interval: Interval | None = None
        for count, write in enumerate(a for a in uses if a.is_write):
            other = _relaxed(write, n, depth, analyzer)
            if count and interval is not None and other is not None:
                other = union(interval, other, analyzer)
            interval = None if count and interval is None else other
        if interval is not None and depth > 0:
            for read in uses:
                if read.is_write or not every and (read.guarded or read.conditions):
                    continue
                inner = _relaxed(read, n, depth, analyzer)
                if inner is None or not covers(interval, inner, analyzer):
                    return None
        result.append(interval)
    return result


def _relaxed(access: Access, n: int, depth: int, analyzer: Analyzer) -> Interval | None:
    inner = {loop.var: loop.extent for loop in access.loops(depth)}
    if access.buffer.scope == "shared":
        around = access.loops()
        inner |= {s.var: s.extent for s in around if (s.thread or "").startswith("threadIdx")}
    return relax(access.indices[n], inner, analyzer)


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
        return tuple([analyzer.simplify(i - low) for i, low in pairs])

    def load(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in moved:
            return Load(moved[e.buffer].compact, shifted(e.buffer, e.indices))
        return None

    def stores(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stores)
        if isinstance(stmt, Store) and stmt.buffer in moved:
            indices = shifted(stmt.buffer, stmt.indices)
            return Store(moved[stmt.buffer].compact, indices, stmt.value)
        return stmt

    memo: dict[Expr, Expr] = {}
    return map_exprs(stores(body), lambda e: transform(e, load, memo))
