"""scatter: add each term of a reduction where it belongs.

A histogram written as a reduction asks each bin for each element: bins times elements. What the
terms are compared with is where they belong, so one pass over the elements does, in the same order
of the terms of each bin. The block keeps its variables; that of the bin is bound to a place that is
read from memory, and the block runs where that is in range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule.analysis.uses import reduction_loops
from schedule.errors import require
from schedule.primitive import primitive
from schedule.primitives.decompose_reduction import decompose_reduction
from schedule.rewrite.placement import names_in
from schedule.rewrite.rebind import plain_loop
from schedule.state import BlockRef, State
from tensorir import (
    TRUE,
    Block,
    Expr,
    For,
    Let,
    Seq,
    Stmt,
    Store,
    Var,
    all_of,
    binary,
    conjuncts,
    const,
    int_value,
    map_children,
    replace,
    substitute,
    variables,
)

if TYPE_CHECKING:
    from schedule.analysis.places import Place, Updates


@primitive
def scatter(state: State, block: str) -> tuple[State, BlockRef]:
    """Add each term of a reduction to the one element that it is for, which data tell.

    Where a term changes nothing unless an equality holds of a variable of the block, the loop over
    that variable goes, and the block runs at the value that the equality gives, where that is in
    range. The init becomes a block of its own, which is returned. Each element has its terms in the
    order that it had before. `rfactor` first gives threads, or neighbours, sums of their own.

    rewrite:  scatter("h")
        for b, k in grid(16, n):                for b_init in range(16):
            with block("h"):                        with block("h_init"):
                vb, vk = b, k                           h[vb] = 0
                with init():                    for k in range(n):
                    h[vb] = 0            ->         with block("h"):
                h[vb] = h[vb] + select(                 vb, vk = x[k], k
                    x[vk] == vb, w[vk], 0)              where(0 <= x[k] and x[k] < 16)
                                                        h[vb] = h[vb] + w[vk]

    requires:
        - the block is a reduction with its init
        - each of its terms leaves what is there, in all bits, unless an equality holds that gives a
          spatial variable, an index of its own in what the block stores, by what is read from
          memory: as `select(x[k] == b, w[k], 0)`; a product of floats with a condition is NaN of an
          infinite factor
        - each such variable has a serial loop without annotations of its own, over all of it, on
          which no other loop depends
        - the block is alone inside of these loops and those of the reduction, and no loop inside
          repeats its instances
    """
    node = state.block(block)
    require(node.init is not None, block, f"block {block!r} is no reduction with its init")
    from schedule.analysis.places import Updates, places

    updates = Updates(node)
    found = places(node, updates)
    require(
        bool(found),
        block,
        f"no term of block {block!r} is for one element that data tell: it changes others too, if "
        "only the bits of a zero or a NaN, or no variable is compared with data",
        "write it as select(x[k] == b, term, value that changes nothing)",
    )
    around = state.loops_around(block)
    gone = _loops_of(node, found, around)
    reducing = reduction_loops(node, around)
    inside = [loop for loop in around if loop in gone or loop in reducing]
    require(bool(inside), block, f"block {block!r} has no loops of a reduction")
    others = names_in(inside[0]) - {block}
    require(not others, block, f"block {min(others, default='')!r} is inside of its loops too")
    apart, init = decompose_reduction(state, block, inside[0].name)
    path = apart.loop_path(inside[0].name)
    return apart.replace(path, _without(path[-1], gone, _bound(apart, node, updates, found))), init


def _loops_of(node: Block, found: Sequence[Place], around: list[For]) -> list[For]:
    """The loops over variables that get their values from memory."""
    block, gone = node.name, []
    for place in found:
        it = place.it
        if int_value(it.binding) == 0 and int_value(it.extent) == 1:
            continue
        own = [loop for loop in around if loop.var is it.binding and loop.extent is it.extent]
        require(
            bool(own),
            block,
            f"{it.var.name!r} of block {block!r} has no loop over all of it",
            "scatter before splitting or fusing that loop",
        )
        gone += own
    for loop in gone:
        plain_loop(loop, "scatter first")
    bindings = [it.binding for it in node.iters if it not in [place.it for place in found]]
    used = {var for binding in bindings for var in variables(binding)}
    used |= {var for loop in around for var in variables(loop.extent)}
    for loop in gone:
        require(loop.var not in used, loop.name, f"more than one variable needs {loop.name!r}")
    return gone


def _bound(state: State, node: Block, updates: Updates, found: Sequence[Place]) -> Block:
    """The update at the places that memory gives, where all that they are asked for holds."""
    values = {it.var: it.binding for it in node.iters}
    known: dict[Expr, Expr] = {place.gate: TRUE for place in found}
    chosen = {place.it.var for place in found}
    plain = [
        cond for cond in updates.conditions()
        if not cond.has_loads and chosen.isdisjoint(cond.variables) and updates.is_gate(cond)
    ]  # fmt: skip
    known.update({cond: TRUE for cond in plain})
    analyzer = state.analyzer(state.loops_around(node.name))
    conditions = [substitute(cond, values) for cond in plain]
    bindings, iterations = dict[Var, Expr](), dict[Var, Expr]()
    for place in found:
        at = bindings[place.it.var] = substitute(place.value, values)
        if isinstance(place.it.binding, Var):
            iterations[place.it.binding] = at
        ends = binary("<=", const(0), at), binary("<", at, place.it.extent)
        conditions += [end for end in ends if not analyzer.prove(end)]
        conditions += [substitute(check, values) for check in place.checks]
    iters = [replace(it, binding=bindings.get(it.var, it.binding)) for it in node.iters]
    own = conjuncts(node.predicate)
    inside = [e for e in own if iterations.keys().isdisjoint(variables(e))]  # where terms are
    asked = [analyzer.simplify(substitute(e, iterations)) for e in own if e not in {*inside}]
    where = all_of(*dict.fromkeys([*inside, *conditions, *asked]))
    body = _given(node.body, updates, known)
    return replace(node, iters=tuple(iters), predicate=where, init=None, body=body)


def _given(stmt: Stmt, updates: Updates, known: dict[Expr, Expr]) -> Stmt:
    if isinstance(stmt, Seq):
        return Seq(tuple([_given(part, updates, known) for part in stmt.stmts]))
    if isinstance(stmt, Let):
        return replace(stmt, body=_given(stmt.body, updates, known))
    assert isinstance(stmt, Store)
    return replace(stmt, value=updates.given(stmt.value, known))


def _without(stmt: Stmt, gone: Sequence[For], new: Block) -> Stmt:
    """A nest without some of its loops, and with another block inside."""
    if isinstance(stmt, Block):
        return new
    inner = map_children(stmt, lambda child: _without(child, gone, new))
    is_gone = isinstance(stmt, For) and any([stmt.var is loop.var for loop in gone])
    return inner.body if is_gone and isinstance(inner, For) else inner
