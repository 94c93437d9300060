"""Programs with blocks inside of blocks, as blockize makes them: what may still be done to them.

Analyses see the inner blocks, bound to all loops around them; only primitives of single loops go on
there.
"""

from __future__ import annotations

from schedule.errors import require
from schedule.state import State
from tensorir import Block

LOOPS_ONLY = (
    "split",
    "fuse",
    "reorder",
    "parallel",
    "vectorize",
    "unroll",
    "tensorize",
    "blockize",
)
"""The primitives that look at blocks through `blocks_below` only, which knows about nesting."""


def require_flat(state: State, primitive: str) -> None:
    """Refuse a primitive that would take the outer of two nested blocks for the inner one."""
    if primitive in LOOPS_ONLY or not state.has_nested_blocks:
        return
    for name in state.block_names():
        for above in state.block_path(name)[:-1]:
            require(
                not isinstance(above, Block),
                name,
                f"block {name!r} is inside another block, which {primitive} does not look into",
                f"use {primitive} before blockize",
            )
