"""Analyzer: what is known about the variables of a program, and what follows from it.

Only arithmetic of the index type (int64) is taken as that of the unbounded integers; narrower
types wrap, and for them only rules that hold under wrap-around are used. What is said about an
expression holds wherever all bound variables have a value and every divisor differs from zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tensorir import dtype as dt
from tensorir.arith import bounds as bounding
from tensorir.arith import divmod as dividing
from tensorir.arith.assume import assume, unsaid
from tensorir.arith.choices import looks
from tensorir.arith.compare import difference
from tensorir.arith.digits import independent
from tensorir.arith.exclusive_or import exclusive_or
from tensorir.arith.exhaustive import reached
from tensorir.arith.facts import Facts, learn, tighten
from tensorir.arith.interval import UNBOUNDED, Range, intersect
from tensorir.arith.linear import Linear, of_atom, to_expr
from tensorir.arith.logic import (
    negated,
    parts_of,
)
from tensorir.arith.recombine import recombine
from tensorir.arith.shared import shared
from tensorir.arith.simplify import linear_form, simplified
from tensorir.expr import (
    TRUE,
    BinOp,
    Const,
    Expr,
    ExprLike,
    Load,
    Var,
    all_of,
    conjuncts,
    convert,
    int_value,
)
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import walk_exprs

_NESTING = 5
"""Conditions assumed inside one another; deeper ones are not made use of."""


class Analyzer:
    """Simplifies, bounds and proves integer expressions over variables of known range."""

    __slots__ = (
        "_assumed",
        "_before",
        "_branches",
        "_exprs",
        "_level",
        "_plain",
        "_quick",
        "_ranges",
        "_searches",
        "facts",
        "forms",
        "remembered",
    )

    def __init__(self, extents: Mapping[Var, ExprLike] | None = None) -> None:
        """Every variable of `extents`, outermost first, takes values in [0, extent)."""
        self.facts = Facts()
        self.forms: dict[Expr, Linear] = {}
        self._exprs: dict[Expr, Expr] = {}
        self._ranges: dict[Expr, Range] = {}
        self._before: dict[Expr, Range] = {}
        self._branches: dict[tuple[Expr, bool, bool], Analyzer] = {}
        self._assumed: dict[tuple[Expr, bool], Analyzer] = {}
        self._quick: dict[Expr, Range] = {}
        self._searches: list[bool] = []
        self._level = 0
        self._plain: bool | None = None
        self.remembered: dict[Any, Any] = {}
        """Answers to other questions about expressions, by all that is asked."""
        self.bind_all(extents or {})

    def bind_all(self, extents: Mapping[Var, ExprLike]) -> None:
        """`bind` for each of some variables, outermost first."""
        facts, stale = self.facts, False
        for var, extent in extents.items():
            size = convert(extent)
            value = int_value(size)
            if value is None or var in facts.order:
                self.bind(var, size)
                stale = False
                continue
            facts.order[var] = len(facts.order)
            facts.ranges[var] = (0, value - 1)
            facts.extents[var] = size
            stale = True
        if stale:  # what was concluded is forgotten once for all of them
            facts.points = ()
            self._forget()

    def bind(self, var: Var, extent: ExprLike) -> None:
        """State that `var` is in [0, extent), forgetting what an earlier binding said of it.

        What followed for other variables stays: for another scope, bind in a copy.
        """
        size = convert(extent)
        value = int_value(size)
        if value is None:
            self.bind_range(var, 0, size - 1)
        else:
            self._enter(var)
            self.facts.ranges[var] = (0, value - 1)
        self.facts.extents[var] = size

    def binds(self, var: Var, extent: ExprLike) -> bool:
        """Whether `var` was last bound to [0, extent)."""
        return self.facts.extents.get(var) is convert(extent)

    def bind_range(self, var: Var, low: ExprLike | None, high: ExprLike | None) -> None:
        """State that low <= var <= high, where None means unbounded."""
        self._enter(var)
        for limit, sign in ((low, 1), (high, -1)):
            if limit is None:
                continue
            end = convert(limit)
            if isinstance(end, Const):
                value = int(end.value)
                tighten(self, var, (value, None) if sign > 0 else (None, value))
            elif var.dtype == end.dtype == dt.INDEX:
                learn(self, Linear({var: sign}).plus(self.linear(end), -sign))

    def bind_sizes(self, sizes: Iterable[tuple[Var, int | None]]) -> None:
        """State the least value of each of some sizes, where None means that there is none."""
        for size, least in sizes:
            self.bind_range(size, least, None)
            self.facts.sizes[size] = least

    def without(self, loops: Collection[Var]) -> Analyzer:
        """What is known of sizes and of the other loops where these may have no iterations, without
        what was assumed: that one runs tells of sizes."""
        other = Analyzer()
        other.bind_sizes(self.facts.sizes.items())
        other.bind_all({v: n for v, n in self.facts.extents.items() if v not in loops})
        return other

    def assuming(self, cond: Expr, *, memory: bool = False) -> Analyzer:
        """A copy that also knows that `cond`, a conjunction, holds; parts of no use are ignored.

        A part that reads a buffer is used only with `memory`, for expressions evaluated together
        with `cond`, with no store in between (the two sides of a Select).
        """
        if cond is TRUE:
            return self.copy()
        found = self._assumed.get((cond, memory))
        if found is None:
            found = self._assumed[cond, memory] = self._assume(cond, memory)
        return found.copy()

    def _assume(self, cond: Expr, memory: bool) -> Analyzer:
        other = self.copy()
        cond = unsaid(self, cond)
        assume(other, cond, memory)
        parts = conjuncts(cond)  # each by itself: which of them follow from others is costly to ask
        canonical = [new for part in parts if (new := self.simplify(part)) is not part]
        for part in canonical:
            assume(other, part, memory)
        for part in self._in_light_of_each_other(parts, other, memory):
            assume(other, part, memory)
        return other

    def _in_light_of_each_other(
        self, parts: list[Expr], together: Analyzer, memory: bool
    ) -> list[Expr]:
        """Parts about digits, as they read when the others hold: f // 2 < 1 makes f % 2 be f. What
        is the same digit to who knows all parts `together` is so to who knows some of them."""
        digits = [(n, part, found) for n, part in enumerate(parts) if (found := _digits(part))]
        if len(digits) < 2:
            return []
        digits = [
            (n, part, found)
            for n, part, found in digits
            if any(together.simplify(e) is not self.simplify(e) for e in found)
        ]
        found = []
        for n, part, _ in digits:
            related = self.related(part, parts[:n] + parts[n + 1 :])
            known = self.copy() if related else self
            if related:
                assume(known, all_of(*related), memory)
            found.append(known.simplify(part))
        return [new for new, (_, part, _) in zip(found, digits) if new is not part]

    def copy(self) -> Analyzer:
        """An independent analyzer that knows the same.

        Until one of the two learns something new, what either concludes serves both.
        """
        other = object.__new__(Analyzer)
        other.facts = self.facts.copy()
        other.forms, other._exprs = self.forms, self._exprs
        other._ranges, other._branches = self._ranges, self._branches
        other._assumed = self._assumed
        other._before = self._before
        other._quick = self._quick
        other._searches = self._searches
        other.remembered = self.remembered
        other._level, other._plain = self._level, self._plain
        return other

    def simplify(self, e: Expr) -> Expr:
        """An expression of the same value; the same object if there is nothing to simplify."""
        found = self._exprs.get(e)
        if found is None:
            found = self._exprs[e] = shared(self, simplified, e)
            if found is not e:
                if not self._is_settled(e, found):
                    found = self._exprs[e] = self.simplify(found)
                self._exprs[found] = found
        return found

    def _is_settled(self, e: Expr, found: Expr) -> bool:
        """Whether `found`, to which `e` was simplified, is known to stay as it is."""
        if found.dtype == dt.INDEX:
            terms = self.linear(e).terms
            in_order = not terms or next(iter(terms.values())) > 0
            return in_order and all([isinstance(atom, Var) for atom in terms])
        if isinstance(found, BinOp):
            return dt.is_float(found.dtype)
        return isinstance(found, (Load, Ramp, Broadcast))

    def bounds(self, e: Expr) -> Range:
        """The smallest and largest value found for an integer expression; None if unbounded."""
        if e.dtype == dt.INDEX:
            return self.interval(self.linear(e))
        return UNBOUNDED if dt.is_float(e.dtype) else self.range(self.simplify(e))

    def prove(self, cond: ExprLike) -> bool:
        """Whether `cond` is known to hold always. False means not known, not the opposite."""
        if not isinstance(cond, Expr):
            return bool(cond)
        for part in parts_of(cond, "and"):
            form = self.margin(part)
            if form is not None and bounding.nonnegative(self, form):
                continue
            if self._is_bound(part):
                continue
            if self.simplify(part) is not TRUE:
                return False
        return True

    def _is_bound(self, cond: Expr) -> bool:
        """Whether a variable is below the extent that it was bound with, whatever that is."""
        if not isinstance(cond, BinOp) or cond.op != "<" or not isinstance(cond.a, Var):
            return False
        return self.binds(cond.a, cond.b)

    def divides(self, e: Expr, k: int) -> bool:
        """Whether the integer expression `e` is always a multiple of `k`; `k` is not zero."""
        if e.dtype != dt.INDEX:
            low, high = self.bounds(e)
            return low is not None and low == high and low % k == 0
        rest = self.divmod("%", self.linear(e), Linear({}, k))
        return not rest.terms and not rest.const

    def decide(self, cond: Expr) -> bool | None:
        """True or False where `cond` is known, else None."""
        found = self.simplify(cond)
        return bool(found.value) if isinstance(found, Const) else None

    # What follows serves the other files of this package.

    def linear(self, e: Expr) -> Linear:
        """The simplified linear form of an expression of the index type."""
        found = self.forms.get(e)
        if found is None:
            found = self.forms[e] = shared(self, linear_form, e)
        return found

    def margin(self, cond: Expr) -> Linear | None:
        """What is not negative just where `cond` holds; None but for an order of the index type."""
        if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != dt.INDEX:
            return None
        form = difference(self, cond)
        return form.shifted(-1) if form is not None and cond.op == "<" else form

    def recombined(self, form: Linear) -> Linear:
        """`form` with quotients and remainders of one value joined."""
        for atom in form.terms:
            if isinstance(atom, BinOp) and atom.op in ("//", "%"):
                return recombine(self, form)
        return form

    def divmod(self, op: str, x: Linear, c: Linear) -> Linear:
        """x // c or x % c."""
        if c.terms:
            symbolic = dividing.divide_symbolic if op == "//" else dividing.remainder_symbolic
            return symbolic(self, x, c)
        if not c.const:
            return of_atom(BinOp(op, to_expr(x), to_expr(c)))
        if c.const < 0:
            result = self.divmod(op, x.scaled(-1), c.scaled(-1))
            return result if op == "//" else result.scaled(-1)
        apply = dividing.divide if op == "//" else dividing.remainder
        return apply(self, x, c.const)

    def exclusive_or(self, *parts: Linear) -> Linear:
        """a ^ b ^ ..."""
        return self.recombined(exclusive_or(self, *parts))

    def range(self, atom: Expr) -> Range:
        """The interval of one atom."""
        if isinstance(atom, Var) and atom.dtype == dt.INDEX:
            return self.facts.ranges.get(atom, UNBOUNDED)
        found = self._ranges.get(atom)
        if found is None:
            ranges = self._ranges
            if self.searching:
                ranges = self._quick
                found = ranges.get(atom)
                if found is not None:
                    return found
            # A fact may lead back to the same atom; then what is stated of it has to do.
            ranges[atom] = self.facts.range(atom)
            found = ranges[atom] = shared(self, bounding.atom_range, atom)
        return found

    @property
    def knows_ranges_alone(self) -> bool:
        """Whether it knows the ranges of variables and nothing else."""
        if self._plain is None:
            facts = self.facts
            others = facts.floors or facts.by_atom or facts.truths or self._level
            self._plain = not others and all([atom.is_variable for atom in facts.ranges])
        return self._plain

    @property
    def searching(self) -> bool:
        """Whether a search for a bound is going on; a search starts no other one."""
        return bool(self._searches)

    @contextmanager
    def one_search(self) -> Iterator[None]:
        self._searches.append(True)
        try:
            yield
        finally:
            self._searches.pop()

    def range_before(self, atom: Expr) -> Range:
        """The interval of one atom, if it has choices as they were seen before the last fact.

        Each fact would have every side of them looked at again, and facts come in dozens.
        """
        found = self._before.get(atom) if looks(atom) else None
        return self.range(atom) if found is None else intersect(found, self.facts.range(atom))

    def lower(self, form: Linear) -> int | None:
        """The best constant lower bound found, or None."""
        return bounding.lower(self, form)

    def interval(self, form: Linear) -> Range:
        """Constant bounds of a linear form."""
        if not self.may_refine(form):
            return bounding.plain_interval(self, form)
        low, below = bounding.lower(self, form), bounding.lower(self, form.scaled(-1))
        return low, None if below is None else -below

    @property
    def is_branch(self) -> bool:
        """Whether it serves one side of a choice."""
        return self._level > 0

    def branch(self, cond: Expr, truth: bool = True) -> Analyzer:
        """The analyzer of the side of a choice that is taken where `cond` is `truth`."""
        if self._level >= _NESTING:
            return self
        key = cond, truth, self.searching
        found = self._branches.get(key)
        if found is None:
            found = self.copy()
            found._level += 1
            found.reset()
            assume(found, cond if truth else negated(cond), True)
            self._branches[key] = found
        return found

    def may_refine(self, form: Linear) -> bool:
        """Whether the bounds of a sum may be better than the sum of the bounds."""
        facts = self.facts.by_atom
        for atom in form.terms:
            if atom in facts or not isinstance(atom, Var) and self.is_related(atom, form):
                return not independent(self, form)
        return False

    def is_related(self, atom: Expr, form: Linear) -> bool:
        """Whether a compound atom depends on other terms of `form`, or on facts."""
        facts = self.facts.by_atom
        if atom in facts:
            return True
        own = atom.variables
        if not own.isdisjoint(facts):
            return True
        return any(
            [other is not atom and not own.isdisjoint(other.variables) for other in form.terms]
        )

    def related(self, e: Expr, conditions: list[Expr]) -> list[Expr]:
        """Those of `conditions` that can bear on `e`: variables, or facts and others of them, lead
        from one to the other. All of them, where `e` or one of them reads memory."""
        if e.has_loads or any([cond.has_loads for cond in conditions]):
            return conditions
        facts = [form for forms in self.facts.by_atom.values() for form in forms]
        groups = [frozenset().union(*[atom.variables for atom in form.terms]) for form in facts]
        near = reached(e.variables, [*groups, *[cond.variables for cond in conditions]])
        return [cond for cond in conditions if not cond.variables.isdisjoint(near)]

    def reset(self) -> None:
        """Forget conclusions, because more is known now. Ranges stay true, if not the best."""
        if self._ranges:
            self._before = {**self._before, **self._ranges}
        self.forms, self._exprs, self._ranges, self._quick = {}, {}, {}, {}
        self._branches, self._assumed, self.remembered = {}, {}, {}
        self._plain = None

    def _enter(self, var: Var) -> None:
        if var in self.facts.order:
            self.facts.forget(var)
        self.facts.points = ()
        self.facts.order[var] = len(self.facts.order)
        self._forget()

    def _forget(self) -> None:
        """Forget conclusions, and ranges too: they were of variables that are now others."""
        self.reset()
        self._before = {}


def _digits(e: Expr) -> list[Expr]:
    """The quotients and remainders in an expression."""
    return [n for n in walk_exprs(e) if isinstance(n, BinOp) and n.op in ("//", "%")]
