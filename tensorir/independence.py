"""What the iterations of a loop share, in programs with or without blocks.

`conflict` of tensorir/dependence.py is asked about blocks. Here a statement outside of all blocks,
as after lowering, is looked at as a block of its own without variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensorir.arith import Analyzer
from tensorir.block_accesses import Access, accesses, blocks_below
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Not, Var, all_of
from tensorir.func import PrimFunc
from tensorir.parts import part_axes
from tensorir.stmt import Block, Extern, For, If, Let, Seq, Stmt, Store
from tensorir.visit import child_stmts, loads, walk


def units(stmt: Stmt, condition: Expr = TRUE) -> Iterator[Block]:
    """The innermost blocks, and each statement outside of all blocks as if it were one."""
    if isinstance(stmt, Block):
        yield from blocks_below(stmt)
    elif isinstance(stmt, (Store, Extern, Let)):
        yield Block("", (), stmt, predicate=condition)
    elif isinstance(stmt, If) and stmt.cond.dtype == "bool":
        yield from units(stmt.then, all_of(condition, stmt.cond))
        if stmt.orelse is not None:
            yield from units(stmt.orelse, all_of(condition, Not(stmt.cond)))
    else:
        for child in child_stmts(stmt):
            yield from units(child, condition)


def shared_accesses(loop: For, below: Iterable[Block]) -> dict[Buffer, list[Access]]:
    """The buffers that `loop`, with the units `below`, writes, each with all of its accesses.

    Those count that ask memory where a unit runs, and how often a loop in it does.
    """
    found: dict[Buffer, list[Access]] = {}
    for unit in below:
        for access in (*accesses(unit), *_asked(unit)):
            found.setdefault(access.buffer, []).append(access)
    for inner in walk(loop.body):
        if isinstance(inner, For):
            asking = Block(inner.name, (), Seq(()))
            for load in loads(inner.extent):
                access = Access(asking, load.buffer, load.indices, is_write=False)
                found.setdefault(load.buffer, []).append(access)
    return {b: uses for b, uses in found.items() if any([use.is_write for use in uses])}


def _asked(unit: Block) -> Iterator[Access]:
    """What is read to find out where a unit runs."""
    for e in (unit.predicate, *(it.binding for it in unit.iters)):
        for load in loads(e):
            yield Access(unit, load.buffer, load.indices, is_write=False)


def ranges(loop: For) -> dict[Var, Expr]:
    """The variables of a loop and of what is in it, with their extents, those of parts included."""
    found: dict[Var, Expr] = {}
    for stmt in walk(loop):
        if isinstance(stmt, For):
            found[stmt.var] = stmt.extent
        elif isinstance(stmt, Extern):
            for part in stmt.parts:
                found.update(part_axes(part))
    return found


def outside_analyzer(
    func: PrimFunc, outside: Iterable[For], varying: Mapping[Var, Expr]
) -> Analyzer:
    """What is known of the sizes of `func`, the loops `outside` and the variables `varying`."""
    analyzer = Analyzer()
    for size in func.size_vars:
        analyzer.bind_range(size, 0, None)
    for var, extent in {**{f.var: f.extent for f in outside}, **varying}.items():
        analyzer.bind(var, extent)
    return analyzer
