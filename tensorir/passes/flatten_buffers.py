"""flatten_buffers: every buffer gets one dimension, and every access one simplified index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load, maximum
from tensorir.func import PrimFunc
from tensorir.passes.facts.alignment import aligned_strides
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.simplify import simplify_data
from tensorir.passes.swizzle import SWIZZLE, Swizzles, swizzled, swizzled_size
from tensorir.stmt import Alloc, Exchange, Extern, Part, Prefetch, Stmt, Store, replace
from tensorir.visit import map_children, map_loads, map_own_exprs, map_parts


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Lay every buffer out row by row; its shape becomes the number of its elements. The attributes
    "align" and "swizzle" say of some that rows are further apart, or elements in another order.

    Parameters keep their order, so sizes that appear in their shapes do too.
    """
    flat = _Flatten(func)
    params = tuple([flat.buffer(p) for p in func.params])
    buffers = tuple([flat.buffer(b) for b in func.buffers])
    body = flat.stmt(func.body)
    same = body is func.body and params == func.params and buffers == func.buffers
    return func if same else replace_fields(func, params=params, buffers=buffers, body=body)


def flat_buffers(func: PrimFunc) -> Callable[[Buffer], Buffer]:
    """What each buffer of a program becomes, or has become already."""
    return _Flatten(func).buffer


ONE = Const(1, dt.INDEX)


class _Flatten:
    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = function_analyzer(func)
        self.align: Mapping[str, Sequence[int]] = func.attrs.get("align", {})
        self.swizzles: Swizzles = func.attrs.get(SWIZZLE, {})
        self.given = frozenset(func.params)
        self.memo: dict[Expr, Expr] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            made = buffer if buffer in self.given else self.with_room(buffer)
            strides = aligned_strides(made, self.align)
            size = _product(made.shape) if strides is None else strides[0]
            if isinstance(size, Const) and size.value == 0:
                # The sizes beside an extent of 0 must stay: the kernel takes them in this order.
                size = _product(tuple(e for e in buffer.shape if not isinstance(e, Const)), size)
            if buffer.name in self.swizzles:
                size = swizzled_size(size, self.swizzles[buffer.name], self.analyzer)
            same = buffer.ndim == 1 and size is buffer.shape[0]
            found = buffer if same else buffer.with_shape((size,))
            self.buffers[buffer] = found
        return found

    def with_room(self, buffer: Buffer) -> Buffer:
        """An intermediate for which there is room where an extent is less than 0, as n - 2 of one
        element: nothing of it is used there. Arguments are refused by then."""
        known = [isinstance(e, Const) or self.analyzer.decide(e >= 0) for e in buffer.shape]
        if all(known):
            return buffer
        shape = (e if is_room else maximum(e, 0) for e, is_room in zip(buffer.shape, known))
        return buffer.with_shape(tuple(shape))

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        (index,) = self.dense_index(buffer, indices)
        wanted = self.swizzles.get(buffer.name)
        return (index if wanted is None else swizzled(index, wanted, self.analyzer),)

    def dense_index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        strides = aligned_strides(buffer, self.align)
        if strides is not None:
            places = [index * stride for index, stride in zip(indices, strides[1:])]
            return (simplify_data(self.analyzer, sum(places[1:], places[0])),)
        result: Expr = indices[0] if indices else Const(0, dt.INDEX)
        for index, extent in zip(indices[1:], buffer.shape[1:]):
            result = result * extent + index
        return (simplify_data(self.analyzer, result),)

    def load(self, e: Load) -> Expr:
        return Load(self.buffer(e.buffer), self.index(e.buffer, e.indices))

    def part(self, part: Part) -> Part:
        return Part(self.buffer(part.buffer), self.index(part.buffer, part.indices), part.shape)

    def expr(self, e: Expr) -> Expr:
        return map_loads(e, self.load, self.memo)

    def stmt(self, stmt: Stmt) -> Stmt:
        stmt = map_own_exprs(map_children(stmt, self.stmt), self.expr)
        if isinstance(stmt, Store):
            buffer, indices = self.buffer(stmt.buffer), self.index(stmt.buffer, stmt.indices)
            same = buffer is stmt.buffer and indices[0] is stmt.indices[0]
            return stmt if same else Store(buffer, indices, stmt.value)
        if isinstance(stmt, Prefetch):
            return Prefetch(self.buffer(stmt.buffer), self.index(stmt.buffer, stmt.indices))
        if isinstance(stmt, Exchange):
            index = self.index(stmt.buffer, stmt.indices)
            return replace(stmt, buffer=self.buffer(stmt.buffer), indices=index)
        if isinstance(stmt, Extern):
            return map_parts(stmt, self.part)
        if isinstance(stmt, Alloc):
            buffer = self.buffer(stmt.buffer)
            return stmt if buffer is stmt.buffer else replace(stmt, buffer=buffer)
        return stmt


def _product(extents: tuple[Expr, ...], empty: Expr = ONE) -> Expr:
    """The product of `extents`; of none, `empty`."""
    if not extents:
        return empty
    size: Expr = ONE
    for extent in extents:
        size = size * extent
    return size
