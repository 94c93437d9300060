"""Who reads and writes what in a program. What one block does: tensorir.analysis.block_accesses."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import chain

from schedule.state import State
from tensorir import (
    Access,
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    Store,
    accesses,
    blocks_below,
    feeds,
    innermost,
    int_value,
    read,
    reduces,
    walk,
    written,
)

__all__ = [
    "Access",
    "accesses",
    "all_blocks",
    "blocks_below",
    "consumers",
    "feeds",
    "innermost",
    "is_output",
    "needed",
    "plain_store",
    "producers",
    "read",
    "read_by_others",
    "readers",
    "reduces",
    "reduction_loops",
    "writers",
    "written",
]


def read_by_others(block: Block) -> tuple[Buffer, ...]:
    """The buffers that `block` loads, apart from those it also stores to."""
    own = set(written(block))
    return tuple(b for b in read(block) if b not in own)


def all_blocks(state: State) -> list[Block]:
    return state.blocks()


def writers(state: State, buffer: Buffer) -> list[str]:
    """The blocks that store to `buffer`, in program order."""
    return state.uses(buffer)[0]


def readers(state: State, buffer: Buffer) -> list[str]:
    """The blocks that load from `buffer` without also storing to it, in program order."""
    own, read = state.uses(buffer)
    return [name for name in read if name not in own]


def producers(state: State, block: str) -> list[str]:
    """The blocks that write what `block` reads."""
    return _others(state, block, [state.uses(b)[0] for b in read_by_others(state.block(block))])


def consumers(state: State, block: str) -> list[str]:
    """The blocks that read what `block` writes."""
    return _others(state, block, [state.uses(b)[1] for b in written(state.block(block))])


def needed(state: State, block: str) -> set[str]:
    """All blocks of which a block needs something, directly or through others."""
    found: set[str] = set()
    pending = [block]
    while pending:
        for name in producers(state, pending.pop()):
            if name not in found:
                found.add(name)
                pending.append(name)
    return found


def _others(state: State, block: str, found: Sequence[Sequence[str]]) -> list[str]:
    """All blocks that were found but one, in the order of the program."""
    names = found[0] if len(found) == 1 else sorted({*chain(*found)}, key=state.place)
    return [name for name in names if name != block]


def is_output(state: State, buffer: Buffer) -> bool:
    """Whether the caller sees `buffer`."""
    return buffer in state.func.params


def reduction_loops(block: Block, loops: Iterable[For]) -> list[For]:
    """Those of `loops` that feed a reduce variable of the block."""
    return [loop for loop in loops if reduces(block, loop.var)]


def plain_store(block: Block) -> Store | None:
    """The only store of a block whose indices are distinct block variables, else None.

    Every element is then written by exactly one value of the block's spatial variables.
    """
    body = block.body
    if not isinstance(body, Store):
        return None
    spatial = {it.var for it in block.spatial}
    distinct = len(set(body.indices)) == len(body.indices)
    return body if distinct and all(i in spatial for i in body.indices) else None


def moving(indices: Iterable[Expr], shape: Iterable[Expr]) -> list[Expr]:
    """The indices of an access but for 0 in a dimension of one element, which tells nothing."""
    return [i for i, size in zip(indices, shape) if int_value(i) != 0 or int_value(size) != 1]


def own_store(node: Block) -> Store | None:
    """The only store of a block that is no reduction and reads other buffers, if it is to distinct
    variables of the block, all that have several values; those of a scan count. A dimension of
    extent 1 needs none: whoever reads it reads its one place."""
    body = node.body
    if not isinstance(body, Store) or node.is_reduction or body.buffer in read(node):
        return None
    needed = {it.var for it in node.iters if int_value(it.extent) != 1}
    found = moving(body.indices, body.buffer.shape)
    plain = len({*found}) == len(found) and needed <= {*found} <= {it.var for it in node.iters}
    return body if plain else None


def plain_stores(block: Block) -> tuple[tuple[Buffer, ...], tuple[Expr, ...]] | None:
    """The buffers that a block stores to, all at the same distinct variables of its own, and these;
    else None. A step of a scan may store at its time, and any block at the only place of a
    dimension that has no other."""
    stores = [s for s in walk(block.body) if isinstance(s, Store)]
    own = {it.var for it in block.iters if it.kind is not IterKind.REDUCE}
    if not stores or len({s.buffer for s in stores}) < len(stores):
        return None
    indices = stores[0].indices
    same = all(
        len(s.indices) == len(indices) and all(map(operator.is_, s.indices, indices))
        for s in stores
    )
    places = [moving(indices, s.buffer.shape) for s in stores]
    plain = all(len(set(at)) == len(at) and all(i in own for i in at) for at in places)
    return (tuple(s.buffer for s in stores), indices) if same and plain else None
