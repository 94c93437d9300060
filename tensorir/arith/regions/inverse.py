"""The inverse of an index map: the digits of each variable, read off the values of the map.

A value that is a sum of digits shows each of them. Where digits are XORed (`j ^ i % 8`), a part of
the value shows the exclusive or, and a digit follows from it once the others in it are known. Where
digits are those of a sum (`(i * 7 + j) // 8`), the sum is found first, and then what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeGuard

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.bits import operands, wide_and_narrow
from tensorir.arith.linear import Linear, of_atom, plain_form, to_expr
from tensorir.arith.regions.iter_map import Digit, bound_in, digit_of
from tensorir.expr import BinOp, Expr, ExprLike, Var, binary, const, int_value
from tensorir.visit import substitute, transform, variables, walk_exprs


def inverse_of(
    old: Sequence[Var],
    components: Sequence[Expr],
    axes: Sequence[Var],
    extents: Mapping[Var, ExprLike],
    analyzer: Analyzer,
) -> tuple[Expr, ...] | None:
    """The variables `old` of the box `extents` in terms of `axes`, the values of `components`; None
    if not found. Sums whose quotients and remainders are taken are found as they are written."""
    result = _from_digits(old, components, axes, extents, analyzer)
    if result is None:
        result = _from_sums(old, components, axes, extents, analyzer)
    if result is None:
        return None
    images = dict(zip(axes, components))
    right = all(
        analyzer.simplify(substitute(value, images)) is analyzer.simplify(var)
        for var, value in zip(old, result)
    )
    return result if right else None


def _from_digits(
    old: Sequence[Var],
    components: Sequence[Expr],
    axes: Sequence[Var],
    extents: Mapping[Var, ExprLike],
    analyzer: Analyzer,
) -> tuple[Expr, ...] | None:
    """The inverse where components are made of digits of variables."""
    found = _Inverse(old, extents, analyzer)
    for axis, component in zip(axes, components):
        if not found.read(axis, component):
            return None
    return tuple([found.joined(var) for var in old]) if found.solved() else None


def _from_sums(
    old: Sequence[Var],
    components: Sequence[Expr],
    axes: Sequence[Var],
    extents: Mapping[Var, ExprLike],
    analyzer: Analyzer,
) -> tuple[Expr, ...] | None:
    """The inverse where a sum stands for several variables, which are used in it only.

    Numbers that the sum leaves out do not matter: nothing comes to their places.
    """
    an = bound_in(extents, analyzer)
    plain = [transform(part, lambda e: _plain_base(e, an)) for part in components]
    bases = [e.a for part in plain for e in walk_exprs(part) if _is_divided(e)]
    for total in dict.fromkeys(bases):
        own = [var for var in old if var in variables(total)]
        others = [var for var in old if var not in own]
        number = Var(f"number'{len(old)}")  # no name of a program
        changed = [transform(part, {total: number}.get) for part in plain]
        high = an.bounds(total)[1]
        if len(own) < 2 or high is None or any([variables(part) & {*own} for part in changed]):
            continue
        parts = inverse_of(own, [total], [number], extents, an)
        sizes = {var: extents[var] for var in others} | {number: const(high + 1)}
        rest = inverse_of([*others, number], changed, axes, sizes, bound_in(sizes, an))
        if parts is None or rest is None:
            continue
        values = dict(zip(others, rest))
        values |= {var: substitute(part, {number: rest[-1]}) for var, part in zip(own, parts)}
        return tuple([values[var] for var in old])
    return None


def _is_divided(e: Expr) -> TypeGuard[BinOp]:
    """Whether `e` is a quotient or a remainder of a sum by a number."""
    divided = isinstance(e, BinOp) and e.op in ("//", "%") and int_value(e.b) is not None
    return divided and not isinstance(e.a, Var)  # type: ignore[attr-defined]


def _plain_base(e: Expr, an: Analyzer) -> Expr | None:
    """A quotient or remainder with its sum simplified, so that equal ones are one."""
    return binary(e.op, an.simplify(e.a), e.b) if _is_divided(e) else None


class _Inverse:
    """The digits found so far with their values, and values that are exclusive ors of several."""

    def __init__(
        self, old: Sequence[Var], extents: Mapping[Var, ExprLike], analyzer: Analyzer
    ) -> None:
        self.extents = extents
        self.an = bound_in(extents, analyzer)
        self.knows = analyzer
        self.highest: dict[Var, int | None] = {}
        self.digits: dict[Var, list[tuple[Digit, Expr]]] = {var: [] for var in old}
        self.mixed: list[tuple[list[Linear], Expr]] = []
        self.was_mixed: set[Var] = set()

    def read(self, axis: Var, component: Expr) -> bool:
        """Take what the value `axis` of `component` shows; whether it is made of digits."""
        form = _parted(self.an, self.an.linear(component))
        self.bind(axis, form)
        terms = sorted(self.terms(form), key=lambda term: term[1])
        for n, (atom, scale) in enumerate(terms):
            above = terms[n + 1][1] if n + 1 < len(terms) else None
            value = (axis if above is None else axis % above) // scale
            digit = digit_of(atom, self.an)
            mixed = list(operands(of_atom(atom)))
            if scale < 1 or digit is None and len(mixed) == 1:
                return False
            if digit is None:
                self.mixed.append((mixed, value))
            elif digit[0] not in self.digits:
                return False
            else:
                self.digits[digit[0]].append((Digit(*digit, scale), value))
        return True

    def bind(self, axis: Var, form: Linear) -> None:
        low, high = self.an.interval(form)
        if low is not None and low >= 0:
            self.highest[axis] = high

    @cached_property
    def on_axes(self) -> Analyzer:
        """Knows the axes, all of which were read."""
        found = self.knows.copy()
        for axis, high in self.highest.items():
            found.bind_range(axis, 0, high)
        return found

    def terms(self, form: Linear) -> Iterator[tuple[Expr, int]]:
        for atom, scale in form.terms.items():
            if not variables(atom).isdisjoint(self.extents):
                yield atom, scale

    def solved(self) -> bool:
        """Find the digits that are XORed with others; whether that was possible."""
        while self.mixed:
            left = [(forms, value) for forms, value in self.mixed if not self.solve(forms, value)]
            if len(left) == len(self.mixed):
                return False
            self.mixed = left
        return True

    def solve(self, forms: Sequence[Linear], value: Expr) -> bool:
        """Whether all but one of the XORed `forms` are known: then so is that one."""
        unknown: list[Linear] = []
        for form in forms:
            known = self.value(form)
            if known is None:
                unknown.append(form)
            else:
                value = binary("^", value, known)
        if len(unknown) != 1 or len(unknown[0].terms) != 1 or unknown[0].const:
            return not unknown
        ((atom, scale),) = unknown[0].terms.items()
        digit = digit_of(atom, self.an)
        if digit is None or digit[0] not in self.digits or scale != 1:
            return False
        self.digits[digit[0]].append((Digit(*digit, 1), value))
        self.was_mixed.add(digit[0])
        return True

    def joined(self, var: Var) -> Expr:
        value = _joined(self.digits[var])
        return self.on_axes.simplify(value) if var in self.was_mixed else value

    def value(self, form: Linear) -> Expr | None:
        """A sum in terms of the axes; None where it speaks of digits that are not known yet."""
        an, e = self.on_axes.copy(), to_expr(form)
        gaps: list[Var] = []
        known = {var: self.partly(var, an, gaps) for var in variables(e) & self.digits.keys()}
        found = an.simplify(substitute(e, known))
        return None if variables(found) & set(gaps) else found

    def partly(self, var: Var, an: Analyzer, gaps: list[Var]) -> Expr:
        """`var`, with a variable of `gaps` for each of its digits that is not known."""

        def gap(size: int | None) -> Expr:
            gaps.append(Var(f"{var.name}.gap{len(gaps)}"))
            an.bind_range(gaps[-1], 0, None if size is None else size - 1)
            return gaps[-1]

        total: Expr = const(0)
        position = 1
        for digit, part in sorted(self.digits[var], key=lambda pair: pair[0].divisor):
            if digit.divisor < position or digit.divisor % position:
                continue
            if digit.divisor > position:
                total = total + gap(digit.divisor // position) * position
            total = total + part * digit.divisor
            if digit.extent is None:
                return total
            position = digit.divisor * digit.extent
        high = self.an.range(var)[1]
        if high is None or high >= position:
            total = total + gap(None if high is None else high // position + 1) * position
        return total


def _parted(an: Analyzer, form: Linear) -> Linear:
    """A sum in which only digits of as many bits are XORed with each other, or with constants."""
    for atom, scale in form.terms.items():
        found = wide_and_narrow(an, atom)
        if found is not None and all(part.terms for part in operands(of_atom(atom))):
            cut, whole = Linear({}, found[1]), plain_form(atom)
            high, low = (an.divmod(op, whole, cut) for op in ("//", "%"))
            parts = high.scaled(found[1]).plus(low)
            return _parted(an, form.without(atom).plus(parts, scale))
    return form


def _joined(digits: list[tuple[Digit, Expr]]) -> Expr:
    """The number that has these digits, as far as they follow on each other."""
    terms: list[Expr] = []
    position = 1
    for digit, part in sorted(digits, key=lambda pair: pair[0].divisor):
        if digit.divisor == position:
            terms.append(part * position)
            position *= digit.extent or 1
    total: Expr = const(0)
    for term in reversed(terms):
        total = total + term
    return total
