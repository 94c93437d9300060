"""Vectors for GPUs: short, and only in memory. What is computed of them is computed lane by lane.

Languages of GPUs have vectors for the sake of memory: one access of up to 16 bytes for each thread.
So a vector is loaded into a name, each lane of the result is an expression of scalars, and the
lanes are stored as one vector again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backends.emit.expressions import ATOM, Text
from backends.emit.sharing import SharedLoad
from backends.errors import BuildError
from backends.gpu.spelling import SpellingEmitter
from tensorir import (
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Expr,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Store,
    Target,
    Var,
    certain_loads,
    int_value,
    loads,
    walk_exprs,
)
from tensorir import dtype as dt

MOST_BYTES = 16
"""What one thread accesses at once."""


class GpuVectorEmitter(SpellingEmitter):
    """Adds vectors to the emitter; how they are spelled is for the language."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.lanes: dict[tuple[str, int], Var] = {}

    def vector_name(self, dtype: str) -> str:
        """The type of a vector in a register."""
        raise BuildError(f"{self.func.name}: target {self.target.kind!r} has no vectors")

    def vector_load(self, buffer: Buffer, base: Expr, lanes: int) -> str:
        """One access to neighbouring elements."""
        raise BuildError(f"{self.func.name}: target {self.target.kind!r} has no vectors")

    def vector_store(self, buffer: Buffer, base: Expr, lanes: int, value: str) -> str:
        """The statement that stores a vector, without the semicolon."""
        raise BuildError(f"{self.func.name}: target {self.target.kind!r} has no vectors")

    def vector_of(self, dtype: str, lanes: Sequence[str]) -> str:
        """A vector made of scalars."""
        raise BuildError(f"{self.func.name}: target {self.target.kind!r} has no vectors")

    def lane_of(self, vector: str, lane: int) -> str:
        """A lane of a vector that has a name."""
        return f"{vector}[{lane}]"

    def value_type(self, e: Expr) -> str:
        return super().value_type(e) if dt.lanes(e.dtype) == 1 else self.vector_name(e.dtype)

    def lane(self, e: Expr, number: int) -> Expr:
        """One lane of a vector, as an expression of scalars."""
        if dt.lanes(e.dtype) == 1:
            return e
        if e in self.named or isinstance(e, Var):
            return self.named_lane(self.render(e)[0], dt.element(e.dtype), number)
        if isinstance(e, Ramp):
            return e.base + e.stride * number
        if isinstance(e, Broadcast):
            return e.a
        if isinstance(e, Shuffle):
            at, count = e.indices[number], dt.lanes(e.a.dtype)
            return self.lane(e.a, at) if at < count else self.lane(e.b, at - count)
        if isinstance(e, BinOp):
            return BinOp(e.op, self.lane(e.a, number), self.lane(e.b, number))
        if isinstance(e, Cast):
            return Cast(dt.element(e.dtype), self.lane(e.a, number))
        if isinstance(e, Select):
            return Select(*(self.lane(part, number) for part in (e.cond, e.a, e.b)))
        if isinstance(e, Not):
            return Not(self.lane(e.a, number))
        if isinstance(e, Call):
            parts = tuple(self.lane(part, number) for part in e.args)
            return Call(e.name, parts, dt.element(e.dtype))
        if isinstance(e, Load) and dt.lanes(e.buffer.dtype) == 1:
            return Load(e.buffer, tuple(self.lane(i, number) for i in e.indices))
        raise BuildError(f"{self.func.name}: {e!r} has no lanes on target {self.target.kind!r}")

    def named_lane(self, name: str, dtype: str, number: int) -> Expr:
        """A variable that is printed as that lane."""
        key = name, number
        if key not in self.lanes:
            self.lanes[key] = Var(f"{name}.{number}", dtype)
            self.named[self.lanes[key]] = self.lane_of(name, number)
        return self.lanes[key]

    def expr_vector(self, e: Expr) -> Text:
        lanes = range(dt.lanes(e.dtype))
        return self.vector_of(e.dtype, [self.expr(self.lane(e, n)) for n in lanes]), ATOM

    def render(self, e: Expr) -> Text:
        if dt.lanes(e.dtype) == 1 or e in self.named or isinstance(e, Var):
            return super().render(e)
        base = self.whole_access(e)
        if base is not None and isinstance(e, Load):
            return self.vector_load(e.buffer, base, dt.lanes(e.dtype)), ATOM
        if isinstance(e, Select) and dt.lanes(e.cond.dtype) == 1:  # one access, or none
            return self.expr_select(e)
        return self.expr_vector(e)

    def whole_access(self, e: Expr) -> Expr | None:
        """Where the neighbouring elements of memory begin that a load is of; None for others."""
        if not isinstance(e, Load) or e.buffer.scope == "local" or len(e.indices) != 1:
            return None
        (index,) = e.indices
        if not isinstance(index, Ramp) or int_value(index.stride) != 1:
            return None
        if dt.itemsize(e.dtype) > MOST_BYTES:
            raise BuildError(
                f"{self.func.name}: {e!r} is {dt.itemsize(e.dtype)} bytes, and a thread accesses "
                f"{MOST_BYTES} at once"
            )
        return index.base

    def name_vectors(self, roots: Sequence[Expr]) -> list[Expr]:
        """Name the vectors that `roots` load whatever the conditions are, and the numbers of memory
        that are in all lanes of these: a lane each would load them again. Returns those."""
        added: list[Expr] = []
        compound = [root for root in roots if not isinstance(root, Load)]  # others are copied
        nodes = (e for root in compound for e in walk_exprs(root) if isinstance(e, Broadcast))
        broadcast = {load for e in nodes for load in loads(e)}
        for load in (each for root in compound for each in certain_loads(root)):
            if load in self.named:
                continue
            spread = load in broadcast and load.buffer.scope != "local"
            if spread or self.whole_access(load) is not None:
                super().name_load(SharedLoad(load, 0, 1))
                added.append(load)
        return added

    def name_values(self, roots: Sequence[Expr], most: Counter[Expr] | None = None) -> list[Expr]:
        return [*self.name_vectors(roots), *super().name_values(roots, most)]

    def store(self, s: Store) -> None:
        width = max(dt.lanes(index.dtype) for index in s.indices)
        if width == 1:
            return super().store(s)
        value = s.value if dt.lanes(s.value.dtype) > 1 else Broadcast(s.value, width)
        base = self.whole_access(Load(s.buffer, s.indices))
        if base is not None:
            self.line(f"{self.vector_store(s.buffer, base, width, self.expr(value))};")
            return None
        if not isinstance(value, Broadcast) and value not in self.named:  # all come first
            name = self.names.fresh(f"{self.names.of(s.buffer)}_v")
            self.line(f"const {self.vector_name(value.dtype)} {name} = {self.expr(value)};")
            lanes = [self.named_lane(name, dt.element(value.dtype), n) for n in range(width)]
        else:
            lanes = [self.lane(value, n) for n in range(width)]
        for n, lane in enumerate(lanes):
            super().store(Store(s.buffer, tuple(self.lane(i, n) for i in s.indices), lane))
        return None
