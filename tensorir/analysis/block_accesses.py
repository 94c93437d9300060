"""What blocks read and write, as bound to the loops around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, all_of
from tensorir.parts import touched
from tensorir.stmt import Block, For, IterKind, Seq, Stmt, Store, replace
from tensorir.visit import child_stmts, loads, map_iter, stmt_exprs, substitute, variables, walk


@dataclass(frozen=True)
class Access:
    """One load, store or part of a block, its indices as expressions of the block's variables."""

    block: Block
    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool

    def in_loops(self) -> tuple[Expr, ...]:
        """The indices as expressions of the loops around the block."""
        return self._in_loops

    @cached_property
    def _in_loops(self) -> tuple[Expr, ...]:
        values = {it.var: it.binding for it in self.block.iters}
        return tuple([substitute(index, values) for index in self.indices])


BLOCKS = 4096
"""Blocks, and bodies of them, of which the accesses are kept: most steps leave most as they are."""


@lru_cache(maxsize=BLOCKS)
def accesses(block: Block) -> tuple[Access, ...]:
    """All loads, stores and parts of a block, those of its init included, and what is read to find
    out where it runs."""
    found = [Access(block, *touch) for touch in touches(block.init, block.body)]
    return (*found, *[Access(block, load.buffer, load.indices, False) for load in asked(block)])


@lru_cache(maxsize=BLOCKS)
def asked(block: Block) -> tuple[Load, ...]:
    """What is read to find out where a block runs, at places that loops around it tell."""
    exprs = [e for e in stmt_exprs(block) if e.has_loads]
    return tuple(dict.fromkeys([load for e in exprs for load in loads(e)])) if exprs else ()


@lru_cache(maxsize=BLOCKS)
def touches(*parts: Stmt | None) -> tuple[tuple[Buffer, tuple[Expr, ...], bool], ...]:
    """Buffer, indices and whether it is a write; bodies are shared by all schedules of a block."""
    found: list[tuple[Buffer, tuple[Expr, ...], bool]] = []
    for part in parts:
        for stmt in walk(part) if part is not None else ():
            found.extend(touched(stmt))
            for e in stmt_exprs(stmt):
                found.extend((n.buffer, n.indices, False) for n in loads(e))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=512)
def blocks_below(stmt: Stmt) -> tuple[Block, ...]:
    """The innermost blocks in `stmt`, in program order, as bound to the loops around them.

    These are the blocks of the program, except for those that blockize has put into another one:
    they appear with the variables of the outer one replaced.
    """
    return tuple([block for block, _ in innermost(stmt)])


@lru_cache(maxsize=1024)
def innermost(stmt: Stmt) -> tuple[tuple[Block, tuple[For, ...]], ...]:
    """`blocks_below`, and the loops in `stmt` around each."""
    found: list[tuple[Block, tuple[For, ...]]] = []
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(stmt, ())]
    while stack:
        node, loops = stack.pop()
        if isinstance(node, Block):
            found.extend((block, (*loops, *inner)) for block, inner in _leaves(node))
            continue
        if isinstance(node, Seq):  # most nests stay as they are from step to step
            for part in node.stmts:
                found.extend([(block, (*loops, *inner)) for block, inner in innermost(part)])
            continue
        inside = (*loops, node) if isinstance(node, For) else loops
        stack.extend([(child, inside) for child in reversed(child_stmts(node))])
    return tuple(found)


@lru_cache(maxsize=BLOCKS)
def _leaves(block: Block) -> tuple[tuple[Block, tuple[For, ...]], ...]:
    below = () if isinstance(block.body, Store) else innermost(block.body)
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
    return _buffers(block.init, block.body, True)


def read(block: Block) -> tuple[Buffer, ...]:
    """The buffers that `block` loads from, without duplicates; its own output in a reduction."""
    found = _buffers(block.init, block.body, False)
    more = asked(block)
    return tuple(dict.fromkeys([*found, *[load.buffer for load in more]])) if more else found


@lru_cache(maxsize=BLOCKS)
def _buffers(init: Stmt | None, body: Stmt, writes: bool) -> tuple[Buffer, ...]:
    found = touches(init, body)
    return tuple(dict.fromkeys([buffer for buffer, _, is_write in found if is_write == writes]))


def body_loads(block: Block, buffer: Buffer | None = None) -> list[Load]:
    """The different loads in the body of a block of all that it does not store to; or all of
    `buffer`, those included that ask where it runs."""
    if buffer is not None:
        return [load for load in (*_loads(block.body), *asked(block)) if load.buffer is buffer]
    own = written(block)
    return [load for load in _loads(block.body) if load.buffer not in own]


@lru_cache(maxsize=BLOCKS)
def _loads(body: Stmt) -> tuple[Load, ...]:
    return tuple(dict.fromkeys(n for s in walk(body) for e in stmt_exprs(s) for n in loads(e)))


def reduces(block: Block, var: Var) -> bool:
    """Whether the loop variable feeds a reduce variable of the block."""
    return any([it.kind is IterKind.REDUCE and var in variables(it.binding) for it in block.iters])


def feeds(block: Block, var: Var) -> set[IterKind]:
    """The kinds of the block variables whose bindings mention the loop variable."""
    return {it.kind for it in block.iters if var in variables(it.binding)}
