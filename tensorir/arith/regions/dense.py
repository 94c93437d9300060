"""Whether indices take all values of a box while some variables run, without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.digits import Parts, digits_of_sums
from tensorir.arith.linear import Linear, to_expr
from tensorir.arith.regions.iter_map import Digit, bound_in, decompose, determines_all
from tensorir.arith.regions.region import relax
from tensorir.expr import Expr, ExprLike, Var, convert, int_value
from tensorir.visit import variables


def is_dense(indices: Sequence[Expr], extents: Mapping[Var, ExprLike], analyzer: Analyzer) -> bool:
    """Whether `indices` take all values of a box while the variables of `extents` run."""
    key = is_dense, *indices, *extents.items()  # asked again for each dimension, and by each pass
    found: bool | None = analyzer.remembered.get(key)
    if found is None:
        found = analyzer.remembered[key] = _is_dense(indices, extents, analyzer)
    return found


def _is_dense(indices: Sequence[Expr], extents: Mapping[Var, ExprLike], analyzer: Analyzer) -> bool:
    every: list[Digit] = []
    for index in indices:
        found = decompose(index, extents, analyzer)
        if found is None:
            joined = _with_sums_joined(indices, extents, analyzer)
            if joined is not None:
                return is_dense(*joined)
            return _fills_its_box(indices, extents, analyzer)
        if not _has_no_gaps(found[0]):
            return False
        every += found[0]
    return not _overlap(every) and not _incomplete(every, extents, analyzer)


def _fills_its_box(
    indices: Sequence[Expr], extents: Mapping[Var, ExprLike], analyzer: Analyzer
) -> bool:
    """Whether different points of `extents` have different indices, in a box of as many places."""
    used = frozenset[Var]().union(*map(variables, indices)) & extents.keys()
    points = [int_value(convert(extents[var])) for var in used]
    spans = [relax(index, extents, analyzer) for index in indices]
    places = [None if span is None else int_value(span.extent) for span in spans]
    if None in points or None in places:
        return False
    many, size = (prod([n or 0 for n in found]) for found in (points, places))
    return many == size and determines_all(indices, used, extents, analyzer)


def _with_sums_joined(
    indices: Sequence[Expr], extents: Mapping[Var, ExprLike], analyzer: Analyzer
) -> tuple[Sequence[Expr], Mapping[Var, ExprLike], Analyzer] | None:
    """`indices` with a variable in the place of each sum of which quotients and remainders are
    taken, if it takes all values from 0 up to some number, and its variables, or digits of them,
    are used there only. What conditions leave out otherwise than at the end is for the caller to
    know. None if there is no such sum.

    Loops that were made one and split again leave (i * 5 + j) // 4 and (i * 5 + j) % 4.
    """
    an = bound_in(extents, analyzer)
    atoms = [atom for index in indices for atom in an.linear(index).terms]
    parts = digits_of_sums(an, atoms)
    sums = dict.fromkeys(base for base, _, _ in parts.values() if not isinstance(base, Var))
    wanted: dict[Expr, Expr] = {}
    sizes: dict[Var, ExprLike] = {}
    for base in sums:
        found = decompose(base, extents, an)
        inside = variables(base) & extents.keys()
        others = [a for a in atoms if parts[a][0] is not base and variables(a) & inside]
        beside = [decompose(atom, extents, an) for atom in others]
        if found is None or found[1] or None in beside:
            continue
        if variables(base) - inside:  # from where on is not known
            continue
        digits = found[0]
        every = [*digits, *(digit for each in beside if each for digit in each[0])]
        most = [d.scale * (d.extent - 1) for d in digits if d.extent is not None and d.scale > 0]
        if len(most) < len(digits) or not _has_no_gaps(digits):
            continue
        if not _overlap(every) and not _incomplete(every, extents, an):
            joined = Var(f"joined_{len(sizes)}", base.dtype)
            wanted |= {a: _digit(joined, part) for a, part in parts.items() if part[0] is base}
            high = an.interval(an.linear(base))[1]  # where a condition holds, say
            sizes[joined] = min(sum(most), sum(most) if high is None else high) + 1
    if not wanted:
        return None
    changed = [_with_atoms(an.linear(index), wanted) for index in indices]
    return changed, {**extents, **sizes}, an


def _with_atoms(form: Linear, wanted: Mapping[Expr, Expr]) -> Expr:
    terms: dict[Expr, int] = {}
    for atom, factor in form.terms.items():
        new = wanted.get(atom, atom)
        terms[new] = terms.get(new, 0) + factor
    return to_expr(Linear({atom: factor for atom, factor in terms.items() if factor}, form.const))


def _digit(whole: Var, part: Parts) -> Expr:
    _, divisor, extent = part
    value: Expr = whole if divisor == 1 else whole // divisor
    return value if extent is None else value % extent


def _incomplete(
    digits: Sequence[Digit], extents: Mapping[Var, ExprLike], analyzer: Analyzer
) -> bool:
    """Whether some values of the digits of one variable do not meet: i // 4 and i % 4 where i has
    18 values."""
    variables_ = [digit.var for digit in digits]
    if len(set(variables_)) == len(variables_):
        return False
    an = bound_in(extents, analyzer)
    for var in set(variables_):
        found = [digit for digit in digits if digit.var is var]
        top = max(found, key=lambda d: d.divisor)
        high = an.range(var)[1]
        if len(found) == 1 or top.extent is None or high is None:
            continue
        if top.divisor * top.extent > high + 1:
            return True
    return False


def _has_no_gaps(digits: Iterable[Digit]) -> bool:
    reach = 0
    for digit in sorted(digits, key=lambda d: abs(d.scale)):
        if abs(digit.scale) > reach + 1:
            return False
        if digit.extent is not None:  # else it may have one value only
            reach += abs(digit.scale) * (digit.extent - 1)
    return True


def _overlap(digits: Iterable[Digit]) -> bool:
    """Whether two of them share a part of one variable, so that not all values meet."""
    end: dict[Var, int | None] = {}
    for digit in sorted(digits, key=lambda d: d.divisor):
        if digit.extent == 1:
            continue
        if digit.var in end:
            last = end[digit.var]
            if last is None or digit.divisor < last:
                return True
        end[digit.var] = None if digit.extent is None else digit.divisor * digit.extent
    return False
