"""fuse: directly nested loops become one."""

from __future__ import annotations

from schedule.analysis.uses import blocks_below, feeds
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, chain_below
from tensorir import Analyzer, Expr, For, IterKind, Var, const


@primitive
def fuse(state: State, *loops: str) -> tuple[State, LoopRef]:
    """Fuse `loops`, given outermost first, into one loop over all their iterations.

    A loop of data and one of a reduction may become one, which is one of the reduction then.

    rewrite:  fuse("i", "j")
        for i, j in grid(3, 4):     for i_j in range(12):
            with block("B"):   ->       with block("B"):
                vi = spatial(3, i)          vi = spatial(3, i_j // 4)
                vj = spatial(4, j)          vj = spatial(4, i_j % 4)

    requires:
        - each loop is the only statement in the one before it
        - the loops are serial and carry no annotation
        - a loop of a reduction that may have no iterations is not fused with one of data before
          decompose_reduction
    """
    require(len(loops) > 0, "", "no loops were given")
    nodes = [state.loop(name) for name in loops]
    below = list(chain_below(nodes[0]))
    for upper, lower in zip(nodes, nodes[1:]):
        require(
            upper.body is lower,
            lower.name,
            f"loop {lower.name!r} is not directly inside {upper.name!r}",
            "reorder them, or name the loops in between too" if lower in below else None,
        )
    for node in nodes:
        plain_loop(node, "fuse before parallel, vectorize or unroll")
    _first_values_stay(state, nodes)
    if len(nodes) == 1:
        return state, LoopRef(loops[0])
    name = state.loop_of(nodes)
    total: Expr = nodes[0].extent
    for node in nodes[1:]:
        total = total * node.extent
    var = Var(name)
    values: dict[Var, Expr] = {}
    rest: Expr = var
    for node in reversed(nodes[1:]):
        values[node.var] = rest % node.extent
        rest = rest // node.extent
    values[nodes[0].var] = rest
    inner = nodes[-1].body
    outside = state.loops_outside(loops[0])
    fused = For(var, total, inner)
    analyzer = state.analyzer([*outside, fused, *chain_below(nodes[-1])])
    if any([node.const_extent == 0 for node in nodes]):  # nothing runs: do not divide by 0
        values = {node.var: var for node in nodes}
    body = rebind(inner, values, None, analyzer)
    new = state.replace(state.loop_path(loops[0]), For(var, total, body))
    return new, LoopRef(name)


def _first_values_stay(state: State, nodes: list[For]) -> None:
    """A sum of nothing has its first value, which the iterations of one loop over both would not
    give if there are none."""
    analyzer = state.analyzer(state.loops_outside(nodes[0].name))
    for block in blocks_below(nodes[0]) if len(nodes) > 1 else ():
        kinds = {node: feeds(block, node.var) for node in nodes}
        data = [node for node, fed in kinds.items() if fed - {IterKind.REDUCE}]
        if block.init is None or not data:
            continue
        for node in nodes:
            require(
                IterKind.REDUCE not in kinds[node] or _runs(node, analyzer),
                node.name,
                f"loop {node.name!r} of the reduction of block {block.name!r} may have no "
                f"iterations, and {data[0].name!r} with it would leave out its first values",
                "decompose_reduction first, at the outermost of them",
            )


def _runs(node: For, analyzer: Analyzer) -> bool:
    size = node.const_extent
    return size > 0 if size is not None else analyzer.prove(const(0) < node.extent)
