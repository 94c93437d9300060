"""What the iterations of a loop share, in programs with or without blocks.

`conflict` of tensorir/analysis/dependence.py is asked about blocks. Here a statement outside of all
blocks, as after lowering, is looked at as a block of its own without variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from tensorir.analysis.block_accesses import Access, accesses, innermost
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Not, Var, all_of
from tensorir.func import PrimFunc
from tensorir.parts import part_axes
from tensorir.scalars import SizeRanges
from tensorir.stmt import Block, Extern, For, If, Let, Seq, Stmt, Store, replace
from tensorir.visit import child_stmts, loads, walk

ANALYZERS = 256
"""Nests of which what is concluded is kept: steps of a schedule, and those of others of its kind,
ask about the same ones again."""

Unit = tuple[Block, tuple[For, ...]]
"""A block, or a statement outside of all blocks as if it were one, and the loops around it."""


def units(stmt: Stmt) -> Iterator[Block]:
    """The innermost blocks, and each statement outside of all blocks as if it were one."""
    return (unit for unit, _ in placed_units(stmt))


def placed_units(
    stmt: Stmt, loops: tuple[For, ...] = (), condition: Expr = TRUE
) -> Iterator[Unit]:
    """`units`, each with the loops around it."""
    if isinstance(stmt, Block):
        for block, inner in innermost(stmt):
            if condition.has_loads:  # which is asked for each time
                block = replace(block, predicate=all_of(condition, block.predicate))
            yield block, (*loops, *inner)
    elif isinstance(stmt, (Store, Extern, Let)):
        yield Block("", (), stmt, predicate=condition), loops
    elif isinstance(stmt, If) and stmt.cond.dtype == "bool":
        yield from placed_units(stmt.then, loops, all_of(condition, stmt.cond))
        if stmt.orelse is not None:
            yield from placed_units(stmt.orelse, loops, all_of(condition, Not(stmt.cond)))
    else:
        inside = (*loops, stmt) if isinstance(stmt, For) else loops
        for child in child_stmts(stmt):
            yield from placed_units(child, inside, condition)


def shared_accesses(loop: For, below: Iterable[Block]) -> dict[Buffer, list[Access]]:
    """The buffers that `loop`, with the units `below`, writes, each with all of its accesses.

    Those count that ask memory how often a loop in it runs.
    """
    found: dict[Buffer, list[Access]] = {}
    for unit in below:
        for access in accesses(unit):
            found.setdefault(access.buffer, []).append(access)
    for inner in walk(loop.body):
        if isinstance(inner, For):
            asking = Block(inner.name, (), Seq(()))
            for load in loads(inner.extent):
                access = Access(asking, load.buffer, load.indices, is_write=False)
                found.setdefault(load.buffer, []).append(access)
    return {b: uses for b, uses in found.items() if any([use.is_write for use in uses])}


def ranges(stmt: Stmt) -> dict[Var, Expr]:
    """The variables of the loops in `stmt`, itself included, and of parts, with their extents."""
    found: dict[Var, Expr] = {}
    for s in walk(stmt):
        if isinstance(s, For):
            found[s.var] = s.extent
        elif isinstance(s, Extern):
            for part in s.parts:
                found.update(part_axes(part))
    return found


def outside_analyzer(
    func: PrimFunc, outside: Iterable[For], varying: Mapping[Var, Expr]
) -> Analyzer:
    """What is known of the sizes of `func`, the loops `outside` and the variables `varying`."""
    return analyzer_of(func.size_ranges, {**{f.var: f.extent for f in outside}, **varying})


def analyzer_of(sizes: SizeRanges, extents: Mapping[Var, Expr]) -> Analyzer:
    """Knows the ranges of sizes, and those of variables, outermost first.

    Every answer is a copy, of which all share what they conclude until they learn more.
    """
    return _analyzer(sizes, tuple(extents), tuple(extents.values())).copy()


@lru_cache(maxsize=ANALYZERS)
def _analyzer(
    sizes: SizeRanges, variables: tuple[Var, ...], extents: tuple[Expr, ...]
) -> Analyzer:
    """Not to be changed."""
    analyzer = Analyzer()
    analyzer.bind_sizes(sizes)
    analyzer.bind_all(dict(zip(variables, extents)))
    return analyzer
