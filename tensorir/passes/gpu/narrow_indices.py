"""narrow_indices: places in memory are computed in 32 bits, where all of them provably fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.arith.regions.region import relax
from tensorir.expr import (
    COMPARISONS,
    BinOp,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    all_of,
    binary,
    cast,
    const,
    int_value,
    select,
)
from tensorir.func import PrimFunc
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import is_kernel
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Exchange, Extern, For, If, Let, Stmt, Store, replace
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import map_children, map_own_exprs, rebuild, variables, walk

NARROW = "int32"
LOW, HIGH = dt.int_limits(NARROW)
MOST = 8
"""Conditions on sizes that are asked at a call; of more, 64 bits."""

ASKED = 16
"""Conditions of which it is asked whether they follow from several others; of more, 64 bits."""

ARITHMETIC = ("+", "-", "*", "//", "%", "min", "max", "^", "&", "|")


def narrow_indices(func: PrimFunc) -> PrimFunc:
    """Give the loops of kernels, indices and comparisons of such the type int32.

    rewrite:
        for b in thread("blockIdx.x", 4):            for b (int32) in ...
            for t in thread("threadIdx.x", 64):          for t (int32) in ...
                D[b * 64 + t] = A[b * 64 + t]    ->          D[b * 64 + t] = A[b * 64 + t]

    An index is narrowed if it and everything in it is in range for all that the loops do; others
    are computed in 64 bits from what is narrow. Where that depends on the sizes of a call, there
    are two kernels, and the host chooses. Values that are no places keep their types. GPUs have no
    arithmetic of 64 bits: it takes twice the registers and several instructions. Requires that all
    passes ran that look at indices: arithmetic is about 64 bits.
    """
    return with_body(func, _visit(func.body, function_analyzer(func)))


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    if is_kernel(stmt):
        return _kernels(stmt, analyzer)
    return map_children(stmt, lambda child: _visit(child, analyzer))


def _kernels(kernel: Stmt, analyzer: Analyzer) -> Stmt:
    """The kernel, or one for sizes for which everything fits and one for all others."""
    always = _Narrow(kernel, analyzer, None)
    loops = {s.var: s.extent for s in walk(kernel) if isinstance(s, For)}
    if all(int_value(extent) is not None for extent in loops.values()):
        return always.stmt(kernel)
    mostly = _Narrow(kernel, analyzer, loops)
    narrow = mostly.stmt(kernel)
    conditions = _strongest(mostly.needed, analyzer)
    if not conditions:
        return always.stmt(kernel)
    return If(all_of(*conditions), narrow, always.stmt(kernel))


def _strongest(conditions: Iterable[Expr], analyzer: Analyzer) -> list[Expr]:
    """The conditions that do not follow from the others; none where more than `MOST` are left.

    Two are compared by their difference. Proofs from several take the longer the more is assumed:
    they are tried for at most `ASKED`.
    """
    largest: list[Expr] = []
    for c in sorted(set(conditions), key=lambda c: (-len(repr(c)), repr(c))):
        if not any(_is_more(other, c, analyzer) for other in largest):
            largest = [*(other for other in largest if not _is_more(c, other, analyzer)), c]
    kept: list[Expr] = []
    for c in largest if len(largest) <= ASKED else ():
        if not analyzer.assuming(all_of(*kept)).prove(c):
            kept.append(c)
        if len(kept) > MOST:
            return []
    return kept


def _is_more(one: Expr, other: Expr, analyzer: Analyzer) -> bool:
    """Whether a size that is to fit is at least another one."""
    ends = [c.a for c in (one, other) if isinstance(c, BinOp) and c.op == "<="]
    low = analyzer.bounds(ends[0] - ends[1])[0] if len(ends) == 2 else None
    return low is not None and low >= 0


class _Narrow:
    """A kernel with narrow indices. Where `loops` are given, what is in range only for some sizes
    is narrowed too, and `needed` says for which."""

    def __init__(self, kernel: Stmt, analyzer: Analyzer, loops: Mapping[Var, Expr] | None) -> None:
        self.analyzer = analyzer
        self.loops = loops
        self.needed: dict[Expr, None] = {}
        self.ranges: dict[Expr, tuple[int, int] | None] = {}
        for s in walk(kernel):
            if isinstance(s, For):
                known, most = self.ranges.get(s.var, (0, 0)), s.const_extent
                if known is None or most is None:
                    self.ranges[s.var] = None
                else:
                    self.ranges[s.var] = 0, max(known[1], most - 1)
        self.fit: dict[Expr, bool] = {}
        self.memo: dict[Expr, Expr] = {}
        self.let = {s.var for s in walk(kernel) if isinstance(s, Let)}
        self.vars: Mapping[Var, Var] = {
            s.var: Var(s.name, NARROW)
            for s in walk(kernel)
            if isinstance(s, For)
            and s.var.dtype == dt.INDEX
            and self.in_range(s.var)
            and self.in_range(s.extent)
        }

    def in_range(self, e: Expr) -> bool:
        quick = self.quick(e)
        if quick is not None and quick[0] >= LOW and quick[1] <= HIGH:
            return True
        low, high = self.analyzer.bounds(e)
        if low is not None and high is not None:
            return low >= LOW and high <= HIGH
        if self.loops is None or low is None or low < LOW:
            return False
        part = relax(e, self.loops, self.analyzer)
        if part is None:
            return False
        end = self.analyzer.simplify(part.low + part.extent)
        if variables(end) & self.loops.keys() or end.has_loads:
            return False
        self.needed[binary("<=", end, const(HIGH + 1))] = None
        return True

    def quick(self, e: Expr) -> tuple[int, int] | None:
        """The range of an index as each operation by itself shows it."""
        if e not in self.ranges:
            self.ranges[e] = self._quick(e)
        return self.ranges[e]

    def _quick(self, e: Expr) -> tuple[int, int] | None:
        if isinstance(e, Const):
            return int(e.value), int(e.value)
        if not isinstance(e, BinOp) or e.op not in ("+", "-", "*", "//", "%"):
            return None
        a, b = self.quick(e.a), self.quick(e.b)
        if a is None or b is None:
            return None
        if e.op == "+":
            return a[0] + b[0], a[1] + b[1]
        if e.op == "-":
            return a[0] - b[1], a[1] - b[0]
        if e.op == "*":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        if b[0] != b[1] or b[0] <= 0:
            return None
        return (a[0] // b[0], a[1] // b[0]) if e.op == "//" else (0, b[0] - 1)

    def stmt(self, stmt: Stmt) -> Stmt:
        made = map_children(stmt, self.stmt)
        if isinstance(stmt, For) and isinstance(made, For):
            narrow = self.vars.get(stmt.var)
            if narrow is None:
                return replace(made, extent=self.value(stmt.extent))
            if stmt.thread is not None:  # the host computes how many there are
                return replace(made, var=narrow)
            return replace(made, var=narrow, extent=self.index(stmt.extent))
        if isinstance(made, (Store, Exchange)):
            indices = tuple([self.index(i) for i in made.indices])
            if isinstance(made, Store):
                return Store(made.buffer, indices, self.value(made.value))
            source = self.index(made.source)
            return replace(made, indices=indices, value=self.value(made.value), source=source)
        if isinstance(made, Let):
            return replace(made, value=self.value(made.value))
        if isinstance(made, Extern):
            return map_own_exprs(made, self.value)
        return map_own_exprs(made, self.value)

    def fits(self, e: Expr) -> bool:
        """Whether `e`, an index, and all indices in it can be computed in 32 bits."""
        found = self.fit.get(e)
        if found is None:
            found = self.fit[e] = self._fits(e)
        return found

    def _fits(self, e: Expr) -> bool:
        if isinstance(e, Const):
            return bool(LOW <= e.value <= HIGH)
        if isinstance(e, Var):
            return e in self.vars or (e not in self.let and self.in_range(e))
        if isinstance(e, Ramp):
            last = e.base + e.stride * (e.lanes - 1)
            return self.fits(e.base) and self.fits(e.stride) and self.in_range(last)
        if isinstance(e, Broadcast):
            return self.fits(e.a)
        if isinstance(e, Cast):
            return e.a.dtype in (NARROW, "int16", "int8", "uint16", "uint8", "bool")
        if isinstance(e, Select):
            return self.fits(e.a) and self.fits(e.b)
        if not isinstance(e, BinOp) or e.op not in ARITHMETIC:
            return False
        return self.fits(e.a) and self.fits(e.b) and self.in_range(e)

    def index(self, e: Expr) -> Expr:
        """A place: in 32 bits where that is possible."""
        return self.narrow(e) if self.fits(e) else self.value(e)

    def narrow(self, e: Expr) -> Expr:
        """`e`, which fits, in 32 bits."""
        if isinstance(e, Const):
            return Const(e.value, NARROW)
        if isinstance(e, Var):
            return self.vars[e] if e in self.vars else cast(NARROW, e)
        if isinstance(e, Ramp):
            return Ramp(self.narrow(e.base), self.narrow(e.stride), e.lanes)
        if isinstance(e, Broadcast):
            return Broadcast(self.narrow(e.a), e.lanes)
        if isinstance(e, Cast):
            return cast(NARROW, self.value(e.a))
        if isinstance(e, Select):
            return select(self.value(e.cond), self.narrow(e.a), self.narrow(e.b))
        assert isinstance(e, BinOp)
        return binary(e.op, self.narrow(e.a), self.narrow(e.b))

    def value(self, e: Expr) -> Expr:
        """`e` with its own type, of narrow loops and indices."""
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._value(e)
        return found

    def _value(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return cast(e.dtype, self.vars[e]) if e in self.vars else e
        if isinstance(e, Load):
            return Load(e.buffer, tuple([self.index(i) for i in e.indices]))
        if isinstance(e, BinOp) and e.op in COMPARISONS and e.a.dtype == dt.INDEX:
            if self.fits(e.a) and self.fits(e.b):
                return binary(e.op, self.narrow(e.a), self.narrow(e.b))
        if isinstance(e, Cast) and e.a.dtype == dt.INDEX and self.fits(e.a):
            return cast(e.dtype, self.narrow(e.a))
        if isinstance(e, (Ramp, Broadcast)) and dt.element(e.dtype) == dt.INDEX:
            parts = tuple([self.value(part) for part in e.operands])
            return rebuild(e, parts)
        before = e.operands
        after = tuple([self.value(part) for part in before])
        return e if all(a is b for a, b in zip(after, before)) else rebuild(e, after)
