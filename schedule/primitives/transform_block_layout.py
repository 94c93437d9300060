"""transform_block_layout: run the instances of a block in other loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedule.checks.verified import require_verified
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.index_map import Layout, index_map_text, layout_of
from schedule.rewrite.placement import fresh_loops, own_loops, own_predicate
from schedule.rewrite.relayout import in_range, new_axes, old_values, said_in
from schedule.state import State, nest
from tensorir import (
    Block,
    Buffer,
    Expr,
    IterKind,
    IterVar,
    binary,
    const,
    replace,
    substitute,
    variables,
)


@primitive
def transform_block_layout(
    state: State, block: str, index_map: str | Callable[..., Any]
) -> tuple[State, None]:
    """Give a block new variables, which a map makes of those it has, and a loop for each of them.

    `index_map` is a lambda or its text, of one parameter for each variable of the block. The body
    is said in the new variables; buffers stay as they are. Variables of a reduction that are not
    kept whole make another order of its terms. Places of the new loops that nothing comes to are
    left out.

    rewrite:  transform_block_layout("C", "i, j: j // 4, i, j % 4")
        for i, j in grid(8, 12):              for j_0, i, j_1 in grid(3, 8, 4):
            C[vi, vj] = A[vi, vj]       ->        C[vi, vj_0 * 4 + vj_1] = A[vi, vj_0 * 4 + vj_1]

    requires:
        - the block is alone in its loops, one for each of its variables, over all of it
        - these loops are serial and carry no annotation
        - no variable of the block is opaque, and its instances do not read what others write
        - the map is a function, or text such as "i, j: j, i" with distinct new names, whose results
          are integers made of its parameters
        - the map has one parameter per variable, and gives integers from 0 on, with bounds
        - the map sends different instances to different places, in digits that tell them
        - no result of the map mixes variables of a reduction with others
        - every new place of an element of a reduction has all of its terms or none, and one of the
          variables of these is kept
    """
    node = state.block(block)
    around = own_loops(state, node, "transform_block_layout")
    text = index_map if isinstance(index_map, str) else index_map_text(index_map)
    sizes = tuple([it.extent for it in node.iters])
    layout = layout_of(state, text, Buffer(block, sizes, "int64"), block)
    require(
        layout.inverse is not None,
        block,
        f"the variables of block {block!r} cannot be told from the results of {text!r}",
    )
    moved, conditions = _moved(state, node, layout)
    path = state.block_path(block)
    place = path[: path.index(around[0]) + 1]
    rest = state.replace(place, None)
    loops, bound = fresh_loops(rest, moved, {}, conditions, state.analyzer())
    changed = state.replace(place, nest(loops, bound))
    return require_verified(state, changed, block, "the new order of loops"), None


def _moved(state: State, node: Block, layout: Layout) -> tuple[Block, list[Expr]]:
    """The block on the new variables, yet to be bound, and where it runs."""
    iters = list(node.iters)
    axes = new_axes(node, iters, layout, state.names_in_scope())
    own = dict(zip(layout.old, iters))
    made: list[IterVar] = []
    for axis, size, part in zip(axes, layout.shape, layout.components):
        kinds = {it.kind for var, it in own.items() if var in variables(part)} or {IterKind.SPATIAL}
        require(
            len(kinds) == 1,
            node.name,
            f"{part!r} of the index map mixes variables of the reduction with others",
        )
        made.append(IterVar(axis, size, kinds.pop(), const(0)))
    require(
        not node.is_reduction or any(it.kind is IterKind.REDUCE for it in made),
        node.name,
        f"no result of the index map has a variable of the reduction {node.name!r}, over which it "
        "starts and sums",
        "keep one, also of a single value",
    )
    values = old_values(iters, axes, layout)
    analyzer = state.analyzer()
    for it in made:
        analyzer.bind(it.var, it.extent)
    conditions: list[Expr] = []
    for it in iters:
        conditions += in_range(values[it.var], it.extent)
    back = layout.image(layout.preimage(axes))
    conditions += [binary("==", analyzer.simplify(e), axis) for e, axis in zip(back, axes)]
    missing = [] if layout.exact else [c for c in conditions if not analyzer.prove(c)]
    terms = {it.var for it in made if it.kind is IterKind.REDUCE}
    require(
        all(terms.isdisjoint(variables(c)) for c in missing),
        node.name,
        f"the new loops {list(layout.shape)} have places without a term of the reduction "
        f"{node.name!r}",
    )
    missing += [substitute(said, values) for said in own_predicate(state, node)]
    return said_in(replace(node, iters=tuple(made)), values), missing
