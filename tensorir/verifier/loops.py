"""Loops whose iterations run at once have to be free to: no iteration needs another one."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir.analysis.block_accesses import reduces
from tensorir.analysis.dependence import belongs_to, conflict, piped
from tensorir.analysis.independence import outside_analyzer, ranges, shared_accesses, units
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.func import PrimFunc
from tensorir.passes.facts.lifetimes import keeps_to_itself
from tensorir.stmt import (
    Block,
    Exchange,
    For,
    ForKind,
    Stmt,
    Sync,
)
from tensorir.visit import child_stmts, walk

AT_ONCE = (ForKind.PARALLEL, ForKind.VECTORIZED)
"""Threads of GPUs have rules of their own: thread_loops.py."""


def check_loops(func: PrimFunc) -> None:
    """Raise VerifyError for a parallel or vectorized loop whose iterations are not proved to be
    independent, or that lies where such a loop cannot run, and for what threads of GPUs cannot."""
    for stmt in walk(func.body):
        if isinstance(stmt, (Sync, Exchange)):
            raise VerifyError(
                f"function {func.name!r} has a {type(stmt).__name__.lower()} of threads, which is "
                "made by lowering; write loops over threads, which wait where they end"
            )
    loops = list(_loops(func.body, ()))
    if any([loop.kind is ForKind.THREAD for loop, _ in loops]):
        from tensorir.verifier.thread_loops import check_thread_loops

        check_thread_loops(func)
    if not any(loop.kind in AT_ONCE for loop, _ in loops):
        return
    every = list(units(func.body))
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
    below = list(units(loop.body))
    for block in below:
        if reduces(block, loop.var):
            raise _refused(loop, f"loop {loop.name!r} is a reduction of block {block.name!r}")
    varying = ranges(loop)
    analyzer = outside_analyzer(func, outside, varying)
    for buffer, found in shared_accesses(loop, below).items():
        reason = conflict(found, loop, varying, analyzer)
        if reason is not None and not _own(func, loop, outside, buffer, below, every):
            raise _refused(loop, reason)


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
