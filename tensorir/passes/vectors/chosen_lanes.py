"""Lanes of a vector in which conditions hold, and those that sides of choices are wanted in."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.logic import negated
from tensorir.expr import (
    TRUE,
    BinOp,
    Const,
    Expr,
    Var,
    all_of,
    binary,
    conjuncts,
    maximum,
    minimum,
    select,
)
from tensorir.passes.facts.inequality import solve
from tensorir.visit import variables


class Wanted(NamedTuple):
    """The lanes in which a side of a choice is wanted, None if these are not known, and what holds
    in them; `exact` if it is wanted in all of them."""

    lanes: tuple[Expr, Expr] | None
    where: Expr
    exact: bool


@dataclass(frozen=True)
class ChosenLanes:
    """Lane n stands for the iteration `var` = base + n, for n in [0, count).

    Only the lanes [low, high) are `needed`, if these are known, and `where` holds in them. `alike`
    tells whether a condition is the same in all lanes; `vectors` differ.
    """

    var: Var
    base: Expr
    count: int
    analyzer: Analyzer
    needed: tuple[Expr, Expr] | None
    where: Expr
    vectors: Collection[Var]
    alike: Callable[[Expr], bool]

    def sides(self, cond: Expr) -> tuple[Wanted, Wanted]:
        """The lanes that are needed in which `cond` holds, and the other ones, where each of these
        are neighbours."""
        if isinstance(cond, BinOp) and cond.op == "or":
            return self.sides(negated(cond))[::-1]
        outer, low, high, known, exact = self.held(cond)
        zero, count = Const(0, dt.INDEX), Const(self.count, dt.INDEX)
        others = Wanted(self.needed, self.where, False)
        if not exact and low is zero and high is count and outer is TRUE:
            return others, others
        end = select(outer, high, zero)
        if exact and low is zero:
            others = Wanted(self.within(end, count), self.where, True)
        elif exact and high is count:
            others = Wanted(self.within(zero, select(outer, low, count)), self.where, True)
        return Wanted(self.within(low, end), all_of(self.where, known), exact), others

    def within(self, low: Expr, high: Expr) -> tuple[Expr, Expr]:
        """The lanes [low, high), as far as they are needed."""
        if self.needed is None:
            return low, high
        return maximum(low, self.needed[0]), minimum(high, self.needed[1])

    def held(self, cond: Expr) -> tuple[Expr, Expr, Expr, Expr, bool]:
        """What is the same in all lanes, and the lanes [low, high) in which the rest holds; all of
        this, and whether it is all, or there are parts that hold in some of these lanes."""
        low, high = Const(0, dt.INDEX), Const(self.count, dt.INDEX)
        first: Expr = low
        end: Expr = high
        outer: Expr = TRUE
        known: Expr = TRUE
        exact = True
        for condition in conjuncts(cond):
            if self.alike(condition):
                outer, known = all_of(outer, condition), all_of(known, condition)
                continue
            found = self._range(condition)
            if found is None:
                exact = False
            else:
                first, end = maximum(first, found[0]), minimum(end, found[1])
                known = all_of(known, condition)
        return outer, first, end, known, exact

    def _range(self, condition: Expr) -> tuple[Expr, Expr] | None:
        """The lanes in which `condition` holds, where these are neighbours."""
        if condition.has_loads or not variables(condition).isdisjoint(self.vectors):
            return None
        if isinstance(condition, BinOp) and condition.op == "!=":
            a, b = condition.a, condition.b
            a, b = (a, b) if self.analyzer.prove(a <= b) else (b, a)
            condition = binary("<", a, b) if self.analyzer.prove(a <= b) else condition
        ranges = solve(condition, self.var, {}, self.analyzer.bounds)
        if ranges is None or ranges[0].term is not self.var or not ranges[0].same(ranges[1]):
            return None
        low, high = (
            Const(lane, dt.INDEX) if limit is None else self.analyzer.simplify(limit - self.base)
            for limit, lane in ((ranges[0].low, 0), (ranges[0].high, self.count))
        )
        return low, high
