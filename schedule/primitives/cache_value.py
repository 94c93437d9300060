"""cache_value: compute a part of what a block stores ahead, and read it from a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import written
from schedule.checks.verified import not_verified, require_verified
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import check_scope, place_beside, require_made_before, top_statement
from schedule.rewrite.placement import fresh_loops, in_variables
from schedule.state import BlockRef, State, add_buffers, nest
from tensorir import (
    Block,
    Buffer,
    Const,
    Expr,
    IterKind,
    IterVar,
    Load,
    Select,
    Store,
    Together,
    Var,
    all_of,
    const,
    int_value,
    loads,
    moved_together,
    replace,
    substitute,
    transform,
    variables,
)


@primitive
def cache_value(
    state: State, block: str, part: Sequence[int], scope: str = "global"
) -> tuple[State, BlockRef]:
    """Make `block` read a part of its value from a buffer, and return the block that computes it.

    The reverse of compute_inline. The buffer has one axis for each variable of the block that the
    part uses, in their order, but for those of terms that have one value, and is filled in a nest
    of its own, directly before that of the block: what moves with some of the variables alone is
    then computed once for all the others.
    Variables by whose sum alone the part moves, as `i + r` of a window, have one axis, for each
    value of that sum, if the part can be read at all of them.
    compute_at brings it to where it is used, and a copy that packs the buffer takes it in by
    compute_inline. Where the block does not run, and the part could not be read, it has zeros.
    `part` is its place in the value: which operand of the whole, which operand of
    that, and so on. Wherever the same part occurs in the value, it is read.

    rewrite:  cache_value("C", [1, 1])
                                                 for j, k in grid(8, 8):
        for i, j, k in grid(8, 8, 8):                C_part[vj, vk] = B[vk, vj] * s[vk]
            C[vi, vj] = C[vi, vj]          ->    for i, j, k in grid(8, 8, 8):
                + A[vi, vk] * (B[vk, vj]             C[vi, vj] = C[vi, vj]
                               * s[vk])                  + A[vi, vk] * C_part[vj, vk]

    requires:
        - the block stores one value
        - `part` leads from it to an operation or to what is read, that is no part of an index
        - that does not read what the block writes
        - what it reads is inside of its buffers where the block runs, without other conditions
        - what it reads is computed as a whole, in other nests
        - `scope` is one of global, shared, local
    """
    node = state.block(block)
    check_scope(scope, block)
    store = node.body
    require(isinstance(store, Store), block, f"block {block!r} stores more than one value")
    assert isinstance(store, Store)
    value = _at(store.value, part, block)
    _require_ahead(state, node, value)
    said = [part for part in in_variables(state, node).values() if part is not None]
    for together in dict.fromkeys((tuple(moved_together(value, _extents(node))), ())):
        made = _made(state, node, value, together, scope)
        if not together or not_verified(state, made[0]) is None:
            break
    runs = [part for part in said if variables(part) <= variables(value)]
    if runs and not together and not_verified(state, made[0]) is not None:
        guarded = Select(all_of(*runs), value, const(0, value.dtype))
        made = _made(state, node, value, (), scope, guarded)
    return require_verified(state, made[0], block, f"the part {value!r} by itself"), made[1]


def _extents(node: Block) -> dict[Var, Expr]:
    return {it.var: it.extent for it in node.iters}


def _made(
    state: State, node: Block, value: Expr, groups: Sequence[Together], scope: str,
    stored: Expr | None = None,
) -> tuple[State, BlockRef]:  # fmt: skip
    """The program with a buffer for a value that a block uses, made before its nest, and who makes
    it: with one axis for each group of variables, and what is `stored` there, if not the value."""
    assert isinstance(node.body, Store)
    first = {group.steps[0][0]: group for group in groups}
    later = {var for group in groups for var, _ in group.steps[1:]}
    ones = {it.var for it in node.reduced if int_value(it.extent) == 1}
    values: dict[Var, Expr] = {var: const(0) for var in ones}
    iters, places = list[IterVar](), list[Expr]()
    for it in (it for it in node.iters if it.var in variables(value) - later - ones):
        group = first.get(it.var)
        iters.append(it if group is None else replace(it, extent=group.extent))
        places.append(it.var if group is None else group.place)
        values |= {} if group is None else group.at(it.var)
    name = state.fresh_buffer(f"{node.body.buffer.name}_part")
    made = Buffer(name, tuple(it.extent for it in iters), value.dtype, scope)
    kept = transform(node.body.value, lambda e: made[tuple(places)] if e is value else None)
    reading = replace(node, body=replace(node.body, value=kept))
    changed = state.replace(state.block_path(node.name), reading)
    changed = State(add_buffers(changed.func, made), changed)
    kept = substitute(value if stored is None else stored, values)
    store = Store(made, tuple(it.var for it in iters), kept)
    return _placed(changed, node.name, store, iters)


def _placed(
    state: State, block: str, store: Store, iters: Sequence[IterVar]
) -> tuple[State, BlockRef]:
    """The program with a nest that does `store`, before that of a block, and who does it."""
    maker = state.fresh_block(store.buffer.name)
    free = tuple(replace(it, kind=IterKind.SPATIAL) for it in iters)
    loops, bound = fresh_loops(state, Block(maker, free, store), {}, (), state.analyzer())
    top = top_statement(state, block)
    return place_beside(state, top, nest(loops, bound), before=True), BlockRef(maker)


def _at(value: Expr, part: Sequence[int], block: str) -> Expr:
    """The part of a value at a place."""
    found = value
    for step, number in enumerate(part):
        count = 0 if isinstance(found, Load) else len(found.operands)
        require(
            0 <= number < count,
            block,
            f"part {list(part)} of block {block!r}: {found!r}, at {list(part[:step])}, has "
            + (f"operands 0 to {count - 1}" if count else "no operands that are values"),
        )
        found = found.operands[number]
    require(
        not isinstance(found, (Const, Var)),
        block,
        f"part {list(part)} of block {block!r} is {found!r}, of which nothing is computed",
    )
    return found


def _require_ahead(state: State, node: Block, value: Expr) -> None:
    """Refuse a part of which something is not there before the nest of the block."""
    block = node.name
    for buffer in dict.fromkeys(load.buffer for load in loads(value)):
        require(
            buffer not in written(node),
            block,
            f"the part {value!r} of block {block!r} reads {buffer.name!r}, which the block writes",
        )
        require_made_before(state, buffer, block, "cache_value")
