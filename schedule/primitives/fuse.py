"""fuse: directly nested loops become one."""

from __future__ import annotations

from schedule.analysis import blocks_below, feeds
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, chain_below
from tensorir import Expr, For, IterKind, Var


@primitive
def fuse(state: State, *loops: str) -> tuple[State, LoopRef]:
    """Fuse `loops`, given outermost first, into one loop over all their iterations.

    rewrite:  fuse("i", "j")
        for i, j in grid(3, 4):     for i_j in range(12):
            with block("B"):   ->       with block("B"):
                vi = spatial(3, i)          vi = spatial(3, i_j // 4)
                vj = spatial(4, j)          vj = spatial(4, i_j % 4)

    requires:
        - each loop is the only statement in the one before it
        - the loops are serial and carry no annotation
        - no loop belongs to a reduction where another one does not
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
    _same_kind(nodes)
    if len(nodes) == 1:
        return state, LoopRef(loops[0])
    name = state.fresh_loop("_".join(n.name for n in nodes))
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
    values = {v: analyzer.simplify(e) for v, e in values.items()}
    body = rebind(inner, values, None, analyzer)
    new = state.replace(state.loop_path(loops[0]), For(var, total, body))
    return new, LoopRef(name)


def _same_kind(nodes: list[For]) -> None:
    for block in blocks_below(nodes[0]):
        kinds = {node.name: feeds(block, node.var) for node in nodes}
        reducing = [name for name, fed in kinds.items() if IterKind.REDUCE in fed]
        others = [name for name, fed in kinds.items() if fed and IterKind.REDUCE not in fed]
        require(
            not (reducing and others),
            (reducing or [""])[0],
            f"loop {(reducing or [''])[0]!r} is a reduction of block {block.name!r} "
            f"and {(others or [''])[0]!r} is not",
        )
