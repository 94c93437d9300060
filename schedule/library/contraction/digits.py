"""Which digits of its variables a block reads an operand at: a copy may have these in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from schedule.library.contraction.axes import Contraction, Digit
from tensorir import Analyzer, Block, Expr, Load, Var, const, int_value, slope, substitute


def axes_read(node: Block, c: Contraction, load: Load, analyzer: Analyzer) -> frozenset[int]:
    """The axes at whose values alone an operand is read: all their digits are parts of its place,
    so that a copy may have them anywhere."""
    own = digits_read(node, c, load, analyzer)
    return frozenset(n for n, axis in enumerate(c.axes) if all(d in own for d in axis.digits))


def digits_read(node: Block, c: Contraction, load: Load, analyzer: Analyzer) -> dict[Digit, Digit]:
    """The digits that dimensions of an operand are, by themselves or as whole variables, as digits
    of these dimensions; of dimensions that have a digit in common the one with most of them tells
    of all of its, and a copy keeps the others. `node` is the contraction's block."""
    iters = node.iters
    for it in iters:  # an index may be a variable only where these end
        analyzer.bind(it.var, it.extent)
    units: dict[Var, Expr] = {it.var: const(0) for it in iters if int_value(it.extent) == 1}
    dims: list[dict[Digit, Digit]] = []
    for at, index in enumerate(load.indices):
        plain = analyzer.simplify(substitute(index, units))
        here = _digits_of_sum(plain, at, c, [it.var for it in iters], analyzer)
        for run in _runs(c):
            var = iters[run[0].place].var
            if var in plain.variables and plain in _values_of(run, var, analyzer):
                low = run[-1].lower
                own = (replace(d, place=at, lower=d.lower // low, top=d is run[0]) for d in run)
                here.update(zip(run, own))
        dims.append(here)
    found: dict[Digit, Digit] = {}
    for here in sorted(dims, key=len, reverse=True):
        found.update(here if found.keys().isdisjoint(here) else {})
    return found


def _runs(c: Contraction) -> list[list[Digit]]:
    """Digits of a variable that follow each other, outermost first, one or several of them."""
    found: list[list[Digit]] = []
    digits = sorted((d for axis in c.axes for d in axis.digits), key=lambda d: (d.place, -d.lower))
    for first, digit in enumerate(digits):
        mine = [d for d in digits[first:] if d.place == digit.place]
        found += [mine[: n + 1] for n in range(len(mine))]
    return found


def _values_of(run: Sequence[Digit], var: Var, analyzer: Analyzer) -> set[Expr]:
    """Neighbouring digits of a variable as one number: as a part of it, or as a sum of them."""
    if len(run) == 1 and run[0].whole:
        return {var}
    low, size = run[-1].lower, None if run[0].top else prod(digit.extent or 1 for digit in run)
    total: Expr = const(0)
    for digit in run:
        part = var // digit.lower
        total = total + (part if digit.top else part % (digit.extent or 1)) * (digit.lower // low)
    whole = var // low if size is None else var // low % size
    return {analyzer.simplify(whole), analyzer.simplify(total)}


def _digits_of_sum(
    index: Expr, at: int, c: Contraction, own: Sequence[Var], analyzer: Analyzer
) -> dict[Digit, Digit]:
    """The whole variables that an index is made of, such as `v * 4 + w` with w below 4."""
    whole = [d for a in c.axes for d in a.digits if d.whole and own[d.place] in index.variables]
    steps = {d: slope(index, own[d.place], analyzer) or 0 for d in whole}
    parts = sorted(whole, key=lambda d: steps[d])
    lower = 1
    value: Expr = const(0)
    found: dict[Digit, Digit] = {}
    for digit in parts:
        top = digit is parts[-1]
        if steps[digit] != lower or digit.extent is None and not top:
            return {}
        found[digit] = Digit(at, lower, digit.extent, top)
        value = value + own[digit.place] * lower
        lower *= digit.extent or 1
    return found if len(parts) > 1 and analyzer.simplify(index - value) is const(0) else {}
