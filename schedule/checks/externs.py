"""Blocks that call extern functions: what may be done to them, and to the buffers they are handed.

Such a block is a statement of unknown content. Its loops, which run over rows, are ordinary ones;
its body cannot be changed, and the rows that it is handed stay dense and whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from schedule.analysis.uses import accesses, blocks_below, written
from schedule.errors import Illegal, require
from schedule.state import State
from tensorir import Block, Buffer, Expr, Extern, ForKind, Stmt, walk

KEEP_BODY = (
    "add_unit_loop",
    "annotate",
    "cache_read",
    "cache_write",
    "compute_at",
    "sample_compute_location",
    "unannotate",
)
"""The primitives that take a block and do not look at its body."""

ON_USED = ("storage_align", "swizzle", "transform_layout")
ON_WRITTEN = ("double_buffer", "narrow", "rolling_buffer", "set_scope", "stream")
INLINED = ("compute_inline",)
"""The primitives that change a buffer or remove it, by which buffers of their block they mean."""

BLOCKS = ("block", "reduction", "epilogue")
"""The parameters of primitives that name blocks."""

ON_LOOPS = {
    "bind": "it runs on threads of the CPU only",
    "blockize": "it cannot be in a block inside of another one",
    "pipeline": "it cannot be a stage of a pipeline",
    "tensorize": "it is no store that could be compared with an intrinsic",
    "vectorize": "it has no vector form",
}
"""The primitives that an extern function below their loop rules out, and why."""


def require_changeable(state: State, primitive: str, args: Mapping[str, Any]) -> None:
    """Refuse what would change the call of an extern function, or what it is handed."""
    if not state.has_externs:
        return
    calls = {block.name: found for block in state.blocks() if (found := call_of(block))}
    if primitive in ON_LOOPS and args.get("loop") in state.loop_names():
        for below in blocks_below(state.loop(args["loop"])):
            if below.name in calls:
                _refuse(below.name, calls[below.name], ON_LOOPS[primitive])
    for name in [args[key] for key in BLOCKS if args.get(key) in calls]:
        if primitive in ("cache_read", "cache_write"):
            scope = args.get("scope", "local")
            why = f"it cannot use {scope} memory"
            if scope != "global":
                _refuse(name, calls[name], why, "give scope='global'")
        elif primitive not in KEEP_BODY + ON_USED + ON_WRITTEN:
            _refuse(name, calls[name], "its body cannot be rewritten")
    block = args.get("block")
    if block in state.block_names() and primitive in ON_USED + ON_WRITTEN + INLINED:
        _require_free(state, primitive, state.block(str(block)), args.get("buffer", 0), calls)


def _refuse(block: str, call: Extern, why: str, remedy: str | None = None) -> None:
    reason = f"block {str(block)!r} calls the extern function {call.name!r}: {why}"
    require(False, block, reason, remedy)


def _require_free(
    state: State, primitive: str, node: Block, wanted: Any, calls: Mapping[str, Extern]
) -> None:
    """Refuse a buffer, by name or position, that an extern function is handed parts of."""
    found = written(node)
    if primitive in ON_USED:
        found = tuple(dict.fromkeys(a.buffer for a in accesses(node)))
    if isinstance(wanted, int):
        picked = found[wanted : wanted + 1] if wanted >= 0 else ()
    else:
        picked = tuple(b for b in found if b.name == wanted)
    for name, call in calls.items():
        for part in call.parts:
            require(
                part.buffer not in picked,
                node.name,
                f"{part.buffer.name!r} is handed to the extern function {call.name!r} by block "
                f"{name!r}, which needs its rows in global memory, dense and as they are",
                None if primitive in INLINED else "change a copy: cache_read or cache_write",
            )


def extern_conflict(state: State) -> Illegal | None:
    """Why a block cannot call its extern function where it stands; None if all can."""
    for block in state.blocks() if state.has_externs else ():
        name, call = block.name, call_of(block)
        for loop in state.loops_around(name) if call is not None else ():
            if loop.kind in (ForKind.VECTORIZED, ForKind.THREAD):
                return Illegal(
                    loop.name,
                    f"block {name!r}, which calls an extern function, is in the {loop.kind} loop "
                    f"{loop.name!r}",
                )
    return None


def plain_parts(block: Block) -> tuple[tuple[Buffer, ...], tuple[Expr, ...]] | None:
    """The outputs of an extern function, and the indices of its rows, if these are distinct spatial
    variables of the block, the same of each; else None."""
    call = block.body
    if not isinstance(call, Extern):
        return None
    rows = [part.indices[: part.lead] for part in call.outputs]
    spatial = {it.var for it in block.spatial}
    plain = len(set(rows[0])) == len(rows[0]) and all(i in spatial for i in rows[0])
    buffers = tuple(dict.fromkeys(part.buffer for part in call.outputs))
    return (buffers, rows[0]) if plain and all(r == rows[0] for r in rows) else None


def call_of(block: Block) -> Extern | None:
    """The first call of an extern function in a block that has no block inside; None if none."""
    return _call_in(block.body)


@lru_cache(maxsize=4096)
def _call_in(body: Stmt) -> Extern | None:
    return next((s for s in walk(body) if isinstance(s, Extern)), None)
