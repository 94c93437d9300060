"""compute_inline: substitute a stage into the blocks that read it."""

from __future__ import annotations

from schedule.analysis import is_output, plain_store, readers
from schedule.errors import require
from schedule.ownership import require_sole_writer
from schedule.primitive import primitive
from schedule.state import State, replace_func
from tensorir import (
    Block,
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

    rewrite:  compute_inline("B")
        B[vi] = A[vi] + 1.0      ->
        C[vi] = B[vi] * 2.0      ->  C[vi] = (A[vi] + 1.0) * 2.0

    requires:
        - the block is no reduction and has one store, to distinct block variables
        - the block writes an intermediate buffer that some block reads and no other block writes
    """
    node = state.block(block)
    store = plain_store(node)
    require(
        store is not None and not node.is_reduction and len(store.indices) == len(node.iters),
        block,
        f"block {block!r} is a reduction, or stores to something else than its own variables",
    )
    assert store is not None
    require(not is_output(state, store.buffer), block, f"{store.buffer.name!r} is an output")
    require_sole_writer(state, store.buffer, block)
    users = readers(state, store.buffer)
    require(len(users) > 0, block, f"no block reads {store.buffer.name!r}")
    removed = state.replace(state.block_path(block), None)
    body = _inline(removed.func.body, store, state)
    func = removed.func
    buffers = tuple(b for b in func.buffers if b is not store.buffer)
    return State(replace_func(func, body=body, buffers=buffers)), None


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
