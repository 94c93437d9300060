"""decompose_padding: write the padding and the data in two blocks."""

from __future__ import annotations

from schedule.analysis.uses import accesses, plain_store
from schedule.checks.verified import require_verified
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.placement import names_in
from schedule.state import BlockRef, State, fresh, nest
from tensorir import (
    Block,
    Const,
    Expr,
    For,
    Select,
    Store,
    Var,
    binary,
    depends_on_data,
    replace,
    seq,
    substitute,
    variables,
)


@primitive
def decompose_padding(state: State, block: str, loop: str) -> tuple[State, BlockRef]:
    """Fill with the padding's constant directly before `loop`, and copy only the data in it.

    Returns the new block `<block>_pad`, which fills all that `block` used to write; `block` then
    runs where the condition holds, and lowering shortens its loops to that part.

    rewrite:  decompose_padding("P", "i")
                                                      for i in range(10):
        for i in range(10):                               P[vi] = 0.0
            P[vi] = select(1 <= vi and vi < 9,    ->  for i in range(10):
                           A[vi - 1], 0.0)                where(1 <= i and i < 9)
                                                          P[vi] = A[vi - 1]

    requires:
        - what the block reads under the condition is provably in range where the block then runs
        - the block stores select(condition, value, constant) to its own distinct variables
        - the condition reads no buffer and no number among the arguments but sizes
        - the value does not read the buffer that is stored to
        - `loop` is around the block, with no other block between them
        - no loop around the block is annotated
        - no other block inside `loop` uses the buffer
        - what the block's predicate says about loops in `loop` is about those it writes with
    """
    node, target = state.block(block), state.loop(loop)
    store = plain_store(node)
    value = store.value if store is not None else None
    require(
        store is not None and isinstance(value, Select) and isinstance(value.b, Const),
        block,
        f"block {block!r} does not store select(condition, value, constant) to its own variables",
    )
    assert store is not None and isinstance(value, Select)
    require(
        not node.is_reduction and not depends_on_data(value.cond),
        block,
        f"the condition {value.cond!r} of block {block!r} reads a buffer, or a "
        "number among the arguments that is no size",
    )
    around = state.loops_around(block)
    require(target in around, loop, f"loop {loop!r} is not around block {block!r}")
    own = any(a.buffer is store.buffer and not a.is_write for a in accesses(node))
    require(not own, block, f"block {block!r} reads {store.buffer.name!r}, which it writes")
    _plain_nest(state, node, target, around)
    _alone(state, node, store, target)
    inside = around[around.index(target) :]
    filling = _filling(state, node, replace(store, value=value.b), inside)
    bindings = {it.var: it.binding for it in node.iters}
    analyzer = state.analyzer(around)
    wanted = analyzer.simplify(substitute(value.cond, bindings))
    data = replace(
        node,
        body=replace(store, value=value.a),
        predicate=binary("and", node.predicate, wanted),
    )
    changed = state.replace(state.block_path(block), data)
    below = changed.loop(loop)
    placed = changed.replace(changed.loop_path(loop), seq(nest(*filling), below))
    require_verified(state, placed, block, "the block of the data")
    return placed, BlockRef(filling[1].name)


def _plain_nest(state: State, node: Block, target: For, around: list[For]) -> None:
    """No block between the loop and the block, and no annotation that speaks of the old nest."""
    path, block = state.block_path(node.name), node.name
    nested = any(isinstance(stmt, Block) for stmt in path[path.index(target) : -1])
    require(not nested, block, f"block {block!r} is in another block inside loop {target.name!r}")
    for loop in around:
        keys = ", ".join(loop.annotations)
        require(
            not keys,
            loop.name,
            f"loop {loop.name!r} is annotated with {keys}",
            "decompose first, and annotate afterwards",
        )


def _alone(state: State, node: Block, store: Store, target: For) -> None:
    """Between the filling and the data nobody may look."""
    for name in sorted(names_in(target) - {node.name}):
        uses = any(a.buffer is store.buffer for a in accesses(state.block(name)))
        require(
            not uses,
            target.name,
            f"block {name!r} inside loop {target.name!r} uses {store.buffer.name!r} too",
            f"decompose at a loop around {node.name!r} only",
        )


def _filling(state: State, node: Block, store: Store, inside: list[For]) -> tuple[list[For], Block]:
    """The loops of `inside` that place the block's stores, renamed, and a block that fills."""
    used = frozenset[Var]().union(*(variables(it.binding) for it in node.iters))
    dropped = {loop.var for loop in inside if loop.var not in used}
    require(
        not dropped & variables(node.predicate),
        node.name,
        f"block {node.name!r} runs where {node.predicate!r}, which speaks of loops that do not "
        "choose what it writes",
    )
    taken = state.taken_names()
    renamed: dict[Var, Expr] = {}
    loops: list[For] = []
    for loop in inside:
        if loop.var not in used:
            continue
        name = fresh(taken, (f"{loop.name}_pad",))
        taken.add(name)
        var = Var(name)
        loops.append(replace(loop, var=var, extent=substitute(loop.extent, renamed)))
        renamed[loop.var] = var
    block = Block(
        state.fresh_block(f"{node.name}_pad"),
        tuple(replace(it, binding=substitute(it.binding, renamed)) for it in node.iters),
        store,
        predicate=substitute(node.predicate, renamed),
    )
    return loops, block
