"""flatten_buffers: every buffer gets one dimension, and every access one simplified index."""

from __future__ import annotations

from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load
from tensorir.func import PrimFunc
from tensorir.passes.ranges import function_analyzer
from tensorir.stmt import Alloc, Stmt, Store, replace
from tensorir.visit import map_children, map_own_exprs, transform


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Lay every buffer out row by row; its shape becomes the number of its elements.

    Parameters keep their order, so sizes that appear in their shapes do too.
    """
    flat = _Flatten(function_analyzer(func))
    params = tuple([flat.buffer(p) for p in func.params])
    buffers = tuple([flat.buffer(b) for b in func.buffers])
    body = flat.stmt(func.body)
    same = body is func.body and params == func.params and buffers == func.buffers
    return func if same else replace_fields(func, params=params, buffers=buffers, body=body)


class _Flatten:
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.memo: dict[Expr, Expr] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            size: Expr = Const(1, dt.INDEX)
            for extent in buffer.shape:
                size = size * extent
            found = buffer if buffer.ndim == 1 else buffer.with_shape((size,))
            self.buffers[buffer] = found
        return found

    def index(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        result: Expr = indices[0] if indices else Const(0, dt.INDEX)
        for index, extent in zip(indices[1:], buffer.shape[1:]):
            result = result * extent + index
        return (self.analyzer.simplify(result),)

    def load(self, e: Expr) -> Expr | None:
        if not isinstance(e, Load):
            return None
        return Load(self.buffer(e.buffer), self.index(e.buffer, e.indices))

    def expr(self, e: Expr) -> Expr:
        return transform(e, self.load, self.memo)

    def stmt(self, stmt: Stmt) -> Stmt:
        stmt = map_own_exprs(map_children(stmt, self.stmt), self.expr)
        if isinstance(stmt, Store):
            buffer, indices = self.buffer(stmt.buffer), self.index(stmt.buffer, stmt.indices)
            same = buffer is stmt.buffer and indices[0] is stmt.indices[0]
            return stmt if same else Store(buffer, indices, stmt.value)
        if isinstance(stmt, Alloc):
            buffer = self.buffer(stmt.buffer)
            return stmt if buffer is stmt.buffer else replace(stmt, buffer=buffer)
        return stmt
