"""unannotate: take back an annotation."""

from __future__ import annotations

from schedule.checks.annotations import KEYS
from schedule.errors import require
from schedule.lookup import path_of
from schedule.primitive import primitive
from schedule.state import State
from tensorir import Block, For, replace


@primitive
def unannotate(state: State, block_or_loop: str, key: str) -> tuple[State, None]:
    """Remove an annotation that annotate set.

    rewrite:  unannotate("i", "schedule")
        for i in parallel(8, annotations={"schedule": "dynamic,4"}):  ->  for i in parallel(8):
            S(i)                                                              S(i)

    requires:
        - `block_or_loop` names a block or a loop, and not both
        - it has that annotation, and annotate can set it
    """
    path = path_of(state, block_or_loop)
    node = path[-1]
    assert isinstance(node, (Block, For))
    there = ", ".join(node.annotations) or "none"
    require(
        key in node.annotations,
        block_or_loop,
        f"{str(block_or_loop)!r} has no annotation {key!r}; it has {there}",
    )
    require(
        key in KEYS,
        block_or_loop,
        f"annotation {key!r} belongs to the primitive that set it",
        "undo() takes back the last steps",
    )
    annotations = {k: v for k, v in node.annotations.items() if k != key}
    return state.replace(path, replace(node, annotations=annotations)), None
