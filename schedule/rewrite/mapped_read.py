"""Reads that map a consumer's variables to elements, one to one: transposes, reshapes, parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Expr,
    Load,
    Store,
    Var,
    all_of,
    binary,
    body_loads,
    const,
    determines,
    int_value,
    inverse_of,
    substitute,
    variables,
    walk_exprs,
)

Found = tuple[Load, dict[Var, Expr], Expr | None]
"""A load, variables of its block in those that the element is stored at, and a condition."""


def mapped_read(node: Block, made: Store, analyzer: Analyzer, theirs: Analyzer) -> Found | None:
    """The only load that a consumer has of what `made` stores, its variables in those that `made`
    stores at, and the condition under which an element is one that it reads; None where all are,
    and where the load does not tell the variables, in the place of all.

    `analyzer` knows the variables of the consumer, `theirs` those of the producer, which may be
    called the same. A variable may be read at a number behind it, as in
    `B[(v + 1) // 2, (v + 1) % 2]`: then the first elements have no instance, nor have those that
    the last ones leave of a row.
    """
    found = body_loads(node, made.buffer)
    values: dict[Var, Expr] = {it.var: const(0) for it in node.iters if int_value(it.extent) == 1}
    box = {it.var: it.extent for it in node.iters if it.var not in values}
    places = tuple([analyzer.simplify(substitute(index, values)) for index in found[0].indices])
    if len(found) != 1 or not all([determines(places, var, box, analyzer) for var in box]):
        return None
    behind = {var: _behind(places, var, analyzer) for var in box}
    if None in behind.values():
        return None
    starts = {var: const(n or 0) for var, n in behind.items()}
    ends = {var: extent + starts[var] for var, extent in box.items()}
    moved = {var: Var(f"{var.name}'") for var in box}
    from_start = theirs.copy()
    for var in box:
        from_start.bind(moved[var], ends[var])
    shifted = [
        from_start.simplify(substitute(p, {v: moved[v] - starts[v] for v in box})) for p in places
    ]
    axes = tuple([Var(f"axis'{n}") for n in range(made.buffer.ndim)])
    sizes = {moved[var]: ends[var] for var in box}
    inverse = inverse_of(tuple(sizes), shifted, axes, sizes, from_start)
    if inverse is None:
        return None
    elements = dict(zip(axes, made.indices))
    told = [substitute(value, elements) for value in inverse]
    values |= {var: value - starts[var] for var, value in zip(box, told)}
    many, size = _count(box.values()), _count(made.buffer.shape)
    if not any(behind.values()) and analyzer.simplify(many - size) is const(0):
        return found[0], values, None
    if not _are_inside(places, made, analyzer):
        return None
    again = [substitute(place, dict(zip(moved.values(), told))) for place in shifted]
    if any(from_start.simplify(a - b) is not const(0) for a, b in zip(again, made.indices)):
        return None  # what an element tells is not where it is read
    bounds = [
        bound
        for var, value in zip(box, map(theirs.simplify, told))
        for bound in (binary("<=", starts[var], value), value < ends[var])
        if not theirs.prove(bound)
    ]
    return found[0], values, all_of(*bounds) if bounds else None


def _count(sizes: Iterable[Expr]) -> Expr:
    count: Expr = const(1)
    for size in sizes:
        count = count * size
    return count


def _behind(places: Sequence[Expr], var: Var, analyzer: Analyzer) -> int | None:
    """The number that is added to a variable wherever it is read; None where there are several."""
    divided = [
        e.a for p in places for e in walk_exprs(p) if isinstance(e, BinOp) and e.op in ("//", "%")
    ]
    found = set[int]()
    for e in [*divided, *places]:
        form = analyzer.linear(e)
        if len(form.terms) == 1 and variables(e) == {var} and form.terms.get(var):
            found.add(form.const if form.terms[var] == 1 else 0)
    (number, *others) = found or {0}
    return number if not others and number >= 0 else None


def _are_inside(places: Sequence[Expr], made: Store, analyzer: Analyzer) -> bool:
    """Whether there is an element for each instance."""
    return all(
        analyzer.prove(binary("<=", const(0), place)) and analyzer.prove(place < size)
        for place, size in zip(places, made.buffer.shape)
    )
