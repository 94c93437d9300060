"""One expression for all lanes of a vectorized loop.

Padding that a vector reads becomes a load of some of its lanes, known now or at run time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.expr import (
    COMPARISONS,
    TRUE,
    BinOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    binary,
    cast,
    const,
    int_value,
    maximum,
    minimum,
)
from tensorir.passes.vectors.chosen_lanes import ChosenLanes, Wanted
from tensorir.passes.vectors.index_lanes import Remainder, combined, compared, remainder
from tensorir.passes.vectors.masked_tails import REGISTERS
from tensorir.passes.vectors.strides import LEAST, some_lanes
from tensorir.vector_expr import Broadcast, Ramp
from tensorir.visit import certain_loads, children, loads, rebuild, transform, walk_exprs

NARROW = "int32"
"""Integers that processors convert to floats in vectors as wide as those."""


class NotVectorizable(Exception):
    """What was asked for differs between lanes, or may only be evaluated in some of them."""


@dataclass
class Lanes:
    """Lane n stands for the iteration `var` = base + n, for n in [0, count).

    `vectors` are the let variables that hold vectors. Expressions that are the same in all lanes
    stay scalar. Of elements of `masked_bits` bits, the target loads any lanes of a vector. Where
    only the lanes [low, high) are `needed`, `where` is known to hold in these, and others may load
    nothing. The loads `sure` are done in every lane, whatever its choices are.
    """

    var: Var
    base: Expr
    count: int
    analyzer: Analyzer
    masked_bits: frozenset[int] = frozenset()
    needed: tuple[Expr, Expr] | None = None
    where: Expr = TRUE
    sure: frozenset[Load] = frozenset()
    vectors: dict[Var, Var] = field(default_factory=dict)
    memo: dict[Expr, Expr] = field(default_factory=dict)

    def bind(self, var: Var, dtype: str) -> tuple[Lanes, Var]:
        """These lanes in the scope of a let variable whose value has become `dtype`."""
        vector = Var(var.name, dtype)
        vectors = {v: w for v, w in self.vectors.items() if v is not var}
        if vector is not var:
            vectors[var] = vector
        return replace_fields(self, vectors=vectors, memo={}), vector

    def under(self, cond: Expr) -> Lanes:
        """These lanes where `cond`, the same in all of them, holds."""
        return replace_fields(self, analyzer=self.analyzer.assuming(cond), memo={})

    def whole(self, e: Expr) -> Expr:
        """`expr` of something that is evaluated as a whole, by itself."""
        sure = frozenset(certain_loads(e)) if e.has_loads else frozenset()
        return (replace_fields(self, sure=sure, memo={}) if sure else self).expr(e)

    def scalar(self, e: Expr) -> Expr:
        """`e`, which must be the same in all lanes; else NotVectorizable."""
        result = self.expr(e)
        if dt.lanes(result.dtype) > 1:
            raise NotVectorizable
        return result

    def widened(self, e: Expr) -> Expr:
        """`e` as a vector."""
        return e if dt.lanes(e.dtype) > 1 else Broadcast(e, self.count)

    def expr(self, e: Expr) -> Expr:
        """`e` for all lanes: a vector, or a scalar where the lanes agree."""
        done = self.memo.get(e)
        if done is None and dt.lanes(e.dtype) == 1:
            used = e.variables
            if self.var not in used and used.isdisjoint(self.vectors):
                return e
        if done is None:
            done = self.memo[e] = self._expr(e)
        return done

    def _expr(self, e: Expr) -> Expr:
        if e is self.var:
            return Ramp(self.base, Const(1, e.dtype), self.count)
        if isinstance(e, Var):
            return self.vectors.get(e, e)
        if isinstance(e, Select) and dt.lanes((cond := self.expr(e.cond)).dtype) > 1:
            return self._select(e, cond)
        before = children(e)
        parts = tuple([self.expr(c) for c in before])
        if all(dt.lanes(p.dtype) == 1 for p in parts):
            return e if all(a is b for a, b in zip(parts, before)) else rebuild(e, parts)
        if isinstance(e, BinOp):
            found = self._indices(e, *parts)
            return binary(e.op, *map(self.widened, parts)) if found is None else found
        if isinstance(e, Select):
            by_lane = self.widened(parts[0]) if self._is_cheap(e) else parts[0]
            return Select(by_lane, *map(self.widened, parts[1:]))
        if isinstance(e, Load):
            return self._load(e, parts[0])
        if isinstance(e, Cast):
            return self._cast(e, parts[0])
        if isinstance(e, Call):
            wide = tuple(map(self.widened, parts))
            return Call(e.name, wide, dt.with_lanes(e.dtype, self.count))
        if isinstance(e, Not):
            return Not(parts[0])
        raise NotVectorizable

    def _cast(self, e: Cast, a: Expr) -> Expr:
        """Conversions to integers wrap, so that a ramp of indices is a ramp of narrow ones too;
        floats come from integers that hold what the indices can be."""
        wide = dt.with_lanes(e.dtype, self.count)
        if e.a.dtype != dt.INDEX or e.a.has_loads:
            return Cast(wide, a)
        ramp = a if isinstance(a, Ramp) else self.expr(self.analyzer.simplify(e.a))
        stride = int_value(ramp.stride) if isinstance(ramp, Ramp) else None
        if isinstance(ramp, Ramp) and stride is not None:
            if dt.is_int(e.dtype) and abs(stride) * self.count < 1 << 7:
                return Ramp(Cast(e.dtype, ramp.base), Const(stride, e.dtype), self.count)
            if dt.is_float(e.dtype) and self._fits(e.a):
                return Cast(wide, Ramp(cast(NARROW, ramp.base), const(stride, NARROW), self.count))
        found = self._remainder(e.a)
        return Cast(wide, a) if found is None else cast(wide, found.lanes)

    def _fits(self, e: Expr) -> bool:
        """Whether all values of an index are 32-bit integers."""
        low, high = self.analyzer.bounds(e)
        least, most = dt.int_limits(NARROW)
        return low is not None and high is not None and least <= low and high <= most

    def _select(self, e: Select, cond: Expr) -> Expr:
        """A choice of each lane for itself: both sides are evaluated in all lanes."""
        masked = self._masked(e)
        if masked is not None:
            return masked
        lanes, others = self._chosen.sides(e.cond)
        sides = self._side(e.a, lanes), self._side(e.b, others)
        return Select(cond, *map(self.widened, sides))

    def _is_cheap(self, e: Select) -> bool:
        """Whether a choice that data make for all lanes costs less than a branch, which is guessed:
        both sides exist, and take a few instructions."""
        if not e.cond.has_loads or any(map(_is_dear, (e.a, e.b))):
            return False
        return all(map(self._exists, (*loads(e.a), *loads(e.b))))

    def _side(self, side: Expr, wanted: Wanted) -> Expr:
        """A side of a choice, whose value is wanted in some lanes. Where it is in some of these
        alone, as data have it, all that is read has to exist in all of them."""
        needed = wanted.lanes
        if needed is not None and not wanted.exact:
            known = self.analyzer.assuming(wanted.where)
            if not all(load in self.sure or _exists(load, known) for load in loads(side)):
                needed = None
        inner = replace_fields(self, needed=needed, where=wanted.where, memo={})
        return inner.expr(transform(side, inner._harmless, {}))

    def _load(self, e: Load, index: Expr) -> Expr:
        load = Load(e.buffer, (index,))
        if self.needed is None or self._exists(e) or not self._maskable(load):
            return load
        zero = Const(0.0 if dt.is_float(e.dtype) else 0, e.dtype)
        return some_lanes(load, *self.needed, Broadcast(zero, self.count))

    def _maskable(self, load: Load) -> bool:
        """Whether the target loads any lanes of a vector, which lie side by side or in twos."""
        index = load.indices[0]
        stride = int_value(index.stride) if isinstance(index, Ramp) else None
        strides = (1, 2) if self.count >= LEAST else (1,)
        bits = dt.bits(load.buffer.dtype)
        known = bits in self.masked_bits and bits * self.count in REGISTERS
        return stride in strides and known and not dt.is_bool(load.buffer.dtype)

    def _masked(self, e: Select) -> Expr | None:
        """`e` as a load of the lanes that hold it, a constant in others, converted where that gives
        the same; None where it is something else."""
        if isinstance(e.a, Cast):
            before = cast(e.a.a.dtype, e.b)
            exact = cast(e.dtype, before) is e.b
            part = self._masked(Select(e.cond, e.a.a, before)) if exact else None
            return None if part is None else Cast(dt.with_lanes(e.dtype, self.count), part)
        if not isinstance(e.b, Const) or not isinstance(e.a, Load):
            return None
        a = self.expr(e.a)
        if not isinstance(a, Load) or not self._maskable(a):
            return None
        outer, low, high, _, exact = self._chosen.held(e.cond)
        if not exact:
            return None
        known = int_value(low) is not None and int_value(high) is not None
        if not known and isinstance(e.a, Load) and self._exists(e.a):
            return None  # a choice costs less than to find the mask
        none = Broadcast(e.b, self.count)
        some = some_lanes(a, *self._chosen.within(low, high), none)
        return some if outer is TRUE or some is none else Select(outer, some, none)

    @property
    def _chosen(self) -> ChosenLanes:
        return ChosenLanes(
            self.var, self.base, self.count, self.analyzer, self.needed, self.where, self.vectors,
            alike=lambda e: self.expr(e) is e,
        )  # fmt: skip

    def _exists(self, load: Load) -> bool:
        """Whether what is loaded is an element in all iterations."""
        return load in self.sure or _exists(load, self.analyzer)

    def _harmless(self, e: Expr) -> Expr | None:
        """`e` where its value is not wanted: a load from some element that exists."""
        if isinstance(e, BinOp) and e.op in ("//", "%") and not int_value(e.b):
            raise NotVectorizable
        if not isinstance(e, Load):
            return None
        if e in self.sure:
            return e
        index, last = e.indices[0], e.buffer.shape[0] - 1
        if self.needed is not None and self._maskable(Load(e.buffer, (self.expr(index),))):
            return e
        if not self.analyzer.prove(0 <= last):
            raise NotVectorizable
        if not self.analyzer.prove(0 <= index):
            index = maximum(index, 0)
        if not self.analyzer.prove(index <= last):
            index = minimum(index, last)
        return Load(e.buffer, (index,))

    def _indices(self, e: BinOp, a: Expr, b: Expr) -> Expr | None:
        """`a op b` of indices as a ramp, a scalar or narrow integers; None where it is neither."""
        if e.a.dtype != dt.INDEX:
            return None
        if e.dtype == dt.INDEX:
            return combined(e.op, a, b, self.count, self.analyzer)
        if e.op not in COMPARISONS:
            return None
        if dt.lanes(b.dtype) == 1:
            return compared(e.op, a, self._remainder(e.a), b, self.count, self.analyzer)
        if dt.lanes(a.dtype) == 1:
            left = self._remainder(e.b)
            return compared(e.op, b, left, a, self.count, self.analyzer, swapped=True)
        return None

    def _remainder(self, e: Expr) -> Remainder | None:
        """`e`, what a number leaves of indices, in narrow integers, if it is that."""
        if not isinstance(e, BinOp) or e.op != "%" or e.dtype != dt.INDEX:
            return None
        return remainder(self.expr(e.a), int_value(e.b), self.count)


def _is_dear(side: Expr) -> bool:
    """Whether some operation of a choice's side takes many instructions, or may have no value."""
    return any(
        isinstance(e, Call) or isinstance(e, BinOp) and e.op in ("//", "%")
        for e in walk_exprs(side, into=lambda e: not isinstance(e, Load))
    )


def _exists(load: Load, analyzer: Analyzer) -> bool:
    """Whether what is loaded is an element, as far as `analyzer` knows the iterations."""
    index, last = load.indices[0], load.buffer.shape[0] - 1
    return analyzer.prove(0 <= index) and analyzer.prove(index <= last)
