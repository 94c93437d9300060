"""Which element a term of a reduction is for, where an equality in it says so.

`h[b] = sum over k of select(x[k] == b, w[k], 0)` has a term for the element x[k] alone. Such an
equality is a gate: where it does not hold, the update leaves what the reduction has so far, bit by
bit. So a product with a condition, `w[k] * (x[k] == b)`, has no gate for floats: 0 * inf is NaN,
which each element would get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tensorir import (
    FALSE,
    Analyzer,
    BinOp,
    Block,
    Cast,
    Const,
    Expr,
    IterVar,
    Let,
    Load,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    binary,
    cast,
    const,
    dtype,
    int_value,
    neutral,
    transform,
    walk_exprs,
)

EXACT = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
"""Up to where a float type holds all integers."""


@dataclass(frozen=True)
class Place:
    """`it` can only be `value` where `gate` holds, which it does not unless `checks` do."""

    it: IterVar
    gate: Expr
    value: Expr
    checks: tuple[Expr, ...]


class Updates:
    """What the step of a reduction stores, and which conditions are gates of all of it."""

    def __init__(self, node: Block) -> None:
        self.stores, self._old = tuple(_stores(node.body)), _old_values(node.body)
        self._starts = {s.buffer: s.value for s in _stores(node.init)} if node.init else {}
        self._simplify = Analyzer().simplify

    def conditions(self) -> list[BinOp]:
        """The comparisons in what is stored."""
        found = [e for s in self.stores for e in walk_exprs(s.value) if isinstance(e, BinOp)]
        return list(dict.fromkeys([e for e in found if e.dtype == "bool" != e.a.dtype]))

    def is_gate(self, cond: Expr) -> bool:
        return all([self._keeps(s, self.given(s.value, {cond: FALSE})) for s in self.stores])

    def given(self, value: Expr, known: Mapping[Expr, Expr]) -> Expr:
        """A value with what is known of its conditions put in."""
        return self._simplify(transform(value, known.get))

    def _keeps(self, store: Store, value: Expr) -> bool:
        """Whether `value` is what is there before `store`, in all bits."""
        old = self._old[store.buffer]
        if value in old:
            return True
        if isinstance(value, Select):  # terms behind the last one leave it, too
            return self._keeps(store, value.a) and self._keeps(store, value.b)
        if not isinstance(value, BinOp) or (value.a not in old and value.b not in old):
            return False
        rest = value.b if value.a in old else value.a
        if rest is not neutral(value.op, value.dtype):
            return False
        # 0.0 added to -0.0 is 0.0; no sum is -0.0 that did not start as one
        start = self._starts.get(store.buffer)
        signed = value.op == "+" and dtype.is_float(value.dtype)
        return not signed or (isinstance(start, Const) and str(start.value) != "-0.0")


def _stores(stmt: Stmt) -> Iterator[Store]:
    if isinstance(stmt, Let):
        yield from _stores(stmt.body)
    elif isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _stores(part)
    elif isinstance(stmt, Store):
        yield stmt


def _old_values(body: Stmt) -> dict[object, set[Expr]]:
    """By buffer, how a step names what is in it before."""
    old: dict[object, set[Expr]] = {}
    for s in _stores(body):
        old.setdefault(s.buffer, set()).add(Load(s.buffer, s.indices))
    while isinstance(body, Let):
        for values in old.values():
            if body.value in values:
                values.add(body.var)
        body = body.body
    return old


def places(node: Block, updates: Updates) -> list[Place]:
    """The places that gates give for variables of a reduction, at most one for each of them, and
    none that speaks of a variable which has one."""
    found: list[Place] = []
    for cond in updates.conditions():
        if cond.op != "==":
            continue
        free = [it for it in node.spatial if it.var in cond.variables]
        solved = [place for it in free if (place := _solved(cond, it)) is not None]
        for place in sorted(solved, key=lambda place: len(place.checks)):  # digits, the last first
            known = any(p.it is place.it for p in found)
            if known or not _apart(place, found) or not updates.is_gate(cond):
                continue
            if all([_is_axis(s, place.it.var) for s in updates.stores]):
                found.append(place)
    return found


def _apart(place: Place, found: Collection[Place]) -> bool:
    chosen = {p.it.var for p in found} | {place.it.var}
    used = place.value.variables.union(*[p.value.variables for p in found])
    return place.value.has_loads and chosen.isdisjoint(used)


def _is_axis(store: Store, var: Var) -> bool:
    """Whether a variable is an index of its own, so that the others tell what they told before."""
    return [var in i.variables for i in store.indices].count(True) == 1 and var in store.indices


def _solved(cond: BinOp, it: IterVar) -> Place | None:
    """The only value that a variable can have where an equality holds."""
    var, checks = it.var, []
    left, right = cond.a, cond.b
    if left.dtype != dtype.INDEX:
        if var in left.variables:
            left, right = right, left
        if var in left.variables or not isinstance(right, Cast) or not _is_exact(right, it):
            return None
        whole = cast(dtype.INDEX, left)
        if dtype.is_float(left.dtype):
            checks.append(binary("==", cast(left.dtype, whole), left))
        left, right = whole, right.a
    analyzer = Analyzer()
    factor = analyzer.linear(left - right).terms.get(var, 0)
    if not factor:
        return None
    rest = analyzer.simplify(factor * var - (left - right))
    if factor < 0:
        rest = analyzer.simplify(-rest)
    if var in rest.variables:
        return None
    if abs(factor) > 1:
        checks.append(binary("==", rest % abs(factor), const(0)))
        rest = rest // abs(factor)
    return Place(it, cond, rest, tuple(checks))


def _is_exact(e: Cast, it: IterVar) -> bool:
    """Whether a conversion of an index keeps apart all values that it has for values of `it`."""
    kind, extent = e.dtype, int_value(it.extent)
    if e.a.dtype != dtype.INDEX or extent is None or e.a.variables != {it.var}:
        return False
    low, high = Analyzer({it.var: it.extent}).bounds(e.a)
    if low is None or high is None or dtype.is_bool(kind):
        return False
    if dtype.is_float(kind):
        return max(-low, high) <= EXACT[kind]
    least, most = dtype.int_limits(kind)
    return least <= low and high <= most
