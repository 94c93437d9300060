"""overwrite_states: a recurrence keeps its latest row where the one before it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import NamedTuple

from tensorir.analysis.block_accesses import Access, accesses, innermost
from tensorir.analysis.dependence import same_slice
from tensorir.analysis.independence import analyzer_of, ranges
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.stmt import For, ForKind, Stmt, Store, replace
from tensorir.visit import map_children, map_loads, map_own_exprs, variables, walk

IN_TURN = (ForKind.SERIAL, ForKind.UNROLLED)
"""Loops of which an iteration begins when the one before has ended."""


class _Use:
    """An access of a state, by the block at a place of the program, and the loops around it."""

    def __init__(self, place: int, access: Access, loops: tuple[For, ...]) -> None:
        self.place, self.access, self.loops = place, access, loops


def overwrite_states(func: PrimFunc) -> PrimFunc:
    """Keep one row of a buffer of which each iteration of a loop reads the row before its own.

    rewrite:
        S = alloc(f32[9, 4])                  S = alloc(f32[1, 4])
        for i in range(4):                    for i in range(4):
            S[0, i] = 0.0                         S[0, i] = 0.0
        for t in range(8):                    for t in range(8):
            for i in range(4):         ->         for i in range(4):
                S[t + 1, i] = f(S[t, i])              S[0, i] = f(S[0, i])
        for i in range(4):                    for i in range(4):
            out[i] = S[8, i]                      out[i] = S[0, i]

    So is a te.scan of which only the last row is used, or each by what shares its loop. Iteration t
    writes row t + 1 alone, reads rows t and t + 1, and of an element reads row t before it writes
    row t + 1; what runs before the loop touches row 0 alone, what runs after it reads the last row.
    The loop may be split. It is the first pass of lowering: while blocks are known.
    """
    if not func.buffers or not any(isinstance(s, For) for s in walk(func.body)):
        return func
    analyzer, uses = analyzer_of(func.size_ranges, ranges(func.body)), _uses(func)
    folded = {
        b: dim for b in func.buffers if (dim := _state(uses.get(b, []), analyzer)) is not None
    }
    return _folded(func, folded) if folded else func


def _uses(func: PrimFunc) -> dict[Buffer, list[_Use]]:
    """The accesses of each buffer in program order, but those of buffers that externs are lent."""
    found: dict[Buffer, list[_Use]] = {}
    for place, (block, loops) in enumerate(innermost(func.body)):
        for access in accesses(block):
            found.setdefault(access.buffer, []).append(_Use(place, access, loops))
    lent = {b for s in walk(func.body) if not isinstance(s, Store) for b, _, _ in touched(s)}
    return {buffer: uses for buffer, uses in found.items() if buffer not in lent}


def _state(uses: Sequence[_Use], analyzer: Analyzer) -> int | None:
    """The dimension along which a buffer is a state of which one row is enough."""
    for use in uses:
        loops = {f.var: f for f in use.loops if f.kind in IN_TURN and not f.annotations}
        if not use.access.is_write or not loops:
            continue
        for dim, index in enumerate(use.access.in_loops()):
            if variables(index).isdisjoint(loops):
                continue
            time = _Time.of(use, index, loops, analyzer)
            if time is not None and _is_state(uses, dim, time, analyzer):
                return dim
    return None


class _Time(NamedTuple):
    """The loops that count the iterations of a recurrence together, outermost first, which of them
    it is, and how many there are."""

    loops: tuple[For, ...]
    now: Expr
    end: Expr

    @staticmethod
    def of(
        use: _Use, index: Expr, serial: Mapping[Var, For], analyzer: Analyzer
    ) -> _Time | None:
        """Of a write to the row after that of the iteration before; None where it is none."""
        row, block = analyzer.linear(index), use.access.block
        loops = tuple([f for f in serial.values() if f.var in row.terms])
        step: int | None = 1
        for loop in reversed(loops):
            if row.terms[loop.var] != step:
                return None
            step = step and (size := loop.const_extent) and step * size
        if row.const != 1 or not loops or len(loops) != len(row.terms):
            return None
        now, end = analyzer.simplify(index - 1), loops[0].extent
        if len(loops) > 1:  # whose last iterations may be left out
            counts = [it.extent for it in block.iters if _is(it.binding, now, analyzer)]
            return _Time(loops, now, counts[0]) if counts else None
        return _Time(loops, now, end)


def _is(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    return int_value(analyzer.simplify(a - b)) == 0


def _is_state(uses: Sequence[_Use], dim: int, time: _Time, analyzer: Analyzer) -> bool:
    """Whether all uses are those of a state whose row each iteration computes of the one before."""
    steps = [use for use in uses if any(loop in use.loops for loop in time.loops)]
    if not all(loop in use.loops for use in steps for loop in time.loops):
        return False
    writes = [use for use in steps if use.access.is_write]
    first, last = writes[0].place, writes[-1].place
    for use in uses:
        row, inside = use.access.in_loops()[dim], use in steps
        if inside and _is(row, time.now, analyzer):
            fits = not use.access.is_write and use.place <= first
        elif inside:
            fits = _is(row, time.now + 1, analyzer) and use.place >= first
        elif use.place < first:
            fits = _is(row, const(0), analyzer)
        else:
            fits = _is(row, time.end, analyzer) and not use.access.is_write
        if not fits or not all(_in_turn(use, write, dim, time, analyzer) for write in writes):
            return False
    return not any(first < use.place < last and not use.access.is_write for use in steps)


def _in_turn(use: _Use, write: _Use, dim: int, time: _Time, analyzer: Analyzer) -> bool:
    """Whether, where the two touch one element of a row, they do in the same iteration of all loops
    around both: so the first one of the program comes first there. One store reads first."""
    if use is write:
        return True
    block = use.access.block
    if use.place == write.place and not isinstance(block.body, Store):
        return False
    a, b = (_in_row(each.access, dim) for each in (use, write))
    inner = {f.var: f.extent for f in (*use.loops, *write.loops) if f not in time.loops}
    both = [f for f in use.loops if f in write.loops and f not in time.loops]
    return all(same_slice(a, b, f, inner, analyzer) for f in both)


def _in_row(access: Access, dim: int) -> Access:
    indices = tuple([const(0) if n == dim else i for n, i in enumerate(access.indices)])
    return replace_fields(access, indices=indices)


def _folded(func: PrimFunc, dims: dict[Buffer, int]) -> PrimFunc:
    """`func` with one row of each of these buffers."""

    def one(at: int, parts: Sequence[Expr], e: Expr) -> tuple[Expr, ...]:
        return tuple([e if n == at else part for n, part in enumerate(parts)])

    new = {b: b.with_shape(one(at, b.shape, const(1))) for b, at in dims.items()}
    memo: dict[Expr, Expr] = {}

    def load(e: Load) -> Expr | None:
        return (
            Load(new[e.buffer], one(dims[e.buffer], e.indices, const(0)))
            if e.buffer in new
            else None
        )

    def visit(stmt: Stmt) -> Stmt:
        stmt = map_own_exprs(map_children(stmt, visit), lambda e: map_loads(e, load, memo))
        if isinstance(stmt, Store) and stmt.buffer in new:
            buffer = stmt.buffer
            return replace(
                stmt, buffer=new[buffer], indices=one(dims[buffer], stmt.indices, const(0))
            )
        return stmt

    buffers = tuple([new.get(b, b) for b in func.buffers])
    return replace_fields(func, body=visit(func.body), buffers=buffers)
