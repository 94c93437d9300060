"""Finding what a name means where a primitive takes a block or a loop."""

from __future__ import annotations

from schedule.errors import require
from schedule.state import State
from tensorir import Block, For, Stmt


def path_of(state: State, name: str) -> tuple[Stmt, ...]:
    """The statements down to the block or loop `name`; refuses a name that means both.

    A trace holds plain strings, so the kind of a handle cannot decide.
    """
    blocks, loops = state.block_names(), state.loop_names()
    known = f"blocks are {', '.join(blocks)}; loops are {', '.join(loops)}"
    require(
        name in blocks or name in loops,
        name,
        f"there is no block or loop {str(name)!r}; {known}",
    )
    require(
        not (name in blocks and name in loops), name, f"{str(name)!r} names both a block and a loop"
    )
    return state.block_path(name) if name in blocks else state.loop_path(name)


def block_or_loop(state: State, name: str) -> Block | For:
    """The block or loop of that name."""
    node = path_of(state, name)[-1]
    assert isinstance(node, (Block, For))
    return node
