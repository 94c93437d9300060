"""Whether what a stage reads is still there where its readers run: they may then read it instead.

Most programs write each element once. A program that was parsed may write a buffer again, a scan
writes the rows of its state one after the other, and stages that were moved into a loop are
computed again in each of its iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.coverage import covered
from schedule.analysis.uses import Access, accesses, read_by_others, writers
from schedule.errors import Illegal
from schedule.state import State
from tensorir import Block, Buffer, Expr, For, Var, binary, replace, slope, substitute


def overwritten(state: State, node: Block, buffer: Buffer, users: Sequence[str]) -> Illegal | None:
    """A block that may write what `node` reads between its place and that of `users`, which read
    what it makes in `buffer`; None if there is none."""
    for source in read_by_others(node):
        for writer in writers(state, source):
            if not _keeps(state, node, buffer, source, state.block(writer), users):
                return Illegal(
                    node.name,
                    f"block {writer!r} may write {source.name!r} again between block "
                    f"{node.name!r}, which reads it, and the readers of {buffer.name!r}",
                )
    return None


def _keeps(
    state: State, node: Block, buffer: Buffer, source: Buffer, writer: Block, users: Sequence[str]
) -> bool:
    order = state.block_names()
    place, mine = order.index(writer.name), state.loops_around(node.name)
    others = [f for name in users for f in state.loops_around(name)]
    around = state.loops_around(writer.name)
    shared = [f for f in around if f in mine]
    before = place < order.index(node.name)
    if not shared:
        later = all([order.index(user) < place for user in users])
        return before or (later and not any(f in others for f in around))
    inside = all([shared[-1] in state.loops_around(user) for user in users])
    if before and inside and covered(state, buffer, shared[-1]):
        return True
    return _writes_ahead(state, shared[0], node, source, writer)


def _writes_ahead(state: State, loop: For, node: Block, source: Buffer, writer: Block) -> bool:
    """Whether from any iteration of the loop on only rows are written that lie after all that was
    read up to then, as the steps of a scan do."""
    reads = [a for a in accesses(node) if a.buffer is source]
    writes = [a for a in accesses(writer) if a.buffer is source and a.is_write]
    return all([_is_ahead(state, loop, a, b) for a in reads for b in writes])


def _is_ahead(state: State, loop: For, read: Access, write: Access) -> bool:
    own, fresh = _apart(state, write, loop)
    analyzer = state.analyzer([*state.loops_around(read.block.name), *own])
    for mine, theirs in zip(read.in_loops(), write.in_loops()):
        moved = substitute(theirs, fresh)
        steps = slope(moved, loop.var, analyzer), slope(mine, loop.var, analyzer)
        if None in steps or min(s for s in steps if s is not None) < 0:
            continue
        if analyzer.prove(binary("<", mine, moved)):
            return True
    return False


def _apart(state: State, write: Access, loop: For) -> tuple[list[For], dict[Var, Expr]]:
    """The loops of the writer inside `loop` under names of their own: it runs at other places."""
    around = state.loops_around(write.block.name)
    inner = around[around.index(loop) + 1 :]
    renamed: dict[Var, Expr] = {f.var: Var(f"{f.name}'", f.var.dtype) for f in inner}
    copies = [replace(f, var=renamed[f.var], extent=substitute(f.extent, renamed)) for f in inner]
    return copies, renamed
