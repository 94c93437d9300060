"""Loops whose extents depend on other loops, as loops of fixed extents and conditions.

A triangular loop runs to the largest value of its extent, and what is below runs where the loop has
not passed its extent of the moment. That is what a split that leaves a rest makes too, so schedules
know one kind of loop, and lowering makes the condition the end of the loop again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as replace_fields
from math import prod

from tensorir.annotations import checked
from tensorir.arith import Analyzer
from tensorir.arith.linear import Linear, to_expr
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.region import relax
from tensorir.errors import VerifyError
from tensorir.expr import (
    BinOp,
    Const,
    Expr,
    Select,
    Var,
    all_of,
    binary,
    conjuncts,
    const,
    convert,
    int_value,
    maximum,
)
from tensorir.func import PrimFunc
from tensorir.rewrite.terms import in_own_variables, with_terms
from tensorir.stmt import Block, For, If, IterKind, IterVar, Seq, Stmt, replace
from tensorir.visit import map_children, substitute, substitute_stmt, variables, walk

FROM_TYPE = 1 << 30
"""What is no less is only what the type of a number in memory can hold, and no bound of a loop."""


@checked
def rectangular(func: PrimFunc) -> PrimFunc:
    """`func` without loops around blocks whose extents depend on other loops or read memory.

    A reduction that takes some of the values of its variables, those of a window say, gets a
    variable for each of its loops: moving a block makes loops over all values of its variables.

    Raises VerifyError, naming the loop, where an extent has no largest value that is known.

    rewrite:
        for i in range(8):                    for i in range(8):
            for j in range(i):                    for j in range(7):
                with block("B"):       ->             with block("B"):
                    vi = spatial(8, i)                    vi = spatial(8, i)
                    vj = spatial(8, j)                    vj = spatial(8, j)
                                                          where(j < i)
    """
    analyzer = Analyzer()
    analyzer.bind_sizes(func.size_ranges)
    body = _visit(func.body, {}, analyzer)
    return func if body is func.body else replace_fields(func, body=body)


def _visit(stmt: Stmt, loops: Mapping[Var, Expr], analyzer: Analyzer) -> Stmt:
    if isinstance(stmt, Block):
        own = {it.var: it.extent for it in stmt.iters}
        inside = analyzer.copy()
        for var, extent in own.items():
            inside.bind(var, extent)
        nested = any(isinstance(s, Block) for s in walk(stmt.body))
        body = _visit(stmt.body, own, inside) if nested else stmt.body
        made = stmt if body is stmt.body else replace(stmt, body=body)
        if not nested and not _every_term(made, loops, analyzer):
            made = _one_variable_each(made, analyzer)
        return _terms_inside(made, analyzer)
    if not isinstance(stmt, For):
        return map_children(stmt, lambda child: _visit(child, loops, analyzer))
    extent = stmt.extent
    if variables(extent) & loops.keys() or extent.has_loads:
        largest = _of_variables(stmt)
        if largest is None:
            largest = largest_value(extent, loops, analyzer)
        if largest is None:
            raise VerifyError(
                f"the extent {extent!r} of loop {stmt.name!r} has no known largest value; let the "
                f"loop run to one, and the blocks in it where({stmt.name} < {extent!r})"
            )
        extent = largest
    inner = analyzer.copy()
    inner.bind(stmt.var, extent)
    body = _visit(stmt.body, {**loops, stmt.var: extent}, inner)
    if extent is not stmt.extent:
        body = _where(body, BinOp("<", stmt.var, stmt.extent), inner)
    return stmt if body is stmt.body else replace(stmt, extent=extent, body=body)


def _every_term(block: Block, loops: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether the variables of a reduction take all values together for each result."""
    reduced = block.reduced
    inner = set[Var]().union(*[variables(it.binding) for it in reduced])
    for it in block.iters:
        if it.kind is not IterKind.REDUCE and variables(it.binding) & inner:
            return False
    if len(inner) == len(reduced) and all([_whole(it, loops) for it in reduced]):
        return True
    own = {var: extent for var, extent in loops.items() if var in inner}
    if not is_dense([it.binding for it in reduced], own, analyzer):
        return False
    # An interval that holds all values may be wider than they are where an extent is a number
    # that calls are given: there have to be as many iterations as there are values.
    every, runs = prod(it.extent for it in reduced), prod(own.values())
    if not analyzer.prove(binary("<=", convert(every), convert(runs))):
        return False
    for it in reduced:
        part = relax(it.binding, own, analyzer)
        if part is None or not analyzer.prove(
            all_of(
                binary("<=", part.low, const(0)), binary("<=", it.extent, part.low + part.extent)
            )
        ):
            return False
    return True


def _whole(it: IterVar, loops: Mapping[Var, Expr]) -> bool:
    """Whether a variable is a loop that has its extent."""
    return isinstance(it.binding, Var) and loops.get(it.binding) is it.extent


def _of_variables(loop: For) -> Expr | None:
    """The extent of the block variables that the loop is: blocks then have a loop for each of
    theirs, as primitives that look at whole blocks want it."""
    found = {
        it.extent
        for s in walk(loop)
        if isinstance(s, Block)
        for it in s.iters
        if it.binding is loop.var
    }
    return found.pop() if len(found) == 1 else None


def _where(stmt: Stmt, condition: Expr, analyzer: Analyzer) -> Stmt:
    """`stmt`, of which everything runs only where `condition` holds."""
    if isinstance(stmt, Block):
        limited = replace(stmt, predicate=all_of(stmt.predicate, condition))
        return _terms_inside(limited, analyzer)
    if isinstance(stmt, For):
        analyzer = analyzer.copy()
        analyzer.bind(stmt.var, stmt.extent)
    if isinstance(stmt, (For, Seq)):
        return map_children(stmt, lambda child: _where(child, condition, analyzer))
    return If(condition, stmt)


def _terms_inside(block: Block, analyzer: Analyzer) -> Block:
    """What a predicate says of the terms of a reduction that has its init, beyond the variables
    being in range, as a condition of the update."""
    if block.init is None or isinstance(block.predicate, Const):
        return block
    reduced: set[Var] = set()
    for it in block.iters:
        if it.kind is IterKind.REDUCE:
            reduced |= variables(it.binding)
    in_range = [binary("<", it.binding, it.extent) for it in block.iters]
    known = analyzer.assuming(all_of(*[part for part in in_range if not part.has_loads]))
    terms = [
        part
        for part in conjuncts(block.predicate)
        if variables(part) & reduced and part not in in_range and not known.prove(part)
    ]
    if not terms:
        return block
    made = _one_variable_each(block, analyzer)
    loops = analyzer.facts.extents.keys()  # around it, also those that no variable is bound to
    said = [in_own_variables(part, made, loops, analyzer) for part in terms]
    sayable = [part for part in said if part is not None]
    if len(sayable) < len(terms):
        return block
    left = [part for part in conjuncts(block.predicate) if part not in terms]
    update = with_terms(made.body, all_of(*sayable))
    return replace(made, predicate=all_of(*left), body=update)


def _one_variable_each(block: Block, analyzer: Analyzer) -> Block:
    """`block` with a variable for each loop of its reduction, in place of variables that are
    anything else: those could leave their range where there is no term."""
    extents = analyzer.facts.extents
    values: dict[Var, Expr] = {}
    for it in block.iters:
        if isinstance(it.binding, Var):
            whole = it.kind is not IterKind.REDUCE or extents.get(it.binding) in (it.extent, None)
            if whole:
                values.setdefault(it.binding, it.var)
    iters: list[IterVar] = []
    old: dict[Var, Expr] = {}
    for it in block.iters:
        kept = isinstance(it.binding, Var) and values.get(it.binding) is it.var
        if it.kind is not IterKind.REDUCE or kept:
            iters.append(it)
            continue
        for var in sorted(variables(it.binding) - values.keys(), key=lambda v: v.name):
            extent = extents.get(var)
            if extent is not None:
                own = Var(f"v{var.name}_of_{block.name}")
                values[var] = own
                iters.append(IterVar(own, extent, IterKind.REDUCE, var))
        old[it.var] = substitute(it.binding, values)
    if not old:
        return block
    return replace(block, iters=tuple(iters), body=substitute_stmt(block.body, old))


def largest_value(e: Expr, ranges: Mapping[Var, Expr], analyzer: Analyzer) -> Expr | None:
    """An expression without the variables of `ranges`, each in [0, extent), and without memory,
    that is never below `e` and never below 0; None where none is found.

    It is the maximum of `e` wherever each variable appears once.
    """
    number = int_value(e)
    if number is not None:
        return e if number >= 0 else const(0)
    found = _extreme(analyzer.simplify(e), ranges, analyzer, largest=True)
    if found is None:
        bound = analyzer.bounds(e)[1]
        return None if bound is None or bound >= FROM_TYPE else const(max(bound, 0))
    form = analyzer.linear(found)
    if form.terms and form.const < 0:  # an expression that cannot be below 0 is easier to read
        form = Linear(form.terms)
    found = to_expr(form)
    if analyzer.prove(BinOp("<=", const(0), found)):
        return found
    value = int_value(found)
    return const(max(value, 0)) if value is not None else maximum(found, const(0))


def _extreme(e: Expr, ranges: Mapping[Var, Expr], analyzer: Analyzer, largest: bool) -> Expr | None:
    """The largest or smallest value of `e`, or what is beyond it."""
    if not e.has_loads and not variables(e) & ranges.keys():
        return e
    if isinstance(e, Var):
        return ranges[e] - 1 if largest else const(0)
    if isinstance(e, Select):
        sides = [_extreme(side, ranges, analyzer, largest) for side in (e.a, e.b)]
        return _both("max" if largest else "min", *sides)
    if not isinstance(e, BinOp):
        return None
    if e.op in ("min", "max"):
        sides = [_extreme(side, ranges, analyzer, largest) for side in (e.a, e.b)]
        if None in sides and e.op == ("min" if largest else "max"):
            return next((side for side in sides if side is not None), None)
        return _both(e.op, *sides)
    if e.op in ("+", "-"):
        low = e.op == "-"
        return _both(
            e.op,
            _extreme(e.a, ranges, analyzer, largest),
            _extreme(e.b, ranges, analyzer, largest is not low),
        )
    return _scaled(e, ranges, analyzer, largest)


def _scaled(e: BinOp, ranges: Mapping[Var, Expr], analyzer: Analyzer, largest: bool) -> Expr | None:
    """The same of products with, quotients and remainders by what the variables do not change."""
    fixed = not e.b.has_loads and not variables(e.b) & ranges.keys()
    a, b = (e.a, e.b) if fixed or e.op != "*" else (e.b, e.a)
    if b.has_loads or variables(b) & ranges.keys():
        return None
    if e.op == "%" and analyzer.prove(BinOp("<", const(0), b)):
        return b - 1 if largest else const(0)
    if e.op == "*" and analyzer.prove(BinOp("<=", b, const(0))):
        return _both("*", _extreme(a, ranges, analyzer, not largest), b)
    if analyzer.prove(BinOp("<=" if e.op == "*" else "<", const(0), b)) and e.op in ("*", "//"):
        return _both(e.op, _extreme(a, ranges, analyzer, largest), b)
    return None


def _both(op: str, a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else binary(op, a, b)
