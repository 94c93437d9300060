"""What blocks read and write, and which loops carry a dependence between their iterations."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from schedule.state import State
from tensorir import (
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    Load,
    Stmt,
    Store,
    Var,
    all_of,
    child_stmts,
    loads,
    map_iter,
    replace,
    stmt_exprs,
    substitute,
    touched,
    variables,
    walk,
)


@dataclass(frozen=True)
class Access:
    """One load, store or part of a block, its indices as expressions of the block's variables."""

    block: Block
    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool

    def in_loops(self) -> tuple[Expr, ...]:
        """The indices as expressions of the loops around the block."""
        values = {it.var: it.binding for it in self.block.iters}
        return tuple(substitute(index, values) for index in self.indices)


def accesses(block: Block) -> list[Access]:
    """All loads, stores and parts of a block, those of its init included."""
    return [Access(block, *touch) for touch in _touches(block.init, block.body)]


@lru_cache(maxsize=4096)
def _touches(*parts: Stmt | None) -> tuple[tuple[Buffer, tuple[Expr, ...], bool], ...]:
    """Buffer, indices and whether it is a write; bodies are shared by all schedules of a block."""
    found: list[tuple[Buffer, tuple[Expr, ...], bool]] = []
    for part in parts:
        for stmt in walk(part) if part is not None else ():
            found.extend(touched(stmt))
            for e in stmt_exprs(stmt):
                found.extend((n.buffer, n.indices, False) for n in loads(e))
    return tuple(dict.fromkeys(found))


def blocks_below(stmt: Stmt) -> list[Block]:
    """The innermost blocks in `stmt`, in program order, as bound to the loops around them.

    These are the blocks of the program, except for those that blockize has put into another one:
    they appear with the variables of the outer one replaced.
    """
    return [block for block, _ in _innermost(stmt)]


def innermost(stmt: Stmt) -> list[tuple[Block, tuple[For, ...]]]:
    """`blocks_below`, and the loops in `stmt` around each."""
    return list(_innermost(stmt))


@lru_cache(maxsize=512)
def _innermost(stmt: Stmt) -> tuple[tuple[Block, tuple[For, ...]], ...]:
    found: list[tuple[Block, tuple[For, ...]]] = []
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(stmt, ())]
    while stack:
        node, loops = stack.pop()
        if isinstance(node, Block):
            found.extend((block, (*loops, *inner)) for block, inner in _leaves(node))
            continue
        inside = (*loops, node) if isinstance(node, For) else loops
        stack.extend([(child, inside) for child in reversed(child_stmts(node))])
    return tuple(found)


@lru_cache(maxsize=4096)
def _leaves(block: Block) -> tuple[tuple[Block, tuple[For, ...]], ...]:
    below = [] if isinstance(block.body, Store) else innermost(block.body)
    if not below:
        return ((block, ()),)
    values = {it.var: it.binding for it in block.iters}
    return tuple(
        (
            replace(
                leaf,
                iters=tuple(map_iter(it, lambda e: substitute(e, values)) for it in leaf.iters),
                predicate=all_of(block.predicate, substitute(leaf.predicate, values)),
            ),
            loops,
        )
        for leaf, loops in below
    )


def written(block: Block) -> tuple[Buffer, ...]:
    """The buffers that `block` stores to, without duplicates."""
    return tuple(dict.fromkeys(a.buffer for a in accesses(block) if a.is_write))


def read(block: Block) -> tuple[Buffer, ...]:
    """The buffers that `block` loads from, without duplicates; its own output in a reduction."""
    return tuple(dict.fromkeys(a.buffer for a in accesses(block) if not a.is_write))


def read_by_others(block: Block) -> tuple[Buffer, ...]:
    """The buffers that `block` loads, apart from those it also stores to."""
    own = set(written(block))
    return tuple(b for b in read(block) if b not in own)


def all_blocks(state: State) -> list[Block]:
    return [state.block(name) for name in state.block_names()]


def writers(state: State, buffer: Buffer) -> list[str]:
    """The blocks that store to `buffer`, in program order."""
    return [b.name for b in all_blocks(state) if buffer in written(b)]


def readers(state: State, buffer: Buffer) -> list[str]:
    """The blocks that load from `buffer` without also storing to it, in program order."""
    return [b.name for b in all_blocks(state) if buffer in read_by_others(b)]


def producers(state: State, block: str) -> list[str]:
    """The blocks that write what `block` reads."""
    wanted = set(read_by_others(state.block(block)))
    return [b.name for b in all_blocks(state) if b.name != block and wanted & set(written(b))]


def consumers(state: State, block: str) -> list[str]:
    """The blocks that read what `block` writes."""
    made = set(written(state.block(block)))
    return [b.name for b in all_blocks(state) if b.name != block and made & set(read(b))]


def is_output(state: State, buffer: Buffer) -> bool:
    """Whether the caller sees `buffer`."""
    return buffer in state.func.params


def feeds(block: Block, var: Var) -> set[IterKind]:
    """The kinds of the block variables whose bindings mention the loop variable."""
    return {it.kind for it in block.iters if var in variables(it.binding)}


def reduction_loops(block: Block, loops: Iterable[For]) -> list[For]:
    """Those of `loops` that feed a reduce variable of the block."""
    return [loop for loop in loops if IterKind.REDUCE in feeds(block, loop.var)]


def plain_store(block: Block) -> Store | None:
    """The only store of a block whose indices are distinct block variables, else None.

    Every element is then written by exactly one value of the block's spatial variables.
    """
    body = block.body
    if not isinstance(body, Store):
        return None
    spatial = {it.var for it in block.iters if it.kind is IterKind.SPATIAL}
    distinct = len(set(body.indices)) == len(body.indices)
    return body if distinct and all(i in spatial for i in body.indices) else None


def plain_stores(block: Block) -> tuple[tuple[Buffer, ...], tuple[Expr, ...]] | None:
    """The buffers that a block stores to, all at the same distinct variables of its own, and these;
    else None. A step of a scan may store at its time."""
    stores = [s for s in walk(block.body) if isinstance(s, Store)]
    own = {it.var for it in block.iters if it.kind is not IterKind.REDUCE}
    if not stores or len({s.buffer for s in stores}) < len(stores):
        return None
    indices = stores[0].indices
    same = all(
        len(s.indices) == len(indices) and all(map(operator.is_, s.indices, indices))
        for s in stores
    )
    plain = len(set(indices)) == len(indices) and all(i in own for i in indices)
    return (tuple(s.buffer for s in stores), indices) if same and plain else None


def loads_of(block: Block, buffer: Buffer) -> list[Load]:
    """The distinct loads of `buffer` in the body of a block."""
    found: dict[Load, None] = {}
    for stmt in walk(block.body):
        for e in stmt_exprs(stmt):
            found.update((n, None) for n in loads(e) if n.buffer is buffer)
    return list(found)
