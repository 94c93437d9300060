"""compute_inline: substitute a stage into the blocks that read it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import is_output, own_store, readers, written
from schedule.checks.ownership import require_sole_writer
from schedule.checks.unchanged import overwritten
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import State, replace_func
from tensorir import (
    Block,
    Buffer,
    Expr,
    Load,
    Stmt,
    Store,
    Var,
    body_loads,
    buffers_in,
    const,
    map_children,
    map_exprs,
    replace,
    stmt_exprs,
    substitute,
    transform,
    walk,
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
          variables, all of several values, and to the one place of a dimension of extent 1
        - no block writes what the stage reads between its place and those of its readers
        - no reader compares values that come out in another way elsewhere: a sum of products is
          rounded once or twice, as the code around it has it, and what is the largest by one
          rounding is not found by another
    """
    node = state.block(block)
    made = written(node)
    for buffer in made:
        require(not is_output(state, buffer), block, f"{buffer.name!r} is an output")
        require_sole_writer(state, buffer, block)
    users = [user for buffer in made for user in readers(state, buffer)]
    if not users:
        return _without(state, block, made), None
    store = own_store(node)
    require(
        store is not None,
        block,
        f"block {block!r} is a reduction, or stores to something else than its own variables",
    )
    assert store is not None
    refusal = overwritten(state, node, store.buffer, users)
    if refusal is not None:
        raise refusal
    seeker = _seeker(store, [state.block(user) for user in users])
    require(
        seeker is None,
        block,
        f"{seeker!r} compares values of {block!r}, which may be rounded in another way wherever "
        "they are computed",
        "keep it: what is compared is then computed once",
    )
    return _inlined(state, node, store), None


def _seeker(store: Store, users: Sequence[Block]) -> str | None:
    """A reader that compares what is stored, where it is read in several places and is not the same
    to the last bit in each; None where there is none."""
    if sum(len(body_loads(user, store.buffer)) for user in users) < 2:
        return None
    from tensorir import float_comparisons, is_repeatable  # few programs come so far

    def swap(e: Expr) -> Expr | None:
        return store.value if isinstance(e, Load) and e.buffer is store.buffer else None

    for user in users:
        whole = (e for stmt in walk(user) for e in stmt_exprs(stmt))
        pairs = (sides for e in whole for _, *sides in float_comparisons(e))
        sides = {side: transform(side, swap) for pair in pairs for side in pair}
        if any(made is not side and not is_repeatable(made) for side, made in sides.items()):
            return user.name
    return None


def _without(state: State, block: str, buffers: Sequence[Buffer]) -> State:
    """The state without a block and what it alone makes."""
    func = state.replace(state.block_path(block), None).func
    return State(replace_func(func, buffers=tuple(b for b in func.buffers if b not in buffers)))


def _inlined(state: State, node: Block, store: Store) -> State:
    removed = _without(state, node.name, [store.buffer])
    single = {it.var: const(0) for it in node.iters if it.var not in store.indices}
    alone = replace(store, value=substitute(store.value, single)) if single else store
    body = _inline(removed.func.body, alone, state)
    return State(replace_func(removed.func, body=body))


def _inline(stmt: Stmt, store: Store, state: State) -> Stmt:
    """`stmt` with loads of the stored buffer replaced by the stored value."""
    if store.buffer not in buffers_in(stmt):
        return stmt
    if not isinstance(stmt, Block):
        return map_children(stmt, lambda child: _inline(child, store, state))
    analyzer = state.analyzer()
    for it in stmt.iters:
        analyzer.bind(it.var, it.extent)
    memo: dict[Expr, Expr] = {}

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is store.buffer:
            values = {v: i for v, i in zip(store.indices, e.indices) if isinstance(v, Var)}
            return analyzer.simplify(substitute(store.value, values))
        return None

    return map_exprs(stmt, lambda e: transform(e, rule, memo))
