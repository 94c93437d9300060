"""How far inside of loops a buffer may be allocated: no value may pass from one iteration to the
next through memory that belongs to one of them.

An iteration keeps to itself if each element that it reads is one that it wrote before (made.py).
What cannot be proved is allocated further out, and at the top a buffer simply lives for the whole
program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from tensorir.analysis.touching import plain_loop, touching
from tensorir.arith import Analyzer
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.region import Interval, relax, union
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses_of
from tensorir.passes.facts.instances import common_length, conditions_below, running
from tensorir.passes.facts.made import Finds
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.rewriting import with_body
from tensorir.scalars import Scalar
from tensorir.stmt import For, ForKind, Stmt, Store
from tensorir.visit import loads, stmt_exprs, walk

PARTS = 512
"""Parts of programs of which is kept whether they keep a buffer to themselves."""

UNDIVIDED = (ForKind.VECTORIZED, ForKind.UNROLLED)
"""Loops whose iterations become one piece of code, so that memory is allocated around them."""


def innermost_place(uses: list[Access], analyzer: Analyzer) -> tuple[int, bool]:
    """The position on the paths of `uses` of the innermost statement to allocate around.

    And whether all that is read there is known to be written there.
    """
    reads = Finds(uses, analyzer)
    depth = _innermost_common(uses, reads)
    path = uses[0].path
    while not (_has_owner(uses[0], depth) or reads.self_contained(depth)):
        around = [n for n, s in enumerate(path[:depth]) if isinstance(s, For)]
        loop = path[around[-1]]
        if isinstance(loop, For) and loop.kind in (ForKind.PARALLEL, ForKind.THREAD):
            return depth, False  # its iterations pass nothing on, whatever can be proved here
        depth = around[-1]
    return depth, True


def written_out_within(uses: list[Access], depth: int) -> tuple[int, list[For]]:
    """The position of the innermost statement around all of `uses`, and the loops between `depth`
    and it, if all of these are written out; else none of them."""
    inner = common_length([a.path for a in uses]) - 1
    loops = [s for s in uses[0].path[depth:inner] if isinstance(s, For)]
    out = [s.kind is ForKind.UNROLLED and s.const_extent is not None for s in loops]
    return inner, loops if all(out) and uses[0].is_write else []


def _has_owner(use: Access, depth: int) -> bool:
    """Whether all that is read at position `depth` is written there since only threads are around,
    and loops of one iteration.

    Each owner of memory, a thread or a block of them, reads what it wrote itself: programs with
    threads are held to that (verifier/thread_memory.py), and so there is nothing left to prove.
    """
    around = [s for s in use.path[:depth] if isinstance(s, For) and s.const_extent != 1]
    return use.buffer.scope != "global" and all([s.kind is ForKind.THREAD for s in around])


def _innermost_common(uses: list[Access], reads: Finds) -> int:
    """The innermost statement around all uses, or a loop whose iterations share memory."""
    depth = common_length([a.path for a in uses]) - 1
    path = uses[0].path
    # In a pipeline, a stage may stand before the one that made what it reads, iterations ago.
    staged = any([isinstance(s, For) and "pipeline" in s.annotations for s in path[: depth + 1]])
    first_reads = not uses[0].is_write and not staged
    for n, stmt in enumerate(path[: depth + 1]):
        if isinstance(stmt, For) and (first_reads or _undivided(stmt, path[n + 1 : depth + 1])):
            return n
        if isinstance(stmt, For) and "pipeline" in stmt.annotations and depth > n:
            # What passes between the stages of a pipeline is read in a later iteration.
            if reads.passes_on(n + 1) or not reads.self_contained(n + 1):
                return n
    return depth


def keeps_to_itself(func: PrimFunc, loop: Var, buffer: Buffer, trusting: bool = True) -> bool:
    """Whether each iteration of a loop reads of `buffer`, used only inside, what it wrote before.

    `func` still has its blocks; that its reads are of what has a value is taken as given if
    `trusting`. False means that this could not be proved. What follows from the statements that
    touch the buffer is remembered: threads are asked the same as what bound their loops.
    """
    part = touching(func.body, buffer, staged=loop in _pipelines(func.body))
    if part is not None and _asks_memory(part):
        part = touching(func.body, None)  # any statement may write what is asked for
    if part is None:
        return True  # the loop never runs
    return _keeps(func.params, func.scalars, _serial_to(part, loop), loop, buffer, trusting)


@lru_cache(maxsize=PARTS)
def _pipelines(stmt: Stmt) -> frozenset[Var]:
    """The loops whose iterations pass values on to each other's stages."""
    found = [s.var for s in walk(stmt) if isinstance(s, For) and "pipeline" in s.annotations]
    return frozenset(found)


def _asks_memory(stmt: Stmt) -> bool:
    """Whether memory is read to find out where, or how often, something is touched."""
    for s in walk(stmt):
        asked = list(stmt_exprs(s))
        if isinstance(s, Store):
            asked = [*s.indices, *(i for load in loads(s.value) for i in load.indices)]
        if any([e.has_loads for e in asked]):
            return True
    return False


@lru_cache(maxsize=PARTS)
def _serial_to(stmt: Stmt, loop: Var) -> Stmt:
    """The loops down to `loop` as serial ones, which they are for each iteration of it, unless they
    are over threads, which fill shared memory together."""
    if not isinstance(stmt, For):
        return stmt
    body = stmt.body if stmt.var is loop else _serial_to(stmt.body, loop)
    threads = (stmt.thread or "").startswith("threadIdx")
    kind, thread = (stmt.kind, stmt.thread) if threads else (ForKind.SERIAL, None)
    return plain_loop(stmt.var, stmt.extent, body, kind, thread)


@lru_cache(maxsize=PARTS)
def _keeps(
    params: tuple[Buffer, ...],
    scalars: tuple[Scalar, ...],
    part: Stmt,
    loop: Var,
    buffer: Buffer,
    trusting: bool,
) -> bool:
    from tensorir.passes.facts.joined import joined_loops

    func = PrimFunc("", params, (), part, scalars=scalars)
    body = joined_loops(part, buffer, loop, func.size_ranges)
    flat = lower_blocks(lower_init(with_body(func, body)))
    uses = accesses_of(flat.body, buffer)
    if not uses:
        return True  # the loop never runs
    shared = uses[0].path[: common_length([a.path for a in uses])]
    place = [n for n, s in enumerate(shared) if isinstance(s, For) and s.var is loop]
    if not place:
        return False  # the init of a reduction over the loop runs before it
    return Finds(uses, function_analyzer(flat), trusting).self_contained(place[0] + 1)


def written_part(
    writes: Sequence[Access], n: int, depth: int, analyzer: Analyzer
) -> Interval | None:
    """The hull of what is written in a dimension; None where none is found.

    Where loops were made one and split again, what their conditions leave out may be most of it.
    """
    indices = [write.indices[n] for write in writes]
    ranges: list[Mapping[Var, Expr]] = [running(write, depth) for write in writes]
    whole = _hull(indices, ranges, [analyzer] * len(writes))
    limits = [conditions_below(write, depth) for write in writes]
    if all(
        [
            limit is TRUE or is_dense(write.indices, inner, analyzer)
            for limit, write, inner in zip(limits, writes, ranges)
        ]
    ):
        return whole
    from tensorir.passes.facts.joined import joined_indices

    seen = [
        joined_indices(write.indices, limit, inner, analyzer)
        for limit, write, inner in zip(limits, writes, ranges)
    ]
    indices, ranges = [each.indices[n] for each in seen], [each.extents for each in seen]
    left = _hull(indices, ranges, [each.known for each in seen])
    sizes = [int_value(part.extent) if part is not None else None for part in (whole, left)]
    smaller = sizes[1] is not None and (sizes[0] is None or sizes[1] < sizes[0])
    return left if smaller else whole


def _hull(
    indices: Sequence[Expr], ranges: Sequence[Mapping[Var, Expr]], known: Sequence[Analyzer]
) -> Interval | None:
    result: Interval | None = None
    for count, (index, inner, analyzer) in enumerate(zip(indices, ranges, known)):
        part = relax(index, inner, analyzer)
        if count and result is not None and part is not None:
            part = union(result, part, known[0])
        if part is None:
            return None
        result = part
    return result


def _undivided(loop: For, below: Sequence[Stmt]) -> bool:
    """Whether iterations of `loop` become one piece of code, in one thread."""
    threads = [s for s in below if isinstance(s, For) and s.kind is ForKind.PARALLEL]
    return loop.kind in UNDIVIDED and not threads
