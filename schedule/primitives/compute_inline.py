"""compute_inline: substitute a stage into the blocks that read it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import is_output, read, readers, written
from schedule.checks.ownership import require_sole_writer
from schedule.checks.unchanged import overwritten
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import State, replace_func
from tensorir import (
    Block,
    Buffer,
    Expr,
    ExprLike,
    Load,
    Stmt,
    Store,
    Var,
    map_children,
    map_exprs,
    substitute,
    transform,
)


@primitive
def compute_inline(state: State, block: str) -> tuple[State, None]:
    """Replace every read of the stage by its expression, and remove the stage.

    A stage that nobody reads is only removed, whatever it computes. Steps of a scan are inlined
    into each other like other stages.

    rewrite:  compute_inline("B")
        B[vi] = A[vi] + 1.0      ->
        C[vi] = B[vi] * 2.0      ->  C[vi] = (A[vi] + 1.0) * 2.0

    requires:
        - the block writes intermediate buffers, which no other block writes
        - if some block reads it: the block is no reduction and has one store, to distinct block
          variables
        - no block writes what the stage reads between its place and those of its readers
    """
    node = state.block(block)
    made = written(node)
    for buffer in made:
        require(not is_output(state, buffer), block, f"{buffer.name!r} is an output")
        require_sole_writer(state, buffer, block)
    users = [user for buffer in made for user in readers(state, buffer)]
    if not users:
        return _without(state, block, made), None
    store = _own_store(node)
    require(
        store is not None,
        block,
        f"block {block!r} is a reduction, or stores to something else than its own variables",
    )
    assert store is not None
    refusal = overwritten(state, node, store.buffer, users)
    if refusal is not None:
        raise refusal
    return _inlined(state, node, store), None


def _own_store(node: Block) -> Store | None:
    """The only store of a block that is no reduction and reads other buffers, if it is to distinct
    variables of the block, all of them; those of a scan count."""
    body = node.body
    if not isinstance(body, Store) or node.is_reduction or body.buffer in read(node):
        return None
    own = {it.var for it in node.iters}
    return body if len(body.indices) == len(own) and set(body.indices) == own else None


def _without(state: State, block: str, buffers: Sequence[Buffer]) -> State:
    """The state without a block and what it alone makes."""
    func = state.replace(state.block_path(block), None).func
    return State(replace_func(func, buffers=tuple(b for b in func.buffers if b not in buffers)))


def _inlined(state: State, node: Block, store: Store) -> State:
    removed = _without(state, node.name, [store.buffer])
    body = _inline(removed.func.body, store, state)
    return State(replace_func(removed.func, body=body))


def _inline(stmt: Stmt, store: Store, state: State) -> Stmt:
    """`stmt` with loads of the stored buffer replaced by the stored value."""
    if not isinstance(stmt, Block):
        return map_children(stmt, lambda child: _inline(child, store, state))
    analyzer = state.analyzer()
    for it in stmt.iters:
        analyzer.bind(it.var, it.extent)
    memo: dict[Expr, Expr] = {}

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is store.buffer:
            values = {_var(v): index for v, index in zip(store.indices, e.indices)}
            return analyzer.simplify(substitute(store.value, values))
        return None

    return map_exprs(stmt, lambda e: transform(e, rule, memo))


def _var(index: ExprLike) -> Var:
    assert isinstance(index, Var)
    return index
