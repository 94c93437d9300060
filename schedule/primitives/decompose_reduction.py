"""decompose_reduction: give the first value of a reduction a block of its own."""

from __future__ import annotations

from schedule.analysis.uses import accesses, blocks_below, reduces, reduction_loops, written
from schedule.checks.early_init import require_input_before
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import BlockRef, State, extents, fresh
from tensorir import Block, For, all_of, blocks, conjuncts, determines, seq, split_init, variables


@primitive
def decompose_reduction(state: State, block: str, loop: str) -> tuple[State, BlockRef]:
    """Move the init of a reduction into a block `<block>_init` directly before `loop`.

    Lowering does this by itself at the outermost loop of the reduction; the primitive is for
    putting it elsewhere, or for scheduling the new block.

    rewrite:  decompose_reduction("C", "k")
        for i, k in grid(4, 8):            for i in range(4):
            with block("C"):                   with block("C_init"):
                with init():         ->            C[vi] = 0.0
                    C[vi] = 0.0                for k in range(8):
                C[vi] = C[vi] + A[vi, vk]          with block("C"):
                                                       C[vi] = C[vi] + A[vi, vk]

    requires:
        - the block is a reduction that still has its init
        - `loop` is around the block
        - no loop of the reduction is outside `loop`
        - no other loop from `loop` inwards repeats instances of the block
        - no other block inside `loop` writes what it does
        - what the init reads is complete before `loop`
    """
    node = state.block(block)
    target = state.loop(loop)
    require(
        node.init is not None,
        block,
        f"block {block!r} is no reduction, or its init was split off before",
    )
    around = state.loops_around(block)
    require(target in around, loop, f"loop {loop!r} is not around block {block!r}")
    for outer in reduction_loops(node, around[: around.index(target)]):
        require(
            False,
            loop,
            f"loop {outer.name!r}, outside {loop!r}, is a reduction of block {block!r}",
            f"decompose at {outer.name!r} or further out",
        )
    _once_each(state, node, around, around[around.index(target) :])
    _alone(node, target)
    taken = state.taken_names()

    def fresh_name(hint: str) -> str:
        name = fresh(taken, (hint,))
        taken.add(name)
        return name

    init, rest = split_init(target, node, fresh_name)
    first = next(b for b in blocks(init) if isinstance(b, Block))
    return state.replace(state.loop_path(loop), seq(init, rest)), BlockRef(first.name)


def _once_each(state: State, node: Block, around: list[For], inside: list[For]) -> None:
    """Refuse loops that run instances of the block again, within what it says of other loops than
    those of the reduction."""
    analyzer = state.analyzer(around)
    indices = next(a for a in accesses(node) if a.is_write).in_loops()
    summed = {f.var for f in reduction_loops(node, around)}
    parts = [part for part in conjuncts(node.predicate) if not variables(part) & summed]
    running = analyzer.assuming(all_of(*parts))
    for inner in inside:
        once = inner.const_extent == 1 or reduces(node, inner.var)
        require(
            once
            or determines(indices, inner.var, extents(around), analyzer)
            or determines(indices, inner.var, extents(around), running),
            inner.name,
            f"loop {inner.name!r} repeats instances of block {node.name!r}, which would then be "
            "added to one init",
        )


def _alone(node: Block, target: For) -> None:
    """An init that is put before a loop must not pass over what else is written there, nor over
    what it reads."""
    require_input_before(node, target)
    made = set(written(node))
    for other in blocks_below(target):
        require(
            other.name == node.name or made.isdisjoint(written(other)),
            target.name,
            f"block {other.name!r} inside loop {target.name!r} also writes it",
        )
