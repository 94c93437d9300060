"""Masked vectors: statements of which only the first lanes run
(tensorir.passes.vectors.masked_tails).

A mask is an integer with one bit for each lane, as AVX-512 has them; for AVX2, the helpers make a
vector of it. Loads give 0 in the lanes that
do not run, and stores leave memory as it was; a vector that is a variable keeps its old lanes.
"""

from __future__ import annotations

import math
import re

from backends.c.emit.masked_moves import BitMasks, MaskedMoves, VectorMasks
from backends.c.emit.memory import MemoryEmitter, contiguous_base
from backends.c.emit.native import Native, chooses
from backends.emit.expressions import ATOM, UNARY, Text
from backends.errors import BuildError
from tensorir import (
    Alloc,
    Broadcast,
    Buffer,
    Const,
    Expr,
    If,
    Let,
    Load,
    PrimFunc,
    Select,
    Store,
    Target,
    cast,
    int_value,
    mask_count,
    masked_bits,
    masked_load,
)
from tensorir import dtype as dt

Mask = tuple[str, int]
"""The name of a mask, and its lanes."""


_BETWEEN = """\
{0} {1} {2}(i64 low, i64 high) {{
    low = low < 0 ? 0 : low;
    high = high > {n} ? {n} : high;
    return high > low ? ({1})(~0ull >> (64 - (high - low)) << low) : 0;
}}"""


class MaskedEmitter(MemoryEmitter):
    """Adds masked loads and stores to the emitter."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.mask: Mask | None = None
        self.arrays: set[Buffer] = set()
        """The buffers that are arrays of the function that is printed, and no pointers."""
        self.moves: MaskedMoves = BitMasks() if 8 in masked_bits(target) else VectorMasks()
        self.whole = frozenset(func.attrs.get("whole", ()))
        self.loose = frozenset(func.attrs.get("loose", ()))

    def is_whole(self, buffer: Buffer) -> bool:
        """Whether masked statements load and store all lanes of vectors in `buffer`."""
        return dt.lanes(buffer.dtype) > 1 or buffer.name in self.whole

    def stmt_if(self, s: If) -> None:
        lanes = dt.lanes(s.cond.dtype)
        if lanes == 1:
            return super().stmt_if(s)
        count = mask_count(s.cond)
        if count is None or s.orelse is not None:
            raise BuildError(f"{self.func.name}: no mask for {s.cond!r}; only first lanes have one")
        self.declarations.setdefault(
            "FIRST",
            "#define FIRST(n, lanes) ((n) < (lanes) ? (1ull << (n)) - 1 : ~0ull >> (64 - (lanes)))",
        )
        name = self.names.fresh("first")
        kind = self.type_name(f"uint{max(8, lanes)}")
        start = len(self.lines)
        self.line(f"const {kind} {name} = FIRST({self.expr(count)}, {lanes});")
        self.mask = (name, lanes)
        if isinstance(s.then, (Let, Alloc)):  # their names end with their bodies
            with self.block(""):
                self.stmt(s.then)
        else:
            self.stmt(s.then)
        self.mask = None
        if not any(re.search(rf"\b{name}\b", line) for line in self.lines[start + 1 :]):
            del self.lines[start]

    def expr_load(self, e: Load) -> Text:
        if self.mask is None or dt.lanes(e.dtype) == 1 or self.is_whole(e.buffer):
            return super().expr_load(e)
        return self.load_lanes(e, self.mask[0]), ATOM

    def vector_select(self, e: Select) -> Text:
        found = masked_load(e)
        if found is None or contiguous_base(found[0].indices[0]) is None:
            return super().vector_select(e)
        load, low, high = found
        mask = self.lanes_between(low, high, dt.lanes(load.dtype))
        if self.mask is not None:
            mask = f"{self.mask[0]} & {mask}"
        loaded = self.load_lanes(load, mask, outside=True)
        if _is_zero(e.b):
            return loaded, ATOM
        return f"{self.blend(load.dtype)}({mask}, {loaded}, {self.expr(e.b)})", ATOM

    def lanes_between(self, low: Expr, high: Expr, lanes: int) -> str:
        """The mask of the lanes [low, high), as far as these are in a vector."""
        first, end = int_value(low), int_value(high)
        if first is not None and end is not None:
            return hex((1 << min(max(end, 0), lanes)) - 1 & -1 << min(max(first, 0), lanes))
        kind, name = self.type_name(f"uint{max(8, lanes)}"), f"between_{lanes}"
        self.declarations.setdefault(name, _BETWEEN.format(self.inline, kind, name, n=lanes))
        return f"{name}({self.expr(low)}, {self.expr(high)})"

    def load_lanes(self, e: Load, mask: str, outside: bool = False) -> str:
        """The lanes of a vector whose bit of the mask is set, 0 in others; those may lie `outside`
        of the buffer."""
        base = contiguous_base(e.indices[0])
        assert base is not None
        place = f"&{self.element(e.buffer, (base,))}"
        if outside and e.buffer in self.arrays:  # C has no pointers outside of an array
            size = dt.itemsize(dt.element(e.buffer.dtype))
            at = f"(i64){self.names.of(e.buffer)} + {self.expr(base, UNARY)} * {size}"
            place = f"(const {self.type_name(e.buffer.dtype)} *)({at})"
        return f"{self.load_first(e.dtype)}({mask}, {place})"

    def load_first(self, dtype: str) -> str:
        """The function that loads the lanes whose bit of the mask is set, and 0 in others."""
        lanes, vector = dt.lanes(dtype), self.vector_type(dtype)
        name = f"load_first_{vector}"
        if name not in self.declarations:
            kind = self.type_name(f"uint{max(8, lanes)}")
            element = self.type_name(dt.element(dtype))
            loop = f"for (int i = 0; i < {lanes}; i++) if (m >> i & 1) r[i] = p[i];"
            usual = f"    {vector} r = {{0}};\n    {loop}\n    return r;"
            body = self.native_or(self.moves.load(dtype, vector), "    return $;", usual)
            head = f"{self.inline} {vector} {name}({kind} m, const {element} *p)"
            self.declarations[name] = f"{head} {{\n{body}\n}}"
        return name

    def gatherer(self, vector: str, buffer: Buffer, index: Expr) -> str:
        """Tables of at most four vectors are read whole, and stay in registers if there are any."""
        lanes, size = dt.lanes(index.dtype), int_value(buffer.shape[0]) or 0
        dtype, feature = dt.with_lanes(buffer.dtype, lanes), None
        if dt.lanes(buffer.dtype) == 1 and 1 < size <= 4 * lanes and not self.on_arm:
            feature = chooses(dtype, index.dtype)
        if feature is None:
            return super().gatherer(vector, buffer, index)
        wide = cast(dt.with_lanes("int32", lanes), index)
        usual = super().gatherer(vector, buffer, wide)
        other = "at" if wide is index else self.converted("at", index.dtype, wide.dtype)
        name = f"look_up_{size}_{vector}"
        parts = [
            f"LOAD({vector}, p + {start})"
            if start + lanes <= size
            else f"{self.load_first(dtype)}({hex((1 << size - start) - 1)}, p + {start})"
            for start in range(0, size, lanes)
        ]
        tables = [f"{vector} t{n} = {part};" for n, part in enumerate(parts)]
        found = [
            f"__builtin_shuffle(t{n}, {f't{n + 1}, ' if n + 1 < len(parts) else ''}at)"
            for n in range(0, len(parts), 2)
        ]
        if len(found) > 1:
            mask = self.mask_type(dt.bits(dtype), lanes)
            choose = self.select_helper(vector, mask, lanes, True)
            found[0] = f"{choose}((at & {2 * lanes}) != 0, {found[1]}, {found[0]})"
        use = "\n".join(f"    {line}" for line in (*tables, f"return {found[0]};"))
        body = self.native_or(Native(feature, ""), use, f"    return {usual}(p, {other});")
        params = f"const {self.type_name(buffer.dtype)} *p, {self.type_name(index.dtype)} at"
        text = f"{self.inline} {vector} {name}({params}) {{\n{body}\n}}"
        self.declarations.setdefault(name, text)
        return name

    def store(self, s: Store) -> None:
        if self.mask is None:
            return super().store(s)
        mask, lanes = self.mask
        dtype = dt.with_lanes(dt.element(s.buffer.dtype), lanes)
        value = (
            self.splat(s.value, lanes)[0] if dt.lanes(s.value.dtype) == 1 else self.expr(s.value)
        )
        if self.is_whole(s.buffer):
            if s.buffer.name not in self.loose:
                old = self.expr(Load(s.buffer, s.indices))
                value = f"{self.blend(dtype)}({mask}, {value}, {old})"
            if dt.lanes(s.buffer.dtype) > 1:
                self.line(f"{self.element(s.buffer, s.indices)} = {value};")
                return
        base = contiguous_base(s.indices[0])
        assert base is not None
        place = self.element(s.buffer, (base,))
        if self.is_whole(s.buffer):
            self.line(f"STORE({self.memory_type(dtype)}, &{place}, {value});")
            return
        self.line(f"{self.store_first(dtype)}({mask}, &{place}, {value});")

    def blend(self, dtype: str) -> str:
        """The function that takes lanes of one vector where the mask is set, else of another."""
        vector, lanes = self.vector_type(dtype), dt.lanes(dtype)
        kind = self.type_name(f"uint{max(8, lanes)}")
        params = f"{kind} m, {vector} a, {vector} b"
        lane = "m >> i & 1 ? a[i] : b[i]"
        blended = self.moves.blend(dtype, vector)
        return self.lanes_helper(f"first_{vector}", vector, params, lane, lanes, blended)

    def store_first(self, dtype: str) -> str:
        """The function that stores the lanes whose bit of the mask is set."""
        vector, lanes = self.vector_type(dtype), dt.lanes(dtype)
        name, kind = f"store_first_{vector}", self.type_name(f"uint{max(8, lanes)}")
        if name not in self.declarations:
            usual = f"    for (int i = 0; i < {lanes}; i++) if (m >> i & 1) p[i] = v[i];"
            body = self.native_or(self.moves.store(dtype), "    $;", usual)
            params = f"{kind} m, {self.type_name(dt.element(dtype))} *p, {vector} v"
            self.declarations[name] = f"{self.inline} void {name}({params}) {{\n{body}\n}}"
        return name


def _is_zero(e: Expr) -> bool:
    """Whether all bits of a vector of constants are 0."""
    value = e.a.value if isinstance(e, Broadcast) and isinstance(e.a, Const) else None
    return value is not None and not value and math.copysign(1, value) > 0
