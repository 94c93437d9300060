"""Reads under a condition: a consumer may have instances that read nothing of a buffer.

Moved to where the buffer is computed, such instances would be lost if the buffer has no element
for them: select(i < 5, B[i], 0.0) over 8 values of i, where B has 5 elements.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedule.analysis.uses import Access, plain_store
from schedule.errors import require
from schedule.rewrite.placement import beyond_extents
from schedule.state import State
from tensorir import Block, Buffer, Expr, Load, Select, Seq, Stmt, Store, Var, binary, children


def always_reads(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether every execution of `stmt` reads the buffer; False where it may not."""
    if isinstance(stmt, Seq):
        return any([always_reads(part, buffer) for part in stmt.stmts])
    if isinstance(stmt, Store):
        return any([_evaluates(e, buffer) for e in (*stmt.indices, stmt.value)])
    return False


def _evaluates(e: Expr, buffer: Buffer) -> bool:
    if isinstance(e, Load) and e.buffer is buffer:
        return True
    parts = (e.cond,) if isinstance(e, Select) else children(e)
    return any([_evaluates(part, buffer) for part in parts])


def instances_are_elements(state: State, node: Block, read: Access, makers: Iterable[str]) -> None:
    """Refuse unless each instance of `node` has an element of the buffer that it reads plainly."""
    buffer = read.buffer
    sizes = {it.var: it.extent for it in node.iters}
    analyzer = state.analyzer()
    for index, size in zip(read.indices, buffer.shape):
        fits = not isinstance(index, Var) or analyzer.prove(binary("<=", sizes[index], size))
        require(
            fits,
            node.name,
            f"block {node.name!r} reads {buffer.name!r} only under a condition, and runs over more "
            "than its elements",
        )
    for name in makers:
        maker = state.block(name)
        store = plain_store(maker)
        own = {it.var: it.extent for it in maker.iters}
        whole = (
            store is not None
            and all(
                isinstance(v, Var) and own[v] is size
                for v, size in zip(store.indices, buffer.shape)
            )
            and not beyond_extents(state, maker)
        )
        require(
            whole,
            node.name,
            f"block {node.name!r} reads {buffer.name!r} only under a condition, and block {name!r} "
            "may not write all of it",
        )
