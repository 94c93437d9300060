"""Loops whose iterations run at once have to be free to: no iteration needs another one."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.arith import Analyzer
from tensorir.block_accesses import Access, accesses, blocks_below, feeds
from tensorir.buffer import Buffer
from tensorir.dependence import belongs_to, conflict, piped
from tensorir.errors import VerifyError
from tensorir.expr import TRUE, Expr, Not, Var, all_of
from tensorir.func import PrimFunc
from tensorir.parts import part_axes
from tensorir.passes.lifetimes import keeps_to_itself
from tensorir.stmt import (
    Block,
    Exchange,
    Extern,
    For,
    ForKind,
    If,
    IterKind,
    Let,
    Stmt,
    Store,
    Sync,
)
from tensorir.visit import child_stmts, loads, walk

AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED)
"""Threads of GPUs have rules of their own, which the schedule knows."""

def check_loops(func: PrimFunc) -> None:
    """Raise VerifyError for a parallel or vectorized loop whose iterations are not proved to be
    independent, or that lies where such a loop cannot run."""
    for stmt in walk(func.body):
        if isinstance(stmt, (Sync, Exchange)):
            raise VerifyError(
                f"function {func.name!r} has a {type(stmt).__name__.lower()} of threads, which is "
                "made by lowering; write loops over threads, which wait where they end"
            )
    loops = list(_loops(func.body, ()))
    if not any(loop.kind in AT_ONCE for loop, _ in loops):
        return
    every = list(_units(func.body, TRUE))
    for loop, outside in loops:
        if loop.kind in AT_ONCE:
            _check_place(loop, outside)
            _check_independent(func, loop, outside, every)


def _loops(stmt: Stmt, outside: tuple[For, ...]) -> Iterator[tuple[For, tuple[For, ...]]]:
    inside = outside
    if isinstance(stmt, For):
        yield stmt, outside
        inside = (*outside, stmt)
    for child in child_stmts(stmt):
        yield from _loops(child, inside)


def _units(stmt: Stmt, condition: Expr) -> Iterator[Block]:
    """The innermost blocks, and each statement outside of all blocks as if it were one."""
    if isinstance(stmt, Block):
        yield from blocks_below(stmt)
    elif isinstance(stmt, (Store, Extern, Let)):
        yield Block("", (), stmt, predicate=condition)
    elif isinstance(stmt, If) and stmt.cond.dtype == "bool":
        yield from _units(stmt.then, all_of(condition, stmt.cond))
        if stmt.orelse is not None:
            yield from _units(stmt.orelse, all_of(condition, Not(stmt.cond)))
    else:
        for child in child_stmts(stmt):
            yield from _units(child, condition)


def _check_place(loop: For, outside: tuple[For, ...]) -> None:
    for outer in outside:
        if outer.kind is ForKind.VECTORIZED:
            raise VerifyError(
                f"the {loop.kind} loop {loop.name!r} is inside the {outer.kind} loop {outer.name!r}"
            )
    if loop.kind is ForKind.VECTORIZED and loop.const_extent is None:
        raise VerifyError(
            f"loop {loop.name!r} is vectorized and its extent {loop.extent!r} is not a number; "
            "split it by a number and vectorize the inner part"
        )


def _check_independent(
    func: PrimFunc, loop: For, outside: tuple[For, ...], every: list[Block]
) -> None:
    below = list(_units(loop.body, TRUE))
    for block in below:
        if IterKind.REDUCE in feeds(block, loop.var):
            raise _refused(loop, f"loop {loop.name!r} is a reduction of block {block.name!r}")
    varying = _ranges(loop)
    analyzer = Analyzer()
    for size in func.size_vars:
        analyzer.bind_range(size, 0, None)
    for var, extent in {**{f.var: f.extent for f in outside}, **varying}.items():
        analyzer.bind(var, extent)
    touched: dict[Buffer, list[Access]] = {}
    for block in below:
        for access in (*accesses(block), *_asked(block)):
            touched.setdefault(access.buffer, []).append(access)
    for buffer, found in touched.items():
        if any(a.is_write for a in found) and not _own(func, loop, outside, buffer, below, every):
            reason = conflict(found, loop, varying, analyzer)
            if reason is not None:
                raise _refused(loop, reason)


def _asked(block: Block) -> Iterator[Access]:
    """What is read to find out where a block runs."""
    for e in (block.predicate, *(it.binding for it in block.iters)):
        for load in loads(e):
            yield Access(block, load.buffer, load.indices, is_write=False)


def _ranges(loop: For) -> dict[Var, Expr]:
    """The variables of a loop and of what is in it, with their extents, those of parts included."""
    found: dict[Var, Expr] = {}
    for stmt in walk(loop):
        if isinstance(stmt, For):
            found[stmt.var] = stmt.extent
        elif isinstance(stmt, Extern):
            for part in stmt.parts:
                found.update(part_axes(part))
    return found


def _own(
    func: PrimFunc,
    loop: For,
    outside: tuple[For, ...],
    buffer: Buffer,
    below: list[Block],
    every: list[Block],
) -> bool:
    """Whether each iteration has memory of its own for `buffer`; lanes of vectors share it."""
    if buffer in func.params or loop.kind is ForKind.VECTORIZED:
        return False
    own = belongs_to(buffer, below, every) and not piped((*outside, loop), buffer)
    return own and keeps_to_itself(func, loop.var, buffer)


def _refused(loop: For, reason: str) -> VerifyError:
    how = "on several threads" if loop.kind is ForKind.PARALLEL else "as lanes of vectors"
    return VerifyError(
        f"{loop.name!r} runs its iterations {how}, and they are not proved to be independent: "
        f"{reason}; make it a serial loop, or its iterations touch elements of their own"
    )
