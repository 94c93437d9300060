"""Loops that a condition takes as one are one again, to see what is written in them.

Where the loops of a copy were made one and split for threads, a condition leaves out what the last
part has too much: i * 8 + j < 180. What is written follows from ranges alone if one loop runs over
the 180. Nothing else stands in these loops, so that their order does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import NamedTuple

from tensorir.analysis.block_accesses import accesses
from tensorir.analysis.independence import analyzer_of
from tensorir.arith import Analyzer
from tensorir.arith.linear import plain_form
from tensorir.buffer import Buffer
from tensorir.dtype import INDEX
from tensorir.expr import TRUE, BinOp, Expr, Var, all_of, conjuncts, const, int_value
from tensorir.scalars import SizeRanges
from tensorir.stmt import Block, For, ForKind, IterKind, Stmt, replace
from tensorir.visit import map_children, map_iter, substitute, variables


def joined_loops(
    stmt: Stmt, buffer: Buffer, outside: Var, sizes: SizeRanges, around: Sequence[For] = ()
) -> Stmt:
    """`stmt`, in loops `around` it, with loops inside of that over `outside` made one where a
    condition on them takes them so, and all that they do is write `buffer` in one block."""
    if not isinstance(stmt, For):
        return map_children(stmt, lambda s: joined_loops(s, buffer, outside, sizes, around))
    nest, node = [stmt], stmt.body
    while isinstance(node, For):
        nest.append(node)
        node = node.body
    inner = [loop.var for loop in (*around, *nest)]
    below = inner.index(outside) + 1 if outside in inner else len(inner)
    own = nest[max(0, below - len(around)) :]
    kept = nest[: len(nest) - len(own)]
    if isinstance(node, Block):
        before: Stmt = own[0] if own else node
        body = _joined(own, node, buffer, sizes, [*around, *kept])
    else:
        before, kept = node, nest
        body = joined_loops(node, buffer, outside, sizes, [*around, *nest])
    if body is before:
        return stmt
    for loop in reversed(kept):
        body = replace(loop, body=body)
    return body


def _joined(
    nest: Sequence[For], block: Block, buffer: Buffer, sizes: SizeRanges, around: Sequence[For]
) -> Stmt:
    found = list(nest)
    for cond in conjuncts(block.predicate) if _only_writes(block, buffer) else ():
        one = _group(cond, {loop.var: loop.extent for loop in found})
        if one is None:
            continue
        loops = [loop for loop in found if loop.var not in one.values]
        found = [For(one.var, const(one.extent), block, ForKind.SERIAL), *loops]
        known = analyzer_of(sizes, {loop.var: loop.extent for loop in (*around, *found)})
        moved = partial(one.moved, analyzer=known)
        parts = [moved(part) for part in conjuncts(block.predicate) if part is not cond]
        iters = tuple([map_iter(it, moved) for it in block.iters])
        block = replace(block, iters=iters, predicate=all_of(*parts))
    if len(found) == len(nest):
        return nest[0] if nest else block
    body: Stmt = block
    for loop in reversed(found):
        body = replace(loop, body=body)
    return body


def _only_writes(block: Block, buffer: Buffer) -> bool:
    """Whether the block has instances in any order, told by its loops, that read no `buffer`."""
    plain = all([it.kind is IterKind.SPATIAL and not it.binding.has_loads for it in block.iters])
    reads = any([access.buffer is buffer and not access.is_write for access in accesses(block)])
    return plain and block.init is None and not reads and not block.predicate.has_loads


class Joined(NamedTuple):
    """What some places are while the variables of `extents` run and `cond` holds, and an analyzer
    that knows these variables."""

    indices: tuple[Expr, ...]
    cond: Expr
    extents: Mapping[Var, Expr]
    analyzer: Analyzer

    @property
    def known(self) -> Analyzer:
        """Who knows what is left of the condition, too."""
        return self.analyzer if self.cond is TRUE else self.analyzer.assuming(self.cond)


def joined_indices(
    indices: tuple[Expr, ...], cond: Expr, extents: Mapping[Var, Expr], analyzer: Analyzer
) -> Joined:
    """The same places, with variables that `cond` takes as one made one; remembered."""
    key = joined_indices, *indices, cond, *extents.items()
    found: Joined | None = analyzer.remembered.get(key)
    if found is None:
        found = Joined(indices, cond, extents, analyzer)
        for part in conjuncts(cond):
            one = _group(part, found.extents, analyzer)
            if one is not None:
                found = _with_one(found, part, one)
        analyzer.remembered[key] = found
    return found


def _with_one(found: Joined, part: Expr, one: _One) -> Joined:
    kept = {var: extent for var, extent in found.extents.items() if var not in one.values}
    known = found.analyzer.copy()
    known.bind(one.var, const(one.extent))
    parts = [one.moved(p, known) for p in conjuncts(found.cond) if p is not part]
    indices = tuple([one.moved(index, known) for index in found.indices])
    return Joined(indices, all_of(*parts), {one.var: const(one.extent), **kept}, known)


class _One(NamedTuple):
    """A variable in place of several: its extent, and what these are then."""

    var: Var
    extent: int
    values: Mapping[Var, Expr]

    def moved(self, e: Expr, analyzer: Analyzer) -> Expr:
        new = substitute(e, self.values)
        return e if new is e else analyzer.simplify(new)


def _group(
    cond: Expr, extents: Mapping[Var, Expr], analyzer: Analyzer | None = None
) -> _One | None:
    """One variable for those of i * 8 + j, or of what is left of it as in i * 2 + j // 4, if a
    condition limits that number; None where it is another condition. To an `analyzer` a thread that
    is written as its warp and its lane is one variable."""
    if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != INDEX:
        return None
    form = plain_form(cond.b).minus(plain_form(cond.a))
    form = form if analyzer is None else analyzer.recombined(form)
    terms = sorted(form.terms.items(), key=lambda term: term[1])
    if len(terms) < 2 or terms[-1][1] >= 0:
        return None
    (last, step), unit = terms[-1], 1
    if isinstance(last, BinOp) and last.op == "//":
        unit, last = int_value(last.b) or 0, last.a
    order = [*[atom for atom, _ in terms[:-1]], last]
    steps = {v: each // step * unit for v, (_, each) in zip(order, terms)} | {last: 1}
    sizes = [int_value(extents[v]) if isinstance(v, Var) and v in extents else None for v in order]
    dense = all([steps[a] == steps[b] * (n or 0) for a, b, n in zip(order, order[1:], sizes[1:])])
    others = [extent for var, extent in extents.items() if var not in steps]
    moved = any([not variables(extent).isdisjoint(steps) for extent in others])
    exact = unit > 0 and all([each % step == 0 for _, each in terms])
    if None in sizes or len(steps) < len(order) or not (dense and exact) or moved:
        return None
    room = (form.const - (cond.op == "<")) // -step + 1
    count = max(0, min(prod([n or 0 for n in sizes]), room * unit))
    outer = order[0]
    assert isinstance(outer, Var)
    one = Var(f"{outer.name}'")  # no name of a program
    values: dict[Var, Expr] = {}
    for var, n in zip(order, sizes):
        assert isinstance(var, Var)
        digit = one // steps[var]
        values[var] = digit if var is outer else digit % (n or 1)
    return _One(one, count, values)
