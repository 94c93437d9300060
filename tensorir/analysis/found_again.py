"""found_again: a program that looks for a float among values that are computed again says so, as
where the place of an extreme is looked for among what it is the extreme of.

Both have to be rounded alike. Compilers round `a * b + c` once where product and sum meet, and
where they meet differs from place to place: a product that is the same for all terms is computed
ahead of them in one loop, and not in another one. So such a program is compiled without that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tensorir import dtype as dt
from tensorir.analysis.block_accesses import written
from tensorir.analysis.repeatable import float_comparisons, is_repeatable
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Expr, Var
from tensorir.func import PrimFunc
from tensorir.stmt import Block, Let, Store
from tensorir.visit import blocks, loads, stmt_exprs, variables, walk, walk_exprs

FOUND_AGAIN = "found_again"
"""The attribute of such a function."""

Values = Mapping[Buffer | Var, Collection[Expr]]


def found_again(func: PrimFunc) -> PrimFunc:
    """Mark a program that compares two floats of which one is, or is made of, what it has stored,
    and the other one is computed elsewhere, by operations that compilers contract.

    A running extreme is compared with one term after the other, and nobody looks for it there: a
    block that writes what it compares is none of these. Nor may a block find itself in range at one
    place and run at another one.
    """
    if any([_runs_elsewhere(block) for block in blocks(func.body)]):
        return replace(func, attrs={**func.attrs, FOUND_AGAIN: True})
    values: dict[Buffer | Var, list[Expr]] = {}
    asked = [(block, pairs) for block in blocks(func.body) if (pairs := _compared(block))]
    for stmt in walk(func.body) if asked else ():
        if isinstance(stmt, Store):
            values.setdefault(stmt.buffer, []).append(stmt.value)
        elif isinstance(stmt, Let):
            values.setdefault(stmt.var, []).append(stmt.value)
    for block, pairs in asked:
        own = set(written(block))
        for a, b in pairs:
            if own.isdisjoint(_read(a, values) | _read(b, values)) and _differ(a, b, values):
                return replace(func, attrs={**func.attrs, FOUND_AGAIN: True})
    return func


def _runs_elsewhere(block: Block) -> bool:
    """Whether a block runs where floats say that may be contracted, for which it is asked first."""
    return any([it.binding.has_loads and not is_repeatable(it.binding) for it in block.iters])


def _compared(block: Block) -> list[tuple[Expr, Expr]]:
    found = (c for s in walk(block.body) for e in stmt_exprs(s) for c in float_comparisons(e))
    return [(a, b) for _, a, b in found if a is not b]


def _differ(a: Expr, b: Expr, values: Values) -> bool:
    """Whether one side goes through memory that the other one does not, and something that only one
    of them goes through may be contracted."""
    apart = _sources(a, values) ^ _sources(b, values)
    made = [(each, value) for each in apart for value in values[each]]
    stored = [(each, value) for each, value in made if isinstance(each, Buffer)]
    if not stored or any(_adds_up(value, buffer) for buffer, value in stored):
        return False
    return not all(map(is_repeatable, (a, b, *(value for _, value in made))))


def _adds_up(value: Expr, buffer: Buffer) -> bool:
    """Whether a buffer holds sums of floats, which are what the order of their terms makes them, so
    that nobody looks for one."""
    return any(
        isinstance(part, BinOp) and part.op in ("+", "*") and dt.is_float(part.dtype)
        and any(load.buffer is buffer for load in loads(part))
        for part in walk_exprs(value)
    )  # fmt: skip


def _read(e: Expr, values: Values) -> set[Buffer]:
    """What is read for an expression, with the names in it."""
    found = {load.buffer for load in loads(e)}
    for var in variables(e) & values.keys():
        found.update(*(_read(value, values) for value in values[var]))
    return found


def _sources(e: Expr, values: Values) -> set[Buffer | Var]:
    """What the program stores or names and `e` is made of."""
    found: set[Buffer | Var] = set()
    waiting = [e]
    while waiting:
        part = waiting.pop()
        read: set[Buffer | Var] = {load.buffer for load in loads(part)} | set(variables(part))
        for each in read & values.keys() - found:
            found.add(each)
            waiting += values[each]
    return found
