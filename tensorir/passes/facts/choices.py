"""Limits and remainders of indices are choices of two values.

Borders that repeat an edge or wrap around are no conditions as they are written, and most of the
elements are far from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tensorir.arith import Analyzer
from tensorir.expr import FALSE, BinOp, Cast, Const, Expr, Var, convert, int_value
from tensorir.passes.facts.conditions import COMPARISONS, Loops, Memo, deciding, longest
from tensorir.passes.rewriting import replace_exprs
from tensorir.stmt import Stmt
from tensorir.visit import walk_exprs

RARE = 8
"""A remainder begins anew for one of so many values at most; others are digits, and no border."""

Choice = tuple[Expr, Expr, Expr]
"""A condition, a value where it holds, and one where it does not."""

Values = Mapping[Expr, Mapping[Expr, tuple[Expr, Expr]]]


class Choices:
    """What decides about a statement.

    places  conditions, each with the loops of the statement around its occurrences, the longest
    values  by condition, the limits and remainders that it decides, with both of their values
    """

    def __init__(self, places: Mapping[Expr, Loops], values: Values) -> None:
        self.places, self.values = places, values

    def replaced(self, stmt: Stmt, known: Mapping[Expr, Expr]) -> Stmt:
        """The statement, or a part of it, where conditions are known to be true or false."""
        decided = {
            e: sides[truth is FALSE]
            for condition, truth in known.items()
            for e, sides in self.values.get(condition, {}).items()
        }
        return replace_exprs(stmt, {**decided, **known})


def choices(
    stmt: Stmt, memo: Memo, often: Collection[Var], inside: Callable[[Loops], Analyzer]
) -> Choices:
    """The conditions of `stmt`, of limits and remainders those that change with some variable of
    `often`; `inside` gives what is known in some of its loops."""
    places: dict[Expr, list[Loops]] = {}
    values: dict[Expr, dict[Expr, tuple[Expr, Expr]]] = {}
    for node, around in deciding(stmt, memo).items():
        condition: Expr = node
        if node.op not in COMPARISONS:
            loops = None if node.variables.isdisjoint(often) else longest(around)
            choice = None if loops is None else choice_of(node, inside(loops))
            if choice is None:
                continue
            condition = choice[0]
            values.setdefault(condition, {})[node] = choice[1:]
        places.setdefault(condition, []).extend(around)
    merged = {condition: longest(around) for condition, around in places.items()}
    return Choices({c: loops for c, loops in merged.items() if loops is not None}, values)


def choice_of(e: BinOp, analyzer: Analyzer) -> Choice | None:
    """A limit or a remainder as a choice; None for others, and where it is computed in floats: no
    loop is cut where such a condition changes.

    rewrite:
        min(x, 9)             ->  x if x <= 9 else 9
        max(x, 0)             ->  x if 0 <= x else 0
        min(max(x, 0), 9)     ->  max(x, 0) if x <= 9 else 9
        (i + 1) % 99          ->  i + 1 if i + 1 < 99 else i + 1 - 99, of i in [0, 99)
        (i + 98) % 99         ->  i + 98 - 99 if 99 <= i + 98 else i + 98, of i in [0, 99)
    """
    if any(isinstance(n, Cast) for n in walk_exprs(e)):
        return None
    if e.op in ("min", "max"):
        a, b = (e.b, e.a) if isinstance(e.a, Const) else (e.a, e.b)
        x = _unlimited(a, b, "max" if e.op == "min" else "min", analyzer)
        condition = x <= b if e.op == "min" else b <= x
        return None if isinstance(condition, Const) else (condition, a, b)
    n = int_value(e.b)
    if e.op != "%" or n is None or n <= 0:
        return None
    low, high = analyzer.bounds(e.a)
    if low is None or high is None or high // n != low // n + 1:
        return None
    edge = high // n * n
    before, after = edge - low, high + 1 - edge
    if min(before, after) * RARE > before + after:
        return None
    if before < after:
        return convert(edge) <= e.a, e.a - edge, e.a - (edge - n)
    return e.a < edge, e.a - (edge - n), e.a - edge


def _unlimited(a: Expr, b: Expr, other: str, analyzer: Analyzer) -> Expr:
    """`a` without a limit of the `other` kind, which decides nothing about the limit `b`."""
    if not isinstance(a, BinOp) or a.op != other:
        return a
    for x, limit in ((a.a, a.b), (a.b, a.a)):
        if analyzer.prove(limit <= b if other == "max" else b <= limit):
            return x
    return a
