"""Taking the init out of a reduction: shared by decompose_reduction and by lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Union

from tensorir.arith import Analyzer
from tensorir.errors import TensorIRError
from tensorir.expr import BinOp, Const, Expr, Var, all_of, binary, conjuncts, const
from tensorir.rewrite.rectangular import largest_value
from tensorir.stmt import Block, For, IterKind, Stmt, replace
from tensorir.visit import child_stmts, map_children, substitute, variables


def split_init(
    anchor: Union[For, Block], block: Block, fresh: Callable[[str], str]
) -> tuple[Stmt, Stmt]:
    """Split reduction `block` into its init and its update; `anchor` becomes two statements.

    Returns (init, update): the init nest is to run directly before the update, which is `anchor`
    with a `block` that has no init. The nest repeats, from `anchor` down to the block, the loops
    that the spatial bindings speak of. `fresh` turns a wanted name (`<name>_init`) into a free one.
    `anchor` may be the block itself, for a reduction over nothing but constants.

    rewrite:
        for k in range(8):                         for i_init in range(4):
            for i in range(4):                         with block("C_init"):
                with block("C"):                           C[vi] = 0.0
                    with init():           ->      for k in range(8):
                        C[vi] = 0.0                    for i in range(4):
                    C[vi] = C[vi] + A[vi, vk]              with block("C"):
                                                               C[vi] = C[vi] + A[vi, vk]

    requires: `block` has an init, and lies in `anchor`; loops of its reduction lie in it too.
    """
    if block.init is None:
        raise TensorIRError(f"block {block.name!r} has no init to take out of its reduction")
    path = loops_to(anchor, block)
    if path is None:
        where = "its anchor" if isinstance(anchor, Block) else f"loop {anchor.name!r}"
        raise TensorIRError(f"block {block.name!r} is not inside {where}")
    update = _replace_block(anchor, block, replace(block, init=None))
    return _init_nest(path, block, fresh), update


def reduction_loop(loops: Sequence[For], block: Block) -> For | None:
    """The outermost of `loops`, given outermost first, that feeds a reduce binding of `block`."""
    used: set[Var] = set()
    for it in block.iters:
        if it.kind is IterKind.REDUCE:
            used |= variables(it.binding)
    return next((loop for loop in loops if loop.var in used), None)


def loops_to(stmt: Stmt, block: Block) -> list[For] | None:
    """The loops from `stmt` (included) down to `block`, outermost first; None if not in there."""
    if stmt is block:
        return []
    for child in child_stmts(stmt):
        below = loops_to(child, block)
        if below is not None:
            return [stmt, *below] if isinstance(stmt, For) else below
    return None


def _init_nest(path: list[For], block: Block, fresh: Callable[[str], str]) -> Stmt:
    spatial = tuple(it for it in block.iters if it.kind is not IterKind.REDUCE)
    used: set[Var] = set()
    for it in spatial:
        used |= variables(it.binding)
    kept = [loop for loop in path if loop.var in used]
    dropped = {loop.var for loop in path if loop.var not in used}
    renamed = {loop.var: Var(fresh(f"{loop.name}_init"), loop.var.dtype) for loop in kept}
    nest: Stmt = Block(
        fresh(f"{block.name}_init"),
        tuple([replace(it, binding=substitute(it.binding, renamed)) for it in spatial]),
        block.init,  # type: ignore[arg-type]  # split_init has checked it
        predicate=substitute(_init_predicate(block, path, dropped), renamed),
    )
    for loop in reversed(kept):
        extent = _free_of(dropped, loop, path)
        nest = replace(loop, var=renamed[loop.var], extent=substitute(extent, renamed), body=nest)
    return nest


def _free_of(dropped: set[Var], loop: For, path: list[For]) -> Expr:
    """The extent of `loop`, the largest where it depends on loops that are not there any more."""
    if not variables(loop.extent) & dropped:
        return loop.extent
    ranges: dict[Var, Expr] = {}
    analyzer = Analyzer()
    for outer in path[: path.index(loop)]:
        most = largest_value(outer.extent, ranges, analyzer)
        ranges[outer.var] = outer.extent if most is None else most
        analyzer.bind(outer.var, ranges[outer.var])
    largest = largest_value(loop.extent, ranges, analyzer)
    if largest is None:
        raise TensorIRError(
            f"the extent {loop.extent!r} of loop {loop.name!r} has no known largest value, up to "
            "which the init of the reduction around it would run"
        )
    return largest


def _init_predicate(block: Block, path: list[For], dropped: set[Var]) -> Expr:
    """Where the init runs: where the conjuncts hold that can still be asked.

    Of a conjunct that ties a dropped loop, one of no variable, to others there is left that it
    holds for some iteration. One that ties a loop of the reduction to kept ones cannot be asked any
    more; the spatial variables it kept in range are then guarded one by one. So they are where the
    reduction may have no term at all: its init runs nevertheless, and the predicate may have been
    simplified by what holds where there is a term.
    """
    conditions: list[Expr] = []
    unguarded: set[Var] = set()
    maybe_none = any([not isinstance(f.extent, Const) for f in path if f.var in dropped])
    extents = {loop.var: loop.extent for loop in path}
    reduced = frozenset[Var]().union(
        *[variables(it.binding) for it in block.reduced]
    )
    for loop in path:
        if variables(loop.extent) & dropped:
            unguarded.add(loop.var)
    for condition in conjuncts(block.predicate):
        used = variables(condition)
        if not used & dropped:
            conditions.append(condition)
            continue
        somewhere = None if used & reduced else _somewhere(condition, dropped, extents)
        if somewhere is None:
            unguarded |= used - dropped
        else:
            conditions.append(somewhere)
    for it in block.iters:
        if it.kind is IterKind.REDUCE:
            continue
        if variables(it.binding) & unguarded:
            conditions.append(it.binding < it.extent)
        elif maybe_none and extents.get(it.binding) is not it.extent:  # type: ignore[call-overload]
            conditions += [binary("<=", 0, it.binding), it.binding < it.extent]
    return all_of(*dict.fromkeys(conditions))


def _somewhere(condition: Expr, dropped: set[Var], extents: Mapping[Var, Expr]) -> Expr | None:
    """What holds where `condition`, an inequality, does for some iteration of the loops `dropped`;
    None where that is not known."""
    if not isinstance(condition, BinOp) or condition.op not in ("<", "<="):
        return None
    values: dict[Var, Expr] = {}
    for atom, factor in Analyzer().linear(condition.a - condition.b).terms.items():
        if variables(atom) & dropped:
            if not isinstance(atom, Var):
                return None
            values[atom] = const(0) if factor > 0 else extents[atom] - 1
    return substitute(condition, values)


def _replace_block(stmt: Stmt, old: Block, new: Block) -> Stmt:
    if stmt is old:
        return new
    return map_children(stmt, lambda child: _replace_block(child, old, new))
