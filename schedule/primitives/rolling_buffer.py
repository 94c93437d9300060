"""rolling_buffer: keep what neighbouring iterations of a loop share, and compute the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedule.analysis.uses import (
    Access,
    is_output,
    plain_store,
    producers,
    readers,
    written,
)
from schedule.checks.ownership import innermost_shared_loop, require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.rewrite.placement import (
    accesses_of,
    beyond_extents,
    child_of,
    names_in,
    own_predicate,
)
from schedule.rewrite.rebind import plain_loop, where_it_starts
from schedule.state import BlockRef, State, extents, fresh, nest
from tensorir import (
    TRUE,
    Block,
    Buffer,
    Expr,
    For,
    IterVar,
    Stmt,
    Var,
    binary,
    const,
    intersect_with,
    is_dense,
    relax,
    replace,
    seq,
    slope,
    substitute,
    variables,
)


@primitive
def rolling_buffer(state: State, block: str, buffer: str | int = 0) -> tuple[State, BlockRef]:
    """Compute in each iteration only those rows of `buffer` that the iterations before did not,
    and return the block that computes, before the loop, what its first iteration shares.

    The loop is the one that compute_at moved the block into. In memory, the rows go around in a
    circle that holds what one iteration needs (done by lowering, where it can be proved). The
    stages of a chain in one loop roll from the first one on: each takes what it needs before the
    loop from those before it.

    rewrite:  rolling_buffer("B", "B")
        for y in range(64):                    for t in range(2):
            for t in range(3):                     B[t] = f(A[t])
                B[y + t] = f(A[y + t])   ->    for y in range(64):
            C[y] = B[y] + B[y + 2]                 B[y + 2] = f(A[y + 2])
                                                   C[y] = B[y] + B[y + 2]

    requires:
        - the block stores to distinct block variables of one intermediate buffer
        - no other block writes that buffer
        - a loop around the block has other blocks inside: the innermost one of these rolls
        - that loop is serial and carries no annotation
        - every reader of the buffer follows the block inside that loop
        - no block inside that loop writes what the block reads, unless it rolls there and has left
          before the loop all that is needed then
        - one variable of the block moves with that loop, by a constant step, and one serial loop
          of the block's own, without annotation, runs over a longer constant range of it
        - what the block's predicate excludes can be said in the block's own variables
    """
    node = state.block(block)
    target = pick(written(node), buffer, block, "writes")
    loop = _rolled_loop(state, node, target)
    rows = _rows(state, node, loop)
    around = state.loops_around(block)
    own = around[around.index(loop) + 1 :]
    path = state.block_path(block)
    name, overlap = state.fresh_block(f"{block}_first"), rows.count - rows.step
    taken, fresh_names = state.taken_names().beside({name}), {}
    for old in own:
        fresh_names[old] = fresh(taken, (f"{old.name}_first",))
        taken.add(fresh_names[old])
    start = {loop.var: const(0)}
    first = _part(state, replace(node, name=name), rows, (0, overlap), start, fresh_names)
    latest = _part(state, node, rows, (overlap, rows.step), {}, {old: old.name for old in own})
    changed = state.replace(path[: len(path) - len(own)], latest)
    both = seq(first, changed.loop(loop.name))
    rolled = changed.replace(changed.loop_path(loop.name), both)
    _require_made(rolled, node, name, loop.name)
    return rolled, BlockRef(name)


@dataclass(frozen=True)
class _Rows:
    """The rows of `block` in an iteration: `count` of them along `loop`, each time `step` further.

    `conditions` on the block's variables exclude some.
    """

    block: str
    loop: For
    step: int
    count: int
    conditions: Sequence[Expr]


def _rolled_loop(state: State, node: Block, buffer: Buffer) -> For:
    """The loop that the block was moved into, all that is asked of it checked."""
    block, name = node.name, buffer.name
    store = plain_store(node)
    plain = store is not None and not is_output(state, buffer)
    require(
        plain, block, f"block {block!r} does not store to distinct variables of an intermediate"
    )
    require_sole_writer(state, buffer, block)
    loop = innermost_shared_loop(state, block)
    plain_loop(loop, "roll the buffer first, and annotate the loop after that")
    children = child_of(loop)
    place = next(i for i, s in enumerate(children) if block in names_in(s))
    later = {other for s in children[place + 1 :] for other in names_in(s)}
    for reader in readers(state, buffer):
        require(
            reader in later,
            loop.name,
            f"block {reader!r} reads {name!r}, and does not follow {block!r} inside loop "
            f"{loop.name!r}",
        )
    return loop


def _require_made(rolled: State, node: Block, first: str, loop: str) -> None:
    """Refuse where the part before the loop reads what the loop makes: what is made before it, as
    the first parts of stages that roll already are, must hold all of it."""
    inside, before = names_in(rolled.loop(loop)), rolled.loops_outside(loop)
    makers = producers(rolled, first)
    for maker in makers:
        if maker not in inside:
            continue
        for buffer in written(rolled.block(maker)):
            reads = accesses_of(rolled, {first}, buffer, writes=False)
            earlier = [
                name
                for name in makers
                if name not in inside and rolled.loops_around(name)[: len(before)] == before
            ]
            writes = accesses_of(rolled, set(earlier), buffer, writes=True)
            require(
                all([any([_holds(rolled, w, r, len(before)) for w in writes]) for r in reads]),
                loop,
                f"block {maker!r}, inside loop {loop!r}, writes what {node.name!r} reads before it",
                f"roll the buffer of {maker!r} first, or compute it outside of loop {loop!r}",
            )


def _holds(state: State, write: Access, read: Access, outside: int) -> bool:
    """Whether all that is read is written, by blocks in `outside` common loops and loops of their
    own. A writer leaves out nothing but what lies outside of the buffer."""
    ours, theirs = (state.loops_around(a.block.name) for a in (write, read))
    analyzer = state.analyzer([*ours, *theirs[outside:]])
    plain = plain_store(write.block)
    if plain is None or beyond_extents(state, write.block):
        return False
    for made, used, size in zip(write.in_loops(), read.in_loops(), read.buffer.shape):
        own = extents(ours[outside:])
        part = relax(made, own, analyzer)
        needed = relax(used, extents(theirs[outside:]), analyzer)
        if part is None or needed is None or not is_dense([made], own, analyzer):
            return False
        needed = intersect_with(needed, size, analyzer)
        low = binary("<=", part.low, needed.low)
        end = binary("<=", needed.low + needed.extent, part.low + part.extent)
        if not (analyzer.prove(low) and analyzer.prove(end)):
            return False
    return True


def _rows(state: State, node: Block, loop: For) -> _Rows:
    """How the block's rows move with the rolled loop; refuses what does not overlap."""
    block, store = node.name, plain_store(node)
    around = state.loops_around(block)
    own = around[around.index(loop) + 1 :]
    moving = [it for it in node.iters if loop.var in variables(it.binding)]
    require(
        len(moving) == 1 and store is not None and moving[0].var in store.indices,
        loop.name,
        f"{len(moving)} variables of block {block!r} move with loop {loop.name!r}, not one of the "
        "stored element",
    )
    it = moving[0]
    analyzer = state.analyzer(around)
    step = slope(it.binding, loop.var, analyzer)
    inner = [f for f in own if f.var in variables(it.binding)]
    one = len(inner) == 1 and slope(it.binding, inner[0].var, analyzer) == 1
    require(
        step is not None and step > 0 and one,
        loop.name,
        f"{it.var.name!r} of block {block!r} is {it.binding!r}: not a constant multiple of loop "
        f"{loop.name!r} and one loop of the block's own",
        "roll the buffer before splitting its loops",
    )
    rows, count = inner[0], inner[0].const_extent
    plain_loop(rows, "roll the buffer first")
    others = [v for v in node.iters if v is not it and rows.var in variables(v.binding)]
    require(not others, rows.name, f"loop {rows.name!r} feeds several variables of {block!r}")
    assert step is not None
    require(
        count is not None and count > step,
        loop.name,
        f"an iteration of loop {loop.name!r} needs {rows.extent!r} rows and moves by {step}: "
        "neighbouring iterations share nothing",
    )
    return _Rows(block, rows, step, count or 0, own_predicate(state, node))


def _part(
    state: State,
    node: Block,
    rows: _Rows,
    part: tuple[int, int],
    values: Mapping[Var, Expr],
    names: Mapping[For, str],
) -> Stmt:
    """The block over the rows [part[0], part[0] + part[1]) of an iteration, in loops of its own.

    `values` are those of loops outside that are fixed, `names` those of the new loops.
    """
    start, count = part
    loops: list[For] = []
    bound = dict(values)
    for old, name in names.items():
        var = Var(name)
        bound[old.var] = var
        if old is not rows.loop:
            loops.append(replace(old, var=var))
            continue
        bound[old.var] = const(start) if count == 1 else var + const(start)
        if count > 1:
            loops.append(replace(old, var=var, extent=const(count)))
    outside = [f for f in state.loops_around(rows.block) if f not in names]
    analyzer = state.analyzer([*outside, *loops])
    iters: list[IterVar] = []
    predicate: Expr = TRUE
    for it in node.iters:
        binding = analyzer.simplify(substitute(it.binding, bound))
        iters.append(replace(it, binding=binding))
    known = where_it_starts(replace(node, iters=tuple(iters)), analyzer)
    for it in iters:
        for inside in (binary("<=", const(0), it.binding), binary("<", it.binding, it.extent)):
            if not analyzer.prove(inside):
                predicate = binary("and", predicate, known.simplify(inside))
    own = {it.var: it.binding for it in iters}
    for condition in rows.conditions:
        moved = known.simplify(substitute(condition, own))
        predicate = binary("and", predicate, moved)
    return nest(loops, replace(node, iters=tuple(iters), predicate=predicate))
