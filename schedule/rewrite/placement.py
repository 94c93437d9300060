"""Moving a block under a loop: the part of a buffer that is needed there, and the new loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from keyword import iskeyword

from schedule.analysis.uses import Access, accesses, blocks_below, reduction_loops
from schedule.errors import require
from schedule.nest_index import own_names
from schedule.rewrite.rebind import plain_loop, where_it_starts
from schedule.state import State, extents, fresh, loops_below
from tensorir import (
    TRUE,
    Analyzer,
    Block,
    Buffer,
    Expr,
    For,
    ForKind,
    Interval,
    IterKind,
    IterVar,
    Seq,
    Stmt,
    Var,
    all_of,
    binary,
    conjuncts,
    const,
    in_own_variables,
    int_value,
    intersect_with,
    recurrent,
    relax,
    replace,
    seq,
    substitute,
    union,
    variables,
    with_body,
)


def touched_region(state: State, loop: For, found: Sequence[Access], where: str) -> list[Interval]:
    """The part of a buffer that the accesses, all below `loop`, touch in one iteration of it.

    One interval per dimension, in terms of `loop` and the loops outside.
    """
    below = loops_below(loop.body)
    inner = extents(below)
    outside = [*state.loops_outside(loop.name), loop]
    fixed = all([each.const_extent is not None for each in (*outside, *below)])
    analyzer = state.analyzer([*outside, *below] if fixed else outside)
    region: list[Interval] | None = None
    for access in found:
        mine: list[Interval] = []
        known = analyzer
        if not fixed:  # that loops beside this block have iterations is not known
            known = state.analyzer(state.loops_around(access.block.name))
        for dim, index in enumerate(access.in_loops()):
            size = access.buffer.shape[dim]
            part = relax(index, inner, known) or Interval(const(0), size)
            mine.append(intersect_with(part, size, known))
        if region is None:
            region = mine
            continue
        region = [
            union(a, b, analyzer) or Interval(const(0), size)
            for a, b, size in zip(region, mine, access.buffer.shape)
        ]
    require(region is not None, where, f"nothing is read below loop {loop.name!r}")
    assert region is not None
    return region


def beyond_extents(state: State, block: Block) -> list[Expr]:
    """The parts of a block's predicate that say more than that its variables are in range."""
    if block.predicate is TRUE:
        return []
    in_range = [binary("<", it.binding, it.extent) for it in block.iters]
    said = {condition for condition in in_range if not condition.has_loads}
    parts = [part for part in conjuncts(block.predicate) if part not in said]
    if not parts:
        return []
    within = state.analyzer(state.loops_around(block.name)).assuming(all_of(*in_range))
    return [part for part in parts if not within.prove(part)]


def conditions_of_writes(state: State, block: Block) -> list[Expr]:
    """What a block's predicate says of the elements that it writes, beyond its variables being in
    range. An init writes them whether or not the reduction has a term."""
    parts = beyond_extents(state, block)
    if not parts:
        return []
    reduced = {loop.var for loop in reduction_loops(block, state.loops_around(block.name))}
    return [part for part in parts if block.init is None or not variables(part) & reduced]


def own_loops(state: State, node: Block, step: str) -> list[For]:
    """The loops around a block, outermost first, for a `step` that makes new ones for it; refuses
    others than serial ones without annotations that drive each of its variables over its extent,
    and instances that keep their order."""
    block, around = node.name, state.loops_around(node.name)
    analyzer = state.analyzer()
    driven = {f.var: f for f in around}
    free = [it for it in node.iters if int_value(it.binding) != 0 or int_value(it.extent) != 1]
    mine = [driven.get(it.binding) for it in free]  # type: ignore[call-overload]
    whole = [
        f is not None and analyzer.prove(binary("==", f.extent, it.extent))
        for f, it in zip(mine, free)
    ]
    alone = bool(around) and names_in(around[0]) == {block}
    rest = [f for f in around if f not in mine and f.const_extent != 1]
    require(
        alone and all(whole) and len(set(mine)) == len(mine) and not rest,
        block,
        f"block {block!r} is not alone in loops of its own, one for each variable",
        f"{step} before splitting, fusing or moving its loops",
    )
    for loop in around:
        plain_loop(loop, f"{step} first, and annotate the new loops")
    opaque = any([it.kind is IterKind.OPAQUE for it in node.iters])
    require(
        not opaque and not recurrent(node),
        block,
        f"instances of block {block!r} depend on each other, and keep their order",
    )
    return around


def own_predicate(state: State, block: Block) -> list[Expr]:
    """What a block's predicate says beyond its variables being in range, in terms of those
    variables; refuses a predicate that cannot be said so."""
    found = in_variables(state, block)
    for part, own in found.items():
        require(
            own is not None,
            block.name,
            f"block {block.name!r} runs where {part!r}, which its own variables cannot say",
            "move the block before splitting its loops",
        )
    return [own for own in found.values() if own is not None]


def in_variables(state: State, block: Block) -> dict[Expr, Expr | None]:
    """The parts of a block's predicate that say more than that its variables are in range, and
    what each is in terms of those variables; None where they cannot say it."""
    parts = beyond_extents(state, block)
    if not parts:
        return {}
    around = state.loops_around(block.name)
    loops, analyzer = {f.var for f in around}, where_it_starts(block, state.analyzer(around))
    return {part: in_own_variables(part, block, loops, analyzer) for part in parts}


def fresh_loops(
    state: State,
    block: Block,
    ranges: Mapping[Var, Interval],
    conditions: Sequence[Expr],
    analyzer: Analyzer,
    unit_loops: bool = False,
) -> tuple[list[For], Block]:
    """New loops for `block` and the block bound to them.

    A variable in `ranges` runs over that interval, any other over its whole extent. Variables
    that can leave their extent get a predicate, and so do `conditions` on the variables. A variable
    with one value gets a loop with `unit_loops` only.
    """
    taken = state.taken_names().beside({*own_names(block)})
    loops: list[For] = []
    iters: list[IterVar] = []
    parts: list[IterVar] = []  # those that need not run over their whole extent
    predicate: Expr = TRUE
    for it in block.iters:
        part = ranges.get(it.var) or Interval(const(0), it.extent)
        if part.extent is const(1) and not unit_loops:
            binding = part.low
        else:
            base = loop_name(it.var)
            hints = (base, f"{base}_{block.name}")
            empty = (int_value(part.extent) or 0) < 0  # nothing of it is read there
            loop = For(Var(fresh(taken, hints)), const(0) if empty else part.extent, Seq(()))
            taken.add(loop.name)
            loops.append(loop)
            analyzer.bind(loop.var, loop.extent)
            whole = part.low is const(0)
            binding = loop.var if whole else analyzer.simplify(part.low + loop.var)
        iters.append(replace(it, binding=binding))
        if part.low is not const(0) or part.extent is not it.extent:
            parts.append(iters[-1])
    known = where_it_starts(replace(block, iters=tuple(iters)), analyzer)
    for it in parts:
        for bound in (binary("<=", const(0), it.binding), binary("<", it.binding, it.extent)):
            if not analyzer.prove(bound):
                predicate = binary("and", predicate, known.simplify(bound))
    bindings = {it.var: it.binding for it in iters}
    for condition in conditions:
        moved = known.simplify(substitute(condition, bindings))
        if not known.prove(moved):
            predicate = binary("and", predicate, moved)
    return loops, replace(block, iters=tuple(iters), predicate=predicate)


def loop_name(var: Var) -> str:
    """What a loop for a block variable would be called: `i` for `vi`; it may be taken."""
    base = var.name.removeprefix("v")
    return base if base.isidentifier() and not iskeyword(base) else var.name


def child_of(loop: For) -> tuple[Stmt, ...]:
    """The statements directly inside a loop."""
    return loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)


def insert(loop: For, position: int, stmt: Stmt) -> For:
    """`loop` with `stmt` put before its statement number `position`."""
    body = child_of(loop)
    return with_body(loop, seq(*body[:position], stmt, *body[position:]))


def names_in(stmt: Stmt) -> set[str]:
    """The names of the blocks in a statement."""
    return {b.name for b in blocks_below(stmt)}


def move_checks(state: State, block: str, loop: str) -> None:
    """What both directions refuse: moving under itself, or into a vectorized loop."""
    node = state.loop(loop)
    around = state.loops_around(block)
    require(
        node not in around,
        loop,
        f"block {block!r} is already inside loop {loop!r}",
    )
    for outer in (*state.loops_outside(loop), node):
        require(
            outer.kind is not ForKind.VECTORIZED,
            loop,
            f"loop {outer.name!r} is vectorized",
            "move the block first, then vectorize",
        )
    shared = [*state.loops_outside(loop), node]
    kinds = [
        f for f in around if f.annotations or (f.kind is not ForKind.SERIAL and f not in shared)
    ]
    require(
        not kinds,
        block,
        "".join(f"loop {f.name!r} of block {block!r} is {f.kind}" for f in kinds[:1]),
        "move the block first, then annotate its loops",
    )


def accesses_of(state: State, names: set[str], buffer: Buffer, writes: bool) -> list[Access]:
    """The accesses of a buffer by the blocks of these names."""
    return [
        access
        for name in state.block_names()
        if name in names
        for access in accesses(state.block(name))
        if access.buffer is buffer and access.is_write == writes
    ]
