"""fuse_reduction_epilogue: what is added after a sum becomes the value the sum starts from."""

from __future__ import annotations

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.merging import Merge, plan_merge
from schedule.state import BlockRef, State, replace_func
from tensorir import (
    BinOp,
    Block,
    Expr,
    Load,
    Select,
    Store,
    binary,
    loads,
    replace,
    transform,
)

COMMUTATIVE = ("+", "*", "min", "max", "and", "or")


@primitive
def fuse_reduction_epilogue(
    state: State, reduction: BlockRef, epilogue: BlockRef
) -> tuple[State, None]:
    """Let a reduction start from the bias that `epilogue` adds to its result, and write where
    `epilogue` writes; `epilogue` and the buffer between the two disappear.

    The same holds for any combiner that is associative and commutative: a product that is scaled,
    a maximum that is bounded from below. Floating-point sums and products are reassociated.
    Anything else, such as the relu of a sum, means something else inside of the reduction and is
    refused; reverse_compute_at puts it after the last term.

    rewrite:  fuse_reduction_epilogue("C", "D")
        for i, k in grid(4, 8):                  for i, k in grid(4, 8):
            with init():                             with init():
                C[i] = 0.0                 ->            D[i] = 0.0 + bias[i]
            C[i] = C[i] + A[i, k]                    D[i] = D[i] + A[i, k]
        for i in range(4):
            D[i] = C[i] + bias[i]

    requires:
        - the first block is a reduction with its init, by one of + * min max and or
        - the second applies the same operation, once, to its result and something else
        - the second reads all of that result at its own variables, each used once, runs for all
          of it, has one store, writes each element once, and is the result's only reader
        - the reduction stores to its own variables and no loop repeats its sums
        - what else the second reads is complete before the reduction
        - no other block before or around the second uses what it writes
    """
    node = state.block(reduction)
    require(
        node.init is not None and isinstance(node.init, Store),
        reduction,
        f"block {reduction!r} is no reduction, or its init was split off",
        "fuse the epilogue before decompose_reduction",
    )
    plan = plan_merge(state, epilogue, reduction)
    op = _combiner(node, plan)
    other = _epilogue(plan, op)
    merged = _merged(node, plan, op, plan.in_producer(other))
    removed = state.replace(state.block_path(epilogue), None)
    func = removed.replace(removed.block_path(reduction), merged).func
    buffers = tuple(b for b in func.buffers if b is not plan.made.buffer)
    return State(replace_func(func, buffers=buffers)), None


def _combiner(node: Block, plan: Merge) -> str:
    """The operation of the reduction, which must be all that it does to its result."""
    value, buffer = plan.made.value, plan.made.buffer
    clean = True
    while isinstance(value, Select):  # a reduction with a condition keeps the old value elsewhere
        kept = isinstance(value.b, Load) and value.b.buffer is buffer
        clean = clean and kept and all(load.buffer is not buffer for load in loads(value.cond))
        value = value.a
    op = value.op if isinstance(value, BinOp) else ""
    own = [a for a in accesses(node) if a.buffer is buffer and not a.is_write]
    same = all(all(x is y for x, y in zip(a.indices, plan.made.indices)) for a in own)
    parts = (value.a, value.b) if isinstance(value, BinOp) else ()
    mine = [p for p in parts if isinstance(p, Load) and p.buffer is buffer]
    clean = clean and sum(load.buffer is buffer for p in parts for load in loads(p)) == 1
    require(
        op in COMMUTATIVE and same and len(mine) == 1 and clean,
        node.name,
        f"block {node.name!r} does not reduce one value by one of {' '.join(COMMUTATIVE)}",
    )
    return op


def _epilogue(plan: Merge, op: str) -> Expr:
    """What the epilogue combines with the result of the reduction."""
    value, name = plan.store.value, plan.consumer.name
    parts = [value.a, value.b] if isinstance(value, BinOp) and value.op == op else []
    rest = [p for p in parts if p is not plan.load]
    require(
        len(rest) == 1 and all(load is not plan.load for load in loads(rest[0])),
        name,
        f"block {name!r} computes {value!r}, which is not the reduction's {op!r} of its result "
        "and something else: it means something else before the last term",
        "use reverse_compute_at at the innermost loop outside of the reduction",
    )
    return rest[0]


def _merged(node: Block, plan: Merge, op: str, other: Expr) -> Block:
    """The reduction into the buffer of the epilogue."""
    old, new, indices = plan.made, plan.store.buffer, plan.indices()
    assert isinstance(node.init, Store)

    def rule(e: Expr) -> Expr | None:
        return Load(new, indices) if isinstance(e, Load) and e.buffer is old.buffer else None

    value = transform(old.value, rule)
    start = binary(op, node.init.value, other)
    return replace(node, body=Store(new, indices, value), init=Store(new, indices, start))
