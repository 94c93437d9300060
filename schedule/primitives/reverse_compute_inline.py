"""reverse_compute_inline: a consumer becomes part of the block that computes its input."""

from __future__ import annotations

from schedule.analysis.uses import producers, read
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.merging import Merge, plan_merge
from schedule.state import State, replace_func
from tensorir import Block, Expr, Store, Var, all_of, replace, substitute, transform


@primitive
def reverse_compute_inline(state: State, block: str, part: bool = False) -> tuple[State, None]:
    """Compute the consumer where its input is computed, and remove both the consumer's own loops
    and the buffer between the two. The producer's block keeps its name and its loops.

    A consumer that transposes or reshapes is taken too: each element is then stored where the
    consumer puts it. With `part`, one that leaves elements out is taken as well: these are
    computed, and not stored.

    rewrite:  reverse_compute_inline("C")
        for i in range(8):                for i in range(8):
            B[i] = A[i] + 1.0        ->       C[i] = (A[i] + 1.0) * 2.0
        for j in range(8):
            C[j] = B[j] * 2.0

    requires:
        - the block is no reduction, has one store, and writes each element once
        - it reads what exactly one other block computes and nobody else reads or writes
        - it reads each element of that buffer once, with `part` at most once, at indices that tell
          the block's variables (its own variables, in any order, or their digits), and runs for all
        - where it reads only under a condition, that block writes all of the buffer
        - that block is no reduction, stores to its own variables, and no loop repeats it
        - what else the block reads is complete before that block runs
        - no other block before or around it uses what the block writes
    """
    node = state.block(block)
    require(not node.is_reduction, block, f"block {block!r} is a reduction")
    producer = _producer(state, block)
    maker = state.block(producer)
    require(
        not maker.is_reduction,
        block,
        f"block {producer!r}, which {block!r} reads, is a reduction; "
        "its sums are complete only after its last term",
        "use reverse_compute_at at the innermost loop outside of the reduction",
    )
    plan = plan_merge(state, block, producer, any_map=True, part=part)
    require(
        plan.made.buffer not in read(maker),
        producer,
        f"block {producer!r} reads what it writes",
    )
    analyzer = state.analyzer()
    for it in maker.iters:
        analyzer.bind(it.var, it.extent)

    def rule(e: Expr) -> Expr | None:
        return plan.made.value if e is own else None

    own = plan.in_producer(plan.load)
    value = analyzer.simplify(transform(plan.in_producer(plan.store.value), rule))
    # A variable stays one where its extent is 1: later steps look for it.
    indices = tuple(i if isinstance(i, Var) else analyzer.simplify(i) for i in plan.indices())
    removed = state.replace(state.block_path(block), None)
    merged = replace(_where(state, maker, plan), body=Store(plan.store.buffer, indices, value))
    func = removed.replace(removed.block_path(producer), merged).func
    buffers = tuple(b for b in func.buffers if b is not plan.made.buffer)
    return State(replace_func(func, buffers=buffers)), None


def _where(state: State, maker: Block, plan: Merge) -> Block:
    """The producer's block, of the elements that the consumer uses."""
    if plan.where is None:
        return maker
    guard = substitute(plan.where, {it.var: it.binding for it in maker.iters})
    around = state.analyzer(state.loops_around(maker.name))
    return replace(maker, predicate=around.simplify(all_of(maker.predicate, guard)))


def _producer(state: State, block: str) -> str:
    """The only block whose result `block` reads, of those that could be its home."""
    makers = producers(state, block)
    require(len(makers) > 0, block, f"block {block!r} reads inputs of the function only")
    order = state.block_names()
    return max(makers, key=order.index)
