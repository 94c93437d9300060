"""Access to memory by vectors: contiguous, strided, and by a vector of indices."""

from __future__ import annotations

from functools import cached_property

from backends.c.emit.adders import AdderEmitter
from backends.c.emit.native import GATHERS, gathered
from backends.c.emit.streaming import FENCE, stream_text
from backends.emit.expressions import ATOM, COMPARE, UNARY, Text
from tensorir import (
    Buffer,
    Cast,
    Expr,
    Load,
    PrimFunc,
    Ramp,
    Stmt,
    Store,
    Target,
    int_value,
    walk,
    walk_exprs,
)
from tensorir import dtype as dt

WIDEST = 64
"""Bytes of a vector register. Of wider vectors gcc 12 makes elements where it compares them: these
are at hand as places, and a vector of them would go through memory."""


class MemoryEmitter(AdderEmitter):
    """Adds loads and stores of vectors to the emitter."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.streamed = frozenset(func.attrs.get("stream", ()))

    @cached_property
    def long_runs(self) -> frozenset[str]:
        """The streamed buffers that are filled in order, of which lines may be stored in pieces."""
        from backends.emit.long_runs import long_runs  # few programs stream anything

        return long_runs(self.func)

    def memory_type(self, dtype: str) -> str:
        """The name of the vector type of a value in memory, which needs no alignment there."""
        stored = dt.with_lanes("uint8" if dt.is_bool(dtype) else dt.element(dtype), dt.lanes(dtype))
        name = self.vector_type(stored)
        size, alignment = dt.itemsize(stored), dt.bits(stored) // 8
        attributes = f"vector_size({size}), aligned({alignment}), may_alias"
        self.declarations.setdefault(
            f"{name}_u",
            f"typedef {self.type_name(dt.element(stored))} {name}_u __attribute__(({attributes}));",
        )
        self.declarations.setdefault("LOAD", "#define LOAD(T, p) ((T)*(const T##_u *)(p))")
        self.declarations.setdefault("STORE", "#define STORE(T, p, v) (*(T##_u *)(p) = (v))")
        return name

    def expr_load(self, e: Load) -> Text:
        buffer, lanes = e.buffer, dt.lanes(e.dtype)
        if lanes == dt.lanes(buffer.dtype):
            return super().expr_load(e)
        (index,) = e.indices
        vector = self.memory_type(e.dtype)
        base = contiguous_base(index)
        if base is not None:
            text = f"LOAD({vector}, &{self.element(buffer, (base,))})"
        else:
            text = self.gather(vector, buffer, index, lanes)
        return (f"{text} != 0", COMPARE) if dt.is_bool(e.dtype) else (text, ATOM)

    def gather(self, vector: str, buffer: Buffer, index: Expr, lanes: int) -> str:
        pointer = f"const {self.type_name(buffer.dtype)} *p"
        if isinstance(index, Ramp):
            params, lane = f"{pointer}, {self.type_name(dt.INDEX)} step", "p[i * step]"
            name = f"load_strided_{vector}"
            args = f"&{self.element(buffer, (index.base,))}, {self.expr(index.stride)}"
            name = self.indexed_name(name, buffer, index)
            return f"{self.lanes_helper(name, vector, params, lane, lanes)}({args})"
        index = narrow_place(index)
        name = self.gatherer(vector, buffer, index)
        return f"{name}({self.names.of(buffer)}, {self.expr(index)})"

    def gatherer(self, vector: str, buffer: Buffer, index: Expr) -> str:
        """The function that loads a vector of elements from places of their own."""
        lanes = dt.lanes(index.dtype)
        made = walk_exprs(index, into=lambda e: not isinstance(e, Load))
        apart = any(dt.itemsize(e.dtype) > WIDEST for e in made)
        name = self.indexed_name(f"{'fetch' if apart else 'gather'}_{vector}", buffer, index)
        if name not in self.declarations:
            # Of a loop over the lanes gcc makes one, through memory.
            usual = f"    return ({vector}){{{', '.join(f'p[at[{i}]]' for i in range(lanes))}}};"
            known = None if apart else gathered(dt.with_lanes(buffer.dtype, lanes), index.dtype)
            if known is not None and known.feature == "GATHERS" and not self.on_arm:
                self.declarations.setdefault(known.feature, GATHERS)
            body = self.native_or(known, "    return $;", usual)
            pointer = f"const {self.type_name(buffer.dtype)} *p"
            head = f"{self.inline} {vector} {name}({pointer}, {self.type_name(index.dtype)} at)"
            self.declarations[name] = f"{head} {{\n{body}\n}}"
        return name

    def indexed_name(self, name: str, buffer: Buffer, index: Expr) -> str:
        """Bool and uint8 share a vector type, and so may indices of several types."""
        prefix = "bool_" if dt.is_bool(buffer.dtype) else ""
        odd = not isinstance(index, Ramp) and dt.element(index.dtype) != dt.INDEX
        return f"{prefix}{f'{dt.SHORT[dt.element(index.dtype)]}_' if odd else ''}{name}"

    def store(self, s: Store) -> None:
        width = max(dt.lanes(i.dtype) for i in s.indices)
        if width == 1:
            return super().store(s)
        (index,) = s.indices
        dtype = dt.with_lanes(s.buffer.dtype, width)
        vector = self.memory_type(dtype)
        if dt.is_bool(dtype):
            value = f"({vector})({self.masked(s.value, 8, UNARY)} & 1)"
        elif dt.lanes(s.value.dtype) == 1:
            value = self.splat(s.value, width)[0]
        else:
            value = self.expr(s.value)
        base = contiguous_base(index)
        if base is not None:
            place = f"&{self.element(s.buffer, (base,))}"
            streams = self.stream_helper(s.buffer, vector, dt.itemsize(dtype))
            call = (
                f"{streams}({place}, {value})" if streams else f"STORE({vector}, {place}, {value})"
            )
            self.line(f"{call};")
        else:
            self.scatter(vector, s.buffer, index, width, value)

    def stream_helper(self, buffer: Buffer, vector: str, size: int) -> str | None:
        """The function that stores such vectors past the caches; None where they are not to."""
        if buffer.name not in self.streamed or self.on_arm:
            return None
        pieces = buffer.name in self.long_runs
        name = f"stream_{vector}{'_pieces' if pieces else ''}"
        text = stream_text(name, self.inline, vector, size, pieces)
        if text is None:
            return None
        self.declarations.setdefault(name, text)
        self.declarations.setdefault("STREAM_FENCE", FENCE)
        return name

    def stream_fence(self, below: Stmt) -> None:
        """A fence after the streamed stores of `below`, if there are any."""
        stores = (s for s in walk(below) if isinstance(s, Store))
        if "STREAM_FENCE" in self.declarations and any(
            s.buffer.name in self.streamed for s in stores
        ):
            self.line("STREAM_FENCE();")

    def scatter(self, vector: str, buffer: Buffer, index: Expr, lanes: int, value: str) -> None:
        pointer = f"{self.type_name(buffer.dtype)} *p"
        if isinstance(index, Ramp):
            params, lane = f"{pointer}, {self.type_name(dt.INDEX)} step", "p[i * step]"
            name = "store_strided"
            args = f"&{self.element(buffer, (index.base,))}, {self.expr(index.stride)}"
        else:
            index = narrow_place(index)
            params, lane = f"{pointer}, {self.type_name(index.dtype)} at", "p[at[i]]"
            name = "scatter"
            args = f"{self.names.of(buffer)}, {self.expr(index)}"
        name = self.indexed_name(f"{name}_{vector}", buffer, index)
        self.declarations.setdefault(
            name,
            f"{self.inline} void {name}({params}, {vector} v) {{\n"
            f"    for (int i = 0; i < {lanes}; i++) {lane} = v[i];\n}}",
        )
        self.line(f"{name}({args}, {value});")


def contiguous_base(index: Expr) -> Expr | None:
    """The first of the neighbouring elements that a vector index names; None where it is none."""
    return index.base if isinstance(index, Ramp) and int_value(index.stride) == 1 else None


def narrow_place(index: Expr) -> Expr:
    """The places of a gather, in the integers that they were computed in (narrow_gathers)."""
    narrow = isinstance(index, Cast) and dt.element(index.a.dtype) in ("uint8", "uint16", "int32")
    return index.a if isinstance(index, Cast) and narrow else index
