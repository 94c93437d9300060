"""rfactor: turn one loop of a reduction into independent partial reductions.

Without it a product of matrix and vector along contiguous rows has no use for lanes. Iterations
without a term, as of a symbolic extent that was split, keep what the reduction starts from by a
condition in the body, which lowering cuts off the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schedule.analysis.combiner import any_combiner
from schedule.analysis.uses import feeds, reduction_loops
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.nest_index import Names, own_names
from schedule.primitive import primitive
from schedule.rewrite.caching import place_beside, require_whole, top_statement
from schedule.rewrite.placement import fresh_loops, names_in
from schedule.rewrite.rebind import plain_loop
from schedule.state import BlockRef, State, add_buffers, extents, fresh, nest
from tensorir import (
    TRUE,
    BinOp,
    Block,
    Buffer,
    Combiner,
    Expr,
    For,
    IterKind,
    IterVar,
    Let,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    all_of,
    binary,
    conjuncts,
    const,
    neutral,
    relax,
    replace,
    select,
    seq,
    substitute,
    transform,
    variables,
)


@primitive
def rfactor(state: State, block: str, loop: str, factor_axis: int = -1) -> tuple[State, BlockRef]:
    """Compute partial reductions, one for each iteration of `loop`, then reduce those.

    Returns the new block `<block>_rf`, whose buffer has one more axis, at `factor_axis`, that
    `loop` now runs over independently; `block` reduces that axis. Floating-point sums and products
    are reassociated. A reduction of tuples (te.argmax, te.comm_reducer) has a buffer of partial
    results for each value. Iterations of `loop` without a term, as of a symbolic extent that was
    split, keep what the reduction starts from; if `loop` is its only one, each has one term.

    rewrite:  rfactor("C", "k_1")
        for k_0, k_1 in grid(8, 4):           for k_0, k_1 in grid(8, 4):
            with block("C"):             ->       C_rf[vk_1] = C_rf[vk_1] + A[vk_0 * 4 + vk_1]
                C[()] = C[()] + A[vk]         for k_1_C in range(4):
                                                  C[()] = C[()] + C_rf[vk_1]

    requires:
        - the block is a reduction with its init, by + * min max and or, or of values by a combiner
          that is found in its step and is associative and commutative
        - parts may start again from what it starts from, or what changes nothing is known
        - `loop` is a reduction loop of the block, and no such loop chooses the element too
        - where iterations of `loop` have no term at the first iteration of the other reduction
          loops, the block's own variables can say so
        - the block computes its buffers as a whole, and no other block writes them
        - the block is alone in its nest, and its loops are serial and carry no annotation
        - `factor_axis` is an axis of the new buffer
    """
    node, target = state.block(block), state.loop(loop)
    combiner = any_combiner(node)
    around = state.loops_around(block)
    reducing = reduction_loops(node, around)
    _require_loop(node, target, reducing)
    predicate, left_out = _conditions(state, node, target, around)
    anchor = top_statement(state, block)
    require(names_in(anchor) == {node.name}, block, f"block {block!r} is not alone in its nest")
    for store in combiner.stores:
        require_sole_writer(state, store.buffer, node.name)
        require_whole(state, store.buffer, block, terms=False)
    for each in around:
        plain_loop(each, "rfactor before annotating the loops")
    rank = len(combiner.stores[0].indices) + 1
    require(-rank <= factor_axis < rank, block, f"factor_axis {factor_axis} is outside rank {rank}")
    node = replace(node, predicate=predicate)
    plan = _plan(state, node, combiner, target, factor_axis % rank, left_out)
    factored = _factored(state, plan, reducing)
    changed = state.replace(state.block_path(block), factored)
    changed = State(add_buffers(changed.func, *plan.partials.values()), changed)
    anchor = top_statement(changed, factored.name)
    placed = place_beside(changed, anchor, _final(changed, plan), before=False)
    return placed, BlockRef(factored.name)


def _require_loop(node: Block, target: For, reducing: list[For]) -> None:
    """Refuse a loop that cannot become an axis of partial results."""
    require(
        target in reducing,
        target.name,
        f"loop {target.name!r} is no reduction loop of block {node.name!r}",
    )
    for each in reducing:
        require(
            feeds(node, each.var) == {IterKind.REDUCE},
            each.name,
            f"loop {each.name!r} also chooses the element of block {node.name!r}",
            "rfactor before fusing loops of data and of the reduction",
        )


class _Plan(NamedTuple):
    """`partials` are the new buffers by the old ones; `left_out` is the condition, of loops, that
    iterations without a term do not meet; new variables have none of the names in `scope`."""

    block: Block
    combiner: Combiner
    loop: For
    partials: Mapping[Buffer, Buffer]
    axis: int
    left_out: Expr
    scope: Names

    @property
    def variable(self) -> Var:
        """The block variable of the new axis, named after the loop."""
        return Var(fresh(self.scope, (f"v{self.loop.name}",)))

    def indices(self) -> tuple[Expr, ...]:
        """Where the partial results lie, in the variables of the block."""
        own = self.combiner.stores[0].indices
        return (*own[: self.axis], self.variable, *own[self.axis :])

    def part_of(self, buffer: Buffer) -> Load:
        return Load(self.partials[buffer], self.indices())


def _plan(
    state: State, node: Block, combiner: Combiner, loop: For, axis: int, left_out: Expr
) -> _Plan:
    partials: dict[Buffer, Buffer] = {}
    scope = state.names_in_scope()
    for store in combiner.stores:
        buffer = store.buffer
        name = state.fresh_buffer(f"{buffer.name}_rf", [b.name for b in partials.values()])
        scope.add(name)
        shape = (*buffer.shape[:axis], loop.extent, *buffer.shape[axis:])
        partials[buffer] = Buffer(name, shape, buffer.dtype)
    scope = scope.beside({*own_names(node)})
    return _Plan(node, combiner, loop, partials, axis, left_out, scope)


def _conditions(state: State, node: Block, target: For, around: list[For]) -> tuple[Expr, Expr]:
    """The block's predicate in two parts: the second one leaves out terms of some iterations of
    `target`, which would otherwise never get their first value.

    It is true where each iteration provably has a term.
    """
    reducing = reduction_loops(node, around)
    start = {loop.var: const(0) for loop in reducing if loop is not target}
    analyzer = state.analyzer(around)
    for it in node.iters:
        if it.kind is not IterKind.REDUCE:
            analyzer = analyzer.assuming(binary("<", it.binding, it.extent))
    if analyzer.prove(substitute(node.predicate, start)):
        return node.predicate, TRUE
    reduced = {loop.var for loop in reducing}
    parts = conjuncts(node.predicate)
    left_out = [part for part in parts if reduced & variables(part)]
    kept = all_of(*[part for part in parts if not reduced & variables(part)])
    plain = {it.binding for it in node.iters if it.kind is not IterKind.REDUCE}
    for part in left_out:
        for var in variables(part) - reduced - set(state.func.free_vars):
            require(
                var in plain,
                target.name,
                f"some iterations of loop {target.name!r} have no term of block {node.name!r}, and "
                f"its variables cannot say where {part!r}",
                "rfactor before splitting the other loops",
            )
    return kept, all_of(*left_out)


def _factored(state: State, plan: _Plan, reducing: list[For]) -> Block:
    """The block of partial reductions: the loop becomes a spatial variable."""
    name = state.fresh_block(f"{plan.block.name}_rf")
    spatial = [it for it in plan.block.iters if it.kind is not IterKind.REDUCE]
    taken = plan.scope.beside({plan.variable.name})
    iters = [*spatial, IterVar(plan.variable, plan.loop.extent, IterKind.SPATIAL, plan.loop.var)]
    values: dict[Var, Expr] = {plan.loop.var: plan.variable}
    for loop in reducing:
        if loop is plan.loop:
            continue
        var = Var(fresh(taken, (f"v{loop.name}",)))
        taken.add(var.name)
        values[loop.var] = var
        iters.append(IterVar(var, _most(state, loop), IterKind.REDUCE, loop.var))
    old = {it.var: substitute(it.binding, values) for it in plan.block.reduced}
    own = {it.binding: it.var for it in spatial if isinstance(it.binding, Var)}
    present = substitute(plan.left_out, {**values, **own})
    body = _to_partial(plan.block.body, plan, old, present)
    assert plan.block.init is not None
    starts = dict(zip(plan.partials, plan.combiner.start))
    init: Stmt | None = _to_partial(_started(plan.block.init, starts), plan, old, TRUE)
    if len(reducing) == 1:
        body, init = _single_terms(state, plan, body, iters), None
    return replace(plan.block, name=name, iters=tuple(iters), body=body, init=init)


def _started(init: Stmt, starts: Mapping[Buffer, Expr]) -> Stmt:
    """An init with the values that parts start from."""
    if isinstance(init, Seq):
        return Seq(tuple([_started(s, starts) for s in init.stmts]))
    assert isinstance(init, Store)
    return replace(init, value=starts[init.buffer])


def _most(state: State, loop: For) -> Expr:
    """How often a loop runs at most, whatever the loops around it."""
    outer = extents(state.loops_outside(loop.name))
    if not variables(loop.extent) & outer.keys():
        return loop.extent
    analyzer = state.analyzer(state.loops_outside(loop.name))
    found = relax(loop.extent, outer, analyzer)
    most = None if found is None else analyzer.simplify(found.low + found.extent - 1)
    require(
        most is not None and not variables(most) & outer.keys(),
        loop.name,
        f"loop {loop.name!r} runs over {loop.extent!r}, of which no bound is known",
    )
    assert most is not None
    return most


def _to_partial(stmt: Stmt, plan: _Plan, old: Mapping[Var, Expr], present: Expr) -> Stmt:
    """A statement on partial results in the place of results, which stay unless `present`."""
    before = dict(zip(plan.partials, plan.combiner.old))

    def rule(e: Expr) -> Expr | None:
        return plan.part_of(e.buffer) if isinstance(e, Load) and e.buffer in plan.partials else None

    def moved(e: Expr) -> Expr:
        return transform(substitute(e, old), rule)

    if isinstance(stmt, Seq):
        return Seq(tuple([_to_partial(s, plan, old, present) for s in stmt.stmts]))
    if isinstance(stmt, Let):
        body = _to_partial(stmt.body, plan, old, present)
        return replace(stmt, value=moved(stmt.value), body=body)
    assert isinstance(stmt, Store)
    value = moved(stmt.value)
    if present is not TRUE:
        value = select(present, value, moved(before[stmt.buffer]))
    return Store(plan.partials[stmt.buffer], plan.indices(), value)


def _single_terms(state: State, plan: _Plan, body: Stmt, iters: list[IterVar]) -> Stmt:
    """The stores of a partial reduction with one step, put in after what it starts from."""
    combiner = plan.combiner
    ops: tuple[str | None, ...] = combiner.ops or (None,) * len(combiner.stores)
    parts = [plan.part_of(store.buffer) for store in combiner.stores]
    start: dict[Expr, Expr] = {}
    for part, value, old in zip(parts, combiner.start, combiner.old):
        start[part] = start[old] = value
    neutral_op: dict[Buffer, str] = {}
    for part, value, op in zip(parts, combiner.start, ops):
        if op is not None and value is neutral(op, part.dtype):
            neutral_op[part.buffer] = op
    while isinstance(body, Let):
        body = body.body
    analyzer = state.analyzer()
    for it in iters:
        analyzer.bind(it.var, it.extent)

    def first(store: Stmt) -> Stmt:
        assert isinstance(store, Store)
        op = neutral_op.get(store.buffer)
        value = store.value if op is None else _term_of(store.value, op, start)
        value = analyzer.simplify(transform(value, start.get))
        # A variable of extent 1 simplifies to 0, but the block must stay at its own variables.
        return Store(store.buffer, plan.indices(), value)

    return seq(*[first(s) for s in (body.stmts if isinstance(body, Seq) else (body,))])


def _term_of(value: Expr, op: str, old: Mapping[Expr, Expr]) -> Expr:
    """`old op term` as the term alone, also where conditions choose."""
    if isinstance(value, Select):
        return select(value.cond, _term_of(value.a, op, old), _term_of(value.b, op, old))
    if isinstance(value, BinOp) and value.op == op:
        if value.a in old or value.b in old:
            return value.b if value.a in old else value.a
    return value


def _final(state: State, plan: _Plan) -> Stmt:
    """A nest of fresh loops that reduces the new axis into the original buffers."""
    spatial = [it for it in plan.block.iters if it.kind is not IterKind.REDUCE]
    reduced = IterVar(plan.variable, plan.loop.extent, IterKind.REDUCE, plan.loop.var)
    combiner = plan.combiner
    parts = tuple([plan.part_of(store.buffer) for store in combiner.stores])
    merged = combiner.merge(combiner.old, parts)
    body = seq(*[replace(s, value=value) for s, value in zip(combiner.stores, merged)])
    for old, store in zip(reversed(combiner.old), reversed(combiner.stores)):
        if isinstance(old, Var):
            body = Let(old, store.buffer[store.indices], body)
    block = Block(plan.block.name, (*spatial, reduced), body, plan.block.init)
    return nest(*fresh_loops(state, block, {}, (), state.analyzer(), unit_loops=True))
