"""By how much an integer expression grows with a variable, and which move a value together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, lcm

from tensorir import dtype as dt
from tensorir.arith.analyzer import Analyzer
from tensorir.arith.linear import plain_form
from tensorir.expr import BinOp, Expr, Load, Var, const, int_value
from tensorir.visit import substitute, variables, walk_exprs


def slope(e: Expr, var: Var, analyzer: Analyzer) -> int | None:
    """How much `e` grows where `var` grows by one, if that is one number everywhere."""
    if e.dtype == dt.INDEX:
        terms = plain_form(e).terms
        if all([atom is var or var not in atom.variables for atom in terms]):
            return terms.get(var, 0)
    return int_value(analyzer.simplify(substitute(e, {var: var + 1}) - e))


def period(indices: Iterable[Expr], var: Var, most: int) -> int:
    """Steps of `var` after which each quotient and remainder in `indices` has grown by one number,
    from wherever it was: 3 for `v // 3`, 5 for `v * 4 % 5`; 1 where these are more than `most`."""
    found = 1
    for part in (part for index in indices for part in walk_exprs(index)):
        if isinstance(part, BinOp) and part.op in ("//", "%") and var in variables(part):
            divisor, step = int_value(part.b), slope(part.a, var, Analyzer())
            found = lcm(found, (divisor or most + 1) // gcd(divisor or 1, step or 1))
    return found if found <= most else 1


class Together:
    """`start` + the sum of `steps` times variables, which takes all values from 0 up to `extent`,
    some of them at several places, as those of windows: it is all that a value depends on of these
    variables. The first of them moves it by one."""

    def __init__(self, steps: Sequence[tuple[Var, int]], start: int, extent: Expr) -> None:
        self.steps, self.start, self.extent = steps, start, extent

    @property
    def place(self) -> Expr:
        """The sum."""
        found: Expr = const(self.start)
        for var, step in self.steps:
            found = found + var * step if step > 0 else found - var * -step
        return found

    def at(self, place: Expr) -> dict[Var, Expr]:
        """Values of the variables at which the sum is `place`, whether or not they are in their
        ranges: a value that depends on the sum alone is the same."""
        (unit, step), *others = self.steps
        value = place - self.start if step > 0 else self.start - place
        return {unit: value, **{var: const(0) for var, _ in others}}


def moved_together(value: Expr, extents: Mapping[Var, Expr]) -> list[Together]:
    """The groups of variables, from 0 up to `extents`, that move a value by their sum alone, each
    as far as the sum leaves nothing out."""
    forms = list(_sums(value, Analyzer(), set()))
    alike: dict[tuple[int, ...], list[tuple[Var, int]]] = {}
    for var, extent in extents.items():
        steps = [form.get(var, 0) for form in forms]
        first = next((step for step in steps if step), 0)
        if first and int_value(extent) != 1:
            unit = gcd(*steps) * (1 if first > 0 else -1)
            alike.setdefault(tuple([step // unit for step in steps]), []).append((var, unit))
    found = (_together(group, extents) for group in alike.values() if len(group) > 1)
    return [group for group in found if group is not None]


def _together(group: Sequence[tuple[Var, int]], extents: Mapping[Var, Expr]) -> Together | None:
    """A group as far as its sum leaves nothing out; None where it is the same at no two places:
    then each variable is better off by itself."""
    (_, least), *_ = ordered = sorted(group, key=lambda pair: abs(pair[1]))
    steps, start, again = list[tuple[Var, int]](), 0, False
    size: Expr = const(1)
    for var, step in ordered:
        far, rest = divmod(step, abs(least))
        reach, extent = int_value(size), int_value(extents[var])
        if reach is None or rest or abs(far) > reach or (extent is None and far < 0):
            continue
        again |= abs(far) < reach
        size = size + (extents[var] - 1) * abs(far)
        start += max(0, -far) * ((extent or 1) - 1)
        steps.append((var, far))
    return Together(steps, start, size) if again else None


def _sums(e: Expr, analyzer: Analyzer, seen: set[Expr]) -> Iterator[Mapping[Expr, int]]:
    """The largest sums of multiples in an expression, and those in what these are sums of."""
    if e in seen or not e.variables:
        return
    seen.add(e)
    parts = _parts(e)
    if e.dtype == dt.INDEX and not isinstance(e, Load):
        terms = analyzer.linear(e).terms
        yield terms
        inner = [atom for atom in terms if not isinstance(atom, Var)]
        parts = [part for atom in inner for part in _parts(atom)]
    for part in parts:
        yield from _sums(part, analyzer, seen)


def _parts(e: Expr) -> Sequence[Expr]:
    return e.indices if isinstance(e, Load) else e.operands
