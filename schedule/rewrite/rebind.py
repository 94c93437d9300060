"""Rewriting the bindings and predicates below a loop that is being replaced."""

from __future__ import annotations

from collections.abc import Mapping

from schedule.errors import Illegal, require
from tensorir import (
    Analyzer,
    Block,
    Expr,
    For,
    ForKind,
    IterKind,
    Stmt,
    Var,
    all_of,
    binary,
    conjuncts,
    int_value,
    map_children,
    map_iter,
    replace,
    substitute,
    variables,
)


def rebind(stmt: Stmt, values: Mapping[Var, Expr], guard: Expr | None, analyzer: Analyzer) -> Stmt:
    """`stmt` with loop variables replaced in the bindings of its blocks, simplified.

    `guard`, where given, is added to the predicate of each block. Bodies are not touched.
    `analyzer` knows the loops around; those below are added on the way down and not before: that
    one of them runs, which may follow from its range, is true for its own blocks only.
    """
    if isinstance(stmt, For) and not analyzer.binds(stmt.var, stmt.extent):
        analyzer = analyzer.copy()
        analyzer.bind(stmt.var, stmt.extent)
    if not isinstance(stmt, Block):
        return map_children(stmt, lambda child: rebind(child, values, guard, analyzer))

    known = analyzer
    if stmt.init is not None:
        bound = [map_iter(it, lambda e: substitute(e, values)) for it in stmt.iters]
        known = where_it_starts(replace(stmt, iters=tuple(bound)), analyzer)

    def rebound(e: Expr) -> Expr:
        """What no replaced variable is in stays as it was."""
        new = substitute(e, values)
        return e if new is e else known.simplify(new)

    iters = tuple([map_iter(it, rebound) for it in stmt.iters])
    # none of its parts followed from the others, and none does of other loops over the same
    predicate = all_of(*[rebound(part) for part in conjuncts(stmt.predicate)])
    if guard is not None:
        predicate = binary("and", predicate, known.simplify(guard))
    return replace(stmt, iters=iters, predicate=predicate)


def where_it_starts(block: Block, analyzer: Analyzer) -> Analyzer:
    """What is known of a block where its init runs, too. That happens where the reduction has no
    term, so that its loops tell nothing of sizes: `max(n, 3)` is `n` in range(n // 3) only."""
    if block.init is None:
        return analyzer
    data, terms = set[Var](), set[Var]()
    for it in block.iters:
        (terms if it.kind is IterKind.REDUCE else data).update(variables(it.binding))
    extents = analyzer.facts.extents
    maybe_none = [v for v in terms - data if v not in extents or not int_value(extents[v])]
    return analyzer.without(maybe_none) if maybe_none else analyzer


def plain_loop(loop: For, hint: str | None = None) -> None:
    """Refuse a loop that is not serial or carries annotations."""
    name = loop.name
    if loop.kind is not ForKind.SERIAL:
        raise Illegal(name, f"loop {name!r} is {loop.kind}", hint)
    keys = ", ".join(loop.annotations)
    require(not loop.annotations, name, f"loop {name!r} is annotated with {keys}", hint)
