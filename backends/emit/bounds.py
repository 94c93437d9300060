"""Bounds: where C's division, which rounds towards zero, is the floor division of the IR."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tensorir import BinOp, Broadcast, Cast, Const, Expr, Ramp, Select, SizeRanges, Var, int_value
from tensorir import dtype as dt

_KEEP_SIGN = ("+", "*", "//", "max", "&", "|", ">>")


class Bounds:
    """Knows which variables are never negative: loops, and all sizes but some scalars."""

    def __init__(
        self,
        sizes: SizeRanges,
        indices: Collection[str] = (dt.INDEX,),
        values: Collection[Var] = (),
    ) -> None:
        """`indices` are the types of indices, which never leave them; `values` are data."""
        self._values = frozenset(values)
        self._natural = {size for size, least in sizes if least is not None and least >= 0}
        self._indices = indices

    @contextmanager
    def loop(self, var: Var, extent: Expr) -> Iterator[None]:
        """Within, `var` runs from zero to below `extent`."""
        self._natural.add(var)
        yield
        self._natural.discard(var)

    def plain_division(self, a: Expr, b: Expr) -> bool:
        """Whether C's `a / b` and `a % b` are what the IR means, and do not trap."""
        divisor = int_value(b.a if isinstance(b, Broadcast) else b)
        return divisor is not None and divisor > 0 and self.is_natural(a)

    def is_natural(self, e: Expr) -> bool:
        """Whether `e` is proved not to be negative, from the signs of its parts alone."""
        if isinstance(e, Const):
            return e.value >= 0
        if dt.is_unsigned(e.dtype) or dt.is_bool(e.dtype):
            return True
        if dt.element(e.dtype) not in self._indices:
            return isinstance(e, Cast) and dt.bits(e.a.dtype) < dt.bits(e.dtype) and self._fits(e)
        return self._is_natural_index(e)

    def _is_natural_index(self, e: Expr) -> bool:
        if isinstance(e, Var):
            return e in self._natural
        if isinstance(e, BinOp):
            if e.dtype != dt.INDEX and self._has_data(e):  # which wrap
                return False
            if e.op == "%":
                return (int_value(e.b) or 0) > 0
            if e.op == "min":
                return self.is_natural(e.a) and self.is_natural(e.b)
            if e.op == "max":
                return self.is_natural(e.a) or self.is_natural(e.b)
            return e.op in _KEEP_SIGN and self.is_natural(e.a) and self.is_natural(e.b)
        if isinstance(e, Ramp):
            return self.is_natural(e.base) and self.is_natural(e.stride)
        if isinstance(e, Broadcast):
            return self.is_natural(e.a)
        if isinstance(e, Select):
            return self.is_natural(e.a) and self.is_natural(e.b)
        return isinstance(e, Cast) and self._fits(e)

    def _has_data(self, e: Expr) -> bool:
        """Whether memory is read, or a number among the arguments that is no size."""
        return e.has_loads or not e.variables.isdisjoint(self._values)

    def _fits(self, e: Cast) -> bool:
        """Whether a conversion from a wider or equal integer cannot bring in a sign."""
        source = e.a.dtype
        if not (dt.is_int(source) or dt.is_bool(source)):
            return False
        return dt.int_limits(source)[1] <= dt.int_limits(e.dtype)[1] and self.is_natural(e.a)
