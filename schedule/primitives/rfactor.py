"""rfactor: turn one loop of a reduction into independent partial reductions."""

from __future__ import annotations

from dataclasses import dataclass

from schedule.analysis import reduction_loops
from schedule.caching import place_beside, require_whole, top_statement
from schedule.combiner import combiner
from schedule.errors import require
from schedule.ownership import require_sole_writer
from schedule.placement import names_in
from schedule.primitive import primitive
from schedule.rebind import plain_loop
from schedule.state import BlockRef, State, add_buffers, fresh, nest
from tensorir import (
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    IterVar,
    Load,
    Seq,
    Stmt,
    Store,
    Var,
    binary,
    const,
    map_exprs,
    replace,
    substitute,
    transform,
)


@primitive
def rfactor(state: State, block: str, loop: str, factor_axis: int = -1) -> tuple[State, BlockRef]:
    """Compute partial reductions, one for each iteration of `loop`, then reduce those.

    Returns the new block `<block>_rf`, whose buffer has one more axis, at `factor_axis`, that
    `loop` now runs over independently; `block` reduces that axis. Floating-point sums and products
    are reassociated.

    rewrite:  rfactor("C", "k_1")
        for k_0, k_1 in grid(8, 4):           for k_0, k_1 in grid(8, 4):
            with block("C"):             ->       C_rf[vk_1] = C_rf[vk_1] + A[vk_0 * 4 + vk_1]
                C[()] = C[()] + A[vk]         for k_1_C in range(4):
                                                  C[()] = C[()] + C_rf[vk_1]

    requires:
        - the block is a reduction with its init, by one of + * min max and or
        - a sum starts from 0 and a product from 1
        - `loop` is a reduction loop of the block, and not the only one
        - every iteration of `loop` has a term, at the first iteration of the other reduction loops
        - the block computes its buffer as a whole, and no other block writes it
        - the block is alone in its nest, and its loops are serial and carry no annotation
        - `factor_axis` is an axis of the new buffer
    """
    node, target = state.block(block), state.loop(loop)
    store, op = combiner(node)
    around = state.loops_around(block)
    reducing = reduction_loops(node, around)
    require(target in reducing, loop, f"loop {loop!r} is no reduction loop of block {block!r}")
    require(
        len(reducing) > 1, loop, f"loop {loop!r} is the only one of the reduction", "split it first"
    )
    _every_iteration(state, node, target, around)
    anchor = top_statement(state, block)
    require(names_in(anchor) == {node.name}, block, f"block {block!r} is not alone in its nest")
    require_sole_writer(state, store.buffer, node.name)
    require_whole(state, store.buffer, block, terms=False)
    for each in around:
        plain_loop(each, "rfactor before annotating the loops")
    rank = len(store.indices) + 1
    require(-rank <= factor_axis < rank, block, f"factor_axis {factor_axis} is outside rank {rank}")
    axis = factor_axis % rank
    shape = (*store.buffer.shape[:axis], target.extent, *store.buffer.shape[axis:])
    name = state.fresh_buffer(f"{store.buffer.name}_rf")
    partial = Buffer(name, shape, store.buffer.dtype)
    plan = _Plan(node, store, op, target, partial, axis, frozenset(state.taken_names()))
    factored = _factored(state.fresh_block(f"{block}_rf"), plan, reducing)
    final = _final(plan)
    changed = state.replace(state.block_path(block), factored)
    changed = State(add_buffers(changed.func, partial))
    placed = place_beside(changed, top_statement(changed, factored.name), final, before=False)
    return placed, BlockRef(factored.name)


@dataclass(frozen=True)
class _Plan:
    block: Block
    store: Store
    op: str
    loop: For
    partial: Buffer
    axis: int
    taken: frozenset[str]

    @property
    def variable(self) -> Var:
        """The block variable of the new axis, named after the loop."""
        own = {it.var.name for it in self.block.iters}
        return Var(fresh(own | self.taken, (f"v{self.loop.name}",)))

    def indices(self) -> tuple[Expr, ...]:
        """Where the partial result lies, in the variables of the block."""
        own = self.store.indices
        return (*own[: self.axis], self.variable, *own[self.axis :])


def _every_iteration(state: State, node: Block, target: For, around: list[For]) -> None:
    """Partial results without any term would never get their first value."""
    others = [loop for loop in reduction_loops(node, around) if loop is not target]
    first = substitute(node.predicate, {loop.var: const(0) for loop in others})
    analyzer = state.analyzer(around)
    for it in node.iters:
        if it.kind is not IterKind.REDUCE:
            analyzer = analyzer.assuming(binary("<", it.binding, it.extent))
    require(
        analyzer.prove(first),
        target.name,
        f"some iterations of loop {target.name!r} have no term of block {node.name!r}",
        "split the reduction by a smaller factor",
    )


def _factored(name: str, plan: _Plan, reducing: list[For]) -> Block:
    """The block of partial reductions: the loop becomes a spatial variable."""
    spatial = [it for it in plan.block.iters if it.kind is not IterKind.REDUCE]
    taken = {*plan.taken, *(it.var.name for it in spatial), plan.variable.name}
    iters = [*spatial, IterVar(plan.variable, plan.loop.extent, IterKind.SPATIAL, plan.loop.var)]
    values: dict[Var, Expr] = {plan.loop.var: plan.variable}
    for loop in reducing:
        if loop is plan.loop:
            continue
        var = Var(fresh(taken, (f"v{loop.name}",)))
        taken.add(var.name)
        values[loop.var] = var
        iters.append(IterVar(var, loop.extent, IterKind.REDUCE, loop.var))
    old = {
        it.var: substitute(it.binding, values)
        for it in plan.block.iters
        if it.kind is IterKind.REDUCE
    }
    body = _to_partial(plan.block.body, plan, old)
    assert plan.block.init is not None
    init = _to_partial(plan.block.init, plan, old)
    return replace(plan.block, name=name, iters=tuple(iters), body=body, init=init)


def _to_partial(stmt: Stmt, plan: _Plan, old: dict[Var, Expr]) -> Stmt:
    assert isinstance(stmt, Store)
    indices = plan.indices()

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is plan.store.buffer:
            return Load(plan.partial, indices)
        return None

    moved = map_exprs(stmt, lambda e: transform(substitute(e, old), rule))
    assert isinstance(moved, Store)
    return Store(plan.partial, indices, moved.value)


def _final(plan: _Plan) -> Stmt:
    """A nest of fresh loops that reduces the new axis into the original buffer."""
    loops: list[For] = []
    iters: list[IterVar] = []
    taken = set(plan.taken)
    spatial = [it for it in plan.block.iters if it.kind is not IterKind.REDUCE]
    reduced = IterVar(plan.variable, plan.loop.extent, IterKind.REDUCE, plan.loop.var)
    for it in (*spatial, reduced):
        base = it.var.name.removeprefix("v")
        name = fresh(taken, (base, f"{base}_{plan.block.name}"))
        taken.add(name)
        loops.append(For(Var(name), it.extent, Seq(())))
        iters.append(replace(it, binding=loops[-1].var))
    store = plan.store
    value = binary(plan.op, store.buffer[store.indices], plan.partial[plan.indices()])
    block = Block(plan.block.name, tuple(iters), replace(store, value=value), plan.block.init)
    return nest(loops, block)
