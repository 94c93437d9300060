"""partition: one loop becomes several, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import blocks_below, reduces
from schedule.checks.factors import known_factors
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, chain_below, fresh
from tensorir import (
    Block,
    Expr,
    For,
    Seq,
    Stmt,
    Var,
    const,
    map_children,
    maximum,
    replace,
    seq,
    substitute_stmt,
)


@primitive
def partition(
    state: State, loop: str, factors: Sequence[int | None]
) -> tuple[State, tuple[LoopRef, ...]]:
    """Cut the iterations of `loop` into len(factors) consecutive loops of these extents.

    At most one factor may be None: it becomes what the others leave. Blocks and inner loops are
    repeated in each part, under new names (`B`, `B_1`) from the second part on. Where the extent
    is symbolic and may be smaller than the factors, the surplus instances are predicated away.

    rewrite:  partition("i", [4, None])
        for i in range(10):         for i_0 in range(4):
            with block("B"):   ->       with block("B"):
                vi = spatial(10, i)         vi = spatial(10, i_0)
                ...                         ...
                                    for i_1 in range(6):
                                        with block("B_1"):
                                            vi = spatial(10, i_1 + 4)
                                            ...

    requires:
        - `loop` is serial and carries no annotation
        - there is at least one factor and at most one unknown one, the others are positive integers
        - the factors add up to the extent; a symbolic extent needs a None factor
        - no reduction that still has its init is run by `loop`
    """
    node = state.loop(loop)
    plain_loop(node, "partition it first, and annotate the parts")
    sizes = part_sizes(node, factors)
    for block in blocks_below(node):
        require(
            block.init is None or not reduces(block, node.var),
            loop,
            f"loop {loop!r} is a reduction of block {block.name!r} whose init is still attached",
            "decompose_reduction first",
        )
    if len(sizes) == 1:
        return state, (LoopRef(loop),)
    taken = _Names(state)
    parts: list[For] = []
    start: Expr = const(0)
    around = state.analyzer(state.loops_outside(loop))
    for number, size in enumerate(sizes):
        part = For(Var(taken.loop(f"{node.name}_{number}")), size, Seq(()))
        body = node.body if number == 0 else taken.renamed(node.body)
        below = chain_below(replace(part, body=body))
        analyzer = state.analyzer([*state.loops_outside(loop), part, *below])
        value = start + part.var  # which rebind simplifies by what each block knows
        guard = None if analyzer.prove(value < node.extent) else value < node.extent
        parts.append(replace(part, body=rebind(body, {node.var: value}, guard, analyzer)))
        start = around.simplify(start + size)  # no part need have an iteration
    new = state.replace(state.loop_path(loop), seq(*parts))
    return new, tuple(LoopRef(part.name) for part in parts)


def part_sizes(node: For, factors: Sequence[int | None]) -> list[Expr]:
    """The extents of the parts, with None replaced; refuses what does not make up the loop."""
    where = node.name
    known = known_factors(node, factors)
    total, extent = sum(known), node.const_extent
    open_ended = len(known) < len(factors)
    require(
        open_ended or extent is not None,
        where,
        f"the extent {node.extent!r} is not a number and no factor is None",
        "give None as one factor",
    )
    if extent is not None:
        fits = total < extent or (total == extent and (not open_ended or not known))
        require(
            fits and (open_ended or total == extent),
            where,
            f"factors {known} make {total} of the {extent} iterations"
            + (", which leaves none for None" if open_ended else ""),
        )
        rest: Expr = const(extent - total)
    else:
        rest = maximum(node.extent - total, const(0)) if known else node.extent
    return [rest if f is None else const(f) for f in factors]


class _Names:
    """Names for the copies, none of them taken twice."""

    def __init__(self, state: State) -> None:
        self.loops = state.taken_names()
        self.blocks = state.handles()

    def loop(self, hint: str) -> str:
        return self._new(fresh(self.loops, (hint,)))

    def block(self, hint: str) -> str:
        return self._new(fresh(self.blocks, (hint,)))

    def _new(self, name: str) -> str:
        self.loops.add(name)
        self.blocks.add(name)
        return name

    def renamed(self, stmt: Stmt) -> Stmt:
        """`stmt` with new names for all of its loops and blocks."""
        if isinstance(stmt, For):
            var = Var(self.loop(stmt.name), stmt.var.dtype)
            body = substitute_stmt(self.renamed(stmt.body), {stmt.var: var})
            return replace(stmt, var=var, body=body)
        if isinstance(stmt, Block):
            name = self.block(stmt.name)
            return replace(map_children(stmt, self.renamed), name=name)
        return map_children(stmt, self.renamed)
