"""pipeline: statements of a loop's body work on different iterations at a time."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import Access, accesses, blocks_below, producers, reduction_loops
from schedule.errors import Illegal, require
from schedule.primitive import primitive, run
from schedule.rewrite.placement import child_of
from schedule.rewrite.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, extents, loops_below
from tensorir import (
    TRUE,
    Analyzer,
    Block,
    Expr,
    For,
    Interval,
    Stmt,
    binary,
    const,
    int_value,
    intersect_with,
    relax,
    replace,
    seq,
    slope,
    variables,
)


@primitive
def pipeline(
    state: State, loop: LoopRef, stages: Sequence[int], order: Sequence[int] | None = None
) -> tuple[State, None]:
    """Let the statements of a loop's body work on different iterations: a statement of stage s
    runs s iterations later than one of stage 0, as loads that run ahead of their use.

    `stages` has a number for each statement, the least of which is 0. Lowering cuts off the first
    iterations, in which late stages are idle, asks in the others whether early ones have something
    left to do, and keeps as many versions of a buffer between stages as are needed at a time, where
    it can prove that.

    `order` says in which order the statements then stand in the loop, by their numbers, as they
    are if it is left out. With [0, 2, 1] and the stages [0, 0, 1], a tile is loaded to registers
    (0), the last one is used (2), and only then the registers go to shared memory (1): nothing
    waits for the loads as long as there is something to compute.

    rewrite:  pipeline("i", [0, 1])
        for i in range(8):            for i in range(9, annotations={"pipeline": [0, 1]}):
            T[i] = A[i]                   if i < 8:
            C[i] = f(T[i])    ->              T[i] = A[i]
                                          if 1 <= i:
                                              C[i - 1] = f(T[i - 1])

    requires:
        - `loop` is serial, carries no annotation, and has at least two statements
        - there is one stage for each statement, none negative, the least 0, and not all the same
        - `order` has each statement once, and keeps those of one stage in order that share what
          one of them writes
        - no block of a later stage reduces over `loop` and still has its init
        - what a statement writes is read by statements of the same or later stages only, and these
          follow it
        - what passes between stages is written in one of them, to separate parts in separate
          iterations, and read in the part of the same iteration
    """
    node = state.loop(loop)
    plain_loop(node, "pipeline the loop before it gets other annotations")
    parts = child_of(node)
    _check_stages(state, node, parts, stages)
    for part, stage in zip(parts, stages):
        for block in blocks_below(part) if stage else ():
            _check_init(node, block)
    places = range(len(parts)) if order is None else order
    _check_order(node, parts, stages, places)
    for i, early in enumerate(parts):
        for late, stage in zip(parts[i + 1 :], stages[i + 1 :]):
            if stages[i] != stage:
                _check_pair(state, node, early, late, stages[i] < stage)
    last = max(stages)
    notes = {"pipeline": [stages[n] for n in places]}
    longer = replace(node, extent=node.extent + last, annotations=notes)
    outside = state.loops_outside(loop)
    analyzer = state.analyzer([*outside, longer])
    moved = [
        rebind(part, {node.var: node.var - stage}, _guard(node, stage, last), analyzer)
        for part, stage in [(parts[n], stages[n]) for n in places]
    ]
    return state.replace(state.loop_path(loop), replace(longer, body=seq(*moved))), None


def _check_stages(state: State, node: For, parts: Sequence[Stmt], stages: Sequence[int]) -> None:
    where = node.name
    require(
        len(parts) > 1,
        where,
        f"loop {where!r} has one statement, so there is no overlap",
        lambda: _first_stage(state, node),
    )
    require(all(s >= 0 for s in stages), where, f"stages {list(stages)} are not integers from 0 on")
    require(
        len(stages) == len(parts),
        where,
        f"there are {len(stages)} stages for the {len(parts)} statements of loop {where!r}",
    )
    require(min(stages) == 0 < max(stages), where, f"stages {list(stages)} do not go from 0 up")


def _check_init(node: For, block: Block) -> None:
    require(
        block.init is None or not reduction_loops(block, [node]),
        node.name,
        f"loop {node.name!r} is a reduction of block {block.name!r}, whose init would have to "
        "run at the first iteration of its stage",
        "decompose_reduction first",
    )


def _check_order(
    node: For, parts: Sequence[Stmt], stages: Sequence[int], order: Sequence[int]
) -> None:
    require(
        sorted(order) == list(range(len(parts))),
        node.name,
        f"order {list(order)} does not have each of the {len(parts)} statements of loop "
        f"{node.name!r} once",
    )
    for place, late in enumerate(order):
        for early in order[place + 1 :]:
            if early > late or stages[early] != stages[late]:
                continue
            found = _both_use(parts[early], parts[late])
            require(
                found is None,
                node.name,
                f"statements {early} and {late} of loop {node.name!r} are of one stage and share "
                f"{found!r}, which one of them writes",
                "keep their order",
            )


def _both_use(early: Stmt, late: Stmt) -> str | None:
    """A buffer that both use and one of them writes."""
    first = [a for block in blocks_below(early) for a in accesses(block)]
    second = [a for block in blocks_below(late) for a in accesses(block)]
    for a in first:
        for b in second:
            if a.buffer is b.buffer and (a.is_write or b.is_write):
                return a.buffer.name
    return None


def _first_stage(state: State, node: For) -> str | None:
    """What could run ahead in the loop: a block that makes what is read there, or a copy of it."""
    inside = [b.name for b in blocks_below(node)]
    for block in inside:
        for maker in producers(state, block):
            if maker not in inside and _overlaps(state, node, maker):
                return f"compute_at({maker!r}, {node.name!r}) first"
    for block in inside:
        for buffer in dict.fromkeys(a.buffer for a in accesses(state.block(block))):
            args = {"block": block, "buffer": buffer.name, "scope": "local"}
            try:
                copied, name = run(state, "cache_read", args)
            except Illegal:
                continue
            if _overlaps(copied, copied.loop(node.name), name):
                call = f"cache_read({block!r}, {buffer.name!r}, 'local')"
                return f"{call} and compute_at the copy in loop {node.name!r} first"
    return None


def _overlaps(state: State, node: For, maker: str) -> bool:
    """Whether `maker`, once it is computed in the loop, may run an iteration ahead."""
    try:
        moved, _ = run(state, "compute_at", {"block": maker, "loop": node.name})
        run(moved, "pipeline", {"loop": node.name, "stages": [0, 1]})
    except Illegal:
        return False
    return True


def _guard(node: For, stage: int, last: int) -> Expr:
    """Where a statement of `stage` has an iteration to work on."""
    started = binary("<=", const(stage), node.var) if stage else TRUE
    if stage == last:
        return started
    return binary("and", started, binary("<", node.var, node.extent + stage))


def _check_pair(state: State, node: For, early: Stmt, late: Stmt, forward: bool) -> None:
    """Refuse two statements, `early` before `late` in the body, that may not run apart."""
    first = [a for block in blocks_below(early) for a in accesses(block)]
    second = [a for block in blocks_below(late) for a in accesses(block)]
    shared = dict.fromkeys(a.buffer for a in first if any(b.buffer is a.buffer for b in second))
    for buffer in shared:
        mine = [a for a in first if a.buffer is buffer]
        theirs = [a for a in second if a.buffer is buffer]
        writes = [a for a in mine if a.is_write]
        back = [a for a in theirs if a.is_write]
        require(
            not back,
            node.name,
            f"block {(back or theirs)[0].block.name!r} writes {buffer.name!r}, which block "
            f"{mine[0].block.name!r} uses an iteration later",
        )
        if not writes:
            continue
        maker, user = writes[0].block.name, theirs[0].block.name
        require(
            forward,
            node.name,
            f"block {user!r} reads {buffer.name!r} and has an earlier stage than block {maker!r}, "
            "which writes it",
        )
        require(
            _apart(state, node, writes, theirs),
            node.name,
            f"iterations of loop {node.name!r} do not pass separate parts of {buffer.name!r} from "
            f"block {maker!r} to block {user!r}",
        )


def _apart(state: State, node: For, writes: Sequence[Access], reads: Sequence[Access]) -> bool:
    """Whether in a dimension each iteration writes an interval of its own, and reads in that
    interval only."""
    inner = loops_below(node.body)
    analyzer = state.analyzer([*state.loops_outside(node.name), node, *inner])
    known = {a: analyzer.assuming(a.block.predicate) for a in (*writes, *reads)}
    ranges = extents(inner)
    for dim, size in enumerate(writes[0].buffer.shape):
        if any(node.var not in variables(a.in_loops()[dim]) for a in writes):
            continue  # each iteration writes the same
        made, used = (
            [relax(a.in_loops()[dim], ranges, known[a]) for a in found] for found in (writes, reads)
        )
        part = made[0]
        if part is None or None in used or not all(_same(m, part) for m in made):
            continue
        extent, step = int_value(part.extent), slope(part.low, node.var, analyzer)
        if extent is None or step is None or abs(step) < extent:
            continue
        clipped = [intersect_with(u, size, analyzer) for u in used if u is not None]
        if all(_inside(u, part, analyzer) for u in clipped):
            return True
    return False


def _same(a: Interval | None, b: Interval) -> bool:
    return a is not None and a.low is b.low and a.extent is b.extent


def _inside(a: Interval, b: Interval, analyzer: Analyzer) -> bool:
    ends = binary("<=", a.low + a.extent, b.low + b.extent)
    return analyzer.prove(binary("<=", b.low, a.low)) and analyzer.prove(ends)
