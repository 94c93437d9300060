"""Requests that a random program seldom allows: the steps that prepare for them are asked first.

Each function asks for these steps by `stress.ask`, some of which may be refused, and returns the
arguments of the request itself; None where the program has no place for it. Now and then a step is
left out or another place is taken, so that wrong requests are made as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import layout_requests

from tensorir import BinOp, For, ForKind, IterKind, Seq, Store, child_stmts, variables

if TYPE_CHECKING:
    from random_schedules import Stress

    from schedule import Schedule

Arguments = tuple[Any, ...] | None


def _mostly(stress: Stress) -> bool:
    return bool(stress.pick([True, True, True, True, False]))


def _moved(stress: Stress, sch: Schedule) -> tuple[str, str] | None:
    """A block that was moved to a loop of one of its readers, and that loop."""
    makers = [b for b in sch.get_blocks() if sch.get_consumers(b)]
    if not makers:
        return None
    block = stress.pick(makers)
    loops = sch.get_loops(stress.pick(sch.get_consumers(block)))
    if not loops:
        return None
    loop = stress.pick(loops[:3])
    stress.ask(sch, "compute_at", block, loop)
    return block, loop


def rolling_buffer(stress: Stress, sch: Schedule) -> Arguments:
    """Of a stage whose neighbouring rows are read, in the outermost loop of its reader; or of all
    stages of a chain."""
    chains = [b for b in sch.get_blocks() if any(map(sch.get_producers, sch.get_producers(b)))]
    if chains and stress.pick([True, True, False]):
        return _rolling_chain(stress, sch, stress.pick(chains))
    makers = [b for b in sch.get_blocks() if sch.get_consumers(b)]
    near = [b for b in makers if _reads_neighbours(sch, b)]
    if not near and (not makers or _mostly(stress)):
        return None
    block = stress.pick(near or makers)
    loops = sch.get_loops(sch.get_consumers(block)[0])
    if not loops:
        return None
    stress.ask(sch, "compute_at", block, stress.pick([*loops[:1] * 3, *loops]))
    return (block,)


def _rolling_chain(stress: Stress, sch: Schedule, last: str) -> Arguments:
    """The last stage of a chain before `last`, after those before it were moved and rolled."""
    loops = sch.get_loops(last)
    if not loops:
        return None
    stages: list[str] = []
    found = sch.get_producers(last)
    while found and len(stages) < 3:
        stages.append(found[-1])
        if not stress.ask(sch, "compute_at", found[-1], loops[0]):
            break
        found = [b for b in sch.get_producers(found[-1]) if b not in stages]
    for block in reversed(stages[1:]):
        if _mostly(stress):
            stress.ask(sch, "rolling_buffer", block)
    return (stages[0],)


def _reads_neighbours(sch: Schedule, block: str) -> bool:
    """Whether a reader adds variables in an index."""
    store = sch.state.block(block).body
    if not isinstance(store, Store):
        return False
    text = "".join(str(sch.state.block(user).body) for user in sch.get_consumers(block))
    places = [part.split("]")[0] for part in text.split(f"{store.buffer.name}[")[1:]]
    return any("+" in place for place in places)


def double_buffer(stress: Stress, sch: Schedule) -> Arguments:
    moved = _moved(stress, sch)
    return None if moved is None else (moved[0],)


def pipeline(stress: Stress, sch: Schedule) -> Arguments:
    """Of a loop with several statements, the inits taken out of it."""
    moved = _moved(stress, sch)
    if moved is None or moved[1] not in sch.state.loop_names():
        return None
    loop = moved[1]
    for block in sch.get_child_blocks(loop):
        if sch.state.block(block).init is not None and _mostly(stress):
            stress.ask(sch, "decompose_reduction", block, sch.get_loops(block)[0])
    body = sch.state.loop(loop).body
    if not isinstance(body, Seq):
        return None
    stages = [0]
    for _ in child_stmts(body)[1:]:
        stages.append(stages[-1] + stress.pick([0, 1, 1, 2]))
    return loop, stages


def stream(stress: Stress, sch: Schedule) -> Arguments:
    """Of a block whose innermost loop is vectorized along its rows."""
    plain = [b for b in sch.get_blocks() if not sch.state.block(b).is_reduction]
    if not plain:
        return None
    block = stress.pick(plain)
    loops = sch.get_loops(block)
    if loops and _mostly(stress):
        stress.ask(sch, "vectorize", loops[-1])
    return (block,)


def tensorize(stress: Stress, sch: Schedule) -> Arguments:
    """Of four iterations in a row: of a copy, or of a sum of products whose init is elsewhere."""
    sums = [b for b in sch.get_blocks() if sch.state.block(b).init is not None]
    if sums and stress.pick([True, False]):
        block = stress.pick(sums)
        loops = sch.get_loops(block)
        if len(loops) < 2:
            return None
        along = [name for name in loops if _kind(sch, block, name) is IterKind.SPATIAL]
        reduced = [name for name in loops if name not in along]
        if not along or not reduced:
            return None
        stress.ask(sch, "decompose_reduction", block, reduced[0])
        four = _four(stress, sch, along[-1])
        inner = sch.get_loops(block)[-1] if four is not None else None
        if four is not None and four != inner:
            stress.ask(sch, "reorder", *[n for n in sch.get_loops(block) if n in reduced], four)
        return None if four is None else (four, "f32.fma_4")
    block = stress.pick(sch.get_blocks())
    if not stress.ask(sch, "cache_read", block, 0, "local"):
        return None
    copy = sch.trace.instructions[-1].outputs
    loops = sch.get_loops(copy)
    four = _four(stress, sch, loops[-1]) if loops else None
    return None if four is None else (four, "f32.copy_4")


def _kind(sch: Schedule, block: str, loop: str) -> IterKind | None:
    var = sch.state.loop(loop).var
    found = [it.kind for it in sch.state.block(block).iters if var in variables(it.binding)]
    return found[0] if found else None


def _four(stress: Stress, sch: Schedule, loop: str) -> str | None:
    """A loop of four iterations made of `loop`."""
    extent = sch.state.loop(loop).const_extent
    if extent == 4:
        return loop
    if extent is not None and extent % 4 == 0:
        made = stress.ask(sch, "split", loop, [None, 4])
        return sch.trace.instructions[-1].outputs[-1] if made else None
    if extent is not None and extent > 4:
        made = stress.ask(sch, "partition", loop, [4, None])
        return sch.trace.instructions[-1].outputs[0] if made else None
    return loop


def fuse_reduction_epilogue(stress: Stress, sch: Schedule) -> Arguments:
    """Of a sum and its reader that adds something to it."""
    pairs = [
        (block, user)
        for block in sch.get_blocks()
        for user in sch.get_consumers(block)
        if sch.state.block(block).init is not None and user != block
    ]
    fitting = [(a, b) for a, b in pairs if _operation(sch, a) == _operation(sch, b)]
    if not fitting and (not pairs or _mostly(stress)):
        return None
    return stress.pick(fitting or pairs)  # type: ignore[no-any-return]


def _operation(sch: Schedule, block: str) -> str | None:
    store = sch.state.block(block).body
    value = store.value if isinstance(store, Store) else None
    return value.op if isinstance(value, BinOp) else None


def rfactor(stress: Stress, sch: Schedule) -> Arguments:
    """Of one of two loops of a reduction, made by a split if there is one only."""
    found = [b for b in sch.get_blocks() if sch.state.block(b).init is not None]
    if not found:
        return None
    block = stress.pick(found)
    reduced = [n for n in sch.get_loops(block) if _kind(sch, block, n) is IterKind.REDUCE]
    if len(reduced) == 1 and _mostly(stress):
        stress.ask(sch, "split", reduced[0], [None, stress.pick([1, 2, 3, 4])])
        reduced = [n for n in sch.get_loops(block) if _kind(sch, block, n) is IterKind.REDUCE]
    return (block, stress.pick(reduced)) if reduced else None


def annotate(stress: Stress, sch: Schedule) -> Arguments:
    loops = sch.state.loop_names()
    if not loops:
        return None
    loop = stress.pick(loops)
    word, key, value = stress.pick(
        [("parallel", "schedule", "dynamic,2"), ("unroll", "unroll_limit", 3)]
    )
    if _mostly(stress):
        stress.ask(sch, word, loop)
    return loop, key, value


def unannotate(stress: Stress, sch: Schedule) -> Arguments:
    asked = annotate(stress, sch)
    if asked is None:
        return None
    stress.ask(sch, "annotate", *asked)
    return asked[:2]


def reverse_compute_inline(stress: Stress, sch: Schedule) -> Arguments:
    """Of the one reader of something that is no sum, of a part of it too."""
    found = [
        user
        for block in sch.get_blocks()
        for user in sch.get_consumers(block)
        if not sch.state.block(block).is_reduction and len(sch.get_consumers(block)) == 1
    ]
    return (stress.pick(found), True) if found else None


def decompose_padding(stress: Stress, sch: Schedule) -> Arguments:
    """Of a block that chooses, with the outermost loop around it alone."""
    padded = [b for b in sch.get_blocks() if "select(" in str(sch.state.block(b).body)]
    if not padded:
        return None
    block = stress.pick(padded)
    loops = [n for n in sch.get_loops(block) if sch.get_child_blocks(n) == [block]]
    return (block, stress.pick(loops)) if loops else None


def merge(stress: Stress, sch: Schedule) -> Arguments:
    """Of two loops of the same length that follow each other."""
    body = sch.func.body
    rows = [body] if isinstance(body, Seq) else []
    rows += [s.body for s in map(sch.state.loop, sch.state.loop_names()) if isinstance(s.body, Seq)]
    pairs = [
        (a.name, b.name)
        for row in rows
        for a, b in zip(row.stmts, row.stmts[1:])
        if isinstance(a, For) and isinstance(b, For) and a.extent is b.extent
        and a.kind is b.kind is ForKind.SERIAL
    ]  # fmt: skip
    return stress.pick(pairs) if pairs else None  # type: ignore[no-any-return]


def fission(stress: Stress, sch: Schedule) -> Arguments:
    """Of a loop into which a stage was moved, or of two that were merged."""
    pair = merge(stress, sch)
    if pair is not None and stress.pick([True, False]):
        made = stress.ask(sch, "merge", *pair)
        return (sch.trace.instructions[-1].outputs,) if made else None
    moved = _moved(stress, sch)
    return None if moved is None or moved[1] not in sch.state.loop_names() else (moved[1],)


PREPARED: dict[str, Callable[[Stress, Schedule], Arguments]] = {
    "rolling_buffer": rolling_buffer,
    "double_buffer": double_buffer,
    "pipeline": pipeline,
    "stream": stream,
    "tensorize": tensorize,
    "fission": fission,
    "fuse_reduction_epilogue": fuse_reduction_epilogue,
    "rfactor": rfactor,
    "annotate": annotate,
    "unannotate": unannotate,
    "reverse_compute_inline": reverse_compute_inline,
    "decompose_padding": decompose_padding,
    "merge": merge,
    "use_algorithm": layout_requests.use_algorithm,
}
