"""Buffers: named, typed, shaped memory. Interned, like expressions."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from tensorir import dtype as dt
from tensorir.expr import Expr, ExprLike, Load, convert, int_value

SCOPES = ("global", "shared", "local")
"""global: memory all threads see; shared: one CUDA thread block; local: one thread (registers)."""

_buffers: WeakValueDictionary[tuple[Any, ...], "Buffer"] = WeakValueDictionary()


class Buffer:
    """A row-major array of `shape` elements; names are unique within a PrimFunc."""

    __slots__ = ("__weakref__", "dtype", "name", "scope", "shape")
    name: str
    shape: tuple[Expr, ...]
    dtype: str
    scope: str

    def __new__(
        cls, name: str, shape: tuple[ExprLike, ...], dtype: str, scope: str = "global"
    ) -> "Buffer":
        extents = tuple(convert(s, dt.INDEX) for s in shape)
        key = (name, extents, dtype, scope)
        found = _buffers.get(key)
        if found is None:
            found = object.__new__(cls)
            found.name, found.shape, found.dtype, found.scope = key
            found = _buffers.setdefault(key, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (self.name, self.shape, self.dtype, self.scope)

    def __repr__(self) -> str:
        dims = ", ".join(map(repr, self.shape))
        return f"{self.name}: {dt.SHORT[dt.element(self.dtype)]}[{dims}]"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def const_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None where a dimension is symbolic."""
        sizes = tuple(int_value(s) for s in self.shape)
        return None if None in sizes else sizes  # type: ignore[return-value]

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Load:
        given = indices if isinstance(indices, tuple) else (indices,)
        return Load(self, tuple(convert(i, dt.INDEX) for i in given))

    def with_scope(self, scope: str) -> "Buffer":
        return Buffer(self.name, self.shape, self.dtype, scope)

    def with_shape(self, shape: tuple[ExprLike, ...]) -> "Buffer":
        return Buffer(self.name, shape, self.dtype, self.scope)
