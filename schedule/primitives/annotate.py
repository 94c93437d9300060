"""annotate: tell the lowering or the backend something about a loop."""

from __future__ import annotations

from typing import Any

from schedule.checks.annotations import KEYS
from schedule.errors import require
from schedule.lookup import path_of
from schedule.primitive import primitive
from schedule.state import State
from tensorir import Block, For, replace


@primitive
def annotate(state: State, block_or_loop: str, key: str, value: Any) -> tuple[State, None]:
    """Set an annotation of a block or a loop; one that is there already is replaced.

    Known keys, with what honours them, are in schedule.checks.annotations.KEYS: "schedule" on a
    parallel loop ("dynamic,4") and "unroll_limit" on an unrolled one. Annotations never change
    results.

    rewrite:  annotate("i", "schedule", "dynamic,4")
        for i in parallel(8):  ->  for i in parallel(8, annotations={"schedule": "dynamic,4"}):
            S(i)                       S(i)

    requires:
        - `block_or_loop` names a block or a loop, and not both
        - `key` is known
        - the key means something there
        - `value` is one of those that the key takes
    """
    path = path_of(state, block_or_loop)
    node = path[-1]
    assert isinstance(node, (Block, For))
    require(
        key in KEYS,
        block_or_loop,
        f"nothing honours an annotation {key!r}",
        f"known are {', '.join(KEYS)}",
    )
    known = KEYS[key]
    require(
        known.fits(node),
        block_or_loop,
        f"{key!r} is for {known.place}, which {str(block_or_loop)!r} is not",
    )
    require(
        known.accepts(value), block_or_loop, f"{key!r} cannot be {value!r}", f"give {known.allowed}"
    )
    annotations = {**node.annotations, key: value}
    return state.replace(path, replace(node, annotations=annotations)), None
