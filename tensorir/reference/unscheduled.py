"""The loop nests that te.create_prim_func makes: a block in its own loops, or a scan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Const, Expr, Var, const, int_value
from tensorir.stmt import Block, Extern, For, IterKind, Seq, Stmt, Store
from tensorir.visit import loads, stmt_exprs, variables, walk


@dataclass(frozen=True)
class Steps:
    """A scan: the loop over time, and its blocks in order, each with its variable for the time."""

    loop: For
    blocks: tuple[tuple[Block, Var], ...]


def unscheduled_block(nest: Stmt, partly: Collection[Buffer] = ()) -> Block | None:
    """The block of a loop nest as te.create_prim_func makes it, its variables in the order of the
    loops; None for another. Of the buffers in `partly` it may write a part."""
    loops, inner = chain(nest)
    if not isinstance(inner, Block) or not is_trivial(inner, loops, partly):
        return None
    return inner


def in_order_of_loops(nest: Stmt, names: Collection[Var]) -> list[Var]:
    """The variables of the block of a nest that are among `names`, outermost loop first."""
    loops, block = chain(nest)
    assert isinstance(block, Block)
    place = {loop.var: n for n, loop in enumerate(loops)}
    iters = [it for it in block.iters if it.var in names]
    iters.sort(key=lambda it: place.get(it.binding, -1))  # type: ignore[call-overload]
    return [it.var for it in iters]


def scan_steps(nest: Stmt) -> Steps | None:
    """The steps of a loop nest as te.create_prim_func makes it of a te.scan, else None."""
    if not isinstance(nest, For):
        return None
    found = []
    for part in nest.body.stmts if isinstance(nest.body, Seq) else (nest.body,):
        loops, block = chain(part)
        if not isinstance(block, Block):
            return None
        times = [it for it in block.iters if it.kind is IterKind.OPAQUE]
        if len(times) != 1 or times[0].binding is not nest.var:
            return None
        if times[0].extent is not nest.extent or not is_trivial(block, [nest, *loops]):
            return None
        found.append((block, times[0].var))
    return Steps(nest, tuple(found))


def in_sequence(block: Block) -> bool:
    """Whether instances of a block read elsewhere what others write, other than at another time."""
    moving = {it.var for it in block.spatial}
    parts = [part for part in (block.init, block.body) if part is not None]
    stmts = [stmt for part in parts for stmt in walk(part)]
    stores = {s.buffer: s.indices for s in stmts if isinstance(s, Store)}
    for load in (load for s in stmts for e in stmt_exprs(s) for load in loads(e)):
        for mine, other in zip(load.indices, stores.get(load.buffer, ())):
            if mine is not other and (variables(mine) | variables(other)) & moving:
                return True
    return False


def first_rows(block: Block) -> Expr | None:
    """The size that limits the first dimension of a block which makes the first rows of a scan."""
    cond = block.predicate
    first = block.iters[0].binding if block.iters else None
    limited = isinstance(cond, BinOp) and cond.op == "<" and cond.a is first
    return cond.b if limited and isinstance(cond, BinOp) else None


def reads_others(block: Block) -> bool:
    """Whether an instance reads of what the block writes anything but what it writes itself, as far
    as is seen."""
    parts = [part for part in (block.init, block.body) if part is not None]
    stmts = [stmt for part in parts for stmt in walk(part)]
    places: dict[Buffer, tuple[Expr, ...]] = {}
    moving = {it.var for it in block.iters}
    for s in stmts:
        if isinstance(s, Store) and places.setdefault(s.buffer, s.indices) != s.indices:
            return True
    for load in (load for s in stmts for e in stmt_exprs(s) for load in loads(e)):
        for mine, other in zip(load.indices, places.get(load.buffer, ())):
            if mine is not other and (variables(mine) | variables(other)) & moving:
                return True
    return False


def chain(nest: Stmt) -> tuple[list[For], Stmt]:
    """The loops of a nest, outermost first, and what is in them."""
    loops: list[For] = []
    while isinstance(nest, For):
        loops.append(nest)
        nest = nest.body
    return loops, nest


def is_trivial(block: Block, loops: Sequence[For], partly: Collection[Buffer] = ()) -> bool:
    """Whether the loops have an iteration for each point of the block, and each instance stores one
    element of its own; all of a buffer, but for those in `partly`."""
    extents = {loop.var: loop.extent for loop in loops}
    bound = [it for it in block.iters if not isinstance(it.binding, Const)]
    names = [it.binding for it in bound]
    limit = first_rows(block)
    if len(set(names)) < len(names) or (limit is None and block.predicate is not TRUE):
        return False
    if any(extents.get(it.binding) is not it.extent for it in bound):  # type: ignore[call-overload]
        return False
    free = [it for it in block.iters if isinstance(it.binding, Const)]
    if any(it.binding is not const(0) or int_value(it.extent) != 1 for it in free):
        return False
    used = set(names)
    if any(loop.var not in used and loop.const_extent != 1 for loop in loops):
        return False
    for part in (block.init, block.body):
        for stmt in walk(part) if part is not None else ():
            if isinstance(stmt, (Block, For)):
                return False
            if isinstance(stmt, Store) and not _whole(stmt, block, limit):
                if stmt.buffer not in partly or not _one_each(stmt, block):
                    return False
            if isinstance(stmt, Extern) and not _each_row(stmt, block):
                return False
    return True


def _each_row(call: Extern, block: Block) -> bool:
    """Whether an extern function is all of a block, and fills its outputs row by row."""
    rows = [it.var for it in block.iters]
    if block.body is not call or any(it.kind is not IterKind.SPATIAL for it in block.iters):
        return False
    return all(
        part.lead == len(rows)
        and all(a is b for a, b in zip(part.indices, rows))
        and all(it.extent is size for it, size in zip(block.iters, part.buffer.shape))
        for part in call.outputs
    )


def _whole(store: Store, block: Block, limit: Expr | None) -> bool:
    """Whether a block writes all of a buffer, at its variables in order; only the first rows where
    a scan computes the others, and row by row in the steps of a scan."""
    iters = [it for it in block.iters if it.kind is not IterKind.REDUCE]
    shape = store.buffer.shape
    if len(iters) != len(store.indices):
        return False
    for d, (it, index, size) in enumerate(zip(iters, store.indices, shape)):
        if it.kind is IterKind.OPAQUE and d == 0:
            if index is not it.var and not _later(index, it.var):
                return False
        elif index is not it.var:
            return False
        elif size is not it.extent:
            rows = limit is size or (int_value(size) or 0) > (int_value(it.extent) or 0) > 0
            if d > 0 or not rows:
                return False
    return True


def _one_each(store: Store, block: Block) -> bool:
    """Whether a block writes one element for each point, at its variables in order plus constants,
    or at constants."""
    left = [it.var for it in block.spatial]
    for index in store.indices:
        if left and (index is left[0] or _later(index, left[0])):
            del left[0]
        elif variables(index) & {it.var for it in block.iters}:
            return False
    return not left


def _later(index: Expr, time: Var) -> bool:
    return (
        isinstance(index, BinOp)
        and index.op == "+"
        and index.a is time
        and isinstance(index.b, Const)
    )
