"""merge_shared: what is in the shared memory of a block are parts of one array.

What never lives together shares bytes. The outermost loop says how many, and who has which:
annotations `shared_bytes` and `shared_offsets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import AllocationError
from tensorir.expr import Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.passes.flatten_buffers import flat_buffers
from tensorir.passes.gpu.axes import THREAD_AXES, is_kernel, nest_of
from tensorir.passes.rewriting import with_body
from tensorir.stmt import Alloc, For, If, Let, Stmt, Sync, replace, seq
from tensorir.visit import child_stmts, map_children, variables, walk

BYTES = "shared_bytes"
"""Annotation of a kernel's outermost loop: the size of the array."""

OFFSETS = "shared_offsets"
"""Annotation of a kernel's outermost loop: where each buffer begins in the array, in bytes."""

SMALL, WIDE = 16, 128
"""Alignment in bytes of a part: that of a vector, and that of whole rows of banks for parts of as
many bytes."""

FEW = 128
"""Bytes of a buffer, the parts of a reduction say, that has them for itself: threads need not wait
before they are used for something else."""

Span = tuple[int, int]


def merge_shared(func: PrimFunc) -> PrimFunc:
    """Say where in one array each shared buffer lies. Those that never live together share bytes,
    if they are not small.

    rewrite:
        for b in thread("blockIdx.x", 4):       for b in thread("blockIdx.x", 4, annotations={
            ...                                         "shared_bytes": 4096,
            with alloc(S, f32[1024]):       ->          "shared_offsets": {"S": 0, "T": 0}}):
                ...                                 ...
            with alloc(T, f32[64]):                 with alloc(S, f32[1024]):
                ...                                     ...
                                                    sync("block")
                                                    with alloc(T, f32[64]):
                                                        ...

    Threads wait before bytes are used for something else, unless `barriers` finds that none needs
    to. Requires that all that kernels allocate has a constant size; accesses may be flat or not.
    """
    return with_body(func, _visit(func.body, flat_buffers(func)))


def offsets_of(nest: list[For]) -> Mapping[str, int]:
    """Where the shared buffers of the kernel with these loops lie; empty before merge_shared."""
    found: Mapping[str, int] = nest[0].annotations.get(OFFSETS, {})
    return found


def _visit(stmt: Stmt, flat: Callable[[Buffer], Buffer]) -> Stmt:
    if not is_kernel(stmt):
        return map_children(stmt, lambda child: _visit(child, flat))
    sizes = {s.buffer: size_of(flat(s.buffer)) for s in walk(stmt) if isinstance(s, Alloc)}
    allocated = [buffer for buffer in sizes if buffer.scope == "shared"]
    if not allocated:
        return stmt
    nest, body = nest_of(stmt)
    own = frozenset(loop.var for loop in nest if loop.thread in THREAD_AXES)
    arena = _Arena(sizes)
    arena.apart(body, own)
    for buffer in [buffer for buffer in allocated if sizes[buffer] <= FEW]:
        if buffer not in arena.spans:
            arena.put(buffer, arena.end)
    arena.place(body, arena.end)
    body = arena.ordered(body)
    notes = {BYTES: arena.end, OFFSETS: {b.name: low for b, (low, _) in arena.spans.items()}}
    nest[0] = replace(nest[0], annotations={**nest[0].annotations, **notes})
    for loop in reversed(nest):
        body = replace(loop, body=body)
    return body


def size_of(buffer: Buffer) -> int:
    """In bytes, of a flat buffer."""
    count = int_value(buffer.shape[0])
    if count is None:
        raise AllocationError(
            f"{buffer.name!r} is in {buffer.scope} memory and has {buffer.shape[0]!r} elements; "
            "what a kernel allocates has a constant size: compute it tile by tile, or keep it in "
            "'global'"
        )
    return count * dt.itemsize(buffer.dtype)


@dataclass
class _Arena:
    sizes: Mapping[Buffer, int]
    """In bytes."""
    spans: dict[Buffer, Span] = field(default_factory=dict)
    end: int = 0

    def put(self, buffer: Buffer, base: int) -> int:
        """The first byte after `buffer`, which lies at `base` or soon after it."""
        size = self.sizes[buffer]
        unit = WIDE if size >= WIDE else SMALL
        low = -(-base // unit) * unit
        self.spans[buffer] = low, low + size
        self.end = max(self.end, low + size)
        return low + size

    def apart(self, stmt: Stmt, own: frozenset[Var]) -> None:
        """Places for buffers that only some threads come to: bytes of their own, as nobody can wait
        there."""
        if isinstance(stmt, Let) and (variables(stmt.value) & own or stmt.value.has_loads):
            own |= {stmt.var}
        condition: Expr | None = None
        if isinstance(stmt, If):
            condition = stmt.cond
        elif isinstance(stmt, For):
            condition = stmt.extent
        if condition is not None and (variables(condition) & own or condition.has_loads):
            for s in walk(stmt):
                if isinstance(s, Alloc) and s.buffer.scope == "shared":
                    self.put(s.buffer, self.end)
            return
        for child in child_stmts(stmt):
            self.apart(child, own)

    def place(self, stmt: Stmt, base: int) -> None:
        """Places for the other buffers of `stmt`, from `base` on."""
        if isinstance(stmt, Alloc) and stmt.buffer.scope == "shared":
            if stmt.buffer not in self.spans:
                base = self.put(stmt.buffer, base)
        for child in child_stmts(stmt):
            self.place(child, base)

    def ordered(self, stmt: Stmt) -> Stmt:
        """`stmt` with a wait before bytes are used that other buffers use."""
        made = map_children(stmt, self.ordered)
        if not isinstance(stmt, Alloc) or stmt.buffer not in self.spans:
            return made
        low, high = self.spans[stmt.buffer]
        others = [span for b, span in self.spans.items() if b is not stmt.buffer]
        shares = any(a < high and low < b for a, b in others)
        return seq(Sync("block"), made) if shares else made
