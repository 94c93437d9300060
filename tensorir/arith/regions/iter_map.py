"""Quasi-affine bindings: which indices determine which variables.

Splits and fusions make indices that are sums of digits of loop variables, scale * ((v // d) % m).
An index g * A + B with B in a range of fewer than g values determines both A and B, and all the
digits of a value determine the value; `determines` draws these two conclusions until nothing new
follows. Affine maps of this kind are those of TVM's arith/iter_affine_map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from operator import is_

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.bits import wide_and_narrow
from tensorir.arith.bounds import nonnegative
from tensorir.arith.digits import Parts, digit_parts, whole_digit
from tensorir.arith.linear import Linear, factors, plain_form, product
from tensorir.expr import BinOp, Expr, ExprLike, Var, int_value
from tensorir.visit import variables


@dataclass(frozen=True)
class Digit:
    """The term scale * ((var // divisor) % extent); an unknown extent is None."""

    var: Var
    divisor: int
    extent: int | None
    scale: int


def decompose(
    e: Expr, extents: Mapping[Var, ExprLike], analyzer: Analyzer
) -> tuple[list[Digit], int] | None:
    """`e` as digits of the variables of `extents`, and its constant.

    Terms without any of these variables are left out. None where `e` is not such a sum.
    """
    an = bound_in(extents, analyzer)
    key = Digit, e, tuple(extents)
    if key not in an.remembered:
        an.remembered[key] = _decomposed(e, extents, an)
    found: tuple[list[Digit], int] | None = an.remembered[key]
    return found


def _decomposed(
    e: Expr, extents: Mapping[Var, ExprLike], an: Analyzer
) -> tuple[list[Digit], int] | None:
    form = an.linear(e)
    digits = []
    for atom, scale in form.terms.items():
        if not _mentions(atom, extents):
            continue
        found = digit_of(atom, an)
        if found is None or found[0] not in extents:
            return None
        digits.append(Digit(*found, scale))
    return digits, form.const


def determines(
    indices: Sequence[Expr], var: Var, extents: Mapping[Var, ExprLike], analyzer: Analyzer
) -> bool:
    """Whether two points that differ in `var` never have all `indices` equal.

    The points are those of the box `extents`; other variables are the same for both. True is
    proved; False means that no proof was found.
    """
    if any([index is var for index in indices]):
        return True
    if not any([var in index.variables for index in indices]):
        low, high = bound_in(extents, analyzer).range(var)
        return low is not None and low == high
    return determines_all(indices, (var,), extents, analyzer)


def determines_all(
    indices: Sequence[Expr],
    wanted: Iterable[Expr],
    extents: Mapping[Var, ExprLike],
    analyzer: Analyzer,
) -> bool:
    """Whether the values of `indices` fix every variable of `wanted`, or part of some, such as
    i // 4; see `determines`."""
    an = bound_in(extents, analyzer)
    key = _Known, tuple(indices), tuple(extents)
    atoms = an.remembered.get(key)  # not what has them, which knows the analyzer: a cycle
    known = _Known(an, extents, {} if atoms is None else atoms)
    if atoms is None:
        an.remembered[key] = known.atoms
        known.solve([an.linear(e) for e in indices])
    return all([known.has(e) for e in wanted])


def bound_in(extents: Mapping[Var, ExprLike], analyzer: Analyzer) -> Analyzer:
    """The analyzer, knowing also the extents where it does not know them yet."""
    known = analyzer.facts.extents
    if all(map(is_, map(known.get, extents), extents.values())):  # what is asked most
        return analyzer
    missing = {v: extent for v, extent in extents.items() if not analyzer.binds(v, extent)}
    if not missing:
        return analyzer
    an = analyzer.copy()
    an.bind_all(missing)
    return an


def _mentions(atom: Expr, extents: Mapping[Var, ExprLike]) -> bool:
    return any(var in extents for var in variables(atom))


def digit_of(atom: Expr, an: Analyzer) -> tuple[Var, int, int | None] | None:
    """(var, divisor, extent) of an atom that is var, var // d, var % m or var // d % m."""
    base, divisor, extent = digit_parts(atom)
    if not isinstance(base, Var):
        return None
    low, high = an.range(base)
    if low is None or low < 0:
        return None
    if high is not None:
        values = high // divisor + 1
        extent = values if extent is None else min(values, extent)
    return base, divisor, extent


def _contains(digit: Parts, part: Parts) -> bool:
    """Whether the value of a digit (x, d, m) tells that of another one."""
    base, divisor, extent = digit
    if base is not part[0] or part[1] % divisor:
        return False
    if extent is None:
        return True
    return part[2] is not None and divisor * extent % (part[1] * part[2]) == 0


class _Known:
    """The atoms whose value is fixed, growing until nothing more follows."""

    def __init__(
        self, an: Analyzer, extents: Mapping[Var, ExprLike], atoms: dict[Expr, None]
    ) -> None:
        self.an = an
        self.extents = extents
        self.atoms = atoms

    def has(self, atom: Expr) -> bool:
        """Whether the value of `atom` is fixed: found so, or free of undetermined variables."""
        if atom in self.atoms:
            return True
        low, high = self.an.range(atom)
        if low is not None and low == high:
            return True
        if all(v in self.atoms or v not in self.extents for v in variables(atom)):
            return True
        # A part of a sum all of whose terms are fixed: (i // 4 * 3 + j) % 8, of i // 4 and j.
        if not isinstance(atom, BinOp) or atom.op not in ("//", "%") or int_value(atom.b) is None:
            return False
        return self.fixes(plain_form(atom.a))

    def solve(self, forms: list[Linear]) -> None:
        pending = forms
        while True:
            before = len(self.atoms)
            left = []
            for form in pending:
                left.extend(self.reduce(form))
            pending = left
            pending.extend(self.joined())
            pending.extend(self.unmasked())
            if len(self.atoms) == before:
                return

    def reduce(self, form: Linear) -> list[Linear]:
        """What remains to be found out from a known sum."""
        return self.parted(Linear({a: t for a, t in form.terms.items() if not self.has(a)}))

    def parted(self, rest: Linear) -> list[Linear]:
        """The same of a sum of which no term is known yet."""
        if not rest.terms:
            return []
        if len(rest.terms) == 1:
            atom = next(iter(rest.terms))
            # From n * i the factor i follows only for a non-zero n, which nobody promises.
            self.atoms[atom] = None
            return []
        for a, b in self.cuts(rest):
            unknown = a.terms.keys() <= rest.terms.keys()
            return (self.parted(a) if unknown else self.reduce(a)) + self.reduce(b)
        return [rest]

    def cuts(self, form: Linear) -> Iterator[tuple[Linear, Linear]]:
        """Pairs (A, B) with form = g * A + B where B takes fewer than g values in a row."""
        yield from self.stated_cuts(form)
        steps = {abs(t) for t in form.terms.values()}
        steps.update([gcd(a, b) for a in steps for b in steps])
        for step in sorted(steps, reverse=True):
            a, b = form.split(step)
            if not a.terms or not b.terms:
                continue
            low, high = self.an.interval(b)
            if low is not None and high is not None and high - low < step:
                yield a, b
        yield from self.symbolic_cuts(form)

    def symbolic_cuts(self, form: Linear) -> Iterator[tuple[Linear, Linear]]:
        """The same with a symbolic g: i * n + j with j in [0, n)."""
        for atom in form.terms:
            for size in factors(atom) if isinstance(atom, BinOp) and atom.op == "*" else ():
                if _mentions(size, self.extents):
                    continue
                a, b = _split_by(form, size)
                bound = Linear({size: 1}, -1).minus(b)
                if b.terms and nonnegative(self.an, b) and nonnegative(self.an, bound):
                    yield a, b

    def stated_cuts(self, form: Linear) -> Iterator[tuple[Linear, Linear]]:
        """The same with a B that is stated to be in a range, as by the condition of rows that are
        shifted: 32 * t + (8 * i + j - s % 8) with 8 * i + j - s % 8 in [0, 32), where s is known.
        """
        floors = self.an.facts.floors
        for part, low in floors.items():
            opposite = floors.get(frozenset([(atom, -coef) for atom, coef in part]))
            if opposite is None:
                continue
            b = Linear({atom: coef for atom, coef in part if not self.has(atom)})
            a = form.minus(b)
            if b.terms and a.terms and form.is_multiple_part(b, 1) and -opposite - low < a.factor():
                yield a, b

    def joined(self) -> list[Linear]:
        """Values all of whose digits are known by now, as new sums."""
        digits: dict[Expr, list[tuple[int, int | None]]] = {}
        found: list[Linear] = []
        for atom in self.atoms:
            base, divisor, extent = digit_parts(atom)
            if base is not atom:
                digits.setdefault(base, []).append((divisor, extent))
                whole, divisor, _ = whole_digit(atom)
                if whole is not base:
                    digits.setdefault(whole, []).append((divisor, extent))
            elif isinstance(atom, BinOp) and atom.op == "//":
                if BinOp("%", atom.a, atom.b) in self.atoms and not self.has(atom.a):
                    found.append(plain_form(atom.a))
        for base, parts in digits.items():
            if not self.has(base) and self.complete(base, parts):
                found.append(plain_form(base))
        for form in found:
            if len(form.terms) == 1:
                self.atoms[next(iter(form.terms))] = None
        return [form for form in found if len(form.terms) > 1]

    def unmasked(self) -> list[Linear]:
        """What follows from an exclusive or: its other operand where one is known, and by
        themselves the bits that only one of them can have."""
        found: list[Linear] = []
        for atom in self.atoms:
            if not isinstance(atom, BinOp) or atom.op != "^":
                continue
            sides = plain_form(atom.a), plain_form(atom.b)
            for side, other in (sides, sides[::-1]):
                if self.tells(side):
                    found.append(other)
            wide = wide_and_narrow(self.an, atom)
            if wide is not None:
                cut = Linear({}, wide[1])
                found += [self.an.divmod(op, plain_form(atom), cut) for op in ("//", "%")]
        return [form for form in found if not self.fixes(form)]

    def tells(self, form: Linear) -> bool:
        """Whether a sum is fixed, its terms possibly as parts of larger digits that are."""
        return all(
            self.has(atom)
            or any(_contains(digit_parts(known), digit_parts(atom)) for known in self.atoms)
            for atom in form.terms
        )

    def complete(self, base: Expr, parts: list[tuple[int, int | None]]) -> bool:
        """Whether digits (divisor, extent) of `base` leave no gap from 1 to its largest value."""
        low, high = self.an.interval(plain_form(base))
        position = 1
        while low is None or low < 0 or high is None or high >= position:
            reached = self.next_position(plain_form(base), parts, position)
            if reached is None or reached == position:
                return reached is None
            position = reached
        return True

    def next_position(
        self, base: Linear, parts: list[tuple[int, int | None]], position: int
    ) -> int | None:
        """How far the digits of `base` from `position` on are known; None if all are.

        Where no digit starts there, base // position or a part of it may be written otherwise.
        """
        for divisor, extent in parts:
            if position % divisor == 0:
                if extent is None:
                    return None
                if divisor * extent > position and divisor * extent % position == 0:
                    return divisor * extent
        rest = self.an.divmod("//", base, Linear({}, position))
        if self.fixes(rest):
            return None
        for divisor, _ in parts:
            if divisor > position and divisor % position == 0:
                for step in _steps(rest, divisor // position):
                    if self.fixes(self.an.divmod("%", rest, Linear({}, step))):
                        return position * step
        return position

    def fixes(self, form: Linear) -> bool:
        return all(self.has(atom) or self.covered(atom) for atom in form.terms)

    def covered(self, atom: Expr) -> bool:
        """Whether several known digits together are that one: of x % 4 those are x // 2 % 2 and
        x % 2, of x // 4 those are x // 4 % 3 and x // 12."""
        base, position, extent = digit_parts(atom)
        if base is atom:
            return False
        end = None if extent is None else position * extent
        known = [parts for parts in map(digit_parts, self.atoms) if parts[0] is base]
        while end is None or position < end:
            reached = position
            for _, divisor, size in known:
                if position % divisor == 0:
                    if size is None:
                        return True
                    if divisor * size % position == 0:
                        reached = max(reached, divisor * size)
            if reached == position:
                return False
            position = reached
        return position % end == 0


def _steps(form: Linear, whole: int) -> list[int]:
    """Lengths of digits that a sum may be written in below `whole`, which comes first: (16 * i + j)
    // 4 % 7 is 4 * i + j // 4 at 7, and no part of the same sum any more."""
    shared = {gcd(whole, scale) for scale in form.terms.values()} - {1, whole}
    return [whole, *sorted(shared, reverse=True)]


def _split_by(form: Linear, size: Expr) -> tuple[Linear, Linear]:
    """(A, B) with form = size * A + B, where B has the terms without the factor `size`."""
    a: dict[Expr, int] = {}
    b: dict[Expr, int] = {}
    for atom, coef in form.terms.items():
        parts = factors(atom)
        place = next((n for n, part in enumerate(parts) if part is size), None)
        if place is None or len(parts) == 1:
            b[atom] = coef
        else:
            a[product(parts[:place] + parts[place + 1 :])] = coef
    return Linear(a), Linear(b)
