"""blockize: a nest of loops around a block becomes a block itself."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import BlockRef, LoopRef, State, extents, fresh
from tensorir import (
    TRUE,
    Analyzer,
    Block,
    Expr,
    For,
    ForKind,
    IterVar,
    Stmt,
    Var,
    binary,
    conjuncts,
    const,
    decompose,
    in_own_variables,
    map_children,
    replace,
    substitute,
    variables,
)


@primitive
def blockize(state: State, loop: LoopRef) -> tuple[State, BlockRef]:
    """Make `loop` and what is below it the body of a new block, and return that.

    Its variables are what the loops outside contribute to those of the block inside. From then on
    only the loops can be changed, outside of the new block or inside of it.

    rewrite:  blockize("i_1")
        for i_0, i_1 in grid(2, 4):            for i_0 in range(2):
            with block("B"):                       with block("B_o"):
                vi = spatial(8,                        vio = spatial(2, i_0)
                             i_0 * 4 + i_1)  ->        for i_1 in range(4):
                ...                                        with block("B"):
                                                               vi = spatial(8, vio * 4 + i_1)

    requires:
        - below `loop` is one block, whose init, if it is a reduction, was split off
        - the loops from `loop` inwards are neither parallel nor bound to threads
        - each variable of the block is a multiple of what the outer loops give plus a remainder
          that the inner loops give
        - each condition of the block is about outer loops, or about its variables
        - no loop of the function is bound to threads
    """
    node = state.loop(loop)
    chain, block = _chain(node)
    require(
        block.init is None,
        block.name,
        f"block {block.name!r} still has its init",
        "decompose_reduction first",
    )
    for each in (state.loop(name) for name in state.loop_names()):
        bound = each.kind is ForKind.THREAD or (each in chain and each.kind is ForKind.PARALLEL)
        require(not bound, each.name, f"loop {each.name!r} is {each.kind}", "blockize before that")
    outer = state.loops_outside(loop)
    division = _divide(state, block, chain, outer)
    inside, around = _conditions(block, chain, outer, division)
    inner = replace(block, iters=tuple(division.inner), predicate=inside)
    body = _replace_block(node, block, inner)
    name = state.fresh_block(f"{block.name}_o")
    made = Block(name, tuple(division.outer), body, None, around)
    return state.replace(state.loop_path(loop), made), BlockRef(name)


class _Division(NamedTuple):
    """The variables of the new block, those of the old one in terms of them, and what is known."""

    outer: list[IterVar]
    inner: list[IterVar]
    within: Analyzer
    around: Analyzer


def _chain(node: For) -> tuple[list[For], Block]:
    chain: list[For] = []
    stmt: Stmt = node
    while isinstance(stmt, For):
        chain.append(stmt)
        stmt = stmt.body
    single = isinstance(stmt, Block)
    require(single, node.name, f"below loop {node.name!r} is more than one block")
    assert isinstance(stmt, Block)
    below: list[Block] = []
    map_children(stmt, lambda child: _note(child, below))
    require(not below, node.name, f"block {stmt.name!r} contains a block already")
    return chain, stmt


def _note(stmt: Stmt, found: list[Block]) -> Stmt:
    if isinstance(stmt, Block):
        found.append(stmt)
    return map_children(stmt, lambda child: _note(child, found))


def _divide(state: State, block: Block, chain: list[For], outer: list[For]) -> _Division:
    """Split each binding into outer_part * size + inner_part, inner_part in [0, size)."""
    around, within = state.analyzer([*outer, *chain]), state.analyzer(chain)
    taken = state.taken_names()
    division = _Division([], [], within, around)
    for it in block.iters:
        base, size = _base(it, chain, outer, around)
        if base is None:
            division.inner.append(it)
            continue
        var = Var(fresh(taken, (f"{it.var.name}o",)))
        taken.add(var.name)
        extent = around.simplify((it.extent + (size - 1)) // size)
        division.outer.append(IterVar(var, extent, it.kind, around.simplify(base // size)))
        within.bind(var, extent)
        value = within.simplify(it.binding - base) if size > 1 else const(0)
        division.inner.append(replace(it, binding=within.simplify(var * size + value)))
    return division


def _base(
    it: IterVar, chain: list[For], outer: list[For], analyzer: Analyzer
) -> tuple[Expr | None, int]:
    """What the outer loops give to a variable, None for nothing, and of what it is a multiple."""
    used, inner = variables(it.binding), {f.var for f in chain}
    if not used & {f.var for f in outer}:
        return None, 1
    if not used & inner:
        return it.binding, 1
    base = analyzer.simplify(substitute(it.binding, {var: const(0) for var in inner}))
    rest = analyzer.simplify(it.binding - base)
    digits = decompose(base, extents(outer), analyzer)
    low, high = analyzer.bounds(rest)
    size = gcd(*(d.scale for d in digits[0]), digits[1]) if digits is not None else 0
    divided = (
        digits is not None
        and not variables(rest) - inner
        and not variables(base) - {f.var for f in outer}
        and low is not None
        and low >= 0
        and high is not None
        and high < size
    )
    where = it.var.name
    reason = f"{where!r} is {it.binding!r}, no multiple of an outer part plus a smaller inner part"
    require(divided, chain[0].name, reason)
    return base, size


def _conditions(
    block: Block, chain: list[For], outer: list[For], division: _Division
) -> tuple[Expr, Expr]:
    """The predicates of the inner and of the outer block."""
    inner = {f.var for f in chain}
    every = inner | {f.var for f in outer}
    inside = [binary("<", it.binding, it.extent) for it in division.inner]
    around = [binary("<", it.binding, it.extent) for it in division.outer]
    for part in conjuncts(block.predicate):
        if not variables(part) & inner:
            around.append(part)
            continue
        said = _in_variables(part, block, division, inner, every)
        require(
            said is not None,
            chain[0].name,
            f"block {block.name!r} runs where {part!r}, which is not about its variables",
        )
        assert said is not None
        inside.append(said)
    return _all(inside, division.within), _all(around, division.around)


def _in_variables(
    part: Expr, block: Block, division: _Division, inner: set[Var], loops: set[Var]
) -> Expr | None:
    """A condition on `loops` in terms of the new block's variables; None where these cannot say it,
    as of an outer loop that none of them is bound to."""
    if not variables(part) - inner:
        return part
    own = in_own_variables(part, block, loops, division.around)
    if own is None:
        return None
    values = {old.var: new.binding for old, new in zip(block.iters, division.inner)}
    return division.within.simplify(substitute(own, values))


def _all(conditions: list[Expr], analyzer: Analyzer) -> Expr:
    """The conjunction, without what follows from ranges and from the conditions before."""
    result: Expr = TRUE
    for condition in conditions:
        if not analyzer.prove(condition):
            result = binary("and", result, condition)
            analyzer = analyzer.assuming(condition)
    return result


def _replace_block(stmt: Stmt, old: Block, new: Block) -> Stmt:
    if stmt is old:
        return new
    return map_children(stmt, lambda child: _replace_block(child, old, new))
